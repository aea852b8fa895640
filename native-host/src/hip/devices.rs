//! What a HIP runtime says about itself and its devices: for people, and for what must not be shared between different devices. Which of it
//! can be had depends on the release.

use std::ffi::{c_char, c_int};

use serde::{Deserialize, Serialize};

use super::{Hip, Loaded};

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What it is called.
    pub name: String,
    /// Its architecture, like `gfx942:sramecc+:xnack-`.
    pub architecture: Option<String>,
    /// How many compute units it has.
    pub compute_units: Option<i32>,
    /// Bytes of memory.
    pub memory: Option<usize>,
}

/// The functions, where the release has them.
#[derive(Clone, Copy)]
pub(super) struct DeviceFunctions {
    count: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    runtime_version: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    driver_version: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
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
            runtime_version: symbol!("hipRuntimeGetVersion"),
            driver_version: symbol!("hipDriverGetVersion"),
            name: symbol!("hipDeviceGetName"),
            memory: symbol!("hipDeviceTotalMem"),
            properties: symbol!("hipGetDevicePropertiesR0600"),
        }
    }
}

/// `hipDeviceProp_tR0600`, with room to spare; only the offsets below are read.
#[repr(C, align(16))]
struct Properties([u8; 4096]);

impl Properties {
    /// Offset of `multiProcessorCount`.
    const COMPUTE_UNITS: usize = 388;
    /// Offset and size of `gcnArchName`.
    const ARCHITECTURE: (usize, usize) = (1160, 256);

    fn text(&self, (offset, size): (usize, usize)) -> String {
        text(&self.0[offset..offset + size])
    }

    fn integer(&self, offset: usize) -> i32 {
        (0..4).rev().fold(0, |word, byte| word << 8 | i32::from(self.0[offset + byte]))
    }
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

    /// The runtime's version, as it counts: 70200000 is 7.2.
    pub fn runtime_version(&self) -> Option<i32> {
        version(self.devices.runtime_version?)
    }

    /// One device.
    pub fn device_info(&self, index: i32) -> Device {
        let properties = self.properties(index);
        Device {
            name: self.device_name(index).unwrap_or_default(),
            architecture: properties.as_ref().map(|properties| properties.text(Properties::ARCHITECTURE)),
            compute_units: properties.as_ref().map(|properties| properties.integer(Properties::COMPUTE_UNITS)),
            memory: self.device_memory(index),
        }
    }

    /// A device, and the runtime and driver that it is used with, in one line; `None` where HIP does not tell all of it.
    pub fn describe(&self, index: i32) -> Option<String> {
        let Device { name, architecture, compute_units, .. } = self.device_info(index);
        let (runtime, driver) = (self.runtime_version()?, version(self.devices.driver_version?)?);
        Some(format!("device {name}, {}, {} compute units, runtime {runtime}, driver {driver}", architecture?, compute_units?))
    }

    fn device_name(&self, index: i32) -> Option<String> {
        let mut bytes = [0u8; 256];
        // SAFETY: the buffer is writable for the size that is passed.
        let status = unsafe { self.devices.name?(bytes.as_mut_ptr().cast(), bytes.len() as c_int, index) };
        (status == 0).then(|| text(&bytes))
    }

    fn device_memory(&self, index: i32) -> Option<usize> {
        let mut bytes = 0;
        // SAFETY: `bytes` is writable.
        let status = unsafe { self.devices.memory?(&mut bytes, index) };
        (status == 0).then_some(bytes)
    }

    fn properties(&self, index: i32) -> Option<Box<Properties>> {
        let mut properties = Box::new(Properties([0; 4096]));
        // SAFETY: the structure has more room than any release writes.
        (unsafe { self.devices.properties?(&mut *properties, index) } == 0).then_some(properties)
    }
}

fn version(function: unsafe extern "C" fn(*mut c_int) -> c_int) -> Option<i32> {
    let mut version = 0;
    // SAFETY: `version` is writable.
    (unsafe { function(&mut version) } == 0).then_some(version)
}

/// Text up to its NUL.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}
