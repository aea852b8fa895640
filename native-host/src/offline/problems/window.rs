//! How the lengths of a convolution follow from one another, as MIOpen's driver computes them.

use thiserror::Error;

/// Lengths that do not belong to any convolution.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// The window does not fit into the input.
    #[error("the window reaches over {reach} elements, but the padded input has {padded}")]
    Window {
        /// What one window covers.
        reach: i64,
        /// Elements of the input with its pads.
        padded: i64,
    },
    /// An output pad that a transposed convolution cannot have.
    #[error("the output pad {pad} must be below the stride {stride}")]
    OutputPad {
        /// The output pad.
        pad: i64,
        /// The stride.
        stride: i64,
    },
    /// No 64-bit number holds a length.
    #[error("a length overflows")]
    Overflow,
}

/// How windows lie on the input: one entry for each spatial dimension.
pub struct Window<'a> {
    /// Lengths of the filter.
    pub filter: &'a [i64],
    /// Distances between windows, at least 1.
    pub strides: &'a [i64],
    /// Distances between elements of a window.
    pub dilations: &'a [i64],
    /// Zero pads.
    pub pads: &'a [i64],
    /// Output pads.
    pub output_pads: &'a [i64],
}

impl Window<'_> {
    /// The lengths of the output.
    pub fn output(&self, input: &[i64], transposed: bool) -> Result<Vec<i64>, Misfit> {
        (0..input.len()).map(|i| if transposed { self.spread(i, input[i]) } else { self.slide(i, input[i]) }).collect()
    }

    /// What one window covers.
    fn reach(&self, i: usize) -> Option<i64> {
        self.filter[i].checked_sub(1)?.checked_mul(self.dilations[i])?.checked_add(1)
    }

    fn slide(&self, i: usize, input: i64) -> Result<i64, Misfit> {
        let padded = self.pads[i].checked_mul(2).and_then(|pads| pads.checked_add(input)).ok_or(Misfit::Overflow)?;
        let reach = self.reach(i).ok_or(Misfit::Overflow)?;
        if padded < reach {
            return Err(Misfit::Window { reach, padded });
        }
        let room = padded.checked_sub(reach).ok_or(Misfit::Overflow)?;
        Ok(room / self.strides[i].max(1) + 1)
    }

    fn spread(&self, i: usize, input: i64) -> Result<i64, Misfit> {
        let (pad, stride) = (self.output_pads[i], self.strides[i]);
        if pad >= stride {
            return Err(Misfit::OutputPad { pad, stride });
        }
        let length = || {
            let covered = stride.checked_mul(input.checked_sub(1)?)?.checked_add(self.reach(i)?)?;
            covered.checked_sub(self.pads[i].checked_mul(2)?)?.checked_add(pad)
        };
        // MIOpen and its driver agree on the least length, whatever the pads take away.
        length().map(|length| length.max(1)).ok_or(Misfit::Overflow)
    }
}
