//! Immediate mode: hipDNN is a solution among native's, under an id of a reserved range.
//!
//! It takes a place of native's list, never one more: callers have fixed room for as many as native has (PyTorch refuses more than ten).

use std::ffi::c_void;

use hipdnn_host::{
    forward::Call,
    problem::{ConvolutionProblem, Problem},
    rules::HostRule,
};
use miopen_api::{ConvSolution, status};

use super::{Asked, IMPLICIT_GEMM, Place, conclude, directions::Direction, pointers, query_unrecorded, unrecorded, with_problem};
use crate::{
    errors,
    frame::{Arguments, Frame, Step},
    records::HandleRecord,
    routing::Forwarding,
};

/// The ids that are hipDNN's: "hipDNN" in ASCII and two bytes. Positive as `int64_t`; MIOpen counts its own solvers from 1.
pub const RESERVED: std::ops::RangeInclusive<u64> = 0x6869_7044_4e4e_0000..=0x6869_7044_4e4e_ffff;
/// The one that is listed: whichever engine hipDNN's heuristics choose.
pub const HIPDNN: u64 = 0x6869_7044_4e4e_0001;

/// `(…, solutionCount)`.
const COUNT: usize = 5;
/// `(…, maxSolutionCount, solutionCount, solutions)`.
const LIST: [usize; 3] = [5, 6, 7];
/// `(…, solution_id, workSpaceSize)` and `(…, solution_id)`.
const SOLUTION: usize = 5;
const SIZE: usize = 6;
/// `(…, workSpace, workSpaceSize, solution_id)`.
const WORKSPACE: usize = 8;
const WORKSPACE_BYTES: usize = 9;
const EXECUTED: usize = 10;
/// How many of native's solutions are looked at for one that fits the caller's workspace.
const CONSIDERED: usize = 16;

fn is_ours(id: u64) -> bool {
    RESERVED.contains(&id)
}

/// Builds the plan of a query's problem: its workspace, and what Find measured it to take, if it did. `Err` is the answer if nothing is
/// known of the problem, or hipDNN has no plan.
fn prepared(
    direction: &'static Direction,
    name: &'static str,
    frame: &Frame,
    forwarding: &Forwarding,
    status: i32,
) -> Result<(usize, Option<f32>), Step> {
    let prepared = with_problem(direction, &direction.query, Asked::PLAIN, frame, forwarding, |record, problem| {
        let workspace = forwarding.host.prepare(&record.state, name, &Problem::Convolution(problem))?;
        Some((workspace, record.finds.measured(&problem).map(|measured| measured.milliseconds)))
    });
    prepared.ok_or_else(|| query_unrecorded(forwarding, name, status))?.ok_or(Step::status(status))
}

/// `…GetSolutionCount`: native's count; where native has none, one as soon as there is a plan of hipDNN's.
pub fn count(direction: &'static Direction, frame: &Frame, _: &'static Forwarding) -> Step {
    errors::unmark();
    let count = frame.pointer(COUNT).cast::<usize>();
    if count.is_null() {
        return Step::Native;
    }
    Step::native_then(frame, move |frame, forwarding, status| {
        // SAFETY: not null, and native wrote it if it succeeded.
        if status == status::SUCCESS && unsafe { count.read_unaligned() } > 0 {
            return Step::status(status);
        }
        match prepared(direction, direction.names.count, frame, forwarding, status) {
            Ok(_) => {
                // SAFETY: as above.
                unsafe { count.write_unaligned(1) };
                Step::status(status::SUCCESS)
            }
            Err(step) => step,
        }
    })
}

/// `…GetSolution`: hipDNN first, then as many of native's as still have a place.
pub fn list(direction: &'static Direction, frame: &Frame, _: &'static Forwarding) -> Step {
    errors::unmark();
    let [max, count, solutions] = LIST;
    let max = frame.integer(max) as usize;
    let (count, solutions) = (frame.pointer(count).cast::<usize>(), frame.pointer(solutions).cast::<ConvSolution>());
    if max == 0 || count.is_null() || solutions.is_null() {
        return Step::Native;
    }
    Step::native_then(frame, move |frame, forwarding, status| {
        let (workspace_size, measured) = match prepared(direction, direction.names.list, frame, forwarding, status) {
            Ok(prepared) => prepared,
            Err(step) => return step,
        };
        // SAFETY: not null; native wrote count and solutions if it succeeded, and there is room for `max` of them, at least one.
        unsafe {
            let natives = if status == status::SUCCESS { count.read_unaligned().min(max) } else { 0 };
            let fastest = (natives > 0).then(|| solutions.read_unaligned().time);
            for n in (1..natives).rev() {
                solutions.add(n).write_unaligned(solutions.add(n - 1).read_unaligned());
            }
            // Without a measurement, as fast as native's fastest: callers who sort keep the order.
            let time = measured.or(fastest).unwrap_or(0.0);
            solutions.write_unaligned(ConvSolution { time, workspace_size, solution_id: HIPDNN, algorithm: IMPLICIT_GEMM });
            count.write_unaligned(natives.max(1));
        }
        Step::status(status::SUCCESS)
    })
}

