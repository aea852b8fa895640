//! The arithmetic of convolutions: how lengths follow from one another. Checked throughout: any 64-bit input is answered.

use crate::contract::conv::{Mode, Problem};

/// One spatial axis of a convolution.
#[derive(Clone, Copy)]
struct Axis {
    window: i64,
    pad: i64,
    stride: i64,
    dilation: i64,
}

impl Axis {
    fn of(problem: &Problem, axis: usize) -> Option<Self> {
        Some(Self {
            window: *problem.w.dims.get(axis + 2)?,
            pad: *problem.pads.get(axis)?,
            stride: *problem.strides.get(axis)?,
            dilation: *problem.dilations.get(axis)?,
        })
    }

    /// What one window covers.
    fn reach(self) -> Option<i64> {
        self.window.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)
    }

    /// How many windows fit into a padded input, or `None` if not one does.
    ///
    /// `floor((input + pre + post − dilation·(window − 1) − 1) / stride) + 1`
    fn windows(self, input: i64, post: i64) -> Option<i64> {
        let room = self.pad.checked_add(post)?.checked_add(input)?.checked_sub(self.reach()?)?;
        if room < 0 || self.stride < 1 { None } else { room.checked_div(self.stride)?.checked_add(1) }
    }

    /// How far windows spread, before MIOpen raises the length to 1: `stride·(windows − 1) + reach − 2·pad + output pad`.
    fn spread(self, windows: i64, output_pad: i64) -> Option<i64> {
        let covered = windows.checked_sub(1)?.checked_mul(self.stride)?.checked_add(self.reach()?)?;
        covered.checked_sub(self.pad.checked_mul(2)?)?.checked_add(output_pad)
    }
}

/// The padding behind the end of an axis with which hipDNN's convolution has the problem's lengths, or `None` if there is none. All ranks
/// must agree already.
///
/// MIOpen pads both ends alike, so it is the problem's pad; except where a transposed convolution's pads take away more than there is:
/// MIOpen raises the output's length to 1, and hipDNN needs the padding that makes one element of image meet all windows.
///
/// MIOpen raises an ordinary convolution's output to 1 too where the window does not fit into the padded input. What it then computes is
/// defined nowhere (its own driver refuses such lines), so that is no convolution here.
pub fn post_padding(problem: &Problem, axis: usize) -> Option<i64> {
    let (lengths, a) = (axis + 2, Axis::of(problem, axis)?);
    let (x, y) = (*problem.x.dims.get(lengths)?, *problem.y.dims.get(lengths)?);
    if problem.mode != Mode::Transpose {
        return (a.windows(x, a.pad) == Some(y)).then_some(a.pad);
    }
    let output_pad = *problem.output_pads.get(axis)?;
    let spread = a.spread(x, output_pad)?;
    if !(0..a.stride).contains(&output_pad) || y != spread.max(1) {
        return None;
    }
    // Where the length was raised, several paddings have the lengths; equal ones on both sides are what most engines take.
    let post = if a.windows(y, a.pad) == Some(x) { a.pad } else { a.spread(x, 0)?.checked_add(a.pad)?.checked_sub(y)?.max(0) };
    (a.windows(y, post) == Some(x)).then_some(post)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(window: i64, pad: i64, stride: i64, dilation: i64) -> Axis {
        Axis { window, pad, stride, dilation }
    }

    #[test]
    fn lengths() {
        assert_eq!(axis(3, 1, 1, 1).windows(32, 1), Some(32));
        assert_eq!(axis(7, 3, 2, 1).windows(224, 3), Some(112));
        assert_eq!(axis(3, 0, 1, 4).windows(9, 0), Some(1));
        assert_eq!(axis(3, 0, 1, 4).windows(8, 0), None);
        assert_eq!(axis(3, i64::MAX, 1, 1).windows(i64::MAX, 0), None);
        assert_eq!(axis(3, 1, 2, 1).spread(8, 1), Some(16));
        assert_eq!(axis(1, 2, 1, 1).spread(4, 0), Some(0));
        assert_eq!(axis(3, 0, i64::MAX, 1).spread(8, 0), None);
    }
}
