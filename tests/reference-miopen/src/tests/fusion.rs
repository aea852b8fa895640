//! The fusion style: plans as frameworks make them, activations by their definitions, and what cannot be fused.

use core::ptr::null_mut;

use half::f16;
use miopen_api::{activation_mode, batch_norm_mode, data_type, fusion_direction, fwd_algorithm, tensor_layout};

use super::case::{Case, Direction, Memory, PLAIN, STYLES, Tensors, channels_last, halves, indices, packed};
use super::{Pointer, a, code, convolution, handle, made, p, tensor_of};
use crate::activation::*;
use crate::args::FromC;
use crate::bias::miopenConvolutionForwardBias;
use crate::convolution::miopenDestroyConvolutionDescriptor;
use crate::fusion::arguments::*;
use crate::fusion::execute::*;
use crate::fusion::one_call::*;
use crate::fusion::operation::*;
use crate::fusion::plan::*;
use crate::handle::{miopenEnableProfiling, miopenGetKernelTime};
use crate::tensor::*;

/// A plan on an input.
fn plan(direction: i32, x: Pointer) -> Pointer {
    made(|out| miopenCreateFusionPlan(a(out), direction, a(x)))
}

fn vertical(x: Pointer) -> Pointer {
    plan(fusion_direction::VERTICAL_FUSION, x)
}

fn add_conv(plan: Pointer, conv: Pointer, w: Pointer) -> Pointer {
    made(|out| miopenCreateOpConvForward(a(plan), a(out), a(conv), a(w)))
}

fn add_bias(plan: Pointer, bias: Pointer) -> Pointer {
    made(|out| miopenCreateOpBiasForward(a(plan), a(out), a(bias)))
}

fn add_activation(plan: Pointer, mode: i32) -> Pointer {
    made(|out| miopenCreateOpActivationForward(a(plan), a(out), mode))
}

fn add_norm(plan: Pointer, mode: i32, parameters: Pointer) -> Pointer {
    made(|out| miopenCreateOpBatchNormInference(a(plan), a(out), mode, a(parameters)))
}

fn compile(plan: Pointer) -> i32 {
    code(miopenCompileFusionPlan(a(handle()), a(plan)))
}

fn execute(plan: Pointer, x: (Pointer, Pointer), y: (Pointer, Pointer), arguments: Pointer) -> i32 {
    code(miopenExecuteFusionPlan(a(handle()), a(plan), a(x.0), a(x.1), a(y.0), a(y.1), a(arguments)))
}

/// One number for each of a tensor's channels.
fn per_channel(kind: i32, of: &[i32], value: impl FnMut(usize) -> f64) -> Memory {
    let mut dims = vec![1; of.len()];
    dims[1] = of[1];
    let mut memory = Memory::new(kind, &dims, packed(&dims));
    memory.fill(value);
    memory
}

fn no<T: FromC>() -> T {
    a(null_mut())
}

fn set_activation(arguments: Pointer, operation: Pointer, alpha: f64, beta: f64, gamma: f64) -> i32 {
    code(miopenSetOpArgsActivForward(a(arguments), a(operation), no(), no(), alpha, beta, gamma))
}

/// What a plan of a case has behind its convolution.
#[derive(Clone, Copy)]
struct Fused {
    bias: bool,
    activation: Option<(i32, [f64; 3])>,
}

