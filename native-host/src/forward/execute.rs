//! Executing a known plan: addresses, workspace, stream, variant pack. The last place where a call can still be declined.

use std::{ffi::c_void, time::Instant};

use super::{Call, Measurement, Stop, Timing, Work, shadow};
use crate::{
    gate,
    handle::{Bound, NO_WORKSPACE},
    hip::Hip,
    lower::DEFAULT_ALIGNMENT,
    phases::Phase,
    problem::MAX_ARGUMENTS,
    rules::HostRule,
};

impl Work<'_> {
    pub(super) fn execute(&mut self, index: usize, call: &Call<'_>, timing: Timing) -> Result<(), Stop> {
        let backend = self.host.backend()?;
        let stream = self.state.stream();
        if self.verifies {
            self.shadow = Some(shadow::prepare(backend.hip, stream, call));
        }
        let timed = self.started.is_some().then(Instant::now);
        let Some((_, ready, _)) = self.bound.parts(index) else { return Err(no_handle()) };
        let (first, needed) = (!ready.executed, ready.plan.workspace());
        if (first || !ready.plan.captures()) && backend.hip.is_capturing(stream) {
            let rule = if first { HostRule::CaptureCold } else { HostRule::CaptureEngine };
            return Err(Stop::Host(rule, format!("engine {}", ready.plan.engine())));
        }
        // What engines lock while they load code in their first execution, a forked child must not find locked.
        let _inside = first.then(gate::enter);
        // What engines allocate in their first execution must not disturb another thread's capture.
        let _relaxed = first.then(|| backend.hip.relax_capture());
        let workspace = workspace(&mut self.bound, backend.hip, stream, call, needed)?;
        let Some((handle, ready, current_stream)) = self.bound.parts(index) else { return Err(no_handle()) };
        let slot = ready.plan.pack(handle, call.pointers, workspace)?;
        if *current_stream != Some(stream) {
            handle.set_stream(stream)?;
            *current_stream = Some(stream);
        }
        // A capture records no times.
        let timing = timing == Timing::Always || (self.state.profiling() && !backend.hip.is_capturing(stream));
        let started = timing && self.bound.timer(backend.hip).is_some_and(|timer| timer.start(stream).is_ok());
        let Some((handle, ready, _)) = self.bound.parts(index) else { return Err(no_handle()) };
        // From here on the call is hipDNN's, whatever happens.
        ready.plan.execute(handle, slot)?;
        ready.executed = true;
        if started {
            let stopped = self.bound.timer(backend.hip).is_some_and(|timer| timer.stop(stream).is_ok());
            self.bound.set_timed(stopped);
        }
        if let Some(start) = timed {
            self.phases.set(if first { Phase::FirstExecute } else { Phase::Execute }, start.elapsed());
        }
        Ok(())
    }

    /// Executes until the time that a caller of Find wants to know is measured.
    pub(super) fn measure(&mut self, index: usize, call: &Call<'_>) -> Result<Measurement, Stop> {
        let backend = self.host.backend()?;
        if backend.hip.is_capturing(self.state.stream()) {
            return Err(Stop::Host(HostRule::CaptureCold, "a search measures, which a capture does not let it".into()));
        }
        let executed = self.bound.parts(index).is_some_and(|(_, ready, _)| ready.executed);
        if !executed {
            self.execute(index, call, Timing::AsAsked)?;
        }
        self.execute(index, call, Timing::Always)?;
        let bound = &self.bound;
        let milliseconds = self.phases.time(Phase::Measure, || bound.timed_milliseconds().unwrap_or(0.0));
        // Of the program's last call, if it wants to know.
        let wanted = self.state.profiling();
        self.bound.set_timed(wanted);
        Ok(Measurement { milliseconds, workspace: self.plan_workspace(index).unwrap_or(0) })
    }
}

fn no_handle() -> Stop {
    Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into())
}

/// What the addresses of the call have in common, or why they cannot be forwarded.
pub(super) fn check_pointers(call: &Call<'_>) -> Result<usize, Stop> {
    let Some(operands) = call.problem.operands().filter(|operands| operands.len() == call.pointers.len()) else {
        return Err(Stop::Host(HostRule::ProblemSize, format!("{} tensors in memory", call.pointers.len())));
    };
    let mut ranges = [(0usize, 0usize); MAX_ARGUMENTS];
    let mut bits = DEFAULT_ALIGNMENT;
    for ((range, operand), &pointer) in ranges.iter_mut().zip(&operands).zip(call.pointers) {
        if pointer.is_null() {
            return Err(Stop::Host(HostRule::PointerNull, format!("argument {}", operand.name)));
        }
        let start = pointer as usize;
        bits |= start;
        // Tensors without a known extent never get as far as being bound; here only their first byte counts.
        let bytes = operand.tensor.extent_bytes().and_then(|b| usize::try_from(b).ok()).unwrap_or(1);
        *range = (start, start.saturating_add(bytes));
    }
    let ranges = &ranges[..operands.len()];
    for (position, b) in ranges.iter().enumerate() {
        // MIOpen does not say what overlapping arguments mean; whatever native makes of them stays native's.
        if let Some(other) = ranges[..position].iter().position(|a| a.0 < b.1 && b.0 < a.1) {
            return Err(Stop::Host(HostRule::Aliasing, format!("{} and {} share memory", operands[other].name, operands[position].name)));
        }
    }
    Ok(1 << bits.trailing_zeros())
}

/// The caller's workspace if it is large enough, never a byte beyond it; else the handle's own.
fn workspace(bound: &mut Bound, hip: &Hip, stream: *mut c_void, call: &Call<'_>, needed: usize) -> Result<*mut c_void, Stop> {
    if needed == 0 {
        return Ok(NO_WORKSPACE);
    }
    let aligned = (call.workspace as usize).is_multiple_of(DEFAULT_ALIGNMENT);
    if !call.workspace.is_null() && aligned && call.workspace_bytes >= needed {
        return Ok(call.workspace);
    }
    own_workspace(bound, hip, stream, needed)
}

/// The handle's own workspace for a stream, grown if it must be.
pub(super) fn own_workspace(bound: &mut Bound, hip: &Hip, stream: *mut c_void, needed: usize) -> Result<*mut c_void, Stop> {
    if let Some(own) = bound.workspace(stream, needed) {
        return Ok(own);
    }
    if hip.is_capturing(stream) {
        return Err(Stop::Host(HostRule::CaptureCold, format!("{needed} bytes of workspace would have to be allocated")));
    }
    let failed = |error| Stop::Host(HostRule::WorkspaceAllocation, format!("{needed} bytes: HIP error {error}"));
    bound.grow_workspace(hip, stream, needed).map_err(failed)
}
