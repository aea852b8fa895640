//! Problems in one line for people: what is as usual is left out.

use std::fmt::{Display, Formatter, Result};

use serde::Serialize;

use super::{
    Activation, ActivationProblem, ConvolutionDescriptor, ConvolutionMode, ConvolutionProblem, FusedOperation, FusionProblem, Problem,
    Scaling, TensorDescriptor,
};
use crate::data_type::DataType;

impl Display for Problem<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Convolution(problem) => convolution(f, problem),
            Self::Fusion(problem) => fusion(f, problem),
            Self::Activation(problem) => activation_problem(f, problem),
        }
    }
}

fn convolution(f: &mut Formatter<'_>, problem: &ConvolutionProblem<'_>) -> Result {
    let io = problem.x.data_type();
    write!(f, "{} {}", word(&problem.direction), word(&io))?;
    for (name, tensor) in [("x", problem.x), ("w", problem.w), ("y", problem.y)] {
        write!(f, " {name} {}", tensor_text(tensor, io))?;
    }
    descriptor(f, problem.convolution)?;
    scalars(f, Scaling { alpha: problem.alpha, beta: problem.beta })
}

fn fusion(f: &mut Formatter<'_>, problem: &FusionProblem<'_>) -> Result {
    let io = problem.input.data_type();
    write!(f, "fusion {} input {}", word(&io), tensor_text(problem.input, io))?;
    for operation in problem.operations {
        f.write_str(" > ")?;
        match *operation {
            FusedOperation::Convolution { convolution, w, scaling, .. } => {
                write!(f, "convolution w {}", tensor_text(w, io))?;
                descriptor(f, convolution)?;
                scalars(f, scaling)?;
            }
            FusedOperation::Addition { tensor, factor } => write!(f, "add {factor} of {}", tensor_text(tensor, io))?,
            FusedOperation::Bias { tensor, scaling } => {
                write!(f, "bias {}", tensor_text(tensor, io))?;
                scalars(f, scaling)?;
            }
            FusedOperation::Normalization { mode, parameters, epsilon, scaling } => {
                write!(f, "normalization {} {} epsilon {epsilon}", word(&mode), tensor_text(parameters, io))?;
                scalars(f, scaling)?;
            }
            FusedOperation::Activation { activation: function, scaling } => activation(f, function, scaling)?,
            FusedOperation::Other(name) => f.write_str(name)?,
        }
    }
    write!(f, " > output {}", tensor_text(problem.output, io))
}

fn activation_problem(f: &mut Formatter<'_>, problem: &ActivationProblem<'_>) -> Result {
    let io = problem.x.data_type();
    write!(f, "activation {} ", word(&io))?;
    activation(f, problem.activation, problem.scaling)?;
    write!(f, " x {} y {}", tensor_text(problem.x, io), tensor_text(problem.y, io))
}

fn activation(f: &mut Formatter<'_>, function: Activation, scaling: Scaling) -> Result {
    write!(f, "{}", word(&function.mode))?;
    for (name, value) in [("alpha", function.alpha), ("beta", function.beta), ("gamma", function.gamma)] {
        if value != 0.0 {
            write!(f, " {name} {value}")?;
        }
    }
    scalars(f, scaling)
}

fn scalars(f: &mut Formatter<'_>, scaling: Scaling) -> Result {
    if scaling != Scaling::NONE {
        write!(f, " scaled {} {}", scaling.alpha, scaling.beta)?;
    }
    Ok(())
}

fn descriptor(f: &mut Formatter<'_>, convolution: &ConvolutionDescriptor) -> Result {
    let fields = convolution.fields();
    if fields.mode != ConvolutionMode::Convolution {
        write!(f, " {}", word(&fields.mode))?;
    }
    let lists = [
        ("pads", &fields.pads, 0),
        ("strides", &fields.strides, 1),
        ("dilations", &fields.dilations, 1),
        ("output pads", &fields.output_pads, 0),
    ];
    for (name, list, usual) in lists {
        if list.iter().any(|value| *value != usual) {
            write!(f, " {name} {}", joined(list, ","))?;
        }
    }
    if fields.group_count != 1 {
        write!(f, " groups {}", fields.group_count)?;
    }
    for (number, value) in &fields.attributes {
        write!(f, " attribute {number}={value}")?;
    }
    Ok(())
}

/// Lengths, and what else there is to say: the type if it is not `usual`, the order in memory if it is not channel-first and packed.
fn tensor_text(tensor: &TensorDescriptor, usual: DataType) -> String {
    let mut text = if tensor.dims().is_empty() { "scalar".to_string() } else { joined(tensor.dims(), "x") };
    if tensor.data_type() != usual {
        text += &format!(" {}", word(&tensor.data_type()));
    }
    if let Some(cast) = tensor.cast_type() {
        text += &format!(" cast {}", word(&cast));
    }
    if tensor.vector_length() != 1 {
        let layout = tensor.layout().map_or_else(|| format!("vectors of {}", tensor.vector_length()), |layout| word(&layout));
        text += &format!(" {layout}");
    } else if tensor.strides() != packed(tensor.dims(), false) {
        let channel_last = tensor.strides() == packed(tensor.dims(), true);
        text += &if channel_last { " nhwc".to_string() } else { format!(" strides {}", joined(tensor.strides(), ",")) };
    }
    text
}

fn packed(dims: &[i64], channel_last: bool) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if channel_last && dims.len() > 2 {
        order[1..].rotate_left(1);
    }
    let mut next = 1i64;
    for &axis in order.iter().rev() {
        strides[axis] = next;
        next = next.saturating_mul(dims[axis].max(1));
    }
    strides
}

fn joined(values: &[i64], between: &str) -> String {
    values.iter().map(i64::to_string).collect::<Vec<_>>().join(between)
}

/// The word that JSON has for a value of an enum.
fn word(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().trim_matches('"').to_string()
}

#[cfg(test)]
mod tests {
    use super::super::*;

    #[test]
    fn what_is_as_usual_is_left_out() {
        let tensor = |dims: &[i64], strides: &[i64]| TensorDescriptor::new(DataType::Half, None, dims, strides, 1, None).unwrap();
        let (x, w, y) =
            (tensor(&[2, 3, 8, 9], &[216, 1, 27, 3]), tensor(&[4, 3, 3, 3], &[27, 9, 3, 1]), tensor(&[2, 4, 6, 7], &[200, 42, 7, 1]));
        let mut fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![0, 0], vec![1, 2], vec![1, 1]);
        let mut problem = OwnedConvolution {
            direction: ConvolutionDirection::Forward,
            convolution: ConvolutionDescriptor::new(fields.clone()).unwrap(),
            x,
            w,
            y,
            alpha: 1.0,
            beta: 0.0,
            algorithm: Some(3),
        };
        let text = "forward half x 2x3x8x9 nhwc w 4x3x3x3 y 2x4x6x7 strides 200,42,7,1 strides 1,2";
        assert_eq!(OwnedProblem::Convolution(Box::new(problem.clone())).to_string(), text);
        (fields.group_count, fields.attributes) = (3, vec![(1, 1)]);
        problem.convolution = ConvolutionDescriptor::new(fields).unwrap();
        problem.beta = 0.5;
        let text = OwnedProblem::Convolution(Box::new(problem)).to_string();
        assert!(text.ends_with("strides 1,2 groups 3 attribute 1=1 scaled 1 0.5"), "{text}");
    }
}
