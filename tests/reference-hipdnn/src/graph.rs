//! Operation graphs as data, immutable: what executors see. No descriptor, handle or pointer in here.
//!
//! Also their form as bytes, which plans are saved with. A graph read from bytes is as well-formed as one built from descriptors.

use std::{collections::BTreeMap, sync::Arc};

use hipdnn_abi::Access;

use crate::{
    bytes::{Reader, Writer},
    error::{Error, Result},
};

/// Bytes that a tensor's address must be a multiple of, if nobody says otherwise.
pub const DEFAULT_ALIGNMENT: i64 = 16;

/// One tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tensor {
    /// Unique within the graph.
    pub uid: i64,
    /// For people.
    pub name: Vec<u8>,
    /// `hipdnnDataType_t`.
    pub data_type: i32,
    /// N, C, then spatial. Not checked: engines decide what they take.
    pub dims: Vec<i64>,
    /// In elements; as many as there are dimensions.
    pub strides: Vec<i64>,
    /// Lives only between operations of the graph.
    pub is_virtual: bool,
    /// The bytes of a constant.
    pub value: Option<Vec<u8>>,
    /// A scalar whose pointer is a host pointer.
    pub runtime_by_value: bool,
    /// What its address is a multiple of, in bytes.
    pub alignment: i64,
    /// The tensor with the offsets of a ragged one.
    pub ragged_offsets: Option<i64>,
    /// What those offsets count.
    pub ragged_multiplier: i64,
}

impl Tensor {
    /// Whether an execution needs a pointer for it.
    pub fn needs_pointer(&self) -> bool {
        !self.is_virtual && self.value.is_none()
    }
}

/// An attribute of a node that is no tensor.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the wire types")]
pub enum Setting {
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Bytes(Vec<u8>),
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// `hipdnnBackendDescriptorType_t`.
    pub kind: i32,
    /// Tensor attributes: number → unique ids.
    pub tensors: BTreeMap<i32, Vec<i64>>,
    /// All other attributes by number.
    pub settings: BTreeMap<i32, Setting>,
}

impl Node {
    /// The unique id of a tensor attribute that takes one tensor.
    pub fn tensor(&self, number: i32) -> Option<i64> {
        self.tensors.get(&number).and_then(|uids| uids.first().copied())
    }

    /// The tensors that it reads or writes, as the ABI says.
    pub fn accesses(&self, access: Access) -> impl Iterator<Item = i64> {
        let spec = hipdnn_abi::descriptor(self.kind);
        let wanted =
            move |number: i32| spec.and_then(|spec| spec.attribute(number)).is_some_and(|attribute| attribute.access == Some(access));
        self.tensors.iter().filter(move |(number, _)| wanted(**number)).flat_map(|(_, uids)| uids.iter().copied())
    }

    /// A list of integers.
    pub fn int64s(&self, number: i32) -> Option<&[i64]> {
        if let Some(Setting::Int64(values)) = self.settings.get(&number) { Some(values) } else { None }
    }

    /// A float.
    pub fn float(&self, number: i32) -> Option<f32> {
        if let Some(Setting::Float(values)) = self.settings.get(&number) { values.first().copied() } else { None }
    }

    /// A number of an enum.
    pub fn enumeration(&self, number: i32) -> Option<i32> {
        if let Some(Setting::Int32(values)) = self.settings.get(&number) { values.first().copied() } else { None }
    }
}

/// A whole graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// For people.
    pub name: Vec<u8>,
    /// Default compute type.
    pub compute_type: Option<i32>,
    /// Default type of virtual tensors.
    pub intermediate_type: Option<i32>,
    /// Default type of the others.
    pub io_type: Option<i32>,
    /// Whether executions may override shapes.
    pub override_shapes: bool,
    /// Every tensor once, in the order of first use.
    pub tensors: Vec<Arc<Tensor>>,
    /// In the order given.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// The tensor with this unique id.
    pub fn tensor(&self, uid: i64) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.uid == uid).map(AsRef::as_ref)
    }

    /// Whether an operation writes the tensor.
    pub(crate) fn writes(&self, uid: i64) -> bool {
        self.nodes.iter().any(|node| node.accesses(Access::Write).any(|written| written == uid))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.bytes(&self.name);
        for data_type in [self.compute_type, self.intermediate_type, self.io_type] {
            out.option(data_type, Writer::i32);
        }
        out.u8(self.override_shapes.into());
        out.list(&self.tensors, |out, tensor| write_tensor(out, tensor));
        out.list(&self.nodes, write_node);
    }

    pub(crate) fn read(input: &mut Reader) -> Result<Self> {
        let graph = Self {
            name: input.bytes()?,
            compute_type: input.option(Reader::i32)?,
            intermediate_type: input.option(Reader::i32)?,
            io_type: input.option(Reader::i32)?,
            override_shapes: input.flag()?,
            tensors: input.list(|input| read_tensor(input).map(Arc::new))?,
            nodes: input.list(read_node)?,
        };
        graph.check()?;
        Ok(graph)
    }

    /// What descriptors guarantee for a graph that is built from them.
    fn check(&self) -> Result<()> {
        let mut uids: Vec<i64> = self.tensors.iter().map(|tensor| tensor.uid).collect();
        uids.sort_unstable();
        let repeated = uids.windows(2).any(|pair| pair[0] == pair[1]);
        let unknown = self.nodes.iter().flat_map(|node| node.tensors.values().flatten()).any(|uid| uids.binary_search(uid).is_err());
        if uids.is_empty() || self.nodes.is_empty() || repeated || unknown {
            return Err(Error::bad("a graph whose nodes and tensors do not fit together"));
        }
        Ok(())
    }
}

