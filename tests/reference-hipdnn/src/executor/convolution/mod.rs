//! Convolutions on the CPU, in all directions: what is taken (`problem`), and two methods, products of matrices (`dense`) and direct
//! sums (`depthwise`). Both see tensors as matrices (`operands`, made of `view`), and stand on the geometry (`taps`) and on the
//! `workspace`; `columns` is what makes a matrix of an image.
//!
//! Own code, on purpose: it is what other implementations are compared with. One execution runs on the calling thread only.

mod columns;
mod dense;
mod depthwise;
mod operands;
mod problem;
mod taps;
mod view;
mod workspace;

use std::sync::Arc;

use self::{
    dense::Dense,
    depthwise::Depthwise,
    problem::{Accumulator, Problem},
};
use super::{
    Arguments, Work,
    element::{self, Number},
    layout::{self, Checked},
};
use crate::{
    error::Result,
    graph::{Node, Tensor},
};

/// A convolution that can run.
pub(crate) struct Convolution {
    problem: Arc<Problem>,
    method: Method,
    workspace: usize,
}

/// How it runs.
#[derive(Clone, Debug)]
enum Method {
    Dense(Dense),
    Depthwise(Depthwise),
}

impl Method {
    /// The method for a problem, and its bytes of workspace, if they fit into memory.
    fn new<T: Number>(problem: &Problem) -> Option<(Self, usize)> {
        if Depthwise::suits(problem) {
            let depthwise = Depthwise::new::<T>(problem)?;
            let workspace = depthwise.workspace::<T>()?;
            return Some((Self::Depthwise(depthwise), workspace));
        }
        let dense = Dense::new::<T>(problem)?;
        let workspace = dense.workspace::<T>()?;
        Some((Self::Dense(dense), workspace))
    }

    /// # Safety
    /// The tensors are live for their extents and at addresses of their alignments, the workspace is writable for as many bytes as
    /// [`Method::new`] said, and neither the output nor the workspace overlaps anything else.
    unsafe fn run<T: Number>(&self, problem: &Problem, addresses: &Addresses) {
        // SAFETY: by the contract of this function.
        unsafe {
            match self {
                Self::Dense(dense) => dense.run::<T>(problem, addresses),
                Self::Depthwise(depthwise) => depthwise.run::<T>(problem, addresses),
            }
        }
    }
}

/// Where the caller's memory is. Only the output is written.
struct Addresses {
    x: *mut u8,
    w: *mut u8,
    y: *mut u8,
    workspace: *mut u8,
}

// SAFETY: only addresses; who may use them when is the contract of `Method::run`.
unsafe impl Send for Addresses {}
// SAFETY: as above.
unsafe impl Sync for Addresses {}

impl Convolution {
    /// Whether a node is a convolution.
    pub(super) fn is(node: &Node) -> bool {
        problem::is_convolution(node)
    }

    /// Takes a convolution whose tensors all are in memory, or says why not.
    pub(super) fn new(node: &Node, tensors: &[Arc<Tensor>]) -> Checked<Self> {
        let problem = Problem::new(node, tensors)?;
        let method = match problem.accumulator {
            Accumulator::Float => Method::new::<f32>(&problem),
            Accumulator::Double => Method::new::<f64>(&problem),
        };
        let (method, workspace) = method.ok_or("a workspace larger than memory")?;
        Ok(Self { problem: problem.into(), method, workspace })
    }

    pub(super) fn workspace(&self) -> usize {
        self.workspace
    }

    /// What an execution does.
    ///
    /// # Safety
    /// Whenever the work runs, every argument's memory is live for the extent of its tensor, the output is writable, and the workspace is
    /// writable for [`Convolution::workspace`] bytes; neither of the two overlaps anything else.
    pub(super) unsafe fn work(&self, arguments: &Arguments, workspace: *mut u8) -> Result<Work> {
        let (problem, method) = (self.problem.clone(), self.method.clone());
        let addresses = Addresses {
            x: arguments.address(problem.x.uid)?,
            w: arguments.address(problem.w.uid)?,
            y: arguments.address(problem.y.uid)?,
            workspace,
        };
        Ok(Box::new(move || {
            let addresses = &addresses;
            // SAFETY: by the contract of `work`.
            unsafe {
                match problem.accumulator {
                    Accumulator::Float => method.run::<f32>(&problem, addresses),
                    Accumulator::Double => method.run::<f64>(&problem, addresses),
                }
            }
        }))
    }
}
