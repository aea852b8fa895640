//! Graphs as a hostile or broken translator might give them: good ones, bent. Whether one is still good is for others to say.

use super::{
    choices::Choices,
    problems::generate::{EXTREMES, TYPES, scalar},
};
use crate::{
    data_type::DataType,
    graph::{Access, Attribute, Binding, Node, ReceivedGraph, Tensor, Value},
};

/// Bends a graph once. Every part of it may change; it may stay as it is where there is nothing to bend.
pub fn bend(graph: &mut ReceivedGraph, choices: &mut Choices<'_>) {
    match choices.below(12) {
        0..=2 => pick(&mut graph.tensors, choices, bend_tensor),
        3..=5 => pick(&mut graph.nodes, choices, bend_node),
        6 | 7 => pick(&mut graph.bindings, choices, bend_binding),
        8 => restructure(&mut graph.tensors, choices),
        9 => restructure(&mut graph.nodes, choices),
        10 => restructure(&mut graph.bindings, choices),
        _ => match choices.below(4) {
            0 => graph.compute_type = some_type(choices),
            1 => graph.intermediate_type = some_type(choices),
            2 => graph.io_type = some_type(choices),
            _ => graph.notes.push("n".repeat(choices.one(&[0, 10, 256, 257]))),
        },
    }
}

fn pick<T>(list: &mut [T], choices: &mut Choices<'_>, change: impl FnOnce(&mut T, &mut Choices<'_>)) {
    if !list.is_empty() {
        let which = choices.below(list.len());
        change(&mut list[which], choices);
    }
}

/// Fewer, more, or in another order.
fn restructure<T: Clone>(list: &mut Vec<T>, choices: &mut Choices<'_>) {
    if list.is_empty() {
        return;
    }
    let (one, other) = (choices.below(list.len()), choices.below(list.len()));
    match choices.below(4) {
        0 => drop(list.remove(one)),
        1 => list.swap(one, other),
        2 => list.insert(other, list[one].clone()),
        _ => {
            let copies = choices.one(&[2, 61, 64]);
            list.extend(std::iter::repeat_n(list[one].clone(), copies));
        }
    }
}

fn some_type(choices: &mut Choices<'_>) -> Option<DataType> {
    choices.percent(70).then(|| choices.one(TYPES))
}

fn number(value: i64, choices: &mut Choices<'_>) -> i64 {
    match choices.below(5) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1),
        2 => value.wrapping_mul(2),
        3 => choices.one(EXTREMES),
        _ => choices.between(0, 8),
    }
}

fn bend_list(list: &mut Vec<i64>, choices: &mut Choices<'_>) {
    match choices.below(6) {
        0 => list.push(1),
        1 => drop(list.pop()),
        2 if list.len() < 100 => list.extend([1; 64]),
        3 if list.len() > 1 => {
            let (one, other) = (choices.below(list.len()), choices.below(list.len()));
            list.swap(one, other);
        }
        _ => pick(list, choices, |value, choices| *value = number(*value, choices)),
    }
}

fn bend_tensor(tensor: &mut Tensor, choices: &mut Choices<'_>) {
    match choices.below(7) {
        0 => tensor.uid = number(tensor.uid, choices),
        1 => tensor.data_type = choices.one(TYPES),
        2 => bend_list(&mut tensor.dims, choices),
        3 | 4 => bend_list(&mut tensor.strides, choices),
        5 => tensor.is_virtual = !tensor.is_virtual,
        _ => tensor.value = choices.percent(70).then(|| vec![0; choices.one(&[0, 1, 2, 4, 8, 257])]),
    }
}

fn bend_node(node: &mut Node, choices: &mut Choices<'_>) {
    let operations: Vec<i32> = hipdnn_abi::DESCRIPTORS.iter().map(|descriptor| descriptor.kind).collect();
    match choices.below(6) {
        0 => node.operation = if choices.percent(80) { choices.one(&operations) } else { choices.word() as i32 },
        1 => restructure(&mut node.attributes, choices),
        2 => {
            // One that the operation has, mostly.
            let own = hipdnn_abi::descriptor(node.operation).map(|spec| spec.attributes).unwrap_or_default();
            let numbers: Vec<i32> = own.iter().map(|attribute| attribute.number).collect();
            let number = if numbers.is_empty() || choices.percent(20) { choices.word() as i32 } else { choices.one(&numbers) };
            node.attributes.push(Attribute { number, value: value(choices) });
        }
        3 => pick(&mut node.attributes, choices, |attribute, choices| attribute.value = value(choices)),
        _ => pick(&mut node.attributes, choices, |attribute, choices| bend_value(&mut attribute.value, choices)),
    }
}

fn value(choices: &mut Choices<'_>) -> Value {
    let length = choices.one(&[1, 2, 3, 0, 64, 65]);
    match choices.below(9) {
        0 => Value::Tensor(choices.between(0, 8)),
        1 => Value::Tensors((0..length).map(|_| choices.between(0, 8)).collect()),
        2 => Value::Integers((0..length).map(|_| choices.one(EXTREMES)).collect()),
        3 => Value::Floats((0..length).map(|_| scalar(choices) as f32).collect()),
        4 => Value::Doubles((0..length).map(|_| scalar(choices)).collect()),
        5 => Value::Flag(choices.percent(50)),
        6 => Value::DataType(choices.one(TYPES)),
        7 => Value::Enumeration(if choices.percent(70) { choices.between(-1, 60) as i32 } else { choices.word() as i32 }),
        _ => Value::Text(choices.one(&["", "text", "with\0zero"]).repeat(choices.one(&[1, 40, 300]))),
    }
}

fn bend_value(value: &mut Value, choices: &mut Choices<'_>) {
    match value {
        Value::Tensor(uid) => *uid = number(*uid, choices),
        Value::Tensors(list) | Value::Integers(list) => bend_list(list, choices),
        Value::Floats(list) => list.push(scalar(choices) as f32),
        Value::Doubles(list) => list.push(scalar(choices)),
        Value::Flag(flag) => *flag = !*flag,
        Value::DataType(data_type) => *data_type = choices.one(TYPES),
        Value::Enumeration(number) => *number = number.wrapping_add(choices.between(-3, 3) as i32),
        Value::Text(text) => text.push(choices.one(&['a', '\0', '\u{1f600}'])),
    }
}

fn bend_binding(binding: &mut Binding, choices: &mut Choices<'_>) {
    match choices.below(3) {
        0 => binding.uid = number(binding.uid, choices),
        1 => binding.argument = if choices.percent(80) { choices.below(5) as u32 } else { choices.word() as u32 },
        _ => {
            binding.access = match binding.access {
                Access::Read => Access::Write,
                Access::Write => Access::Read,
            }
        }
    }
}
