//! Immediate mode: hipDNN is a solution among native's, under an id of a reserved range.
//!
//! It takes a place of native's list, never one more: callers have fixed room for as many as native has (PyTorch refuses more than ten).

use hipdnn_host::{
    forward::Call,
    problem::{ConvolutionProblem, Problem},
    rules::HostRule,
};
use miopen_api::{ConvSolution, status};

use super::{
    Given, IMPLICIT_GEMM, Listing,
    by_native::{self, ByNative, Written},
    conclude,
    directions::Direction,
    own_workspace, pointers, query_unrecorded, unrecorded, with_problem,
};
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
const OUTPUT: usize = 7;
const WORKSPACE: usize = 8;
const WORKSPACE_BYTES: usize = 9;
const EXECUTED: usize = 10;
const WRITTEN: Written = by_native::argument(OUTPUT, Some(WORKSPACE));
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
    let prepared = with_problem(direction, &direction.query, frame, forwarding, |record, problem| {
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
            let natives: Vec<ConvSolution> = (0..natives).map(|n| solutions.add(n).read_unaligned()).collect();
            let listed = merged(workspace_size, measured, &natives);
            for (n, solution) in listed.iter().enumerate() {
                solutions.add(n).write_unaligned(*solution);
            }
            count.write_unaligned(listed.len());
        }
        Step::status(status::SUCCESS)
    })
}

/// What is listed: hipDNN's solution in the first place of native's list, the last one of which makes room.
fn merged(workspace_size: usize, measured: Option<f32>, natives: &[ConvSolution]) -> Vec<ConvSolution> {
    // Without a measurement, as fast as native's fastest: callers who sort keep the order.
    let time = measured.or(natives.first().map(|fastest| fastest.time)).unwrap_or(0.0);
    let own = ConvSolution { time, workspace_size, solution_id: HIPDNN, algorithm: IMPLICIT_GEMM };
    std::iter::once(own).chain(natives.iter().copied()).take(natives.len().max(1)).collect()
}

/// `…GetSolutionWorkspaceSize` of a solution of hipDNN's; for a problem that hipDNN declines, of native's that executes in its place.
pub fn solution_workspace(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    errors::unmark();
    let size = frame.pointer(SIZE).cast::<usize>();
    if !is_ours(frame.integer(SOLUTION)) || size.is_null() {
        return Step::Native;
    }
    let put = move |workspace: usize| {
        // SAFETY: not null, and MIOpen's contract makes it a place for a size.
        unsafe { size.write_unaligned(workspace) };
        Step::status(status::SUCCESS)
    };
    match prepared(direction, direction.names.solution_workspace, frame, forwarding, status::SUCCESS) {
        Ok((workspace, _)) => put(workspace),
        Err(_) => natives(direction, frame, QUERY, move |_, _, listed| match listed.first() {
            Some(solution) => put(solution.workspace_size),
            None => Step::Native,
        }),
    }
}

/// `…CompileSolution` of a solution of hipDNN's: its plan is built; for a problem that hipDNN declines, native's in its place.
pub fn compile(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    errors::unmark();
    if !is_ours(frame.integer(SOLUTION)) {
        return Step::Native;
    }
    match prepared(direction, direction.names.compile, frame, forwarding, status::SUCCESS) {
        Ok(_) => Step::status(status::SUCCESS),
        Err(_) => natives(direction, frame, QUERY, move |frame, _, listed| match listed.first() {
            Some(solution) => {
                let arguments = frame.arguments().with(SOLUTION, solution.solution_id);
                Step::call(direction.names.compile, arguments, |_, _, status| Step::status(status))
            }
            None => Step::Native,
        }),
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
            let problem = Problem::Convolution(problem);
            let message = format_args!("solution {id}");
            forwarding.host.native_by_policy(&record.state, name, &problem, HostRule::PolicySolution, message);
            return Step::Native;
        }
        let call = Call {
            entry_point: name,
            problem: Problem::Convolution(problem),
            pointers: &pointers(&positions, frame),
            workspace: frame.pointer(WORKSPACE),
            workspace_bytes: frame.integer(WORKSPACE_BYTES) as usize,
        };
        let given = Given { name, written: WRITTEN, frame, state: &record.state };
        conclude(forwarding, &given, forwarding.host.call(&record.state, &call), |call| natively(direction, frame, call))
    };
    with_problem(direction, &positions, frame, forwarding, run).unwrap_or_else(|| unrecorded(frame, forwarding, name))
}

