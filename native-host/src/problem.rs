//! What the caller asked for: recorded descriptors, and problems made of them.
//!
//! Descriptors are immutable once made; a setter makes a new one. Making one does what must not cost anything per call: strides of
//! length-1 dimensions become canonical, and the words of the cache key are laid out. No rule lives here.

mod fusion;
mod owned;
mod text;

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use fusion::{
    Activation, ActivationMode, ActivationProblem, FusedOperation, FusionProblem, MAX_OPERATIONS, NormalizationMode, Scaling,
};
pub use owned::{OwnedActivation, OwnedConvolution, OwnedFusion, OwnedOperation, OwnedProblem};

use crate::{data_type::DataType, environment::Family};

/// The most tensors in memory that a call may have.
pub const MAX_ARGUMENTS: usize = 16;

/// The most dimensions a recorded tensor may have. MIOpen sets no limit; its own clients stay at 5, and keys stay on the stack.
pub const MAX_RANK: usize = 16;

/// `miopenTensorLayout_t`, when the caller named one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are MIOpen's")]
pub enum TensorLayout {
    Nchw,
    Nhwc,
    Chwn,
    Nchwc4,
    Nchwc8,
    Chwnc4,
    Chwnc8,
    Ncdhw,
    Ndhwc,
    Unrecognized,
}

/// Why a descriptor cannot be recorded; the calls that use it go to native.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DescriptorError {
    /// More dimensions than [`MAX_RANK`].
    #[error("{0} dimensions are more than {MAX_RANK}")]
    Rank(usize),
    /// Lengths and strides of different number.
    #[error("{0} lengths but {1} strides")]
    Pairing(usize, usize),
}

/// A MIOpen tensor descriptor as the caller set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "owned::TensorFields", into = "owned::TensorFields")]
pub struct TensorDescriptor {
    data_type: DataType,
    cast_type: Option<DataType>,
    dims: Box<[i64]>,
    strides: Box<[i64]>,
    vector_length: u32,
    layout: Option<TensorLayout>,
    /// Every call asks for it.
    extent: Option<i64>,
    words: Box<[u64]>,
}

impl TensorDescriptor {
    /// Records a descriptor. `dims` in logical order N, C, spatial; `strides` in elements.
    pub fn new(
        data_type: DataType,
        cast_type: Option<DataType>,
        dims: &[i64],
        strides: &[i64],
        vector_length: u32,
        layout: Option<TensorLayout>,
    ) -> Result<Self, DescriptorError> {
        if dims.len() > MAX_RANK {
            return Err(DescriptorError::Rank(dims.len()));
        }
        if dims.len() != strides.len() {
            return Err(DescriptorError::Pairing(dims.len(), strides.len()));
        }
        let strides = canonical_strides(dims, strides);
        let header = u64::from(data_type as u8)
            | u64::from(cast_type.map_or(u8::MAX, |t| t as u8)) << 8
            | u64::from(layout.map_or(u8::MAX, |l| l as u8)) << 16
            | (dims.len() as u64) << 24
            | u64::from(vector_length) << 32;
        let words = std::iter::once(header).chain(dims.iter().chain(&strides).map(|v| v.cast_unsigned())).collect();
        let extent = extent(dims, &strides).and_then(|scalars| scalars.checked_add(i64::from(vector_length) - 1));
        Ok(Self { data_type, cast_type, dims: dims.into(), strides: strides.into(), vector_length, layout, extent, words })
    }

    /// The same tensor with another cast type (`miopenSetTensorCastType`).
    pub fn with_cast_type(&self, cast_type: DataType) -> Self {
        // Cannot fail: rank and pairing are this descriptor's own.
        Self::new(self.data_type, Some(cast_type), &self.dims, &self.strides, self.vector_length, self.layout)
            .unwrap_or_else(|_| self.clone())
    }

    /// Element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The type that elements are cast to, if the caller set one.
    pub fn cast_type(&self) -> Option<DataType> {
        self.cast_type
    }

    /// Lengths.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Canonical strides, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Elements in one vector of a vectorised layout, else 1.
    pub fn vector_length(&self) -> u32 {
        self.vector_length
    }

    /// The layout that the caller named, if any.
    pub fn layout(&self) -> Option<TensorLayout> {
        self.layout
    }

