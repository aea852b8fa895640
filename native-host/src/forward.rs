//! One call, from problem to execution or decline. The order of the steps, and which failure leads where, is decided here and nowhere
//! else; each step itself lives in its own module.
//!
//! Warm: key → the handle's plan → variant pack → execute. Cold: … → translation → validation → plan → the same. A decline leaves
//! the call exactly as it came. After the backend was asked to execute, native must not see the call.

use std::{
    ffi::c_void,
    ptr::null_mut,
    sync::{Arc, OnceLock, Weak},
    time::Instant,
};

use parking_lot::Mutex;

use crate::{
    backend::{BackendError, Handle, Library},
    capabilities::Capabilities,
    component::Translator,
    environment::Settings,
    handle::{Bound, HandleState, Known, NO_WORKSPACE, ReadyPlan},
    hip::Hip,
    judge::judge,
    key::KeyBuffer,
    lower::DEFAULT_ALIGNMENT,
    plan::{MAX_ARGUMENTS, Plan, PlanError},
    problem::ConvolutionProblem,
    rules::HostRule,
    trace::{Census, Event, Phase, Phases, Trace, say, write_stats},
    translations::{Declined, Translated, Translations},
};

/// Stack that must be left on the caller's thread before a component runs, in bytes: its own limit, and as much again for us.
const MIN_STACK: usize = 128 << 10;

