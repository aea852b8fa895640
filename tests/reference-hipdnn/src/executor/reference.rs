//! The engine of the default profile: all that the ABI can express of the operations that are written so far, which
//! are convolutions and matrix products, and pointwise operations around them.

use hipdnn_abi::behavior_note;

use super::{Executable, Executor, Refusal, fusion::Fusion};
use crate::{
    error::{Error, Result},
    graph::Graph,
};

/// `REFERENCE_ENGINE`.
pub struct Reference;

impl Executor for Reference {
    fn name(&self) -> &str {
        "REFERENCE_ENGINE"
    }

    fn notes(&self) -> &[i32] {
        &[behavior_note::SUPPORTS_GRAPH_CAPTURE, behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION]
    }

    fn check(&self, graph: &Graph) -> std::result::Result<usize, Refusal> {
        Fusion::new(graph).map(|fusion| fusion.workspace())
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Fusion::new(graph).map_err(Error::unsupported)?))
    }
}
