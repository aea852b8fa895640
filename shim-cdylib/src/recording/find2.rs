//! Problems, options and solutions of find-2.0.

use std::sync::Arc;

use super::made;
use crate::{convert, forwarding::find2::TENSORS, frame::Frame, records::PartialProblem, routing::Forwarding};

/// `miopenCreateConvProblem(problem*, convDesc, direction)`.
pub fn create_problem(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let Some(problem) = made(frame, 0).filter(|_| success) else { return };
    let problems = forwarding.records.problems.pin();
    let convolution = forwarding.records.convolutions.pin().get(&(frame.integer(1) as usize)).cloned();
    match (convolution, convert::problem_direction(frame.int(2))) {
        (Some(convolution), Some(direction)) => {
            problems.insert(problem, PartialProblem { direction, convolution, tensors: [None, None, None] });
        }
        // An address that another problem had.
        _ => drop(problems.remove(&problem)),
    }
}

/// A problem of another kind may get the address of one that is gone.
pub fn create_other_problem(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if let Some(problem) = made(frame, 0).filter(|_| success) {
        forwarding.records.problems.pin().remove(&problem);
    }
}

/// `miopenSetProblemTensorDescriptor(problem, id, desc)`.
pub fn set_tensor(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let (problems, address) = (forwarding.records.problems.pin(), frame.integer(0) as usize);
    let Some(problem) = problems.get(&address).filter(|_| success) else { return };
    let tensor = forwarding.records.tensors.pin().get(&(frame.integer(2) as usize)).cloned();
    let Some(position) = TENSORS.iter().position(|id| *id == frame.int(1)) else { return };
    let mut problem = problem.clone();
    problem.tensors[position] = tensor;
    problems.insert(address, problem);
}

/// `miopenDestroyProblem(problem)`.
pub fn forget_problem(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.problems.pin().remove(&(frame.integer(0) as usize));
}

/// `miopenCreateFindOptions(options*)`.
pub fn create_options(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if let Some(options) = made(frame, 0).filter(|_| success) {
        forwarding.records.workspace_limits.pin().remove(&options);
    }
}

/// `miopenSetFindOptionWorkspaceLimit(options, bytes)`.
pub fn set_workspace_limit(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if success {
        forwarding.records.workspace_limits.pin().insert(frame.integer(0) as usize, frame.integer(1) as usize);
    }
}

/// `miopenDestroyFindOptions(options)`.
pub fn forget_options(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.workspace_limits.pin().remove(&(frame.integer(0) as usize));
}

/// `miopenFindSolutions(handle, problem, options, solutions*, numSolutions*, maxSolutions)`.
pub fn find_solutions(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let (solutions, count) = (frame.pointer(3).cast::<usize>(), frame.pointer(4).cast::<usize>());
    if !success || solutions.is_null() {
        return;
    }
    let limit = forwarding.records.workspace_limits.pin().get(&(frame.integer(2) as usize)).copied();
    let problems = forwarding.records.problems.pin();
    let problem = problems.get(&(frame.integer(1) as usize)).and_then(|problem| problem.solved(frame.integer(0) as usize, limit));
    let (problem, room) = (problem.map(Arc::new), frame.integer(5) as usize);
    // SAFETY: native succeeded, so it wrote the count where one is wanted, and as many solutions. Without one, only what must be there is.
    let found = if count.is_null() { room.min(1) } else { unsafe { count.read_unaligned() }.min(room) };
    for n in 0..found {
        // SAFETY: as above.
        let solution = unsafe { solutions.add(n).read_unaligned() };
        match &problem {
            Some(problem) => forwarding.records.solutions.found(solution, problem.clone()),
            None => forwarding.records.solutions.forget(solution),
        }
    }
}

/// `miopenDestroySolution(solution)`.
pub fn forget_solution(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.solutions.forget(frame.integer(0) as usize);
}
