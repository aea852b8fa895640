//! Operation graphs as received from a translator: untrusted. [`crate::validate`] turns them into something that may be lowered.

use serde::{Deserialize, Serialize};

use crate::data_type::DataType;

/// A tensor of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// Names the tensor; unique once validated.
    pub uid: i64,
    /// Element type.
    pub data_type: DataType,
    /// Lengths.
    pub dims: Vec<i64>,
    /// Distances in elements.
    pub strides: Vec<i64>,
    /// Lives only between operations.
    pub is_virtual: bool,
    /// A constant's bytes.
    pub value: Option<Vec<u8>>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// The uid of a tensor.
    Tensor(i64),
    /// The uids of several.
    Tensors(Vec<i64>),
    /// 64-bit (or, where the ABI says so, 32-bit) integers.
    Integers(Vec<i64>),
    /// Single-precision numbers.
    Floats(Vec<f32>),
    /// Double-precision numbers.
    Doubles(Vec<f64>),
    /// A boolean.
    Flag(bool),
    /// An element type.
    DataType(DataType),
    /// A value of one of the backend's enums.
    Enumeration(i32),
    /// Text.
    Text(String),
}

/// One attribute of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// The backend's number.
    pub number: i32,
    /// Its value.
    pub value: Value,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The backend's descriptor type.
    pub operation: i32,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// What a graph does with an argument of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// Which argument of the MIOpen call a tensor lives in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// The tensor.
    pub uid: i64,
    /// Position among the call's arguments.
    pub argument: u32,
    /// What happens to it.
    pub access: Access,
}

/// A graph as the translator gave it. Nothing about it may be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceivedGraph {
    /// Tensors.
    pub tensors: Vec<Tensor>,
    /// Operations.
    pub nodes: Vec<Node>,
    /// Type that results are formed in.
    pub compute_type: Option<DataType>,
    /// Type of virtual tensors.
    pub intermediate_type: Option<DataType>,
    /// Type of the graph's inputs and outputs.
    pub io_type: Option<DataType>,
    /// Where tensors live.
    pub bindings: Vec<Binding>,
    /// Ids of notes of the manifest.
    pub notes: Vec<String>,
}

/// Why a translator declined, as it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedDecline {
    /// Id of a rule.
    pub rule: String,
    /// The offending values.
    pub message: String,
}
