//! Classic Find, and how much workspace the classic calls may need: native's answers, with hipDNN's plan among them.

use hipdnn_host::{
    forward::{Call, Measured, Measurement},
    problem::Problem,
};
use miopen_api::{ConvAlgoPerf, status};

use super::{IMPLICIT_GEMM, declined, directions::Direction, failed, pointers, query_unrecorded, unrecorded, with_problem};
use crate::{
    errors,
    frame::{Frame, Step},
    records::{Listed, NativeSearch},
    routing::Forwarding,
};

/// `(…, size_t *workSpaceSize)` of the size query.
const SIZE: usize = 5;
/// `(…, requestAlgoCount, returnedAlgoCount, perfResults, workSpace, workSpaceSize, exhaustiveSearch)` of Find.
const REQUESTED: usize = 8;
const RETURNED: usize = 9;
const RESULTS: usize = 10;
const WORKSPACE: usize = 11;
const WORKSPACE_BYTES: usize = 12;
const EXHAUSTIVE: usize = 13;

/// `miopenConvolution…GetWorkSpaceSize`: enough for native's best algorithm and for hipDNN's plan.
pub fn workspace_size(direction: &'static Direction, frame: &Frame, _: &'static Forwarding) -> Step {
    errors::unmark();
    let size = frame.pointer(SIZE).cast::<usize>();
    if size.is_null() {
        return Step::Native;
    }
    Step::native_then(frame, move |frame, forwarding, status| {
        let name = direction.names.workspace;
        let prepared = with_problem(direction, &direction.query, frame, forwarding, |record, problem| {
            forwarding.host.prepare(&record.state, name, &Problem::Convolution(problem))
        });
        let Some(prepared) = prepared else { return query_unrecorded(forwarding, name, status) };
        let Some(own) = prepared else { return Step::status(status) };
        // SAFETY: not null, and MIOpen's contract makes it a place for a size.
        unsafe {
            let natives = if status == status::SUCCESS { size.read_unaligned() } else { 0 };
            size.write_unaligned(natives.max(own));
        }
        Step::status(status::SUCCESS)
    })
}

/// Where Find puts its answer.
#[derive(Clone, Copy)]
struct Answer {
    requested: usize,
    returned: *mut i32,
    results: *mut ConvAlgoPerf,
}

impl Answer {
    /// `None` if the caller gives no place: native says what it thinks of that.
    fn of(frame: &Frame) -> Option<Self> {
        let requested = usize::try_from(frame.int(REQUESTED)).ok().filter(|&n| n > 0)?;
        let (returned, results) = (frame.pointer(RETURNED).cast(), frame.pointer(RESULTS).cast());
        let answer = Self { requested, returned, results };
        (!answer.returned.is_null() && !answer.results.is_null()).then_some(answer)
    }

    /// What native answered.
    fn natives(self, status: i32) -> Vec<ConvAlgoPerf> {
        if status != status::SUCCESS {
            return Vec::new();
        }
        // SAFETY: native succeeded, so it wrote the count, and as many results (the caller's array has room for what was requested).
        unsafe {
            let count = usize::try_from(self.returned.read_unaligned()).unwrap_or(0).min(self.requested);
            (0..count).map(|n| self.results.add(n).read_unaligned()).collect()
        }
    }

    /// hipDNN's entry, then native's others: never more than native alone would have given, but for the first. An algorithm is listed
    /// once, so native's own entry under hipDNN's gives way.
    ///
    /// A plan that needs more workspace than the caller has takes the handle's own, and none of the caller's.
    fn put(self, own: Measurement, workspace: usize, natives: &[ConvAlgoPerf]) {
        let listed = merged(own, workspace, natives);
        // SAFETY: at most as many as were requested, for which MIOpen's contract makes room; and a place for the count.
        unsafe {
            for (n, perf) in listed.iter().enumerate() {
                self.results.add(n).write_unaligned(*perf);
            }
            self.returned.write_unaligned(listed.len() as i32);
        }
    }
}

/// What Find lists, see [`Answer::put`].
fn merged(own: Measurement, workspace: usize, natives: &[ConvAlgoPerf]) -> Vec<ConvAlgoPerf> {
    let memory = if own.workspace <= workspace { own.workspace } else { 0 };
    let first = ConvAlgoPerf { algorithm: IMPLICIT_GEMM, time: own.milliseconds, memory };
    let others = natives.iter().filter(|perf| perf.algorithm != IMPLICIT_GEMM).copied();
    std::iter::once(first).chain(others).take(natives.len().max(1)).collect()
}

