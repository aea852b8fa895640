//! The cold path: what a problem is known for on a handle is found out once. Libraries, translation, validation, plan.

use std::{sync::Arc, time::Instant};

use super::{
    Backend, Host, Stop, Work,
    caches::{Caches, PlanAnswer, Surroundings, TranslationAnswer},
};
use crate::{
    backend::{BackendError, Handle, Library},
    cache::{
        EntryKey, Level,
        memory::Built,
        record::{self, Cause, EngineRecord, PlanRecord, Refusal, TranslationRecord},
    },
    census::Needed,
    environment::Settings,
    gate,
    handle::{Known, ReadyPlan},
    hip::Hip,
    identity,
    judge::judge,
    key::KeyBuffer,
    native,
    phases::{Phase, Phases},
    plan::{BuildTimes, Plan, PlanError},
    problem::Problem,
    rules::HostRule,
    trace::say,
    translations::{Declined, Translated},
    validate::ValidatedGraph,
};

/// Stack that must be left on the caller's thread before anything is loaded, translated or built, in bytes: as much as a component may
/// use, and as much again for us.
const MIN_STACK: usize = 128 << 10;

impl<'a> Work<'a> {
    /// Finds out what a problem is known for on this handle, and remembers it.
    pub(super) fn learn(&mut self, problem: &Problem<'_>, key: &KeyBuffer, alignment: usize) -> Result<usize, Stop> {
        require_stack()?;
        self.find_out(problem, key, alignment)
    }

    /// Not inlined: what it needs of the stack is only there once that was looked at.
    #[cold]
    #[inline(never)]
    fn find_out(&mut self, problem: &Problem<'_>, key: &KeyBuffer, alignment: usize) -> Result<usize, Stop> {
        // A fork waits for all that is done here.
        let _inside = gate::enter();
        let host = self.host;
        let backend = match host.backend.get() {
            Some(_) => host.backend()?,
            None => self.phases.time(Phase::Libraries, || host.backend())?,
        };
        self.look_at_memory();
        let digest = host.source(&mut self.phases)?.digest();
        let translation = Caches::translation_key(digest, &backend.capabilities, key.words());
        let known = match self.translate(backend, problem, &translation)? {
            Translated::Graph(graph) => self.plan(backend, &graph, alignment)?,
            Translated::Declined(declined) => Known::Declined(declined),
        };
        Ok(self.bound.insert(key.words(), key.hash(), alignment, known))
    }

    /// The translation of a problem: remembered, on disk, or asked for. What comes from the disk is judged like any reply.
    fn translate(&mut self, backend: &Backend, problem: &Problem<'_>, key: &EntryKey) -> Result<Translated, Stop> {
        let host = self.host;
        let nothing = |stop| Built { value: Err(stop), keep: None, level: Level::Built };
        let (translated, level) =
            host.caches.translations.get_or_build(key.digest(), || self.translate_anew(backend, problem, key).unwrap_or_else(nothing));
        self.sources.note(Needed::Translation, level);
        translated
    }

    fn translate_anew(&mut self, backend: &Backend, problem: &Problem<'_>, key: &EntryKey) -> Result<Built<TranslationAnswer>, Stop> {
        let host = self.host;
        if let Some(bytes) = host.caches.load(key, &mut self.phases)
            && let Some(record) = record::from_bytes::<TranslationRecord>(&bytes)
        {
            let manifest = host.manifest(&mut self.phases)?;
            let judged = self.phases.time(Phase::Validate, || judge(Ok(record), manifest, problem));
            if !judged.as_ref().is_err_and(is_fault) {
                return Ok(Built { value: Ok(translated(judged)), keep: Some(size_in_memory(&bytes)), level: Level::Disk });
            }
        }
        if let Some(quarantined) = host.quarantined() {
            return Ok(Built { value: Ok(Translated::Declined(quarantined)), keep: None, level: Level::Built });
        }
        let translator = host.translator(&mut self.phases)?;
        let reply = self.phases.time(Phase::Translate, || translator.translate(problem, &backend.capabilities));
        let bytes = reply.as_ref().ok().map(record::to_bytes);
        let judged = self.phases.time(Phase::Validate, || judge(reply, translator.description(), problem));
        // A fault of the translator is no answer that another process should be told.
        match (&judged, &bytes) {
            (Err(declined), _) if is_fault(declined) => host.note_fault(declined),
            (_, Some(bytes)) => host.caches.store(key, bytes, &mut self.phases),
            (_, None) => {}
        }
        // The next process then needs no translator to know what its answers mean.
        host.manifest(&mut self.phases)?;
        let size = size_in_memory(&bytes.unwrap_or_default());
        Ok(Built { value: Ok(translated(judged)), keep: Some(size), level: Level::Built })
    }

