//! The exported functions of the classic forward convolution. What they have in common with the other directions is in the folder's first module.

use miopen_api::{ConvAlgoPerf, fwd_algorithm};

use crate::args::{Obj, Out, Raw};
use crate::classic::{Call, present, workspace};
use crate::convolution::Convolution;
use crate::failure::Outcome;
use crate::handle::Handle;
use crate::problem::Direction;
use crate::tensor::Tensor;

pub fn miopenConvolutionForwardGetWorkSpaceSize(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    size: Out<usize>,
) -> Outcome {
    workspace(&handle, [&w, &x, &y], &conv, &[size])
}

pub fn miopenConvolutionForwardGetWorkSpaceSizeRange(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    least: Out<usize>,
    most: Out<usize>,
) -> Outcome {
    workspace(&handle, [&w, &x, &y], &conv, &[least, most])
}

#[allow(clippy::too_many_arguments)]
pub fn miopenFindConvolutionForwardAlgorithm(
    handle: Obj<Handle>,
    x_desc: Obj<Tensor>,
    x: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    y_desc: Obj<Tensor>,
    y: Raw,
    requested: i32,
    returned: Out<i32>,
    results: Out<ConvAlgoPerf>,
    _workspace: Raw,
    _workspace_size: u64,
    _exhaustive: bool,
) -> Outcome {
    present(&conv)?;
    let (x, w, y) = ((x_desc, x), (w_desc, w), (y_desc, y));
    let call = Call { direction: Direction::Forward, x, w, y, conv };
    call.find(handle, fwd_algorithm::DIRECT, requested, &returned, &results)
}

/// The real library wants a Find of the same problem on this handle first, else status 7; this one insists only if asked to, see `finds`.
#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionForward(
    handle: Obj<Handle>,
    alpha: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    algorithm: i32,
    beta: Raw,
    y_desc: Obj<Tensor>,
    y: Raw,
    _workspace: Raw,
    _workspace_size: u64,
) -> Outcome {
    present(&conv)?;
    let (x, w, y) = ((x_desc, x), (w_desc, w), (y_desc, y));
    let call = Call { direction: Direction::Forward, x, w, y, conv };
    call.execute(handle, algorithm, alpha, beta)
}