/// Runs it in the order of PyTorch. All descriptors are gone before the plan is compiled.
fn run(case: &Case, fused: Fused, tensors: &mut Tensors, bias: &mut Memory) {
    let (x, w, b, conv) = (tensors.x.descriptor(), tensors.w.descriptor(), bias.descriptor(), case.convolution());
    let plan = vertical(x);
    let conv_op = add_conv(plan, conv, w);
    let bias_op = fused.bias.then(|| add_bias(plan, b));
    let activation_op = fused.activation.map(|(mode, _)| add_activation(plan, mode));
    for descriptor in [w, b] {
        miopenSet4dTensorDescriptor(a(descriptor), data_type::INT8, 1, 1, 1, 1).unwrap();
        miopenDestroyTensorDescriptor(a(descriptor)).unwrap();
    }
    miopenDestroyConvolutionDescriptor(a(conv)).unwrap();
    assert_eq!(compile(plan), 0);
    let (arguments, mut scalars) = (made(|out| miopenCreateOperatorArgs(a(out))), [1f32, 0f32]);
    let [one, zero] = &mut scalars;
    let (one, zero) = (p(one), p(zero));
    miopenSetOpArgsConvForward(a(arguments), a(conv_op), a(one), a(zero), a(tensors.w.data())).unwrap();
    if let Some(operation) = bias_op {
        miopenSetOpArgsBiasForward(a(arguments), a(operation), a(one), a(zero), a(bias.data())).unwrap();
    }
    if let (Some(operation), Some((_, [alpha, beta, gamma]))) = (activation_op, fused.activation) {
        miopenSetOpArgsActivForward(a(arguments), a(operation), a(one), a(zero), alpha, beta, gamma).unwrap();
    }
    let y = (tensors.y.descriptor(), tensors.y.data());
    assert_eq!(execute(plan, (x, tensors.x.data()), y, arguments), 0);
    miopenDestroyFusionPlan(a(plan)).unwrap();
    miopenDestroyOperatorArgs(a(arguments)).unwrap();
}

fn forward_cases() -> impl Iterator<Item = Case<'static>> {
    STYLES.into_iter().filter(|case| case.kind != data_type::DOUBLE && !case.transposed())
}

/// With an activation that changes nothing, the sums of the classic call: rounded once, so bit for bit.
#[test]
fn computes_what_the_classic_call_does() {
    for case in forward_cases() {
        case.check_style(Direction::Forward, |tensors| {
            let mut bias = per_channel(case.kind, &case.y(), |_| 0.0);
            run(&case, Fused { bias: false, activation: Some((activation_mode::PASTHRU, [0.0; 3])) }, tensors, &mut bias);
        });
    }
}

/// On numbers for which everything is exact: the classic convolution, then the classic bias, then the function.
#[test]
fn bias_and_relu() {
    for case in forward_cases() {
        for activation in [None, Some((activation_mode::RELU, [0.0; 3]))] {
            let (mut fused, mut classic) = (case.tensors(), case.tensors());
            let mut bias = per_channel(case.kind, &case.y(), halves(4));
            run(&case, Fused { bias: true, activation }, &mut fused, &mut bias);
            assert_eq!(case.call(&mut classic, Direction::Forward), 0);
            if case.kind != data_type::BFLOAT16 {
                let (mut one, mut zero) = (1f32, 0f32);
                let (b, y) = ((bias.descriptor(), bias.data()), (classic.y.descriptor(), classic.y.data()));
                miopenConvolutionForwardBias(a(handle()), a(p(&mut one)), a(b.0), a(b.1), a(p(&mut zero)), a(y.0), a(y.1)).unwrap();
            }
            for at in indices(&classic.y.dims) {
                // The classic bias call does not take bf16.
                let added = if case.kind == data_type::BFLOAT16 {
                    let channel: Vec<i32> = at.iter().enumerate().map(|(axis, i)| if axis == 1 { *i } else { 0 }).collect();
                    bias.get(&channel)
                } else {
                    0.0
                };
                let sum = classic.y.get(&at) + added;
                assert_eq!(fused.y.get(&at), if activation.is_some() { sum.max(0.0) } else { sum }, "{at:?}");
            }
        }
    }
}

/// A convolution that copies one number, and a function of it, in half precision: the nearest half to the function's value.
fn activated(mode: i32, parameters: [f64; 3], x: f64) -> f64 {
    let case = Case { kind: data_type::HALF, x: &[1, 1, 1, 1], w: &[1, 1, 1, 1], pads: &[0, 0], ..PLAIN };
    let mut tensors = case.tensors();
    tensors.x.fill(|_| x);
    tensors.w.fill(|_| 1.0);
    let mut bias = per_channel(case.kind, &case.y(), |_| 0.0);
    run(&case, Fused { bias: false, activation: Some((mode, parameters)) }, &mut tensors, &mut bias);
    tensors.y.get(&[0; 4])
}

