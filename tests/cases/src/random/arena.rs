//! The memory of a problem: its tensors in one allocation, at the addresses that it wants, guards around each and poison wherever no value
//! is. What is written beside the result's elements is found by comparing everything with what was there before.

use std::ops::Range;

use anyhow::{Result, bail};

use super::asked::Asked;
use crate::{
    edge::{Hip, Memory},
    problem::{Tensor, small_integers},
};

/// Poisoned bytes before and behind each tensor; a multiple of 64.
const GUARD: usize = 512;

/// A tensor in the arena.
struct Spot {
    tensor: Tensor,
    start: usize,
    /// Given, or none for poison.
    values: Option<Vec<f64>>,
}

/// The memory of a problem.
pub struct Arena {
    memory: Memory,
    /// x, w, y, and the bias of a plan.
    spots: [Spot; 4],
    /// Which of them is computed.
    result: usize,
    /// What of the allocation is used.
    used: Range<usize>,
}

impl Arena {
    /// Allocates and fills.
    pub fn new(hip: &'static Hip, asked: &Asked) -> Result<Self> {
        let (result, [x, w, y]) = (asked.direction.result(), asked.tensors.clone());
        let reads_result = asked.scaling().1 != 0.0;
        let mut next = 0;
        let mut spots = [x, w, y, asked.bias()].map(|tensor| Spot { tensor, start: 0, values: None });
        for (i, spot) in spots.iter_mut().enumerate() {
            let bytes = spot.tensor.extent() * spot.tensor.kind.width();
            spot.start = next + GUARD + asked.offsets.get(i).copied().unwrap_or(0);
            let valued = i != result || reads_result;
            spot.values = valued.then(|| small_integers(spot.tensor.elements(), 4 * asked.values + i as u64));
            next += (2 * GUARD + bytes).next_multiple_of(64) + 64;
        }
        if let Some(alias) = asked.alias {
            spots[alias.which].start = spots[alias.onto].start + alias.shift;
            let end = spots[alias.which].start + spots[alias.which].tensor.extent() * spots[alias.which].tensor.kind.width();
            next = next.max(end + GUARD);
        }
        // Addresses are counted from a multiple of 64, which an allocation need not be.
        let memory = hip.allocate(next + 64)?;
        let skip = memory.at(0).addr().next_multiple_of(64) - memory.at(0).addr();
        spots.iter_mut().for_each(|spot| spot.start += skip);
        Ok(Self { memory, spots, result, used: skip..skip + next })
    }

    /// Where one of x, w, y and the bias (0 to 3) is, as calls take it.
    pub fn place(&self, which: usize) -> (&Memory, usize) {
        (&self.memory, self.spots[which].start)
    }

    /// Poison and values as before any call; what was there is overwritten.
    pub fn prepare(&self) -> Result<Image> {
        let mut bytes = vec![0x5a; self.memory.read()?.len()];
        self.spots.iter().for_each(|spot| spot.poison(&mut bytes));
        // Of tensors in one memory the result is written last.
        let others = (0..self.spots.len()).filter(|i| *i != self.result);
        others.chain([self.result]).for_each(|i| self.spots[i].put(&mut bytes));
        self.memory.write(0, &bytes)?;
        Ok(Image { bytes, used: self.used.clone() })
    }

    /// What is there now. An error if anything but elements of the result has changed since.
    pub fn after(&self, before: &Image) -> Result<Image> {
        let after = Image { bytes: self.memory.read()?, used: self.used.clone() };
        let mut allowed = before.bytes.clone();
        let result = &self.spots[self.result];
        for range in result.elements() {
            allowed[range.clone()].copy_from_slice(&after.bytes[range]);
        }
        if let Some(place) = allowed.iter().zip(&after.bytes).position(|(a, b)| a != b) {
            bail!(
                "byte {} behind the start of the result was written, which belongs to no element of it",
                place as i64 - result.start as i64
            );
        }
        Ok(after)
    }

    /// The elements of x, w, y or the bias in logical order.
    pub fn values(&self, image: &Image, which: usize) -> Vec<f64> {
        let spot = &self.spots[which];
        spot.elements().map(|range| spot.tensor.kind.decode(&image.bytes[range])).collect()
    }
}

impl Spot {
    /// The bytes of each element, in logical order.
    fn elements(&self) -> impl Iterator<Item = Range<usize>> {
        let (start, width) = (self.start, self.tensor.kind.width());
        self.tensor.offsets().into_iter().map(move |offset| start + offset * width..start + (offset + 1) * width)
    }

    /// The tensor's poison in its extent and guards, in step with its elements.
    fn poison(&self, bytes: &mut [u8]) {
        let poison = self.tensor.kind.poison();
        let count = GUARD / poison.len();
        let first = self.start - count * poison.len();
        for (i, chunk) in bytes[first..].chunks_exact_mut(poison.len()).enumerate() {
            if i < 2 * count + self.tensor.extent() {
                chunk.copy_from_slice(poison);
            }
        }
    }

    fn put(&self, bytes: &mut [u8]) {
        let mut element = Vec::new();
        for (value, range) in self.values.iter().flatten().zip(self.elements()) {
            element.clear();
            self.tensor.kind.encode(*value, &mut element);
            bytes[range].copy_from_slice(&element);
        }
    }
}

/// All bytes at a moment.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    bytes: Vec<u8>,
    used: Range<usize>,
}

impl Image {
    /// A number for all of them (FNV-1a).
    pub fn digest(&self) -> String {
        let hash = self.bytes[self.used.clone()]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        format!("{hash:016x}")
    }
}
