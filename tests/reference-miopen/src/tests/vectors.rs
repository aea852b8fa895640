//! Vectorised layouts: channels side by side in fours or eights.

use miopen_api::{data_type, tensor_layout};

use super::case::{Case, Direction, Memory, PLAIN, call, element_size, indices};
use super::{Pointer, a, bytes, code, handle, made, p};
use crate::convolution::miopenGetConvolutionNdForwardOutputDim;
use crate::tensor::{miopenCreateTensorDescriptor, miopenSetNdTensorDescriptorWithLayout};

/// A vectorised tensor with the values of a plain one.
struct Vectorised {
    descriptor: Pointer,
    memory: Vec<u8>,
}

fn set(kind: i32, layout: i32, dims: &[i32]) -> Pointer {
    let t = made(|out| miopenCreateTensorDescriptor(a(out)));
    miopenSetNdTensorDescriptorWithLayout(a(t), kind, layout, a(dims.as_ptr().cast_mut().cast()), 4).unwrap();
    t
}

/// Where an element is: channels in vectors, and for CHWNc the batch inside of all but the vector.
fn place(layout: i32, dims: &[i32], at: &[i32]) -> usize {
    let v = if matches!(layout, tensor_layout::NCHWC4 | tensor_layout::CHWNC4) { 4 } else { 8 };
    let (n, c, h, w) = (at[0], at[1] / v, at[2], at[3]);
    let vector = match layout {
        tensor_layout::CHWNC4 | tensor_layout::CHWNC8 => ((c * dims[2] + h) * dims[3] + w) * dims[0] + n,
        _ => ((n * (dims[1] / v) + c) * dims[2] + h) * dims[3] + w,
    };
    (vector * v + at[1] % v) as usize
}

fn vectorised(plain: &Memory, layout: i32) -> Vectorised {
    let descriptor = set(plain.kind, layout, &plain.dims);
    let mut dense = Memory::new(plain.kind, &[plain.dims.iter().product()], vec![1]);
    for at in indices(&plain.dims) {
        dense.set(&[place(layout, &plain.dims, &at) as i32], plain.get(&at));
    }
    assert_eq!(bytes(descriptor), plain.dims.iter().product::<i32>() as usize * element_size(plain.kind));
    Vectorised { descriptor, memory: dense.bytes }
}

/// The memory of a dense tensor, guard and all.
fn dense(kind: i32, dims: &[i32], bytes: Vec<u8>) -> Memory {
    Memory { bytes, ..Memory::new(kind, &[dims.iter().product()], vec![1]) }
}

fn check(case: &Case, image: i32, filter: i32) {
    let mut tensors = case.tensors();
    let (x, w, y) = (vectorised(&tensors.x, image), vectorised(&tensors.w, filter), vectorised(&tensors.y, image));
    let mut memories = [
        dense(case.kind, &tensors.x.dims, x.memory),
        dense(case.kind, &tensors.w.dims, w.memory),
        dense(tensors.y.kind, &tensors.y.dims, y.memory),
    ];
    let data = [memories[0].data(), memories[1].data(), memories[2].data()];
    let operands = [(x.descriptor, data[0]), (w.descriptor, data[1]), (y.descriptor, data[2])];
    let (mut alpha, mut beta) = (1f32, 0f32);
    let status = call(handle(), Direction::Forward, p(&mut alpha), p(&mut beta), operands, case.convolution());
    assert_eq!(status, 0);
    let sums = case.sums(&tensors, Direction::Forward);
    for (at, sum) in indices(&case.y()).zip(sums) {
        tensors.y.set(&at, sum);
        let found = memories[2].get(&[place(image, &case.y(), &at) as i32]);
        assert_eq!(found, tensors.y.get(&at), "{at:?}");
    }
}

#[test]
fn forward_in_fours_and_eights() {
    let case = Case { x: &[2, 16, 5, 6], w: &[8, 16, 3, 3], ..PLAIN };
    let layouts = [
        (tensor_layout::NCHWC4, [tensor_layout::NCHWC4, tensor_layout::CHWNC4]),
        (tensor_layout::NCHWC8, [tensor_layout::NCHWC8, tensor_layout::CHWNC8]),
    ];
    for (image, filters) in layouts {
        for filter in filters {
            for (kind, y_kind) in [(data_type::HALF, None), (data_type::INT8, None), (data_type::INT8, Some(data_type::INT32))] {
                check(&Case { kind, y_kind, ..case.clone() }, image, filter);
                check(&Case { kind, y_kind, strides: &[2, 1], dilations: &[1, 2], ..case.clone() }, image, filter);
            }
        }
    }
    check(&Case { kind: data_type::HALF, w: &[16, 8, 3, 3], groups: 2, ..case }, tensor_layout::NCHWC8, tensor_layout::NCHWC8);
}

#[test]
fn channels_are_counted_in_vectors() {
    let (x, w) = (set(data_type::HALF, tensor_layout::NCHWC4, &[2, 16, 5, 6]), set(data_type::HALF, tensor_layout::CHWNC4, &[8, 16, 3, 2]));
    let (mut rank, mut dims) = (0, [0; 4]);
    let conv = Case { pads: &[1, 0], ..PLAIN }.convolution();
    miopenGetConvolutionNdForwardOutputDim(a(conv), a(x), a(w), a(p(&mut rank)), a(p(&mut dims))).unwrap();
    assert_eq!(dims, [2, 2, 5, 5]);
    let plain = super::tensor_of(data_type::HALF, &[8, 4, 3, 2], None);
    assert_eq!(code(miopenGetConvolutionNdForwardOutputDim(a(conv), a(x), a(plain), a(p(&mut rank)), a(p(&mut dims)))), 3);
}

#[test]
fn what_has_no_algorithm_is_refused() {
    let conv = PLAIN.convolution();
    let (mut one, mut zero) = (1f32, 0f32);
    let (mut x, mut w, mut y) = (vec![0u8; 16384], vec![0u8; 16384], vec![0u8; 16384]);
    let mut status = |kind, layout, direction| {
        let dims: [&[i32]; 3] = [&[2, 16, 5, 6], &[8, 16, 3, 3], &[2, 8, 5, 6]];
        let [xd, wd, yd] = dims.map(|dims| set(kind, layout, dims));
        let operands = [(xd, x.as_mut_ptr().cast()), (wd, w.as_mut_ptr().cast()), (yd, y.as_mut_ptr().cast())];
        call(handle(), direction, p(&mut one), p(&mut zero), operands, conv)
    };
    assert_eq!(status(data_type::HALF, tensor_layout::NCHWC4, Direction::Forward), 0);
    assert_eq!(status(data_type::HALF, tensor_layout::NCHWC4, Direction::BackwardData), 7);
    assert_eq!(status(data_type::HALF, tensor_layout::NCHWC4, Direction::BackwardWeights), 7);
    assert_eq!(status(data_type::FLOAT, tensor_layout::NCHWC4, Direction::Forward), 7);
    assert_ne!(status(data_type::HALF, tensor_layout::CHWNC4, Direction::Forward), 0);
}
