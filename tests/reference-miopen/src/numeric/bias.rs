//! One number for each channel: added to a tensor, and summed up from one.

use super::format::Scale;
use super::tensor::Tensor;
use super::work::{Use, Work};

/// What is done with the numbers.
#[derive(Clone, Copy)]
pub enum Operation {
    /// `tensor = alpha * (tensor + bias) + beta * tensor`
    Add,
    /// `bias = alpha * (tensor summed over all but the channels) + beta * bias`
    Sum,
}

/// A bias and a tensor that are known to fit.
#[derive(Clone, Copy)]
pub struct Bias {
    pub operation: Operation,
    pub bias: Tensor,
    pub tensor: Tensor,
    pub scale: Scale,
}

impl Work for Bias {
    fn each(&mut self, show: &mut dyn FnMut(&mut Tensor, Use)) {
        let (input, output) = match self.operation {
            Operation::Add => (&mut self.bias, &mut self.tensor),
            Operation::Sum => (&mut self.tensor, &mut self.bias),
        };
        show(input, Use::Input);
        show(output, Use::Output);
    }

    fn run(&self) {
        match self.operation {
            Operation::Add => add(&self.bias, &self.tensor, self.scale),
            Operation::Sum => sum(&self.tensor, &self.bias, self.scale),
        }
    }
}

fn add(bias: &Tensor, y: &Tensor, scale: Scale) {
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

fn sum(dy: &Tensor, bias: &Tensor, scale: Scale) {
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