/// A convolution as the caller made it: the problem, and where its tensors are.
pub struct ConvolutionCall<'a> {
    /// The MIOpen function, for trace and counters.
    pub entry_point: &'static str,
    /// What to compute.
    pub problem: ConvolutionProblem<'a>,
    /// Addresses of x, w and y.
    pub pointers: [*mut c_void; 3],
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

    /// A MIOpen handle was created. `device` is asked for only if HIP is loaded already.
    pub fn register(&self, stream: *mut c_void) -> Arc<HandleState> {
        let device = self.backend.get().and_then(|b| b.as_ref().ok()).and_then(|b| b.hip.device().ok());
        let state = Arc::new(HandleState::new(stream, device));
        let mut handles = self.handles.lock();
        handles.retain(|weak| weak.strong_count() > 0);
        handles.push(Arc::downgrade(&state));
        state
    }

    /// A MIOpen handle is about to be destroyed: its plans and its hipDNN handle go first, its counts are kept.
    pub fn retire(&self, state: &HandleState) {
        let hip = self.backend.get().and_then(|b| b.as_ref().ok()).map(|b| &b.hip);
        state.lock().release(hip);
        state.count_into(&mut self.retired.lock());
        state.lock().clear_counters();
        self.write_stats();
    }

    /// Writes the statistics file, if one is wanted. A forked child leaves its parent's file alone.
    pub fn write_stats(&self) {
        if self.settings.stats.is_some() && self.pid == std::process::id() {
            let mut said = self.stats_failure_said.lock();
            self.put_stats(&self.census(), &mut said);
        }
    }

    /// The same at the end of the process, where other threads may hold any lock for ever: waits for nobody, and leaves out what is in use.
    pub fn write_stats_at_exit(&self) {
        if self.settings.stats.is_none() || self.pid != std::process::id() {
            return;
        }
        let (Some(mut said), Some(retired), Some(handles)) =
            (self.stats_failure_said.try_lock(), self.retired.try_lock(), self.handles.try_lock())
        else {
            return;
        };
        let mut census = retired.clone();
        handles.iter().filter_map(Weak::upgrade).for_each(|state| state.try_count_into(&mut census));
        self.put_stats(&census, &mut said);
    }

    fn put_stats(&self, census: &Census, said: &mut bool) {
        let Some(path) = &self.settings.stats else { return };
        if let Err(error) = write_stats(path, census)
            && !std::mem::replace(said, true)
        {
            say(&format!("the statistics file {} cannot be written: {error}", path.display()));
        }
    }

    /// The counts of all handles, dead and alive.
    pub fn census(&self) -> Census {
        let mut census = self.retired.lock().clone();
        for state in self.handles.lock().iter().filter_map(Weak::upgrade) {
            state.count_into(&mut census);
        }
        census
    }

    /// A call that cannot even become a problem: no record of a descriptor, a null scalar. Counted and traced like any decline.
    pub fn decline_unmade(&self, entry_point: &'static str, rule: HostRule, message: &str) {
        self.retired.lock().entry(entry_point).or_default().decline(rule.id());
        self.emit(entry_point, "native", Some((rule.id(), message)), &Phases::default(), |_| {});
    }

    /// Forwards a convolution, or says why not.
    pub fn convolution(&self, state: &HandleState, call: &ConvolutionCall<'_>) -> Outcome {
        let key = KeyBuffer::convolution(&call.problem);
        let mut phases = Phases::default();
        let mut bound = state.lock();
        // Whatever becomes of this call, the time of an earlier one is not its time.
        bound.set_timed(false);
        let mut cold = false;
        let result = check_pointers(call).and_then(|alignment| {
            let index = match bound.find(key.words(), || key.hash(), alignment) {
                Some(index) => index,
                None => {
                    cold = true;
                    self.learn(state, &mut bound, call, &key, alignment, &mut phases)?
                }
            };
            match bound.known(index) {
                Known::Declined(declined) => Err(Stop::Declined(declined.clone())),
                Known::Plan(_) => self.execute(state, &mut bound, index, call, &mut phases).map(|()| index),
            }
        });
        self.conclude(&mut bound, call.entry_point, result, cold, &phases)
    }

    /// Counts and traces the end of a call.
    fn conclude(&self, bound: &mut Bound, call: &'static str, result: Result<usize, Stop>, cold: bool, phases: &Phases) -> Outcome {
        match result {
            Ok(index) => {
                bound.counters(call).served += 1;
                if self.trace.is_some() {
                    let plan = bound.parts(index).map(|(_, ready, _)| (ready.plan.engine(), ready.notes.clone()));
                    self.emit(call, "hipdnn", None, phases, |event| {
                        event.cold = cold;
                        if let Some((engine, notes)) = &plan {
                            event.engine = Some(engine.clone());
                            event.notes = notes;
                        }
                    });
                }
                Outcome::Served
            }
            Err(Stop::Declined(declined)) => {
                bound.counters(call).decline(&declined.rule);
                self.emit(call, "native", Some((&declined.rule, &declined.message)), phases, |event| event.cold = cold);
                Outcome::Native
            }
            Err(Stop::Host(rule, message)) => {
                bound.counters(call).decline(rule.id());
                self.emit(call, "native", Some((rule.id(), &message)), phases, |event| event.cold = cold);
                Outcome::Native
            }
            Err(Stop::Failed(error)) => {
                bound.counters(call).failed += 1;
                let message = error.to_string();
                self.emit(call, "failed", None, phases, |event| {
                    event.cold = cold;
                    event.status = error.status;
                    event.message = Some(&message);
                });
                Outcome::Failed(error)
            }
        }
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

    /// The cold path: finds out what a problem is known for on this handle, and remembers it.
    fn learn(
        &self,
        state: &HandleState,
        bound: &mut Bound,
        call: &ConvolutionCall<'_>,
        key: &KeyBuffer,
        alignment: usize,
        phases: &mut Phases,
    ) -> Result<usize, Stop> {
        let backend = match self.backend.get() {
            Some(_) => self.backend()?,
            None => phases.time(Phase::Libraries, || self.backend())?,
        };
        let graph = match self.translate(backend, call, key, phases)? {
            Translated::Graph(graph) => graph,
            Translated::Declined(declined) => return Ok(bound.insert(key.words(), key.hash(), alignment, Known::Declined(declined))),
        };
        if backend.hip.is_capturing(state.stream()) {
            return Err(Stop::Host(HostRule::CaptureCold, "the plan is not built yet".into()));
        }
        self.bind(state, bound, backend, phases)?;
        let Some(handle) = bound.hipdnn() else {
            return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into()));
        };
        let known = match Plan::build(&graph, handle, alignment) {
            Ok((plan, times)) => {
                phases.set(Phase::Lower, times.lower);
                phases.set(Phase::Heuristics, times.heuristics);
                phases.set(Phase::Plan, times.plan);
                tracing::debug!(call = call.entry_point, engine = plan.engine(), workspace = plan.workspace(), ?times, "plan built");
                Known::Plan(Box::new(ReadyPlan { plan, executed: false, notes: graph.notes().into() }))
            }
            Err(error) => Known::Declined(self.build_failure(error)?),
        };
        Ok(bound.insert(key.words(), key.hash(), alignment, known))
    }

    /// A graph that no engine takes is a decline; anything else is the caller's error, unless the operator wants native then too.
    fn build_failure(&self, error: PlanError) -> Result<Arc<Declined>, Stop> {
        let rule = match &error {
            PlanError::NoEngine(_) => HostRule::BackendUnsupported,
            PlanError::Alignment(..) => HostRule::AlignmentUnsupported,
            PlanError::Failed(_) if self.settings.fallback => HostRule::BackendBuildFailed,
            PlanError::Failed(failure) => return Err(Stop::Failed(failure.clone())),
        };
        Ok(Arc::new(Declined { rule: rule.id().to_string(), message: error.to_string() }))
    }

    fn translate(&self, backend: &Backend, call: &ConvolutionCall<'_>, key: &KeyBuffer, phases: &mut Phases) -> Result<Translated, Stop> {
        if let Some(translated) = self.translations.get(key.words()) {
            return Ok(translated);
        }
        let left = crate::stack::remaining();
        if left < MIN_STACK {
            return Err(Stop::Host(HostRule::StackShort, format!("{left} bytes of stack are left, {MIN_STACK} are needed")));
        }
        let translator = match self.translator.get() {
            Some(_) => self.translator()?,
            None => phases.time(Phase::Translator, || self.translator())?,
        };
        let reply = phases.time(Phase::Translate, || translator.convolution(&call.problem, &backend.capabilities));
        let translated = match phases.time(Phase::Validate, || judge(reply, translator, &call.problem)) {
            Ok(graph) => Translated::Graph(Arc::new(graph)),
            Err(declined) => Translated::Declined(Arc::new(declined)),
        };
        Ok(self.translations.insert(key.words(), translated))
    }

    fn translator(&self) -> Result<&Translator, Stop> {
        let loaded = self.translator.get_or_init(|| {
            Translator::embedded().map_err(|error| {
                say(&format!("{error}; every call goes to native MIOpen"));
                error.to_string()
            })
        });
        loaded.as_ref().map_err(|error| Stop::Host(HostRule::TranslatorUnavailable, error.clone()))
    }

    /// The libraries, loaded by the first call that needs them. If they cannot be had, that is said once, and calls go to native for the
    /// life of the process.
    fn backend(&self) -> Result<&Backend, Stop> {
        if self.given_up.get().is_some() {
            return Err(Stop::Host(HostRule::BackendUnavailable, "hipDNN refused a handle".into()));
        }
        let loaded = self.backend.get_or_init(|| {
            let mut result = Err(String::new());
            (self.around_load)(&mut || result = load(&self.settings));
            if let Err(error) = &result {
                say(&format!("{error}; every call goes to native MIOpen"));
            }
            result
        });
        loaded.as_ref().map_err(|error| Stop::Host(HostRule::BackendUnavailable, error.clone()))
    }

    /// Makes the hipDNN handle, on the device that the MIOpen handle was made on.
    fn bind(&self, state: &HandleState, bound: &mut Bound, backend: &Backend, phases: &mut Phases) -> Result<(), Stop> {
        if bound.hipdnn().is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let current = backend.hip.device().ok();
        let wanted = state.device().filter(|device| Some(*device) != current);
        let switched = wanted.is_some_and(|device| backend.hip.set_device(device).is_ok());
        let mut handle = None;
        (self.around_load)(&mut || handle = Some(Handle::new(backend.library)));
        if let (true, Some(device)) = (switched, current) {
            // Failing to go back cannot be helped here; the caller's next HIP call will say so.
            let _ = backend.hip.set_device(device);
        }
        phases.set(Phase::Handle, start.elapsed());
        match handle {
            Some(Ok(handle)) => bound.set_hipdnn(handle),
            Some(Err(error)) => {
                if self.given_up.set(()).is_ok() {
                    say(&format!("{error}; every call goes to native MIOpen"));
                }
                return Err(Stop::Host(HostRule::BackendUnavailable, error.to_string()));
            }
            None => return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into())),
        }
        Ok(())
    }

    fn execute(
        &self,
        state: &HandleState,
        bound: &mut Bound,
        index: usize,
        call: &ConvolutionCall<'_>,
        phases: &mut Phases,
    ) -> Result<(), Stop> {
        let backend = self.backend()?;
        let stream = state.stream();
        let timed = self.trace.is_some().then(Instant::now);
        let Some((_, ready, _)) = bound.parts(index) else {
            return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into()));
        };
        let (first, needed) = (!ready.executed, ready.plan.workspace());
        if (first || !ready.plan.captures()) && backend.hip.is_capturing(stream) {
            let rule = if first { HostRule::CaptureCold } else { HostRule::CaptureEngine };
            return Err(Stop::Host(rule, format!("engine {}", ready.plan.engine())));
        }
        let workspace = workspace(bound, &backend.hip, stream, call, needed)?;
        let mut pointers = [null_mut(); MAX_ARGUMENTS];
        pointers[..call.pointers.len()].copy_from_slice(&call.pointers);
        let Some((handle, ready, current_stream)) = bound.parts(index) else {
            return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into()));
        };
        let slot = ready.plan.pack(handle, &pointers, workspace)?;
        if *current_stream != Some(stream) {
            handle.set_stream(stream)?;
            *current_stream = Some(stream);
        }
        // A capture records no times.
        let timing = state.profiling() && !backend.hip.is_capturing(stream);
        let started = timing && bound.timer(&backend.hip).is_some_and(|timer| timer.start(stream).is_ok());
        let Some((handle, ready, _)) = bound.parts(index) else {
            return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into()));
        };
        // From here on the call is hipDNN's, whatever happens.
        ready.plan.execute(handle, slot)?;
        ready.executed = true;
        if started {
            let stopped = bound.timer(&backend.hip).is_some_and(|timer| timer.stop(stream).is_ok());
            bound.set_timed(stopped);
        }
        if let Some(start) = timed {
            phases.set(if first { Phase::FirstExecute } else { Phase::Execute }, start.elapsed());
        }
        Ok(())
    }
}

