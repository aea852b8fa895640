//! The exported functions of the classic convolution's gradient with respect to its filter. What they have in common with the other
//! directions is in the folder's first module.

use miopen_api::{ConvAlgoPerf, alpha_beta_case, bwd_weights_algorithm};

use crate::args::{Obj, Out, Raw};
use crate::classic::{Call, workspace};
use crate::convolution::Convolution;
use crate::failure::{Outcome, bad};
use crate::handle::Handle;
use crate::problem::Direction;
use crate::tensor::Tensor;

pub fn miopenConvolutionBackwardWeightsGetWorkSpaceSize(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    dw: Obj<Tensor>,
    size: Out<usize>,
) -> Outcome {
    workspace(&handle, [&dy, &x, &dw], &conv, &[size])
}

pub fn miopenConvolutionBackwardWeightsGetWorkSpaceSizeRange(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    dw: Obj<Tensor>,
    least: Out<usize>,
    most: Out<usize>,
) -> Outcome {
    workspace(&handle, [&dy, &x, &dw], &conv, &[least, most])
}

/// In no header. Without a handle; the case tells whether the scalars are (1, 0).
pub fn miopenConvolutionABBackwardWeightsGetWorkSpaceSize(
    scalars: i32,
    input: Obj<Tensor>,
    output: Obj<Tensor>,
    conv: Obj<Convolution>,
    size: Out<usize>,
) -> Outcome {
    if !alpha_beta_case::ALL.iter().any(|(_, case)| *case == scalars) {
        return Err(bad(format!("{scalars} is no case of alpha and beta")));
    }
    [input, output].iter().try_for_each(|tensor| tensor.get().map(|_| ()))?;
    conv.get()?;
    size.put(0)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenFindConvolutionBackwardWeightsAlgorithm(
    handle: Obj<Handle>,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    conv: Obj<Convolution>,
    dw_desc: Obj<Tensor>,
    dw: Raw,
    requested: i32,
    returned: Out<i32>,
    results: Out<ConvAlgoPerf>,
    _workspace: Raw,
    _workspace_size: u64,
    _exhaustive: bool,
) -> Outcome {
    let (dy, x, dw) = ((dy_desc, dy), (x_desc, x), (dw_desc, dw));
    let call = Call { direction: Direction::BackwardWeights, x, w: dw, y: dy, conv };
    call.find(handle, bwd_weights_algorithm::DIRECT, requested, &returned, &results)
}

/// The real library wants a Find of the same problem on this handle first, else status 7; this one insists only if asked to, see `finds`.
#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBackwardWeights(
    handle: Obj<Handle>,
    alpha: Raw,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    conv: Obj<Convolution>,
    algorithm: i32,
    beta: Raw,
    dw_desc: Obj<Tensor>,
    dw: Raw,
    _workspace: Raw,
    _workspace_size: u64,
) -> Outcome {
    let (dy, x, dw) = ((dy_desc, dy), (x_desc, x), (dw_desc, dw));
    let call = Call { direction: Direction::BackwardWeights, x, w: dw, y: dy, conv };
    call.execute(handle, algorithm, alpha, beta)
}