    /// Elements from the first to the last, both included; `None` if that overflows or a length is not positive.
    pub fn extent(&self) -> Option<i64> {
        self.extent
    }

    /// Bytes from the first to the end of the last element.
    pub fn extent_bytes(&self) -> Option<u64> {
        let bytes = self.data_type.bytes()? as u64;
        u64::try_from(self.extent()?).ok()?.checked_mul(bytes)
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

/// Elements from the first to the last of a strided tensor; `None` on overflow or a length below 1.
pub fn extent(dims: &[i64], strides: &[i64]) -> Option<i64> {
    dims.iter().zip(strides).try_fold(1i64, |sum, (&dim, &stride)| {
        if dim < 1 {
            return None;
        }
        (dim - 1).checked_mul(stride)?.checked_add(sum)
    })
}

/// Gives dimensions of length 1 the stride that they would have in a packed tensor of the same order, so that every spelling of one
/// tensor looks the same to keys, rules and engines. The memory described does not change.
///
/// The order is channel-first if the strides that matter are consistent with it, else channel-last if they are with that, else the
/// order of the strides themselves.
pub fn canonical_strides(dims: &[i64], strides: &[i64]) -> Vec<i64> {
    let mut canonical = strides.to_vec();
    if !dims.contains(&1) {
        return canonical;
    }
    let mut inner: Option<usize> = None;
    for &axis in outer_to_inner(dims, strides).iter().rev() {
        if dims[axis] == 1 {
            canonical[axis] = inner.map_or(1, |inner| canonical[inner].saturating_mul(dims[inner].max(1)));
        }
        inner = Some(axis);
    }
    canonical
}

/// The axes of a tensor from the slowest to the fastest, see [`canonical_strides`].
fn outer_to_inner(dims: &[i64], strides: &[i64]) -> Vec<usize> {
    let channel_first: Vec<usize> = (0..dims.len()).collect();
    let descending = |order: &[usize]| {
        let mut last = i64::MAX;
        order.iter().filter(|&&axis| dims[axis] != 1).all(|&axis| std::mem::replace(&mut last, strides[axis]) >= strides[axis])
    };
    if dims.len() < 3 || descending(&channel_first) {
        return channel_first;
    }
    let channel_last: Vec<usize> = std::iter::once(0).chain(2..dims.len()).chain(std::iter::once(1)).collect();
    if descending(&channel_last) {
        return channel_last;
    }
    let mut by_stride: Vec<usize> = channel_first;
    by_stride.sort_by_key(|&axis| (dims[axis] == 1, std::cmp::Reverse(strides[axis])));
    by_stride
}

/// `miopenConvolutionMode_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are MIOpen's")]
pub enum ConvolutionMode {
    Convolution,
    Transpose,
    GroupConv,
    Depthwise,
    Unrecognized,
}

/// A MIOpen convolution descriptor as the caller set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ConvolutionFields", into = "ConvolutionFields")]
pub struct ConvolutionDescriptor {
    fields: ConvolutionFields,
    words: Box<[u64]>,
}

/// What a convolution descriptor holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionFields {
    /// Convolution, transposed, …
    pub mode: ConvolutionMode,
    /// One for each spatial dimension, as are the next three.
    pub pads: Vec<i64>,
    /// Distances between windows.
    pub strides: Vec<i64>,
    /// Distances between elements of a window.
    pub dilations: Vec<i64>,
    /// Output padding of a transposed convolution.
    pub output_pads: Vec<i64>,
    /// Groups.
    pub group_count: i64,
    /// Attributes that the caller set, by MIOpen's number, in ascending order.
    pub attributes: Vec<(u32, i64)>,
}

impl ConvolutionFields {
    /// What MIOpen's Init makes: one group, no output padding, no attribute.
    pub fn initial(mode: ConvolutionMode, pads: Vec<i64>, strides: Vec<i64>, dilations: Vec<i64>) -> Self {
        let output_pads = vec![0; pads.len()];
        Self { mode, pads, strides, dilations, output_pads, group_count: 1, attributes: Vec::new() }
    }
}

impl ConvolutionDescriptor {
    /// Records a descriptor.
    pub fn new(fields: ConvolutionFields) -> Result<Self, DescriptorError> {
        let longest = [&fields.pads, &fields.strides, &fields.dilations, &fields.output_pads].iter().map(|l| l.len()).max().unwrap_or(0);
        if longest > MAX_RANK || fields.attributes.len() > MAX_RANK {
            return Err(DescriptorError::Rank(longest));
        }
        let lists = [&fields.pads, &fields.strides, &fields.dilations, &fields.output_pads];
        let mut header = u64::from(fields.mode as u8) | (fields.attributes.len() as u64) << 8;
        for (i, list) in lists.iter().enumerate() {
            header |= (list.len() as u64) << (16 + 8 * i);
        }
        let mut words = vec![header, fields.group_count.cast_unsigned()];
        words.extend(lists.iter().flat_map(|list| list.iter()).map(|v| v.cast_unsigned()));
        words.extend(fields.attributes.iter().flat_map(|&(number, value)| [u64::from(number), value.cast_unsigned()]));
        Ok(Self { fields, words: words.into() })
    }

