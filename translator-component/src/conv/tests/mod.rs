//! Translations as a whole, natively: what tests of convolutions share. One module per subject.

mod notes;
mod scaling;

use alloc::{string::String, vec, vec::Vec};

use crate::contract::{
    conv::{Direction, Mode, Problem},
    graph::{Capabilities, DataType, TensorDescriptor},
};

fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    let strides = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    TensorDescriptor { data_type, cast_type: None, dims: dims.to_vec(), strides, vector_length: 1, layout: None }
}

/// x {2,4,8,8}, w {4,4,3,3}, pads 1: every tensor is as large in every direction and mode.
fn problem(direction: Direction, data_type: DataType, [alpha, beta]: [f64; 2]) -> Problem {
    Problem {
        direction,
        mode: Mode::Convolution,
        x: packed(data_type, &[2, 4, 8, 8]),
        w: packed(data_type, &[4, 4, 3, 3]),
        y: packed(data_type, &[2, 4, 8, 8]),
        pads: vec![1, 1],
        strides: vec![1, 1],
        dilations: vec![1, 1],
        output_pads: vec![0, 0],
        group_count: 1,
        alpha,
        beta,
        algorithm: None,
        attributes: Vec::new(),
    }
}

/// A backend with everything that these tests need.
fn capabilities() -> Capabilities {
    Capabilities {
        backend_version: String::from("0.4.0.test"),
        operations: (15..=19).collect(),
        data_types: vec![
            DataType::Half,
            DataType::Float,
            DataType::Double,
            DataType::Bfloat16,
            DataType::Int8,
            DataType::Int32,
            DataType::Float8E4m3Fnuz,
        ],
        plan_serialization: true,
    }
}
