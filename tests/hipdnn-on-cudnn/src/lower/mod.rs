//! hipDNN's graphs as cuDNN's, as data: what has another number or another form there. No library is called here.
//!
//! * cuDNN wants images of at least two spatial dimensions: a third-last one of length 1 is put before the only one of others.
//! * A scale of the result and what is added of the old result (alpha and beta), which hipDNN says in pointwise operations, are attributes of
//!   cuDNN's convolution: see `scaling`.
//! * Constants are by-value tensors with an address on the host.

mod scaling;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hipdnn_abi::{attribute, data_type, descriptor_type};
use hipdnn_backend::graph::{Graph, Node, Setting, Tensor as GraphTensor};

use self::scaling::Scaling;
use crate::cudnn::numbers::{data_type_of, kind, parameter_of, pointwise_of};

/// Why cuDNN is not asked.
pub type Refusal = String;

/// The least and the greatest rank of a tensor.
const MIN_RANK: usize = 4;
const MAX_RANK: usize = 5;

/// A graph as cuDNN sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// Every tensor of an operation once.
    pub tensors: Vec<Tensor>,
    /// In order.
    pub operations: Vec<Operation>,
    /// The unique ids of tensors that an execution needs an address for, in the order of [`Lowered::tensors`].
    pub arguments: Vec<i64>,
    /// The values of by-value tensors.
    pub constants: Vec<Constant>,
    /// What must be moved before the operations run.
    pub copies: Vec<Copy>,
}

/// One tensor; numbers are cuDNN's.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of cuDNN's attributes")]
pub struct Tensor {
    pub uid: i64,
    pub data_type: i32,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub is_virtual: bool,
    pub by_value: bool,
    pub alignment: i64,
}

/// One operation; tensors by unique id, numbers are cuDNN's.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of cuDNN's attributes")]
pub enum Operation {
    Convolution {
        kind: i32,
        x: i64,
        w: i64,
        y: i64,
        compute: i32,
        mode: i32,
        pre_paddings: Vec<i64>,
        post_paddings: Vec<i64>,
        strides: Vec<i64>,
        dilations: Vec<i64>,
        alpha: f64,
        beta: f64,
    },
    Pointwise {
        mode: i32,
        compute: i32,
        x: i64,
        b: Option<i64>,
        y: i64,
        parameters: Vec<(i32, f32)>,
    },
}

/// The value of a by-value tensor, aligned for every type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16))]
pub struct Constant {
    /// As on the wire.
    pub bytes: [u8; 8],
    /// Whose value it is.
    pub uid: i64,
}

/// An old result that a caller may have somewhere else than where the new one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where it is.
    pub from: i64,
    /// Where cuDNN expects it.
    pub to: i64,
    /// From its first to behind its last element.
    pub bytes: usize,
}

