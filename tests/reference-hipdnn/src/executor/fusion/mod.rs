//! Whole graphs: at most one convolution or matrix product, and pointwise operations before and after it, as steps that run one after the other. What goes
//! from step to step is in `flow`, where it lies between them in `between`, and what may share memory in `aliasing`.
//!
//! No operation is computed here.

mod aliasing;
mod between;
mod flow;
mod wrong;

use std::sync::Arc;

use self::{aliasing::Aliasing, between::Between, flow::Flow, wrong::Spoiler};
use super::{
    Arguments, Call, Executable, Work,
    convolution::Convolution,
    layout::{self, Checked, Layout},
    matmul::Matmul,
    pointwise::Pointwise,
};
use crate::{
    error::Result,
    graph::{Graph, Node, Tensor},
    stream,
};

/// A graph that can run.
pub(super) struct Fusion {
    steps: Vec<Step>,
    aliasing: Aliasing,
    between: Between,
    workspace: usize,
    spoiler: Spoiler,
}

enum Step {
    Convolution(Convolution),
    Matmul(Matmul),
    Pointwise(Pointwise),
}

impl Fusion {
    /// Takes a graph, or says why not.
    pub(super) fn new(graph: &Graph) -> Checked<Self> {
        if graph.override_shapes {
            return Err("shapes that are overridden".into());
        }
        let flow = Flow::new(graph)?;
        let between = Between::new(graph)?;
        let tensors = between.ground(graph);
        let steps = graph.nodes.iter().map(|node| Step::new(node, &tensors)).collect::<Checked<Vec<_>>>()?;
        let own = steps.iter().map(Step::workspace).max().unwrap_or(0);
        let workspace = between.bytes().checked_add(own).filter(|&bytes| bytes <= isize::MAX as usize);
        let workspace = workspace.ok_or("a workspace larger than memory")?;
        Ok(Self { steps, aliasing: Aliasing::new(graph, &flow)?, between, workspace, spoiler: Spoiler::new(graph) })
    }
}

impl Step {
    fn new(node: &Node, tensors: &[Arc<Tensor>]) -> Checked<Self> {
        if Pointwise::is(node) {
            Pointwise::new(node, tensors).map(Self::Pointwise)
        } else if Matmul::is(node) {
            Matmul::new(node, tensors).map(Self::Matmul)
        } else {
            Convolution::new(node, tensors).map(Self::Convolution)
        }
    }

    fn workspace(&self) -> usize {
        match self {
            Self::Convolution(convolution) => convolution.workspace(),
            Self::Matmul(_) | Self::Pointwise(_) => 0,
        }
    }

    /// # Safety
    /// As for [`Convolution::work`], [`Matmul::work`] and [`Pointwise::work`].
    unsafe fn work(&self, arguments: &Arguments, workspace: *mut u8) -> Result<Work> {
        // SAFETY: by the contract of this function.
        unsafe {
            match self {
                Self::Convolution(convolution) => convolution.work(arguments, workspace),
                Self::Matmul(matmul) => matmul.work(arguments),
                Self::Pointwise(pointwise) => pointwise.work(arguments),
            }
        }
    }
}

impl Executable for Fusion {
    fn workspace(&self) -> usize {
        self.workspace
    }

    unsafe fn execute(&self, call: &Call<'_>) -> Result<()> {
        self.aliasing.check(call.arguments)?;
        let (workspace, stream) = (call.workspace, call.session.stream());
        let arguments = self.between.place(call.arguments, workspace);
        let own = workspace.wrapping_add(self.between.bytes());
        // SAFETY: by the contract of `execute`; under capture the caller keeps the memory as long as the graph can be launched. Virtual
        // tensors and the steps' own workspace are parts of the workspace that do not overlap, and steps run one after the other. What
        // shares memory with an output was checked.
        let works = self.steps.iter().map(|step| unsafe { step.work(&arguments, own) }).collect::<Result<Vec<_>>>()?;
        stream::queue(stream, move || works.iter().for_each(|work| work()))?;
        // SAFETY: outputs are live and writable by the contract of this function.
        unsafe { self.spoiler.spoil(&arguments, stream) }
    }
}
