//! The exported functions of a convolution's gradient with respect to its filter in immediate mode. What they have in common with the other directions is in
//! the folder's first module.

use miopen_api::ConvSolution;

use super::Call;
use crate::args::{Obj, Out, Raw};
use crate::convolution::Convolution;
use crate::failure::Outcome;
use crate::handle::Handle;
use crate::problem::Direction;
use crate::tensor::Tensor;

pub fn miopenConvolutionBackwardWeightsGetSolutionCount(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    dw: Obj<Tensor>,
    count: Out<usize>,
) -> Outcome {
    Call { handle, direction: Direction::BackwardWeights, x, w: dw, y: dy, conv }.count(&count)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBackwardWeightsGetSolution(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    dw: Obj<Tensor>,
    room: u64,
    count: Out<usize>,
    solutions: Out<ConvSolution>,
) -> Outcome {
    Call { handle, direction: Direction::BackwardWeights, x, w: dw, y: dy, conv }.list(room, &count, &solutions)
}

pub fn miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    dw: Obj<Tensor>,
    solution: u64,
    size: Out<usize>,
) -> Outcome {
    Call { handle, direction: Direction::BackwardWeights, x, w: dw, y: dy, conv }.workspace(solution, &size)
}

pub fn miopenConvolutionBackwardWeightsCompileSolution(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    dw: Obj<Tensor>,
    solution: u64,
) -> Outcome {
    Call { handle, direction: Direction::BackwardWeights, x, w: dw, y: dy, conv }.compile(solution)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBackwardWeightsImmediate(
    handle: Obj<Handle>,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    conv: Obj<Convolution>,
    dw_desc: Obj<Tensor>,
    dw: Raw,
    _workspace: Raw,
    _workspace_size: u64,
    solution: u64,
) -> Outcome {
    let call = Call { handle, direction: Direction::BackwardWeights, x: x_desc, w: dw_desc, y: dy_desc, conv };
    call.execute([x, dw, dy], solution)
}
