//! The exported functions of a convolution's gradient with respect to its input in immediate mode. What they have in common with the other directions is in
//! the folder's first module.

use miopen_api::ConvSolution;

use super::Call;
use crate::args::{Obj, Out, Raw};
use crate::convolution::Convolution;
use crate::failure::Outcome;
use crate::handle::Handle;
use crate::problem::Direction;
use crate::tensor::Tensor;

pub fn miopenConvolutionBackwardDataGetSolutionCount(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    w: Obj<Tensor>,
    conv: Obj<Convolution>,
    dx: Obj<Tensor>,
    count: Out<usize>,
) -> Outcome {
    Call { handle, direction: Direction::BackwardData, x: dx, w, y: dy, conv }.count(&count)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBackwardDataGetSolution(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    w: Obj<Tensor>,
    conv: Obj<Convolution>,
    dx: Obj<Tensor>,
    room: u64,
    count: Out<usize>,
    solutions: Out<ConvSolution>,
) -> Outcome {
    Call { handle, direction: Direction::BackwardData, x: dx, w, y: dy, conv }.list(room, &count, &solutions)
}

pub fn miopenConvolutionBackwardDataGetSolutionWorkspaceSize(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    w: Obj<Tensor>,
    conv: Obj<Convolution>,
    dx: Obj<Tensor>,
    solution: u64,
    size: Out<usize>,
) -> Outcome {
    Call { handle, direction: Direction::BackwardData, x: dx, w, y: dy, conv }.workspace(solution, &size)
}

pub fn miopenConvolutionBackwardDataCompileSolution(
    handle: Obj<Handle>,
    dy: Obj<Tensor>,
    w: Obj<Tensor>,
    conv: Obj<Convolution>,
    dx: Obj<Tensor>,
    solution: u64,
) -> Outcome {
    Call { handle, direction: Direction::BackwardData, x: dx, w, y: dy, conv }.compile(solution)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionBackwardDataImmediate(
    handle: Obj<Handle>,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    dx_desc: Obj<Tensor>,
    dx: Raw,
    _workspace: Raw,
    _workspace_size: u64,
    solution: u64,
) -> Outcome {
    let call = Call { handle, direction: Direction::BackwardData, x: dx_desc, w: w_desc, y: dy_desc, conv };
    call.execute([dx, w, dy], solution)
}
