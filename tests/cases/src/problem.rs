//! What a convolution is: element types, tensors with any strides, geometry. Plain data, and elements as bytes; nothing is computed or called.

use half::{bf16, f16};
use miopen_api::data_type;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Float,
    Half,
    BFloat16,
    Double,
    Int8,
    Int32,
}

impl Kind {
    /// `miopenDataType_t`
    pub fn number(self) -> i32 {
        match self {
            Self::Float => data_type::FLOAT,
            Self::Half => data_type::HALF,
            Self::BFloat16 => data_type::BFLOAT16,
            Self::Double => data_type::DOUBLE,
            Self::Int8 => data_type::INT8,
            Self::Int32 => data_type::INT32,
        }
    }

    /// Bytes of an element.
    pub fn width(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Half | Self::BFloat16 => 2,
            Self::Float | Self::Int32 => 4,
            Self::Double => 8,
        }
    }

    /// Whether only whole numbers are held.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int8 | Self::Int32)
    }

    /// The distance from 1 to the next larger value.
    pub fn epsilon(self) -> f64 {
        match self {
            Self::Int8 | Self::Int32 => 0.0,
            Self::Half => 2f64.powi(-10),
            Self::BFloat16 => 2f64.powi(-7),
            Self::Float => 2f64.powi(-23),
            Self::Double => 2f64.powi(-52),
        }
    }

    /// A value as bytes, rounded to nearest.
    pub fn encode(self, value: f64, bytes: &mut Vec<u8>) {
        match self {
            Self::Float => bytes.extend((value as f32).to_le_bytes()),
            Self::Half => bytes.extend(f16::from_f64(value).to_le_bytes()),
            Self::BFloat16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
            Self::Double => bytes.extend(value.to_le_bytes()),
            Self::Int8 => bytes.extend((value as i8).to_le_bytes()),
            Self::Int32 => bytes.extend((value as i32).to_le_bytes()),
        }
    }

    /// A value from bytes.
    pub fn decode(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Self::Int8, &[a]) => f64::from(a as i8),
            (Self::Half, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
            (Self::BFloat16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
            (Self::Float, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (Self::Int32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
            (Self::Double, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => f64::NAN,
        }
    }

    /// The value as this type holds it.
    pub fn round(self, value: f64) -> f64 {
        let mut bytes = Vec::new();
        self.encode(value, &mut bytes);
        self.decode(&bytes)
    }

    /// What memory is filled with before a run: a NaN that nobody computes, and integers that no sum of the cases reaches.
    pub fn poison(self) -> &'static [u8] {
        match self {
            Self::Half => &[0x5a, 0x7e],
            Self::BFloat16 => &[0xda, 0x7f],
            Self::Int8 => &[0x7b],
            Self::Float => &[0x5a, 0x5a, 0xda, 0x7f],
            Self::Int32 => &[0x5a; 4],
            Self::Double => &[0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0xfa, 0x7f],
        }
    }
}

/// A tensor: dimensions in the order N, C, (D,) H, W, strides in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub kind: Kind,
    /// Lengths.
    pub dims: Vec<usize>,
    /// Strides.
    pub strides: Vec<usize>,
}

impl Tensor {
    /// Packed, in the order of the dimensions.
    pub fn packed(kind: Kind, dims: &[usize]) -> Self {
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        Self { kind, dims: dims.to_vec(), strides }
    }

    /// Packed, with the channels innermost.
    pub fn channels_last(kind: Kind, dims: &[usize]) -> Self {
        let mut strides = vec![1; dims.len()];
        let mut next = dims[1];
        for axis in (2..dims.len()).rev() {
            strides[axis] = next;
            next *= dims[axis];
        }
        strides[0] = next;
        Self { kind, dims: dims.to_vec(), strides }
    }

    /// With strides.
    pub fn strided(kind: Kind, dims: &[usize], strides: &[usize]) -> Self {
        Self { kind, dims: dims.to_vec(), strides: strides.to_vec() }
    }

    /// How many elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// How many elements of memory from the first to the last element.
    pub fn extent(&self) -> usize {
        1 + self.dims.iter().zip(&self.strides).map(|(dim, stride)| (dim.max(&1) - 1) * stride).sum::<usize>()
    }

    /// Where each element is, in logical order.
    pub fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for (dim, stride) in self.dims.iter().zip(&self.strides) {
            offsets = offsets.iter().flat_map(|offset| (0..*dim).map(move |i| offset + i * stride)).collect();
        }
        offsets
    }
}

/// A convolution: its tensors and geometry. In transposed mode x is the small image and y the large one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Input, or its gradient.
    pub x: Tensor,
    /// Filter, or its gradient.
    pub w: Tensor,
    /// Output, or its gradient.
    pub y: Tensor,
    /// One for each spatial dimension.
    pub pads: Vec<usize>,
    /// One for each spatial dimension.
    pub strides: Vec<usize>,
    /// One for each spatial dimension.
    pub dilations: Vec<usize>,
    /// One for each spatial dimension; only transposed.
    pub output_pads: Vec<usize>,
    /// Group count.
    pub groups: usize,
    /// `miopenTranspose`.
    pub transposed: bool,
}

impl Problem {
    /// Packed tensors of one type, no pads, strides and dilations of 1.
    pub fn new(kind: Kind, x: &[usize], w: &[usize]) -> Self {
        Self::of(Tensor::packed(kind, x), Tensor::packed(kind, w))
    }

