//! Checks and statuses as the real library was seen to give them, and numbers against a direct sum.
#![allow(clippy::unwrap_used)]

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use half::f16;
use miopen_api::{ConvAlgoPerf, convolution_mode, data_type, fwd_algorithm, tensor_layout};

use crate::args::FromC;
use crate::convolution::*;
use crate::failure::Outcome;
use crate::forward::*;
use crate::handle::*;
use crate::tensor::*;
use crate::version::*;

type Pointer = *mut c_void;

/// A pointer argument.
fn a<T: FromC>(pointer: Pointer) -> T {
    T::from_c(pointer)
}

/// A place for a result, or an array to read.
fn p<T>(place: &mut T) -> Pointer {
    core::ptr::from_mut(place).cast()
}

fn code(outcome: Outcome) -> i32 {
    outcome.map_or_else(|f| f.status, |()| 0)
}

fn made(create: impl FnOnce(Pointer) -> Outcome) -> Pointer {
    let mut pointer: Pointer = null_mut();
    create(p(&mut pointer)).unwrap();
    pointer
}

fn tensor_of(data_type: i32, dims: &[i32], strides: Option<&[i32]>) -> Pointer {
    let t = made(|out| miopenCreateTensorDescriptor(a(out)));
    let strides = strides.map_or(null_mut(), |s| s.as_ptr().cast_mut().cast());
    miopenSetTensorDescriptor(a(t), data_type, dims.len() as i32, a(dims.as_ptr().cast_mut().cast()), a(strides)).unwrap();
    t
}

fn convolution(mode: i32, pads: &[i32], strides: &[i32], dilations: &[i32], groups: i32) -> Pointer {
    let c = made(|out| miopenCreateConvolutionDescriptor(a(out)));
    let array = |v: &[i32]| v.as_ptr().cast_mut().cast::<c_void>();
    let (pads_, strides, dilations) = (array(pads), array(strides), array(dilations));
    miopenInitConvolutionNdDescriptor(a(c), pads.len() as i32, a(pads_), a(strides), a(dilations), mode).unwrap();
    miopenSetConvolutionGroupCount(a(c), groups).unwrap();
    c
}

/// Type, dimensions and strides as the getter gives them.
fn read(t: Pointer) -> (i32, Vec<i32>, Vec<i32>) {
    let (mut rank, mut kind, mut dims, mut strides) = (0, -1, [0; 8], [0; 8]);
    miopenGetTensorDescriptorSize(a(t), a(p(&mut rank))).unwrap();
    miopenGetTensorDescriptor(a(t), a(p(&mut kind)), a(p(&mut dims)), a(p(&mut strides))).unwrap();
    (kind, dims[..rank as usize].to_vec(), strides[..rank as usize].to_vec())
}

fn bytes(t: Pointer) -> usize {
    let mut bytes = 0usize;
    miopenGetTensorNumBytes(a(t), a(p(&mut bytes))).unwrap();
    bytes
}

#[test]
fn objects_know_their_kind_and_their_end() {
    let t = made(|out| miopenCreateTensorDescriptor(a(out)));
    assert_eq!(code(miopenDestroyConvolutionDescriptor(a(t))), 3);
    assert_eq!(code(miopenDestroyTensorDescriptor(a(t))), 0);
    assert_eq!(code(miopenDestroyTensorDescriptor(a(t))), 3);
    assert_eq!(code(miopenSet4dTensorDescriptor(a(t), 1, 1, 1, 1, 1)), 3);
    assert_eq!(code(miopenDestroyTensorDescriptor(a(null_mut()))), 0);
    assert_eq!(code(miopenCreateTensorDescriptor(a(null_mut()))), 3);
    assert_eq!(code(miopenSetStream(a(null_mut()), a(null_mut()))), 3);
}

