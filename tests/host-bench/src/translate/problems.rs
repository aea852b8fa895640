//! The problems that are translated: once as a caller of the host has them, once as the rules see them.

use anyhow::Result;
use hipdnn_host::{
    data_type::DataType,
    problem::{ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem, TensorDescriptor},
};
use translator::contract::{conv, graph};

/// A convolution as recorded descriptors.
pub struct Recorded {
    convolution: ConvolutionDescriptor,
    tensors: [TensorDescriptor; 3],
}

/// Lengths and strides of x, w and y, pads, and the number of groups.
struct Shape {
    tensors: [(&'static [i64], &'static [i64]); 3],
    pads: &'static [i64],
    groups: i64,
}

/// 16x16x16x16 with 3x3 filters, as the investigation measured it.
const SMALL: Shape = Shape {
    tensors: [(&[16, 16, 16, 16], &[4096, 256, 16, 1]), (&[16, 16, 3, 3], &[144, 9, 3, 1]), (&[16, 16, 16, 16], &[4096, 256, 16, 1])],
    pads: &[1, 1],
    groups: 1,
};

/// Three dimensions, channel last, grouped.
const LARGE: Shape = Shape {
    tensors: [
        (&[2, 64, 8, 28, 28], &[401_408, 1, 50_176, 1792, 64]),
        (&[64, 16, 3, 3, 3], &[432, 1, 144, 48, 16]),
        (&[2, 64, 8, 28, 28], &[401_408, 1, 50_176, 1792, 64]),
    ],
    pads: &[1, 1, 1],
    groups: 4,
};

/// Name, and both forms.
pub fn all() -> Result<Vec<(&'static str, Recorded, conv::Problem)>> {
    [("small", &SMALL), ("large", &LARGE)].into_iter().map(|(name, shape)| Ok((name, recorded(shape)?, native(shape)))).collect()
}

impl Recorded {
    /// The forward problem.
    pub fn problem(&self) -> ConvolutionProblem<'_> {
        let [x, w, y] = &self.tensors;
        ConvolutionProblem {
            direction: ConvolutionDirection::Forward,
            convolution: &self.convolution,
            x,
            w,
            y,
            alpha: 1.0,
            beta: 0.0,
            algorithm: Some(1),
        }
    }
}

fn recorded(shape: &Shape) -> Result<Recorded> {
    let ones = vec![1; shape.pads.len()];
    let mut fields = ConvolutionFields::initial(ConvolutionMode::Convolution, shape.pads.to_vec(), ones.clone(), ones);
    fields.group_count = shape.groups;
    let tensor = |(dims, strides): (&[i64], &[i64])| TensorDescriptor::new(DataType::Float, None, dims, strides, 1, None);
    let [x, w, y] = shape.tensors;
    Ok(Recorded { convolution: ConvolutionDescriptor::new(fields)?, tensors: [tensor(x)?, tensor(w)?, tensor(y)?] })
}

fn native(shape: &Shape) -> conv::Problem {
    let tensor = |(dims, strides): (&[i64], &[i64])| graph::TensorDescriptor {
        data_type: graph::DataType::Float,
        cast_type: None,
        dims: dims.to_vec(),
        strides: strides.to_vec(),
        vector_length: 1,
        layout: None,
    };
    let [x, w, y] = shape.tensors.map(tensor);
    let ones = vec![1; shape.pads.len()];
    conv::Problem {
        direction: conv::Direction::Forward,
        mode: conv::Mode::Convolution,
        x,
        w,
        y,
        pads: shape.pads.to_vec(),
        strides: ones.clone(),
        dilations: ones,
        output_pads: vec![0; shape.pads.len()],
        group_count: shape.groups,
        alpha: 1.0,
        beta: 0.0,
        algorithm: Some(1),
        attributes: vec![],
    }
}
