//! What setters leave behind. Each runs after native's own setter, and only success is recorded; after a failure, or for values that
//! cannot be recorded, the object has no record, and calls that use it go to native.

use std::ffi::c_void;

use hipdnn_host::problem::{ConvolutionDescriptor, ConvolutionFields, DescriptorError, MAX_RANK, TensorDescriptor, TensorLayout};

use crate::{convert, frame::Frame, routing::Forwarding, stubs};

/// Reads `length` values from an array of the caller, which native has just read itself.
fn read<T: Copy>(array: *const c_void, length: usize) -> Option<Vec<T>> {
    if array.is_null() || length > MAX_RANK {
        return None;
    }
    // SAFETY: native accepted the array with this length.
    Some(unsafe { std::slice::from_raw_parts(array.cast::<T>(), length) }.to_vec())
}

fn wide(values: Vec<i32>) -> Vec<i64> {
    values.into_iter().map(i64::from).collect()
}

/// Values of `size_t` that do not fit are no lengths or strides of anything.
fn narrow(values: Vec<usize>) -> Option<Vec<i64>> {
    values.into_iter().map(|v| i64::try_from(v).ok()).collect()
}

fn packed(dims: &[i64]) -> Vec<i64> {
    convert::packed_strides(dims, &convert::axis_order(TensorLayout::Nchw, dims.len()), 1)
}

