//! Graphs with a matrix product: numbers against the definition, strides and batches, and what has no engine.

mod common;

use common::{numbers::*, *};
use hipdnn_abi::{attribute as a, data_type as d, descriptor_type as k};

/// A tensor's type, dimensions and strides.
type Geometry = (i32, Vec<i64>, Vec<i64>);

fn floats(dims: &[i64], strides: &[i64]) -> Geometry {
    (d::FLOAT, dims.to_vec(), strides.to_vec())
}

fn product(handle: &Handle, [a, b, c]: &[Geometry; 3], compute: i32) -> D {
    let tensors = [(1, a), (2, b), (3, c)].map(|(uid, (data_type, dims, strides))| tensor(uid, *data_type, dims, strides));
    let operation = D::new(k::BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    let numbers = [a::OPERATION_MATMUL_ADESC, a::OPERATION_MATMUL_BDESC, a::OPERATION_MATMUL_CDESC];
    for (number, tensor) in numbers.into_iter().zip(&tensors) {
        assert_eq!(operation.child(number, tensor), OK, "{}", last_error());
    }
    assert_eq!(operation.data_type(a::MATMUL_COMP_TYPE, compute), OK);
    graph(handle, &[&operation.finalized()])
}

fn is_taken(geometry: &[Geometry; 3], compute: i32) -> bool {
    let handle = Handle::new();
    let graph = product(&handle, geometry, compute);
    heuristic(&graph).count(a::ENGINEHEUR_RESULTS, hipdnn_abi::attribute_type::BACKEND_DESCRIPTOR) == (OK, 1)
}

/// Executes on small integers, and compares every element of C with the sum that defines it.
fn check(name: &str, geometry: &[Geometry; 3], index: impl Fn(usize, usize) -> [usize; 2]) {
    let handle = Handle::new();
    let plan = plan(&product(&handle, geometry, d::FLOAT));
    let mut operands = [0, 1, 2].map(|i: usize| Operand::empty(&geometry[i], 0));
    for (i, operand) in operands.iter_mut().take(2).enumerate() {
        operand.fill(i as u64 + 1, |bits| f64::from(bits % 9) - 4.0);
    }
    let pointers: Vec<_> = (1..).zip(operands.iter_mut().map(Operand::pointer)).collect();
    assert_eq!(execute(&handle, &plan, &pack(&pointers, std::ptr::null_mut())), OK, "{name}: {}", last_error());
    let (dims_a, dims_b, dims_c) = (&geometry[0].1, &geometry[1].1, &geometry[2].1);
    let (rows, inner, columns) = (dims_a[1] as usize, dims_a[2] as usize, dims_b[2] as usize);
    let [a, b, _] = &operands;
    let (a, b) = (a.values.clone(), b.values.clone());
    let computed: Vec<f64> = (0..geometry[2].1.iter().product::<i64>() as usize).map(|i| decode(operands[2].bytes(i), d::FLOAT)).collect();
    assert!(operands[2].gaps_are_untouched(), "{name}");
    for batch in 0..dims_c[0] as usize {
        let [of_a, of_b] = index(batch, batch);
        for i in 0..rows {
            for j in 0..columns {
                let sum: f64 = (0..inner).map(|l| a[(of_a * rows + i) * inner + l] * b[(of_b * inner + l) * columns + j]).sum();
                assert_eq!(computed[(batch * rows + i) * columns + j], sum, "{name}: {batch} {i} {j}");
            }
        }
    }
}

#[test]
fn products_are_what_they_are_defined_as() {
    check("packed", &[floats(&[2, 3, 4], &[12, 4, 1]), floats(&[2, 4, 5], &[20, 5, 1]), floats(&[2, 3, 5], &[15, 5, 1])], |x, y| [x, y]);
    // A for all batches, B with its columns apart, C transposed in memory.
    check("strided", &[floats(&[1, 3, 4], &[12, 4, 1]), floats(&[2, 4, 5], &[60, 1, 7]), floats(&[2, 3, 5], &[20, 1, 4])], |_, y| [0, y]);
}

#[test]
fn what_is_no_product_has_no_engine() {
    let good = [floats(&[2, 3, 4], &[12, 4, 1]), floats(&[2, 4, 5], &[20, 5, 1]), floats(&[2, 3, 5], &[15, 5, 1])];
    assert!(is_taken(&good, d::FLOAT));
    assert!(!is_taken(&good, d::INT32), "computed in integers");
    let with = |which: usize, geometry: Geometry| {
        let mut changed = good.clone();
        changed[which] = geometry;
        is_taken(&changed, d::FLOAT)
    };
    assert!(!with(0, floats(&[2, 3, 5], &[15, 5, 1])), "inner lengths that differ");
    assert!(!with(0, floats(&[3, 3, 4], &[12, 4, 1])), "batches that differ");
    assert!(!with(1, floats(&[4, 5], &[5, 1])), "ranks that differ");
    assert!(!with(2, floats(&[2, 3, 5], &[15, 1, 1])), "a product whose elements overlap");
    assert!(!with(2, (d::INT32, vec![2, 3, 5], vec![15, 5, 1])), "integers");
}
