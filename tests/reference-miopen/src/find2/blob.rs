//! A solution as bytes that another process can load: 64-bit little-endian words. First a magic number, with the version of what follows,
//! and the length in bytes; last a checksum of all before it. What solutions do is in `solution`.

use miopen_api::status;

use super::solution::Solution;
use crate::convolution::Convolution;
use crate::failure::{Failure, fail};
use crate::problem::{Direction, OwnProblem};
use crate::tensor::Tensor;

/// "refsolu" and the version.
const MAGIC: u64 = u64::from_le_bytes(*b"refsolu\x01");
/// Bytes by which a blob shows itself and its length.
pub const START: usize = 16;

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardWeights];

fn refused() -> Failure {
    fail(status::UNKNOWN_ERROR, "this is no saved solution, or it is damaged")
}

/// The length that the start of a blob gives.
pub fn length(start: &[u8]) -> Option<usize> {
    let mut words = Words(start);
    let (magic, length) = (words.next()?, words.next()?);
    usize::try_from(length).ok().filter(|length| magic == MAGIC && *length >= START)
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The blob of a solution.
pub fn write(solution: &Solution) -> Vec<u8> {
    let OwnProblem { direction, x, w, y, conv } = &solution.problem;
    let direction = DIRECTIONS.iter().position(|known| known == direction).unwrap_or_default();
    let mut words = vec![MAGIC, 0, u64::from(solution.time.to_bits()), direction as u64];
    write_convolution(conv, &mut words);
    [x, w, y].into_iter().for_each(|tensor| write_tensor(tensor, &mut words));
    words[1] = (words.len() as u64 + 1) * 8;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

fn write_convolution(conv: &Convolution, words: &mut Vec<u64>) {
    let Convolution { mode, pads, strides, dilations, output_pads, groups, attributes, find_mode } = conv;
    words.push(pads.len() as u64);
    let lists = [pads, strides, dilations, output_pads].into_iter().flatten();
    let numbers = lists.chain([mode, groups, find_mode]).chain(attributes);
    words.extend(numbers.map(|number| u64::from(number.cast_unsigned())));
}

fn write_tensor(tensor: &Tensor, words: &mut Vec<u64>) {
    let Tensor { data_type, cast_type, dims, strides, vector_length, layout } = tensor;
    words.push(dims.len() as u64);
    words.extend(dims.iter().chain(strides).chain([vector_length]).map(|number| *number as u64));
    words.push(u64::from(data_type.cast_unsigned()));
    for choice in [cast_type, layout] {
        words.push(choice.map_or(u64::MAX, |number| u64::from(number.cast_unsigned())));
    }
}

/// The solution of a blob. A blob that passes the checksum may still not be one of ours, so nothing in it is trusted.
pub fn read(blob: &[u8]) -> Result<Solution, Failure> {
    let (content, sum) = blob.split_last_chunk::<8>().ok_or_else(refused)?;
    if length(content) != Some(blob.len()) || checksum(content) != u64::from_le_bytes(*sum) {
        return Err(refused());
    }
    let solution = Words(&content[START..]).solution().ok_or_else(refused)?;
    solution.problem.borrow().check().map_err(|_| refused())?;
    Ok(solution)
}

/// What is left to read.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.next()?).ok()
    }

    fn number(&mut self) -> Option<i32> {
        u32::try_from(self.next()?).ok().map(u32::cast_signed)
    }

    fn list<T>(&mut self, count: usize, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..count).map(|_| one(self)).collect()
    }

    fn solution(mut self) -> Option<Solution> {
        let time = f32::from_bits(u32::try_from(self.next()?).ok()?);
        let direction = *DIRECTIONS.get(self.size()?)?;
        let conv = self.convolution()?;
        let [x, w, y] = [self.tensor()?, self.tensor()?, self.tensor()?];
        self.0.is_empty().then_some(Solution { problem: OwnProblem { direction, x, w, y, conv }, time })
    }

    fn convolution(&mut self) -> Option<Convolution> {
        let rank = self.size()?;
        let [pads, strides, dilations, output_pads] = [(); 4].map(|()| self.list(rank, Words::number));
        let [mode, groups, find_mode] = [(); 3].map(|()| self.number());
        let attributes = [self.number()?, self.number()?, self.number()?];
        let conv = Convolution::new(mode?, pads?, strides?, dilations?).ok()?;
        Some(Convolution { output_pads: output_pads?, groups: groups?, find_mode: find_mode?, attributes, ..conv })
    }

    fn tensor(&mut self) -> Option<Tensor> {
        let rank = self.size()?;
        let (dims, strides) = (self.list(rank, Words::size)?, self.list(rank, Words::size)?);
        let (vector_length, data_type) = (self.size()?, self.number()?);
        let [cast_type, layout] = [self.choice()?, self.choice()?];
        let positive = !dims.contains(&0) && !strides.contains(&0) && [1, 4, 8].contains(&vector_length);
        positive.then_some(Tensor { data_type, cast_type, dims, strides, vector_length, layout })
    }

    /// A number that may be missing.
    fn choice(&mut self) -> Option<Option<i32>> {
        match self.next()? {
            u64::MAX => Some(None),
            number => u32::try_from(number).ok().map(|number| Some(number.cast_signed())),
        }
    }
}