    fn plan(&mut self, backend: &Backend, graph: &ValidatedGraph, alignment: usize) -> Result<Known, Stop> {
        if backend.hip.is_capturing(self.state.stream()) {
            return Err(Stop::Host(HostRule::CaptureCold, "the plan is not built yet".into()));
        }
        // Another thread may be capturing: what is allocated for the plan is none of its capture's business.
        let _relaxed = backend.hip.relax_capture();
        self.bind(backend)?;
        let Some((handle, surroundings)) = self.bound.hipdnn() else {
            return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into()));
        };
        let key = Caches::plan_key(graph, alignment, surroundings);
        let shared = surroundings.shared;
        let mut maker = PlanMaker { caches: &self.host.caches, graph, handle, alignment, phases: &mut self.phases, plan: None };
        let (answer, level) = maker.caches.plans.get_or_build(key.digest(), || maker.make(&key, shared));
        let plan = maker.plan_of(answer);
        self.sources.note(Needed::Plan, level);
        match plan {
            Ok(plan) => {
                tracing::debug!(call = self.entry_point, engine = plan.engine(), workspace = plan.workspace(), ?level, "plan made");
                Ok(Known::Plan(Box::new(ReadyPlan { plan, executed: false, notes: graph.notes().into() })))
            }
            Err(error) => self.build_failure(graph, error).map(Known::Declined),
        }
    }

    /// A graph that no engine takes is a decline; anything else is the caller's error, unless the operator wants native then too.
    fn build_failure(&mut self, graph: &ValidatedGraph, error: NoPlan) -> Result<Arc<Declined>, Stop> {
        let (rule, message) = match error {
            NoPlan::Refused(Refusal { cause: Cause::NoEngine, message, .. }) => (self.rule_for_refusal(graph)?, message),
            NoPlan::Refused(Refusal { cause: Cause::Alignment, message, .. }) => (HostRule::AlignmentUnsupported.id().into(), message),
            NoPlan::Failed(failure) if self.host.settings.fallback => (HostRule::BackendBuildFailed.id().into(), failure.to_string()),
            NoPlan::Failed(failure) => return Err(Stop::Failed(failure)),
        };
        Ok(Arc::new(Declined { rule, message }))
    }

    /// The translator may have said under which of its rules a graph is declined that no engine takes: by a note of the same id.
    fn rule_for_refusal(&mut self, graph: &ValidatedGraph) -> Result<String, Stop> {
        let rules = &self.host.manifest(&mut self.phases)?.rules;
        let named = graph.notes().iter().find(|note| rules.iter().any(|rule| rule.id == **note));
        Ok(named.map_or_else(|| HostRule::BackendUnsupported.id().to_string(), String::clone))
    }

    /// Makes the hipDNN handle, on the device that the MIOpen handle was made on.
    fn bind(&mut self, backend: &Backend) -> Result<(), Stop> {
        if self.bound.hipdnn().is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let current = backend.hip.device().ok();
        let wanted = self.state.device().filter(|device| Some(*device) != current);
        let switched = wanted.is_some_and(|device| backend.hip.set_device(device).is_ok());
        let mut handle = None;
        (self.host.around_load)(&mut || handle = Some(Handle::with_engines(backend.library)));
        if let (true, Some(device)) = (switched, current) {
            // Failing to go back cannot be helped here; the caller's next HIP call will say so.
            let _ = backend.hip.set_device(device);
        }
        self.phases.set(Phase::Handle, start.elapsed());
        match handle {
            Some(Ok(handle)) => {
                let device = wanted.or(current);
                let surroundings = self.host.surroundings(backend, &handle, device);
                self.bound.set_hipdnn(handle, surroundings);
            }
            Some(Err(error)) => {
                if self.host.given_up.set(()).is_ok() {
                    say(&format!("{error}; every call goes to native MIOpen"));
                }
                return Err(Stop::Host(HostRule::BackendUnavailable, error.to_string()));
            }
            None => return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into())),
        }
        Ok(())
    }
}

