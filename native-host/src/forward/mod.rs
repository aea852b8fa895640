//! One call, from problem to execution or decline. The order of the steps, and which failure leads where, is decided here and nowhere
//! else; each step itself lives in its own module.
//!
//! Warm: key → the handle's plan → variant pack → execute. Cold: … → translation → validation → plan → the same. A decline leaves
//! the call exactly as it came. After the backend was asked to execute, native must not see the call.

mod breaker;
mod caches;
mod census;
mod execute;
mod learn;
mod shadow;
mod translator;

use std::{
    ffi::c_void,
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use self::{breaker::Breaker, caches::Caches};
pub use self::{caches::Surroundings, shadow::Shadow};
use crate::{
    backend::{BackendError, Library},
    cache::Level,
    capabilities::Capabilities,
    census::{Census, Ending, Needed, Place, Seen, Sources},
    component::Translator,
    environment::Settings,
    handle::{Bound, HandleState, Known, RuleName, WithNative},
    hip::{Hip, Scratch},
    key::KeyBuffer,
    lock::{Mutex, MutexGuard},
    lower::DEFAULT_ALIGNMENT,
    phases::Phases,
    problem::{OwnedProblem, Problem},
    rules::HostRule,
    stats,
    trace::{Event, Memory, Trace, memory_line, say, timing_line},
    translations::Declined,
    translator::{Faults, Source},
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
    /// The same, and native is to compute it too, into memory of ours: then [`Host::verified`] compares.
    Shadowed(Box<Shadow>),
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

/// Says which native MIOpen is bound, equal for equal contents; `None` if that cannot be told.
pub type NativeIdentity = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// The libraries that execute.
struct Backend {
    library: &'static Library,
    hip: &'static Hip,
    capabilities: Capabilities,
}

/// Why a step ended the call early.
#[derive(Clone)]
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
    source: OnceLock<Result<Source, String>>,
    translator: OnceLock<Result<Translator, String>>,
    faults: Faults,
    backend: OnceLock<Result<Backend, String>>,
    /// Set when a hipDNN handle was refused: then forwarding is over for this process.
    given_up: OnceLock<()>,
    caches: Caches,
    breaker: Breaker,
    native_identity: NativeIdentity,
    native: OnceLock<Option<String>>,
    handles: Mutex<Vec<Weak<HandleState>>>,
    retired: Mutex<Census>,
    /// One writer of the statistics file at a time; whether a failure to write it was said.
    stats_failure_said: Mutex<bool>,
    pid: u32,
    began_ms: u64,
    /// Whether anybody wants to know how long calls take.
    measures: bool,
}

impl Host {
    /// A host that has loaded nothing yet.
    pub fn new(settings: Settings, around_load: AroundLoad, native_identity: NativeIdentity) -> Self {
        let settings = settings.resolved();
        let trace = Trace::open(&settings);
        let measures = settings.trace.is_some() || settings.stats.is_some() || settings.timing;
        Self {
            caches: Caches::new(settings.cache.clone()),
            breaker: Breaker::new(settings.max_failures),
            native_identity,
            native: OnceLock::new(),
            settings,
            around_load,
            trace,
            source: OnceLock::new(),
            translator: OnceLock::new(),
            faults: Faults::default(),
            backend: OnceLock::new(),
            given_up: OnceLock::new(),
            handles: Mutex::default(),
            retired: Mutex::default(),
            stats_failure_said: Mutex::new(false),
            pid: std::process::id(),
            began_ms: stats::now_ms(),
            measures,
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A call that cannot even become a problem: no record of a descriptor, a null scalar. Counted and traced like any decline.
    pub fn decline_unmade(&self, entry_point: &'static str, rule: HostRule, message: &str) {
        let phases = Phases::default();
        let (ending, sources) = (Ending::Declined(rule.id()), Sources::default());
        let seen = Seen { ending, cold: false, sources, phases: &phases, time: None };
        self.retired.lock().add_others(entry_point, |counters| counters.count(&seen));
        self.emit(entry_point, "native", Some((rule.id(), message)), &phases, |_| {});
    }

    /// A call that is native's because the caller chose what native offers: no decline, so strictness does not concern it.
    pub fn native_by_policy(
        &self,
        state: &HandleState,
        entry_point: &'static str,
        problem: &Problem<'_>,
        rule: HostRule,
        message: fmt::Arguments<'_>,
    ) {
        let phases = Phases::default();
        let started = self.settings.stats.is_some().then(Instant::now);
        let mut bound = state.lock();
        bound.set_timed(false);
        let place = bound.place_of(entry_point, problem);
        let ending = Ending::Native(rule.id());
        let seen = Seen { ending, cold: false, sources: Sources::default(), phases: &phases, time: started.map(|start| start.elapsed()) };
        bound.counters(place).count(&seen);
        bound.set_with_native(started.map(|_| WithNative {
            place,
            rule: RuleName::Host(rule.id()),
            by_policy: true,
            since: Instant::now(),
        }));
        drop(bound);
        if self.trace.is_some() {
            self.emit(entry_point, "native", Some((rule.id(), &message.to_string())), &phases, |event| {
                event.problem = Some(OwnedProblem::of(problem));
            });
        }
    }

    /// A question about forwarded work that the shim answers from what it knows. Traced like any routed call; nothing was served.
    pub fn answered(&self, entry_point: &'static str) {
        self.emit(entry_point, "hipdnn", None, &Phases::default(), |_| {});
    }

    /// Whether native's part of calls is measured: then the caller says when it is done.
    pub fn measures_native(&self) -> bool {
        self.settings.stats.is_some()
    }

    /// Forwards a call, or says why not.
    pub fn call(&self, state: &HandleState, call: &Call<'_>) -> Outcome {
        let mut work = Work::new(self, state, call.entry_point, &call.problem);
        work.verifies = self.settings.verify;
        let result = execute::check_pointers(call)
            .and_then(|alignment| work.locate(&call.problem, alignment))
            .and_then(|index| work.execute(index, call, Timing::AsAsked).map(|()| index));
        work.conclude(result)
    }

    /// Builds the plan of a problem without executing it, for addresses as hipMalloc gives them, and answers how many bytes of workspace
    /// it needs. `None` if there is none: counted and traced as a decline of this entry point.
    pub fn prepare(&self, state: &HandleState, entry_point: &'static str, problem: &Problem<'_>) -> Option<usize> {
        let mut work = Work::new(self, state, entry_point, problem);
        // Native has an answer too, so a plan that cannot be built is no failure of the query.
        let located = work.locate(problem, DEFAULT_ALIGNMENT).map_err(|stop| match stop {
            Stop::Failed(error) => Stop::Host(HostRule::BackendBuildFailed, error.to_string()),
            stop => stop,
        });
        let workspace = located.as_ref().ok().and_then(|&index| work.plan_workspace(index));
        match work.conclude(located) {
            Outcome::Served | Outcome::Shadowed(_) => workspace,
            Outcome::Native | Outcome::Failed(_) => None,
        }
    }

    /// Executes a call for its time: once for what engines do in their first execution, once measured.
    pub fn measure(&self, state: &HandleState, call: &Call<'_>) -> Measured {
        let mut work = Work::new(self, state, call.entry_point, &call.problem);
        let mut measurement = None;
        let result = execute::check_pointers(call).and_then(|alignment| work.locate(&call.problem, alignment)).and_then(|index| {
            measurement = Some(work.measure(index, call)?);
            Ok(index)
        });
        match (work.conclude(result), measurement) {
            (Outcome::Served, Some(measurement)) => Measured::Served(measurement),
            (Outcome::Failed(error), _) => Measured::Failed(error),
            (Outcome::Served | Outcome::Shadowed(_) | Outcome::Native, _) => Measured::Native,
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

    /// Whether anybody reads what happens while it happens.
    fn is_watched(&self) -> bool {
        self.trace.is_some() || self.settings.timing || self.settings.meminfo
    }

    /// The libraries, if a call needed them yet and they can be used.
    fn loaded(&self) -> Option<&Backend> {
        self.backend.get()?.as_ref().ok()
    }

    fn hip(&self) -> Option<&'static Hip> {
        self.loaded().map(|backend| backend.hip)
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
    problem: &'a Problem<'a>,
    /// When it began, if anybody wants to know.
    started: Option<Instant>,
    phases: Phases,
    /// Whether the problem was new to the handle.
    cold: bool,
    /// Where what it needed came from.
    sources: Sources,
    /// Where it is counted, once that is known.
    place: Option<Place>,
    /// Device memory before anything was built, if anybody wants to know.
    memory: Option<Memory>,
    /// Whether native is to compute it too.
    verifies: bool,
    /// Where native is to, or why it cannot; nothing if nobody wants it.
    shadow: Option<shadow::Prepared>,
}

impl<'a> Work<'a> {
    fn new(host: &'a Host, state: &'a HandleState, entry_point: &'static str, problem: &'a Problem<'a>) -> Self {
        let started = host.measures.then(Instant::now);
        let mut bound = state.lock();
        // Whatever becomes of this call, the time of an earlier one is not its time.
        bound.set_timed(false);
        bound.set_with_native(None);
        let (phases, sources) = (Phases::default(), Sources::default());
        let mut work = Self {
            host,
            state,
            bound,
            entry_point,
            problem,
            started,
            phases,
            cold: false,
            sources,
            place: None,
            memory: None,
            verifies: false,
            shadow: None,
        };
        if host.settings.meminfo {
            work.look_at_memory();
        }
        work
    }

    /// The plan of a problem, found or built; an error if it is known, or found out, to have none.
    fn locate(&mut self, problem: &Problem<'_>, alignment: usize) -> Result<usize, Stop> {
        if self.host.breaker.is_open(self.entry_point) {
            let message = format!("{} calls in a row failed", self.host.settings.max_failures);
            return Err(Stop::Host(HostRule::CircuitOpen, message));
        }
        let mut key = KeyBuffer::default();
        if !key.fill(problem) {
            return Err(Stop::Host(HostRule::ProblemSize, "its key is too long".into()));
        }
        let index = match self.bound.find(key.words(), || key.hash(), alignment) {
            Some(index) => {
                self.sources.note(Needed::Plan, Level::Memory);
                index
            }
            None => {
                self.cold = true;
                self.learn(problem, &key, alignment)?
            }
        };
        self.place = Some(self.bound.place(index, self.entry_point, problem));
        match self.bound.known(index) {
            Known::Declined(declined) => Err(Stop::Declined(declined.clone())),
            // Forwarding may be over for this process, in spite of plans of better times.
            Known::Plan(_) => self.host.backend().map(|_| index),
        }
    }

    fn plan_workspace(&mut self, index: usize) -> Option<usize> {
        self.bound.parts(index).map(|(_, ready, _)| ready.plan.workspace())
    }

    /// Notes how much device memory there is, once HIP can tell. Not under capture: whatever asks may wait.
    fn look_at_memory(&mut self) {
        if let (true, None, Some(hip)) = (self.host.settings.meminfo, self.memory, self.host.hip())
            && !hip.is_capturing(self.state.stream())
        {
            self.memory = hip.memory();
        }
    }

    /// Counts and traces the end of a call.
    fn conclude(mut self, result: Result<usize, Stop>) -> Outcome {
        let time = self.started.map(|start| start.elapsed());
        match result {
            Ok(index) => self.served(index, time),
            Err(Stop::Declined(declined)) => {
                let rule = RuleName::Declined(declined.clone());
                self.declined(rule, &declined.message, time)
            }
            Err(Stop::Host(rule, message)) => self.declined(RuleName::Host(rule.id()), &message, time),
            Err(Stop::Failed(error)) => self.failed(error, time),
        }
    }

    fn count(&mut self, ending: Ending<'_>, time: Option<Duration>) -> Place {
        let place = self.place.unwrap_or_else(|| self.bound.place_of(self.entry_point, self.problem));
        let seen = Seen { ending, cold: self.cold, sources: self.sources, phases: &self.phases, time };
        self.bound.counters(place).count(&seen);
        place
    }

    fn served(&mut self, index: usize, time: Option<Duration>) -> Outcome {
        self.host.breaker.served(self.entry_point);
        let place = self.count(Ending::Served, time);
        if let Some(shadow) = self.shadow.take() {
            return self.served_to_verify(index, time, place, shadow);
        }
        if self.host.is_watched() {
            let plan = self.bound.parts(index).map(|(_, ready, _)| (ready.plan.engine(), ready.notes.clone()));
            let engine = plan.as_ref().map_or("no engine", |(engine, _)| engine);
            self.say_lines("hipdnn", &format!("engine {engine}"), time);
            self.host.emit(self.entry_point, "hipdnn", None, &self.phases, |event| {
                self.complete(event);
                if let Some((engine, notes)) = &plan {
                    event.engine = Some(engine.clone());
                    event.notes = notes;
                }
            });
        }
        Outcome::Served
    }

    fn declined(&mut self, rule: RuleName, message: &str, time: Option<Duration>) -> Outcome {
        let place = self.count(Ending::Declined(rule.id()), time);
        if self.host.is_watched() {
            self.say_lines("native", rule.id(), time);
            self.host.emit(self.entry_point, "native", Some((rule.id(), message)), &self.phases, |event| self.complete(event));
        }
        if self.host.measures_native() {
            self.bound.set_with_native(Some(WithNative { place, rule, by_policy: false, since: Instant::now() }));
        }
        Outcome::Native
    }

    fn failed(&mut self, error: BackendError, time: Option<Duration>) -> Outcome {
        self.count(Ending::Failed, time);
        if self.host.breaker.failed(self.entry_point) {
            let (call, times) = (self.entry_point, self.host.settings.max_failures);
            say(&format!("hipDNN failed {times} calls of {call} in a row, the last with {error}; from now on they go to native MIOpen"));
        }
        if self.host.is_watched() {
            let message = error.to_string();
            self.say_lines("failed", &message, time);
            self.host.emit(self.entry_point, "failed", None, &self.phases, |event| {
                self.complete(event);
                event.status = error.status;
                event.message = Some(&message);
            });
        }
        Outcome::Failed(error)
    }

    fn complete(&self, event: &mut Event<'_>) {
        event.cold = self.cold;
        event.translation = self.sources.of(Needed::Translation).map(Level::name);
        event.plan = self.sources.of(Needed::Plan).map(Level::name);
        event.problem = Some(OwnedProblem::of(self.problem));
    }

    /// What timing and memory information say about the call, if they are wanted.
    fn say_lines(&mut self, ending: &str, what: &str, time: Option<Duration>) {
        let what = format!("{what}; {}", self.problem);
        if let (true, Some(time)) = (self.host.settings.timing, time) {
            say(&timing_line(self.entry_point, self.cold, ending, time, &self.phases, &what));
        }
        // Looking again would find what was found before.
        let Some(before) = self.memory.take() else { return };
        self.look_at_memory();
        if let (Some(after), false) = (self.memory, ending == "native" && !self.cold) {
            say(&memory_line(self.entry_point, before, after, &what));
        }
    }
}