#[test]
fn activations_are_their_definitions() {
    type Definition = fn(f64, [f64; 3]) -> f64;
    let definitions: [(i32, Definition); 11] = [
        (activation_mode::PASTHRU, |x, _| x),
        (activation_mode::LOGISTIC, |x, _| 1.0 / (1.0 + (-x).exp())),
        (activation_mode::TANH, |x, [a, b, _]| b * (a * x).tanh()),
        (activation_mode::RELU, |x, _| x.max(0.0)),
        (activation_mode::SOFTRELU, |x, _| (1.0 + x.exp()).ln()),
        (activation_mode::ABS, |x, _| x.abs()),
        (activation_mode::POWER, |x, [a, b, c]| (a + b * x).powf(c)),
        (activation_mode::CLIPPEDRELU, |x, [a, _, _]| x.max(0.0).min(a)),
        (activation_mode::LEAKYRELU, |x, [a, _, _]| if x > 0.0 { x } else { a * x }),
        (activation_mode::ELU, |x, [a, _, _]| if x > 0.0 { x } else { a * (x.exp() - 1.0) }),
        (activation_mode::CLAMP, |x, [a, b, _]| x.min(b).max(a)),
    ];
    assert!(definitions.iter().map(|d| d.0).eq(activation_mode::ALL.iter().map(|(_, mode)| *mode)), "every mode of the header");
    for (mode, definition) in definitions {
        for parameters in [[0.25, 1.5, 2.0], [-0.5, 0.75, 3.0]] {
            for x in [-3.0, -1.0, -0.5, 0.0, 0.375, 1.0, 2.5, 6.0] {
                let wanted = f64::from(f16::from_f64(definition(x, parameters)));
                assert_eq!(activated(mode, parameters, x), wanted, "mode {mode} of {x}");
            }
        }
        assert!(activated(mode, [1.0; 3], f64::NAN).is_nan(), "mode {mode}");
    }
    assert_eq!(activated(activation_mode::SOFTRELU, [0.0; 3], 60000.0), 60000.0, "nothing overflows on the way");
}

#[test]
fn activation_descriptors() {
    let activation = made(|out| miopenCreateActivationDescriptor(a(out)));
    let set = |mode, alpha| code(miopenSetActivationDescriptor(a(activation), mode, alpha, 2.0, 3.0));
    assert_eq!([set(activation_mode::CLAMP, 1.5), set(11, 9.0), set(-1, 9.0)], [0, 3, 3]);
    let (mut mode, mut values) = (-1, [0f64; 3]);
    let [alpha, beta, gamma] = values.each_mut().map(p);
    miopenGetActivationDescriptor(a(activation), a(p(&mut mode)), a(alpha), a(beta), a(gamma)).unwrap();
    assert_eq!((mode, values), (activation_mode::CLAMP, [1.5, 2.0, 3.0]));
    assert_eq!(code(miopenDestroyActivationDescriptor(a(activation))), 0);
    assert_eq!([set(0, 0.0), code(miopenDestroyActivationDescriptor(no()))], [3, 0]);
}