fn write_tensor(out: &mut Writer, tensor: &Tensor) {
    out.i64(tensor.uid);
    out.bytes(&tensor.name);
    out.i32(tensor.data_type);
    out.int64s(&tensor.dims);
    out.int64s(&tensor.strides);
    out.u8(tensor.is_virtual.into());
    out.option(tensor.value.as_deref(), Writer::bytes);
    out.u8(tensor.runtime_by_value.into());
    out.i64(tensor.alignment);
    out.option(tensor.ragged_offsets, Writer::i64);
    out.i64(tensor.ragged_multiplier);
}

fn read_tensor(input: &mut Reader) -> Result<Tensor> {
    let tensor = Tensor {
        uid: input.i64()?,
        name: input.bytes()?,
        data_type: input.i32()?,
        dims: input.int64s()?,
        strides: input.int64s()?,
        is_virtual: input.flag()?,
        value: input.option(Reader::bytes)?,
        runtime_by_value: input.flag()?,
        alignment: input.i64()?,
        ragged_offsets: input.option(Reader::i64)?,
        ragged_multiplier: input.i64()?,
    };
    let bytes = hipdnn_abi::data_type_bytes(tensor.data_type);
    let fits = !tensor.dims.is_empty()
        && tensor.dims.len() == tensor.strides.len()
        && tensor.value.as_ref().is_none_or(|value| bytes == Some(value.len()))
        && tensor.alignment > 0;
    if fits { Ok(tensor) } else { Err(Error::bad(format!("tensor {} is malformed", tensor.uid))) }
}

fn write_node(out: &mut Writer, node: &Node) {
    out.i32(node.kind);
    out.list(&node.tensors.iter().collect::<Vec<_>>(), |out, (number, uids)| {
        out.i32(**number);
        out.int64s(uids);
    });
    out.list(&node.settings.iter().collect::<Vec<_>>(), |out, (number, setting)| {
        out.i32(**number);
        write_setting(out, setting);
    });
}

fn read_node(input: &mut Reader) -> Result<Node> {
    let kind = input.i32()?;
    if !hipdnn_abi::descriptor(kind).is_some_and(|spec| spec.is_operation) {
        return Err(Error::bad(format!("{kind} is no operation")));
    }
    let tensors = input.list(|input| Ok((input.i32()?, input.int64s()?)))?.into_iter().collect();
    let settings = input.list(|input| Ok((input.i32()?, read_setting(input)?)))?.into_iter().collect();
    Ok(Node { kind, tensors, settings })
}

fn write_setting(out: &mut Writer, setting: &Setting) {
    match setting {
        Setting::Int64(values) => {
            out.u8(0);
            out.int64s(values);
        }
        Setting::Int32(values) => {
            out.u8(1);
            out.list(values, |out, &v| out.i32(v));
        }
        Setting::Float(values) => {
            out.u8(2);
            out.list(values, |out, v| out.i32(v.to_bits() as i32));
        }
        Setting::Double(values) => {
            out.u8(3);
            out.list(values, |out, v| out.i64(v.to_bits() as i64));
        }
        Setting::Bool(values) => {
            out.u8(4);
            out.list(values, |out, &v| out.u8(v.into()));
        }
        Setting::Bytes(bytes) => {
            out.u8(5);
            out.bytes(bytes);
        }
    }
}

fn read_setting(input: &mut Reader) -> Result<Setting> {
    Ok(match input.u8()? {
        0 => Setting::Int64(input.int64s()?),
        1 => Setting::Int32(input.list(Reader::i32)?),
        2 => Setting::Float(input.list(|input| input.i32().map(|bits| f32::from_bits(bits as u32)))?),
        3 => Setting::Double(input.list(|input| input.i64().map(|bits| f64::from_bits(bits as u64)))?),
        4 => Setting::Bool(input.list(Reader::flag)?),
        5 => Setting::Bytes(input.bytes()?),
        other => return Err(Error::bad(format!("{other} is no sort of setting"))),
    })
}
