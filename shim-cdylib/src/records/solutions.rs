//! Problems and solutions of find-2.0. The solutions themselves are always native's objects; here is what they solve.

use std::sync::Arc;

use hipdnn_host::problem::{ConvolutionDescriptor, ConvolutionDirection, ConvolutionProblem, TensorDescriptor};
use papaya::HashMap;

use super::ByAddress;
use crate::forwarding::IMPLICIT_GEMM;

/// Saved solutions that are remembered. One is a few kilobytes.
const MAX_SAVED: usize = 4096;

/// A convolution problem as far as it was described. Descriptors were copied, as MIOpen does.
#[derive(Clone)]
pub struct PartialProblem {
    /// What is computed.
    pub direction: ConvolutionDirection,
    /// The operator.
    pub convolution: ConvolutionDescriptor,
    /// x, w and y.
    pub tensors: [Option<TensorDescriptor>; 3],
}

/// What a solution solves.
pub struct SolvedProblem {
    direction: ConvolutionDirection,
    convolution: ConvolutionDescriptor,
    tensors: [TensorDescriptor; 3],
    /// The handle that it was found on.
    pub handle: usize,
    /// The most workspace that the caller wants to be told, in bytes.
    pub workspace_limit: Option<usize>,
}

impl PartialProblem {
    /// The problem that solutions are found for, once all tensors are described.
    pub fn solved(&self, handle: usize, workspace_limit: Option<usize>) -> Option<SolvedProblem> {
        let [Some(x), Some(w), Some(y)] = self.tensors.clone() else { return None };
        let convolution = self.convolution.clone();
        Some(SolvedProblem { direction: self.direction, convolution, tensors: [x, w, y], handle, workspace_limit })
    }
}

impl SolvedProblem {
    /// The problem, with other descriptors where a run brings its own.
    pub fn problem<'a>(&'a self, others: [Option<&'a TensorDescriptor>; 3]) -> ConvolutionProblem<'a> {
        let [x, w, y] = std::array::from_fn(|n| others[n].unwrap_or(&self.tensors[n]));
        let algorithm = Some(IMPLICIT_GEMM.cast_unsigned());
        ConvolutionProblem { direction: self.direction, convolution: &self.convolution, x, w, y, alpha: 1.0, beta: 0.0, algorithm }
    }
}

/// Solutions, by native's object; and by what native saved of them, so that one loaded again in this process is known.
#[derive(Default)]
pub struct Solutions {
    live: ByAddress<Arc<SolvedProblem>>,
    saved: HashMap<Box<[u8]>, Arc<SolvedProblem>>,
}

impl Solutions {
    /// A solution was found.
    pub fn found(&self, solution: usize, problem: Arc<SolvedProblem>) {
        self.live.pin().insert(solution, problem);
    }

    /// What a solution solves.
    pub fn get(&self, solution: usize) -> Option<Arc<SolvedProblem>> {
        self.live.pin().get(&solution).cloned()
    }

    /// A solution is destroyed.
    pub fn forget(&self, solution: usize) {
        self.live.pin().remove(&solution);
    }

    /// Native saved a solution as these bytes.
    pub fn saved(&self, solution: usize, bytes: &[u8]) {
        let saved = self.saved.pin();
        if let Some(problem) = self.get(solution).filter(|_| saved.len() < MAX_SAVED) {
            saved.insert(bytes.into(), problem);
        }
    }

    /// Native loaded a solution from these bytes.
    pub fn loaded(&self, solution: usize, bytes: &[u8]) {
        let problem = self.saved.pin().get(bytes).cloned();
        match problem {
            Some(problem) => self.found(solution, problem),
            None => self.forget(solution),
        }
    }
}
