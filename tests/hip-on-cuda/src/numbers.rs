//! The numbers of HIP and those of CUDA, side by side: the one place where they meet. Nothing is called here.
//!
//! HIP was modelled on CUDA, and gave most of its enumerations CUDA's numbers. What that rests on is written down as tables all the same.

use core::ffi::{c_int, c_uint};

use hip_abi::{
    error::{self, Code},
    memory,
};

/// CUDA's errors that HIP has no number for, and what HIP would say.
const ERRORS: &[(c_int, Code)] = &[
    (34, error::INSUFFICIENT_DRIVER),  // StubLibrary
    (46, error::NO_DEVICE),            // DevicesUnavailable
    (36, error::INSUFFICIENT_DRIVER),  // CallRequiresNewerDriver
    (803, error::INSUFFICIENT_DRIVER), // SystemDriverMismatch
    (804, error::INSUFFICIENT_DRIVER), // CompatNotSupportedOnDevice
    (716, error::ILLEGAL_ADDRESS),     // MisalignedAddress
    (717, error::ILLEGAL_ADDRESS),     // InvalidAddressSpace
    (718, error::ILLEGAL_ADDRESS),     // InvalidPc
];

/// An error of CUDA's as HIP has it: the same number, where HIP has it at all.
pub fn error(cuda: c_int) -> Code {
    match ERRORS.iter().find(|(number, _)| *number == cuda) {
        Some((_, hip)) => *hip,
        None if error::is_known(cuda) => cuda,
        None => error::UNKNOWN,
    }
}

/// `hipMemcpyKind` and `cudaMemcpyKind`.
const COPIES: &[(c_int, c_int)] = &[
    (0, 0),    // HostToHost
    (1, 1),    // HostToDevice
    (2, 2),    // DeviceToHost
    (3, 3),    // DeviceToDevice
    (4, 4),    // Default
    (1024, 3), // DeviceToDeviceNoCU
];

/// `hipStreamCaptureMode` and `cudaStreamCaptureMode`.
const CAPTURE_MODES: &[(c_int, c_int)] = &[
    (0, 0), // Global
    (1, 1), // ThreadLocal
    (2, 2), // Relaxed
];

/// `hipStreamCaptureStatus` and `cudaStreamCaptureStatus`.
const CAPTURE_STATES: &[(c_int, c_int)] = &[
    (0, 0), // None
    (1, 1), // Active
    (2, 2), // Invalidated
];

/// `hipMemoryType` (as of ROCm 6) and `cudaMemoryType`.
const MEMORY: &[(c_int, c_int)] = &[(memory::UNREGISTERED, 0), (memory::HOST, 1), (memory::DEVICE, 2), (memory::MANAGED, 3)];

fn find<T: Copy + PartialEq>(table: &[(T, T)], hip: T) -> Option<T> {
    table.iter().find(|(number, _)| *number == hip).map(|(_, cuda)| *cuda)
}

fn find_back<T: Copy + PartialEq>(table: &[(T, T)], cuda: T) -> Option<T> {
    table.iter().find(|(_, number)| *number == cuda).map(|(hip, _)| *hip)
}

/// A kind of copy.
pub fn copy(hip: c_int) -> Result<c_int, Code> {
    find(COPIES, hip).ok_or(error::INVALID_MEMCPY_DIRECTION)
}

/// A mode of capture.
pub fn capture_mode(hip: c_int) -> Result<c_int, Code> {
    find(CAPTURE_MODES, hip).ok_or(error::INVALID_VALUE)
}

/// A mode of capture that CUDA answered.
pub fn capture_mode_back(cuda: c_int) -> Result<c_int, Code> {
    find_back(CAPTURE_MODES, cuda).ok_or(error::UNKNOWN)
}

/// A state of capture that CUDA answered.
pub fn capture_state_back(cuda: c_int) -> Result<c_int, Code> {
    find_back(CAPTURE_STATES, cuda).ok_or(error::UNKNOWN)
}

/// A kind of memory that CUDA answered.
pub fn memory_back(cuda: c_int) -> c_int {
    find_back(MEMORY, cuda).unwrap_or(memory::UNREGISTERED)
}

/// Flags that both have, with the same bits; HIP's others (about caches of AMD's devices) have no meaning here.
pub mod flags {
    use super::c_uint;

    /// `NonBlocking`.
    pub const STREAM: c_uint = 1;
    /// `BlockingSync`, `DisableTiming`, `Interprocess`.
    pub const EVENT: c_uint = 7;
    /// `Portable`, `Mapped`, `WriteCombined`.
    pub const HOST_MEMORY: c_uint = 7;
}