/// `…GetSolutionWorkspaceSize` of a solution of hipDNN's.
pub fn solution_workspace(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    errors::unmark();
    let size = frame.pointer(SIZE).cast::<usize>();
    if !is_ours(frame.integer(SOLUTION)) || size.is_null() {
        return Step::Native;
    }
    match prepared(direction, direction.names.solution_workspace, frame, forwarding, status::SUCCESS) {
        Ok((workspace, _)) => {
            // SAFETY: not null, and MIOpen's contract makes it a place for a size.
            unsafe { size.write_unaligned(workspace) };
            Step::status(status::SUCCESS)
        }
        // Native says what it makes of an id that it never gave.
        Err(_) => Step::Native,
    }
}

/// `…CompileSolution` of a solution of hipDNN's: its plan is built.
pub fn compile(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    errors::unmark();
    if !is_ours(frame.integer(SOLUTION)) {
        return Step::Native;
    }
    match prepared(direction, direction.names.compile, frame, forwarding, status::SUCCESS) {
        Ok(_) => Step::status(status::SUCCESS),
        Err(_) => Step::Native,
    }
}

/// `…Immediate`.
pub fn execute(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let name = direction.names.immediate;
    let positions = direction.immediate();
    let run = |record: &HandleRecord, problem: ConvolutionProblem<'_>| {
        let id = frame.integer(EXECUTED);
        if !is_ours(id) {
            errors::unmark();
            forwarding.host.native_by_policy(&record.state, name, HostRule::PolicySolution, format_args!("solution {id}"));
            return Step::Native;
        }
        let call = Call {
            entry_point: name,
            problem: Problem::Convolution(problem),
            pointers: &pointers(&positions, frame),
            workspace: frame.pointer(WORKSPACE),
            workspace_bytes: frame.integer(WORKSPACE_BYTES) as usize,
        };
        conclude(forwarding, forwarding.host.call(&record.state, &call), || natively(direction, frame))
    };
    with_problem(direction, &positions, Asked::PLAIN, frame, forwarding, run).unwrap_or_else(|| unrecorded(frame, forwarding, name))
}

/// Executes a solution of native's in place of hipDNN's, which native does not know.
fn natively(direction: &'static Direction, frame: &Frame) -> Step {
    let found = Place::new((0usize, [ConvSolution::default(); CONSIDERED]));
    // SAFETY: the fields of a live allocation; only their addresses are taken.
    let [count, solutions] = unsafe { [(&raw mut (*found.0).0).expose_provenance(), (&raw mut (*found.0).1).expose_provenance()] };
    // The query's descriptors stand in the order of the call's, without the memory between them.
    let arguments = Arguments::new(&[
        frame.integer(0),
        frame.integer(1),
        frame.integer(3),
        frame.integer(5),
        frame.integer(6),
        CONSIDERED as u64,
        count as u64,
        solutions as u64,
    ]);
    Step::call(direction.names.list, arguments, move |frame, forwarding, status| {
        let (count, solutions) = found.read();
        let listed = if status == status::SUCCESS { &solutions[..count.min(CONSIDERED)] } else { &[] };
        let bytes = frame.integer(WORKSPACE_BYTES) as usize;
        let fitting = listed.iter().find(|solution| solution.workspace_size <= bytes);
        let (id, workspace, bytes) = match (fitting, listed.first()) {
            (Some(solution), _) => (solution.solution_id, frame.pointer(WORKSPACE), bytes),
            (None, Some(solution)) => match own_workspace(frame, forwarding, solution.workspace_size) {
                Some(workspace) => (solution.solution_id, workspace, solution.workspace_size),
                None => return Step::Native,
            },
            // Native says what it makes of an id that it never gave.
            (None, None) => return Step::Native,
        };
        let arguments = frame.arguments().with(EXECUTED, id).with(WORKSPACE, workspace as u64).with(WORKSPACE_BYTES, bytes as u64);
        Step::call(direction.names.immediate, arguments, |_, _, status| Step::status(status))
    })
}

fn own_workspace(frame: &Frame, forwarding: &Forwarding, bytes: usize) -> Option<*mut c_void> {
    let handles = forwarding.records.handles.pin();
    forwarding.host.own_workspace(&handles.get(&(frame.integer(0) as usize))?.state, bytes)
}

/// `miopenGetSolverIdConvAlgorithm(id, algorithm*)`.
pub fn algorithm_of(frame: &Frame, _: &'static Forwarding) -> Step {
    errors::unmark();
    let algorithm = frame.pointer(1).cast::<i32>();
    if !is_ours(frame.integer(0)) || algorithm.is_null() {
        return Step::Native;
    }
    // SAFETY: not null, and MIOpen's contract makes it a place for an enum.
    unsafe { algorithm.write_unaligned(IMPLICIT_GEMM) };
    Step::status(status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positive_as_signed_numbers_and_ours() {
        assert!(RESERVED.contains(&HIPDNN) && i64::try_from(*RESERVED.end()).is_ok());
        assert!(!is_ours(1) && !is_ours(u64::MAX) && !is_ours(RESERVED.start() - 1));
    }
}
