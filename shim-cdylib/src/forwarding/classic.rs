//! The classic calls: a convolution with an algorithm, after a Find or without. Whose the call is follows from what Find listed.

use hipdnn_host::{
    forward::Call,
    problem::{ConvolutionProblem, Problem},
    rules::HostRule,
};
use miopen_api::{ConvAlgoPerf, status};

use super::{Asked, Place, directions::Direction, pointers, scalar, unmade, unrecorded, with_problem};
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
/// How many algorithms native is asked for when its search was put off. It has five.
const SEARCHED: usize = 5;

/// `miopenConvolution{Forward,BackwardData,BackwardWeights}`.
pub fn execute(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let name = direction.names.classic;
    let scalars = {
        let tensors = forwarding.records.tensors.pin();
        tensors.get(&(frame.integer(RESULT) as usize)).map(|result| [ALPHA, BETA].map(|n| scalar(frame.pointer(n), result)))
    };
    let (alpha, beta) = match scalars {
        Some([Some(alpha), Some(beta)]) => (alpha, beta),
        Some(_) => return unmade(frame, forwarding, name, HostRule::ScalingNull, "alpha or beta"),
        None => return unrecorded(frame, forwarding, name),
    };
    let asked = Asked { alpha, beta, algorithm: frame.int(ALGORITHM) };
    let run = |record: &HandleRecord, problem: ConvolutionProblem<'_>| {
        if record.finds.is_natives(&problem, asked.algorithm) {
            errors::unmark();
            let message = format_args!("algorithm {}", asked.algorithm);
            forwarding.host.native_by_policy(&record.state, name, HostRule::PolicyAlgorithm, message);
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
        super::conclude(forwarding, outcome, || natively(direction, frame, forwarding, record, &problem))
    };
    with_problem(direction, &direction.classic, asked, frame, forwarding, run).unwrap_or_else(|| unrecorded(frame, forwarding, name))
}

/// Who executes what hipDNN declined. Where Find listed hipDNN, the caller names its algorithm, which native may not have; and if native's
/// own search was put off, native knows nothing of the problem yet.
fn natively(
    direction: &'static Direction,
    frame: &Frame,
    forwarding: &'static Forwarding,
    record: &HandleRecord,
    problem: &ConvolutionProblem<'_>,
) -> Step {
    match record.finds.listed_hipdnn(problem) {
        None => Step::Native,
        Some(NativeSearch::Done(listed)) => with_listed(direction, frame, &listed),
        // A search allocates and waits; native says itself what it makes of a call that comes without one.
        Some(NativeSearch::PutOff { .. }) if forwarding.host.is_capturing(&record.state) => Step::Native,
        Some(NativeSearch::PutOff { exhaustive }) => search(direction, frame, forwarding, problem, exhaustive),
    }
}

/// The call with an algorithm that native listed and that the caller's workspace is enough for: its own, else the fastest.
fn with_listed(direction: &'static Direction, frame: &Frame, listed: &[Listed]) -> Step {
    let bytes = frame.integer(WORKSPACE_BYTES) as usize;
    let fitting = || listed.iter().filter(|listed| listed.workspace <= bytes);
    let chosen = fitting().find(|listed| listed.algorithm == frame.int(ALGORITHM)).or_else(|| fitting().next());
    match chosen {
        Some(chosen) if chosen.algorithm != frame.int(ALGORITHM) => {
            let arguments = frame.arguments().with(ALGORITHM, u64::from(chosen.algorithm.cast_unsigned()));
            Step::call(direction.names.classic, arguments, |_, _, status| Step::status(status))
        }
        _ => Step::Native,
    }
}

/// Native's search, late. It measures on the caller's inputs, but writes elsewhere: the output may be read by the call (beta), or be
/// one of the inputs.
fn search(
    direction: &'static Direction,
    frame: &Frame,
    forwarding: &'static Forwarding,
    problem: &ConvolutionProblem<'_>,
    exhaustive: bool,
) -> Step {
    let operands = Problem::Convolution(*problem).operands().unwrap_or_default();
    let bytes = operands.iter().find(|operand| operand.written).and_then(|operand| operand.tensor.extent_bytes());
    let Some(output) = bytes.and_then(|bytes| forwarding.host.scratch(usize::try_from(bytes).ok()?)) else { return Step::Native };
    let found = Place::new((0i32, [ConvAlgoPerf::default(); SEARCHED]));
    // SAFETY: the fields of a live allocation; only their addresses are taken.
    let [count, results] = unsafe { [(&raw mut (*found.0).0).expose_provenance(), (&raw mut (*found.0).1).expose_provenance()] };
    let classic = |n: usize| frame.integer(n);
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
        count as u64,
        results as u64,
        classic(WORKSPACE),
        classic(WORKSPACE_BYTES),
        u64::from(exhaustive),
    ]);
    Step::call(direction.names.find, arguments, move |frame, forwarding, status| {
        drop(output);
        let (count, results) = found.read();
        let count = if status == status::SUCCESS { usize::try_from(count).unwrap_or(0).min(SEARCHED) } else { 0 };
        let listed: Vec<Listed> = results[..count].iter().map(Listed::from).collect();
        let _ = with_problem(direction, &direction.classic, Asked::PLAIN, frame, forwarding, |record, problem| {
            record.finds.searched(&problem, listed.clone());
        });
        with_listed(direction, frame, &listed)
    })
}
