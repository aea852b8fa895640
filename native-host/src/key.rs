//! The cache key of a problem: its words, laid out on the caller's stack.
//!
//! Every field that the rules may read is in the key; two problems with equal words get equal answers.

use arrayvec::ArrayVec;

use crate::problem::Problem;

/// Room for any convolution, and for chains as frameworks make them with tensors of five dimensions.
const CAPACITY: usize = 320;

/// A key under construction. Lives on the stack: the warm path allocates nothing.
#[derive(Default)]
pub struct KeyBuffer {
    words: ArrayVec<u64, CAPACITY>,
}

impl KeyBuffer {
    /// Lays out the key of a problem; false if it does not fit.
    #[must_use]
    pub fn fill(&mut self, problem: &Problem<'_>) -> bool {
        self.words.clear();
        let mut fits = true;
        problem.words(&mut |words| fits &= self.words.try_extend_from_slice(words).is_ok());
        fits
    }

    /// The words of the key.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// A hash of the words, the same in every process.
    pub fn hash(&self) -> u64 {
        hash(self.words())
    }
}

/// The hash that keys are looked up by.
pub fn hash(words: &[u64]) -> u64 {
    // SAFETY: any u64 slice is also a byte slice of eight times its length; alignment of bytes is 1.
    let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data_type::DataType,
        problem::{
            ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem, MAX_RANK, TensorDescriptor,
        },
    };

    // V15 of the case list: changing any field changes the key.
    #[test]
    fn every_field_is_in_the_key() {
        let tensor = |d: &[i64]| {
            let strides: Vec<i64> = (0..d.len()).map(|i| d[i + 1..].iter().product()).collect();
            TensorDescriptor::new(DataType::Float, None, d, &strides, 1, None).unwrap()
        };
        let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
        let (x, w, y) = (tensor(&[2, 4, 8, 8]), tensor(&[4, 4, 3, 3]), tensor(&[2, 4, 8, 8]));
        let convolution = ConvolutionDescriptor::new(fields.clone()).unwrap();
        let base = ConvolutionProblem {
            direction: ConvolutionDirection::Forward,
            convolution: &convolution,
            x: &x,
            w: &w,
            y: &y,
            alpha: 1.0,
            beta: 0.0,
            algorithm: None,
        };
        let mut keys = vec![key(base)];
        for edit in [
            |f: &mut ConvolutionFields| f.pads[0] = 2,
            |f: &mut ConvolutionFields| f.strides[1] = 2,
            |f: &mut ConvolutionFields| f.dilations[1] = 2,
            |f: &mut ConvolutionFields| f.output_pads[1] = 1,
            |f: &mut ConvolutionFields| f.group_count = 2,
            |f: &mut ConvolutionFields| f.mode = ConvolutionMode::Transpose,
            |f: &mut ConvolutionFields| f.attributes.push((1, 1)),
            |f: &mut ConvolutionFields| f.attributes.push((1, 2)),
        ] {
            let mut changed = fields.clone();
            edit(&mut changed);
            let convolution = ConvolutionDescriptor::new(changed).unwrap();
            keys.push(key(ConvolutionProblem { convolution: &convolution, ..base }));
        }
        let other = tensor(&[2, 4, 8, 9]);
        keys.push(key(ConvolutionProblem { x: &other, ..base }));
        keys.push(key(ConvolutionProblem { w: &other, ..base }));
        keys.push(key(ConvolutionProblem { y: &other, ..base }));
        keys.push(key(ConvolutionProblem { alpha: 2.0, ..base }));
        keys.push(key(ConvolutionProblem { beta: 1.0, ..base }));
        keys.push(key(ConvolutionProblem { algorithm: Some(0), ..base }));
        keys.push(key(ConvolutionProblem { direction: ConvolutionDirection::BackwardData, ..base }));
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    fn key(problem: ConvolutionProblem<'_>) -> Vec<u64> {
        let mut key = KeyBuffer::default();
        assert!(key.fill(&Problem::Convolution(problem)));
        key.words().to_vec()
    }

    #[test]
    fn the_largest_problem_fits() {
        let tensor = TensorDescriptor::new(DataType::Float, None, &[2; MAX_RANK], &[1; MAX_RANK], 1, None).unwrap();
        let list = vec![1; MAX_RANK];
        let convolution = ConvolutionDescriptor::new(ConvolutionFields {
            mode: ConvolutionMode::Convolution,
            pads: list.clone(),
            strides: list.clone(),
            dilations: list.clone(),
            output_pads: list,
            group_count: 1,
            attributes: (0..MAX_RANK as u32).map(|n| (n, 0)).collect(),
        })
        .unwrap();
        let problem = ConvolutionProblem {
            direction: ConvolutionDirection::Forward,
            convolution: &convolution,
            x: &tensor,
            w: &tensor,
            y: &tensor,
            alpha: 1.0,
            beta: 0.0,
            algorithm: Some(u32::MAX),
        };
        assert!(!key(problem).is_empty());
    }
}
