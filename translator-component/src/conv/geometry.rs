//! The arithmetic of convolutions: how lengths follow from one another. Checked throughout: any 64-bit input is answered.

use crate::contract::conv::Problem;

/// The length of one spatial dimension of the output, or `None` if the window, dilated, does not fit into the padded input.
///
/// `floor((input + 2·pad − dilation·(window − 1) − 1) / stride) + 1`. MIOpen clamps this to at least 1; a window that does not fit
/// computes nothing that a graph could express.
pub fn output_length(input: i64, window: i64, pad: i64, stride: i64, dilation: i64) -> Option<i64> {
    let padded = pad.checked_mul(2)?.checked_add(input)?;
    let reach = window.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let room = padded.checked_sub(reach)?;
    if room < 0 || stride < 1 { None } else { room.checked_div(stride)?.checked_add(1) }
}

/// The output that the problem's geometry gives for one spatial axis. All ranks must agree already.
pub fn expected_output(problem: &Problem, axis: usize) -> Option<i64> {
    output_length(
        *problem.x.dims.get(axis + 2)?,
        *problem.w.dims.get(axis + 2)?,
        *problem.pads.get(axis)?,
        *problem.strides.get(axis)?,
        *problem.dilations.get(axis)?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(output_length(32, 3, 1, 1, 1), Some(32));
        assert_eq!(output_length(224, 7, 3, 2, 1), Some(112));
        assert_eq!(output_length(9, 3, 0, 1, 4), Some(1));
        assert_eq!(output_length(8, 3, 0, 1, 4), None);
        assert_eq!(output_length(i64::MAX, 3, i64::MAX, 1, 1), None);
    }
}