/// Where a call's handle and descriptors are, in the order in which queries take them: of queries, and of the immediate call, which has
/// memory between them.
const QUERY: [usize; 5] = [0, 1, 2, 3, 4];
const EXECUTION: [usize; 5] = [0, 1, 3, 5, 6];

/// Asks native for its solutions, for one to take the place of hipDNN's, which native does not know.
fn natives(
    direction: &'static Direction,
    frame: &Frame,
    descriptors: [usize; 5],
    then: impl FnOnce(&Frame, &'static Forwarding, &[ConvSolution]) -> Step + 'static,
) -> Step {
    let found = Listing::<usize, ConvSolution, CONSIDERED>::new();
    let [count, solutions] = found.arguments();
    let [handle, a, b, convolution, c] = descriptors.map(|n| frame.integer(n));
    let arguments = Arguments::new(&[handle, a, b, convolution, c, CONSIDERED as u64, count, solutions]);
    Step::call(direction.names.list, arguments, move |frame, forwarding, status| {
        let listed = if status == status::SUCCESS { found.read() } else { Vec::new() };
        then(frame, forwarding, &listed)
    })
}

/// Executes a solution of native's: the first that the call's workspace is enough for, else the first, with workspace of the handle's.
fn natively(direction: &'static Direction, frame: &Frame, call: ByNative) -> Step {
    natives(direction, frame, EXECUTION, move |frame, forwarding, listed| {
        let bytes = call.integer(WORKSPACE_BYTES) as usize;
        let fitting = listed.iter().find(|solution| solution.workspace_size <= bytes);
        match (fitting, listed.first()) {
            (Some(solution), _) => call.with(EXECUTED, solution.solution_id).changed(),
            (None, Some(solution)) => {
                let bytes = solution.workspace_size;
                let Some(workspace) = own_workspace(frame, forwarding, bytes) else { return call.unchanged() };
                let call = call.with(WORKSPACE, workspace as u64).with(WORKSPACE_BYTES, bytes as u64);
                call.with(EXECUTED, solution.solution_id).changed()
            }
            // Native says what it makes of an id that it never gave.
            (None, None) => call.unchanged(),
        }
    })
}

/// `miopenGetSolverIdConvAlgorithm(id, algorithm*)`.
pub fn algorithm_of(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    errors::unmark();
    let algorithm = frame.pointer(1).cast::<i32>();
    if !is_ours(frame.integer(0)) || algorithm.is_null() {
        return Step::Native;
    }
    // SAFETY: not null, and MIOpen's contract makes it a place for an enum.
    unsafe { algorithm.write_unaligned(IMPLICIT_GEMM) };
    forwarding.host.answered("miopenGetSolverIdConvAlgorithm");
    Step::status(status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hipdnn_takes_a_place_of_natives_list() {
        let natives = [1, 2, 3].map(|id| ConvSolution { time: id as f32, solution_id: id, ..ConvSolution::default() });
        let ids = |natives: &[ConvSolution]| merged(0, None, natives).iter().map(|solution| solution.solution_id).collect::<Vec<_>>();
        assert_eq!(ids(&natives), [HIPDNN, 1, 2]);
        assert_eq!(ids(&natives[..1]), [HIPDNN]);
        assert_eq!(ids(&[]), [HIPDNN]);
        assert_eq!((merged(0, None, &natives)[0].time, merged(0, Some(9.0), &natives)[0].time), (1.0, 9.0));
    }

    #[test]
    fn ids_are_positive_as_signed_numbers_and_ours() {
        assert!(RESERVED.contains(&HIPDNN) && i64::try_from(*RESERVED.end()).is_ok());
        assert!(!is_ours(1) && !is_ours(u64::MAX) && !is_ours(RESERVED.start() - 1));
    }
}
