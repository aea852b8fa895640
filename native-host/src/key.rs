//! The cache key of a problem: its words, laid out on the caller's stack.
//!
//! Every field that the rules may read is in the key; two problems with equal words get equal answers.

use crate::problem::{ConvolutionProblem, MAX_RANK};

/// Room for three tensors and a convolution of the highest rank, and the scalars.
const CAPACITY: usize = 3 * (1 + 2 * MAX_RANK) + (2 + 6 * MAX_RANK) + 8;

/// A key under construction. Lives on the stack: the warm path allocates nothing.
pub struct KeyBuffer {
    length: usize,
    words: [u64; CAPACITY],
}

/// Families share one key space; the first word tells them apart.
const CONVOLUTION: u64 = 1;

impl KeyBuffer {
    /// The key of a convolution.
    pub fn convolution(problem: &ConvolutionProblem<'_>) -> Self {
        let mut key = Self { length: 0, words: [0; CAPACITY] };
        let algorithm = problem.algorithm.map_or(0, |a| 1 + u64::from(a));
        key.append(&[CONVOLUTION | (problem.direction as u64) << 8, algorithm, problem.alpha.to_bits(), problem.beta.to_bits()]);
        key.append(problem.convolution.words());
        for tensor in [problem.x, problem.w, problem.y] {
            key.append(tensor.words());
        }
        key
    }

    fn append(&mut self, words: &[u64]) {
        // Cannot exceed the capacity: descriptors bound the lengths of their words.
        self.words[self.length..self.length + words.len()].copy_from_slice(words);
        self.length += words.len();
    }

    /// The words of the key.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.length]
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
        problem::{ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, TensorDescriptor},
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
        let mut keys = vec![KeyBuffer::convolution(&base).words().to_vec()];
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
            keys.push(KeyBuffer::convolution(&ConvolutionProblem { convolution: &convolution, ..base }).words().to_vec());
        }
        let other = tensor(&[2, 4, 8, 9]);
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { x: &other, ..base }).words().to_vec());
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { w: &other, ..base }).words().to_vec());
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { y: &other, ..base }).words().to_vec());
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { alpha: 2.0, ..base }).words().to_vec());
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { beta: 1.0, ..base }).words().to_vec());
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { algorithm: Some(0), ..base }).words().to_vec());
        keys.push(KeyBuffer::convolution(&ConvolutionProblem { direction: ConvolutionDirection::BackwardData, ..base }).words().to_vec());
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
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
        assert!(KeyBuffer::convolution(&problem).words().len() <= CAPACITY);
    }
}
