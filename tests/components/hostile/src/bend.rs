//! Graphs that are the right ones but for one thing. The graph of a plain convolution: x, w, y, and one operation.

use translator::contract::graph::{Access, Binding, DataType, Decline, Translation, Value};

use crate::Answer;

const NO_OPERATION: i32 = 31_337;

/// The honest graph, bent.
pub fn graph(honest: &dyn Fn() -> Answer, bend: impl FnOnce(&mut Translation)) -> Answer {
    honest().map(|mut graph| {
        bend(&mut graph);
        graph
    })
}

/// The binding that is written, or the first that is read.
fn binding(graph: &mut Translation, access: Access) -> Option<&mut Binding> {
    graph.bindings.iter_mut().find(|binding| binding.access == access)
}

/// Works on the tensor of a binding.
fn with_tensor(graph: &mut Translation, access: Access, work: impl FnOnce(&mut Vec<i64>, &mut Vec<i64>, &mut DataType)) {
    let Some(uid) = binding(graph, access).map(|binding| binding.uid) else { return };
    if let Some(tensor) = graph.tensors.iter_mut().find(|tensor| tensor.uid == uid) {
        work(&mut tensor.dims, &mut tensor.strides, &mut tensor.data_type);
    }
}

pub fn huge_text(graph: &mut Translation) {
    graph.notes = vec!["x".repeat(4 << 20)];
}

pub fn other_types(graph: &mut Translation) {
    graph.intermediate_type = match graph.intermediate_type {
        Some(DataType::Float) => None,
        _ => Some(DataType::Float),
    };
}

pub fn unbound(graph: &mut Translation) {
    graph.bindings.pop();
}

pub fn bound_twice(graph: &mut Translation) {
    graph.bindings.extend(graph.bindings.last().cloned());
}

pub fn one_too_far(graph: &mut Translation) {
    // The last element lies one further for each step along a length.
    with_tensor(graph, Access::Read, |dims, strides, _| {
        if let Some(axis) = dims.iter().position(|length| *length > 1) {
            strides[axis] += 1;
        }
    });
}

pub fn length(graph: &mut Translation, length: i64) {
    with_tensor(graph, Access::Read, |dims, _, _| dims[0] = length);
}

pub fn overlapping(graph: &mut Translation) {
    with_tensor(graph, Access::Write, |_, strides, _| strides[0] = strides[1]);
}

pub fn cycle(graph: &mut Translation) {
    let first = graph.nodes.first().cloned();
    graph.nodes.extend(first);
}

pub fn input_is_output(graph: &mut Translation) {
    let Some(argument) = binding(graph, Access::Write).map(|binding| binding.argument) else { return };
    binding(graph, Access::Read).into_iter().for_each(|binding| binding.argument = argument);
}

pub fn writes_an_input(graph: &mut Translation) {
    let Some(argument) = binding(graph, Access::Read).map(|binding| binding.argument) else { return };
    binding(graph, Access::Write).into_iter().for_each(|binding| binding.argument = argument);
}

pub fn argument_that_is_none(graph: &mut Translation) {
    binding(graph, Access::Read).into_iter().for_each(|binding| binding.argument = 99);
}

pub fn wrong_type(graph: &mut Translation) {
    with_tensor(graph, Access::Read, |_, _, data_type| *data_type = DataType::Double);
}

pub fn unknown_operation(graph: &mut Translation) {
    graph.nodes.iter_mut().for_each(|node| node.operation = NO_OPERATION);
}

pub fn wrong_attribute(graph: &mut Translation) {
    let attributes = graph.nodes.iter_mut().flat_map(|node| node.attributes.first_mut());
    attributes.for_each(|attribute| attribute.value = Value::Text("one".into()));
}

pub fn million_nodes(graph: &mut Translation) {
    let mut node = graph.nodes.remove(0);
    node.attributes.clear();
    graph.nodes = vec![node; 1_000_000];
}

/// The filter read in another order: a graph all the same, of another convolution.
pub fn something_else(graph: &mut Translation) {
    if let Some(filter) = graph.tensors.get_mut(1) {
        let last = filter.strides.len() - 1;
        filter.strides.swap(last, last - 1);
    }
}

/// Bytes that are no text.
pub fn no_text() -> Decline {
    // SAFETY: it is not safe: strings must be UTF-8. That is the point; the text is only handed on.
    let message = unsafe { String::from_utf8_unchecked(vec![0xff, 0xfe, 0xc0]) };
    Decline { rule: "conv.made-up".into(), message }
}
