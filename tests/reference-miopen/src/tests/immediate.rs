//! The immediate style: as frameworks call it, and what it refuses.

use core::ptr::null_mut;

use miopen_api::{ConvSolution, conv_algorithm, data_type};

use super::case::{DIRECTIONS, Direction, PLAIN, STYLES, Tensors};
use super::{Pointer, a, code, handle, p, tensor_of};
use crate::classic::backward_weights::miopenConvolutionABBackwardWeightsGetWorkSpaceSize;
use crate::immediate::SOLUTION;
use crate::immediate::backward_data::*;
use crate::immediate::backward_weights::*;
use crate::immediate::forward::*;

/// Descriptors of x, w and y with the convolution, and the calls of a direction.
#[derive(Clone, Copy)]
struct Call {
    handle: Pointer,
    direction: Direction,
    tensors: [Pointer; 3],
    conv: Pointer,
}

impl Call {
    /// The three tensors in the order in which the direction's calls take them: two inputs, and behind the convolution the output.
    fn order<T: Copy>(&self, [x, w, y]: [T; 3]) -> [T; 3] {
        match self.direction {
            Direction::Forward => [w, x, y],
            Direction::BackwardData => [y, w, x],
            Direction::BackwardWeights => [y, x, w],
        }
    }

    fn count(&self, count: Pointer) -> i32 {
        let ([s, t, u], h, c) = (self.order(self.tensors), self.handle, self.conv);
        code(match self.direction {
            Direction::Forward => miopenConvolutionForwardGetSolutionCount(a(h), a(s), a(t), a(c), a(u), a(count)),
            Direction::BackwardData => miopenConvolutionBackwardDataGetSolutionCount(a(h), a(s), a(t), a(c), a(u), a(count)),
            Direction::BackwardWeights => miopenConvolutionBackwardWeightsGetSolutionCount(a(h), a(s), a(t), a(c), a(u), a(count)),
        })
    }

    fn list(&self, room: u64, count: Pointer, list: Pointer) -> i32 {
        let ([s, t, u], h, c) = (self.order(self.tensors), self.handle, self.conv);
        let (n, l) = (a(count), a(list));
        code(match self.direction {
            Direction::Forward => miopenConvolutionForwardGetSolution(a(h), a(s), a(t), a(c), a(u), room, n, l),
            Direction::BackwardData => miopenConvolutionBackwardDataGetSolution(a(h), a(s), a(t), a(c), a(u), room, n, l),
            Direction::BackwardWeights => miopenConvolutionBackwardWeightsGetSolution(a(h), a(s), a(t), a(c), a(u), room, n, l),
        })
    }

    fn workspace(&self, id: u64, size: Pointer) -> i32 {
        let ([s, t, u], h, c) = (self.order(self.tensors), self.handle, self.conv);
        let size = a(size);
        code(match self.direction {
            Direction::Forward => miopenConvolutionForwardGetSolutionWorkspaceSize(a(h), a(s), a(t), a(c), a(u), id, size),
            Direction::BackwardData => miopenConvolutionBackwardDataGetSolutionWorkspaceSize(a(h), a(s), a(t), a(c), a(u), id, size),
            Direction::BackwardWeights => miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(a(h), a(s), a(t), a(c), a(u), id, size),
        })
    }

    fn compile(&self, id: u64) -> i32 {
        let ([s, t, u], h, c) = (self.order(self.tensors), self.handle, self.conv);
        code(match self.direction {
            Direction::Forward => miopenConvolutionForwardCompileSolution(a(h), a(s), a(t), a(c), a(u), id),
            Direction::BackwardData => miopenConvolutionBackwardDataCompileSolution(a(h), a(s), a(t), a(c), a(u), id),
            Direction::BackwardWeights => miopenConvolutionBackwardWeightsCompileSolution(a(h), a(s), a(t), a(c), a(u), id),
        })
    }

    fn execute(&self, memory: [Pointer; 3], id: u64) -> i32 {
        let ([s, t, u], h, c) = (self.order(self.tensors), self.handle, self.conv);
        let ([sp, tp, up], none) = (self.order(memory), a(null_mut()));
        code(match self.direction {
            Direction::Forward => miopenConvolutionForwardImmediate(a(h), a(s), a(sp), a(t), a(tp), a(c), a(u), a(up), none, 0, id),
            Direction::BackwardData => {
                miopenConvolutionBackwardDataImmediate(a(h), a(s), a(sp), a(t), a(tp), a(c), a(u), a(up), none, 0, id)
            }
            Direction::BackwardWeights => {
                miopenConvolutionBackwardWeightsImmediate(a(h), a(s), a(sp), a(t), a(tp), a(c), a(u), a(up), none, 0, id)
            }
        })
    }
}

