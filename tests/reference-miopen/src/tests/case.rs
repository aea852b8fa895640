//! One convolution as tests describe it: its tensors in guarded memory, the call in any direction, and its definition, connection by
//! connection, to compare with. Which cases there are is in the other files.

use core::ptr::null_mut;

use half::{bf16, f16};
use miopen_api::{ConvAlgoPerf, convolution_mode, data_type};

use super::{Pointer, a, code, convolution, handle, p, tensor_of};
use crate::classic::backward_data::*;
use crate::classic::backward_weights::*;
use crate::classic::forward::*;
use crate::convolution::miopenSetTransposeConvNdOutputPadding;
pub use crate::problem::Direction;

pub const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardWeights];

/// Bytes before and behind every tensor that must stay as they are.
const GUARD: usize = 64;
/// What memory is filled with: NaN in every floating-point format, so that whatever is read from it shows.
const POISON: u8 = 0xff;

/// Strides for dimensions, in the order N, C, spatial.
pub type Layout = fn(&[i32]) -> Vec<i32>;

fn strides_in(dims: &[i32], order: &[usize], innermost: i32, gap: i32) -> Vec<i32> {
    let (mut strides, mut next) = (vec![0; dims.len()], innermost);
    for axis in order.iter().rev() {
        strides[*axis] = next;
        // Twelve divides by every number of groups in the tests, as strides outside the channels must.
        next = if gap == 0 { next * dims[*axis] } else { (next * dims[*axis] + gap + 11) / 12 * 12 };
    }
    strides
}

pub fn packed(dims: &[i32]) -> Vec<i32> {
    strides_in(dims, &(0..dims.len()).collect::<Vec<_>>(), 1, 0)
}

/// NHWC and its like.
pub fn channels_last(dims: &[i32]) -> Vec<i32> {
    strides_in(dims, &[&[0], &(2..dims.len()).collect::<Vec<_>>()[..], &[1]].concat(), 1, 0)
}

/// Gaps after every row, plane and image.
pub fn padded(dims: &[i32]) -> Vec<i32> {
    strides_in(dims, &(0..dims.len()).collect::<Vec<_>>(), 1, 1)
}

/// Gaps between all elements, channels last.
pub fn stepped(dims: &[i32]) -> Vec<i32> {
    channels_last(dims).iter().map(|stride| stride * 2).collect()
}

pub fn element_size(kind: i32) -> usize {
    match kind {
        data_type::INT8 => 1,
        data_type::HALF | data_type::BFLOAT16 => 2,
        data_type::DOUBLE => 8,
        _ => 4,
    }
}

/// A tensor with its memory. `strides` go with `dims`; vectorised tensors are made elsewhere.
pub struct Memory {
    pub kind: i32,
    pub dims: Vec<i32>,
    pub strides: Vec<i32>,
    pub bytes: Vec<u8>,
}

impl Memory {
    pub fn new(kind: i32, dims: &[i32], strides: Vec<i32>) -> Memory {
        let extent: i32 = dims.iter().zip(&strides).map(|(d, s)| (d - 1) * s).sum::<i32>() + 1;
        Memory { kind, dims: dims.to_vec(), strides, bytes: vec![POISON; extent as usize * element_size(kind) + 2 * GUARD] }
    }

    pub fn data(&mut self) -> Pointer {
        self.bytes[GUARD..].as_mut_ptr().cast()
    }

    pub fn descriptor(&self) -> Pointer {
        tensor_of(self.kind, &self.dims, Some(&self.strides))
    }

    fn at(&self, index: &[i32]) -> usize {
        GUARD + index.iter().zip(&self.strides).map(|(i, s)| (i * s) as usize).sum::<usize>() * element_size(self.kind)
    }

