//! From a validated graph to backend descriptors, driven by the ABI table. No operation is known by name here.

use std::collections::HashMap;

use hipdnn_abi::{attribute, descriptor_type};

use crate::{
    backend::{BackendError, Descriptor, Handle},
    data_type::DataType,
    graph::{Attribute, Node, Tensor, Value},
    validate::{ValidatedGraph, wire_type},
};

/// The alignment that the backend assumes when nobody says otherwise, in bytes.
pub const DEFAULT_ALIGNMENT: usize = 16;

/// Builds and finalizes the operation graph.
///
/// `alignment` is what the addresses of this call have in common, in bytes; below [`DEFAULT_ALIGNMENT`] it is declared on every tensor
/// in memory (which needs a plugin API that knows it: the backend refuses otherwise).
pub fn lower(graph: &ValidatedGraph, handle: &Handle, alignment: usize) -> Result<Descriptor, BackendError> {
    let mut tensors = HashMap::new();
    for tensor in graph.tensors() {
        tensors.insert(tensor.uid, lower_tensor(tensor, handle, alignment)?);
    }
    let operations = graph.nodes().iter().map(|node| lower_node(node, &tensors, handle)).collect::<Result<Vec<_>, _>>()?;
    let descriptor = Descriptor::new(handle.library(), descriptor_type::BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
    descriptor.set_handle(attribute::OPERATIONGRAPH_HANDLE, handle)?;
    descriptor.set_descriptors(attribute::OPERATIONGRAPH_OPS, &operations.iter().collect::<Vec<_>>())?;
    let numbers = [
        attribute::OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT,
        attribute::OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT,
        attribute::OPERATIONGRAPH_IO_DATA_TYPE_EXT,
    ];
    for (number, data_type) in numbers.into_iter().zip(graph.types()) {
        if let Some(data_type) = data_type {
            descriptor.set_data_type(number, backend_number(data_type))?;
        }
    }
    descriptor.finalize()?;
    Ok(descriptor)
}

fn lower_tensor(tensor: &Tensor, handle: &Handle, alignment: usize) -> Result<Descriptor, BackendError> {
    let descriptor = Descriptor::new(handle.library(), descriptor_type::BACKEND_TENSOR_DESCRIPTOR)?;
    descriptor.set_int64s(attribute::TENSOR_UNIQUE_ID, &[tensor.uid])?;
    descriptor.set_data_type(attribute::TENSOR_DATA_TYPE, backend_number(tensor.data_type))?;
    descriptor.set_int64s(attribute::TENSOR_DIMENSIONS, &tensor.dims)?;
    descriptor.set_int64s(attribute::TENSOR_STRIDES, &tensor.strides)?;
    if tensor.is_virtual {
        descriptor.set_bool(attribute::TENSOR_IS_VIRTUAL, true)?;
    } else if let Some(value) = &tensor.value {
        descriptor.set_bytes(attribute::TENSOR_VALUE_EXT, value)?;
    } else if alignment < DEFAULT_ALIGNMENT {
        descriptor.set_int64s(attribute::TENSOR_BYTE_ALIGNMENT, &[alignment as i64])?;
    }
    descriptor.finalize()?;
    Ok(descriptor)
}

fn lower_node(node: &Node, tensors: &HashMap<i64, Descriptor>, handle: &Handle) -> Result<Descriptor, BackendError> {
    let descriptor = Descriptor::new(handle.library(), node.operation)?;
    for attribute in &node.attributes {
        set(&descriptor, node, attribute, tensors)?;
    }
    descriptor.finalize()?;
    Ok(descriptor)
}

/// Sets one attribute under the type that the ABI gives it. Validation proved that there is one and that tensors exist.
fn set(descriptor: &Descriptor, node: &Node, attribute: &Attribute, tensors: &HashMap<i64, Descriptor>) -> Result<(), BackendError> {
    let number = attribute.number;
    let wire = hipdnn_abi::descriptor(node.operation).and_then(|d| d.attribute(number)).and_then(|spec| wire_type(spec, &attribute.value));
    let wire = wire.unwrap_or_default();
    match &attribute.value {
        Value::Tensor(uid) => descriptor.set_descriptors(number, &found(tensors, std::slice::from_ref(uid))),
        Value::Tensors(uids) => descriptor.set_descriptors(number, &found(tensors, uids)),
        Value::Integers(values) if wire == hipdnn_abi::attribute_type::INT32 => {
            let narrow: Vec<i32> = values.iter().filter_map(|&v| i32::try_from(v).ok()).collect();
            descriptor.set_int32s(number, &narrow)
        }
        Value::Integers(values) => descriptor.set_int64s(number, values),
        Value::Floats(values) => descriptor.set_floats(number, values),
        Value::Doubles(values) => descriptor.set_doubles(number, values),
        Value::Flag(value) => descriptor.set_bool(number, *value),
        Value::DataType(data_type) => descriptor.set_data_type(number, backend_number(*data_type)),
        Value::Enumeration(value) => descriptor.set_enumeration(number, wire, *value),
        Value::Text(text) => descriptor.set_bytes(number, text.as_bytes()),
    }
}

fn found<'a>(tensors: &'a HashMap<i64, Descriptor>, uids: &[i64]) -> Vec<&'a Descriptor> {
    uids.iter().filter_map(|uid| tensors.get(uid)).collect()
}

/// Validation proved that every type of the graph has a number.
fn backend_number(data_type: DataType) -> i32 {
    data_type.backend_number().unwrap_or(-1)
}
