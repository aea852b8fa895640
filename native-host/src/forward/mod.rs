//! One call, from problem to execution or decline. The order of the steps, and which failure leads where, is decided here and nowhere
//! else; each step itself lives in its own module.
//!
//! Warm: key → the handle's plan → variant pack → execute. Cold: … → translation → validation → plan → the same. A decline leaves
//! the call exactly as it came. After the backend was asked to execute, native must not see the call.

mod census;
mod execute;
mod learn;

use std::{
    ffi::c_void,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use crate::{
    backend::{BackendError, Library},
    capabilities::Capabilities,
    component::Translator,
    environment::Settings,
    handle::{Bound, HandleState, Known},
    hip::{Hip, Scratch},
    key::KeyBuffer,
    lock::{Mutex, MutexGuard},
    lower::DEFAULT_ALIGNMENT,
    problem::Problem,
    rules::HostRule,
    trace::{Census, Event, Phases, Trace},
    translations::{Declined, Translations},
};

/// A call that executes: the problem, and where its tensors are.
pub struct Call<'a> {
    /// The MIOpen function, for trace and counters.
    pub entry_point: &'static str,
    /// What to compute.
    pub problem: Problem<'a>,
    /// Addresses of the problem's operands, in their order.
    pub pointers: &'a [*mut c_void],
    /// The caller's workspace.
    pub workspace: *mut c_void,
    /// Its size in bytes.
    pub workspace_bytes: usize,
}

/// What became of a call.
#[derive(Debug)]
pub enum Outcome {
    /// hipDNN executes it.
    Served,
    /// It is native's, untouched.
    Native,
    /// hipDNN failed; the error is the caller's.
    Failed(BackendError),
}

/// What became of a call that asks how fast hipDNN is.
#[derive(Debug)]
pub enum Measured {
    /// hipDNN executed it.
    Served(Measurement),
    /// It is native's, untouched.
    Native,
    /// hipDNN failed; the error is the caller's.
    Failed(BackendError),
}

/// What Find lists for hipDNN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Time on the device; 0 if HIP has no events to give.
    pub milliseconds: f32,
    /// Workspace of the plan, in bytes.
    pub workspace: usize,
}

/// When an execution is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timing {
    /// If the caller has profiling enabled.
    AsAsked,
    /// Always.
    Always,
}

/// Runs a step that may load libraries, so that the shim can see which modules came with it.
pub type AroundLoad = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// The libraries that execute.
struct Backend {
    library: &'static Library,
    hip: Hip,
    capabilities: Capabilities,
}

/// Why a step ended the call early.
enum Stop {
    Host(HostRule, String),
    Declined(Arc<Declined>),
    Failed(BackendError),
}

impl From<BackendError> for Stop {
    fn from(error: BackendError) -> Self {
        Self::Failed(error)
    }
}

/// The process-wide half: libraries, translator, shared translations. Everything in it is made by the first call that needs it.
pub struct Host {
    settings: Settings,
    around_load: AroundLoad,
    trace: Option<Trace>,
    translator: OnceLock<Result<Translator, String>>,
    backend: OnceLock<Result<Backend, String>>,
    /// Set when a hipDNN handle was refused: then forwarding is over for this process.
    given_up: OnceLock<()>,
    translations: Translations,
    handles: Mutex<Vec<Weak<HandleState>>>,
    retired: Mutex<Census>,
    /// One writer of the statistics file at a time; whether a failure to write it was said.
    stats_failure_said: Mutex<bool>,
    pid: u32,
}