    pub fn get(&self, index: &[i32]) -> f64 {
        let at = self.at(index);
        fn number<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes[..N].try_into().unwrap()
        }
        let bytes = &self.bytes[at..];
        match self.kind {
            data_type::DOUBLE => f64::from_ne_bytes(number(bytes)),
            data_type::FLOAT => f64::from(f32::from_ne_bytes(number(bytes))),
            data_type::HALF => f64::from(f16::from_ne_bytes(number(bytes))),
            data_type::BFLOAT16 => f64::from(bf16::from_ne_bytes(number(bytes))),
            data_type::INT32 => f64::from(i32::from_ne_bytes(number(bytes))),
            _ => f64::from(bytes[0] as i8),
        }
    }

    pub fn set(&mut self, index: &[i32], value: f64) {
        let at = self.at(index);
        // Through single precision, which holds every value that tests put in narrower formats.
        let bytes = match self.kind {
            data_type::DOUBLE => value.to_ne_bytes().to_vec(),
            data_type::FLOAT => (value as f32).to_ne_bytes().to_vec(),
            data_type::HALF => f16::from_f32(value as f32).to_ne_bytes().to_vec(),
            data_type::BFLOAT16 => bf16::from_f32(value as f32).to_ne_bytes().to_vec(),
            data_type::INT32 => (value as i32).to_ne_bytes().to_vec(),
            _ => vec![value.round_ties_even() as i8 as u8],
        };
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    pub fn fill(&mut self, mut value: impl FnMut(usize) -> f64) {
        for (i, index) in indices(&self.dims).enumerate() {
            self.set(&index, value(i));
        }
    }

    /// What it holds beside its elements.
    fn gaps(&self) -> Vec<u8> {
        let mut copy = Memory { kind: self.kind, dims: self.dims.clone(), strides: self.strides.clone(), bytes: self.bytes.clone() };
        copy.fill(|_| 0.0);
        copy.bytes
    }
}

/// Every index of a shape, the last axis fastest.
pub fn indices(dims: &[i32]) -> impl Iterator<Item = Vec<i32>> + use<> {
    let (dims, count) = (dims.to_vec(), dims.iter().product::<i32>());
    (0..count).map(move |mut i| {
        let mut index = vec![0; dims.len()];
        for axis in (0..dims.len()).rev() {
            index[axis] = i % dims[axis];
            i /= dims[axis];
        }
        index
    })
}

/// Small multiples of a half: products and sums are exact in single precision, so that results are right or wrong, not close.
pub fn halves(salt: usize) -> impl Fn(usize) -> f64 {
    move |i| ((i * 7 + salt * 3 + i / 11) % 11) as f64 * 0.5 - 2.5
}

/// What a test varies.
#[derive(Clone)]
pub struct Case<'a> {
    pub kind: i32,
    /// Of y, where it is another.
    pub y_kind: Option<i32>,
    pub x: &'a [i32],
    pub w: &'a [i32],
    pub pads: &'a [i32],
    pub strides: &'a [i32],
    pub dilations: &'a [i32],
    /// Output padding; not empty for a transposed convolution.
    pub adjust: &'a [i32],
    pub groups: i32,
    pub layout: Layout,
    pub alpha: f64,
    pub beta: f64,
}

pub const PLAIN: Case = Case {
    kind: data_type::FLOAT,
    y_kind: None,
    x: &[2, 3, 7, 8],
    w: &[6, 3, 3, 3],
    pads: &[1, 1],
    strides: &[1, 1],
    dilations: &[1, 1],
    adjust: &[],
    groups: 1,
    layout: packed,
    alpha: 1.0,
    beta: 0.0,
};

/// Cases that are computed in different ways: by matrix products and by loops, in groups, transposed, in other types and layouts.
pub const STYLES: [Case; 6] = [
    PLAIN,
    Case { kind: data_type::HALF, layout: channels_last, ..PLAIN },
    Case { kind: data_type::BFLOAT16, x: &[2, 4, 7, 8], w: &[6, 2, 3, 3], groups: 2, strides: &[2, 1], ..PLAIN },
    Case { kind: data_type::DOUBLE, layout: padded, ..PLAIN },
    Case { x: &[2, 4, 4, 5, 6], w: &[5, 4, 2, 3, 3], pads: &[1; 3], strides: &[2, 1, 1], dilations: &[1; 3], ..PLAIN },
    Case { x: &[2, 4, 5, 6], w: &[4, 5, 3, 3], strides: &[2, 2], adjust: &[1, 0], ..PLAIN },
];

/// The tensors of a case.
pub struct Tensors {
    pub x: Memory,
    pub w: Memory,
    pub y: Memory,
}

impl Tensors {
    pub fn output(&mut self, direction: Direction) -> &mut Memory {
        match direction {
            Direction::Forward => &mut self.y,
            Direction::BackwardData => &mut self.x,
            Direction::BackwardWeights => &mut self.w,
        }
    }
}

