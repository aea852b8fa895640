//! What all families ask of a tensor descriptor: types, dimensions, strides, layouts. Checks here, the rules made of them in [`rules`].

pub mod rules;

use alloc::{format, string::String, vec::Vec};

use crate::contract::graph::{Capabilities, DataType, TensorDescriptor};

/// The most elements between the first and the last one of a tensor: addresses of 16-byte elements then stay far from overflow.
pub const MAX_EXTENT: i64 = 1 << 58;

/// A tensor under the name that messages call it by.
pub type Named<'a> = (&'static str, &'a TensorDescriptor);

/// "x f32 [1, 2] strides [2, 1]"-like text for messages.
pub fn show((name, tensor): Named<'_>) -> String {
    format!("{name} dims {:?} strides {:?}", tensor.dims, tensor.strides)
}

/// A vectorised layout: hipDNN has scalar elements only.
pub fn vectorized((name, tensor): Named<'_>) -> Option<String> {
    (tensor.vector_length != 1).then(|| format!("{name} has vectors of {} elements (layout {:?})", tensor.vector_length, tensor.layout))
}

/// A type that hipDNN has no counterpart for.
pub fn without_counterpart((name, tensor): Named<'_>) -> Option<String> {
    matches!(tensor.data_type, DataType::Int8x4 | DataType::Unrecognized).then(|| format!("{name} is {:?}", tensor.data_type))
}

/// A type that this backend does not have, or whose number differs between its versions.
pub fn beyond_backend((name, tensor): Named<'_>, capabilities: &Capabilities) -> Option<String> {
    (!capabilities.data_types.contains(&tensor.data_type))
        .then(|| format!("{name} is {:?}, which backend {} does not offer", tensor.data_type, version(capabilities)))
}

/// A cast that changes the type in which elements enter the computation.
pub fn cast((name, tensor): Named<'_>) -> Option<String> {
    let cast = tensor.cast_type.filter(|cast| *cast != tensor.data_type)?;
    Some(format!("{name} is {:?}, cast to {cast:?}", tensor.data_type))
}

/// A dimension of no or negative length, or lengths and strides that do not pair up.
pub fn without_elements(named: Named<'_>) -> Option<String> {
    let (_, tensor) = named;
    let empty = tensor.dims.is_empty() || tensor.dims.len() != tensor.strides.len() || tensor.dims.iter().any(|&d| d <= 0);
    empty.then(|| show(named))
}

/// A stride that is zero or negative.
pub fn stride_not_positive(named: Named<'_>) -> Option<String> {
    named.1.strides.iter().any(|&s| s <= 0).then(|| show(named))
}

/// Elements further apart than [`MAX_EXTENT`].
pub fn too_far_apart(named: Named<'_>) -> Option<String> {
    let extent = extent(named.1);
    extent.is_none_or(|e| e > MAX_EXTENT).then(|| show(named))
}

/// The number of elements from the first to the last, both included, or `None` if that does not fit.
pub fn extent(tensor: &TensorDescriptor) -> Option<i64> {
    tensor.dims.iter().zip(&tensor.strides).try_fold(1i64, |sum, (&dim, &stride)| dim.checked_sub(1)?.checked_mul(stride)?.checked_add(sum))
}

/// Two elements that may lie on top of each other. Sufficient, not necessary: with dimensions ordered by stride, each stride must
/// exceed what all smaller ones together can reach; every layout that packs, pads or slices does.
pub fn may_overlap(named: Named<'_>) -> Option<String> {
    let mut axes: Vec<(i64, i64)> = named.1.dims.iter().zip(&named.1.strides).filter(|(d, _)| **d > 1).map(|(&d, &s)| (s, d)).collect();
    axes.sort_unstable();
    let mut reach = 0i64;
    for (stride, dim) in axes {
        if stride <= reach {
            return Some(show(named));
        }
        reach = reach.saturating_add((dim - 1).saturating_mul(stride));
    }
    None
}

/// Strides without gaps, with dimensions in the order that a tensor's own strides have; its own where they leave none. Lengths are
/// positive.
pub fn packed_like(tensor: &TensorDescriptor) -> Vec<i64> {
    let elements = tensor.dims.iter().fold(1i64, |product, &dim| product.saturating_mul(dim));
    if extent(tensor) == Some(elements) && may_overlap(("", tensor)).is_none() {
        return tensor.strides.clone();
    }
    let mut inner: Vec<(i64, usize)> = tensor.strides.iter().copied().zip(0..).collect();
    // Of equal strides the later dimension lies inside.
    inner.sort_unstable_by_key(|&(stride, axis)| (stride, core::cmp::Reverse(axis)));
    let mut strides = tensor.strides.clone();
    let mut next = 1i64;
    for (_, axis) in inner {
        if let (Some(stride), Some(&dim)) = (strides.get_mut(axis), tensor.dims.get(axis)) {
            *stride = next;
            next = next.saturating_mul(dim);
        }
    }
    strides
}

/// The backend's version, for messages.
pub fn version(capabilities: &Capabilities) -> &str {
    if capabilities.backend_version.is_empty() { "of unknown version" } else { &capabilities.backend_version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &[i64], strides: &[i64]) -> TensorDescriptor {
        TensorDescriptor {
            data_type: DataType::Float,
            cast_type: None,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            vector_length: 1,
            layout: None,
        }
    }

    #[test]
    fn overlap_is_seen_and_gaps_are_not_overlap() {
        assert_eq!(may_overlap(("y", &tensor(&[2, 3], &[3, 1]))), None);
        assert_eq!(may_overlap(("y", &tensor(&[2, 3], &[8, 2]))), None);
        assert_eq!(may_overlap(("y", &tensor(&[2, 3], &[1, 2]))), None);
        assert!(may_overlap(("y", &tensor(&[2, 3], &[2, 1]))).is_some());
        assert!(may_overlap(("y", &tensor(&[2, 2], &[1, 1]))).is_some());
        assert_eq!(may_overlap(("y", &tensor(&[1, 2], &[1, 1]))), None);
    }

    #[test]
    fn packing_keeps_the_order() {
        assert_eq!(packed_like(&tensor(&[2, 3, 4], &[12, 4, 1])), [12, 4, 1], "packed");
        assert_eq!(packed_like(&tensor(&[2, 1, 4], &[4, 7, 1])), [4, 7, 1], "packed, whatever single elements say");
        assert_eq!(packed_like(&tensor(&[2, 3, 4], &[40, 8, 2])), [12, 4, 1]);
        assert_eq!(packed_like(&tensor(&[2, 3, 4, 5], &[80, 1, 20, 4])), [60, 1, 15, 3], "channel last");
        assert_eq!(packed_like(&tensor(&[1, 2, 3], &[1, 9, 9])), [1, 3, 1], "a single element's stride means nothing");
        assert_eq!(packed_like(&tensor(&[3, 3], &[2, 2])), [3, 1], "as far apart as if packed");
        assert_eq!(packed_like(&tensor(&[i64::MAX, i64::MAX], &[1, 2])), [1, i64::MAX]);
    }

    #[test]
    fn extents_are_checked_arithmetic() {
        assert_eq!(extent(&tensor(&[2, 3], &[3, 1])), Some(6));
        assert_eq!(extent(&tensor(&[i64::MAX, 2], &[i64::MAX, 1])), None);
        assert!(too_far_apart(("x", &tensor(&[2, 1], &[i64::MAX, 1]))).is_some());
        assert!(too_far_apart(("x", &tensor(&[2; 4], &[8, 4, 2, 1]))).is_none());
    }
}
