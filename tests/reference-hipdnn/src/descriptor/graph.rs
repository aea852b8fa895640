//! Operation graph descriptors: collecting operations and turning them into an immutable [`Graph`].

use std::{collections::BTreeMap, ffi::c_void, sync::Arc};

use hipdnn_abi::attribute;

use super::{Built, Kind, Object};
use crate::{
    error::{Error, Result},
    graph::{Graph, Node, Setting, Tensor},
    handle::InUse,
    registry::HANDLES,
    value::Value,
};

/// A graph with the hipDNN handle that its descriptor was given.
pub(crate) struct BoundGraph {
    pub(crate) graph: Arc<Graph>,
    handle: usize,
}

impl BoundGraph {
    /// Uses the handle, which must still be live: engines are asked through it.
    pub(crate) fn enter(&self) -> Result<InUse> {
        InUse::enter(std::ptr::without_provenance::<c_void>(self.handle)).map_err(|_| Error::bad("the graph's hipDNN handle was destroyed"))
    }
}

pub(super) struct GraphKind;

impl Kind for GraphKind {
    fn child(&self, _number: i32) -> Option<i32> {
        None
    }

    fn accept(&self, object: &Object, number: i32, value: Value) -> Result<Value> {
        match number {
            attribute::OPERATIONGRAPH_HANDLE => check_handle(value),
            attribute::OPERATIONGRAPH_OPS => append_operations(object, value),
            _ => Ok(value),
        }
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let mut tensors = Tensors::default();
        let operations = object.value(attribute::OPERATIONGRAPH_OPS).map(|value| value.descriptors().to_vec()).unwrap_or_default();
        let nodes = operations.iter().map(|operation| node(operation, &mut tensors)).collect::<Result<_>>()?;
        let graph = Graph {
            name: object.value(attribute::OPERATIONGRAPH_NAME_EXT).map(|value| value.bytes().to_vec()).unwrap_or_default(),
            compute_type: object.int32(attribute::OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT),
            intermediate_type: object.int32(attribute::OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT),
            io_type: object.int32(attribute::OPERATIONGRAPH_IO_DATA_TYPE_EXT),
            override_shapes: object.flag(attribute::OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT),
            tensors: tensors.in_order,
            nodes,
        };
        let handle =
            object.value(attribute::OPERATIONGRAPH_HANDLE).and_then(|value| value.addresses().first().copied()).unwrap_or_default();
        Ok(Built::Graph(Arc::new(BoundGraph { graph: Arc::new(graph), handle })))
    }

    fn unfinalized_get(&self) -> Result<()> {
        Ok(())
    }
}

fn check_handle(value: Value) -> Result<Value> {
    for &handle in value.addresses() {
        HANDLES.get(std::ptr::without_provenance::<c_void>(handle))?;
    }
    Ok(value)
}

/// Further sets append to what is there.
fn append_operations(object: &Object, value: Value) -> Result<Value> {
    for operation in value.descriptors() {
        if !operation.is_finalized() {
            return Err(Error::not_finalized(operation.spec.name));
        }
        if !operation.is_operation() {
            return Err(Error::unsupported(format!("{} is no operation", operation.spec.name)));
        }
    }
    let mut all = object.value(attribute::OPERATIONGRAPH_OPS).map(|value| value.descriptors().to_vec()).unwrap_or_default();
    all.extend_from_slice(value.descriptors());
    Ok(Value::Descriptors(all))
}

/// The tensors of a graph, each once.
#[derive(Default)]
struct Tensors {
    seen: BTreeMap<i64, Arc<Object>>,
    in_order: Vec<Arc<Tensor>>,
}

impl Tensors {
    fn add(&mut self, object: &Arc<Object>) -> Result<i64> {
        let Built::Tensor(tensor) = object.built()? else { return Err(Error::bad("a child that is no tensor")) };
        match self.seen.insert(tensor.uid, object.clone()) {
            Some(earlier) if Arc::ptr_eq(&earlier, object) => return Ok(tensor.uid),
            Some(_) => return Err(Error::bad(format!("two tensors with the unique id {}", tensor.uid))),
            None => self.in_order.push(tensor.clone()),
        }
        if let Some(ragged) = object.value(attribute::TENSOR_RAGGED_OFFSET_DESC) {
            for child in ragged.descriptors() {
                self.add(child)?;
            }
        }
        Ok(tensor.uid)
    }
}

fn node(operation: &Arc<Object>, tensors: &mut Tensors) -> Result<Node> {
    let mut node = Node { kind: operation.kind(), tensors: BTreeMap::new(), settings: BTreeMap::new() };
    for (number, value) in operation.values() {
        let setting = match value {
            Value::Descriptors(children) => {
                let uids = children.iter().map(|child| tensors.add(child)).collect::<Result<_>>()?;
                node.tensors.insert(number, uids);
                continue;
            }
            Value::Int64(v) => Setting::Int64(v),
            Value::Int32(v) => Setting::Int32(v),
            Value::Float(v) => Setting::Float(v),
            Value::Double(v) => Setting::Double(v),
            Value::Bool(v) => Setting::Bool(v),
            Value::Bytes(v) => Setting::Bytes(v),
            Value::Addresses(_) => return Err(Error::bad("an operation with a pointer")),
        };
        node.settings.insert(number, setting);
    }
    Ok(node)
}