fn keep_tensor(frame: &Frame, forwarding: &Forwarding, record: Option<Result<TensorDescriptor, DescriptorError>>) {
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
pub fn set_4d_tensor(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let dims: [i64; 4] = std::array::from_fn(|i| i64::from(frame.int(2 + i)));
    keep_tensor(frame, forwarding, success.then(|| plain(frame.int(1), &dims, &packed(&dims))));
}

/// `miopenSet4dTensorDescriptorEx(desc, type, n, c, h, w, four strides)`.
pub fn set_4d_tensor_ex(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let dims: [i64; 4] = std::array::from_fn(|i| i64::from(frame.int(2 + i)));
    let strides: [i64; 4] = std::array::from_fn(|i| i64::from(frame.int(6 + i)));
    keep_tensor(frame, forwarding, success.then(|| plain(frame.int(1), &dims, &strides)));
}

/// `miopenSetTensorDescriptor(desc, type, rank, dims, strides or null)`.
pub fn set_tensor(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = |n| read::<i32>(frame.pointer(n), usize::try_from(frame.int(2)).unwrap_or(usize::MAX)).map(wide);
    keep_strided(frame, forwarding, success, values);
}

/// `miopenSetTensorDescriptorV2`: the same with `size_t`.
pub fn set_tensor_v2(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = |n| read::<usize>(frame.pointer(n), usize::try_from(frame.int(2)).unwrap_or(usize::MAX)).and_then(narrow);
    keep_strided(frame, forwarding, success, values);
}

fn keep_strided(frame: &Frame, forwarding: &Forwarding, success: bool, values: impl Fn(usize) -> Option<Vec<i64>>) {
    let record = if success { values(3) } else { None }.and_then(|dims| {
        let strides = if frame.pointer(4).is_null() { packed(&dims) } else { values(4)? };
        Some(plain(frame.int(1), &dims, &strides))
    });
    keep_tensor(frame, forwarding, record);
}

/// `miopenSetNdTensorDescriptorWithLayout(desc, type, layout, dims, rank)`. Vectorised layouts count channels in vectors.
pub fn set_tensor_with_layout(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let layout = convert::layout(frame.int(2));
    let vector = convert::vector_length(layout);
    let dims = if success { read::<i32>(frame.pointer(3), usize::try_from(frame.int(4)).unwrap_or(usize::MAX)) } else { None };
    let record = dims.map(wide).filter(|dims| dims.len() >= 2).map(|mut dims| {
        dims[1] /= vector;
        let strides = convert::packed_strides(&dims, &convert::axis_order(layout, dims.len()), vector);
        TensorDescriptor::new(convert::data_type(frame.int(1)), None, &dims, &strides, vector as u32, Some(layout))
    });
    keep_tensor(frame, forwarding, record);
}

/// `miopenSetTensorCastType(desc, type)`.
pub fn set_tensor_cast_type(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let address = frame.integer(0) as usize;
    let cast = convert::data_type(frame.int(1));
    let changed = forwarding.records.tensors.pin().get(&address).map(|record| record.with_cast_type(cast));
    keep_tensor(frame, forwarding, changed.filter(|_| success).map(Ok));
}

fn keep_convolution(frame: &Frame, forwarding: &Forwarding, fields: Option<ConvolutionFields>) {
    let convolutions = forwarding.records.convolutions.pin();
    let address = frame.integer(0) as usize;
    match fields.map(ConvolutionDescriptor::new) {
        Some(Ok(record)) => drop(convolutions.insert(address, record)),
        Some(Err(_)) | None => drop(convolutions.remove(&address)),
    }
}

/// Edits the recorded fields, if there are any.
fn edit_convolution(frame: &Frame, forwarding: &Forwarding, success: bool, edit: impl FnOnce(&mut ConvolutionFields)) {
    let known = forwarding.records.convolutions.pin().get(&(frame.integer(0) as usize)).map(|record| record.fields().clone());
    let edited = known.filter(|_| success).map(|mut fields| {
        edit(&mut fields);
        fields
    });
    keep_convolution(frame, forwarding, edited);
}

/// `miopenInitConvolutionDescriptor(desc, mode, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w)`.
pub fn init_convolution(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let pair = |n| vec![i64::from(frame.int(n)), i64::from(frame.int(n + 1))];
    keep_convolution(
        frame,
        forwarding,
        success.then(|| ConvolutionFields::initial(convert::mode(frame.int(1)), pair(2), pair(4), pair(6))),
    );
}

/// `miopenInitConvolutionNdDescriptor(desc, spatial rank, pads, strides, dilations, mode)`.
pub fn init_convolution_nd(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = |n| read::<i32>(frame.pointer(n), usize::try_from(frame.int(1)).unwrap_or(usize::MAX)).map(wide);
    let fields = || Some(ConvolutionFields::initial(convert::mode(frame.int(5)), values(2)?, values(3)?, values(4)?));
    keep_convolution(frame, forwarding, if success { fields() } else { None });
}

/// `miopenSetConvolutionGroupCount(desc, groups)`.
pub fn set_group_count(frame: &Frame, forwarding: &Forwarding, success: bool) {
    edit_convolution(frame, forwarding, success, |fields| fields.group_count = i64::from(frame.int(1)));
}

/// `miopenSetTransposeConvOutputPadding(desc, adj_h, adj_w)`.
pub fn set_output_padding(frame: &Frame, forwarding: &Forwarding, success: bool) {
    edit_convolution(frame, forwarding, success, |fields| fields.output_pads = vec![i64::from(frame.int(1)), i64::from(frame.int(2))]);
}

/// `miopenSetTransposeConvNdOutputPadding(desc, spatial rank, adj)`.
pub fn set_output_padding_nd(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = read::<i32>(frame.pointer(2), usize::try_from(frame.int(1)).unwrap_or(usize::MAX)).map(wide);
    edit_convolution(frame, forwarding, success && values.is_some(), |fields| fields.output_pads = values.unwrap_or_default());
}

/// `miopenSetConvolutionAttribute(desc, attribute, value)`.
pub fn set_attribute(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let (number, value) = (frame.int(1).cast_unsigned(), i64::from(frame.int(2)));
    edit_convolution(frame, forwarding, success, |fields| match fields.attributes.binary_search_by_key(&number, |(n, _)| *n) {
        Ok(position) => fields.attributes[position].1 = value,
        Err(position) => fields.attributes.insert(position, (number, value)),
    });
}

/// `miopenCreate(handle*)` and `miopenCreateWithStream(handle*, stream)`.
pub fn create_handle(frame: &Frame, forwarding: &Forwarding, success: bool, stream: *mut c_void) {
    if !success {
        return;
    }
    // SAFETY: native succeeded, so it wrote the handle there.
    let handle = unsafe { frame.pointer(0).cast::<usize>().read() };
    forwarding.records.handles.pin().insert(handle, forwarding.host.register(stream));
}

/// `miopenSetStream(handle, stream)`.
pub fn set_stream(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if let Some(state) = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)).filter(|_| success) {
        state.set_stream(frame.pointer(1));
    }
}

/// `miopenEnableProfiling(handle, enable)`. From then on every entry point is watched: only so is it known whose time the last one is.
pub fn enable_profiling(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let enabled = frame.integer(1) as u8 != 0;
    let handles = forwarding.records.handles.pin();
    if let Some(state) = handles.get(&(frame.integer(0) as usize)).filter(|_| success) {
        state.set_profiling(enabled);
        if let Some(bound) = stubs::bound().filter(|_| enabled) {
            bound.watch_everything();
        }
    }
}

/// `miopenDestroy(handle)`: before native frees the address, which the next handle may get.
pub fn destroy_handle(frame: &Frame, forwarding: &Forwarding) {
    let state = forwarding.records.handles.pin().remove(&(frame.integer(0) as usize)).cloned();
    if let Some(state) = state {
        forwarding.host.retire(&state);
    }
}

/// A tensor descriptor is destroyed, or about to be changed by something that says nothing about the result.
pub fn forget_tensor(forwarding: &Forwarding, address: u64) {
    forwarding.records.tensors.pin().remove(&(address as usize));
}

/// `miopenDestroyConvolutionDescriptor(desc)`.
pub fn forget_convolution(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.convolutions.pin().remove(&(frame.integer(0) as usize));
}
