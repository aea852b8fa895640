//! Handles.

use std::{ffi::c_void, sync::Arc};

use crate::{
    frame::Frame,
    records::{Finds, HandleRecord},
    routing::Forwarding,
    stubs,
};

/// `miopenCreate(handle*)` and `miopenCreateWithStream(handle*, stream)`.
pub fn create(frame: &Frame, forwarding: &Forwarding, success: bool, stream: *mut c_void) {
    if !success {
        return;
    }
    // SAFETY: native succeeded, so it wrote the handle there.
    let handle = unsafe { frame.pointer(0).cast::<usize>().read() };
    let record = HandleRecord { state: forwarding.host.register(stream), finds: Finds::default() };
    forwarding.records.handles.pin().insert(handle, Arc::new(record));
}

/// `miopenSetStream(handle, stream)`.
pub fn set_stream(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if let Some(record) = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)).filter(|_| success) {
        record.state.set_stream(frame.pointer(1));
    }
}

/// `miopenEnableProfiling(handle, enable)`. From then on every entry point is watched: only so is it known whose time the last one is.
pub fn enable_profiling(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let enabled = frame.integer(1) as u8 != 0;
    let handles = forwarding.records.handles.pin();
    if let Some(record) = handles.get(&(frame.integer(0) as usize)).filter(|_| success) {
        record.state.set_profiling(enabled);
        if let Some(bound) = stubs::bound().filter(|_| enabled) {
            bound.watch_everything();
        }
    }
}

/// `miopenDestroy(handle)`: before native frees the address, which the next handle may get.
pub fn destroy(frame: &Frame, forwarding: &Forwarding) {
    let record = forwarding.records.handles.pin().remove(&(frame.integer(0) as usize)).cloned();
    if let Some(record) = record {
        forwarding.host.retire(&record.state);
    }
}
