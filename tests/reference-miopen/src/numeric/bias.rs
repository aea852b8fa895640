//! One number for each channel: added to a tensor, and summed up from one.

use super::format::Scale;
use super::tensor::Tensor;

/// `y = alpha * (y + b) + beta * y`
pub fn add(bias: &Tensor, y: &Tensor, scale: Scale) {
    let mut added = vec![0.0; bias.dims[1]];
    bias.read_channels(0, [0; 3], &mut added);
    let mut row = vec![0.0; y.dims[4]];
    for n in 0..y.dims[0] {
        for ([d, h], channels) in y.rows() {
            for c in channels {
                // Writing adds `beta` times what is still in memory.
                y.read_row(n, [c, d, h], &mut row);
                row.iter_mut().for_each(|value| *value += added[c]);
                y.write_row(n, [c, d, h], &row, scale);
            }
        }
    }
}

/// `b = alpha * (dy summed over all but the channels) + beta * b`
pub fn sum(dy: &Tensor, bias: &Tensor, scale: Scale) {
    let (mut sums, mut row) = (vec![0.0; dy.dims[1]], vec![0.0; dy.dims[4]]);
    for n in 0..dy.dims[0] {
        for ([d, h], channels) in dy.rows() {
            for c in channels {
                dy.read_row(n, [c, d, h], &mut row);
                sums[c] += row.iter().sum::<f64>();
            }
        }
    }
    bias.write_channels(0, [0; 3], &sums, scale);
}
