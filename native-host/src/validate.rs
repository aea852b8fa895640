//! The safety boundary: proves that a graph from a translator can only touch what the MIOpen call itself may touch.
//!
//! A [`ReceivedGraph`] comes from code that nobody here trusts. [`validate`] answers a [`ValidatedGraph`], the only thing that can be
//! lowered, or the fault it found. What is proven: sizes bounded; every operation, attribute, type and enum value in the ABI table; uids
//! unique and defined; each memory tensor bound to one argument of the call, of the same element type, within the argument's extent; only
//! outputs of the call written, each exactly once, no two elements of an output on one address; no argument both read and written
//! unless the call itself does; values used only after they were produced. What is not proven: that the graph computes the right thing.

use std::collections::HashMap;

use hipdnn_abi::{AttributeSpec, Count, DescriptorSpec, Need, attribute_type};
use thiserror::Error;

use crate::{
    data_type::DataType,
    graph::{Access, Attribute, Binding, Node, ReceivedGraph, Tensor, Value},
    problem::{MAX_RANK, extent},
    rules::HostRule,
};

/// The most tensors, nodes, bindings, notes, or attributes of a node.
pub const MAX_ITEMS: usize = 64;
/// The longest list in an attribute.
pub const MAX_LIST: usize = 64;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 256;

/// One buffer argument of the MIOpen call, as the recorded descriptor of the caller describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The name that messages use.
    pub name: &'static str,
    /// Element type.
    pub data_type: DataType,
    /// Elements from the first to the last, both included.
    pub extent: i64,
    /// The call reads it.
    pub read: bool,
    /// The call writes it; exactly one tensor of the graph must then do so.
    pub written: bool,
}

/// What is wrong with a received graph. Each names the host rule it is counted under.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{detail}")]
pub struct GraphFault {
    /// The rule.
    pub rule: HostRule,
    /// What exactly.
    pub detail: String,
}

/// A graph that passed [`validate`]. Cannot be made or changed in any other way.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedGraph {
    graph: ReceivedGraph,
}

impl ValidatedGraph {
    /// The tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.graph.tensors
    }

    /// The operations, in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.graph.nodes
    }

    /// Where memory tensors live.
    pub fn bindings(&self) -> &[Binding] {
        &self.graph.bindings
    }

    /// Notes of the translator.
    pub fn notes(&self) -> &[String] {
        &self.graph.notes
    }

    /// Compute, intermediate and io type.
    pub fn types(&self) -> [Option<DataType>; 3] {
        [self.graph.compute_type, self.graph.intermediate_type, self.graph.io_type]
    }
}

/// Checks everything the module header lists.
pub fn validate(graph: ReceivedGraph, arguments: &[Argument]) -> Result<ValidatedGraph, GraphFault> {
    sizes(&graph)?;
    for data_type in [graph.compute_type, graph.intermediate_type, graph.io_type].into_iter().flatten() {
        known_type(data_type, "a type of the graph")?;
    }
    let tensors = index(&graph.tensors)?;
    graph.tensors.iter().try_for_each(tensor)?;
    let places = places(&graph, &tensors, arguments)?;
    let mut flow = Flow { tensors: &tensors, places: &places, produced: Vec::new(), read: Vec::new() };
    for node in &graph.nodes {
        operation(node, &mut flow)?;
    }
    flow.finish(arguments)?;
    Ok(ValidatedGraph { graph })
}

fn fault<T>(rule: HostRule, detail: impl Into<String>) -> Result<T, GraphFault> {
    Err(GraphFault { rule, detail: detail.into() })
}

fn at_most(what: &str, length: usize, limit: usize) -> Result<(), GraphFault> {
    if length <= limit { Ok(()) } else { fault(HostRule::GraphSize, format!("{length} {what} are more than {limit}")) }
}

/// Bounds every list and text before anything else walks them.
fn sizes(graph: &ReceivedGraph) -> Result<(), GraphFault> {
    at_most("tensors", graph.tensors.len(), MAX_ITEMS)?;
    at_most("nodes", graph.nodes.len(), MAX_ITEMS)?;
    at_most("bindings", graph.bindings.len(), MAX_ITEMS)?;
    at_most("notes", graph.notes.len(), MAX_ITEMS)?;
    graph.notes.iter().try_for_each(|note| at_most("bytes of a note", note.len(), MAX_TEXT))?;
    if graph.nodes.is_empty() {
        return fault(HostRule::GraphSize, "no node");
    }
    for tensor in &graph.tensors {
        at_most("dimensions", tensor.dims.len(), MAX_RANK)?;
        at_most("strides", tensor.strides.len(), MAX_RANK)?;
        at_most("bytes of a constant", tensor.value.as_ref().map_or(0, Vec::len), MAX_TEXT)?;
    }
    for node in &graph.nodes {
        at_most("attributes", node.attributes.len(), MAX_ITEMS)?;
        for attribute in &node.attributes {
            match &attribute.value {
                Value::Tensors(list) | Value::Integers(list) => at_most("values", list.len(), MAX_LIST)?,
                Value::Floats(list) => at_most("values", list.len(), MAX_LIST)?,
                Value::Doubles(list) => at_most("values", list.len(), MAX_LIST)?,
                Value::Text(text) => at_most("bytes of text", text.len(), MAX_TEXT)?,
                Value::Tensor(_) | Value::Flag(_) | Value::DataType(_) | Value::Enumeration(_) => {}
            }
        }
    }
    Ok(())
}

