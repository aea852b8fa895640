//! What setters leave behind. Each runs after native's own setter, and only success is recorded; after a failure, or for values that
//! cannot be recorded, the object has no record, and calls that use it go to native.

pub mod activations;
pub mod convolutions;
pub mod find2;
pub mod fusion;
pub mod handles;
pub mod tensors;

use std::ffi::c_void;

use hipdnn_host::problem::MAX_RANK;

use crate::frame::Frame;

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

/// The object that native just made, from the place that the caller gave for it.
fn made(frame: &Frame, place: usize) -> Option<usize> {
    let place = frame.pointer(place).cast::<usize>();
    // SAFETY: not null, and native succeeded, so it wrote the object there.
    (!place.is_null()).then(|| unsafe { place.read_unaligned() })
}
