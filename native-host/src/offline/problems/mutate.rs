//! Bending a problem: one part to another value, or its structure. What comes out can be recorded; whether it makes sense does not matter.

use super::{
    generate::{ACTIVATIONS, DIRECTIONS, EXTREMES, LAYOUTS, MODES, NORMALIZATIONS, TYPES, scalar},
    slots::{self, Slot, packed_in},
};
use crate::{
    offline::choices::Choices,
    problem::{ConvolutionDescriptor, ConvolutionFields, MAX_OPERATIONS, OwnedOperation, OwnedProblem, TensorDescriptor},
};

/// Bends a problem once.
pub fn mutate(problem: &mut OwnedProblem, choices: &mut Choices<'_>) {
    match choices.below(10) {
        0..=5 => {
            let position = choices.below(slots::count(problem));
            slots::change(problem, position, &mut |_, slot| bend(slot, choices));
        }
        6 => reorder(problem, choices),
        7 => resize(problem, choices),
        8 => change_axis(problem, choices),
        _ => rearrange(problem, choices),
    }
}

/// Gives a part another value.
fn bend(slot: Slot<'_>, choices: &mut Choices<'_>) {
    match slot {
        Slot::Integer { value, usual } => {
            *value = match choices.below(6) {
                0 => value.wrapping_add(1),
                1 => value.wrapping_sub(1),
                2 => value.wrapping_mul(2),
                3 => usual,
                4 => value.wrapping_neg(),
                _ => choices.one(EXTREMES),
            }
        }
        Slot::Number { value, usual } => *value = if choices.percent(20) { usual } else { scalar(choices) },
        Slot::Type(value) => *value = choices.one(TYPES),
        Slot::Cast(value) => *value = choices.percent(80).then(|| choices.one(TYPES)),
        Slot::Vector(value) => *value = choices.one(&[1, 4, 8, 0, 2, u32::MAX]),
        Slot::Layout(value) => *value = choices.percent(80).then(|| choices.one(LAYOUTS)),
        Slot::Direction(value) => *value = choices.one(DIRECTIONS),
        Slot::Mode(value) => *value = choices.one(MODES),
        Slot::Algorithm(value) => *value = choices.one(&[None, Some(0), Some(1), Some(5), Some(6), Some(u32::MAX)]),
        Slot::Attributes(list) => attributes(list, choices),
        Slot::Normalization(value) => *value = choices.one(NORMALIZATIONS),
        Slot::Activation(value) => *value = choices.one(ACTIVATIONS),
        Slot::Name(name) => *name = choices.one(&["miopenCreateOpX", "", "a b"]).to_string(),
    }
}

/// What setters leave: one value for each number, in ascending order.
fn attributes(list: &mut Vec<(u32, i64)>, choices: &mut Choices<'_>) {
    if !list.is_empty() && choices.percent(30) {
        list.remove(choices.below(list.len()));
        return;
    }
    let number = choices.one(&[0, 1, 2, 3, 4, 1000, u32::MAX]);
    list.retain(|(set, _)| *set != number);
    list.push((number, choices.one(&[0, 1, -1, 2, i32::MAX.into(), i32::MIN.into()])));
    list.sort_unstable();
}

/// The tensors of a problem, to be changed.
pub(super) fn tensors(problem: &mut OwnedProblem) -> Vec<&mut TensorDescriptor> {
    match problem {
        OwnedProblem::Convolution(problem) => vec![&mut problem.x, &mut problem.w, &mut problem.y],
        OwnedProblem::Fusion(problem) => {
            let of = |operation| match operation {
                &mut OwnedOperation::Convolution { w: ref mut tensor, .. }
                | &mut OwnedOperation::Addition { ref mut tensor, .. }
                | &mut OwnedOperation::Bias { ref mut tensor, .. }
                | &mut OwnedOperation::Normalization { parameters: ref mut tensor, .. } => Some(tensor),
                &mut OwnedOperation::Activation { .. } | &mut OwnedOperation::Other(_) => None,
            };
            let ends = [&mut problem.input, &mut problem.output];
            ends.into_iter().chain(problem.operations.iter_mut().filter_map(of)).collect()
        }
        OwnedProblem::Activation(problem) => vec![&mut problem.x, &mut problem.y],
    }
}

/// The convolutions of a problem, to be changed.
pub(super) fn convolutions(problem: &mut OwnedProblem) -> Vec<&mut ConvolutionDescriptor> {
    match problem {
        OwnedProblem::Convolution(problem) => vec![&mut problem.convolution],
        OwnedProblem::Fusion(problem) => {
            let of = |operation| match operation {
                &mut OwnedOperation::Convolution { ref mut convolution, .. } => Some(convolution),
                _ => None,
            };
            problem.operations.iter_mut().filter_map(of).collect()
        }
        OwnedProblem::Activation(_) => Vec::new(),
    }
}