fn index(tensors: &[Tensor]) -> Result<HashMap<i64, &Tensor>, GraphFault> {
    let mut index = HashMap::with_capacity(tensors.len());
    for tensor in tensors {
        if index.insert(tensor.uid, tensor).is_some() {
            return fault(HostRule::GraphUid, format!("uid {} names two tensors", tensor.uid));
        }
    }
    Ok(index)
}

fn known_type(data_type: DataType, what: &str) -> Result<(), GraphFault> {
    if data_type.bytes().is_some() {
        Ok(())
    } else {
        fault(HostRule::GraphTensor, format!("{what} is {data_type:?}, which the backend does not have"))
    }
}

fn tensor(tensor: &Tensor) -> Result<(), GraphFault> {
    let uid = tensor.uid;
    known_type(tensor.data_type, &format!("tensor {uid}"))?;
    if tensor.dims.is_empty() || tensor.dims.len() != tensor.strides.len() {
        return fault(
            HostRule::GraphTensor,
            format!("tensor {uid} has {} lengths and {} strides", tensor.dims.len(), tensor.strides.len()),
        );
    }
    if tensor.dims.iter().chain(&tensor.strides).any(|&v| v < 1) {
        return fault(HostRule::GraphTensor, format!("tensor {uid}: dims {:?} strides {:?}", tensor.dims, tensor.strides));
    }
    let bytes = extent(&tensor.dims, &tensor.strides).and_then(|e| e.checked_mul(tensor.data_type.bytes()? as i64));
    if bytes.is_none() {
        return fault(HostRule::GraphExtent, format!("the extent of tensor {uid} overflows"));
    }
    if let Some(value) = &tensor.value {
        let scalar = tensor.dims.iter().all(|&d| d == 1) && Some(value.len()) == tensor.data_type.bytes();
        if !scalar || tensor.is_virtual {
            return fault(
                HostRule::GraphTensor,
                format!("constant tensor {uid} of {} bytes is not one {:?}", value.len(), tensor.data_type),
            );
        }
    }
    Ok(())
}

/// Where each memory tensor lives.
type Places = HashMap<i64, (usize, Access)>;

fn places(graph: &ReceivedGraph, tensors: &HashMap<i64, &Tensor>, arguments: &[Argument]) -> Result<Places, GraphFault> {
    let mut places = Places::new();
    for binding in &graph.bindings {
        let place = bound(binding, tensors, arguments)?;
        if places.insert(binding.uid, place).is_some() {
            return fault(HostRule::GraphBinding, format!("tensor {} is bound twice", binding.uid));
        }
    }
    let in_memory = |t: &&Tensor| !t.is_virtual && t.value.is_none();
    if let Some(tensor) = graph.tensors.iter().filter(in_memory).find(|t| !places.contains_key(&t.uid)) {
        return fault(HostRule::GraphBinding, format!("tensor {} is not bound", tensor.uid));
    }
    sharing(&places, arguments)?;
    Ok(places)
}

/// One binding: to an argument of the call, of the same type, within its extent, for what the call does with it.
fn bound(binding: &Binding, tensors: &HashMap<i64, &Tensor>, arguments: &[Argument]) -> Result<(usize, Access), GraphFault> {
    let uid = binding.uid;
    let Some(tensor) = tensors.get(&uid) else {
        return fault(HostRule::GraphUid, format!("a binding names tensor {uid}, which is not there"));
    };
    if tensor.is_virtual || tensor.value.is_some() {
        return fault(HostRule::GraphBinding, format!("tensor {uid} has no memory but a binding"));
    }
    let position = binding.argument as usize;
    let Some(argument) = arguments.get(position) else {
        return fault(HostRule::GraphBinding, format!("tensor {uid} is bound to argument {position} of {}", arguments.len()));
    };
    if tensor.data_type != argument.data_type {
        return fault(
            HostRule::GraphBinding,
            format!("tensor {uid} is {:?}, {} is {:?}", tensor.data_type, argument.name, argument.data_type),
        );
    }
    let reach = extent(&tensor.dims, &tensor.strides);
    if reach.is_none_or(|reach| reach > argument.extent) {
        return fault(
            HostRule::GraphExtent,
            format!("tensor {uid} reaches {reach:?} elements into {}, which has {}", argument.name, argument.extent),
        );
    }
    match binding.access {
        Access::Read if !argument.read => {
            return fault(HostRule::GraphBinding, format!("tensor {uid} reads {}, which the call does not", argument.name));
        }
        Access::Write if !argument.written => {
            return fault(HostRule::GraphBinding, format!("tensor {uid} writes {}, which the call does not", argument.name));
        }
        Access::Write if may_overlap(tensor) => {
            return fault(HostRule::GraphOverlap, format!("output {uid}: dims {:?} strides {:?} overlap", tensor.dims, tensor.strides));
        }
        Access::Read | Access::Write => {}
    }
    Ok((position, binding.access))
}