#[test]
fn tensors_check_and_pack() {
    let t = tensor_of(data_type::HALF, &[2, 3, 4, 5], None);
    assert_eq!(read(t), (data_type::HALF, vec![2, 3, 4, 5], vec![60, 20, 5, 1]));
    assert_eq!(bytes(t), 240);
    let mut dims = [2, 0, 4];
    assert_eq!(code(miopenSetTensorDescriptor(a(t), 1, 3, a(p(&mut dims)), a(null_mut()))), 3);
    assert_eq!(code(miopenSetTensorDescriptor(a(t), 1, 0, a(p(&mut dims)), a(null_mut()))), 2);
    assert_eq!(code(miopenSetTensorDescriptor(a(t), 1, 3, a(null_mut()), a(null_mut()))), 2);
    assert_eq!(code(miopenSet4dTensorDescriptorEx(a(t), 1, 1, 1, 1, 1, 1, 1, 1, 0)), 3);
    let mut wide = [1usize << 33, 2];
    miopenSetTensorDescriptorV2(a(t), data_type::INT8, 2, a(p(&mut wide)), a(null_mut())).unwrap();
    assert_eq!(read(t), (data_type::INT8, vec![0, 2], vec![2, 1]), "the int getter truncates silently");
    let mut back = [0usize; 2];
    miopenGetTensorDescriptorV2(a(t), a(null_mut()), a(p(&mut back)), a(null_mut())).unwrap();
    assert_eq!((back, bytes(t)), (wide, 1 << 34));
}

#[test]
fn layouts_show_in_the_strides() {
    let t = made(|out| miopenCreateTensorDescriptor(a(out)));
    let set = |layout: i32, dims: &mut [i32]| {
        let n = dims.len() as i32;
        code(miopenSetNdTensorDescriptorWithLayout(a(t), data_type::INT8, layout, a(dims.as_mut_ptr().cast()), n))
    };
    assert_eq!(set(tensor_layout::NHWC, &mut [2, 8, 4, 5]), 0);
    assert_eq!(read(t).2, [160, 1, 40, 8]);
    assert_eq!(set(tensor_layout::NDHWC, &mut [2, 3, 4, 5, 6]), 0);
    assert_eq!(read(t).2, [360, 1, 90, 18, 3]);
    assert_eq!(set(tensor_layout::NCHWC4, &mut [2, 8, 4, 5]), 0);
    assert_eq!((read(t).1, read(t).2), (vec![2, 2, 4, 5], vec![160, 80, 20, 4]));
    assert_eq!(bytes(t), 320);
    assert_eq!(set(tensor_layout::CHWNC8, &mut [2, 16, 4, 5]), 0);
    assert_eq!((read(t).1, read(t).2), (vec![2, 4, 5, 2], vec![320, 80, 16, 8]));
    assert_eq!(set(tensor_layout::NCHWC4, &mut [2, 6, 4, 5]), 3);
    assert_eq!(set(tensor_layout::NCHW, &mut [2, 6, 4]), 3);
    assert_eq!(set(99, &mut [2, 6, 4, 5]), 3);
    let (mut layout, mut packed) = (-1, false);
    let strided = tensor_of(data_type::FLOAT, &[2, 3, 4, 5], Some(&[60, 1, 15, 3]));
    miopenGetTensorLayout(a(strided), a(p(&mut layout))).unwrap();
    miopenIsTensorPacked(a(strided), a(p(&mut packed))).unwrap();
    assert_eq!((layout, packed), (tensor_layout::NHWC, true));
}

#[test]
fn convolutions_check_and_reset() {
    let c = convolution(convolution_mode::DEPTHWISE, &[1, 1], &[2, 2], &[1, 1], -5);
    let (mut mode, mut rank, mut groups, mut pads) = (-1, 0, 0, [9; 3]);
    miopenGetConvolutionGroupCount(a(c), a(p(&mut groups))).unwrap();
    let none = null_mut;
    let get = |c, asked, rank: Pointer, pads: Pointer, mode: Pointer| {
        code(miopenGetConvolutionNdDescriptor(a(c), asked, a(rank), a(pads), a(none()), a(none()), a(mode)))
    };
    assert_eq!(get(c, 1, p(&mut rank), p(&mut pads), p(&mut mode)), 0);
    assert_eq!((groups, mode, rank, pads), (-5, 0, 2, [1, 9, 9]));
    assert_eq!(get(c, 3, none(), none(), none()), 7);
    let init = |mode, pad, stride, dilation| code(miopenInitConvolutionDescriptor(a(c), mode, pad, 0, stride, 1, dilation, 1));
    assert_eq!([init(4, 0, 1, 1), init(-1, 0, 1, 1), init(0, -1, 1, 1), init(0, 0, 0, 1), init(0, 0, 1, 0)], [3; 5]);
    assert_eq!(init(1, 0, 1, 1), 0);
    miopenGetConvolutionGroupCount(a(c), a(p(&mut groups))).unwrap();
    assert_eq!(groups, 1);
    let mut value = 7;
    let mut attribute = |which| {
        let status = code(miopenGetConvolutionAttribute(a(c), which, a(p(&mut value))));
        (status, value)
    };
    assert_eq!([attribute(0), attribute(1), attribute(2), attribute(3)], [(0, -1), (0, 0), (0, 1), (3, 1)]);
    let three = convolution(convolution_mode::TRANSPOSE, &[0; 3], &[1; 3], &[1; 3], 1);
    assert_eq!(code(miopenSetTransposeConvOutputPadding(a(three), 0, 0)), 7);
    miopenGetConvolutionFindMode(a(c), a(p(&mut value))).unwrap();
    assert_eq!(value, 5);
}

