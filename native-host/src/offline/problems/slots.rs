//! Everything that a problem holds, one part after the other: the one walk that bending and shrinking are made of.

use crate::{
    data_type::DataType,
    problem::{
        Activation, ActivationMode, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, NormalizationMode,
        OwnedOperation, OwnedProblem, Scaling, TensorDescriptor, TensorLayout,
    },
};

/// A part that may be changed, and, where that is not plain, what it usually is.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Slot<'a> {
    Integer { value: &'a mut i64, usual: i64 },
    Number { value: &'a mut f64, usual: f64 },
    Type(&'a mut DataType),
    Cast(&'a mut Option<DataType>),
    Vector(&'a mut u32),
    Layout(&'a mut Option<TensorLayout>),
    Direction(&'a mut ConvolutionDirection),
    Mode(&'a mut ConvolutionMode),
    Algorithm(&'a mut Option<u32>),
    Attributes(&'a mut Vec<(u32, i64)>),
    Normalization(&'a mut NormalizationMode),
    Activation(&'a mut ActivationMode),
    Name(&'a mut String),
}

/// What is done with each part, under its name (`x.dims[2]`, `operations[1].scaling.beta`).
pub type See<'a> = dyn FnMut(&str, Slot<'_>) + 'a;

/// Shows every part of a problem, in a fixed order. A descriptor that cannot be recorded with its changes stays as it was.
pub fn visit(problem: &mut OwnedProblem, see: &mut See<'_>) {
    match problem {
        OwnedProblem::Convolution(problem) => {
            see("direction", Slot::Direction(&mut problem.direction));
            convolution("convolution", &mut problem.convolution, see);
            for (name, descriptor) in [("x", &mut problem.x), ("w", &mut problem.w), ("y", &mut problem.y)] {
                tensor(name, descriptor, see);
            }
            see("alpha", Slot::Number { value: &mut problem.alpha, usual: 1.0 });
            see("beta", Slot::Number { value: &mut problem.beta, usual: 0.0 });
            see("algorithm", Slot::Algorithm(&mut problem.algorithm));
        }
        OwnedProblem::Fusion(problem) => {
            tensor("input", &mut problem.input, see);
            for (i, one) in problem.operations.iter_mut().enumerate() {
                operation(&format!("operations[{i}]"), one, see);
            }
            tensor("output", &mut problem.output, see);
        }
        OwnedProblem::Activation(problem) => {
            activation("activation", &mut problem.activation, &mut problem.scaling, see);
            tensor("x", &mut problem.x, see);
            tensor("y", &mut problem.y, see);
        }
    }
}

/// How many parts there are.
pub fn count(problem: &OwnedProblem) -> usize {
    let mut parts = 0;
    visit(&mut problem.clone(), &mut |_, _| parts += 1);
    parts
}

/// Changes one part, by its position.
pub fn change(problem: &mut OwnedProblem, position: usize, change: &mut dyn FnMut(&str, Slot<'_>)) {
    let mut at = 0;
    visit(problem, &mut |name, slot| {
        if at == position {
            change(name, slot);
        }
        at += 1;
    });
}

fn operation(name: &str, operation: &mut OwnedOperation, see: &mut See<'_>) {
    let part = |part: &str| format!("{name}.{part}");
    match operation {
        OwnedOperation::Convolution { convolution: descriptor, w, algorithm, scaling: scalars } => {
            convolution(&part("convolution"), descriptor, see);
            tensor(&part("w"), w, see);
            see(&part("algorithm"), Slot::Algorithm(algorithm));
            scaling(name, scalars, see);
        }
        OwnedOperation::Addition { tensor: added, factor } => {
            tensor(&part("tensor"), added, see);
            see(&part("factor"), Slot::Number { value: factor, usual: 1.0 });
        }
        OwnedOperation::Bias { tensor: bias, scaling: scalars } => {
            tensor(&part("tensor"), bias, see);
            scaling(name, scalars, see);
        }
        OwnedOperation::Normalization { mode, parameters, epsilon, scaling: scalars } => {
            see(&part("mode"), Slot::Normalization(mode));
            tensor(&part("parameters"), parameters, see);
            see(&part("epsilon"), Slot::Number { value: epsilon, usual: 1e-5 });
            scaling(name, scalars, see);
        }
        OwnedOperation::Activation { activation: function, scaling } => activation(name, function, scaling, see),
        OwnedOperation::Other(function) => see(&part("name"), Slot::Name(function)),
    }
}

fn activation(name: &str, function: &mut Activation, scalars: &mut Scaling, see: &mut See<'_>) {
    let Activation { mode, alpha, beta, gamma } = function;
    see(&format!("{name}.mode"), Slot::Activation(mode));
    for (word, value) in [("alpha", alpha), ("beta", beta), ("gamma", gamma)] {
        see(&format!("{name}.{word}"), Slot::Number { value, usual: 0.0 });
    }
    scaling(name, scalars, see);
}

fn scaling(name: &str, scaling: &mut Scaling, see: &mut See<'_>) {
    see(&format!("{name}.scaling.alpha"), Slot::Number { value: &mut scaling.alpha, usual: Scaling::NONE.alpha });
    see(&format!("{name}.scaling.beta"), Slot::Number { value: &mut scaling.beta, usual: Scaling::NONE.beta });
}

fn tensor(name: &str, tensor: &mut TensorDescriptor, see: &mut See<'_>) {
    let (mut data_type, mut cast) = (tensor.data_type(), tensor.cast_type());
    let (mut dims, mut strides) = (tensor.dims().to_vec(), tensor.strides().to_vec());
    let (mut vector, mut layout) = (tensor.vector_length(), tensor.layout());
    see(&format!("{name}.type"), Slot::Type(&mut data_type));
    see(&format!("{name}.cast_type"), Slot::Cast(&mut cast));
    for (axis, value) in dims.iter_mut().enumerate() {
        see(&format!("{name}.dims[{axis}]"), Slot::Integer { value, usual: 1 });
    }
    let packed = packed(&dims);
    for (axis, value) in strides.iter_mut().enumerate() {
        see(&format!("{name}.strides[{axis}]"), Slot::Integer { value, usual: packed[axis] });
    }
    see(&format!("{name}.vector_length"), Slot::Vector(&mut vector));
    see(&format!("{name}.layout"), Slot::Layout(&mut layout));
    if let Ok(changed) = TensorDescriptor::new(data_type, cast, &dims, &strides, vector, layout) {
        *tensor = changed;
    }
}

fn convolution(name: &str, descriptor: &mut ConvolutionDescriptor, see: &mut See<'_>) {
    let mut fields: ConvolutionFields = descriptor.fields().clone();
    see(&format!("{name}.mode"), Slot::Mode(&mut fields.mode));
    let lists = [
        ("pads", &mut fields.pads, 0),
        ("strides", &mut fields.strides, 1),
        ("dilations", &mut fields.dilations, 1),
        ("output_pads", &mut fields.output_pads, 0),
    ];
    for (word, list, usual) in lists {
        for (axis, value) in list.iter_mut().enumerate() {
            see(&format!("{name}.{word}[{axis}]"), Slot::Integer { value, usual });
        }
    }
    see(&format!("{name}.group_count"), Slot::Integer { value: &mut fields.group_count, usual: 1 });
    see(&format!("{name}.attributes"), Slot::Attributes(&mut fields.attributes));
    if let Ok(changed) = ConvolutionDescriptor::new(fields) {
        *descriptor = changed;
    }
}

/// The strides of a tensor without gaps, in the order of its dimensions.
pub fn packed(dims: &[i64]) -> Vec<i64> {
    packed_in(dims, &(0..dims.len()).collect::<Vec<_>>())
}

/// The strides of a tensor without gaps whose dimensions lie in an order, from the slowest to the fastest.
pub fn packed_in(dims: &[i64], order: &[usize]) -> Vec<i64> {
    let (mut strides, mut next) = (vec![1; dims.len()], 1i64);
    for &axis in order.iter().rev() {
        strides[axis] = next;
        next = next.saturating_mul(dims[axis].max(1));
    }
    strides
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::offline::{choices::Choices, problems::generate};

    #[test]
    fn every_part_of_a_problem_is_shown_and_can_be_changed() {
        for number in 0..300 {
            let problem = generate::any(&mut Choices::numbered(3, number));
            let mut names = BTreeSet::new();
            visit(&mut problem.clone(), &mut |name, _| assert!(names.insert(name.to_string()), "{name} twice"));
            assert_eq!(names.len(), count(&problem));
            let mut unchanged = problem.clone();
            visit(&mut unchanged, &mut |_, _| {});
            assert_eq!(serde_json::to_string(&unchanged).unwrap(), serde_json::to_string(&problem).unwrap());
            // A value that no problem here has, in every part, one after the other: each makes another problem.
            for position in 0..count(&problem) {
                let mut changed = problem.clone();
                let mut expected = true;
                change(&mut changed, position, &mut |name, slot| match slot {
                    // The stride of a single element means nothing.
                    Slot::Integer { .. } if name.contains(".strides[") && !name.contains("convolution") => expected = false,
                    Slot::Integer { value, .. } => *value = 123_456_789,
                    Slot::Number { value, .. } => *value = 123.5,
                    Slot::Algorithm(value) => *value = Some(12345),
                    Slot::Vector(value) => *value = 12345,
                    Slot::Attributes(list) if list.len() < 16 => list.push((77, 77)),
                    Slot::Name(name) => name.push('!'),
                    _ => expected = false,
                });
                let same = serde_json::to_string(&changed).unwrap() == serde_json::to_string(&problem).unwrap();
                assert!(!expected || !same, "{position} of {problem}");
            }
        }
    }
}