/// One argument may hold several tensors only if all read it, or if the call itself reads and writes it.
fn sharing(places: &Places, arguments: &[Argument]) -> Result<(), GraphFault> {
    for (position, argument) in arguments.iter().enumerate() {
        let here = |wanted: Access| places.values().filter(|(p, access)| *p == position && *access == wanted).count();
        let (reads, writes) = (here(Access::Read), here(Access::Write));
        if writes > 1 || (writes == 1 && reads > 0 && !argument.read) {
            return fault(HostRule::GraphAliasing, format!("{reads} tensors read and {writes} write {}", argument.name));
        }
        if argument.written && writes == 0 {
            return fault(HostRule::GraphBinding, format!("nothing writes {}", argument.name));
        }
    }
    Ok(())
}

/// Conservative: ordered by stride, each must exceed what the smaller ones reach together.
fn may_overlap(tensor: &Tensor) -> bool {
    let mut axes: Vec<(i64, i64)> = tensor.dims.iter().zip(&tensor.strides).filter(|(d, _)| **d > 1).map(|(&d, &s)| (s, d)).collect();
    axes.sort_unstable();
    let mut reach = 0i64;
    axes.iter().any(|&(stride, dim)| {
        let overlaps = stride <= reach;
        reach = reach.saturating_add((dim - 1).saturating_mul(stride));
        overlaps
    })
}

/// What has been produced and read so far, in the order of the nodes.
struct Flow<'a> {
    tensors: &'a HashMap<i64, &'a Tensor>,
    places: &'a Places,
    produced: Vec<i64>,
    read: Vec<i64>,
}

impl Flow<'_> {
    fn tensor(&self, uid: i64) -> Result<&Tensor, GraphFault> {
        match self.tensors.get(&uid) {
            Some(tensor) => Ok(tensor),
            None => fault(HostRule::GraphUid, format!("a node names tensor {uid}, which is not there")),
        }
    }

    fn reads(&mut self, uid: i64) -> Result<(), GraphFault> {
        let tensor = self.tensor(uid)?;
        if tensor.is_virtual && !self.produced.contains(&uid) {
            return fault(HostRule::GraphOrder, format!("tensor {uid} is used before it is produced"));
        }
        if matches!(self.places.get(&uid), Some((_, Access::Write))) {
            return fault(HostRule::GraphBinding, format!("tensor {uid} is bound for writing and read"));
        }
        self.read.push(uid);
        Ok(())
    }

    fn writes(&mut self, uid: i64) -> Result<(), GraphFault> {
        let tensor = self.tensor(uid)?;
        if tensor.value.is_some() {
            return fault(HostRule::GraphBinding, format!("constant tensor {uid} is written"));
        }
        if matches!(self.places.get(&uid), Some((_, Access::Read))) {
            return fault(HostRule::GraphBinding, format!("tensor {uid} is bound for reading and written"));
        }
        if self.produced.contains(&uid) {
            return fault(HostRule::GraphOrder, format!("tensor {uid} is written twice"));
        }
        self.produced.push(uid);
        Ok(())
    }

    /// Every tensor does what it is there for.
    fn finish(&self, arguments: &[Argument]) -> Result<(), GraphFault> {
        for (&uid, tensor) in self.tensors {
            let written_place = matches!(self.places.get(&uid), Some((_, Access::Write)));
            if (tensor.is_virtual || written_place) && !self.produced.contains(&uid) {
                return fault(HostRule::GraphOrder, format!("nothing produces tensor {uid}"));
            }
            if !written_place && !self.read.contains(&uid) {
                return fault(HostRule::GraphOrder, format!("nothing uses tensor {uid}"));
            }
        }
        // `sharing` counted bindings; with the above each of them is really written.
        debug_assert!(arguments.iter().filter(|a| a.written).count() <= self.produced.len());
        Ok(())
    }
}