/// `miopenFindConvolution…Algorithm`: hipDNN's measured plan comes first. Where it is all that was asked for, native's search is put off
/// until something needs it, unless the operator wants both.
pub fn find(direction: &'static Direction, frame: &Frame, forwarding: &'static Forwarding) -> Step {
    errors::unmark();
    let Some(answer) = Answer::of(frame) else { return Step::Native };
    if answer.requested > 1 || forwarding.host.settings().find_both {
        return Step::native_then(frame, move |frame, forwarding, status| {
            let natives = answer.natives(status);
            // Native has run, so a decline changes nothing; strict or not, there is an answer.
            with_hipdnn(direction, frame, forwarding, answer, Some(&natives), move || Step::status(status))
        });
    }
    with_hipdnn(direction, frame, forwarding, answer, None, || Step::Native)
}

/// Measures hipDNN's plan and lists it; `otherwise` if there is none.
fn with_hipdnn(
    direction: &'static Direction,
    frame: &Frame,
    forwarding: &'static Forwarding,
    answer: Answer,
    natives: Option<&[ConvAlgoPerf]>,
    otherwise: impl FnOnce() -> Step,
) -> Step {
    let name = direction.names.find;
    let measured = with_problem(direction, &direction.memory, frame, forwarding, |record, problem| {
        let call = Call {
            entry_point: name,
            problem: Problem::Convolution(problem),
            pointers: &pointers(&direction.memory, frame),
            workspace: frame.pointer(WORKSPACE),
            workspace_bytes: frame.integer(WORKSPACE_BYTES) as usize,
        };
        let measured = forwarding.host.measure(&record.state, &call);
        let exhaustive = frame.integer(EXHAUSTIVE) as u8 != 0;
        // A search that failed says nothing; it runs again when something needs it.
        let listed = natives.filter(|natives| !natives.is_empty()).map(|natives| natives.iter().map(Listed::from).collect());
        match (&measured, listed) {
            (Measured::Served(own), listed) => {
                record.finds.found(&problem, *own, listed.map_or(NativeSearch::PutOff { exhaustive }, NativeSearch::Done));
            }
            (_, Some(listed)) => record.finds.searched(&problem, listed),
            (_, None) => {}
        }
        measured
    });
    match measured {
        Some(Measured::Served(own)) => {
            let workspace = frame.integer(WORKSPACE_BYTES) as usize;
            answer.put(own, workspace, natives.unwrap_or_default());
            Step::status(status::SUCCESS)
        }
        Some(Measured::Failed(error)) => failed(error.status),
        Some(Measured::Native) if natives.is_some() => otherwise(),
        Some(Measured::Native) => declined(forwarding, otherwise),
        None if natives.is_some() => {
            let _ = query_unrecorded(forwarding, name, status::SUCCESS);
            otherwise()
        }
        None => unrecorded(frame, forwarding, name),
    }
}

#[cfg(test)]
mod tests {
    use miopen_api::fwd_algorithm::{DIRECT, GEMM, WINOGRAD};

    use super::*;

    fn listed(workspace: usize, natives: &[i32]) -> Vec<(i32, usize)> {
        let natives: Vec<_> = natives.iter().map(|&algorithm| ConvAlgoPerf { algorithm, time: 1.0, memory: 7 }).collect();
        let own = Measurement { milliseconds: 2.0, workspace: 100 };
        merged(own, workspace, &natives).iter().map(|perf| (perf.algorithm, perf.memory)).collect()
    }

    #[test]
    fn hipdnn_comes_first_and_the_list_does_not_grow() {
        assert_eq!(listed(100, &[]), [(IMPLICIT_GEMM, 100)]);
        assert_eq!(listed(100, &[DIRECT]), [(IMPLICIT_GEMM, 100)]);
        assert_eq!(listed(100, &[WINOGRAD, DIRECT, GEMM]), [(IMPLICIT_GEMM, 100), (WINOGRAD, 7), (DIRECT, 7)]);
    }

    #[test]
    fn an_algorithm_is_listed_once() {
        assert_eq!(listed(100, &[DIRECT, IMPLICIT_GEMM, GEMM]), [(IMPLICIT_GEMM, 100), (DIRECT, 7), (GEMM, 7)]);
    }

    #[test]
    fn a_plan_that_needs_more_than_the_caller_has_takes_nothing_of_it() {
        assert_eq!(listed(99, &[]), [(IMPLICIT_GEMM, 0)]);
    }
}