/// Why there is no plan.
enum NoPlan {
    /// The backend does not take the graph.
    Refused(Refusal),
    /// Something went wrong.
    Failed(BackendError),
}

/// How a plan is made: as another process did, or by asking the backend what there is.
struct PlanMaker<'a> {
    caches: &'a Caches,
    graph: &'a ValidatedGraph,
    handle: &'a Handle,
    alignment: usize,
    phases: &'a mut Phases,
    /// The plan, if it was this handle that found out how.
    plan: Option<Plan>,
}

impl PlanMaker<'_> {
    /// Finds out how the plan is made, and makes it. What other processes may use is written down (`shared`).
    fn make(&mut self, key: &EntryKey, shared: bool) -> Built<PlanAnswer> {
        let caches = self.caches;
        if let Some(bytes) = shared.then(|| caches.load(key, self.phases)).flatten()
            && let Some(record) = record::from_bytes::<PlanRecord>(&bytes)
            && self.follow(&record)
        {
            return Built { keep: Some(size_in_memory(&bytes)), value: Ok(Arc::new(record)), level: Level::Disk };
        }
        let record = match self.build() {
            Ok((plan, engine)) => {
                self.plan = Some(plan);
                PlanRecord::Engine(engine)
            }
            Err(NoPlan::Refused(refusal)) => PlanRecord::Refused(refusal),
            Err(NoPlan::Failed(failure)) => return Built { value: Err(failure), keep: None, level: Level::Built },
        };
        let bytes = record::to_bytes(&record);
        if shared {
            caches.store(key, &bytes, self.phases);
        }
        Built { keep: Some(size_in_memory(&bytes)), value: Ok(Arc::new(record)), level: Level::Built }
    }

    /// Does what a record says; false if that cannot be done with this backend.
    fn follow(&mut self, record: &PlanRecord) -> bool {
        match record {
            PlanRecord::Refused(refusal) => refusal.alignment == self.alignment as u64,
            PlanRecord::Engine(engine) => {
                self.plan = self.restore(engine);
                self.plan.is_some()
            }
        }
    }

    /// The plan of this handle, by an answer that it or another handle found.
    fn plan_of(mut self, answer: PlanAnswer) -> Result<Plan, NoPlan> {
        let record = answer.map_err(NoPlan::Failed)?;
        match (self.plan.take(), &*record) {
            (Some(plan), _) => Ok(plan),
            (None, PlanRecord::Refused(refusal)) => Err(NoPlan::Refused(refusal.clone())),
            // What another handle did may not work on this one: then it finds out for itself.
            (None, PlanRecord::Engine(engine)) => self.restore(engine).map_or_else(|| Ok(self.build()?.0), Ok),
        }
    }

    /// The plan of an engine that is known.
    fn restore(&mut self, engine: &EngineRecord) -> Option<Plan> {
        match Plan::restore(self.graph, self.handle, self.alignment, engine) {
            Ok((plan, times)) => {
                self.note(times);
                Some(plan)
            }
            Err(error) => {
                tracing::debug!(engine = engine.id, %error, "a remembered plan cannot be made");
                None
            }
        }
    }

    /// Asks the backend which engines there are, and makes the plan of the first that can.
    fn build(&mut self) -> Result<(Plan, EngineRecord), NoPlan> {
        match Plan::build(self.graph, self.handle, self.alignment) {
            Ok((plan, engine, times)) => {
                self.note(times);
                Ok((plan, engine))
            }
            Err(PlanError::Failed(failure)) => Err(NoPlan::Failed(failure)),
            Err(refused) => Err(NoPlan::Refused(self.refusal(&refused))),
        }
    }

    fn refusal(&self, error: &PlanError) -> Refusal {
        let cause = if matches!(error, PlanError::Alignment(..)) { Cause::Alignment } else { Cause::NoEngine };
        Refusal { cause, alignment: self.alignment as u64, message: error.to_string() }
    }

    fn note(&mut self, times: BuildTimes) {
        let phases = [(Phase::Lower, times.lower), (Phase::Heuristics, times.heuristics), (Phase::Plan, times.plan)];
        phases.into_iter().filter(|(_, time)| !time.is_zero()).for_each(|(phase, time)| self.phases.set(phase, time));
    }
}

