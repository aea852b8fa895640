//! One of cuDNN's engine configurations, for the graph that cuDNN proposed it for.

use std::sync::{Arc, OnceLock};

use hipdnn_abi::behavior_note;
use hipdnn_backend::{
    Error, Result,
    executor::{Executable, Executor, Refusal},
    graph::Graph,
};

use crate::{
    cudnn::{Descriptor, numbers::attribute},
    lower::Lowered,
    plan::CudnnPlan,
    ranking::Ranked,
    session::Device,
};

/// A graph of cuDNN's, with what it was made of. Configurations refer to it.
pub(crate) struct Prepared {
    /// What hipDNN's client described.
    pub(crate) graph: Graph,
    pub(crate) lowered: Arc<Lowered>,
    pub(crate) device: Device,
    /// Kept because engines of it are in use.
    pub(crate) _descriptor: Descriptor,
}

/// A configuration.
pub(crate) struct Engine {
    name: String,
    notes: Vec<i32>,
    configuration: Descriptor,
    prepared: Arc<Prepared>,
    workspace: OnceLock<std::result::Result<usize, Refusal>>,
}

impl Engine {
    pub(crate) fn new(ranked: Ranked, prepared: Arc<Prepared>) -> Self {
        let Ranked { name, notes, configuration } = ranked;
        Self { name, notes: with_own(notes), configuration, prepared, workspace: OnceLock::new() }
    }

    fn workspace(&self) -> std::result::Result<usize, Refusal> {
        let bytes = self.configuration.int64(attribute::ENGINECFG_WORKSPACE_SIZE).map_err(|error| error.to_string())?;
        usize::try_from(bytes).map_err(|_| format!("{bytes} bytes of workspace"))
    }
}

/// What holds for all of cuDNN's engines, with what one of them says of itself. Plans are saved by cuDNN, not by engines. An execution queues
/// kernels and nothing else, so streams may be capturing; cuDNN's own note of that sort is about building graphs without a stream.
pub(crate) fn with_own(notes: Vec<i32>) -> Vec<i32> {
    let all = [behavior_note::SUPPORTS_GRAPH_CAPTURE, behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION];
    notes.into_iter().chain(all).collect()
}

impl Executor for Engine {
    fn name(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> &[i32] {
        &self.notes
    }

    fn check(&self, graph: &Graph) -> std::result::Result<usize, Refusal> {
        if *graph != self.prepared.graph {
            return Err("another graph than the one that it was proposed for".into());
        }
        self.workspace.get_or_init(|| self.workspace()).clone()
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Executable>> {
        self.check(graph).map_err(Error::unsupported)?;
        let Prepared { lowered, device, .. } = &*self.prepared;
        Ok(Box::new(CudnnPlan::build(self.name.clone(), &self.configuration, lowered.clone(), device)?))
    }
}
