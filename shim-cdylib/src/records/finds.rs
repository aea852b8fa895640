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

#[cfg(test)]
mod tests {
    use hipdnn_host::{
        data_type::DataType,
        problem::{ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, TensorDescriptor},
    };
    use miopen_api::fwd_algorithm::{DIRECT, WINOGRAD};

    use super::*;

    const OWN: Measurement = Measurement { milliseconds: 1.0, workspace: 0 };
    const NATIVES: Listed = Listed { algorithm: WINOGRAD, workspace: 8 };
    const PUT_OFF: NativeSearch = NativeSearch::PutOff { exhaustive: false };

    fn done() -> NativeSearch {
        NativeSearch::Done(vec![NATIVES])
    }

    /// The work on a problem that a handle knows by what was found in this order.
    fn after(searches: impl IntoIterator<Item = NativeSearch>, check: impl FnOnce(&Finds, &ConvolutionProblem<'_>)) {
        let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![0, 0], vec![1, 1], vec![1, 1]);
        let (Ok(convolution), Ok(tensor)) =
            (ConvolutionDescriptor::new(fields), TensorDescriptor::new(DataType::Float, None, &[1; 4], &[1; 4], 1, None))
        else {
            panic!("valid descriptors");
        };
        let direction = ConvolutionDirection::Forward;
        let (x, w, y) = (&tensor, &tensor, &tensor);
        let problem =
            ConvolutionProblem { direction, convolution: &convolution, x, w, y, alpha: 1.0, beta: 0.0, algorithm: Some(DIRECT as u32) };
        let finds = Finds::default();
        searches.into_iter().for_each(|search| finds.found(&problem, OWN, search));
        check(&finds, &problem);
    }

    fn native_alone_keeps_what_it_listed(finds: &Finds, problem: &ConvolutionProblem<'_>) {
        assert!(finds.is_natives(problem, WINOGRAD) && !finds.is_natives(problem, DIRECT) && !finds.is_natives(problem, IMPLICIT_GEMM));
        assert_eq!(finds.listed_hipdnn(problem), Some(done()));
        assert_eq!(finds.measured(problem), Some(OWN));
    }

    #[test]
    fn what_native_listed_stays_natives_whatever_is_searched_next() {
        after([done(), PUT_OFF], native_alone_keeps_what_it_listed);
        after([done(), PUT_OFF, PUT_OFF], native_alone_keeps_what_it_listed);
    }

    #[test]
    fn a_search_that_was_put_off_may_be_made_up_for() {
        after([PUT_OFF, done()], native_alone_keeps_what_it_listed);
        after([PUT_OFF], |finds, problem| {
            assert!(!finds.is_natives(problem, WINOGRAD));
            assert_eq!(finds.listed_hipdnn(problem), Some(PUT_OFF));
            finds.searched(problem, vec![NATIVES]);
            native_alone_keeps_what_it_listed(finds, problem);
        });
    }

    #[test]
    fn a_later_search_of_natives_is_the_one_that_counts() {
        after([NativeSearch::Done(vec![Listed { algorithm: DIRECT, workspace: 0 }]), done()], native_alone_keeps_what_it_listed);
    }

    #[test]
    fn where_hipdnn_was_never_listed_native_alone_decides() {
        after([], |finds, problem| {
            finds.searched(problem, vec![NATIVES]);
            assert!(!finds.is_natives(problem, WINOGRAD));
            assert_eq!((finds.listed_hipdnn(problem), finds.measured(problem)), (None, None));
        });
    }
}
