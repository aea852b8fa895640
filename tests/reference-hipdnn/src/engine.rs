//! Where a handle's engines come from: the seam between the rules of the ABI and whoever computes. What an engine can do is its
//! executor's business.
//!
//! Without a word of anybody it is the CPU (`executor::cpu`). A library that puts something else under the same rules names it
//! before the first call ([`compute_with`]).

use std::{
    ffi::CStr,
    sync::{Arc, OnceLock},
};

use crate::{
    error::{Error, Result},
    executor::{Executable, Executor, cpu},
    graph::Graph,
};

/// The default selection policies of the real backend, by name; their ids are hashes of the names.
pub(crate) const POLICIES: &[&str] = &["SelectionHeuristic::Config", "SelectionHeuristic::StaticOrdering"];

static PROVIDER: OnceLock<&'static dyn Provider> = OnceLock::new();

/// What computes in this process.
pub trait Provider: Sync {
    /// The library's version text: `MAJOR.MINOR.PATCH.TWEAK`.
    fn version(&self) -> &'static CStr;

    /// What engine info tells besides the engine's name: the plugin that it is of, and its version.
    fn plugin(&self) -> (String, String);

    /// What a new hipDNN handle stands for.
    fn open(&self) -> Result<Box<dyn Session>>;
}

/// What one hipDNN handle stands for. The ABI lets one thread at a time use a handle; this must survive a client that breaks that rule.
pub trait Session: Send + Sync {
    /// The engines that are known without a graph, best first.
    fn engines(&self) -> &[Arc<dyn Executor>];

    /// The engines that can run a graph, best first.
    fn candidates(&self, graph: &Graph) -> Result<Vec<Arc<dyn Executor>>> {
        Ok(self.engines().iter().filter(|engine| engine.check(graph).is_ok()).cloned().collect())
    }

    /// The engine with this id, for a graph that it may or may not be able to run.
    fn engine(&self, id: i64, _graph: &Graph) -> Result<Arc<dyn Executor>> {
        let found = self.engines().iter().find(|engine| engine.id() == id).cloned();
        found.ok_or_else(|| Error::bad(format!("no engine {id} on the graph's handle")))
    }

    /// The name of an engine that is known.
    fn engine_name(&self, id: i64) -> Option<String> {
        self.engines().iter().find(|engine| engine.id() == id).map(|engine| engine.name().to_string())
    }

    /// Whether the handle runs plans of an engine, which may be another handle's.
    fn runs(&self, engine: &dyn Executor) -> bool {
        self.engines().iter().any(|own| own.id() == engine.id())
    }

    /// Makes a plan from what it was saved with: engine, graph, and the bytes of [`Executable::payload`].
    fn restore(&self, id: i64, graph: &Graph, payload: &[u8]) -> Result<(Arc<dyn Executor>, Box<dyn Executable>)> {
        let engine = self.engines().iter().find(|engine| engine.id() == id).cloned();
        let engine = engine.ok_or_else(|| Error::unsupported(format!("the plan's engine {id} is not loaded")))?;
        engine.check(graph).map_err(|refusal| Error::bad(format!("{} cannot run the plan's graph: {refusal}", engine.name())))?;
        if !payload.is_empty() {
            return Err(Error::bad("bytes that this engine does not know"));
        }
        let executable = engine.compile(graph)?;
        Ok((engine, executable))
    }

    /// Binds the stream that executions are queued on; 0 is the null stream.
    fn set_stream(&self, stream: usize) -> Result<()>;

    /// The bound stream.
    fn stream(&self) -> usize;

    /// The handle of the library that computes, where there is one.
    fn library_handle(&self) -> usize {
        0
    }
}

/// Names what computes in this process, before the first call of the ABI. Whoever comes second is not heard: false.
pub fn compute_with(provider: &'static dyn Provider) -> bool {
    PROVIDER.set(provider).is_ok()
}

/// What computes.
pub(crate) fn provider() -> &'static dyn Provider {
    *PROVIDER.get_or_init(|| &cpu::Cpu)
}