/// Loads hipDNN and HIP and asks what they can do. One line if that fails.
fn load(settings: &Settings) -> Result<Backend, String> {
    let hip = Hip::load(settings.hip_library.as_deref()).map_err(|error| format!("HIP cannot be used: {error}"))?;
    let library = Library::load(settings.backend_library.as_deref()).map_err(|error| format!("hipDNN cannot be used: {error}"))?;
    // Process-lifetime on purpose: descriptors and handles refer to it, and the library is never unloaded.
    let library: &'static Library = Box::leak(Box::new(library));
    tracing::debug!(backend = %library.path().display(), version = library.version(), hip = hip.name(), "loaded");
    Ok(Backend { library, hip, capabilities: library.capabilities() })
}

/// What the addresses of the call have in common, or why they cannot be forwarded.
fn check_pointers(call: &ConvolutionCall<'_>) -> Result<usize, Stop> {
    if let Some(position) = call.pointers.iter().position(|p| p.is_null()) {
        return Err(Stop::Host(HostRule::PointerNull, format!("argument {}", ["x", "w", "y"][position])));
    }
    let bits = call.pointers.iter().fold(DEFAULT_ALIGNMENT, |bits, p| bits | *p as usize);
    overlap(call)?;
    Ok(1 << bits.trailing_zeros())
}

