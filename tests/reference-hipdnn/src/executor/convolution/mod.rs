//! Convolutions on the CPU, in all directions: what is taken (`problem`), and two methods, products of matrices (`dense`) and direct
//! sums (`depthwise`). Both see tensors as matrices (`operands`, made of `view` and `element`), and stand on the geometry (`taps`) and on
//! the `workspace`; `columns` is what makes a matrix of an image.
//!
//! Own code, on purpose: it is what other implementations are compared with. One execution runs on the calling thread only.

mod columns;
mod dense;
mod depthwise;
mod element;
mod operands;
mod problem;
mod taps;
mod view;
mod workspace;

use std::sync::Arc;

use self::{
    dense::Dense,
    depthwise::Depthwise,
    element::Number,
    problem::{Accumulator, Problem},
};
use super::{Arguments, Executable, Refusal};
use crate::{capture, error::Result, graph::Graph};

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
    /// Takes a graph of one convolution, or says why not.
    pub(crate) fn new(graph: &Graph) -> std::result::Result<Self, Refusal> {
        let problem = Problem::new(graph)?;
        let method = match problem.accumulator {
            Accumulator::Float => Method::new::<f32>(&problem),
            Accumulator::Double => Method::new::<f64>(&problem),
        };
        let (method, workspace) = method.ok_or("a workspace larger than memory")?;
        Ok(Self { problem: problem.into(), method, workspace })
    }
}

impl Executable for Convolution {
    fn workspace(&self) -> usize {
        self.workspace
    }

    unsafe fn execute(&self, arguments: &Arguments, workspace: *mut u8, stream: usize) -> Result<()> {
        let (problem, method) = (self.problem.clone(), self.method.clone());
        let addresses = Addresses {
            x: arguments.address(problem.x.uid)?,
            w: arguments.address(problem.w.uid)?,
            y: arguments.address(problem.y.uid)?,
            workspace,
        };
        let run = move || {
            let addresses = &addresses;
            // SAFETY: by the contract of `execute`; under capture the caller keeps the memory as long as the graph can be launched.
            unsafe {
                match problem.accumulator {
                    Accumulator::Float => method.run::<f32>(&problem, addresses),
                    Accumulator::Double => method.run::<f64>(&problem, addresses),
                }
            }
        };
        capture::run_or_record(stream, run)
    }
}
