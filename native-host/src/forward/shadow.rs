//! Shadow mode (`MIOPEN_HIPDNN_VERIFY`): memory for native to compute into what hipDNN served, and what becomes of the comparison: a line,
//! counters, the trace. How results are compared is in `verify`; who calls native, and how, is the caller's business.
//!
//! The caller's memory is only read here. Nothing here changes what the caller gets.

use std::{ffi::c_void, fmt, sync::Arc, time::Duration};

use super::{Call, Host, Outcome, Work};
use crate::{
    census::Place,
    handle::HandleState,
    hip::{Hip, Scratch},
    problem::TensorDescriptor,
    trace::{Event, Trace, say},
    verify::{Difference, Verification, compare},
};

/// Memory for native's result, or why there is none.
pub(super) type Prepared = Result<Memory, String>;

/// Where both results of a call are.
pub(super) struct Memory {
    hip: &'static Hip,
    stream: *mut c_void,
    /// Which of the call's operands it is.
    operand: usize,
    tensor: TensorDescriptor,
    /// The caller's: what hipDNN writes.
    output: *mut c_void,
    bytes: usize,
    /// What native writes.
    scratch: Scratch<'static>,
}

// SAFETY: HIP's addresses and streams are bound to no thread.
unsafe impl Send for Memory {}

/// Memory for native's result, with what the output holds now: native may read it, and leaves what lies between its elements.
pub(super) fn prepare(hip: &'static Hip, stream: *mut c_void, call: &Call<'_>) -> Prepared {
    // Memory would have to be allocated, and the stream be waited for.
    if hip.is_capturing(stream) {
        return Err("the stream is being captured".into());
    }
    let operands = call.problem.operands().unwrap_or_default();
    let written = || operands.iter().enumerate().filter(|(_, operand)| operand.written);
    let (Some((position, operand)), 1) = (written().next(), written().count()) else {
        return Err("the call has not one output".into());
    };
    let bytes = operand.tensor.extent_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    let (Some(bytes), Some(&output)) = (bytes, call.pointers.get(position)) else {
        return Err("the extent of the output is unknown".into());
    };
    let _relaxed = hip.relax_capture();
    let scratch = hip.scratch(bytes).map_err(|error| format!("{bytes} bytes for native's result: HIP error {error}"))?;
    // SAFETY: the scratch memory is as large, and giving it back waits for the device; the output is the caller's for its extent, by the
    // contract with MIOpen.
    unsafe { hip.copy(scratch.address(), output, bytes, stream) }.map_err(|error| format!("copying the output: HIP error {error}"))?;
    Ok(Memory { hip, stream, operand: position, tensor: operand.tensor.clone(), output, bytes, scratch })
}

impl Memory {
    /// Waits for both results and compares them.
    fn compare(&self) -> Result<Difference, String> {
        let _relaxed = self.hip.relax_capture();
        // SAFETY: both are memory of so many bytes, the caller's by its contract with MIOpen, whose call has not returned yet.
        let read = |from: *const c_void| unsafe { self.hip.read(from, self.bytes, self.stream) };
        let failed = |error| format!("reading the results: HIP error {error}");
        let (first, second) = (read(self.output).map_err(failed)?, read(self.scratch.address()).map_err(failed)?);
        compare(&self.tensor, &first, &second).ok_or_else(|| "results of this type are not compared".into())
    }
}

/// A call that hipDNN served, and that native is to compute too.
pub struct Shadow {
    memory: Memory,
    entry_point: &'static str,
    place: Place,
    /// Problem and engine, for a message.
    what: String,
    traced: Option<Traced>,
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("entry_point", &self.entry_point).field("what", &self.what).finish_non_exhaustive()
    }
}

impl Shadow {
    /// Where native writes instead of the caller's output.
    pub fn output(&self) -> *mut c_void {
        self.memory.scratch.address()
    }

    /// Which of the problem's operands that is in place of.
    pub fn operand(&self) -> usize {
        self.memory.operand
    }
}

/// The trace line of a served call, held back until it was compared.
struct Traced {
    event: Event<'static>,
    notes: Arc<[String]>,
}

impl Traced {
    fn write(self, trace: &Trace, verified: Verification) {
        trace.write(&Event { notes: &self.notes, verified: Some(verified), ..self.event });
    }
}

impl Work<'_> {
    /// The end of a served call that is to be verified.
    #[cold]
    pub(super) fn served_to_verify(&mut self, index: usize, time: Option<Duration>, place: Place, prepared: Prepared) -> Outcome {
        let plan = self.bound.parts(index).map(|(_, ready, _)| (ready.plan.engine(), ready.notes.clone()));
        let (engine, notes) = plan.map_or_else(|| (None, Arc::from([])), |(engine, notes)| (Some(engine), notes));
        let what = format!("engine {}", engine.as_deref().unwrap_or("unknown"));
        self.say_lines("hipdnn", &what, time);
        let what = format!("{what}; {}", self.problem);
        let traced = self.host.trace.as_ref().map(|_| {
            let mut event = Event::new(self.entry_point, "hipdnn", &self.phases);
            self.complete(&mut event);
            event.engine = engine;
            Traced { event, notes }
        });
        match prepared {
            Ok(memory) => Outcome::Shadowed(Box::new(Shadow { memory, entry_point: self.entry_point, place, what, traced })),
            Err(skipped) => {
                if let (Some(traced), Some(trace)) = (traced, &self.host.trace) {
                    traced.write(trace, Verification::Skipped { skipped });
                }
                Outcome::Served
            }
        }
    }
}

impl Host {
    /// Native has computed a call that hipDNN served, or has not (`Err` says why): both results are compared, and the verdict is counted,
    /// traced, and said if it is a bad one.
    pub fn verified(&self, state: &HandleState, shadow: Shadow, native: Result<(), String>) {
        let Shadow { memory, entry_point, place, what, traced } = shadow;
        // Native went to whatever stream the handle then had: with another one nobody knows here when it is done.
        let moved = state.stream() != memory.stream;
        let native = native.and_then(|()| if moved { Err("another thread moved the handle to another stream".into()) } else { Ok(()) });
        let verification = match native.and_then(|()| memory.compare()) {
            Ok(difference) => {
                let ok = difference.is_tolerable();
                state.lock().counters(place).count_verified(ok);
                if !ok {
                    say(&mismatch_line(entry_point, &difference, &what));
                }
                Verification::Compared { error: difference.error, tolerance: difference.tolerance, ok }
            }
            Err(skipped) => Verification::Skipped { skipped },
        };
        if let (Some(traced), Some(trace)) = (traced, &self.trace) {
            traced.write(trace, verification);
        }
    }
}

fn mismatch_line(entry_point: &str, difference: &Difference, what: &str) -> String {
    let Difference { error, tolerance, at, first, second } = difference;
    format!(
        "verify {entry_point}: hipDNN and native differ by {error:.3e} of the largest magnitude, {tolerance:.3e} is tolerated: element {at:?} \
         is {first:e} by hipDNN, {second:e} by native; {what}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_says_what_and_where() {
        let difference = Difference { error: 0.125, tolerance: 1e-5, at: vec![1, 0], first: 2.0, second: 2.5 };
        let line = mismatch_line("miopenX", &difference, "engine E; a problem");
        assert_eq!(
            line,
            "verify miopenX: hipDNN and native differ by 1.250e-1 of the largest magnitude, 1.000e-5 is tolerated: element [1, 0] is 2e0 by \
             hipDNN, 2.5e0 by native; engine E; a problem"
        );
    }
}
