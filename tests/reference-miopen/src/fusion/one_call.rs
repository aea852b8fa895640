//! A convolution, another tensor, a bias and an activation in one call, without a plan.

use miopen_api::{activation_mode, data_type, status};

use super::operation::per_channel;
use crate::activation::{Activation, curve};
use crate::args::{FromC, In, Obj, Raw};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::handle::Handle;
use crate::numeric::Scale;
use crate::numeric::chain::{Chain, Source, Stage};
use crate::problem::{Direction, Problem, in_memory};
use crate::tensor::Tensor;

/// A scalar; none is 1.
fn factor(scalar: Raw, output: &Tensor) -> f64 {
    let read = match output.data_type {
        data_type::DOUBLE => In::<f64>::from_c(scalar.0).read(),
        _ => In::<f32>::from_c(scalar.0).read().map(f64::from),
    };
    read.unwrap_or(1.0)
}

/// The other tensor. With a factor of 0 it is not looked at, and may be missing.
fn add_other(z: &Obj<Tensor>, memory: Raw, y: &Tensor, factor: f64) -> Result<Option<Stage>, Failure> {
    if factor == 0.0 {
        return Ok(None);
    }
    let z = z.get()?;
    if z.dims != y.dims || z.data_type != y.data_type || z.vector_length != y.vector_length || memory.0.is_null() {
        return Err(bad("z does not fit the output"));
    }
    Ok(Some(Stage::Add { tensor: in_memory(z, memory)?, factor }))
}

fn add_bias(bias: &Tensor, memory: Raw, y: &Tensor) -> Result<Stage, Failure> {
    if bias.data_type != y.data_type || memory.0.is_null() || !per_channel(bias, y) {
        return Err(bad("the bias does not fit the output"));
    }
    Ok(Stage::Add { tensor: in_memory(bias, memory)?, factor: 1.0 })
}

/// `y = activation(alpha1 * convolution(x, w) + alpha2 * z + bias)`. Only RELU, as in the real one; vectorised layouts and transposed
/// convolutions are not implemented.
#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBiasActivationForward(
    mut handle: Obj<Handle>,
    alpha1: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    _algorithm: i32,
    _workspace: Raw,
    _workspace_size: u64,
    alpha2: Raw,
    z_desc: Obj<Tensor>,
    z: Raw,
    bias_desc: Obj<Tensor>,
    bias: Raw,
    activation: Obj<Activation>,
    y_desc: Obj<Tensor>,
    y: Raw,
) -> Outcome {
    let handle = handle.get_mut()?;
    let (out, activation, conv) = (y_desc.get()?, activation.get()?, conv.get()?);
    let problem = Problem { direction: Direction::Forward, x: x_desc.get()?, w: w_desc.get()?, y: out, conv };
    problem.check()?;
    if activation.mode != activation_mode::RELU || out.vector_length != 1 || conv.transposed() {
        return Err(fail(status::NOT_IMPLEMENTED, "only RELU, plain layouts and convolutions that are not transposed are fused"));
    }
    let convolution = problem.work([x, w, y], Scale { alpha: factor(alpha1, out), beta: 0.0 })?;
    let mut stages = Vec::from_iter(add_other(&z_desc, z, out, factor(alpha2, out))?);
    stages.push(add_bias(bias_desc.get()?, bias, out)?);
    stages.push(Stage::Apply(curve(activation.mode, activation.parameters)?));
    let chain = Chain { source: Source::Convolution(convolution), stages, output: in_memory(out, y)?, scale: Scale::PLAIN };
    handle.queue(chain)
}