#[test]
fn output_sizes() {
    let (x, w) = (tensor_of(1, &[2, 4, 9, 10], None), tensor_of(1, &[6, 2, 3, 3], None));
    let c = convolution(convolution_mode::CONVOLUTION, &[1, 0], &[2, 3], &[1, 2], 2);
    let (mut rank, mut dims) = (0, [0; 4]);
    miopenGetConvolutionNdForwardOutputDim(a(c), a(x), a(w), a(p(&mut rank)), a(p(&mut dims))).unwrap();
    assert_eq!((rank, dims), (4, [2, 6, 5, 2]));
    let t = convolution(convolution_mode::TRANSPOSE, &[1, 1], &[2, 2], &[1, 1], 1);
    let filter = tensor_of(1, &[4, 5, 3, 3], None);
    assert_eq!(code(miopenSetTransposeConvOutputPadding(a(t), 1, 0)), 0);
    miopenGetConvolutionNdForwardOutputDim(a(t), a(x), a(filter), a(p(&mut rank)), a(p(&mut dims))).unwrap();
    assert_eq!(dims, [2, 5, 18, 19]);
    assert_eq!(code(miopenSetTransposeConvOutputPadding(a(t), 2, 0)), 0);
    assert_eq!(code(miopenGetConvolutionNdForwardOutputDim(a(t), a(x), a(filter), a(p(&mut rank)), a(p(&mut dims)))), 3);
}

/// One forward call on freshly made things.
struct Case {
    handle: Pointer,
    x: (Pointer, Pointer),
    w: (Pointer, Pointer),
    y: (Pointer, Pointer),
    conv: Pointer,
}

impl Case {
    fn run(&self, alpha: f32, beta: f32) -> i32 {
        let (mut alpha, mut beta) = (alpha, beta);
        let (alpha, beta) = (a(p(&mut alpha)), a(p(&mut beta)));
        let (x, w, y, none) = (self.x, self.w, self.y, null_mut());
        code(miopenConvolutionForward(
            a(self.handle),
            alpha,
            a(x.0),
            a(x.1),
            a(w.0),
            a(w.1),
            a(self.conv),
            fwd_algorithm::DIRECT,
            beta,
            a(y.0),
            a(y.1),
            a(none),
            0,
        ))
    }

    fn find(&self, requested: i32) -> (i32, i32, ConvAlgoPerf) {
        let (mut returned, mut perf) = (0, ConvAlgoPerf::default());
        let (count, place, none) = (a(p(&mut returned)), a(p(&mut perf)), a(null_mut()));
        let (x, w, y) = (self.x, self.w, self.y);
        let (handle, conv) = (a(self.handle), a(self.conv));
        let outcome = miopenFindConvolutionForwardAlgorithm(
            handle,
            a(x.0),
            a(x.1),
            a(w.0),
            a(w.1),
            conv,
            a(y.0),
            a(y.1),
            requested,
            count,
            place,
            none,
            0,
            false,
        );
        (code(outcome), returned, perf)
    }
}

fn handle() -> Pointer {
    made(|out| miopenCreate(a(out)))
}

/// Small integers and halves: exact in every format and order.
fn pattern(n: usize, salt: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + salt * 3) % 11) as f32 * 0.5 - 2.5).collect()
}

