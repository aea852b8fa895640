//! The host's handles and what they counted: registered, retired, added up, written to the statistics file. No call is decided here.

use std::{
    ffi::c_void,
    sync::{Arc, Weak},
};

use super::Host;
use crate::{
    gate,
    handle::HandleState,
    trace::{Census, say, write_stats},
};

impl Host {
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
        // Locks of hipDNN that are held here must not be found held by a forked child.
        let _inside = gate::enter();
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
}
