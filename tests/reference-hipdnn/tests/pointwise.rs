//! Graphs with pointwise operations: numbers, element by element against the definitions in f64, and what has no engine. As with
//! convolutions, values are small multiples of a quarter where results are compared exactly, so that only the final rounding is left.

mod common;

use std::collections::BTreeMap;

use common::{
    fused::{Fused, Operation, Pointwise, Role, Tensor},
    numbers::*,
    *,
};
use hipdnn_abi::{attribute as a, attribute_type as t, data_type as d, data_type_bytes, pointwise_mode as p};

/// The memory of an execution, by unique id.
type Memory = BTreeMap<i64, Operand>;

fn geometry(tensor: &Tensor) -> (i32, Vec<i64>, Vec<i64>) {
    (tensor.data_type, tensor.dims.clone(), tensor.strides.clone())
}

/// Memory for everything that needs it; outputs are poison.
fn memory(fused: &Fused, number: impl Fn(u32, i32) -> f64) -> Memory {
    let outputs = fused.outputs();
    let operand = |tensor: &Tensor| {
        let mut operand = Operand::empty(&geometry(tensor), 0);
        if !outputs.contains(&tensor.uid) {
            operand.fill(tensor.uid as u64, |bits| number(bits, tensor.data_type));
        }
        (tensor.uid, operand)
    };
    fused.in_memory().map(operand).collect()
}

fn values(fused: &Fused, memory: &Memory) -> BTreeMap<i64, Vec<f64>> {
    let mut values = memory.iter().map(|(&uid, operand)| (uid, operand.values.clone())).collect();
    fused.compute(&mut values);
    values
}

/// Executes a plan. `shared` are uids whose memory is that of another uid.
fn run_plan(name: &str, handle: &Handle, plan: &D, memory: &mut Memory, shared: &[(i64, i64)]) -> i32 {
    let size = plan.get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE);
    let mut workspace = Buffer::new(size as usize, POISON);
    let mut pointers: BTreeMap<i64, _> = memory.iter_mut().map(|(&uid, operand)| (uid, operand.pointer())).collect();
    for (uid, of) in shared {
        pointers.insert(*uid, pointers[of]);
    }
    let pointers: Vec<_> = pointers.into_iter().collect();
    let status = execute(handle, plan, &pack(&pointers, workspace.pointer()));
    workspace.assert_margins(&format!("{name}: workspace"));
    status
}

/// Executes, and checks that nothing but the outputs' elements was written. An output that shares memory is the other tensor's.
fn run(name: &str, fused: &Fused, memory: &mut Memory, shared: &[(i64, i64)]) {
    let handle = Handle::new();
    let plan = plan(&fused.graph(&handle));
    let before: BTreeMap<i64, Vec<u8>> = memory.iter().map(|(&uid, operand)| (uid, operand.buffer.bytes().to_vec())).collect();
    assert_eq!(run_plan(name, &handle, &plan, memory, shared), OK, "{name}: {}", last_error());
    let outputs = fused.outputs();
    for (uid, operand) in memory.iter() {
        operand.buffer.assert_margins(&format!("{name}: tensor {uid}"));
        assert!(operand.gaps_are_untouched(), "{name}: gaps of tensor {uid} were written");
        let is_written = outputs.contains(uid) || shared.iter().any(|(_, of)| of == uid);
        assert!(is_written || operand.buffer.bytes() == before[uid], "{name}: input {uid} was written");
    }
}

fn assert_equal(name: &str, got: &Operand, expected: &[f64]) {
    for (i, &number) in expected.iter().enumerate() {
        let (bytes, nan) = (got.bytes(i), number.is_nan() && decode(got.bytes(i), got.data_type).is_nan());
        assert!(nan || bytes == encode(number, got.data_type), "{name}: element {i} is {}, not {number}", decode(bytes, got.data_type));
    }
}

/// Every output, exactly.
fn check(name: &str, fused: &Fused) {
    let mut memory = memory(fused, quarters);
    let expected = values(fused, &memory);
    run(name, fused, &mut memory, &[]);
    fused.outputs().iter().for_each(|uid| assert_equal(name, &memory[uid], &expected[uid]));
}

fn typed(mut case: Convolution, data_type: i32, compute: i32) -> Convolution {
    (case.x.0, case.w.0, case.y.0, case.compute) = (data_type, data_type, data_type, compute);
    case
}