/// One node: an operation of the ABI with exactly the attributes it has.
fn operation(node: &Node, flow: &mut Flow<'_>) -> Result<(), GraphFault> {
    let Some(spec) = hipdnn_abi::descriptor(node.operation).filter(|spec| spec.is_operation) else {
        return fault(HostRule::GraphOperation, format!("{} is no operation of the backend", node.operation));
    };
    required(spec, node)?;
    // Reads first: an operation may not consume its own result.
    for wanted in [hipdnn_abi::Access::Read, hipdnn_abi::Access::Write] {
        for (position, attribute) in node.attributes.iter().enumerate() {
            let attribute_spec = described(spec, attribute)?;
            if node.attributes[..position].iter().any(|earlier| earlier.number == attribute.number) {
                return fault(HostRule::GraphAttribute, format!("{} is set twice", attribute_spec.name));
            }
            typed(attribute_spec, &attribute.value)?;
            if attribute_spec.access == Some(wanted) {
                connect(&attribute.value, wanted, flow)?;
            }
        }
    }
    Ok(())
}

fn connect(value: &Value, access: hipdnn_abi::Access, flow: &mut Flow<'_>) -> Result<(), GraphFault> {
    let uids: &[i64] = match value {
        Value::Tensor(uid) => std::slice::from_ref(uid),
        Value::Tensors(uids) => uids,
        _ => &[],
    };
    uids.iter().try_for_each(|&uid| match access {
        hipdnn_abi::Access::Read => flow.reads(uid),
        hipdnn_abi::Access::Write => flow.writes(uid),
    })
}

fn required(spec: &DescriptorSpec, node: &Node) -> Result<(), GraphFault> {
    let missing = |a: &&AttributeSpec| a.need == Need::Required && node.attributes.iter().all(|given| given.number != a.number);
    match spec.attributes.iter().find(missing) {
        Some(attribute) => fault(HostRule::GraphAttribute, format!("{} lacks {}", spec.name, attribute.name)),
        None => Ok(()),
    }
}

fn described(spec: &'static DescriptorSpec, attribute: &Attribute) -> Result<&'static AttributeSpec, GraphFault> {
    match spec.attribute(attribute.number) {
        Some(found) if found.need != Need::ReadOnly => Ok(found),
        Some(found) => fault(HostRule::GraphAttribute, format!("{} can only be read", found.name)),
        None => fault(HostRule::GraphAttribute, format!("{} has no attribute {}", spec.name, attribute.number)),
    }
}

/// The value is of a type that the attribute takes, of the right count, and in range.
fn typed(spec: &AttributeSpec, value: &Value) -> Result<(), GraphFault> {
    match wire_type(spec, value) {
        Some(_) => counted(spec, value),
        None => fault(HostRule::GraphAttribute, format!("{} does not take {value:?}", spec.name)),
    }
}

fn counted(spec: &AttributeSpec, value: &Value) -> Result<(), GraphFault> {
    let count = match value {
        Value::Tensors(list) | Value::Integers(list) => list.len(),
        Value::Floats(list) => list.len(),
        Value::Doubles(list) => list.len(),
        Value::Tensor(_) | Value::Flag(_) | Value::DataType(_) | Value::Enumeration(_) | Value::Text(_) => 1,
    };
    let fits = match spec.count {
        Count::One => count == 1,
        Count::Many => count >= 1,
    };
    if fits { Ok(()) } else { fault(HostRule::GraphAttribute, format!("{} does not take {count} values", spec.name)) }
}

/// The attribute type under which a value goes to the backend, or `None` if the attribute does not take such a value.
pub(crate) fn wire_type(spec: &AttributeSpec, value: &Value) -> Option<i32> {
    spec.types.iter().copied().find(|&wire| match value {
        Value::Tensor(_) | Value::Tensors(_) => wire == attribute_type::BACKEND_DESCRIPTOR && spec.access.is_some(),
        Value::Integers(_) if wire == attribute_type::INT64 => true,
        Value::Integers(list) => wire == attribute_type::INT32 && list.iter().all(|&v| i32::try_from(v).is_ok()),
        Value::Floats(_) => wire == attribute_type::FLOAT,
        Value::Doubles(_) => wire == attribute_type::DOUBLE,
        Value::Flag(_) => wire == attribute_type::BOOLEAN,
        Value::DataType(data_type) => wire == attribute_type::DATA_TYPE && data_type.bytes().is_some(),
        Value::Enumeration(number) => {
            wire != attribute_type::DATA_TYPE
                && hipdnn_abi::values_of(wire).is_some_and(|values| hipdnn_abi::name_in(values, *number).is_some())
        }
        Value::Text(text) => wire == attribute_type::CHAR && !text.contains('\0'),
    })
}

#[cfg(test)]
mod tests;
