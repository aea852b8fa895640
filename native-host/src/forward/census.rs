//! The host's handles and what they counted: registered, retired, added up, written to the statistics file. No call is decided here.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Arc, Weak},
};

use super::Host;
use crate::{
    census::{Census, Counters, MAX_PROBLEMS},
    gate,
    handle::HandleState,
    identity::hexadecimal,
    rules::HostRule,
    stats::{self, BackendFacts, ProblemCounters, Process, Stats, TranslatorFacts},
    trace::say,
    translator::Source,
};

impl Host {
    /// A MIOpen handle was created. `device` is asked for only if HIP is loaded already.
    pub fn register(&self, stream: *mut c_void) -> Arc<HandleState> {
        let device = self.hip().and_then(|hip| hip.device().ok());
        let state = Arc::new(HandleState::new(stream, device, if self.settings.stats.is_some() { MAX_PROBLEMS } else { 0 }));
        let mut handles = self.handles.lock();
        handles.retain(|weak| weak.strong_count() > 0);
        handles.push(Arc::downgrade(&state));
        state
    }

    /// A MIOpen handle is about to be destroyed: its plans and its hipDNN handle go first, its counts are kept.
    pub fn retire(&self, state: &HandleState) {
        // Locks of hipDNN that are held here must not be found held by a forked child.
        let _inside = gate::enter();
        state.lock().release(self.hip());
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
        if let Err(error) = stats::write(path, &self.stats(census))
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

    /// The document of the statistics file.
    pub fn stats(&self, census: &Census) -> Stats {
        let by_call = |counters: &BTreeMap<&'static str, Counters>| {
            counters.iter().map(|(call, counters)| ((*call).to_string(), counters.clone())).collect()
        };
        let problem = |(call, problem, counters): (&str, &crate::problem::OwnedProblem, &Counters)| ProblemCounters {
            call: call.to_string(),
            problem: problem.clone(),
            counters: counters.clone(),
        };
        Stats {
            format: stats::FORMAT.into(),
            format_version: stats::VERSION,
            version: crate::VERSION.into(),
            process: Process::current(self.settings.rank, self.began_ms),
            cache: self.caches.opened_disk().map(|disk| disk.counters.counts()),
            backend: self.loaded().map(|backend| BackendFacts {
                library: backend.library.path().display().to_string(),
                version: backend.library.version().to_string(),
                hip: backend.hip.name().to_string(),
            }),
            translator: self.caches.known_manifest().map(|manifest| TranslatorFacts {
                name: manifest.name.clone(),
                version: manifest.version.clone(),
                sha256: self.chosen().map_or_else(String::new, |source| hexadecimal(source.digest())),
                file: self.chosen().and_then(Source::path).map(|path| path.display().to_string()),
                faults: self.faults.count(),
            }),
            rules: self.reasons(census),
            calls: by_call(census.calls()),
            problems: census.problems().map(problem).collect(),
            others: by_call(census.others()),
        }
    }

    /// What the rules mean that occur: the host's own table, and the translator's manifest.
    fn reasons(&self, census: &Census) -> BTreeMap<String, String> {
        let manifest = self.caches.known_manifest();
        let reason = |id: &str| {
            let hosts = HostRule::of(id).map(HostRule::reason);
            hosts.or_else(|| manifest?.rules.iter().find(|rule| rule.id == id).map(|rule| rule.reason.as_str()))
        };
        let occurring = census.calls().values().flat_map(|counters| counters.declined.keys().chain(counters.native.keys()));
        occurring.filter_map(|id| Some((id.clone(), reason(id)?.to_string()))).collect()
    }
}
