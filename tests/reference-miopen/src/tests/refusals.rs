//! What convolution calls refuse, and how; what Find, workspace queries and profiling answer.

use core::ptr::null_mut;

use miopen_api::{data_type, fwd_algorithm};

use super::case::{Case, DIRECTIONS, Direction, PLAIN, Tensors, call, channels_last, find, indices};
use super::{Pointer, a, code, handle, p, tensor_of};
use crate::args::Obj;
use crate::classic::backward_data::*;
use crate::classic::backward_weights::*;
use crate::classic::forward::*;
use crate::handle::*;

/// A call whose arguments can be exchanged one by one.
#[derive(Clone, Copy)]
struct Call {
    handle: Pointer,
    operands: [(Pointer, Pointer); 3],
    conv: Pointer,
}

impl Call {
    fn new(case: &Case, tensors: &mut Tensors) -> Call {
        let operands = [&mut tensors.x, &mut tensors.w, &mut tensors.y].map(|t| (t.descriptor(), t.data()));
        Call { handle: handle(), operands, conv: case.convolution() }
    }

    fn with(mut self, operand: usize, descriptor: Pointer) -> Call {
        self.operands[operand].0 = descriptor;
        self
    }

    /// Status of the call and of Find, which must agree.
    fn status(&self, direction: Direction) -> i32 {
        let (mut alpha, mut beta) = (1f32, 0f32);
        let status = call(self.handle, direction, p(&mut alpha), p(&mut beta), self.operands, self.conv);
        assert_eq!(find(self.handle, direction, self.operands, self.conv, 1).0, status);
        status
    }
}

#[test]
fn what_does_not_fit() {
    let mut tensors = PLAIN.tensors();
    let good = Call::new(&PLAIN, &mut tensors);
    let float = |dims: &[i32]| tensor_of(data_type::FLOAT, dims, None);
    for direction in DIRECTIONS {
        assert_eq!(good.status(direction), 0);
        for operand in 0..3 {
            let mut missing = good;
            missing.operands[operand].1 = null_mut();
            assert_eq!(missing.status(direction), 3, "no memory");
            assert_eq!(good.with(operand, null_mut()).status(direction), 3);
            assert_eq!(good.with(operand, tensor_of(data_type::HALF, [PLAIN.x, PLAIN.w, &PLAIN.y()][operand], None)).status(direction), 3);
            assert_eq!(good.with(operand, float(&[2, 3, 7])).status(direction), 3);
            assert_eq!(good.with(operand, float(&[2, 5, 7, 7])).status(direction), 3);
        }
        assert_eq!(Call { handle: null_mut(), ..good }.status(direction), 3);
        assert_eq!(Call { conv: null_mut(), ..good }.status(direction), 3);
        for groups in [0, -1, 2] {
            assert_eq!(Call { conv: Case { groups, ..PLAIN }.convolution(), ..good }.status(direction), 3, "{groups} groups");
        }
        let null = [(null_mut(), true), (null_mut(), false)];
        for (pointer, is_alpha) in null {
            let mut one = 1f32;
            let scalars = if is_alpha { (pointer, p(&mut one)) } else { (p(&mut one), pointer) };
            assert_eq!(call(good.handle, direction, scalars.0, scalars.1, good.operands, good.conv), 3);
        }
    }
}

#[test]
fn types_without_an_algorithm() {
    let status = |x: i32, y: i32, direction| {
        let mut tensors = Case { kind: data_type::DOUBLE, ..PLAIN }.tensors();
        let good = Call::new(&PLAIN, &mut tensors);
        let t = |kind, dims: &[i32]| tensor_of(kind, dims, None);
        good.with(0, t(x, PLAIN.x)).with(1, t(x, PLAIN.w)).with(2, t(y, &PLAIN.y())).status(direction)
    };
    assert_eq!(status(data_type::INT8, data_type::INT32, Direction::Forward), 0);
    assert_eq!(status(data_type::INT8, data_type::HALF, Direction::Forward), 7);
    assert_eq!(status(data_type::INT8, data_type::INT8, Direction::BackwardData), 3);
    assert_eq!(status(data_type::INT8, data_type::INT8, Direction::BackwardWeights), 3);
    assert_eq!(status(data_type::INT32, data_type::INT32, Direction::Forward), 7);
    assert_eq!(status(data_type::FLOAT8_FNUZ, data_type::FLOAT8_FNUZ, Direction::Forward), 6);
    assert_eq!(status(data_type::HALF, data_type::FLOAT, Direction::Forward), 3);
}

/// A NULL convolution is a C++ exception from those functions from which it was seen.
#[test]
fn null_convolutions_throw_where_the_real_ones_do() {
    let (h, n) = (handle(), null_mut());
    let fwd = miopenConvolutionForward(a(h), a(n), a(n), a(n), a(n), a(n), a(n), 0, a(n), a(n), a(n), a(n), 0);
    let data = miopenConvolutionBackwardData(a(h), a(n), a(n), a(n), a(n), a(n), a(n), 0, a(n), a(n), a(n), a(n), 0);
    let weights = miopenConvolutionBackwardWeights(a(h), a(n), a(n), a(n), a(n), a(n), a(n), 0, a(n), a(n), a(n), a(n), 0);
    let find = miopenFindConvolutionForwardAlgorithm(a(h), a(n), a(n), a(n), a(n), a(n), a(n), a(n), 1, a(n), a(n), a(n), 0, false);
    assert_eq!([fwd, data, weights, find].map(|outcome| outcome.unwrap_err().throws), [true, true, false, true]);
}

