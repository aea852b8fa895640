//! Descriptors, handles and exports as the real library was seen to behave; what all tests use to call functions. Convolutions are in the
//! folder beside this file.
#![allow(clippy::unwrap_used)]

mod bias;
mod case;
mod find2;
mod fusion;
mod immediate;
mod numbers;
mod refusals;
mod speed;
mod vectors;

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use miopen_api::{convolution_mode, data_type, tensor_layout};

use crate::args::FromC;
use crate::convolution::*;
use crate::failure::Outcome;
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

fn handle() -> Pointer {
    made(|out| miopenCreate(a(out)))
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