/// MIOpen does not say what overlapping arguments mean; whatever native makes of them stays native's.
fn overlap(call: &ConvolutionCall<'_>) -> Result<(), Stop> {
    let tensors = [call.problem.x, call.problem.w, call.problem.y];
    let mut ranges = [(0usize, 0usize); 3];
    for (range, (tensor, pointer)) in ranges.iter_mut().zip(tensors.iter().zip(call.pointers)) {
        let start = pointer as usize;
        // Tensors without a known extent never get as far as being bound; here only their first byte counts.
        let bytes = tensor.extent_bytes().and_then(|b| usize::try_from(b).ok()).unwrap_or(1);
        *range = (start, start.saturating_add(bytes));
    }
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        if ranges[a].0 < ranges[b].1 && ranges[b].0 < ranges[a].1 {
            return Err(Stop::Host(HostRule::Aliasing, format!("arguments {a} and {b} share memory")));
        }
    }
    Ok(())
}

/// The caller's workspace if it is large enough, never a byte beyond it; else the handle's own.
fn workspace(bound: &mut Bound, hip: &Hip, stream: *mut c_void, call: &ConvolutionCall<'_>, needed: usize) -> Result<*mut c_void, Stop> {
    if needed == 0 {
        return Ok(NO_WORKSPACE);
    }
    let aligned = (call.workspace as usize).is_multiple_of(DEFAULT_ALIGNMENT);
    if !call.workspace.is_null() && aligned && call.workspace_bytes >= needed {
        return Ok(call.workspace);
    }
    if let Some(own) = bound.workspace(stream, needed) {
        return Ok(own);
    }
    if hip.is_capturing(stream) {
        return Err(Stop::Host(HostRule::CaptureCold, format!("{needed} bytes of workspace would have to be allocated")));
    }
    let failed = |error| Stop::Host(HostRule::WorkspaceAllocation, format!("{needed} bytes: HIP error {error}"));
    bound.grow_workspace(hip, stream, needed).map_err(failed)
}
