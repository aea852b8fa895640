//! Activation descriptors, which function a mode of the API is, and the call that computes one. The functions themselves are in `numeric`.

use miopen_api::activation_mode;

use crate::args::{New, Obj, Out, Raw, create, object};
use crate::failure::{Failure, Outcome, bad};
use crate::handle::Handle;
use crate::numeric::chain::{Chain, Curve, Source, Stage};
use crate::problem::{in_memory, scale};
use crate::tensor::Tensor;

/// An activation descriptor.
pub struct Activation {
    pub mode: i32,
    /// Alpha, beta and gamma.
    pub parameters: [f64; 3],
}
object!(Activation, 0x6d69_4163_7469_7661, "activation descriptor");

/// The function of a mode with the parameters alpha, beta and gamma.
pub fn curve(mode: i32, [alpha, beta, gamma]: [f64; 3]) -> Result<Curve, Failure> {
    Ok(match mode {
        activation_mode::PASTHRU => Curve::Identity,
        activation_mode::LOGISTIC => Curve::Logistic,
        activation_mode::TANH => Curve::Tanh { alpha, beta },
        activation_mode::RELU => Curve::Relu,
        activation_mode::SOFTRELU => Curve::SoftRelu,
        activation_mode::ABS => Curve::Abs,
        activation_mode::POWER => Curve::Power { alpha, beta, gamma },
        activation_mode::CLIPPEDRELU => Curve::ClippedRelu { alpha },
        activation_mode::LEAKYRELU => Curve::LeakyRelu { alpha },
        activation_mode::ELU => Curve::Elu { alpha },
        activation_mode::CLAMP => Curve::Clamp { alpha, beta },
        _ => return Err(bad(format!("{mode} is no activation mode"))),
    })
}

pub fn miopenCreateActivationDescriptor(out: Out<New<Activation>>) -> Outcome {
    create(&out, Activation { mode: activation_mode::PASTHRU, parameters: [0.0; 3] })
}

pub fn miopenDestroyActivationDescriptor(activation: Obj<Activation>) -> Outcome {
    activation.destroy()
}

/// A mode that does not exist is refused (whether the real one looks is not known).
pub fn miopenSetActivationDescriptor(mut activation: Obj<Activation>, mode: i32, alpha: f64, beta: f64, gamma: f64) -> Outcome {
    let activation = activation.get_mut()?;
    let parameters = [alpha, beta, gamma];
    curve(mode, parameters)?;
    *activation = Activation { mode, parameters };
    Ok(())
}

pub fn miopenGetActivationDescriptor(
    activation: Obj<Activation>,
    mode: Out<i32>,
    alpha: Out<f64>,
    beta: Out<f64>,
    gamma: Out<f64>,
) -> Outcome {
    let activation = activation.get()?;
    mode.put(activation.mode)?;
    let outs = [alpha, beta, gamma];
    outs.iter().zip(activation.parameters).try_for_each(|(out, value)| out.put(value))
}

/// y = alpha * function(x) + beta * y, for tensors of one type and the same dimensions. x and y may be one memory.
#[allow(clippy::too_many_arguments)]
pub fn miopenActivationForward(
    mut handle: Obj<Handle>,
    activation: Obj<Activation>,
    alpha: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    beta: Raw,
    y_desc: Obj<Tensor>,
    y: Raw,
) -> Outcome {
    let (handle, activation) = (handle.get_mut()?, activation.get()?);
    let (from, to) = (x_desc.get()?, y_desc.get()?);
    if from.dims != to.dims || from.data_type != to.data_type || from.vector_length != 1 || to.vector_length != 1 {
        return Err(bad("x and y differ"));
    }
    if x.0.is_null() || y.0.is_null() {
        return Err(bad("x or y is null"));
    }
    let scale = scale(alpha, beta, to.data_type)?;
    let stages = vec![Stage::Apply(curve(activation.mode, activation.parameters)?)];
    let chain = Chain { source: Source::Tensor(in_memory(from, x)?), stages, output: in_memory(to, y)?, scale };
    handle.queue(chain)
}
