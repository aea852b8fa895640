//! Where the elements of a tensor lie: what makes it safe to walk through its memory is proved here, once for all operations. Which
//! tensors an operation takes is its own business.

use std::sync::Arc;

use super::Refusal;
use crate::graph::Tensor;

/// What everything that looks at graphs answers.
pub(super) type Checked<T> = std::result::Result<T, Refusal>;

/// A tensor in memory.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) uid: i64,
    pub(super) data_type: i32,
    /// What its address is a multiple of, in bytes.
    pub(super) alignment: usize,
    /// In elements. Nobody ever walks along a dimension of size 1, whose stride may be anything, so it is 0.
    pub(super) strides: Vec<usize>,
    /// From its first element to the end of its last one.
    pub(super) bytes: usize,
}

impl Layout {
    /// Also proves that offsets of all elements, in bytes, are addressable. Strides of 0 repeat elements, which only inputs may.
    pub(super) fn new(tensor: &Tensor) -> Checked<Self> {
        let refuse = || format!("tensor {} has dimensions {:?} and strides {:?}", tensor.uid, tensor.dims, tensor.strides);
        let dims = dims(tensor)?;
        let strides = sizes(&tensor.strides, 0).filter(|strides| strides.len() == dims.len()).ok_or_else(refuse)?;
        let reach = dims.iter().zip(&strides).try_fold(1usize, |sum, (dim, stride)| stride.checked_mul(dim - 1)?.checked_add(sum));
        let bytes = hipdnn_abi::data_type_bytes(tensor.data_type).and_then(|bytes| reach?.checked_mul(bytes));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(refuse)?;
        let strides = dims.iter().zip(strides).map(|(&dim, stride)| if dim == 1 { 0 } else { stride }).collect();
        let alignment = usize::try_from(tensor.alignment).unwrap_or(1);
        Ok(Self { uid: tensor.uid, data_type: tensor.data_type, alignment, strides, bytes })
    }
}

/// The tensor with this unique id.
pub(super) fn find(tensors: &[Arc<Tensor>], uid: i64) -> Option<&Tensor> {
    tensors.iter().find(|tensor| tensor.uid == uid).map(AsRef::as_ref)
}

/// As sizes, if none is below `least`.
pub(super) fn sizes(values: &[i64], least: i64) -> Option<Vec<usize>> {
    values.iter().map(|&value| usize::try_from(value).ok().filter(|_| value >= least)).collect()
}

/// The dimensions, none of which is empty.
pub(super) fn dims(tensor: &Tensor) -> Checked<Vec<usize>> {
    sizes(&tensor.dims, 1).ok_or_else(|| format!("tensor {} has dimensions {:?}", tensor.uid, tensor.dims))
}

/// Sufficient, and necessary for every layout that nests its dimensions: in order of strides, each clears all that lies inside it.
pub(super) fn without_overlap(tensor: &Tensor) -> Option<()> {
    let mut order: Vec<(i64, i64)> = tensor.strides.iter().copied().zip(tensor.dims.iter().copied()).filter(|(_, dim)| *dim != 1).collect();
    order.sort_unstable();
    let mut reach = 0i64;
    for (stride, dim) in order {
        if stride <= reach {
            return None;
        }
        reach = stride.checked_mul(dim.checked_sub(1)?)?.checked_add(reach)?;
    }
    Some(())
}