    /// Its contents.
    pub fn fields(&self) -> &ConvolutionFields {
        &self.fields
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

/// What a convolution computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ConvolutionDirection {
    /// y from x and w.
    Forward,
    /// dx from dy and w.
    BackwardData,
    /// dw from x and dy.
    BackwardWeights,
}

impl ConvolutionDirection {
    /// Which of x, w and y is computed.
    fn result(self) -> usize {
        match self {
            Self::BackwardData => 0,
            Self::BackwardWeights => 1,
            Self::Forward => 2,
        }
    }
}

/// A convolution that somebody wants computed: everything the rules may look at, nothing else.
#[derive(Clone, Copy, Debug)]
pub struct ConvolutionProblem<'a> {
    /// Which of the three tensors is computed.
    pub direction: ConvolutionDirection,
    /// The convolution descriptor.
    pub convolution: &'a ConvolutionDescriptor,
    /// Input (or its gradient).
    pub x: &'a TensorDescriptor,
    /// Filter (or its gradient).
    pub w: &'a TensorDescriptor,
    /// Output (or its gradient).
    pub y: &'a TensorDescriptor,
    /// Scale of the result.
    pub alpha: f64,
    /// Scale of the old contents of the output.
    pub beta: f64,
    /// The algorithm that the caller named, by MIOpen's number.
    pub algorithm: Option<u32>,
}

impl<'a> ConvolutionProblem<'a> {
    /// The tensor that is computed.
    pub fn result(&self) -> &'a TensorDescriptor {
        [self.x, self.w, self.y][self.direction.result()]
    }

    /// x, w and y: the contract's numbering.
    fn operands(&self) -> Operands<'a> {
        let operand = |(position, (name, tensor)): (usize, (&'static str, &'a TensorDescriptor))| {
            let written = position == self.direction.result();
            // The call itself reads its output exactly when it accumulates into it.
            Operand { name, tensor, read: !written || self.beta != 0.0, written }
        };
        [("x", self.x), ("w", self.w), ("y", self.y)].into_iter().enumerate().map(operand).collect()
    }

    fn words(&self, append: &mut impl FnMut(&[u64])) {
        let algorithm = self.algorithm.map_or(0, |a| 1 + u64::from(a));
        append(&[self.direction as u64, algorithm, self.alpha.to_bits(), self.beta.to_bits()]);
        append(self.convolution.words());
        [self.x, self.w, self.y].iter().for_each(|tensor| append(tensor.words()));
    }
}

/// One tensor in memory of a call.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// What messages call it.
    pub name: &'static str,
    /// Its descriptor.
    pub tensor: &'a TensorDescriptor,
    /// The call reads it.
    pub read: bool,
    /// The call writes it.
    pub written: bool,
}

/// The tensors of a call, in the order of the contract's arguments.
pub type Operands<'a> = ArrayVec<Operand<'a>, MAX_ARGUMENTS>;

