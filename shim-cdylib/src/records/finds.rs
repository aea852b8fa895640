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

/// Find knows no scalars, and no algorithm yet.
fn key(problem: &ConvolutionProblem<'_>) -> KeyBuffer {
    let mut key = KeyBuffer::default();
    let searched = ConvolutionProblem { alpha: 1.0, beta: 0.0, algorithm: None, ..*problem };
    // Any convolution fits; the test of `key` says so. Were it otherwise, problems would share the empty key's part that fits.
    let _ = key.fill(&Problem::Convolution(searched));
    key
}

impl Finds {
    /// Remembers what a Find listed.
    pub fn found(&self, problem: &ConvolutionProblem<'_>, hipdnn: Measurement, native: NativeSearch) {
        self.found.pin().insert(key(problem).words().into(), Found { hipdnn, native });
    }

    /// Native's search, which had been put off, was made up for.
    pub fn searched(&self, problem: &ConvolutionProblem<'_>, listed: Vec<Listed>) {
        let (found, key) = (self.found.pin(), key(problem));
        if let Some(hipdnn) = found.get(key.words()).map(|found| found.hipdnn) {
            found.insert(key.words().into(), Found { hipdnn, native: NativeSearch::Done(listed) });
        }
    }

    /// Whether the caller chose an algorithm that native listed beside hipDNN's, which itself never is native's.
    pub fn is_natives(&self, problem: &ConvolutionProblem<'_>, algorithm: i32) -> bool {
        if algorithm == IMPLICIT_GEMM || self.found.is_empty() {
            return false;
        }
        let found = self.found.pin();
        match found.get(key(problem).words()).map(|found| &found.native) {
            Some(NativeSearch::Done(listed)) => listed.iter().any(|listed| listed.algorithm == algorithm),
            Some(NativeSearch::PutOff { .. }) | None => false,
        }
    }

    /// Native's part of the Find that listed hipDNN for this problem; `None` if none did.
    pub fn listed_hipdnn(&self, problem: &ConvolutionProblem<'_>) -> Option<NativeSearch> {
        self.found.pin().get(key(problem).words()).map(|found| found.native.clone())
    }

    /// What hipDNN's plan was measured to take, if it ever was.
    pub fn measured(&self, problem: &ConvolutionProblem<'_>) -> Option<Measurement> {
        self.found.pin().get(key(problem).words()).map(|found| found.hipdnn)
    }
}