/// Every index of a shape.
fn indices(dims: &[i32]) -> Vec<Vec<i64>> {
    dims.iter().fold(vec![vec![]], |all, d| all.iter().flat_map(|at| (0..i64::from(*d)).map(move |i| [&at[..], &[i]].concat())).collect())
}

fn offset(at: &[i64], strides: &[i32]) -> usize {
    at.iter().zip(strides).map(|(i, s)| *i as usize * *s as usize).sum()
}

/// What a test varies.
struct Shape<'a> {
    x: &'a [i32],
    w: &'a [i32],
    y: &'a [i32],
    pads: &'a [i32],
    strides: &'a [i32],
    dilations: &'a [i32],
    groups: i32,
    x_strides: Option<&'a [i32]>,
    y_strides: Option<&'a [i32]>,
}

/// The definition, element by element, independent of the library's loops.
fn direct(s: &Shape, x: &[f32], w: &[f32], xs: &[i32], ws: &[i32], at: &[i64], transposed: bool) -> f64 {
    let (w0, w1) = (i64::from(s.w[0]), i64::from(s.w[1]));
    let groups = i64::from(s.groups);
    let mut sum = 0.0;
    for f in indices(s.w) {
        // Which input channel and which output channel this filter element joins.
        let (out, input) = if transposed { ((f[0] / (w0 / groups)) * w1 + f[1], f[0]) } else { (f[0], (f[0] / (w0 / groups)) * w1 + f[1]) };
        if out != at[1] {
            continue;
        }
        let mut from = vec![at[0], input];
        for i in 0..s.pads.len() {
            let (stride, tap) = (i64::from(s.strides[i]), f[i + 2] * i64::from(s.dilations[i]) - i64::from(s.pads[i]));
            let place = if transposed { at[i + 2] - tap } else { at[i + 2] * stride + tap };
            from.push(if !transposed {
                place
            } else if place % stride == 0 {
                place / stride
            } else {
                -1
            });
        }
        if from.iter().zip(s.x).all(|(i, d)| (0..i64::from(*d)).contains(i)) {
            sum += f64::from(x[offset(&from, xs)]) * f64::from(w[offset(&f, ws)]);
        }
    }
    sum
}

fn check(s: &Shape, mode: i32) {
    let (xd, wd, yd) = (tensor_of(1, s.x, s.x_strides), tensor_of(1, s.w, None), tensor_of(1, s.y, s.y_strides));
    let (mut x, mut w) = (pattern(bytes(xd) / 4, 1), pattern(bytes(wd) / 4, 2));
    let mut y = vec![99.0f32; bytes(yd) / 4];
    let conv = convolution(mode, s.pads, s.strides, s.dilations, s.groups);
    let (xp, wp, yp) = (x.as_mut_ptr().cast(), w.as_mut_ptr().cast(), y.as_mut_ptr().cast());
    let case = Case { handle: handle(), x: (xd, xp), w: (wd, wp), y: (yd, yp), conv };
    assert_eq!(case.run(1.0, 0.0), 0);
    let (xs, ws, ys) = (read(xd).2, read(wd).2, read(yd).2);
    let mut written = 0;
    for at in indices(s.y) {
        let expected = direct(s, &x, &w, &xs, &ws, &at, mode == convolution_mode::TRANSPOSE);
        assert_eq!(f64::from(y[offset(&at, &ys)]), expected, "{at:?}");
        written += 1;
    }
    let untouched = y.len() - written;
    assert!(y.iter().filter(|v| **v == 99.0).count() >= untouched, "gaps between elements stay as they were");
}

const PLAIN: Shape = Shape {
    x: &[2, 3, 7, 8],
    w: &[4, 3, 3, 3],
    y: &[2, 4, 7, 8],
    pads: &[1, 1],
    strides: &[1, 1],
    dilations: &[1, 1],
    groups: 1,
    x_strides: None,
    y_strides: None,
};

#[test]
fn computes_two_dimensions() {
    check(&PLAIN, 0);
    check(&Shape { y: &[2, 4, 3, 4], pads: &[2, 3], strides: &[3, 2], dilations: &[2, 3], ..PLAIN }, 0);
    check(&Shape { w: &[4, 3, 1, 1], pads: &[0, 0], ..PLAIN }, 0);
    // Pads larger than the image: whole rows of the filter meet nothing.
    check(&Shape { x: &[1, 3, 2, 2], y: &[1, 4, 10, 10], pads: &[5, 5], ..PLAIN }, 0);
}