/// What an answer takes in memory, about, by what it takes as bytes.
fn size_in_memory(bytes: &[u8]) -> usize {
    512 + 4 * bytes.len()
}

/// Whether a decline says that the translator is at fault.
fn is_fault(declined: &Declined) -> bool {
    // A family that it does not have, and what the host itself cannot reckon with, are not.
    HostRule::of(&declined.rule).is_some_and(|rule| !matches!(rule, HostRule::TranslatorFamily | HostRule::ExtentUnknown))
}

fn translated(judged: Result<ValidatedGraph, Declined>) -> Translated {
    match judged {
        Ok(graph) => Translated::Graph(Arc::new(graph)),
        Err(declined) => Translated::Declined(Arc::new(declined)),
    }
}

impl Host {
    /// What the plans of a handle depend on.
    fn surroundings(&self, backend: &Backend, handle: &Handle, device: Option<i32>) -> Surroundings {
        let native = self.native.get_or_init(|| (self.native_identity)());
        let parts = || {
            let device = backend.hip.describe(device?)?;
            Some(
                [identity::backend(handle)?, device, native.clone()?, identity::own_build()?, self.settings.backend_choices.clone()]
                    .join("\n"),
            )
        };
        match parts() {
            Some(text) => Surroundings { text, shared: true },
            None => Surroundings { text: format!("process {}, device {device:?}", self.pid), shared: false },
        }
    }

    /// The libraries, loaded by the first call that needs them. If they cannot be had, that is said once, and calls go to native for the
    /// life of the process.
    pub(super) fn backend(&self) -> Result<&Backend, Stop> {
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
}

/// Neither the loader nor the translator nor hipDNN, when it builds a plan, says how much stack is enough.
fn require_stack() -> Result<(), Stop> {
    let left = crate::stack::remaining();
    if left >= MIN_STACK {
        return Ok(());
    }
    Err(Stop::Host(HostRule::StackShort, format!("{left} bytes of stack are left, {MIN_STACK} are needed")))
}

/// Loads hipDNN and HIP and asks what they can do. One line if that fails.
fn load(settings: &Settings) -> Result<Backend, String> {
    let hip = Hip::load(settings.hip_library.as_deref()).and_then(Hip::with_device);
    let hip = hip.map_err(|error| format!("HIP cannot be used: {error}"))?;
    let folders = native::search::library_folders(settings);
    let library =
        Library::load(settings.backend_library.as_deref(), &folders).map_err(|error| format!("hipDNN cannot be used: {error}"))?;
    // Process-lifetime on purpose: descriptors and handles refer to it, and the library is never unloaded.
    let (library, hip): (&'static Library, &'static Hip) = (Box::leak(Box::new(library)), Box::leak(Box::new(hip)));
    tracing::debug!(backend = %library.path().display(), version = library.version(), hip = hip.name(), "loaded");
    Ok(Backend { library, hip, capabilities: library.capabilities() })
}
