//! The engine of the default profile: all that the ABI can express of the operations that are written so far.

use hipdnn_abi::behavior_note;

use super::{Executable, Executor, Refusal, convolution::Convolution};
use crate::{
    error::{Error, Result},
    graph::Graph,
};

/// `REFERENCE_ENGINE`.
pub struct Reference;

impl Executor for Reference {
    fn name(&self) -> &'static str {
        "REFERENCE_ENGINE"
    }

    fn notes(&self) -> &'static [i32] {
        &[behavior_note::SUPPORTS_GRAPH_CAPTURE, behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION]
    }

    fn check(&self, graph: &Graph) -> std::result::Result<usize, Refusal> {
        Convolution::new(graph).map(|convolution| convolution.workspace())
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Convolution::new(graph).map_err(Error::unsupported)?))
    }
}
