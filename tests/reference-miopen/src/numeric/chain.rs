//! A convolution, or a tensor as it is, followed by functions of each element: all in double precision, rounded once at the end. Which
//! chains a caller may ask for is not decided here.

use super::convolution::Convolution;
use super::format::{Format, Scale};
use super::tensor::Tensor;
use super::work::{Use, Work};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curve {
    Identity,
    /// 1 / (1 + e^-x)
    Logistic,
    /// beta * tanh(alpha * x)
    Tanh {
        alpha: f64,
        beta: f64,
    },
    /// max(0, x)
    Relu,
    /// log(1 + e^x)
    SoftRelu,
    Abs,
    /// (alpha + beta * x)^gamma
    Power {
        alpha: f64,
        beta: f64,
        gamma: f64,
    },
    /// min(alpha, max(0, x))
    ClippedRelu {
        alpha: f64,
    },
    /// x, or alpha * x where that is not positive
    LeakyRelu {
        alpha: f64,
    },
    /// x, or alpha * (e^x - 1) where it is not positive
    Elu {
        alpha: f64,
    },
    /// max(alpha, min(beta, x))
    Clamp {
        alpha: f64,
        beta: f64,
    },
}

impl Curve {
    /// Its value; NaN for NaN.
    pub fn at(self, x: f64) -> f64 {
        // Comparisons that are false for NaN let it through; minimum and maximum of floating-point numbers would drop it.
        let above = |least: f64, x: f64| if x < least { least } else { x };
        let below = |most: f64, x: f64| if x > most { most } else { x };
        match self {
            Curve::Identity => x,
            Curve::Logistic => 1.0 / (1.0 + (-x).exp()),
            Curve::Tanh { alpha, beta } => beta * (alpha * x).tanh(),
            Curve::Relu => above(0.0, x),
            // The same as log(1 + e^x), but nothing overflows.
            Curve::SoftRelu => above(0.0, x) + (-x.abs()).exp().ln_1p(),
            Curve::Abs => x.abs(),
            Curve::Power { alpha, beta, gamma } => (alpha + beta * x).powf(gamma),
            Curve::ClippedRelu { alpha } => below(alpha, above(0.0, x)),
            Curve::LeakyRelu { .. } if x > 0.0 => x,
            Curve::LeakyRelu { alpha } => alpha * x,
            Curve::Elu { .. } if x > 0.0 => x,
            Curve::Elu { alpha } => alpha * x.exp_m1(),
            Curve::Clamp { alpha, beta } => above(alpha, below(beta, x)),
        }
    }
}

/// What is done to each element. Tensors have size 1 where one number serves a whole axis.
#[derive(Clone, Copy)]
// There are a handful of them at a time.
#[allow(clippy::large_enum_variant)]
pub enum Stage {
    /// Adds `factor` times another tensor's element.
    Add { tensor: Tensor, factor: f64 },
    /// `scale * (x - mean) / sqrt(variance + epsilon) + shift`
    Normalise { scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor, epsilon: f64 },
    /// Applies a function.
    Apply(Curve),
}

/// What comes first.
#[derive(Clone, Copy)]
// There is one of it.
#[allow(clippy::large_enum_variant)]
pub enum Source {
    /// A convolution's result, whatever its output tensor says of format and place.
    Convolution(Convolution),
    /// A tensor of the output's dimensions.
    Tensor(Tensor),
}

/// A chain whose tensors are known to fit.
#[derive(Clone)]
pub struct Chain {
    pub source: Source,
    pub stages: Vec<Stage>,
    pub output: Tensor,
}

impl Work for Chain {
    fn each(&mut self, show: &mut dyn FnMut(&mut Tensor, Use)) {
        match &mut self.source {
            // Its result is nowhere in the caller's memory.
            Source::Convolution(convolution) => convolution.each_input(|tensor| show(tensor, Use::Input)),
            Source::Tensor(tensor) => show(tensor, Use::Input),
        }
        self.stages.iter_mut().flat_map(Stage::tensors).for_each(|tensor| show(tensor, Use::Input));
        show(&mut self.output, Use::Output);
    }

    fn run(&self) {
        // Outlives all reading of the tensor that lies in it.
        let mut sums = Vec::new();
        let source = match self.source {
            Source::Convolution(convolution) => self.convolve(convolution, &mut sums),
            Source::Tensor(tensor) => tensor,
        };
        let (mut row, mut other) = (vec![0.0; self.output.dims[4]], vec![0.0; self.output.dims[4]]);
        for n in 0..self.output.dims[0] {
            for ([d, h], channels) in self.output.rows() {
                for c in channels {
                    source.read_row(n, [c, d, h], &mut row);
                    self.stages.iter().for_each(|stage| stage.apply([n, c, d, h], &mut row, &mut other));
                    self.output.write_row(n, [c, d, h], &row, Scale::PLAIN);
                }
            }
        }
    }
}

impl Chain {
    /// Computes a convolution in double precision, and gives the tensor that has it.
    fn convolve(&self, mut convolution: Convolution, sums: &mut Vec<f64>) -> Tensor {
        let dims = self.output.dims;
        sums.resize(dims.iter().product(), 0.0);
        let mut strides = [1; 5];
        (0..4).rev().for_each(|axis| strides[axis] = strides[axis + 1] * dims[axis + 1]);
        let result = Tensor::new(&dims, &strides, 1, Format::Double, sums.as_mut_ptr().expose_provenance());
        *convolution.result() = result;
        convolution.run();
        result
    }
}

impl Stage {
    fn tensors(&mut self) -> Vec<&mut Tensor> {
        match self {
            Stage::Add { tensor, .. } => vec![tensor],
            Stage::Normalise { scale, shift, mean, variance, .. } => vec![scale, shift, mean, variance],
            Stage::Apply(_) => Vec::new(),
        }
    }

    fn apply(&self, at: [usize; 4], row: &mut [f64], other: &mut [f64]) {
        let mut with = |tensor: &Tensor, change: &dyn Fn(&mut f64, f64)| {
            read_spread(tensor, at, other);
            row.iter_mut().zip(&*other).for_each(|(x, other)| change(x, *other));
        };
        match self {
            Stage::Add { tensor, factor } => with(tensor, &|x, other| *x += factor * other),
            Stage::Normalise { scale, shift, mean, variance, epsilon } => {
                with(mean, &|x, mean| *x -= mean);
                with(variance, &|x, variance| *x /= (variance + epsilon).sqrt());
                with(scale, &|x, scale| *x *= scale);
                with(shift, &|x, shift| *x += shift);
            }
            Stage::Apply(curve) => row.iter_mut().for_each(|x| *x = curve.at(*x)),
        }
    }
}

/// Reads what a tensor has for a row of another: its only element where it has size 1.
fn read_spread(tensor: &Tensor, mut at: [usize; 4], row: &mut [f64]) {
    at.iter_mut().zip(tensor.dims).filter(|(_, dim)| *dim == 1).for_each(|(place, _)| *place = 0);
    let [n, c, d, h] = at;
    let width = tensor.dims[4];
    tensor.read_row(n, [c, d, h], &mut row[..width]);
    if width == 1 {
        row.fill(row[0]);
    }
}