fn plain(direction: Direction, tensors: &mut Tensors) -> (Call, [Pointer; 3]) {
    let memory = [&mut tensors.x, &mut tensors.w, &mut tensors.y].map(|t| (t.descriptor(), t.data()));
    (Call { handle: handle(), direction, tensors: memory.map(|t| t.0), conv: PLAIN.convolution() }, memory.map(|t| t.1))
}

/// Count, list, workspace, compile, run: the order of XLA.
#[test]
fn computes_what_the_classic_call_does() {
    for case in STYLES {
        for direction in DIRECTIONS {
            case.check_style(direction, |tensors| {
                let (call, memory) = plain(direction, tensors);
                let call = Call { conv: case.convolution(), ..call };
                let (mut count, mut listed, mut size) = (9usize, 9usize, 9usize);
                let mut solutions = [ConvSolution::default(); 3];
                assert_eq!((call.count(p(&mut count)), count), (0, 1));
                assert_eq!((call.list(3, p(&mut listed), p(&mut solutions)), listed), (0, 1));
                let ConvSolution { time, workspace_size, solution_id, algorithm } = solutions[0];
                assert_eq!((workspace_size, solution_id, algorithm), (0, SOLUTION, conv_algorithm::DIRECT));
                assert!(time > 0.0 && solutions[1..] == [ConvSolution::default(); 2], "nothing is written behind the list");
                assert_eq!((call.workspace(solution_id, p(&mut size)), size), (0, 0));
                assert_eq!(call.compile(solution_id), 0);
                assert_eq!(call.execute(memory, solution_id), 0);
            });
        }
    }
}

#[test]
fn solutions_are_of_their_problem() {
    for direction in DIRECTIONS {
        let mut tensors = PLAIN.tensors();
        let (call, memory) = plain(direction, &mut tensors);
        let (mut count, mut solution) = (9usize, ConvSolution::default());
        assert_eq!((call.list(0, p(&mut count), p(&mut solution)), count, solution), (0, 0, ConvSolution::default()));
        assert_eq!([call.list(1, null_mut(), p(&mut solution)), call.list(1, p(&mut count), null_mut())], [3, 3]);
        for id in [0, 1, SOLUTION + 1, u64::MAX] {
            assert_eq!([call.workspace(id, p(&mut count)), call.compile(id), call.execute(memory, id)], [3; 3], "{id}");
        }
        assert_eq!(call.execute([memory[0], null_mut(), memory[2]], SOLUTION), 3);
        let mistakes = [
            Call { handle: null_mut(), ..call },
            Call { conv: null_mut(), ..call },
            Call { tensors: [call.tensors[0], null_mut(), call.tensors[2]], ..call },
            Call { tensors: [call.tensors[0], call.tensors[0], call.tensors[2]], ..call },
        ];
        for wrong in mistakes {
            let listed = [wrong.count(p(&mut count)), wrong.list(1, p(&mut count), p(&mut solution))];
            assert_eq!((listed, wrong.compile(SOLUTION), wrong.execute(memory, SOLUTION)), ([3; 2], 3, 3));
        }
    }
}

#[test]
fn what_cannot_be_computed_has_no_solution() {
    let mut tensors = PLAIN.tensors();
    let (call, memory) = plain(Direction::Forward, &mut tensors);
    for kind in [data_type::INT32, data_type::FLOAT8_FNUZ] {
        let call = Call { tensors: [PLAIN.x, PLAIN.w, &PLAIN.y()].map(|dims| tensor_of(kind, dims, None)), ..call };
        let (mut count, mut solution) = (9usize, ConvSolution::default());
        assert_eq!((call.count(p(&mut count)), count), (6, 0));
        count = 9;
        assert_eq!((call.list(1, p(&mut count), p(&mut solution)), count), (0, 0));
        assert_eq!([call.workspace(SOLUTION, p(&mut count)), call.compile(SOLUTION), call.execute(memory, SOLUTION)], [3; 3]);
    }
}

#[test]
fn the_workspace_query_without_a_handle() {
    let mut tensors = PLAIN.tensors();
    let (Call { tensors: [x, _, y], conv, .. }, _) = plain(Direction::BackwardWeights, &mut tensors);
    let mut size = 9usize;
    let mut status = |case, x, conv| code(miopenConvolutionABBackwardWeightsGetWorkSpaceSize(case, a(x), a(y), a(conv), a(p(&mut size))));
    assert_eq!([status(0, x, conv), status(4, x, conv), status(0, null_mut(), conv), status(0, x, null_mut())], [0, 3, 3, 3]);
    assert_eq!(size, 0);
}
