//! The memory of a convolution: the device's, once for both programs that are compared.

use anyhow::Result;
use field_cases::{
    edge::{Hip, Memory},
    problem::{Problem, Tensor, small_integers},
};

/// x, w and y.
pub struct Buffers {
    /// In that order.
    pub all: [Memory; 3],
}

impl Buffers {
    /// Inputs have numbers in them, the output has none.
    pub fn new(hip: &'static Hip, problem: &Problem) -> Result<Self> {
        let [x, w, y] = problem.tensors();
        Ok(Self { all: [filled(hip, x, 1)?, filled(hip, w, 2)?, hip.allocate(bytes(y))?] })
    }
}

/// Bytes of a tensor without gaps.
pub fn bytes(tensor: &Tensor) -> usize {
    tensor.extent() * tensor.kind.width()
}

/// A tensor's elements as bytes: small whole numbers.
pub fn contents(tensor: &Tensor, seed: u64) -> Vec<u8> {
    // Long tensors repeat themselves.
    let numbers = small_integers(tensor.extent().min(1 << 16), seed);
    let mut bytes = Vec::new();
    numbers.iter().cycle().take(tensor.extent()).for_each(|&number| tensor.kind.encode(number, &mut bytes));
    bytes
}

fn filled(hip: &'static Hip, tensor: &Tensor, seed: u64) -> Result<Memory> {
    let memory = hip.allocate(bytes(tensor))?;
    memory.write(0, &contents(tensor, seed))?;
    Ok(memory)
}
