//! Numbers in memory, and convolutions straight from the definition, in f64.

use half::{bf16, f16};
use hipdnn_abi::{convolution_mode, data_type as d, data_type_bytes};

use super::*;

/// What must survive in the gaps of an output: as a float it is a NaN, so that a gap that is read shows as well.
pub const POISON: u8 = 0xff;

/// Strides for dimensions in memory order `order` (outermost first), with `gap` elements after each and a step of `step` inside.
pub fn strides(dims: &[i64], order: &[usize], step: i64, gap: i64) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut next = step;
    for &i in order.iter().rev() {
        strides[i] = next;
        next = next * dims[i] + gap;
    }
    strides
}

pub fn channel_last(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

pub fn elements(dims: &[i64], strides: &[i64]) -> usize {
    dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<i64>() as usize + 1
}

/// Every index of a tensor, first dimension slowest.
pub fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &dim in dims {
        all = all.into_iter().flat_map(|head| (0..dim).map(move |i| [head.clone(), vec![i]].concat())).collect();
    }
    all
}

/// The offsets of all elements, in the order of [`indices`].
pub fn offsets(dims: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut all = vec![0];
    for (&dim, &stride) in dims.iter().zip(strides) {
        all = all.into_iter().flat_map(|head| (0..dim).map(move |i| head + (i * stride) as usize)).collect();
    }
    all
}

pub fn encode(value: f64, data_type: i32) -> Vec<u8> {
    match data_type {
        d::FLOAT => (value as f32).to_ne_bytes().into(),
        d::DOUBLE => value.to_ne_bytes().into(),
        d::HALF => f16::from_f64(value).to_ne_bytes().into(),
        d::BFLOAT16 => bf16::from_f64(value).to_ne_bytes().into(),
        d::INT8 => (value.round_ties_even().clamp(-128.0, 127.0) as i8).to_ne_bytes().into(),
        d::INT32 => (value as i32).to_ne_bytes().into(),
        other => panic!("data type {other}"),
    }
}

/// A tensor in poisoned memory, with the f64 values that its elements stand for, in the order of [`indices`].
pub struct Operand {
    pub buffer: Buffer,
    /// Of the tensor's first byte in the buffer.
    pub shift: usize,
    pub offsets: Vec<usize>,
    pub data_type: i32,
    pub values: Vec<f64>,
}

impl Operand {
    pub fn empty((data_type, dims, strides): &(i32, Vec<i64>, Vec<i64>), shift: usize) -> Self {
        let bytes = elements(dims, strides) * data_type_bytes(*data_type).expect("sized") + shift;
        let offsets = offsets(dims, strides);
        let values = vec![0.0; offsets.len()];
        Self { buffer: Buffer::new(bytes, POISON), shift, offsets, data_type: *data_type, values }
    }

    /// With values that `number` makes of 32 random bits.
    pub fn fill(&mut self, seed: u64, number: impl Fn(u32) -> f64) {
        let mut state = seed;
        for i in 0..self.offsets.len() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = number((state >> 32) as u32);
            let bytes = encode(value, self.data_type);
            let range = self.range(i);
            self.buffer.bytes_mut()[range].copy_from_slice(&bytes);
            self.values[i] = value;
        }
    }

    /// Where an element is.
    pub fn range(&self, i: usize) -> std::ops::Range<usize> {
        let size = data_type_bytes(self.data_type).expect("sized");
        let start = self.shift + self.offsets[i] * size;
        start..start + size
    }

    pub fn bytes(&self, i: usize) -> &[u8] {
        &self.buffer.bytes()[self.range(i)]
    }

    pub fn pointer(&mut self) -> *mut std::ffi::c_void {
        self.buffer.pointer().wrapping_byte_add(self.shift)
    }

    /// Whether everything that is no element is as it was.
    pub fn gaps_are_untouched(&self) -> bool {
        let mut is_element = vec![false; self.buffer.bytes().len()];
        (0..self.offsets.len()).for_each(|i| is_element[self.range(i)].fill(true));
        self.buffer.bytes().iter().zip(&is_element).all(|(&byte, &element)| element || byte == POISON)
    }
}

/// Which position of y, tap of w and position of x meet, straight from the definition; each counted as in [`indices`].
pub fn meetings(case: &Convolution) -> Vec<[u32; 3]> {
    let (input, taps, output) = (&case.x.1[2..], &case.w.1[2..], &case.y.1[2..]);
    let (taps_at, strides_x) = (indices(taps), packed(input));
    let mut meetings = vec![];
    for (o, position) in indices(output).iter().enumerate() {
        for (t, tap) in taps_at.iter().enumerate() {
            let turned = |i: usize| if case.mode == convolution_mode::CONVOLUTION { taps[i] - 1 - tap[i] } else { tap[i] };
            let at = |i: usize| position[i] * case.stride[i] + turned(i) * case.dilation[i] - case.pre[i];
            if (0..input.len()).all(|i| (0..input[i]).contains(&at(i))) {
                let x: i64 = (0..input.len()).map(|i| at(i) * strides_x[i]).sum();
                meetings.push([o as u32, t as u32, x as u32]);
            }
        }
    }
    meetings
}

/// The sums, and the sums of the products' sizes.
pub fn sums(case: &Convolution, [x, w, y]: [&[f64]; 3]) -> (Vec<f64>, Vec<f64>) {
    let size = |dims: &[i64]| dims[2..].iter().product::<i64>() as usize;
    let (input, taps, output) = (size(&case.x.1), size(&case.w.1), size(&case.y.1));
    let [batch, all_channels, channels, filters] = [case.x.1[0], case.x.1[1], case.w.1[1], case.w.1[0]].map(|size| size as usize);
    let filters_of_group = filters / (all_channels / channels);
    let (meetings, target) = (meetings(case), [y, x, w][case.direction as usize]);
    let (mut sums, mut sizes) = (vec![0.0; target.len()], vec![0.0; target.len()]);
    for n in 0..batch {
        for k in 0..filters {
            for c in 0..channels {
                let channel = k / filters_of_group * channels + c;
                let (x_start, w_start, y_start) =
                    ((n * all_channels + channel) * input, (k * channels + c) * taps, (n * filters + k) * output);
                for &[o, t, i] in &meetings {
                    let (x_at, w_at, y_at) = (x_start + i as usize, w_start + t as usize, y_start + o as usize);
                    let (at, product) = match case.direction {
                        Direction::Forward => (y_at, x[x_at] * w[w_at]),
                        Direction::Data => (x_at, y[y_at] * w[w_at]),
                        Direction::Filter => (w_at, x[x_at] * y[y_at]),
                    };
                    sums[at] += product;
                    sizes[at] += product.abs();
                }
            }
        }
    }
    (sums, sizes)
}

pub fn decode(bytes: &[u8], data_type: i32) -> f64 {
    match data_type {
        d::FLOAT => f32::from_ne_bytes(bytes.try_into().expect("four bytes")).into(),
        d::DOUBLE => f64::from_ne_bytes(bytes.try_into().expect("eight bytes")),
        d::HALF => f16::from_ne_bytes(bytes.try_into().expect("two bytes")).into(),
        d::BFLOAT16 => bf16::from_ne_bytes(bytes.try_into().expect("two bytes")).into(),
        other => panic!("data type {other}"),
    }
}

/// Multiples of a quarter (integers: of one) from -2 to 2.
pub fn quarters(bits: u32, data_type: i32) -> f64 {
    let quarters = f64::from(bits % 17) - 8.0;
    if data_type == d::INT8 { quarters } else { quarters / 4.0 }
}