/// A convolution by one, so that normalisation sees its input; with and without it; parameters per channel and per element.
#[test]
fn batch_normalisation() {
    let dims = [2, 3, 4, 5];
    for (mode, parameter_dims) in [(batch_norm_mode::SPATIAL, [1, 3, 1, 1]), (batch_norm_mode::PER_ACTIVATION, [1, 3, 4, 5])] {
        for (kind, convolves) in [(data_type::FLOAT, true), (data_type::FLOAT, false), (data_type::HALF, false)] {
            let new = |kind, dims: &[i32], value: &dyn Fn(usize) -> f64| {
                let mut memory = Memory::new(kind, dims, channels_last(dims));
                memory.fill(value);
                memory
            };
            let (mut x, mut y) = (new(kind, &dims, &halves(1)), new(kind, &dims, &|_| f64::NAN));
            let mut w = new(kind, &[3, 1, 1, 1], &|_| 1.0);
            // Powers of two, and variances that with epsilon are 1/4, 1 or 4: everything is exact.
            let mut parameters = [
                new(data_type::FLOAT, &parameter_dims, &|i| [2.0, -1.0, 0.5][i % 3]),
                new(data_type::FLOAT, &parameter_dims, &|i| i as f64 * 0.5),
                new(data_type::FLOAT, &parameter_dims, &|i| [1.0, -0.5, 3.0][i % 3]),
                new(data_type::FLOAT, &parameter_dims, &|i| [0.25, 1.0, 4.0][i % 3] - 0.125),
            ];
            let (xd, yd, wd, pd) = (x.descriptor(), y.descriptor(), w.descriptor(), parameters[0].descriptor());
            let (plan, arguments) = (vertical(xd), made(|out| miopenCreateOperatorArgs(a(out))));
            if convolves {
                let operation = add_conv(plan, convolution(0, &[0, 0], &[1, 1], &[1, 1], 3), wd);
                miopenSetOpArgsConvForward(a(arguments), a(operation), no(), no(), a(w.data())).unwrap();
            }
            let (norm, relu) = (add_norm(plan, mode, pd), add_activation(plan, activation_mode::RELU));
            assert_eq!(compile(plan), 0);
            let [scale, shift, mean, variance] = parameters.each_mut().map(Memory::data);
            let (a1, a2) = (a(arguments), a(norm));
            miopenSetOpArgsBatchNormInference(a1, a2, no(), no(), a(scale), a(shift), a(mean), a(variance), 0.125).unwrap();
            assert_eq!(set_activation(arguments, relu, 0.0, 0.0, 0.0), 0);
            assert_eq!(execute(plan, (xd, x.data()), (yd, y.data()), arguments), 0);
            for at in indices(&dims) {
                let from: Vec<i32> = at.iter().zip(parameter_dims).map(|(i, dim)| if dim == 1 { 0 } else { *i }).collect();
                let [scale, shift, mean, variance] = parameters.each_ref().map(|parameter| parameter.get(&from));
                let wanted = scale * (x.get(&at) - mean) / (variance + 0.125).sqrt() + shift;
                assert_eq!(y.get(&at), wanted.max(0.0), "{at:?}");
            }
        }
    }
}

#[test]
fn only_some_orders_are_fused() {
    let t = |dims: &[i32]| tensor_of(data_type::FLOAT, dims, None);
    let status = |direction: i32, kind: i32, order: &str| {
        let plan = plan(direction, tensor_of(kind, PLAIN.x, None));
        for operation in order.chars() {
            match operation {
                'C' => add_conv(plan, PLAIN.convolution(), tensor_of(kind, PLAIN.w, None)),
                'B' => add_bias(plan, tensor_of(kind, &[1, 6, 1, 1], None)),
                'N' => add_norm(plan, batch_norm_mode::SPATIAL, t(&[1, if order.starts_with('C') { 6 } else { 3 }, 1, 1])),
                _ => add_activation(plan, activation_mode::RELU),
            };
        }
        compile(plan)
    };
    for order in ["CB", "CA", "CBA", "CNA", "CBNA", "NA"] {
        for kind in [data_type::FLOAT, data_type::HALF, data_type::BFLOAT16] {
            assert_eq!(status(fusion_direction::VERTICAL_FUSION, kind, order), 0, "{order}");
        }
        assert_eq!(status(fusion_direction::HORIZONTAL_FUSION, data_type::FLOAT, order), 8, "{order}");
        assert_eq!(status(fusion_direction::VERTICAL_FUSION, data_type::DOUBLE, order), 8, "{order}");
        assert_eq!(status(fusion_direction::VERTICAL_FUSION, data_type::INT8, order), 8, "{order}");
    }
    for order in ["", "C", "A", "B", "N", "AC", "BA", "CAB", "CN", "CBN", "CAA", "CBAB", "CABN"] {
        assert_eq!(status(fusion_direction::VERTICAL_FUSION, data_type::FLOAT, order), 8, "{order}");
    }
}

/// A program that ignores the failed operation must get a status from what follows, not a crash.
#[test]
fn vectors_are_not_fused() {
    let x = made(|out| miopenCreateTensorDescriptor(a(out)));
    let mut dims = [2, 8, 5, 6];
    miopenSetNdTensorDescriptorWithLayout(a(x), data_type::HALF, tensor_layout::NCHWC4, a(p(&mut dims)), 4).unwrap();
    let (plan, w) = (vertical(x), tensor_of(data_type::HALF, &[8, 8, 3, 3], None));
    let mut operation: Pointer = null_mut();
    assert_eq!(code(miopenCreateOpConvForward(a(plan), a(p(&mut operation)), a(PLAIN.convolution()), a(w))), 3);
    add_activation(plan, activation_mode::RELU);
    assert_eq!((operation, compile(plan)), (null_mut(), 8));
}

