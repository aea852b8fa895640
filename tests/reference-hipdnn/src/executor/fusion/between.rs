//! Virtual tensors: numbers of the graph's intermediate type, which is what the tensor says, in the workspace. They are packed, whatever
//! strides they were given, in the order of dimensions that the strides ask for.

use std::{collections::BTreeMap, sync::Arc};

use hipdnn_abi::data_type;

use super::{Arguments, Checked, layout};
use crate::graph::{Graph, Tensor};

/// What each of them is aligned to: a cache line. The caller's address promises nothing.
const ALIGNMENT: usize = 64;

/// Where virtual tensors are.
#[derive(Default)]
pub(super) struct Between {
    /// The tensors as they are in memory, and where, from the first aligned byte of the workspace.
    tensors: BTreeMap<i64, (Arc<Tensor>, usize)>,
    bytes: usize,
}

impl Between {
    pub(super) fn new(graph: &Graph) -> Checked<Self> {
        let mut between = Self::default();
        for tensor in graph.tensors.iter().filter(|tensor| tensor.is_virtual) {
            let offset = between.bytes;
            let bytes = bytes(tensor).and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT));
            let end = bytes.and_then(|bytes| offset.checked_add(bytes)).filter(|&end| end <= isize::MAX as usize);
            between.bytes = end.ok_or_else(|| format!("virtual tensor {} with dimensions {:?}", tensor.uid, tensor.dims))?;
            between.tensors.insert(tensor.uid, (packed(tensor)?.into(), offset));
        }
        Ok(between)
    }

    /// Bytes of workspace, alignment included. Nothing for nothing.
    pub(super) fn bytes(&self) -> usize {
        if self.bytes == 0 { 0 } else { self.bytes.saturating_add(ALIGNMENT - 1) }
    }

    /// All tensors of the graph, each with memory of its own.
    pub(super) fn ground(&self, graph: &Graph) -> Vec<Arc<Tensor>> {
        graph.tensors.iter().map(|tensor| self.tensors.get(&tensor.uid).map_or(tensor, |(packed, _)| packed).clone()).collect()
    }

    /// The addresses of an execution, with those of virtual tensors.
    pub(super) fn place(&self, arguments: &Arguments, workspace: *mut u8) -> Arguments {
        let start = workspace.expose_provenance().next_multiple_of(ALIGNMENT);
        arguments.with(self.tensors.iter().map(|(&uid, (_, offset))| (uid, start + offset)))
    }
}

fn bytes(tensor: &Tensor) -> Option<usize> {
    let size = hipdnn_abi::data_type_bytes(tensor.data_type)?;
    layout::sizes(&tensor.dims, 1)?.iter().try_fold(size, |bytes, &dim| bytes.checked_mul(dim))
}

fn packed(tensor: &Tensor) -> Checked<Tensor> {
    if ![data_type::FLOAT, data_type::DOUBLE].contains(&tensor.data_type) {
        return Err(format!("virtual tensor {} of data type {}: they are floats or doubles", tensor.uid, tensor.data_type));
    }
    if tensor.value.is_some() || tensor.runtime_by_value || tensor.ragged_offsets.is_some() {
        return Err(format!("virtual tensor {} is by value, or ragged", tensor.uid));
    }
    let mut order: Vec<usize> = (0..tensor.dims.len()).collect();
    order.sort_by_key(|&i| (tensor.strides.get(i).copied(), std::cmp::Reverse(i)));
    let mut strides = vec![1; tensor.dims.len()];
    let mut next = 1;
    for i in order {
        strides[i] = next;
        // Fits: it is at most the number of elements.
        next *= tensor.dims[i];
    }
    Ok(Tensor { is_virtual: false, strides, alignment: ALIGNMENT as i64, ..tensor.clone() })
}
