//! The exported functions of the classic convolution's gradient with respect to its input. What they have in common with the other
//! directions is in the folder's first module.

use miopen_api::{ConvAlgoPerf, bwd_data_algorithm};

use crate::args::{Obj, Out, Raw};
use crate::classic::{Call, present, workspace};
use crate::convolution::Convolution;
use crate::failure::Outcome;
use crate::handle::Handle;
use crate::problem::Direction;
use crate::tensor::Tensor;

pub fn miopenConvolutionBackwardDataGetWorkSpaceSize(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    w: Obj<Tensor>,
    conv: Obj<Convolution>,
    dx: Obj<Tensor>,
    size: Out<usize>,
) -> Outcome {
    workspace(&handle, [&dy, &w, &dx], &conv, &[size])
}

pub fn miopenConvolutionBackwardDataGetWorkSpaceSizeRange(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    w: Obj<Tensor>,
    conv: Obj<Convolution>,
    dx: Obj<Tensor>,
    least: Out<usize>,
    most: Out<usize>,
) -> Outcome {
    workspace(&handle, [&dy, &w, &dx], &conv, &[least, most])
}

#[allow(clippy::too_many_arguments)]
pub fn miopenFindConvolutionBackwardDataAlgorithm(
    handle: Obj<Handle>,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    dx_desc: Obj<Tensor>,
    dx: Raw,
    requested: i32,
    returned: Out<i32>,
    results: Out<ConvAlgoPerf>,
    _workspace: Raw,
    _workspace_size: u64,
    _exhaustive: bool,
) -> Outcome {
    let (dy, w, dx) = ((dy_desc, dy), (w_desc, w), (dx_desc, dx));
    let call = Call { direction: Direction::BackwardData, x: dx, w, y: dy, conv };
    call.find(handle, bwd_data_algorithm::DIRECT, requested, &returned, &results)
}

/// The real library wants a Find of the same problem on this handle first, else status 7; this one insists only if asked to, see `finds`.
#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBackwardData(
    handle: Obj<Handle>,
    alpha: Raw,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    algorithm: i32,
    beta: Raw,
    dx_desc: Obj<Tensor>,
    dx: Raw,
    _workspace: Raw,
    _workspace_size: u64,
) -> Outcome {
    present(&conv)?;
    let (dy, w, dx) = ((dy_desc, dy), (w_desc, w), (dx_desc, dx));
    let call = Call { direction: Direction::BackwardData, x: dx, w, y: dy, conv };
    call.execute(handle, algorithm, alpha, beta)
}
