//! The classic calls: a convolution with an algorithm, after a Find or without. Whose the call is follows from what Find listed.

use hipdnn_host::{
    forward::Call,
    handle::HandleState,
    problem::{ConvolutionProblem, Problem},
    rules::HostRule,
};
use miopen_api::{ConvAlgoPerf, status};

use super::{
    Given, Listing,
    by_native::{self, ByNative, Written},
    directions::Direction,
    pointers, scalar, unmade, unrecorded, with_problem,
};
use crate::{
    errors,
    frame::{Arguments, Frame, Step},
    records::{HandleRecord, Listed, NativeSearch},
    routing::Forwarding,
};

const ALPHA: usize = 1;
const ALGORITHM: usize = 7;
const BETA: usize = 8;
const RESULT: usize = 9;
const WORKSPACE: usize = 11;
const WORKSPACE_BYTES: usize = 12;
const WRITTEN: Written = by_native::argument(RESULT + 1, Some(WORKSPACE));
/// How many algorithms native is asked for when its search was put off. It has five.
const SEARCHED: usize = 5;

/// `miopenConvolution{Forward,BackwardData,BackwardWeights}`.
pub fn execute(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let (name, algorithm) = (direction.names.classic, frame.int(ALGORITHM));
    let run = |record: &HandleRecord, problem: ConvolutionProblem<'_>| {
        let [Some(alpha), Some(beta)] = [ALPHA, BETA].map(|n| scalar(frame.pointer(n), problem.result())) else {
            return without_scalars(direction, frame, forwarding, record, &problem);
        };
        let problem = ConvolutionProblem { alpha, beta, algorithm: Some(algorithm.cast_unsigned()), ..problem };
        if record.finds.is_natives(&problem, algorithm) {
            errors::unmark();
            let message = format_args!("algorithm {algorithm}");
            let problem = Problem::Convolution(problem);
            forwarding.host.native_by_policy(&record.state, name, &problem, HostRule::PolicyAlgorithm, message);
            return Step::Native;
        }
        let call = Call {
            entry_point: name,
            problem: Problem::Convolution(problem),
            pointers: &pointers(&direction.classic, frame),
            workspace: frame.pointer(WORKSPACE),
            workspace_bytes: frame.integer(WORKSPACE_BYTES) as usize,
        };
        let outcome = forwarding.host.call(&record.state, &call);
        let given = Given { name, written: WRITTEN, frame, state: &record.state };
        super::conclude(forwarding, &given, outcome, |call| natively(direction, call, forwarding, record, &problem))
    };
    with_problem(direction, &direction.classic, frame, forwarding, run).unwrap_or_else(|| unrecorded(frame, forwarding, name))
}

/// Native dereferences scalars; what it makes of null ones it says itself. Not inlined: a call with scalars may have little stack.
#[cold]
#[inline(never)]
fn without_scalars(
    direction: &'static Direction,
    frame: &Frame,
    forwarding: &'static Forwarding,
    record: &HandleRecord,
    problem: &ConvolutionProblem<'_>,
) -> Step {
    let step = unmade(frame, forwarding, direction.names.classic, HostRule::ScalingNull, "alpha or beta");
    match step {
        Step::Native => natively(direction, ByNative::as_it_came(direction.names.classic, frame), forwarding, record, problem),
        step => step,
    }
}

/// How native executes a call that is hipDNN's elsewhere. Where Find listed hipDNN, the caller names its algorithm, which native may not
/// have; and if native's own search was put off, native knows nothing of the problem yet.
fn natively(
    direction: &'static Direction,
    call: ByNative,
    forwarding: &'static Forwarding,
    record: &HandleRecord,
    problem: &ConvolutionProblem<'_>,
) -> Step {
    match record.finds.listed_hipdnn(problem) {
        None => call.unchanged(),
        Some(NativeSearch::Done(listed)) => with_listed(call, forwarding, &record.state, &listed),
        // A search allocates and waits; native says itself what it makes of a call that comes without one.
        Some(NativeSearch::PutOff { .. }) if forwarding.host.is_capturing(&record.state) => call.unchanged(),
        Some(NativeSearch::PutOff { exhaustive }) => search(direction, call, forwarding, problem, exhaustive),
    }
}

