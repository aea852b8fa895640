//! Bias calls: addition to a tensor, and the gradient.

use core::ptr::null_mut;

use miopen_api::data_type;

use super::case::{Memory, channels_last, halves, indices, padded};
use super::{Pointer, a, code, handle, p};
use crate::bias::{miopenConvolutionBackwardBias, miopenConvolutionForwardBias};

/// A call of either function: its status.
fn call(forward: bool, scalars: (Pointer, Pointer), bias: (Pointer, Pointer), tensor: (Pointer, Pointer)) -> i32 {
    let (h, alpha, beta, (b, bp), (t, tp)) = (a(handle()), a(scalars.0), a(scalars.1), bias, tensor);
    code(if forward {
        miopenConvolutionForwardBias(h, alpha, a(b), a(bp), beta, a(t), a(tp))
    } else {
        miopenConvolutionBackwardBias(h, alpha, a(t), a(tp), beta, a(b), a(bp))
    })
}

fn check(kind: i32, dims: &[i32], layout: super::case::Layout, alpha: f32, beta: f32) {
    let mut bias_dims = vec![1; dims.len()];
    bias_dims[1] = dims[1];
    let (mut t, mut b) = (Memory::new(kind, dims, layout(dims)), Memory::new(kind, &bias_dims, layout(&bias_dims)));
    t.fill(halves(1));
    b.fill(halves(2));
    let (mut single, mut double) = ((alpha, beta), (f64::from(alpha), f64::from(beta)));
    let scalars = if kind == data_type::DOUBLE { (p(&mut double.0), p(&mut double.1)) } else { (p(&mut single.0), p(&mut single.1)) };
    let (alpha, beta) = double;
    let channel = |c: i32| [&[0, c], &vec![0; dims.len() - 2][..]].concat();

    let mut wanted: Vec<f64> = (0..dims[1]).map(|c| beta * b.get(&channel(c))).collect();
    indices(dims).for_each(|at| wanted[at[1] as usize] += alpha * t.get(&at));
    let mut sums = Memory::new(kind, &bias_dims, layout(&bias_dims));
    if beta != 0.0 {
        sums.fill(halves(2));
    }
    assert_eq!(call(false, scalars, (sums.descriptor(), sums.data()), (t.descriptor(), t.data())), 0);
    for (c, wanted) in wanted.into_iter().enumerate() {
        assert_eq!(sums.get(&channel(c as i32)), wanted);
    }

    let wanted: Vec<f64> = indices(dims).map(|at| alpha * (t.get(&at) + b.get(&channel(at[1]))) + beta * t.get(&at)).collect();
    assert_eq!(call(true, scalars, (b.descriptor(), b.data()), (t.descriptor(), t.data())), 0);
    for (at, wanted) in indices(dims).zip(wanted) {
        assert_eq!(t.get(&at), wanted, "{at:?}");
    }
}

/// Values are few halves: exact in every type.
#[test]
fn adds_and_sums() {
    for kind in [data_type::FLOAT, data_type::HALF, data_type::DOUBLE] {
        for layout in [super::case::packed, channels_last, padded] {
            check(kind, &[2, 5, 3, 4], layout, 1.0, 0.0);
            check(kind, &[2, 40, 2, 3, 2], layout, 0.5, 2.0);
        }
    }
    check(data_type::FLOAT, &[3, 4], super::case::packed, 1.0, 0.0);
}

#[test]
fn refuses_what_does_not_fit() {
    let (dims, one) = ([2, 5, 3, 4], [1, 5, 1, 1]);
    let mut t = Memory::new(data_type::FLOAT, &dims, super::case::packed(&dims));
    let mut b = Memory::new(data_type::FLOAT, &one, super::case::packed(&one));
    let (mut alpha, mut beta) = (1f32, 0f32);
    let scalars = (p(&mut alpha), p(&mut beta));
    let (td, bd, tp, bp) = (t.descriptor(), b.descriptor(), t.data(), b.data());
    let other = |kind, dims: &[i32]| super::tensor_of(kind, dims, None);
    for forward in [true, false] {
        assert_eq!(call(forward, scalars, (bd, bp), (td, tp)), 0);
        assert_eq!(call(forward, scalars, (bd, null_mut()), (td, tp)), 3);
        assert_eq!(call(forward, scalars, (bd, bp), (null_mut(), tp)), 3);
        assert_eq!(call(forward, scalars, (other(data_type::FLOAT, &[1, 4, 1, 1]), bp), (td, tp)), 3);
        assert_eq!(call(forward, scalars, (other(data_type::FLOAT, &[1, 5, 1, 2]), bp), (td, tp)), 3);
        assert_eq!(call(forward, scalars, (other(data_type::HALF, &one), bp), (td, tp)), 3);
        assert_eq!(call(forward, (null_mut(), scalars.1), (bd, bp), (td, tp)), 3);
        let bf16 = |dims: &[i32]| other(data_type::BFLOAT16, dims);
        assert_eq!(call(forward, scalars, (bf16(&one), bp), (bf16(&dims), tp)), 6, "as the real one");
    }
}