#[test]
fn computes_any_strides() {
    check(&Shape { x_strides: Some(&[168, 1, 24, 3]), y_strides: Some(&[224, 1, 32, 4]), ..PLAIN }, 0);
    check(&Shape { x_strides: Some(&[400, 100, 10, 1]), y_strides: Some(&[1000, 200, 20, 2]), ..PLAIN }, 0);
}

#[test]
fn computes_groups() {
    check(&Shape { x: &[2, 4, 7, 8], w: &[6, 2, 3, 3], y: &[2, 6, 7, 8], groups: 2, ..PLAIN }, 0);
    check(&Shape { x: &[2, 4, 7, 8], w: &[4, 1, 3, 3], y: &[2, 4, 7, 8], groups: 4, ..PLAIN }, 3);
}

#[test]
fn computes_one_and_three_dimensions() {
    let one = Shape { x: &[2, 3, 9], w: &[4, 3, 3], y: &[2, 4, 5], pads: &[1], strides: &[2], dilations: &[1], ..PLAIN };
    check(&one, 0);
    let ones: &[i32] = &[1, 1, 1];
    let three =
        Shape { x: &[1, 2, 4, 5, 6], w: &[3, 2, 2, 3, 3], y: &[1, 3, 5, 5, 6], pads: ones, strides: ones, dilations: ones, ..PLAIN };
    check(&three, 0);
}

#[test]
fn computes_transposed() {
    let t = Shape { x: &[2, 4, 5, 6], w: &[4, 3, 3, 3], y: &[2, 3, 9, 11], strides: &[2, 2], ..PLAIN };
    check(&t, 1);
    check(&Shape { w: &[4, 3, 3, 3], y: &[2, 6, 9, 11], groups: 2, ..t }, 1);
}

#[test]
fn rounds_half_once() {
    // 2048 + 1 + 1: rounding after each addition would stay at 2048.
    let (xd, wd, yd) = (tensor_of(0, &[1, 3, 1, 1], None), tensor_of(0, &[1, 3, 1, 1], None), tensor_of(0, &[1, 1, 1, 1], None));
    let mut x = [2048.0, 1.0, 1.0].map(f16::from_f32);
    let mut w = [1.0; 3].map(f16::from_f32);
    let mut y = [f16::ZERO];
    let conv = convolution(0, &[0, 0], &[1, 1], &[1, 1], 1);
    let case = Case { handle: handle(), x: (xd, p(&mut x)), w: (wd, p(&mut w)), y: (yd, p(&mut y)), conv };
    assert_eq!(case.run(1.0, 0.0), 0);
    assert_eq!(y[0].to_f32(), 2050.0);
}

#[test]
fn forward_refuses_what_does_not_fit() {
    let (xd, wd, yd) = (tensor_of(1, PLAIN.x, None), tensor_of(1, PLAIN.w, None), tensor_of(1, PLAIN.y, None));
    let (mut x, mut w, mut y) = (pattern(336, 1), pattern(108, 2), vec![0f32; 448]);
    let (xp, wp, yp) = (x.as_mut_ptr().cast(), w.as_mut_ptr().cast(), y.as_mut_ptr().cast());
    let conv = convolution(0, PLAIN.pads, PLAIN.strides, PLAIN.dilations, 1);
    let good = || Case { handle: handle(), x: (xd, xp), w: (wd, wp), y: (yd, yp), conv };
    assert_eq!(good().run(1.0, 0.0), 0);
    assert_eq!((good().run(2.0, 0.0), good().run(1.0, 1.0)), (6, 6));
    assert_eq!(Case { x: (xd, null_mut()), ..good() }.run(1.0, 0.0), 3);
    assert_eq!(Case { handle: null_mut(), ..good() }.run(1.0, 0.0), 3);
    assert_eq!(Case { conv: null_mut(), ..good() }.run(1.0, 0.0), 3);
    assert_eq!(Case { y: (xd, yp), ..good() }.run(1.0, 0.0), 3);
    assert_eq!(Case { w: (tensor_of(0, PLAIN.w, None), wp), ..good() }.run(1.0, 0.0), 3);
    let ints = |dims| tensor_of(data_type::INT8, dims, None);
    assert_eq!(Case { x: (ints(PLAIN.x), xp), w: (ints(PLAIN.w), wp), y: (ints(PLAIN.y), yp), ..good() }.run(1.0, 0.0), 6);
    for groups in [0, -1, 2] {
        let conv = convolution(0, PLAIN.pads, PLAIN.strides, PLAIN.dilations, groups);
        assert_eq!(Case { conv, ..good() }.run(1.0, 0.0), 3, "{groups} groups");
    }
    let (status, returned, perf) = good().find(4);
    assert_eq!((status, returned, perf.algorithm, perf.memory), (0, 1, fwd_algorithm::DIRECT, 0));
    assert_eq!(good().find(0).0, 3);
}

