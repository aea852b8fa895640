//! MIOpen's opaque objects.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use anyhow::Result;

use super::Status;

/// Any MIOpen object, as C has it.
pub type Object = *mut c_void;

pub(super) type Create = unsafe extern "C" fn(*mut Object) -> c_int;
pub(super) type Destroy = unsafe extern "C" fn(Object) -> c_int;

/// A MIOpen object, destroyed when dropped.
pub struct Owned {
    object: Object,
    destroy: Destroy,
}

// SAFETY: MIOpen's objects are plain memory of the process; who uses one from where is the case's business, as it is a program's.
unsafe impl Send for Owned {}
// SAFETY: as above. One handle used by two threads at once is the subject of a case.
unsafe impl Sync for Owned {}

impl Owned {
    pub(super) fn create(call: &str, create: Create, destroy: Destroy) -> Result<Self> {
        let mut object = null_mut();
        // SAFETY: `object` is writable.
        Status(unsafe { create(&mut object) }).check(call)?;
        Ok(Self { object, destroy })
    }

    pub(super) fn adopt(object: Object, destroy: Destroy) -> Self {
        Self { object, destroy }
    }

    pub(super) fn raw(&self) -> Object {
        self.object
    }

    /// Where it is: to see an address come back.
    pub fn address(&self) -> usize {
        self.object.addr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: created by the function that belongs to this one, destroyed once. A status could not be acted on.
        unsafe { (self.destroy)(self.object) };
    }
}