    /// The same of given inputs; y is packed and has x's type.
    pub fn of(x: Tensor, w: Tensor) -> Self {
        let rank = x.dims.len() - 2;
        let y = x.clone();
        let problem = Self {
            x,
            w,
            y,
            pads: vec![0; rank],
            strides: vec![1; rank],
            dilations: vec![1; rank],
            output_pads: vec![0; rank],
            groups: 1,
            transposed: false,
        };
        problem.with_output()
    }

    /// Gives y the dimensions that follow, packed.
    fn with_output(mut self) -> Self {
        self.y = Tensor::packed(self.y.kind, &self.output_dims());
        self
    }

    fn output_dims(&self) -> Vec<usize> {
        let channels = if self.transposed { self.w.dims[1] * self.groups } else { self.w.dims[0] };
        let mut dims = vec![self.x.dims[0], channels];
        for axis in 0..self.pads.len() {
            let (input, reach) = (self.x.dims[axis + 2] as i64, 1 + (self.dilations[axis] * (self.w.dims[axis + 2].max(1) - 1)) as i64);
            let (pad, stride) = (self.pads[axis] as i64, self.strides[axis] as i64);
            let length = if self.transposed {
                stride * (input - 1) + reach - 2 * pad + self.output_pads[axis] as i64
            } else {
                (input - reach + 2 * pad).div_euclid(stride) + 1
            };
            dims.push(length.max(1) as usize);
        }
        dims
    }

    /// With pads: one for each spatial dimension, or one for all.
    pub fn pads(mut self, pads: &[usize]) -> Self {
        self.pads = spread(pads, self.pads.len());
        self.with_output()
    }

    /// With strides, likewise.
    pub fn strides(mut self, strides: &[usize]) -> Self {
        self.strides = spread(strides, self.pads.len());
        self.with_output()
    }

    /// With dilations, likewise.
    pub fn dilations(mut self, dilations: &[usize]) -> Self {
        self.dilations = spread(dilations, self.pads.len());
        self.with_output()
    }

    /// With a group count.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self.with_output()
    }

    /// Transposed, with output padding.
    pub fn transposed(mut self, output_pads: &[usize]) -> Self {
        self.transposed = true;
        self.output_pads = spread(output_pads, self.pads.len());
        self.with_output()
    }

    /// With another element type of y.
    pub fn output_kind(mut self, kind: Kind) -> Self {
        self.y.kind = kind;
        self
    }

    /// With every tensor's channels innermost.
    pub fn channels_last(mut self) -> Self {
        for tensor in [&mut self.x, &mut self.w, &mut self.y] {
            *tensor = Tensor::channels_last(tensor.kind, &tensor.dims);
        }
        self
    }

    /// With other strides of x.
    pub fn x_strides(mut self, strides: &[usize]) -> Self {
        self.x.strides = strides.to_vec();
        self
    }

    /// With other strides of w.
    pub fn w_strides(mut self, strides: &[usize]) -> Self {
        self.w.strides = strides.to_vec();
        self
    }

    /// With other strides of y.
    pub fn y_strides(mut self, strides: &[usize]) -> Self {
        self.y.strides = strides.to_vec();
        self
    }

    /// x, w and y.
    pub fn tensors(&self) -> [&Tensor; 3] {
        [&self.x, &self.w, &self.y]
    }
}

fn spread(values: &[usize], rank: usize) -> Vec<usize> {
    if values.len() == 1 { vec![values[0]; rank] } else { values.to_vec() }
}

/// Small whole numbers in [-2, 2] that look random: the same for the same seed. Exact in every type, and so are sums of their products up to
/// the precision of the type; in int8 sums of a few dozen fit.
pub fn small_integers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % 5) as f64 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_and_extents() {
        let packed = Tensor::packed(Kind::Float, &[2, 3, 4, 5]);
        assert_eq!((packed.strides.as_slice(), packed.extent()), ([60, 20, 5, 1].as_slice(), 120));
        assert_eq!(packed.offsets(), (0..120).collect::<Vec<_>>());
        let last = Tensor::channels_last(Kind::Float, &[2, 3, 4, 5]);
        assert_eq!((last.strides.as_slice(), last.extent()), ([60, 1, 15, 3].as_slice(), 120));
        assert_eq!(Tensor::strided(Kind::Float, &[2, 2], &[8, 2]).offsets(), [0, 2, 8, 10]);
    }

    #[test]
    fn output_dimensions() {
        let plain = Problem::new(Kind::Float, &[2, 4, 9, 13], &[4, 4, 3, 5]).pads(&[1, 2]).strides(&[2, 1]).dilations(&[1, 2]);
        assert_eq!(plain.y.dims, [2, 4, 5, 9]);
        let transposed = Problem::new(Kind::Float, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1]).strides(&[2]);
        assert_eq!(transposed.clone().transposed(&[0]).y.dims, [2, 4, 15, 15]);
        assert_eq!(transposed.transposed(&[1]).y.dims, [2, 4, 16, 16]);
    }

    #[test]
    fn elements_keep_their_values() {
        for kind in [Kind::Float, Kind::Half, Kind::BFloat16, Kind::Double, Kind::Int8, Kind::Int32] {
            assert_eq!(kind.round(-3.0), -3.0);
            assert_eq!(kind.poison().len(), kind.width());
            assert!(kind.is_integer() || kind.decode(kind.poison()).is_nan());
        }
        assert_eq!(Kind::Half.round(70000.0), f64::INFINITY);
    }
}
