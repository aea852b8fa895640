//! Forward convolution on the CPU: what it takes (`problem`), elements in memory (`element`), and the sums (`kernel`).
//! Own code, on purpose: it is what other implementations are compared with.

mod element;
mod kernel;
mod problem;

use super::{Arguments, Executable, Refusal};
use crate::{capture, error::Result, graph::Graph};
use problem::{Accumulator, Problem};

/// A convolution that can run.
pub(crate) struct Convolution {
    problem: std::sync::Arc<Problem>,
    workspace: usize,
}

impl Convolution {
    /// Takes a graph of one forward convolution, or says why not.
    pub(crate) fn new(graph: &Graph) -> std::result::Result<Self, Refusal> {
        let problem = Problem::new(graph)?;
        let workspace = match problem.accumulator {
            Accumulator::Float => kernel::workspace::<f32>(&problem),
            Accumulator::Double => kernel::workspace::<f64>(&problem),
            Accumulator::Int32 => kernel::workspace::<i32>(&problem),
        };
        let workspace = workspace.ok_or("a workspace larger than memory")?;
        Ok(Self { problem: problem.into(), workspace })
    }
}

impl Executable for Convolution {
    fn workspace(&self) -> usize {
        self.workspace
    }

    unsafe fn execute(&self, arguments: &Arguments, workspace: *mut u8, stream: usize) -> Result<()> {
        let problem = self.problem.clone();
        let addresses = kernel::Addresses {
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
                    Accumulator::Float => kernel::run::<f32>(&problem, addresses),
                    Accumulator::Double => kernel::run::<f64>(&problem, addresses),
                    Accumulator::Int32 => kernel::run::<i32>(&problem, addresses),
                }
            }
        };
        capture::run_or_record(stream, run)
    }
}