#[test]
fn find_runs_and_reports() {
    for direction in DIRECTIONS {
        let mut tensors = PLAIN.tensors();
        tensors.output(direction).bytes.fill(0xff);
        let good = Call::new(&PLAIN, &mut tensors);
        let (status, returned, perf) = find(good.handle, direction, good.operands, good.conv, 4);
        assert_eq!((status, returned, perf.algorithm, perf.memory), (0, 1, 1, 0), "the direct algorithm has number 1 in every direction");
        assert!(perf.time > 0.0);
        let output = tensors.output(direction);
        assert!(indices(&output.dims).all(|at| output.get(&at).is_finite()), "the output is overwritten");
        assert_eq!(find(good.handle, direction, good.operands, good.conv, 0).0, 3);
    }
}

/// Which the environment asks for, and here the test.
#[test]
fn a_strict_handle_executes_only_what_find_listed() {
    let (mut alpha, mut beta) = (1f32, 0f32);
    let scalars = [p(&mut alpha), p(&mut beta)];
    let run = |c: &Call, direction| call(c.handle, direction, scalars[0], scalars[1], c.operands, c.conv);
    for direction in DIRECTIONS {
        let mut tensors = PLAIN.tensors();
        let good = Call::new(&PLAIN, &mut tensors);
        a::<Obj<Handle>>(good.handle).get_mut().unwrap().finds.insist();
        assert_eq!(run(&good, direction), 7, "before Find");
        assert_eq!(find(good.handle, direction, good.operands, good.conv, 1).0, 0);
        assert_eq!(run(&good, direction), 0);
        let [x, w, y] = good.operands;
        assert_eq!(call(good.handle, direction, scalars[0], scalars[1], [(x.0, null_mut()), w, y], good.conv), 3, "no memory");
        assert_eq!(call(good.handle, direction, null_mut(), scalars[1], good.operands, good.conv), 3, "no scalar");
        let strides = channels_last(PLAIN.x);
        assert_eq!(run(&good.with(0, tensor_of(data_type::FLOAT, PLAIN.x, Some(&strides))), direction), 7, "another problem");
        assert_eq!(run(&Call { handle: handle(), ..good }, direction), 0, "a handle that does not insist");
    }
}

#[test]
fn a_strict_handle_does_not_execute_another_algorithm() {
    let (mut alpha, mut beta) = (1f32, 0f32);
    let mut tensors = PLAIN.tensors();
    let good = Call::new(&PLAIN, &mut tensors);
    a::<Obj<Handle>>(good.handle).get_mut().unwrap().finds.insist();
    assert_eq!(find(good.handle, Direction::Forward, good.operands, good.conv, 1).0, 0);
    let [(x, xp), (w, wp), (y, yp)] = good.operands;
    let (h, c, none) = (good.handle, good.conv, null_mut());
    let mut run = |algorithm| {
        let (alpha, beta) = (p(&mut alpha), p(&mut beta));
        code(miopenConvolutionForward(a(h), a(alpha), a(x), a(xp), a(w), a(wp), a(c), algorithm, a(beta), a(y), a(yp), a(none), 0))
    };
    assert_eq!([run(fwd_algorithm::DIRECT), run(fwd_algorithm::IMPLICIT_GEMM)], [0, 7]);
}

#[test]
fn no_workspace_is_needed() {
    let mut tensors = PLAIN.tensors();
    let Call { handle: h, operands: [(x, _), (w, _), (y, _)], conv: c } = Call::new(&PLAIN, &mut tensors);
    let mut sizes = [99usize; 9];
    let [f, fl, fm, d, dl, dm, b, bl, bm] = sizes.each_mut().map(p);
    miopenConvolutionForwardGetWorkSpaceSize(a(h), a(w), a(x), a(c), a(y), a(f)).unwrap();
    miopenConvolutionForwardGetWorkSpaceSizeRange(a(h), a(w), a(x), a(c), a(y), a(fl), a(fm)).unwrap();
    miopenConvolutionBackwardDataGetWorkSpaceSize(a(h), a(y), a(w), a(c), a(x), a(d)).unwrap();
    miopenConvolutionBackwardDataGetWorkSpaceSizeRange(a(h), a(y), a(w), a(c), a(x), a(dl), a(dm)).unwrap();
    miopenConvolutionBackwardWeightsGetWorkSpaceSize(a(h), a(y), a(x), a(c), a(w), a(b)).unwrap();
    miopenConvolutionBackwardWeightsGetWorkSpaceSizeRange(a(h), a(y), a(x), a(c), a(w), a(bl), a(bm)).unwrap();
    assert_eq!(sizes, [0; 9]);
    assert_eq!(code(miopenConvolutionBackwardDataGetWorkSpaceSize(a(h), a(y), a(w), a(null_mut()), a(x), a(d))), 3);
}

#[test]
fn profiling_keeps_the_last_time() {
    let mut tensors = PLAIN.tensors();
    let good = Call::new(&PLAIN, &mut tensors);
    let mut time = -1f32;
    assert_eq!(good.status(Direction::Forward), 0);
    miopenGetKernelTime(a(good.handle), a(p(&mut time))).unwrap();
    assert_eq!(time, 0.0);
    for direction in DIRECTIONS {
        miopenEnableProfiling(a(good.handle), true).unwrap();
        assert_eq!(good.status(direction), 0);
        miopenGetKernelTime(a(good.handle), a(p(&mut time))).unwrap();
        assert!(time > 0.0);
        miopenEnableProfiling(a(good.handle), false).unwrap();
    }
}