impl Case<'_> {
    pub fn transposed(&self) -> bool {
        !self.adjust.is_empty()
    }

    pub fn convolution(&self) -> Pointer {
        let mode = if self.transposed() { convolution_mode::TRANSPOSE } else { convolution_mode::CONVOLUTION };
        let c = convolution(mode, self.pads, self.strides, self.dilations, self.groups);
        if self.transposed() {
            let adjust = self.adjust.as_ptr().cast_mut().cast();
            miopenSetTransposeConvNdOutputPadding(a(c), self.adjust.len() as i32, a(adjust)).unwrap();
        }
        c
    }

    /// Dimensions of the output.
    pub fn y(&self) -> Vec<i32> {
        let channels = if self.transposed() { self.w[1] * self.groups } else { self.w[0] };
        let spatial = (0..self.pads.len()).map(|i| {
            let (input, reach) = (self.x[i + 2], 1 + self.dilations[i] * (self.w[i + 2] - 1));
            if self.transposed() {
                self.strides[i] * (input - 1) + reach - 2 * self.pads[i] + self.adjust[i]
            } else {
                ((input - reach + 2 * self.pads[i]) / self.strides[i] + 1).max(1)
            }
        });
        [self.x[0], channels].into_iter().chain(spatial).collect()
    }

    /// All tensors filled, each differently.
    pub fn tensors(&self) -> Tensors {
        let new = |kind, dims: &[i32]| Memory::new(kind, dims, (self.layout)(dims));
        let y_kind = self.y_kind.unwrap_or(self.kind);
        let mut tensors = Tensors { x: new(self.kind, self.x), w: new(self.kind, self.w), y: new(y_kind, &self.y()) };
        tensors.x.fill(halves(1));
        tensors.w.fill(halves(2));
        tensors.y.fill(halves(3));
        tensors
    }

    /// The definition: every connection between a place of the small grid (a convolution's output), a place of the large one (its input)
    /// and an element of the filter adds one product to whichever of the three is asked for.
    pub fn sums(&self, tensors: &Tensors, direction: Direction) -> Vec<f64> {
        let (small, large) = if self.transposed() { (&tensors.x, &tensors.y) } else { (&tensors.y, &tensors.x) };
        let (output, is_small, is_filter) = match (direction, self.transposed()) {
            (Direction::BackwardWeights, _) => (&tensors.w, false, true),
            (Direction::Forward, false) | (Direction::BackwardData, true) => (small, true, false),
            _ => (large, false, false),
        };
        let mut sums = vec![0.0; output.dims.iter().product::<i32>() as usize];
        for s in indices(&small.dims) {
            let group = s[1] / (small.dims[1] / self.groups);
            for f in indices(&tensors.w.dims[1..]) {
                let f = [&s[1..2], &f].concat();
                let mut l = vec![s[0], group * tensors.w.dims[1] + f[1]];
                l.extend((0..self.pads.len()).map(|i| s[i + 2] * self.strides[i] + f[i + 2] * self.dilations[i] - self.pads[i]));
                if !l.iter().zip(&large.dims).all(|(i, d)| (0..*d).contains(i)) {
                    continue;
                }
                let (index, product) = if is_filter {
                    (&f, small.get(&s) * large.get(&l))
                } else if is_small {
                    (&s, large.get(&l) * tensors.w.get(&f))
                } else {
                    (&l, small.get(&s) * tensors.w.get(&f))
                };
                sums[index.iter().zip(&output.dims).fold(0, |at, (i, d)| at * *d as usize + *i as usize)] += product;
            }
        }
        sums
    }

    /// The call; its status.
    pub fn call(&self, tensors: &mut Tensors, direction: Direction) -> i32 {
        let (x, w, y) = (tensors.x.descriptor(), tensors.w.descriptor(), tensors.y.descriptor());
        let (xp, wp, yp) = (tensors.x.data(), tensors.w.data(), tensors.y.data());
        let (mut single, mut double) = ([self.alpha as f32, self.beta as f32], [self.alpha, self.beta]);
        let is_double = tensors.output(direction).kind == data_type::DOUBLE;
        let [one, other] = &mut single;
        let [wide, wider] = &mut double;
        let (alpha, beta) = if is_double { (p(wide), p(wider)) } else { (p(one), p(other)) };
        call(handle(), direction, alpha, beta, [(x, xp), (w, wp), (y, yp)], self.convolution())
    }

    /// Runs another style on tensors like those of a classic call; the results must be the same, bit for bit.
    pub fn check_style(&self, direction: Direction, run: impl FnOnce(&mut Tensors)) {
        let (mut classic, mut styled) = (self.tensors(), self.tensors());
        for tensors in [&mut classic, &mut styled] {
            let values = |tensors: &mut Tensors| {
                tensors.x.fill(|i| (i as f64 * 0.731).sin());
                tensors.w.fill(|i| (i as f64 * 1.177).cos());
                tensors.y.fill(|i| (i as f64 * 0.377).sin());
            };
            values(tensors);
            tensors.output(direction).bytes.fill(POISON);
        }
        assert_eq!(self.call(&mut classic, direction), 0);
        run(&mut styled);
        assert!(classic.output(direction).bytes == styled.output(direction).bytes, "{direction:?} of {:?} * {:?}", self.x, self.w);
    }

    /// Computes, and compares with the definition: exact values in, so exactly the rounded sums out; nothing else touched.
    pub fn check(&self, direction: Direction) {
        let mut tensors = self.tensors();
        if self.beta == 0.0 {
            tensors.output(direction).bytes.fill(POISON);
        }
        let mut expected = self.tensors();
        let sums = self.sums(&expected, direction);
        let output = expected.output(direction);
        for (index, sum) in indices(&output.dims).zip(sums) {
            let old = if self.beta == 0.0 { 0.0 } else { self.beta * output.get(&index) };
            output.set(&index, self.alpha * sum + old);
        }
        assert_eq!(self.call(&mut tensors, direction), 0, "{direction:?}");
        let (found, wanted) = (tensors.output(direction), expected.output(direction));
        for index in indices(&found.dims) {
            let (found, wanted) = (found.get(&index), wanted.get(&index));
            assert!(found == wanted, "{direction:?} of {:?} * {:?} at {index:?}: {found}, not {wanted}", self.x, self.w);
        }
        assert!(found.gaps() == wanted.gaps(), "bytes between elements and around the tensor stay as they are");
    }
}