#[test]
fn profiling_keeps_the_last_time() {
    let h = handle();
    let mut time = -1f32;
    miopenGetKernelTime(a(h), a(p(&mut time))).unwrap();
    assert_eq!(time, 0.0);
    miopenEnableProfiling(a(h), true).unwrap();
    let (x, w, y) = (tensor_of(1, &[1, 1, 64, 64], None), tensor_of(1, &[1, 1, 3, 3], None), tensor_of(1, &[1, 1, 62, 62], None));
    let (mut xv, mut wv, mut yv) = (pattern(4096, 1), pattern(9, 1), vec![0f32; 3844]);
    let conv = convolution(0, &[0, 0], &[1, 1], &[1, 1], 1);
    let (xp, wp, yp) = (xv.as_mut_ptr().cast(), wv.as_mut_ptr().cast(), yv.as_mut_ptr().cast());
    assert_eq!(Case { handle: h, x: (x, xp), w: (w, wp), y: (y, yp), conv }.run(1.0, 0.0), 0);
    miopenGetKernelTime(a(h), a(p(&mut time))).unwrap();
    assert!(time > 0.0);
}

#[test]
fn statuses_have_names() {
    // SAFETY: the function returns static strings.
    let name = |status| unsafe { CStr::from_ptr(miopenGetErrorString(status)) };
    assert_eq!((name(0), name(10)), (c"miopenStatusSuccess", c"miopenStatusVersionMismatch"));
    assert_eq!((name(11), name(-1)), (c"Unknown error status", c"Unknown error status"));
    for (text, status) in miopen_api::status::ALL {
        assert_eq!(name(*status).to_str().unwrap(), *text);
    }
}

#[cfg(not(feature = "stock"))]
unsafe extern "C-unwind" {
    #[link_name = "miopenGetVersion_impl"]
    fn miopenGetVersionExport(major: *mut usize, minor: *mut usize, patch: *mut usize) -> i32;
    #[link_name = "miopenDropoutGetStatesSize_impl"]
    fn miopenDropoutGetStatesSizeExport(handle: Pointer, size: *mut usize) -> i32;
    fn reference_miopen_calls(name: *const core::ffi::c_char) -> u64;
}

#[test]
#[cfg(not(feature = "stock"))]
fn exports_count_their_calls() {
    let mut version = [0usize; 3];
    let [major, minor, patch] = &mut version;
    // SAFETY: pointers to locals and C strings.
    unsafe {
        assert_eq!(miopenGetVersionExport(major, minor, patch), 0);
        assert_eq!(miopenGetVersionExport(null_mut(), null_mut(), null_mut()), 0);
        assert_eq!(miopenDropoutGetStatesSizeExport(null_mut(), null_mut()), 6);
        assert_eq!(reference_miopen_calls(c"miopenGetVersion".as_ptr()), 2);
        assert_eq!(reference_miopen_calls(c"miopenDropoutGetStatesSize".as_ptr()), 1);
        assert_eq!((reference_miopen_calls(c"nothing".as_ptr()), reference_miopen_calls(core::ptr::null())), (0, 0));
    }
    assert_eq!(version, [3, 5, 1]);
}

#[test]
fn log_lines_carry_every_bit() {
    let index = crate::exports::NAMES.iter().position(|n| *n == "miopenGetStream").unwrap();
    assert_eq!(crate::calls::line(index, &[0x10, u64::MAX]), "miopenGetStream handle=0x10 streamID=0xffffffffffffffff\n");
}
