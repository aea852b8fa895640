//! The arithmetic of convolution on strided tensors: products and sums in double precision, rounded once at the end.
//! Everything is brought to three spatial dimensions and to dense rows first. No checks of arguments and no MIOpen types.

use core::ffi::c_void;
use core::ops::Range;

/// Dimensions and strides, as N, C, D, H, W with sizes 1 where the tensor has fewer.
pub struct Strided {
    pub dims: [usize; 5],
    pub strides: [usize; 5],
}

/// A convolution whose shapes are known to fit.
pub struct Geometry {
    /// The output takes the place of a convolution's input.
    pub transposed: bool,
    pub groups: usize,
    pub pads: [i64; 3],
    pub strides: [i64; 3],
    pub dilations: [i64; 3],
    pub x: Strided,
    pub w: Strided,
    pub y: Strided,
}

/// The three tensors' memory.
pub struct Buffers {
    pub x: *mut c_void,
    pub w: *mut c_void,
    pub y: *mut c_void,
}

/// A number format.
pub trait Element: Copy {
    /// Exact.
    fn widen(self) -> f64;
    /// Rounded to nearest even.
    fn narrow(value: f64) -> Self;
}

impl Element for f32 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    fn narrow(value: f64) -> f32 {
        value as f32
    }
}

impl Element for half::f16 {
    fn widen(self) -> f64 {
        self.to_f64()
    }
    fn narrow(value: f64) -> Self {
        half::f16::from_f64(value)
    }
}

impl Element for half::bf16 {
    fn widen(self) -> f64 {
        self.to_f64()
    }
    fn narrow(value: f64) -> Self {
        half::bf16::from_f64(value)
    }
}

/// One to three spatial values as three, filled up at the front.
pub fn spatial(values: &[i64], fill: i64) -> [i64; 3] {
    let mut three = [fill; 3];
    three[3 - values.len()..].copy_from_slice(values);
    three
}

impl Strided {
    /// A tensor of three to five dimensions.
    pub fn new(dims: &[usize], strides: &[usize]) -> Strided {
        let mut five = Strided { dims: [1; 5], strides: [0; 5] };
        let missing = 5 - dims.len();
        for (i, (dim, stride)) in dims.iter().zip(strides).enumerate() {
            let axis = if i < 2 { i } else { i + missing };
            (five.dims[axis], five.strides[axis]) = (*dim, *stride);
        }
        five
    }

    fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Elements of one channel.
    fn plane(&self) -> usize {
        self.dims[2..].iter().product()
    }

    /// Offsets of the first element of every row (a row runs along W), in dense order.
    fn rows(&self) -> impl Iterator<Item = usize> {
        let [n, c, d, h, _] = self.dims;
        let [sn, sc, sd, sh, _] = self.strides;
        let planes = (0..n).flat_map(move |i| (0..c).map(move |j| i * sn + j * sc));
        planes.flat_map(move |plane| (0..d).flat_map(move |k| (0..h).map(move |l| plane + k * sd + l * sh)))
    }

    /// The tensor as dense double-precision numbers.
    fn load<E: Element>(&self, memory: *const E) -> Vec<f64> {
        let mut dense = Vec::with_capacity(self.elements());
        for row in self.rows() {
            // SAFETY: the caller of the API vouches for memory that covers the tensor's extent.
            dense.extend((0..self.dims[4]).map(|i| unsafe { memory.add(row + i * self.strides[4]).read_unaligned() }.widen()));
        }
        dense
    }

    /// Writes one channel of one image, rounding.
    fn store_plane<E: Element>(&self, memory: *mut E, n: usize, c: usize, values: &[f64]) {
        let [.., d, h, w] = self.dims;
        let plane = n * self.strides[0] + c * self.strides[1];
        let starts = (0..d).flat_map(|i| (0..h).map(move |j| plane + i * self.strides[2] + j * self.strides[3]));
        for (row, start) in values.chunks_exact(w).zip(starts) {
            for (i, value) in row.iter().enumerate() {
                // SAFETY: the caller of the API vouches for memory that covers the tensor's extent.
                unsafe { memory.add(start + i * self.strides[4]).write_unaligned(E::narrow(*value)) };
            }
        }
    }
}