impl Host {
    /// A host that has loaded nothing yet.
    pub fn new(settings: Settings, around_load: AroundLoad) -> Self {
        let settings = settings.resolved();
        let trace = Trace::open(&settings);
        Self {
            settings,
            around_load,
            trace,
            translator: OnceLock::new(),
            backend: OnceLock::new(),
            given_up: OnceLock::new(),
            translations: Translations::default(),
            handles: Mutex::default(),
            retired: Mutex::default(),
            stats_failure_said: Mutex::new(false),
            pid: std::process::id(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A call that cannot even become a problem: no record of a descriptor, a null scalar. Counted and traced like any decline.
    pub fn decline_unmade(&self, entry_point: &'static str, rule: HostRule, message: &str) {
        self.retired.lock().entry(entry_point).or_default().decline(rule.id());
        self.emit(entry_point, "native", Some((rule.id(), message)), &Phases::default(), |_| {});
    }

    /// A call that is native's because the caller chose what native offers: no decline, so strictness does not concern it.
    pub fn native_by_policy(&self, state: &HandleState, entry_point: &'static str, rule: HostRule, message: fmt::Arguments<'_>) {
        let mut bound = state.lock();
        bound.set_timed(false);
        bound.counters(entry_point).native_by_policy(rule.id());
        drop(bound);
        if self.trace.is_some() {
            self.emit(entry_point, "native", Some((rule.id(), &message.to_string())), &Phases::default(), |_| {});
        }
    }

    /// A question about forwarded work that the shim answers from what it knows. Traced like any routed call; nothing was served.
    pub fn answered(&self, entry_point: &'static str) {
        self.emit(entry_point, "hipdnn", None, &Phases::default(), |_| {});
    }

    /// Forwards a call, or says why not.
    pub fn call(&self, state: &HandleState, call: &Call<'_>) -> Outcome {
        let mut work = Work::new(self, state, call.entry_point);
        let result = execute::check_pointers(call)
            .and_then(|alignment| work.locate(&call.problem, alignment))
            .and_then(|index| work.execute(index, call, Timing::AsAsked).map(|()| index));
        work.conclude(result)
    }

    /// Builds the plan of a problem without executing it, for addresses as hipMalloc gives them, and answers how many bytes of workspace
    /// it needs. `None` if there is none: counted and traced as a decline of this entry point.
    pub fn prepare(&self, state: &HandleState, entry_point: &'static str, problem: &Problem<'_>) -> Option<usize> {
        let mut work = Work::new(self, state, entry_point);
        // Native has an answer too, so a plan that cannot be built is no failure of the query.
        let located = work.locate(problem, DEFAULT_ALIGNMENT).map_err(|stop| match stop {
            Stop::Failed(error) => Stop::Host(HostRule::BackendBuildFailed, error.to_string()),
            stop => stop,
        });
        let workspace = located.as_ref().ok().and_then(|&index| work.plan_workspace(index));
        match work.conclude(located) {
            Outcome::Served => workspace,
            Outcome::Native | Outcome::Failed(_) => None,
        }
    }

    /// Executes a call for its time: once for what engines do in their first execution, once measured.
    pub fn measure(&self, state: &HandleState, call: &Call<'_>) -> Measured {
        let mut work = Work::new(self, state, call.entry_point);
        let mut measurement = None;
        let result = execute::check_pointers(call).and_then(|alignment| work.locate(&call.problem, alignment)).and_then(|index| {
            measurement = Some(work.measure(index, call)?);
            Ok(index)
        });
        match (work.conclude(result), measurement) {
            (Outcome::Served, Some(measurement)) => Measured::Served(measurement),
            (Outcome::Failed(error), _) => Measured::Failed(error),
            (Outcome::Served | Outcome::Native, _) => Measured::Native,
        }
    }

    /// Whether the handle's stream is being captured. Not if HIP was never needed.
    pub fn is_capturing(&self, state: &HandleState) -> bool {
        self.hip().is_some_and(|hip| hip.is_capturing(state.stream()))
    }

    /// Device memory for a moment, to keep native's searches off the caller's buffers.
    pub fn scratch(&self, bytes: usize) -> Option<Scratch<'_>> {
        self.hip()?.scratch(bytes).ok()
    }

    /// Workspace of the handle's own for its stream.
    pub fn own_workspace(&self, state: &HandleState, bytes: usize) -> Option<*mut c_void> {
        execute::own_workspace(&mut state.lock(), self.hip()?, state.stream(), bytes).ok()
    }

    fn hip(&self) -> Option<&Hip> {
        self.backend.get().and_then(|backend| backend.as_ref().ok()).map(|backend| &backend.hip)
    }

    fn emit<'a>(
        &self,
        call: &'a str,
        route: &'a str,
        decline: Option<(&'a str, &'a str)>,
        phases: &Phases,
        complete: impl FnOnce(&mut Event<'a>),
    ) {
        let Some(trace) = &self.trace else { return };
        let mut event = Event::new(call, route, phases);
        if let Some((rule, message)) = decline {
            (event.rule, event.message) = (Some(rule), Some(message));
        }
        complete(&mut event);
        trace.write(&event);
    }
}

/// One call under way: the handle's lock is held, phases are timed.
struct Work<'a> {
    host: &'a Host,
    state: &'a HandleState,
    bound: MutexGuard<'a, Bound>,
    entry_point: &'static str,
    phases: Phases,
    /// Whether the problem was new to the handle.
    cold: bool,
}

impl<'a> Work<'a> {
    fn new(host: &'a Host, state: &'a HandleState, entry_point: &'static str) -> Self {
        let mut bound = state.lock();
        // Whatever becomes of this call, the time of an earlier one is not its time.
        bound.set_timed(false);
        Self { host, state, bound, entry_point, phases: Phases::default(), cold: false }
    }

