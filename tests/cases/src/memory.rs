//! Buffers for tensors: device memory filled with poison, a guard before and behind, gaps between the elements poisoned too. Reading one says
//! whether anything but elements was written.

use anyhow::{Result, ensure};

use crate::{
    edge::{Hip, Memory},
    problem::Tensor,
};

/// Bytes before and behind a tensor that nobody may touch. A multiple of what any device wants its addresses to be aligned to.
const GUARD: usize = 4096;

/// A tensor in device memory.
pub struct Buffer {
    tensor: Tensor,
    memory: Memory,
}

impl Buffer {
    /// Poisoned throughout.
    pub fn poisoned(hip: &'static Hip, tensor: &Tensor) -> Result<Self> {
        let memory = hip.allocate(2 * GUARD + tensor.extent() * tensor.kind.width())?;
        let buffer = Self { tensor: tensor.clone(), memory };
        buffer.poison()?;
        Ok(buffer)
    }

    /// With values in logical order, everything else poisoned.
    pub fn with(hip: &'static Hip, tensor: &Tensor, values: &[f64]) -> Result<Self> {
        let buffer = Self::poisoned(hip, tensor)?;
        buffer.fill(values)?;
        Ok(buffer)
    }

    fn poison_bytes(&self) -> Vec<u8> {
        let poison = self.tensor.kind.poison();
        poison.repeat((2 * GUARD) / poison.len() + self.tensor.extent())
    }

    /// Poisons everything again.
    pub fn poison(&self) -> Result<()> {
        self.memory.write(0, &self.poison_bytes())
    }

    /// Sets all elements; everything else is poisoned again.
    pub fn fill(&self, values: &[f64]) -> Result<()> {
        ensure!(values.len() == self.tensor.elements(), "{} values for {} elements", values.len(), self.tensor.elements());
        let (mut bytes, width) = (self.poison_bytes(), self.tensor.kind.width());
        let mut element = Vec::new();
        for (value, offset) in values.iter().zip(self.tensor.offsets()) {
            element.clear();
            self.tensor.kind.encode(*value, &mut element);
            bytes[GUARD + offset * width..][..width].copy_from_slice(&element);
        }
        self.memory.write(0, &bytes)
    }

    /// Memory and the offset of the first element, as calls take them.
    pub fn place(&self) -> (&Memory, usize) {
        (&self.memory, GUARD)
    }

    /// The elements in logical order. An error if anything else was written. What runs must have been waited for.
    pub fn values(&self) -> Result<Vec<f64>> {
        self.elements(&self.memory.read()?)
    }

    /// The bytes of the elements in logical order, checked likewise.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let (all, width) = (self.memory.read()?, self.tensor.kind.width());
        self.elements(&all)?;
        Ok(self.tensor.offsets().into_iter().flat_map(|offset| all[GUARD + offset * width..][..width].to_vec()).collect())
    }

    fn elements(&self, bytes: &[u8]) -> Result<Vec<f64>> {
        let width = self.tensor.kind.width();
        let offsets = self.tensor.offsets();
        let mut poisoned = self.poison_bytes();
        for offset in &offsets {
            let range = GUARD + offset * width..GUARD + (offset + 1) * width;
            poisoned[range.clone()].copy_from_slice(&bytes[range]);
        }
        if let Some(place) = poisoned.iter().zip(bytes).position(|(a, b)| a != b) {
            let place = place as i64 - GUARD as i64;
            anyhow::bail!("byte {place} was written, which belongs to no element of {:?}", self.tensor);
        }
        Ok(offsets.iter().map(|offset| self.tensor.kind.decode(&bytes[GUARD + offset * width..][..width])).collect())
    }

    /// Whether every byte is poison.
    pub fn is_untouched(&self) -> Result<bool> {
        Ok(self.memory.read()? == self.poison_bytes())
    }
}

/// Workspace of a size, with guards.
pub struct Scratch {
    memory: Memory,
    size: usize,
}

const SCRATCH_POISON: u8 = 0x5a;

impl Scratch {
    /// Poisoned memory.
    pub fn new(hip: &'static Hip, size: usize) -> Result<Self> {
        let memory = hip.allocate(2 * GUARD + size)?;
        memory.write(0, &vec![SCRATCH_POISON; 2 * GUARD + size])?;
        Ok(Self { memory, size })
    }

    /// As calls take it: null and 0 if there is none.
    pub fn workspace(&self) -> crate::edge::Workspace<'_> {
        self.told(self.size)
    }

    /// The same with another size told.
    pub fn told(&self, size: usize) -> crate::edge::Workspace<'_> {
        crate::edge::Workspace { memory: (self.size > 0).then_some((&self.memory, GUARD)), size }
    }

    /// An error if anything but the first bytes was written.
    pub fn check(&self, allowed: usize) -> Result<()> {
        let bytes = self.memory.read()?;
        let written = |(place, byte): (usize, &u8)| *byte != SCRATCH_POISON && !(GUARD..GUARD + allowed).contains(&place);
        let outside = bytes.iter().enumerate().position(written);
        ensure!(
            outside.is_none(),
            "byte {} outside of the {allowed} bytes of workspace was written",
            outside.unwrap_or(0) as i64 - GUARD as i64
        );
        Ok(())
    }
}