/// The call with an algorithm that native listed.
fn with_listed(call: ByNative, forwarding: &Forwarding, state: &HandleState, listed: &[Listed]) -> Step {
    let bytes = call.integer(WORKSPACE_BYTES) as usize;
    let Some(chosen) = choose(listed, call.integer(ALGORITHM) as i32, bytes) else { return call.unchanged() };
    let algorithm = u64::from(chosen.algorithm.cast_unsigned());
    if chosen.workspace <= bytes {
        return call.with(ALGORITHM, algorithm).changed();
    }
    let Some(workspace) = forwarding.host.own_workspace(state, chosen.workspace) else { return call.unchanged() };
    let call = call.with(WORKSPACE, workspace as u64).with(WORKSPACE_BYTES, chosen.workspace as u64);
    call.with(ALGORITHM, algorithm).changed()
}

/// The caller's own algorithm or else the fastest, among those that the caller's workspace is enough for; if it is for none, the fastest.
fn choose(listed: &[Listed], named: i32, bytes: usize) -> Option<Listed> {
    let fitting = || listed.iter().filter(|listed| listed.workspace <= bytes);
    fitting().find(|listed| listed.algorithm == named).or_else(|| fitting().next()).or(listed.first()).copied()
}

/// Native's search, late. It measures on the caller's inputs, but writes elsewhere: the output may be read by the call (beta), or be
/// one of the inputs.
fn search(
    direction: &'static Direction,
    call: ByNative,
    forwarding: &'static Forwarding,
    problem: &ConvolutionProblem<'_>,
    exhaustive: bool,
) -> Step {
    let operands = Problem::Convolution(*problem).operands().unwrap_or_default();
    let bytes = operands.iter().find(|operand| operand.written).and_then(|operand| operand.tensor.extent_bytes());
    let Some(output) = bytes.and_then(|bytes| forwarding.host.scratch(usize::try_from(bytes).ok()?)) else { return call.unchanged() };
    let found = Listing::<i32, ConvAlgoPerf, SEARCHED>::new();
    let [count, results] = found.arguments();
    let classic = |n: usize| call.integer(n);
    let arguments = Arguments::new(&[
        classic(0),
        classic(2),
        classic(3),
        classic(4),
        classic(5),
        classic(6),
        classic(RESULT),
        output.address() as u64,
        SEARCHED as u64,
        count,
        results,
        classic(WORKSPACE),
        classic(WORKSPACE_BYTES),
        u64::from(exhaustive),
    ]);
    Step::call(direction.names.find, arguments, move |frame, forwarding, status| {
        drop(output);
        if status != status::SUCCESS {
            // What native's Find would have answered the caller, who would not have come this far.
            return call.ended(frame, forwarding, status);
        }
        let listed: Vec<Listed> = found.read().iter().map(Listed::from).collect();
        let then = |record: &HandleRecord, problem: ConvolutionProblem<'_>| {
            record.finds.searched(&problem, listed.clone());
            record.state.clone()
        };
        match with_problem(direction, &direction.classic, frame, forwarding, then) {
            Some(state) => with_listed(call, forwarding, &state, &listed),
            None => call.unchanged(),
        }
    })
}

#[cfg(test)]
mod tests {
    use miopen_api::fwd_algorithm::{DIRECT, GEMM, IMPLICIT_GEMM, WINOGRAD};

    use super::*;

    #[test]
    fn natives_substitute_is_the_named_or_the_fastest_that_fits() {
        let listed = [(WINOGRAD, 50), (IMPLICIT_GEMM, 20), (DIRECT, 0)].map(|(algorithm, workspace)| Listed { algorithm, workspace });
        let chosen = |named, bytes| choose(&listed, named, bytes).map(|listed| listed.algorithm);
        assert_eq!(chosen(IMPLICIT_GEMM, 100), Some(IMPLICIT_GEMM));
        assert_eq!(chosen(GEMM, 100), Some(WINOGRAD));
        assert_eq!(chosen(IMPLICIT_GEMM, 10), Some(DIRECT));
        assert_eq!(choose(&listed[..2], IMPLICIT_GEMM, 0).map(|listed| listed.algorithm), Some(WINOGRAD), "with workspace of the handle's");
        assert_eq!(choose(&[], IMPLICIT_GEMM, 100), None);
    }
}