/// The same tensor with other lengths and strides, if it can be recorded.
pub(super) fn reshape(tensor: &mut TensorDescriptor, dims: &[i64], strides: &[i64]) {
    let made = TensorDescriptor::new(tensor.data_type(), tensor.cast_type(), dims, strides, tensor.vector_length(), tensor.layout());
    if let Ok(made) = made {
        *tensor = made;
    }
}

/// The same convolution with other fields, if it can be recorded.
pub(super) fn refield(convolution: &mut ConvolutionDescriptor, change: impl FnOnce(&mut ConvolutionFields)) {
    let mut fields = convolution.fields().clone();
    change(&mut fields);
    if let Ok(made) = ConvolutionDescriptor::new(fields) {
        *convolution = made;
    }
}

/// Another order in memory for a tensor.
fn reorder(problem: &mut OwnedProblem, choices: &mut Choices<'_>) {
    let mut all = tensors(problem);
    let which = choices.below(all.len());
    let tensor = &mut all[which];
    let dims = tensor.dims().to_vec();
    let strides = packed_in(&dims, &choices.order(dims.len()));
    reshape(tensor, &dims, &strides);
}

/// One dimension more or less, for one tensor or one list alone.
fn resize(problem: &mut OwnedProblem, choices: &mut Choices<'_>) {
    let grows = choices.percent(50);
    if choices.percent(70) {
        let mut all = tensors(problem);
        let which = choices.below(all.len());
        let tensor = &mut all[which];
        let (mut dims, mut strides) = (tensor.dims().to_vec(), tensor.strides().to_vec());
        resize_list(&mut dims, grows, 1);
        resize_list(&mut strides, grows, 1);
        reshape(tensor, &dims, &strides);
    } else if let Some(convolution) = convolutions(problem).into_iter().next() {
        refield(convolution, |fields| {
            let list = match choices.below(4) {
                0 => &mut fields.pads,
                1 => &mut fields.strides,
                2 => &mut fields.dilations,
                _ => &mut fields.output_pads,
            };
            resize_list(list, grows, 1);
        });
    }
}

fn resize_list(list: &mut Vec<i64>, grows: bool, with: i64) {
    if grows {
        list.push(with);
    } else {
        list.pop();
    }
}

/// One spatial dimension more or less, for everything.
fn change_axis(problem: &mut OwnedProblem, choices: &mut Choices<'_>) {
    let grows = choices.percent(50);
    for tensor in tensors(problem) {
        let (mut dims, mut strides) = (tensor.dims().to_vec(), tensor.strides().to_vec());
        resize_list(&mut dims, grows, 1);
        resize_list(&mut strides, grows, 1);
        reshape(tensor, &dims, &strides);
    }
    for convolution in convolutions(problem) {
        refield(convolution, |fields| {
            let lists = [(&mut fields.pads, 0), (&mut fields.strides, 1), (&mut fields.dilations, 1), (&mut fields.output_pads, 0)];
            lists.into_iter().for_each(|(list, usual)| resize_list(list, grows, usual));
        });
    }
}

/// Operations of a chain in another number or order.
fn rearrange(problem: &mut OwnedProblem, choices: &mut Choices<'_>) {
    let OwnedProblem::Fusion(chain) = problem else { return change_axis(problem, choices) };
    let count = chain.operations.len();
    let (one, other) = (choices.below(count), choices.below(count));
    match choices.below(3) {
        _ if count == 0 => chain.operations.push(OwnedOperation::Other("miopenCreateOpX".into())),
        0 => drop(chain.operations.remove(one)),
        1 => chain.operations.swap(one, other),
        _ if count < MAX_OPERATIONS => chain.operations.insert(other, chain.operations[one].clone()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::problems::generate;

    #[test]
    fn bending_changes_problems_and_they_stay_recordable() {
        let mut changed = 0;
        for number in 0..2000 {
            let choices = &mut Choices::numbered(11, number);
            let mut problem = generate::sound(choices);
            let before = serde_json::to_string(&problem).unwrap();
            mutate(&mut problem, choices);
            let after = serde_json::to_string(&problem).unwrap();
            changed += usize::from(before != after);
            let read: OwnedProblem = serde_json::from_str(&after).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), after);
        }
        assert!(changed > 1400, "{changed} of 2000");
    }

    #[test]
    fn a_thousand_times_bent_is_still_a_problem() {
        let choices = &mut Choices::seeded(5);
        let mut problem = generate::sound(choices);
        for _ in 0..1000 {
            mutate(&mut problem, choices);
        }
        assert!(serde_json::from_str::<OwnedProblem>(&serde_json::to_string(&problem).unwrap()).is_ok());
    }
}