/// Work on the handle's stream is measured under profiling in every style.
#[test]
fn plans_are_profiled() {
    let (mut tensors, h, mut time) = (PLAIN.tensors(), handle(), 0f32);
    let [(xd, x), (wd, w), (yd, y)] = [&mut tensors.x, &mut tensors.w, &mut tensors.y].map(|t| (t.descriptor(), t.data()));
    let (plan, arguments) = (vertical(xd), made(|out| miopenCreateOperatorArgs(a(out))));
    let (conv, relu) = (add_conv(plan, PLAIN.convolution(), wd), add_activation(plan, activation_mode::RELU));
    miopenSetOpArgsConvForward(a(arguments), a(conv), no(), no(), a(w)).unwrap();
    assert_eq!((compile(plan), set_activation(arguments, relu, 0.0, 0.0, 0.0)), (0, 0));
    miopenEnableProfiling(a(h), true).unwrap();
    miopenExecuteFusionPlan(a(h), a(plan), a(xd), a(x), a(yd), a(y), a(arguments)).unwrap();
    miopenGetKernelTime(a(h), a(p(&mut time))).unwrap();
    assert!(time > 0.0);
}

#[test]
fn plans_check_what_they_are_given() {
    let t = |kind: i32, dims: &[i32]| tensor_of(kind, dims, None);
    let float = |dims: &[i32]| t(data_type::FLOAT, dims);
    let (plan, mut out, none) = (vertical(float(PLAIN.x)), null_mut(), null_mut());
    let out: Pointer = p::<Pointer>(&mut out);
    let conv = PLAIN.convolution();
    let create = |plan: Pointer, conv: Pointer, w: Pointer| code(miopenCreateOpConvForward(a(plan), a(out), a(conv), a(w)));
    assert_eq!([create(plan, none, float(PLAIN.w)), create(none, conv, float(PLAIN.w)), create(plan, conv, none)], [7, 3, 3]);
    assert_eq!(create(plan, conv, float(&[6, 5, 3, 3])), 3, "channels do not match");
    assert_eq!(code(miopenFusionPlanGetOp(a(plan), 0, a(out))), 3, "and the operation is not in the plan");
    assert_eq!(code(miopenCreateFusionPlan(a(out), 0, no())), 3);
    assert_eq!(code(miopenCreateOpActivationForward(a(plan), a(out), 11)), 3);
    assert_eq!(code(miopenCreateOpBatchNormInference(a(plan), a(out), 2, a(float(&[1, 6, 1, 1])))), 3);
    assert_eq!([code(miopenCompileFusionPlan(no(), a(plan))), code(miopenCompileFusionPlan(a(handle()), no()))], [7, 3]);
    let operations = [add_conv(plan, conv, float(PLAIN.w)), add_bias(plan, float(&[1, 6, 1, 1]))];
    let got = |i| {
        let mut operation: Pointer = null_mut();
        (code(miopenFusionPlanGetOp(a(plan), i, a(p(&mut operation)))), operation)
    };
    assert_eq!([got(0), got(1), got(2), got(-1)], [(0, operations[0]), (0, operations[1]), (3, none), (3, none)]);
    let (mut count, mut algorithms, mut size) = (9, [-1; 3], 9usize);
    let mut algos = |n| code(miopenFusionPlanConvolutionGetAlgo(a(plan), n, a(p(&mut count)), a(p(&mut algorithms))));
    assert_eq!([algos(0), algos(3)], [3, 0]);
    assert_eq!((count, algorithms), (2, [fwd_algorithm::DIRECT, fwd_algorithm::WINOGRAD, -1]));
    assert_eq!([1, 4].map(|algorithm| code(miopenFusionPlanConvolutionSetAlgo(a(plan), algorithm))), [0, 3]);
    miopenFusionPlanGetWorkSpaceSize(a(handle()), a(plan), a(p(&mut size)), fwd_algorithm::DIRECT).unwrap();
    assert_eq!(size, 0);
    for bias in [float(&[1, 5, 1, 1]), float(&[6]), t(data_type::HALF, &[1, 6, 1, 1]), float(&[1, 6, 1, 2])] {
        let plan = vertical(float(PLAIN.x));
        add_conv(plan, conv, float(PLAIN.w));
        add_bias(plan, bias);
        assert_eq!(compile(plan), 8);
    }
    let transposed = Case { w: &[3, 6, 3, 3], adjust: &[0, 0], ..PLAIN };
    let plan = vertical(float(PLAIN.x));
    add_conv(plan, transposed.convolution(), float(transposed.w));
    add_activation(plan, 3);
    assert_eq!(compile(plan), 8);
    assert_eq!([code(miopenDestroyFusionPlan(no())), code(miopenDestroyOperatorArgs(no()))], [0, 0]);
}