/// What somebody wants computed, of any family.
#[derive(Clone, Copy, Debug)]
pub enum Problem<'a> {
    /// A convolution.
    Convolution(ConvolutionProblem<'a>),
    /// A chain of operations.
    Fusion(FusionProblem<'a>),
    /// A function of each element.
    Activation(ActivationProblem<'a>),
}

impl<'a> Problem<'a> {
    /// The family that it belongs to.
    pub fn family(&self) -> Family {
        match self {
            Self::Convolution(_) => Family::Conv,
            Self::Fusion(_) => Family::Fusion,
            Self::Activation(_) => Family::Activation,
        }
    }

    /// The tensors of the call in the contract's order; `None` if there are more than [`MAX_ARGUMENTS`].
    pub fn operands(&self) -> Option<Operands<'a>> {
        match self {
            Self::Convolution(problem) => Some(problem.operands()),
            Self::Fusion(problem) => problem.operands(),
            Self::Activation(problem) => Some(problem.operands()),
        }
    }

    /// Multiplications of its convolutions if no tap falls on padding; `None` where lengths make no sense or overflow.
    pub fn multiplications(&self) -> Option<u64> {
        match self {
            Self::Convolution(problem) => multiplications(problem.convolution, problem.x, problem.w, problem.y),
            Self::Fusion(problem) => problem.multiplications(),
            Self::Activation(_) => Some(0),
        }
    }

    /// Every field that the rules may read, as words: problems with equal words are equal.
    pub(crate) fn words(&self, append: &mut impl FnMut(&[u64])) {
        // Families share one key space; the first word tells them apart.
        match self {
            Self::Convolution(problem) => {
                append(&[1]);
                problem.words(append);
            }
            Self::Fusion(problem) => {
                append(&[2]);
                problem.words(append);
            }
            Self::Activation(problem) => {
                append(&[3]);
                problem.words(append);
            }
        }
    }
}

/// One product for each element of the filter's window and each place of it.
fn multiplications(c: &ConvolutionDescriptor, x: &TensorDescriptor, w: &TensorDescriptor, y: &TensorDescriptor) -> Option<u64> {
    let places = if c.fields.mode == ConvolutionMode::Transpose { x } else { y };
    let product = |dims: &[i64]| dims.iter().try_fold(1u64, |all, &dim| all.checked_mul(u64::try_from(dim).ok()?));
    product(places.dims())?.checked_mul(product(w.dims().get(1..)?)?)?.checked_mul(places.vector_length().into())
}

/// A word for a text.
fn mix(text: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &[i64], strides: &[i64]) -> TensorDescriptor {
        TensorDescriptor::new(DataType::Float, None, dims, strides, 1, None).unwrap()
    }

    // V02 of the case list: one memory, several spellings.
    #[test]
    fn spellings_of_one_tensor_are_equal() {
        let a = tensor(&[8, 16, 1, 1], &[16, 1, 16, 16]);
        assert_eq!(a, tensor(&[8, 16, 1, 1], &[16, 1, 1, 1]));
        assert_eq!(a, tensor(&[8, 16, 1, 1], &[16, 1, 16, 16]));
        assert_eq!(tensor(&[2, 1, 8, 8], &[64, 64, 8, 1]), tensor(&[2, 1, 8, 8], &[64, 1, 8, 1]));
    }

    #[test]
    fn channel_last_with_one_image_keeps_its_order() {
        assert_eq!(canonical_strides(&[1, 16, 8, 8], &[7, 1, 128, 16]), [1024, 1, 128, 16]);
        assert_eq!(canonical_strides(&[4, 16, 1, 8], &[128, 1, 999, 16]), [128, 1, 128, 16]);
    }

    #[test]
    fn extents() {
        assert_eq!(tensor(&[2, 3], &[8, 2]).extent(), Some(13));
        assert_eq!(tensor(&[2, 3], &[i64::MAX, 2]).extent(), None);
        assert_eq!(tensor(&[0, 3], &[3, 1]).extent(), None);
        assert_eq!(tensor(&[2, 3], &[3, 1]).extent_bytes(), Some(24));
    }

    #[test]
    fn the_words_tell_descriptors_apart() {
        let a = tensor(&[2, 4, 8, 8], &[256, 64, 8, 1]);
        assert_ne!(a.words(), tensor(&[2, 4, 8, 8], &[256, 1, 32, 4]).words());
        assert_ne!(a.words(), a.with_cast_type(DataType::Half).words());
        assert!(TensorDescriptor::new(DataType::Float, None, &[1; 17], &[1; 17], 1, None).is_err());
    }
}
