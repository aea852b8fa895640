//! Tensor descriptors.

use hipdnn_host::problem::{DescriptorError, TensorDescriptor, TensorLayout};

use super::{narrow, read, wide};
use crate::{convert, frame::Frame, routing::Forwarding};

fn packed(dims: &[i64]) -> Vec<i64> {
    convert::packed_strides(dims, &convert::axis_order(TensorLayout::Nchw, dims.len()), 1)
}

fn keep(frame: &Frame, forwarding: &Forwarding, record: Option<Result<TensorDescriptor, DescriptorError>>) {
    let tensors = forwarding.records.tensors.pin();
    let address = frame.integer(0) as usize;
    match record {
        Some(Ok(record)) => drop(tensors.insert(address, record)),
        Some(Err(_)) | None => drop(tensors.remove(&address)),
    }
}

fn plain(number: i32, dims: &[i64], strides: &[i64]) -> Result<TensorDescriptor, DescriptorError> {
    TensorDescriptor::new(convert::data_type(number), None, dims, strides, 1, None)
}

/// `miopenSet4dTensorDescriptor(desc, type, n, c, h, w)`.
pub fn set_4d(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let dims: [i64; 4] = std::array::from_fn(|i| i64::from(frame.int(2 + i)));
    keep(frame, forwarding, success.then(|| plain(frame.int(1), &dims, &packed(&dims))));
}

/// `miopenSet4dTensorDescriptorEx(desc, type, n, c, h, w, four strides)`.
pub fn set_4d_ex(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let dims: [i64; 4] = std::array::from_fn(|i| i64::from(frame.int(2 + i)));
    let strides: [i64; 4] = std::array::from_fn(|i| i64::from(frame.int(6 + i)));
    keep(frame, forwarding, success.then(|| plain(frame.int(1), &dims, &strides)));
}

/// `miopenSetTensorDescriptor(desc, type, rank, dims, strides or null)`.
pub fn set(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = |n| read::<i32>(frame.pointer(n), usize::try_from(frame.int(2)).unwrap_or(usize::MAX)).map(wide);
    keep_strided(frame, forwarding, success, values);
}

/// `miopenSetTensorDescriptorV2`: the same with `size_t`.
pub fn set_v2(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = |n| read::<usize>(frame.pointer(n), usize::try_from(frame.int(2)).unwrap_or(usize::MAX)).and_then(narrow);
    keep_strided(frame, forwarding, success, values);
}

fn keep_strided(frame: &Frame, forwarding: &Forwarding, success: bool, values: impl Fn(usize) -> Option<Vec<i64>>) {
    let record = if success { values(3) } else { None }.and_then(|dims| {
        let strides = if frame.pointer(4).is_null() { packed(&dims) } else { values(4)? };
        Some(plain(frame.int(1), &dims, &strides))
    });
    keep(frame, forwarding, record);
}

/// `miopenSetNdTensorDescriptorWithLayout(desc, type, layout, dims, rank)`. Vectorised layouts count channels in vectors.
pub fn set_with_layout(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let layout = convert::layout(frame.int(2));
    let vector = convert::vector_length(layout);
    let dims = if success { read::<i32>(frame.pointer(3), usize::try_from(frame.int(4)).unwrap_or(usize::MAX)) } else { None };
    let record = dims.map(wide).filter(|dims| dims.len() >= 2).map(|mut dims| {
        dims[1] /= vector;
        let strides = convert::packed_strides(&dims, &convert::axis_order(layout, dims.len()), vector);
        TensorDescriptor::new(convert::data_type(frame.int(1)), None, &dims, &strides, vector as u32, Some(layout))
    });
    keep(frame, forwarding, record);
}

/// `miopenSetTensorCastType(desc, type)`.
pub fn set_cast_type(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let address = frame.integer(0) as usize;
    let cast = convert::data_type(frame.int(1));
    let changed = forwarding.records.tensors.pin().get(&address).map(|record| record.with_cast_type(cast));
    keep(frame, forwarding, changed.filter(|_| success).map(Ok));
}

/// A tensor descriptor is destroyed, or about to be changed by something that says nothing about the result.
pub fn forget(forwarding: &Forwarding, address: u64) {
    forwarding.records.tensors.pin().remove(&(address as usize));
}