/// What a graph is in cuDNN's words, or why it has none.
pub fn lower(graph: &Graph) -> Result<Lowered, Refusal> {
    if graph.override_shapes {
        return Err("shapes that are overridden".into());
    }
    let scaling = Scaling::of(graph);
    check_bytes(graph)?;
    let nodes = if scaling.is_some() { &graph.nodes[..1] } else { &graph.nodes[..] };
    let rank = graph.tensors.iter().map(|tensor| tensor.dims.len()).max().unwrap_or(0);
    let operations = nodes.iter().map(|node| operation(node, scaling.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let uses = |uid: i64| operations.iter().any(|operation| operation.uses(uid));
    let used: Vec<&Arc<GraphTensor>> = graph.tensors.iter().filter(|tensor| uses(tensor.uid)).collect();
    let constant = |tensor: &&Arc<GraphTensor>| {
        let value = tensor.value.as_ref()?;
        let mut bytes = [0; 8];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Constant { bytes, uid: tensor.uid })
    };
    Ok(Lowered {
        tensors: used.iter().map(|tensor| lower_tensor(tensor, rank)).collect::<Result<_, _>>()?,
        arguments: used.iter().filter(|tensor| tensor.needs_pointer()).map(|tensor| tensor.uid).collect(),
        constants: used.iter().filter_map(constant).collect(),
        copies: scaling.and_then(|scaling| scaling.copy).into_iter().collect(),
        operations,
    })
}

/// cuDNN documents products of bytes only where channels are innermost, and gives wrong results elsewhere (seen with 9.19), so it is not
/// asked.
fn check_bytes(graph: &Graph) -> Result<(), Refusal> {
    let bytes = graph.tensors.iter().filter(|tensor| tensor.data_type == data_type::INT8 && tensor.dims.len() > 2);
    let mut planes = bytes.filter(|tensor| tensor.dims[1] > 1 && tensor.strides[1] != 1);
    planes.next().map_or(Ok(()), |tensor| Err(format!("bytes in planes: tensor {}", tensor.uid)))
}

impl Operation {
    fn uses(&self, uid: i64) -> bool {
        match self {
            Self::Convolution { x, w, y, .. } => [x, w, y].contains(&&uid),
            Self::Pointwise { x, b, y, .. } => *x == uid || *b == Some(uid) || *y == uid,
        }
    }
}

fn lower_tensor(tensor: &GraphTensor, rank: usize) -> Result<Tensor, Refusal> {
    let uid = tensor.uid;
    if tensor.ragged_offsets.is_some() {
        return Err(format!("tensor {uid} is ragged"));
    }
    if tensor.dims.iter().chain(&tensor.strides).any(|&number| number < 0) || tensor.dims.contains(&0) {
        return Err(format!("tensor {uid} has dimensions {:?} and strides {:?}", tensor.dims, tensor.strides));
    }
    if tensor.dims.len() > MAX_RANK {
        return Err(format!("tensor {uid} has {} dimensions", tensor.dims.len()));
    }
    let (mut dims, mut strides) = (tensor.dims.clone(), tensor.strides.clone());
    // One number goes with tensors of every rank.
    let number = dims.iter().all(|&dim| dim == 1);
    while dims.len() < rank.max(MIN_RANK) {
        if !(number || dims.len() + 1 == MIN_RANK) {
            return Err(format!("tensor {uid} has {} dimensions", dims.len()));
        }
        let place = dims.len().min(2);
        let stride = dims.get(place).zip(strides.get(place)).map_or(Some(1), |(dim, stride)| dim.checked_mul(*stride));
        strides.insert(place, stride.ok_or_else(|| format!("tensor {uid} is larger than memory"))?);
        dims.insert(place, 1);
    }
    Ok(Tensor {
        uid,
        data_type: number_of(tensor.data_type)?,
        dims,
        strides,
        is_virtual: tensor.is_virtual,
        by_value: tensor.value.is_some() || tensor.runtime_by_value,
        alignment: tensor.alignment,
    })
}

fn number_of(data_type: i32) -> Result<i32, Refusal> {
    data_type_of(data_type).ok_or_else(|| format!("data type {data_type}"))
}

fn operation(node: &Node, scaling: Option<&Scaling>) -> Result<Operation, Refusal> {
    use attribute as a;
    use descriptor_type as k;
    let convolution = |kind, tensors| convolution(node, kind, tensors, scaling);
    match node.kind {
        k::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => convolution(
            kind::OPERATION_CONVOLUTION_FORWARD,
            [a::OPERATION_CONVOLUTION_FORWARD_X, a::OPERATION_CONVOLUTION_FORWARD_W, a::OPERATION_CONVOLUTION_FORWARD_Y],
        ),
        k::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => convolution(
            kind::OPERATION_CONVOLUTION_BACKWARD_DATA,
            [a::OPERATION_CONVOLUTION_BWD_DATA_DX, a::OPERATION_CONVOLUTION_BWD_DATA_W, a::OPERATION_CONVOLUTION_BWD_DATA_DY],
        ),
        k::BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => convolution(
            kind::OPERATION_CONVOLUTION_BACKWARD_FILTER,
            [a::OPERATION_CONVOLUTION_BWD_FILTER_X, a::OPERATION_CONVOLUTION_BWD_FILTER_DW, a::OPERATION_CONVOLUTION_BWD_FILTER_DY],
        ),
        k::BACKEND_OPERATION_POINTWISE_DESCRIPTOR => pointwise(node),
        other => Err(format!("an operation of kind {other}")),
    }
}

fn convolution(node: &Node, kind: i32, tensors: [i32; 3], scaling: Option<&Scaling>) -> Result<Operation, Refusal> {
    let [x, w, y] = tensors.map(|number| node.tensor(number).ok_or_else(|| format!("no tensor {number}")));
    let [mut x, mut w, mut y] = [x?, w?, y?];
    if let Some(scaling) = scaling {
        for uid in [&mut x, &mut w, &mut y].into_iter().filter(|uid| **uid == scaling.convolved) {
            *uid = scaling.result;
        }
    }
    let (alpha, beta) = scaling.map_or((1.0, 0.0), |scaling| (scaling.alpha, scaling.beta));
    // cuDNN takes such numbers, and then fails to execute (seen with 9.19).
    if !(alpha.is_finite() && beta.is_finite()) {
        return Err(format!("a convolution scaled by {alpha} and {beta}"));
    }
    // Some of its engines leave a part of the result unwritten then (seen with 9.19).
    let paddings = |number| node.int64s(number).unwrap_or_default();
    if paddings(attribute::CONVOLUTION_PRE_PADDINGS) != paddings(attribute::CONVOLUTION_POST_PADDINGS) {
        return Err("paddings that differ before and behind".into());
    }
    // The dimension that images with one spatial dimension are given.
    let spatial = |number, neutral| {
        let values = node.int64s(number).unwrap_or_default();
        if values.len() == 1 { vec![neutral, values[0]] } else { values.to_vec() }
    };
    Ok(Operation::Convolution {
        kind,
        x,
        w,
        y,
        compute: number_of(node.enumeration(attribute::CONVOLUTION_COMP_TYPE).unwrap_or(-1))?,
        // Both say 0 for convolution and 1 for cross-correlation.
        mode: node.enumeration(attribute::CONVOLUTION_CONV_MODE).unwrap_or(-1),
        pre_paddings: spatial(attribute::CONVOLUTION_PRE_PADDINGS, 0),
        post_paddings: spatial(attribute::CONVOLUTION_POST_PADDINGS, 0),
        strides: spatial(attribute::CONVOLUTION_FILTER_STRIDES, 1),
        dilations: spatial(attribute::CONVOLUTION_DILATIONS, 1),
        alpha,
        beta,
    })
}

fn pointwise(node: &Node) -> Result<Operation, Refusal> {
    let tensor = |number| node.tensor(number);
    let mode = node.enumeration(attribute::POINTWISE_MODE).unwrap_or(-1);
    if tensor(attribute::OPERATION_POINTWISE_IN_2_EXT).is_some() || node.settings.contains_key(&attribute::POINTWISE_AXIS) {
        return Err(format!("pointwise mode {mode} with a third operand or an axis"));
    }
    let parameter = |(number, setting): (&i32, &Setting)| match (parameter_of(*number), setting) {
        (Some(number), Setting::Float(values)) => values.first().map(|&value| (number, value)),
        _ => None,
    };
    Ok(Operation::Pointwise {
        mode: pointwise_of(mode).ok_or_else(|| format!("pointwise mode {mode}"))?,
        compute: number_of(node.enumeration(attribute::POINTWISE_MATH_PREC).unwrap_or(-1))?,
        x: tensor(attribute::OPERATION_POINTWISE_IN_0_EXT).ok_or("a pointwise operation without input")?,
        b: tensor(attribute::OPERATION_POINTWISE_IN_1_EXT),
        y: tensor(attribute::OPERATION_POINTWISE_OUT_0_EXT).ok_or("a pointwise operation without output")?,
        parameters: node.settings.iter().filter_map(parameter).collect(),
    })
}