    /// The plan of a problem, found or built; an error if it is known, or found out, to have none.
    fn locate(&mut self, problem: &Problem<'_>, alignment: usize) -> Result<usize, Stop> {
        let mut key = KeyBuffer::default();
        if !key.fill(problem) {
            return Err(Stop::Host(HostRule::ProblemSize, "its key is too long".into()));
        }
        let index = match self.bound.find(key.words(), || key.hash(), alignment) {
            Some(index) => index,
            None => {
                self.cold = true;
                self.learn(problem, &key, alignment)?
            }
        };
        match self.bound.known(index) {
            Known::Declined(declined) => Err(Stop::Declined(declined.clone())),
            // Forwarding may be over for this process, in spite of plans of better times.
            Known::Plan(_) => self.host.backend().map(|_| index),
        }
    }

    fn plan_workspace(&mut self, index: usize) -> Option<usize> {
        self.bound.parts(index).map(|(_, ready, _)| ready.plan.workspace())
    }

    /// Counts and traces the end of a call.
    fn conclude(mut self, result: Result<usize, Stop>) -> Outcome {
        match result {
            Ok(index) => self.served(index),
            Err(Stop::Declined(declined)) => self.declined(&declined.rule, &declined.message),
            Err(Stop::Host(rule, message)) => self.declined(rule.id(), &message),
            Err(Stop::Failed(error)) => self.failed(error),
        }
    }

    fn served(&mut self, index: usize) -> Outcome {
        self.bound.counters(self.entry_point).served += 1;
        if self.host.trace.is_some() {
            let plan = self.bound.parts(index).map(|(_, ready, _)| (ready.plan.engine(), ready.notes.clone()));
            self.host.emit(self.entry_point, "hipdnn", None, &self.phases, |event| {
                event.cold = self.cold;
                if let Some((engine, notes)) = &plan {
                    event.engine = Some(engine.clone());
                    event.notes = notes;
                }
            });
        }
        Outcome::Served
    }

    fn declined(&mut self, rule: &str, message: &str) -> Outcome {
        self.bound.counters(self.entry_point).decline(rule);
        self.host.emit(self.entry_point, "native", Some((rule, message)), &self.phases, |event| event.cold = self.cold);
        Outcome::Native
    }

    fn failed(&mut self, error: BackendError) -> Outcome {
        self.bound.counters(self.entry_point).failed += 1;
        let message = error.to_string();
        self.host.emit(self.entry_point, "failed", None, &self.phases, |event| {
            event.cold = self.cold;
            event.status = error.status;
            event.message = Some(&message);
        });
        Outcome::Failed(error)
    }
}
