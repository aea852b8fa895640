//! What programs read about a device: the structure and the attributes that fill it. Their values are each runtime's own.

use core::ffi::c_int;

/// `hipDeviceProp_tR0600`, as far as it is filled. Offsets and size were computed from the public header and agree with
/// published bindings.
#[repr(C, align(8))]
pub struct Properties {
    /// All of it.
    pub bytes: [u8; 1472],
}

/// What a device says about itself in words and sizes.
pub struct Description<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// `gcnArchName`.
    pub architecture: &'a [u8],
    /// Tells it from every other.
    pub uuid: [u8; 16],
    /// Bytes of memory.
    pub memory: u64,
}

impl Properties {
    /// Of a device with that description. An attribute that is not known is 0.
    pub fn new(description: &Description, attribute: impl Fn(c_int) -> Option<c_int>) -> Properties {
        let mut p = Properties { bytes: [0; 1472] };
        p.text(0, description.name);
        p.bytes[256..272].copy_from_slice(&description.uuid);
        p.wide(288, description.memory); // totalGlobalMem
        for (offset, number) in SIZES {
            p.wide(*offset, attribute(*number).and_then(|value| u64::try_from(value).ok()).unwrap_or(0));
        }
        for (offset, number) in INTEGERS {
            p.integer(*offset, attribute(*number).unwrap_or(0));
        }
        p.text(1160, description.architecture); // gcnArchName
        p
    }

    /// Text of at most 255 bytes.
    fn text(&mut self, offset: usize, text: &[u8]) {
        let text = &text[..text.len().min(255)];
        self.bytes[offset..offset + text.len()].copy_from_slice(text);
    }

    fn integer(&mut self, offset: usize, value: c_int) {
        self.bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn wide(&mut self, offset: usize, value: u64) {
        self.bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
    }
}

/// Offset of a `size_t` in the structure, and the attribute (`hipDeviceAttribute_t`) of the same meaning.
const SIZES: &[(usize, c_int)] = &[
    (296, 74),  // sharedMemPerBlock
    (312, 58),  // memPitch
    (352, 83),  // totalConstMem
    (368, 81),  // textureAlignment
    (1416, 76), // maxSharedMemoryPerMultiProcessor
];

/// Offset of an `int`, likewise.
const INTEGERS: &[(usize, c_int)] = &[
    (304, 71), // regsPerBlock
    (308, 87), // warpSize
    (320, 56), // maxThreadsPerBlock
    (324, 26), // maxThreadsDim
    (328, 27), //
    (332, 28), //
    (336, 29), // maxGridSize
    (340, 30), //
    (344, 31), //
    (348, 5),  // clockRate
    (360, 23), // major
    (364, 61), // minor
    (388, 63), // multiProcessorCount
    (400, 3),  // canMapHostMemory
    (576, 8),  // concurrentKernels
    (584, 67), // pciBusID
    (608, 60), // memoryClockRate
    (612, 59), // memoryBusWidth
    (616, 19), // l2CacheSize
    (624, 57), // maxThreadsPerMultiProcessor
];