/// CUDA counts versions 13020 for 13.2; HIP 130200000.
pub fn version(cuda: c_int) -> c_int {
    cuda / 1000 * 10_000_000 + cuda % 1000 / 10 * 100_000
}

/// `hipDeviceAttribute_t` and `cudaDeviceAttr`.
const ATTRIBUTES: &[(c_int, c_int)] = &[
    (0, 32),      // EccEnabled
    (1, 109),     // AccessPolicyMaxWindowSize
    (2, 40),      // AsyncEngineCount
    (3, 19),      // CanMapHostMemory
    (4, 91),      // CanUseHostPointerForRegisteredMem
    (5, 13),      // ClockRate
    (6, 20),      // ComputeMode
    (7, 90),      // ComputePreemptionSupported
    (8, 31),      // ConcurrentKernels
    (9, 89),      // ConcurrentManagedAccess
    (10, 95),     // CooperativeLaunch
    (12, 15),     // DeviceOverlap
    (13, 101),    // DirectManagedMemAccessFromHost
    (14, 79),     // GlobalL1CacheSupported
    (15, 86),     // HostNativeAtomicSupported
    (16, 18),     // Integrated
    (17, 84),     // IsMultiGpuBoard
    (18, 17),     // KernelExecTimeout
    (19, 38),     // L2CacheSize
    (20, 80),     // LocalL1CacheSupported
    (23, 75),     // ComputeCapabilityMajor
    (24, 83),     // ManagedMemory
    (25, 106),    // MaxBlocksPerMultiProcessor
    (26, 2),      // MaxBlockDim
    (27, 3),      //
    (28, 4),      //
    (29, 5),      // MaxGridDim
    (30, 6),      //
    (31, 7),      //
    (56, 1),      // MaxThreadsPerBlock
    (57, 39),     // MaxThreadsPerMultiProcessor
    (58, 11),     // MaxPitch
    (59, 37),     // MemoryBusWidth
    (60, 36),     // MemoryClockRate
    (61, 76),     // ComputeCapabilityMinor
    (62, 85),     // MultiGpuBoardGroupID
    (63, 16),     // MultiprocessorCount
    (65, 88),     // PageableMemoryAccess
    (66, 100),    // PageableMemoryAccessUsesHostPageTables
    (67, 33),     // PciBusId
    (68, 34),     // PciDeviceId
    (69, 50),     // PciDomainID
    (70, 108),    // PersistingL2CacheMaxSize
    (71, 12),     // MaxRegistersPerBlock
    (72, 82),     // MaxRegistersPerMultiprocessor
    (73, 111),    // ReservedSharedMemPerBlock
    (74, 8),      // MaxSharedMemoryPerBlock
    (75, 97),     // SharedMemPerBlockOptin
    (76, 81),     // SharedMemPerMultiprocessor
    (77, 87),     // SingleToDoublePrecisionPerfRatio
    (78, 78),     // StreamPrioritiesSupported
    (79, 30),     // SurfaceAlignment
    (81, 14),     // TextureAlignment
    (82, 51),     // TexturePitchAlignment
    (83, 9),      // TotalConstantMemory
    (85, 41),     // UnifiedAddressing
    (87, 10),     // WarpSize
    (88, 115),    // MemoryPoolsSupported
    (90, 99),     // HostRegisterSupported
    (10_002, 81), // MaxSharedMemoryPerMultiprocessor
    (10_015, 16), // PhysicalMultiProcessorCount
];

/// An attribute of a device, if CUDA has it.
pub fn attribute(hip: c_int) -> Option<c_int> {
    find(ATTRIBUTES, hip)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that stands twice would hide what stands behind it.
    #[test]
    fn no_number_of_hip_stands_twice() {
        for table in [COPIES, CAPTURE_MODES, CAPTURE_STATES, MEMORY, ATTRIBUTES] {
            let mut numbers: Vec<_> = table.iter().map(|(hip, _)| *hip).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), table.len());
        }
    }

    #[test]
    fn errors_keep_their_numbers_or_become_what_hip_would_say() {
        assert_eq!([2, 600, 900, 719].map(error), [2, 600, 900, 719]);
        assert_eq!([716, 46, 12345].map(error), [error::ILLEGAL_ADDRESS, error::NO_DEVICE, error::UNKNOWN]);
        assert_eq!((copy(1024), copy(9)), (Ok(3), Err(error::INVALID_MEMCPY_DIRECTION)));
        assert_eq!(version(13020), 130_200_000);
    }
}
