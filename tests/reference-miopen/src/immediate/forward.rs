//! The exported functions of the forward convolution in immediate mode. What they have in common with the other directions is in
//! the folder's first module.

use miopen_api::ConvSolution;

use super::Call;
use crate::args::{Obj, Out, Raw};
use crate::convolution::Convolution;
use crate::failure::Outcome;
use crate::handle::Handle;
use crate::problem::Direction;
use crate::tensor::Tensor;

pub fn miopenConvolutionForwardGetSolutionCount(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    count: Out<usize>,
) -> Outcome {
    Call { handle, direction: Direction::Forward, x, w, y, conv }.count(&count)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionForwardGetSolution(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    room: u64,
    count: Out<usize>,
    solutions: Out<ConvSolution>,
) -> Outcome {
    Call { handle, direction: Direction::Forward, x, w, y, conv }.list(room, &count, &solutions)
}

pub fn miopenConvolutionForwardGetSolutionWorkspaceSize(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    solution: u64,
    size: Out<usize>,
) -> Outcome {
    Call { handle, direction: Direction::Forward, x, w, y, conv }.workspace(solution, &size)
}

pub fn miopenConvolutionForwardCompileSolution(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    solution: u64,
) -> Outcome {
    Call { handle, direction: Direction::Forward, x, w, y, conv }.compile(solution)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionForwardImmediate(
    handle: Obj<Handle>,
    w_desc: Obj<Tensor>,
    w: Raw,
    x_desc: Obj<Tensor>,
    x: Raw,
    conv: Obj<Convolution>,
    y_desc: Obj<Tensor>,
    y: Raw,
    _workspace: Raw,
    _workspace_size: u64,
    solution: u64,
) -> Outcome {
    let call = Call { handle, direction: Direction::Forward, x: x_desc, w: w_desc, y: y_desc, conv };
    call.execute([x, w, y], solution)
}
