//! What Find listed on a handle, problem by problem: it decides whose a later call is. Kept as long as the handle, as native keeps its own.

use hipdnn_host::{
    forward::Measurement,
    key::KeyBuffer,
    problem::{ConvolutionProblem, Problem},
};
use miopen_api::ConvAlgoPerf;
use papaya::HashMap;

use crate::forwarding::IMPLICIT_GEMM;

/// An algorithm that native listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// MIOpen's number.
    pub algorithm: i32,
    /// Bytes of workspace that it needs.
    pub workspace: usize,
}

impl From<&ConvAlgoPerf> for Listed {
    fn from(perf: &ConvAlgoPerf) -> Self {
        Self { algorithm: perf.algorithm, workspace: perf.memory }
    }
}

/// Native's part of a Find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NativeSearch {
    /// It ran, and listed these, fastest first; none if it failed.
    Done(Vec<Listed>),
    /// It did not run: hipDNN's entry was all that was asked for.
    PutOff {
        /// How it was asked for.
        exhaustive: bool,
    },
}

struct Found {
    /// What hipDNN's plan was measured to take.
    hipdnn: Measurement,
    native: NativeSearch,
}

/// The problems of a handle for which a Find listed hipDNN.
#[derive(Default)]
pub struct Finds {
    found: HashMap<Box<[u64]>, Found>,
}

/// Find knows no scalars, and no algorithm yet. `None` if there is no such key, which no convolution is too large for.
fn key(problem: &ConvolutionProblem<'_>) -> Option<KeyBuffer> {
    let mut key = KeyBuffer::default();
    let searched = ConvolutionProblem { alpha: 1.0, beta: 0.0, algorithm: None, ..*problem };
    key.fill(&Problem::Convolution(searched)).then_some(key)
}

impl Finds {
    /// Remembers what a Find listed. What native has searched, a Find that puts the search off does not take back.
    pub fn found(&self, problem: &ConvolutionProblem<'_>, hipdnn: Measurement, native: NativeSearch) {
        let native = match (native, self.listed_hipdnn(problem)) {
            (NativeSearch::PutOff { .. }, Some(NativeSearch::Done(listed))) => NativeSearch::Done(listed),
            (native, _) => native,
        };
        if let Some(key) = key(problem) {
            self.found.pin().insert(key.words().into(), Found { hipdnn, native });
        }
    }

    /// Native has searched, for a problem for which hipDNN was listed before.
    pub fn searched(&self, problem: &ConvolutionProblem<'_>, listed: Vec<Listed>) {
        if let Some(hipdnn) = self.measured(problem) {
            self.found(problem, hipdnn, NativeSearch::Done(listed));
        }
    }

    fn get<R>(&self, problem: &ConvolutionProblem<'_>, read: impl FnOnce(&Found) -> R) -> Option<R> {
        if self.found.is_empty() {
            return None;
        }
        self.found.pin().get(key(problem)?.words()).map(read)
    }

    /// Whether the caller chose an algorithm that native listed beside hipDNN's, which itself never is native's.
    pub fn is_natives(&self, problem: &ConvolutionProblem<'_>, algorithm: i32) -> bool {
        let listed = |found: &Found| match &found.native {
            NativeSearch::Done(listed) => listed.iter().any(|listed| listed.algorithm == algorithm),
            NativeSearch::PutOff { .. } => false,
        };
        algorithm != IMPLICIT_GEMM && self.get(problem, listed).unwrap_or(false)
    }

    /// Native's part of the Find that listed hipDNN for this problem; `None` if none did.
    pub fn listed_hipdnn(&self, problem: &ConvolutionProblem<'_>) -> Option<NativeSearch> {
        self.get(problem, |found| found.native.clone())
    }

    /// What hipDNN's plan was measured to take, if it ever was.
    pub fn measured(&self, problem: &ConvolutionProblem<'_>) -> Option<Measurement> {
        self.get(problem, |found| found.hipdnn)
    }
}
