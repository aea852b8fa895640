//! Operations of a plan: what each is, with copies of the descriptors that it was made with. They belong to their plan, which ends them.

use std::sync::atomic::{AtomicU64, Ordering};

use miopen_api::{batch_norm_mode, status};

use super::plan::Plan;
use crate::activation::curve;
use crate::args::{New, Obj, Out, object};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::tensor::Tensor;

/// What an operation does.
pub enum Kind {
    Convolution { conv: Convolution, w: Tensor },
    Bias { bias: Tensor },
    BatchNorm { mode: i32, parameters: Tensor },
    Activation { mode: i32 },
}

/// An operation.
pub struct Operation {
    /// By which arguments find it: the address of a destroyed operation may become that of another.
    pub number: u64,
    pub kind: Kind,
}
object!(Operation, 0x6d69_4675_7369_6f4f, "fusion operation");

impl Operation {
    pub fn new(kind: Kind) -> Operation {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Operation { number: NEXT.fetch_add(1, Ordering::Relaxed), kind }
    }
}

impl Kind {
    /// Dimensions that come out of the operation where a tensor goes in.
    pub fn output_dims(&self, input: &Tensor) -> Result<Vec<usize>, Failure> {
        let Kind::Convolution { conv, w } = self else { return Ok(input.dims.clone()) };
        if input.vector_length != 1 || w.vector_length != 1 {
            return Err(bad("vectorised layouts cannot be fused"));
        }
        Ok(conv.output_dims(input, w)?.into_iter().map(|dim| dim as usize).collect())
    }

    /// Whether its tensors fit what goes in, as they must for compilation.
    pub fn fits(&self, input: &Tensor) -> bool {
        match self {
            Kind::Bias { bias } => bias.data_type == input.data_type && per_channel(bias, input),
            Kind::BatchNorm { mode: batch_norm_mode::SPATIAL, parameters } => per_channel(parameters, input),
            Kind::BatchNorm { parameters, .. } => per_element(parameters, input),
            Kind::Convolution { .. } | Kind::Activation { .. } => true,
        }
    }
}

/// Whether a tensor has one number for each channel of another.
pub fn per_channel(tensor: &Tensor, of: &Tensor) -> bool {
    let mut dims = vec![1; of.dims.len()];
    dims[1] = of.dims[1];
    tensor.dims == dims && tensor.vector_length == 1
}

/// Whether a tensor has one number for each element of another's images.
fn per_element(tensor: &Tensor, of: &Tensor) -> bool {
    let mut dims = of.dims.clone();
    dims[0] = 1;
    tensor.dims == dims && tensor.vector_length == 1
}

fn add(mut plan: Obj<Plan>, operation: &Out<New<Operation>>, kind: Kind) -> Outcome {
    let plan = plan.get_mut()?;
    if operation.is_null() {
        return Err(bad("no place for the new operation"));
    }
    operation.put(plan.add(kind)?)
}

/// A NULL convolution gives status 7, as it was seen to.
pub fn miopenCreateOpConvForward(plan: Obj<Plan>, operation: Out<New<Operation>>, conv: Obj<Convolution>, w: Obj<Tensor>) -> Outcome {
    if conv.is_null() {
        return Err(fail(status::UNKNOWN_ERROR, "the convolution descriptor is null"));
    }
    add(plan, &operation, Kind::Convolution { conv: conv.get()?.clone(), w: w.get()?.clone() })
}

pub fn miopenCreateOpBiasForward(plan: Obj<Plan>, operation: Out<New<Operation>>, bias: Obj<Tensor>) -> Outcome {
    add(plan, &operation, Kind::Bias { bias: bias.get()?.clone() })
}

pub fn miopenCreateOpActivationForward(plan: Obj<Plan>, operation: Out<New<Operation>>, mode: i32) -> Outcome {
    curve(mode, [0.0; 3])?;
    add(plan, &operation, Kind::Activation { mode })
}

pub fn miopenCreateOpBatchNormInference(plan: Obj<Plan>, operation: Out<New<Operation>>, mode: i32, parameters: Obj<Tensor>) -> Outcome {
    if !batch_norm_mode::ALL.iter().any(|(_, known)| *known == mode) {
        return Err(bad(format!("{mode} is no batch normalisation mode")));
    }
    add(plan, &operation, Kind::BatchNorm { mode, parameters: parameters.get()?.clone() })
}