/// Computes `y` from `x` and `w`. All memory covers the tensors' extents.
pub fn forward<E: Element>(g: &Geometry, buffers: &Buffers) {
    let (x, w) = (g.x.load::<E>(buffers.x.cast()), g.w.load::<E>(buffers.w.cast()));
    let mut sums = vec![0.0; g.y.plane()];
    for n in 0..g.y.dims[0] {
        for out in 0..g.y.dims[1] {
            sums.fill(0.0);
            g.sum_channels(n, out, &x, &w, &mut sums);
            g.y.store_plane::<E>(buffers.y.cast(), n, out, &sums);
        }
    }
}

impl Geometry {
    /// Adds up one output channel over the input channels of its group.
    fn sum_channels(&self, n: usize, out: usize, x: &[f64], w: &[f64], sums: &mut [f64]) {
        let (ins, outs) = (self.x.dims[1] / self.groups, self.y.dims[1] / self.groups);
        let (group, within) = (out / outs, out % outs);
        let (plane, taps) = (self.x.plane(), self.w.plane());
        for c in 0..ins {
            let input = group * ins + c;
            let from = (n * self.x.dims[1] + input) * plane;
            // A convolution's filter is [out][in of group]; a transposed one's is [in][out of group].
            let filter = if self.transposed { input * outs + within } else { out * ins + c };
            self.sum_taps(&x[from..from + plane], &w[filter * taps..(filter + 1) * taps], sums);
        }
    }

    /// Adds one input channel times one filter channel to the sums.
    fn sum_taps(&self, x: &[f64], w: &[f64], sums: &mut [f64]) {
        let [_, _, kd, kh, kw] = self.w.dims;
        for (i, weight) in w.iter().enumerate() {
            let tap = [i / (kh * kw), i / kw % kh, i % kw];
            debug_assert!(tap[0] < kd);
            self.sum_tap(x, *weight, tap, sums);
        }
    }

    /// Adds one input channel times one number to the sums, at the places this filter element connects.
    ///
    /// A convolution connects the small grid (its output) at `o` with the large one (its input) at `o * stride + tap *
    /// dilation - pad`. A transposed one computes the large grid from the small.
    fn sum_tap(&self, x: &[f64], weight: f64, tap: [usize; 3], sums: &mut [f64]) {
        let (small, large) = if self.transposed { (&self.x, &self.y) } else { (&self.y, &self.x) };
        let span = |axis: usize| self.span(axis, tap[axis], small.dims[axis + 2], large.dims[axis + 2]);
        let [(depth, d0), (height, h0), (width, w0)] = [span(0), span(1), span(2)];
        let (step, count) = (self.strides[2] as usize, width.len());
        for d in depth {
            for h in height.clone() {
                let small_row = (d * small.dims[3] + h) * small.dims[4] + width.start;
                let at = |o: usize, axis: usize, base: i64| (o as i64 * self.strides[axis] + base) as usize;
                let large_row = (at(d, 0, d0) * large.dims[3] + at(h, 1, h0)) * large.dims[4];
                if count == 0 {
                    continue;
                }
                let large_row = large_row + at(width.start, 2, w0);
                let (small, large) = (small_row..small_row + count, large_row..large_row + (count - 1) * step + 1);
                if self.transposed {
                    scatter(&x[small], weight, step, &mut sums[large]);
                } else {
                    gather(&x[large], weight, step, &mut sums[small]);
                }
            }
        }
    }

    /// Which places of the small grid meet the large one along an axis for a filter element, and the constant of the relation.
    fn span(&self, axis: usize, tap: usize, small: usize, large: usize) -> (Range<usize>, i64) {
        let (stride, base) = (self.strides[axis], tap as i64 * self.dilations[axis] - self.pads[axis]);
        let first = (-base).max(0).div_euclid(stride) + i64::from((-base).max(0).rem_euclid(stride) != 0);
        let end = if large as i64 - 1 < base { 0 } else { (large as i64 - 1 - base).div_euclid(stride) + 1 };
        let end = end.clamp(0, small as i64);
        (first.min(end) as usize..end as usize, base)
    }
}

/// `sums[i] += weight * x[i * step]`
fn gather(x: &[f64], weight: f64, step: usize, sums: &mut [f64]) {
    if step == 1 {
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
    } else {
        sums.iter_mut().zip(x.iter().step_by(step)).for_each(|(sum, x)| *sum += weight * x);
    }
}

/// `sums[i * step] += weight * x[i]`
fn scatter(x: &[f64], weight: f64, step: usize, sums: &mut [f64]) {
    sums.iter_mut().step_by(step).zip(x).for_each(|(sum, x)| *sum += weight * x);
}
