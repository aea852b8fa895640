//! The cold path: what a problem is known for on a handle is found out once. Libraries, translation, validation, plan.

use std::{sync::Arc, time::Instant};

use super::{Backend, Host, Stop, Work};
use crate::{
    backend::{Handle, Library},
    component::Translator,
    environment::Settings,
    gate,
    handle::{Known, ReadyPlan},
    hip::Hip,
    judge::judge,
    key::KeyBuffer,
    native,
    plan::{Plan, PlanError},
    problem::Problem,
    rules::HostRule,
    trace::{Phase, say},
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
        // A fork waits for all that is done here.
        let _inside = gate::enter();
        let host = self.host;
        let backend = match host.backend.get() {
            Some(_) => host.backend()?,
            None => self.phases.time(Phase::Libraries, || host.backend())?,
        };
        let known = match self.translate(backend, problem, key)? {
            Translated::Graph(graph) => self.plan(backend, &graph, alignment)?,
            Translated::Declined(declined) => Known::Declined(declined),
        };
        Ok(self.bound.insert(key.words(), key.hash(), alignment, known))
    }

    fn plan(&mut self, backend: &Backend, graph: &ValidatedGraph, alignment: usize) -> Result<Known, Stop> {
        if backend.hip.is_capturing(self.state.stream()) {
            return Err(Stop::Host(HostRule::CaptureCold, "the plan is not built yet".into()));
        }
        // Another thread may be capturing: what is allocated for the plan is none of its capture's business.
        let _relaxed = backend.hip.relax_capture();
        self.bind(backend)?;
        let Some(handle) = self.bound.hipdnn() else {
            return Err(Stop::Host(HostRule::BackendUnavailable, "no hipDNN handle".into()));
        };
        let (plan, times) = match Plan::build(graph, handle, alignment) {
            Ok(built) => built,
            Err(error) => return self.build_failure(graph, error).map(Known::Declined),
        };
        self.phases.set(Phase::Lower, times.lower);
        self.phases.set(Phase::Heuristics, times.heuristics);
        self.phases.set(Phase::Plan, times.plan);
        tracing::debug!(call = self.entry_point, engine = plan.engine(), workspace = plan.workspace(), ?times, "plan built");
        Ok(Known::Plan(Box::new(ReadyPlan { plan, executed: false, notes: graph.notes().into() })))
    }

    /// A graph that no engine takes is a decline; anything else is the caller's error, unless the operator wants native then too.
    fn build_failure(&self, graph: &ValidatedGraph, error: PlanError) -> Result<Arc<Declined>, Stop> {
        let rule = match &error {
            PlanError::NoEngine(_) => self.rule_for_refusal(graph),
            PlanError::Alignment(..) => HostRule::AlignmentUnsupported.id(),
            PlanError::Failed(_) if self.host.settings.fallback => HostRule::BackendBuildFailed.id(),
            PlanError::Failed(failure) => return Err(Stop::Failed(failure.clone())),
        };
        Ok(Arc::new(Declined { rule: rule.to_string(), message: error.to_string() }))
    }

    /// The translator may have said under which of its rules a graph is declined that no engine takes: by a note of the same id.
    fn rule_for_refusal<'g>(&'g self, graph: &'g ValidatedGraph) -> &'g str {
        let rules = self.host.translator().map_or(&[][..], |translator| &translator.description().rules);
        let named = graph.notes().iter().find(|note| rules.iter().any(|rule| rule.id == **note));
        named.map_or(HostRule::BackendUnsupported.id(), String::as_str)
    }

    fn translate(&mut self, backend: &Backend, problem: &Problem<'_>, key: &KeyBuffer) -> Result<Translated, Stop> {
        if let Some(translated) = self.host.translations.get(key.words()) {
            return Ok(translated);
        }
        let host = self.host;
        let translator = match host.translator.get() {
            Some(_) => host.translator()?,
            None => self.phases.time(Phase::Translator, || host.translator())?,
        };
        let reply = self.phases.time(Phase::Translate, || translator.translate(problem, &backend.capabilities));
        let translated = match self.phases.time(Phase::Validate, || judge(reply, translator, problem)) {
            Ok(graph) => Translated::Graph(Arc::new(graph)),
            Err(declined) => Translated::Declined(Arc::new(declined)),
        };
        Ok(host.translations.insert(key.words(), translated))
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
            Some(Ok(handle)) => self.bound.set_hipdnn(handle),
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

impl Host {
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
    let library = Library::load(settings.backend_library.as_deref(), &folders).map_err(|error| format!("hipDNN cannot be used: {error}"))?;
    // Process-lifetime on purpose: descriptors and handles refer to it, and the library is never unloaded.
    let library: &'static Library = Box::leak(Box::new(library));
    tracing::debug!(backend = %library.path().display(), version = library.version(), hip = hip.name(), "loaded");
    Ok(Backend { library, hip, capabilities: library.capabilities() })
}
