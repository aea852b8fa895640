//! What a HIP runtime says about itself and its devices. For people: no call is decided by it, but whether there is a device at all.

use std::{
    ffi::{CStr, c_char, c_int},
    mem::MaybeUninit,
};

use serde::{Deserialize, Serialize};

use super::{Hip, Loaded};

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What it is called.
    pub name: String,
    /// Its architecture, like `gfx942:sramecc+:xnack-`, where the runtime is new enough to tell.
    pub architecture: Option<String>,
    /// Bytes of memory.
    pub memory: Option<usize>,
}

/// Functions that only this module asks for; which of them there are depends on the release.
#[derive(Clone, Copy)]
pub(super) struct DeviceFunctions {
    count: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    version: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    name: Option<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>,
    memory: Option<unsafe extern "C" fn(*mut usize, c_int) -> c_int>,
    properties: Option<unsafe extern "C" fn(*mut Properties, c_int) -> c_int>,
}

impl DeviceFunctions {
    pub(super) fn resolve(library: &Loaded) -> Self {
        macro_rules! symbol {
            ($symbol:literal) => {
                // SAFETY: HIP's functions of these names have had these types in every release.
                unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.ok().map(|symbol| *symbol)
            };
        }
        Self {
            count: symbol!("hipGetDeviceCount"),
            version: symbol!("hipRuntimeGetVersion"),
            name: symbol!("hipDeviceGetName"),
            memory: symbol!("hipDeviceTotalMem"),
            properties: symbol!("hipGetDevicePropertiesR0600"),
        }
    }
}

/// `hipDeviceProp_tR0600`, of which one member is read, and room beyond it, in case a release appended some.
#[repr(C, align(8))]
struct Properties {
    before: [u8; 1160],
    architecture: [u8; 256],
    after: [u8; 2680],
}

impl Hip {
    /// How many devices there are; HIP's error if it cannot say, as when there is no driver.
    pub fn device_count(&self) -> Result<usize, i32> {
        let mut count = 0;
        let Some(function) = self.devices.count else { return Ok(1) };
        // SAFETY: `count` is writable.
        match unsafe { function(&mut count) } {
            0 => Ok(usize::try_from(count).unwrap_or(0)),
            error => Err(error),
        }
    }

    /// This runtime, if it has a device.
    pub(crate) fn with_device(self) -> Result<Self, String> {
        match self.device_count() {
            Ok(0) => Err(format!("{} has no device", self.name())),
            Ok(_) => Ok(self),
            Err(error) => Err(format!("{} has no device: hipGetDeviceCount returned {error}", self.name())),
        }
    }

    /// Its version, as the runtime counts: 70200000 is 7.2.
    pub fn runtime_version(&self) -> Option<i32> {
        let mut version = 0;
        // SAFETY: `version` is writable.
        let status = unsafe { self.devices.version?(&mut version) };
        (status == 0).then_some(version)
    }

    /// One device.
    pub fn describe_device(&self, index: i32) -> Device {
        Device { name: self.device_name(index).unwrap_or_default(), architecture: self.architecture(index), memory: self.memory(index) }
    }

    fn device_name(&self, index: i32) -> Option<String> {
        let mut text = [0u8; 256];
        // SAFETY: the buffer is writable for the size that is passed.
        let status = unsafe { self.devices.name?(text.as_mut_ptr().cast(), text.len() as c_int, index) };
        (status == 0).then(|| text_of(&text))
    }

    fn memory(&self, index: i32) -> Option<usize> {
        let mut bytes = 0;
        // SAFETY: `bytes` is writable.
        let status = unsafe { self.devices.memory?(&mut bytes, index) };
        (status == 0).then_some(bytes)
    }

    fn architecture(&self, index: i32) -> Option<String> {
        let function = self.devices.properties?;
        let mut properties = MaybeUninit::<Properties>::zeroed();
        // SAFETY: the struct of that version fits into what is passed; plain bytes, so that any content is valid.
        let (status, properties) = unsafe { (function(properties.as_mut_ptr(), index), properties.assume_init()) };
        let text = text_of(&properties.architecture);
        (status == 0 && !text.is_empty()).then_some(text)
    }
}

fn text_of(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}