#[test]
fn execution_takes_what_was_planned() {
    let mut tensors = PLAIN.tensors();
    let [(xd, x), (wd, w), (yd, y)] = [&mut tensors.x, &mut tensors.w, &mut tensors.y].map(|t| (t.descriptor(), t.data()));
    let (plan, arguments) = (vertical(xd), made(|out| miopenCreateOperatorArgs(a(out))));
    let (conv, relu) = (add_conv(plan, PLAIN.convolution(), wd), add_activation(plan, activation_mode::RELU));
    let run = |x, y, arguments| execute(plan, x, y, arguments);
    assert_eq!(run((xd, x), (yd, y), arguments), 3, "not compiled");
    assert_eq!(compile(plan), 0);
    assert_eq!(run((xd, x), (yd, y), arguments), 3, "no arguments");
    miopenSetOpArgsConvForward(a(arguments), a(conv), no(), no(), a(w)).unwrap();
    assert_eq!(run((xd, x), (yd, y), arguments), 3, "not all arguments");
    assert_eq!(code(miopenSetOpArgsBiasForward(a(arguments), a(relu), no(), no(), a(w))), 3, "of another kind");
    assert_eq!([set_activation(arguments, relu, 0.0, 0.0, 0.0), run((xd, x), (yd, y), arguments)], [0, 0]);
    let v2 = |size| miopenExecuteFusionPlan_v2(a(handle()), a(plan), a(xd), a(x), a(yd), a(y), a(arguments), no(), size);
    assert_eq!(code(v2(0)), 0);
    let float = |dims: &[i32]| tensor_of(data_type::FLOAT, dims, None);
    assert_eq!(run((float(&[1, 3, 7, 8]), x), (yd, y), arguments), 3);
    assert_eq!(run((xd, x), (float(&[2, 6, 7, 7]), y), arguments), 3);
    assert_eq!(run((xd, x), (tensor_of(data_type::HALF, &PLAIN.y(), None), y), arguments), 3);
    assert_eq!([run((xd, null_mut()), (yd, y), arguments), run((xd, x), (yd, null_mut()), arguments)], [3, 3]);
    assert_eq!([run((null_mut(), x), (yd, y), arguments), run((xd, x), (yd, y), null_mut())], [3, 3]);
    miopenSetOpArgsConvForward(a(arguments), a(conv), no(), no(), no()).unwrap();
    assert_eq!(run((xd, x), (yd, y), arguments), 3, "no filter");
    add_activation(plan, activation_mode::RELU);
    assert_eq!(run((xd, x), (yd, y), arguments), 3, "no longer compiled");
    miopenDestroyFusionPlan(a(plan)).unwrap();
    assert_eq!(
        [set_activation(arguments, relu, 0.0, 0.0, 0.0), run((xd, x), (yd, y), arguments)],
        [3, 3],
        "operations end with their plan"
    );
    // Another plan's operation may have the same address, but not the same arguments.
    let other = vertical(xd);
    add_conv(other, PLAIN.convolution(), wd);
    add_activation(other, activation_mode::RELU);
    assert_eq!([compile(other), execute(other, (xd, x), (yd, y), arguments)], [0, 3]);
}

/// The call without a plan, with scalars and another tensor as given.
#[derive(Clone, Copy)]
struct OneCall {
    alphas: [Option<f32>; 2],
    z: (Pointer, Pointer),
    bias: (Pointer, Pointer),
    activation: Pointer,
}