/// One convolution call in any direction, with descriptors and memory of x, w and y in this order.
pub fn call(handle: Pointer, direction: Direction, alpha: Pointer, beta: Pointer, t: [(Pointer, Pointer); 3], conv: Pointer) -> i32 {
    let (h, alpha, conv, beta, none) = (a(handle), a(alpha), a(conv), a(beta), a(null_mut()));
    let [(x, xp), (w, wp), (y, yp)] = t;
    code(match direction {
        Direction::Forward => miopenConvolutionForward(h, alpha, a(x), a(xp), a(w), a(wp), conv, 1, beta, a(y), a(yp), none, 0),
        Direction::BackwardData => miopenConvolutionBackwardData(h, alpha, a(y), a(yp), a(w), a(wp), conv, 1, beta, a(x), a(xp), none, 0),
        Direction::BackwardWeights => {
            miopenConvolutionBackwardWeights(h, alpha, a(y), a(yp), a(x), a(xp), conv, 1, beta, a(w), a(wp), none, 0)
        }
    })
}

/// One Find in any direction: status, number of results, first result.
pub fn find(handle: Pointer, direction: Direction, t: [(Pointer, Pointer); 3], conv: Pointer, requested: i32) -> (i32, i32, ConvAlgoPerf) {
    let (mut count, mut perf) = (0, ConvAlgoPerf::default());
    let (h, c, n, r, none) = (a(handle), a(conv), a(p(&mut count)), a(p(&mut perf)), a(null_mut()));
    let [(x, xp), (w, wp), (y, yp)] = t;
    let outcome = match direction {
        Direction::Forward => {
            miopenFindConvolutionForwardAlgorithm(h, a(x), a(xp), a(w), a(wp), c, a(y), a(yp), requested, n, r, none, 0, false)
        }
        Direction::BackwardData => {
            miopenFindConvolutionBackwardDataAlgorithm(h, a(y), a(yp), a(w), a(wp), c, a(x), a(xp), requested, n, r, none, 0, false)
        }
        Direction::BackwardWeights => {
            miopenFindConvolutionBackwardWeightsAlgorithm(h, a(y), a(yp), a(x), a(xp), c, a(w), a(wp), requested, n, r, none, 0, false)
        }
    };
    (code(outcome), count, perf)
}