/// Packed, channel last, with gaps, and reversed.
fn layouts(case: &Convolution) -> [Convolution; 4] {
    let rank = case.x.1.len();
    let with = |layout: &dyn Fn(&[i64]) -> Vec<i64>| {
        let mut case = case.clone();
        [&mut case.x, &mut case.w, &mut case.y].into_iter().for_each(|tensor| tensor.2 = layout(&tensor.1));
        case
    };
    let (order, reversed): (Vec<usize>, Vec<usize>) = ((0..rank).collect(), (0..rank).rev().collect());
    [
        case.clone(),
        with(&|dims| strides(dims, &channel_last(rank), 1, 0)),
        with(&|dims| strides(dims, &order, 2, 3)),
        with(&|dims| strides(dims, &reversed, 1, 1)),
    ]
}

fn cases() -> [Convolution; 3] {
    [
        Convolution::small(),
        Convolution::new(&[2, 6, 9], &[4, 3, 3], [&[1], &[1], &[2], &[1]]),
        Convolution::new(&[1, 18, 5, 12], &[18, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
    ]
}

#[test]
fn scaling_in_place() {
    let types = [(d::FLOAT, d::FLOAT), (d::HALF, d::FLOAT), (d::BFLOAT16, d::FLOAT), (d::DOUBLE, d::DOUBLE)];
    for case in cases() {
        for direction in DIRECTIONS {
            for (data_type, compute) in types {
                for case in layouts(&typed(case.clone().towards(direction), data_type, compute)) {
                    for (alpha, beta) in [(0.5, -2.0), (2.0, 1.0), (0.0, 0.5)] {
                        check_in_place(&format!("{alpha} * {direction:?} + {beta} * old"), &case, compute, alpha, beta);
                    }
                }
            }
        }
    }
}

fn check_in_place(name: &str, case: &Convolution, between: i32, alpha: f64, beta: f64) {
    let fused = Fused::scaled(case, between, alpha, beta);
    let result = fused.outputs()[0];
    let mut memory = memory(&fused, quarters);
    let expected = values(&fused, &memory);
    // The output is where the old result is.
    memory.remove(&result);
    run(name, &fused, &mut memory, &[(result, 9)]);
    assert_equal(name, &memory[&9], &expected[&result]);
}

#[test]
fn scalars_that_are_not_finite() {
    let numbers = [0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for direction in DIRECTIONS {
        for (alpha, beta) in numbers.iter().flat_map(|&alpha| numbers.map(|beta| (alpha, beta))) {
            for (data_type, compute) in [(d::HALF, d::FLOAT), (d::DOUBLE, d::DOUBLE)] {
                let case = typed(Convolution::small().towards(direction), data_type, compute);
                check_in_place(&format!("{alpha} and {beta}"), &case, compute, alpha, beta);
            }
        }
    }
}

#[test]
fn only_the_last_result_is_rounded() {
    // Sums far beyond what half can hold, which alpha brings back.
    let case = typed(Convolution::new(&[1, 64, 4, 4], &[3, 64, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]), d::HALF, d::FLOAT);
    let fused = Fused::scaled(&case, d::FLOAT, 2f64.powi(-10), 1.0);
    let mut memory = memory(&fused, |bits, _| f64::from(bits % 64 + 64));
    let expected = values(&fused, &memory);
    assert!(expected[&4].iter().all(|&sum| sum > 65504.0) && expected[&3].iter().all(|&number| number < 65504.0));
    run("half", &fused, &mut memory, &[]);
    assert_equal("half", &memory[&3], &expected[&3]);
}

#[test]
fn bias_and_relu() {
    let clips: [&[(i32, f32)]; 4] = [
        &[],
        &[(a::POINTWISE_RELU_UPPER_CLIP, 2.0)],
        &[(a::POINTWISE_RELU_LOWER_CLIP, -1.5), (a::POINTWISE_RELU_UPPER_CLIP, 1.25)],
        &[(a::POINTWISE_RELU_LOWER_CLIP, 0.5), (a::POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.25)],
    ];
    for case in cases() {
        for data_type in [d::FLOAT, d::HALF, d::BFLOAT16, d::DOUBLE] {
            for case in layouts(&typed(case.clone(), data_type, d::FLOAT)) {
                clips.iter().for_each(|clips| check(&format!("{clips:?}"), &Fused::biased(&case, clips)));
            }
        }
    }
}

#[test]
fn integers_between_floats() {
    let mut case = typed(Convolution::small(), d::INT8, d::INT32);
    case.y.0 = d::FLOAT;
    check("int8", &Fused::biased(&case, &[]));
}

#[test]
fn before_the_convolution() {
    for direction in DIRECTIONS {
        for case in layouts(&typed(Convolution::small().towards(direction), d::HALF, d::FLOAT)) {
            let mut fused = Fused::convolution(&case, d::FLOAT);
            let input = fused.tensors[if direction == Direction::Data { 2 } else { 0 }].clone();
            fused.tensors.push(Tensor { uid: 11, data_type: d::FLOAT, role: Role::Virtual, ..input.clone() });
            let Operation::Convolution(_, uids) = &mut fused.operations[0] else { panic!("the convolution") };
            uids.iter_mut().filter(|uid| **uid == input.uid).for_each(|uid| *uid = 11);
            let result = direction.place() as i64 + 1;
            fused.operations.insert(0, Operation::Pointwise(Pointwise::new(p::RELU_FWD, &[input.uid], 11)));
            fused.operations.push(Operation::Pointwise(Pointwise::new(p::NEG, &[4], result)));
            check(&format!("{direction:?}"), &fused);
        }
    }
}

#[test]
fn a_result_may_go_to_several_operations() {
    let case = Convolution::small();
    let mut fused = Fused::convolution(&case, d::FLOAT);
    let other = Tensor { uid: 10, data_type: d::HALF, ..fused.tensor(3).clone() };
    fused.tensors.push(other);
    let operations = [Pointwise::new(p::MUL, &[4, 4], 3), Pointwise::new(p::ABS, &[4], 10)];
    fused.operations.extend(operations.map(Operation::Pointwise));
    check("twice", &fused);
}

/// One operation on tensors in memory.
fn alone(pointwise: Pointwise, tensors: Vec<Tensor>) -> Fused {
    Fused { tensors, operations: vec![Operation::Pointwise(pointwise)] }
}

#[test]
fn broadcasting() {
    let output = [2, 3, 4, 5];
    let shapes: [&[i64]; 8] =
        [&[2, 3, 4, 5], &[1, 3, 1, 1], &[2, 1, 1, 5], &[1, 1, 4, 1], &[1, 1, 1, 5], &[1, 1, 1, 1], &[1], &[2, 3, 1, 1]];
    for (first, second) in shapes.iter().flat_map(|first| shapes.map(|second| (*first, second))) {
        for (left, right) in [(d::FLOAT, d::HALF), (d::BFLOAT16, d::DOUBLE)] {
            let mut tensors = vec![
                Tensor::new(1, left, first, Role::Memory),
                Tensor::new(2, right, second, Role::Memory),
                Tensor::new(3, left, &output, Role::Memory),
            ];
            check(&format!("{first:?} {second:?}"), &alone(Pointwise::new(p::SUB, &[1, 2], 3), tensors.clone()));
            tensors[2].strides = strides(&output, &channel_last(4), 2, 1);
            check(&format!("{first:?} {second:?} channel last"), &alone(Pointwise::new(p::SUB, &[1, 2], 3), tensors));
        }
    }
}

#[test]
fn constants_of_every_type() {
    for data_type in [d::FLOAT, d::DOUBLE, d::HALF, d::BFLOAT16] {
        for rank in [1, 4] {
            let tensors = vec![
                Tensor::new(1, d::FLOAT, &[2, 3, 4, 5], Role::Memory),
                Tensor::constant(2, data_type, rank, -1.75),
                Tensor::new(3, d::FLOAT, &[2, 3, 4, 5], Role::Memory),
            ];
            check("constant right", &alone(Pointwise::new(p::SUB, &[1, 2], 3), tensors.clone()));
            check("constant left", &alone(Pointwise::new(p::SUB, &[2, 1], 3), tensors));
        }
    }
}

#[test]
fn modes() {
    let one: &[i32] = &[
        p::ABS,
        p::CEIL,
        p::ELU_FWD,
        p::EXP,
        p::FLOOR,
        p::IDENTITY,
        p::LOG,
        p::NEG,
        p::RECIPROCAL,
        p::RELU_FWD,
        p::RSQRT,
        p::SIGMOID_FWD,
        p::SIN,
        p::SOFTPLUS_FWD,
        p::SQRT,
        p::SWISH_FWD,
        p::TAN,
        p::TANH_FWD,
    ];
    for &mode in one {
        check_mode(Pointwise::new(mode, &[1], 3));
    }
    for mode in [p::ADD, p::ADD_SQUARE, p::DIV, p::MAX, p::MIN, p::MUL, p::SUB] {
        check_mode(Pointwise::new(mode, &[1, 2], 3));
    }
    for (mode, number) in
        [(p::ELU_FWD, a::POINTWISE_ELU_ALPHA), (p::SOFTPLUS_FWD, a::POINTWISE_SOFTPLUS_BETA), (p::SWISH_FWD, a::POINTWISE_SWISH_BETA)]
    {
        check_mode(Pointwise { parameters: vec![(number, 0.75)], ..Pointwise::new(mode, &[1], 3) });
    }
}

/// In both precisions; as good as the type is, because the definitions are not always the best way to compute.
fn check_mode(pointwise: Pointwise) {
    for (precision, epsilon) in [(d::FLOAT, 2f64.powi(-22)), (d::DOUBLE, 2f64.powi(-45))] {
        let pointwise = Pointwise { precision, ..pointwise.clone() };
        let mut tensors = vec![Tensor::new(1, precision, &[7, 40], Role::Memory), Tensor::new(3, precision, &[7, 40], Role::Memory)];
        tensors.extend((pointwise.inputs.len() == 2).then(|| Tensor::new(2, precision, &[7, 40], Role::Memory)));
        let fused = alone(pointwise.clone(), tensors);
        let special = [0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.0];
        let number = |bits: u32, _| match special.get(bits as usize % 16) {
            Some(&number) => number,
            None => f64::from(f64::from(bits % 4001).mul_add(0.005, -10.0) as f32),
        };
        let mut memory = memory(&fused, number);
        let expected = values(&fused, &memory);
        run("mode", &fused, &mut memory, &[]);
        for (i, &wanted) in expected[&3].iter().enumerate() {
            let (got, x) = (decode(memory[&3].bytes(i), precision), memory[&1].values[i]);
            // Where the textbook form overflows, or loses everything, the limit counts.
            let wanted = match pointwise.mode {
                p::TANH_FWD if x == f64::INFINITY => 1.0,
                p::SWISH_FWD if x == f64::NEG_INFINITY => got,
                _ => wanted,
            };
            let close = (got - wanted).abs() <= epsilon * wanted.abs().max(2f64.powi(-6));
            let same = got == wanted || (got.is_nan() && wanted.is_nan());
            assert!(same || close, "{pointwise:?} of {x} is {got}, not {wanted}");
        }
    }
}

#[test]
fn softplus_does_not_overflow() {
    let tensors = vec![Tensor::constant(1, d::FLOAT, 1, 1e5), Tensor::new(3, d::FLOAT, &[1], Role::Memory)];
    let fused = alone(Pointwise::new(p::SOFTPLUS_FWD, &[1], 3), tensors);
    let mut memory = memory(&fused, quarters);
    run("softplus", &fused, &mut memory, &[]);
    assert_equal("softplus", &memory[&3], &[1e5]);
}

#[test]
fn what_does_not_fit_together_has_no_engine() {
    type Change = fn(&mut Fused);
    let changes: [(&str, Change); 24] = [
        ("a virtual tensor that nobody writes", |f| f.tensor_mut(1).role = Role::Virtual),
        ("a virtual tensor that nobody reads", |f| f.tensor_mut(3).role = Role::Virtual),
        ("a result in memory that is read", |f| f.tensor_mut(4).role = Role::Memory),
        ("operations in the wrong order", |f| f.operations.swap(1, 2)),
        ("two convolutions", |f| {
            let Operation::Convolution(case, [x, w, _]) = f.operations[0].clone() else { panic!("the convolution") };
            f.tensors.push(Tensor { uid: 10, ..f.tensor(3).clone() });
            f.operations.push(Operation::Convolution(case, [x, w, 10]));
        }),
        ("a tensor that is written twice", |f| f.pointwise_mut(1).output = 3),
        ("an operation that reads what it writes", |f| f.pointwise_mut(2).inputs = vec![3]),
        ("halves between operations", |f| f.tensor_mut(4).data_type = d::HALF),
        ("integers between operations", |f| f.tensor_mut(6).data_type = d::INT32),
        ("an integer output", |f| f.tensor_mut(3).data_type = d::INT8),
        ("an integer operand", |f| f.tensor_mut(5).data_type = d::INT32),
        ("a constant result", |f| *f.tensor_mut(3) = Tensor::constant(3, d::FLOAT, 4, 1.0)),
        ("a bias of another size", |f| *f.tensor_mut(5) = Tensor::new(5, d::FLOAT, &[1, 3, 1, 1], Role::Memory)),
        ("a bias of another rank", |f| *f.tensor_mut(5) = Tensor::new(5, d::FLOAT, &[4], Role::Memory)),
        ("an operand larger than the result", |f| *f.tensor_mut(6) = Tensor::new(6, d::FLOAT, &[1, 4, 1, 1], Role::Virtual)),
        ("elements of the result that overlap", |f| f.tensor_mut(3).strides[3] = 0),
        ("no dimensions", |f| f.tensor_mut(6).dims[0] = 0),
        ("huge dimensions", |f| f.tensor_mut(6).dims = vec![i64::MAX; 4]),
        ("an operand too few", |f| f.pointwise_mut(1).inputs.truncate(1)),
        ("an operand too many", |f| f.pointwise_mut(2).inputs.push(5)),
        ("three operands", |f| f.pointwise_mut(1).inputs.push(5)),
        ("a precision that is none", |f| f.pointwise_mut(1).precision = d::HALF),
        ("a mode without definition here", |f| f.pointwise_mut(2).mode = p::GEN_INDEX),
        ("a parameter of another mode", |f| f.pointwise_mut(1).parameters = vec![(a::POINTWISE_ELU_ALPHA, 1.0)]),
    ];
    let handle = Handle::new();
    let fused = Fused::biased(&Convolution::small(), &[]);
    assert!(fused.is_taken(&handle));
    for (name, change) in changes {
        let mut fused = fused.clone();
        change(&mut fused);
        assert!(!fused.is_taken(&handle), "{name}");
    }
}

/// What an execution says if the memory of one tensor is, `shift` bytes further, that of another.
fn share(fused: &Fused, shared: (i64, i64), shift: usize) -> i32 {
    let handle = Handle::new();
    let plan = plan(&fused.graph(&handle));
    let mut memory = memory(fused, quarters);
    // Room for everything that could be written there.
    let bytes = fused
        .in_memory()
        .map(|tensor| elements(&tensor.dims, &tensor.strides) * data_type_bytes(tensor.data_type).expect("sized"))
        .sum::<usize>();
    let mut room = Buffer::new(bytes + shift, POISON);
    let size = plan.get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE);
    let mut workspace = Buffer::new(size as usize, POISON);
    let pointers: Vec<_> = memory
        .iter_mut()
        .map(|(&uid, operand)| match uid {
            uid if uid == shared.0 => (uid, room.pointer()),
            uid if uid == shared.1 => (uid, room.pointer().wrapping_byte_add(shift)),
            uid => (uid, operand.pointer()),
        })
        .collect();
    execute(&handle, &plan, &pack(&pointers, workspace.pointer()))
}

#[test]
fn memory_is_shared_only_where_an_element_is_read_before_it_is_written() {
    let case = Convolution::small();
    let scaled = Fused::scaled(&case, d::FLOAT, 2.0, 3.0);
    assert_eq!(share(&scaled, (3, 9), 0), OK);
    assert_eq!(share(&scaled, (3, 9), 16), BAD, "another index");
    assert_eq!(share(&scaled, (3, 1), 0), BAD, "the convolution reads it");
    assert_eq!(share(&scaled, (2, 3), 16), BAD, "the convolution reads some of it");
    assert_eq!(share(&scaled, (1, 2), 0), OK, "nobody writes either");
    let mut turned = scaled.clone();
    turned.tensor_mut(9).strides = strides(&case.y.1, &channel_last(4), 1, 0);
    assert_eq!(share(&turned, (3, 9), 0), BAD, "another layout");
    let mut narrow = scaled;
    narrow.tensor_mut(9).data_type = d::HALF;
    assert_eq!(share(&narrow, (3, 9), 0), BAD, "another type");

    // An old result that is read once more, after the new one was written.
    let mut late = Fused::scaled(&case, d::FLOAT, 2.0, 3.0);
    late.tensors.push(Tensor { uid: 10, ..late.tensor(3).clone() });
    late.operations.push(Operation::Pointwise(Pointwise::new(p::NEG, &[9], 10)));
    assert_eq!(share(&late, (3, 9), 0), BAD, "too late");
    assert_eq!(share(&late, (10, 9), 0), OK);
    assert_eq!(share(&late, (10, 3), 0), BAD, "two outputs");
}

#[test]
fn a_convolution_alone_must_not_overlap_its_inputs_either() {
    let case = Convolution::small();
    let fused = Fused { operations: vec![Operation::Convolution(case.clone().into(), [1, 2, 3])], ..Fused::convolution(&case, d::FLOAT) };
    let fused = Fused { tensors: fused.tensors[..3].to_vec(), ..fused };
    assert_eq!(share(&fused, (1, 3), 0), BAD);
    assert_eq!(share(&fused, (1, 3), 1 << 12), OK);
}

#[test]
fn plans_are_saved_and_loaded() {
    let handle = Handle::new();
    let case = typed(Convolution::small(), d::HALF, d::FLOAT);
    for fused in [Fused::scaled(&case, d::FLOAT, 0.5, f64::INFINITY), Fused::biased(&case, &[(a::POINTWISE_RELU_UPPER_CLIP, 1.5)])] {
        let plan = plan(&fused.graph(&handle));
        let bytes = save(&plan).expect("saved");
        let loaded = load(&handle, &bytes).expect("loaded");
        let results = [&plan, &loaded].map(|plan| {
            let mut memory = memory(&fused, quarters);
            assert_eq!(run_plan("saved", &handle, plan, &mut memory, &[]), OK, "{}", last_error());
            memory[&3].buffer.bytes().to_vec()
        });
        assert_eq!(results[0], results[1]);
        let uids = |plan: &D| plan.get::<i64>(a::EXECUTION_PLAN_TENSOR_UIDS_EXT, t::INT64, 16);
        assert_eq!(uids(&plan), uids(&loaded));
    }
}

#[test]
fn the_workspace_holds_what_is_virtual() {
    let handle = Handle::new();
    let case = Convolution::new(&[8, 64, 56, 56], &[64, 64, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]);
    let workspace = |fused: &Fused| plan(&fused.graph(&handle)).get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE);
    let tensor = 4 * case.y.1.iter().product::<i64>();
    let mut gaps = case.clone();
    gaps.y.2.iter_mut().for_each(|stride| *stride *= 8);
    for case in [case, gaps] {
        let fused = Fused::scaled(&case, d::FLOAT, 2.0, 3.0);
        assert!((3 * tensor..3 * tensor + (8 << 20)).contains(&workspace(&fused)), "gaps are not kept");
    }
}

#[test]
fn the_workspace_may_lie_anywhere() {
    let handle = Handle::new();
    // Nothing but virtual tensors, the last of them up to the end.
    let tensors = [(1, Role::Memory), (2, Role::Virtual), (3, Role::Memory), (4, Role::Virtual)];
    let tensors = tensors.map(|(uid, role)| Tensor::new(uid, d::FLOAT, &[4, 16], role)).into();
    let operations = [Pointwise::new(p::NEG, &[1], 2), Pointwise::new(p::ABS, &[2], 4), Pointwise::new(p::SUB, &[2, 4], 3)];
    let chain = Fused { tensors, operations: operations.map(Operation::Pointwise).into() };
    for fused in [chain, Fused::scaled(&Convolution::small(), d::FLOAT, 2.0, 3.0)] {
        let plan = plan(&fused.graph(&handle));
        let size = plan.get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE) as usize;
        for shift in [0, 1, 4, 16, 31, 48, 63, 64] {
            let mut memory = memory(&fused, quarters);
            let expected = values(&fused, &memory);
            let mut workspace = Buffer::new(shift + size, POISON);
            let pointers: Vec<_> = memory.iter_mut().map(|(&uid, operand)| (uid, operand.pointer())).collect();
            assert_eq!(execute(&handle, &plan, &pack(&pointers, workspace.pointer().wrapping_byte_add(shift))), OK, "{}", last_error());
            assert!(workspace.bytes()[..shift].iter().all(|&byte| byte == POISON), "written before the workspace");
            workspace.assert_margins("workspace");
            assert_equal("anywhere", &memory[&3], &expected[&3]);
        }
    }
}