fn relu(mode: i32) -> Pointer {
    let activation = made(|out| miopenCreateActivationDescriptor(a(out)));
    miopenSetActivationDescriptor(a(activation), mode, 0.0, 0.0, 0.0).unwrap();
    activation
}

impl OneCall {
    fn status(&self, case: &Case, tensors: &mut Tensors) -> i32 {
        let (h, c, [mut alpha1, mut alpha2]) = (a(handle()), a(case.convolution()), self.alphas);
        let [alpha1, alpha2] = [&mut alpha1, &mut alpha2].map(|alpha| alpha.as_mut().map_or(null_mut(), p));
        let [(xd, x), (wd, w), (yd, y)] = [&mut tensors.x, &mut tensors.w, &mut tensors.y].map(|t| (a(t.descriptor()), a(t.data())));
        let ((zd, z), (bd, b), act) = ((a(self.z.0), a(self.z.1)), (a(self.bias.0), a(self.bias.1)), a(self.activation));
        code(miopenConvolutionBiasActivationForward(h, a(alpha1), xd, x, wd, w, c, 1, no(), 0, a(alpha2), zd, z, bd, b, act, yd, y))
    }
}

#[test]
fn one_call_without_a_plan() {
    for case in forward_cases() {
        let mut bias = per_channel(case.kind, &case.y(), halves(4));
        let mut z = case.tensors().y;
        z.fill(halves(5));
        let sums = case.sums(&case.tensors(), Direction::Forward);
        for alphas in [[None, None], [Some(2.0), Some(0.5)], [Some(1.0), Some(0.0)], [None, Some(2.0)]] {
            let mut tensors = case.tensors();
            tensors.y.bytes.fill(0xff);
            let other = if alphas[1] == Some(0.0) { (null_mut(), null_mut()) } else { (z.descriptor(), z.data()) };
            let call = OneCall { alphas, z: other, bias: (bias.descriptor(), bias.data()), activation: relu(activation_mode::RELU) };
            assert_eq!(call.status(&case, &mut tensors), 0);
            let [alpha1, alpha2] = alphas.map(|alpha| f64::from(alpha.unwrap_or(1.0)));
            let mut wanted = case.tensors().y;
            for (at, sum) in indices(&case.y()).zip(&sums) {
                let channel: Vec<i32> = at.iter().enumerate().map(|(axis, i)| if axis == 1 { *i } else { 0 }).collect();
                wanted.set(&at, (alpha1 * sum + alpha2 * z.get(&at) + bias.get(&channel)).max(0.0));
                assert_eq!(tensors.y.get(&at), wanted.get(&at), "{at:?}");
            }
        }
    }
}

#[test]
fn one_call_refuses() {
    let (mut tensors, none) = (PLAIN.tensors(), null_mut());
    let (mut bias, mut z) = (per_channel(data_type::FLOAT, &PLAIN.y(), halves(4)), PLAIN.tensors().y);
    let (b, z) = ((bias.descriptor(), bias.data()), (z.descriptor(), z.data()));
    let good = OneCall { alphas: [None, None], z, bias: b, activation: relu(activation_mode::RELU) };
    let wrong = tensor_of(data_type::FLOAT, &[1, 5, 1, 1], None);
    let mut status = |call: OneCall| call.status(&PLAIN, &mut tensors);
    assert_eq!(status(good), 0);
    assert_eq!(status(OneCall { activation: relu(activation_mode::TANH), ..good }), 6);
    assert_eq!(status(OneCall { activation: none, ..good }), 3);
    for z in [(none, good.z.1), (good.z.0, none), (wrong, good.z.1)] {
        assert_eq!(status(OneCall { z, ..good }), 3);
        assert_eq!(status(OneCall { z, alphas: [None, Some(0.0)], ..good }), 0, "not looked at");
    }
    for bias in [(none, b.1), (b.0, none), (wrong, b.1)] {
        assert_eq!(status(OneCall { bias, ..good }), 3);
    }
    let transposed = Case { x: &[2, 4, 5, 6], w: &[4, 5, 3, 3], strides: &[2, 2], adjust: &[1, 0], ..PLAIN };
    assert_eq!(good.status(&transposed, &mut transposed.tensors()), 6);
}
