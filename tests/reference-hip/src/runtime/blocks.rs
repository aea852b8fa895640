//! Allocations: the list of them, what each device has left, and whether an operation may touch an address. Queued work holds on
//! to the memory it will touch, so that a program that frees it too early is caught (see `worker`) and corrupts nothing.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device;
use crate::error::{Code, INVALID_MEMCPY_DIRECTION, INVALID_PITCH, INVALID_VALUE, OUT_OF_MEMORY};
use crate::runtime::operation::{Operation, Side};

const ALIGNMENT: usize = 256;
/// How much of fresh memory is filled with ones (NaN as floats), so that reading it before writing shows.
const PATTERN: usize = 16 << 20;

/// Memory of an allocation, given back when the last holder lets go.
pub struct Memory {
    address: usize,
    layout: Layout,
    /// The device that owns it; none for pinned host memory.
    device: Option<usize>,
}

impl Memory {
    /// The size must not be zero.
    fn new(size: usize, device: Option<usize>) -> Result<Memory, Code> {
        let layout = Layout::from_size_align(size, ALIGNMENT).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the size is not zero (the exported functions see to that).
        let memory = unsafe { std::alloc::alloc(layout) };
        if memory.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: at most the size just allocated.
        unsafe { memory.write_bytes(0xff, size.min(PATTERN)) };
        Ok(Memory { address: memory as usize, layout, device })
    }

    pub fn size(&self) -> usize {
        self.layout.size()
    }

    pub fn device(&self) -> Option<usize> {
        self.device
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody else knows it any more.
        unsafe { std::alloc::dealloc(self.address as *mut u8, self.layout) };
    }
}

/// All allocations.
pub struct Blocks {
    live: BTreeMap<usize, Arc<Memory>>,
    used: [usize; device::COUNT],
}

impl Blocks {
    pub const fn new() -> Blocks {
        Blocks { live: BTreeMap::new(), used: [0; device::COUNT] }
    }

    /// What is left of a device's memory.
    pub fn free(&self, device: usize) -> usize {
        device::MEMORY.saturating_sub(self.used[device])
    }

    pub fn allocate(&mut self, size: usize, device: Option<usize>) -> Result<usize, Code> {
        if device.is_some_and(|d| size > self.free(d)) {
            return Err(OUT_OF_MEMORY);
        }
        let memory = Memory::new(size, device)?;
        if let Some(d) = device {
            self.used[d] += size;
        }
        let address = memory.address;
        self.live.insert(address, Arc::new(memory));
        Ok(address)
    }

    /// The allocation that begins here, if it is of the kind asked for.
    pub fn starting(&self, address: usize, pinned: bool) -> Result<&Arc<Memory>, Code> {
        self.live.get(&address).filter(|m| m.device.is_none() == pinned).ok_or(INVALID_VALUE)
    }

    /// The size of the allocation that begins here.
    pub fn size(&self, address: usize) -> Option<usize> {
        self.live.get(&address).map(|m| m.size())
    }

    /// The device of the allocation that holds an address; none of pinned host memory.
    pub fn device_of(&self, address: usize) -> Option<Option<usize>> {
        self.holding(address).map(|memory| memory.device())
    }

    /// Takes an allocation off the list; the caller drops it.
    pub fn remove(&mut self, address: usize, pinned: bool) -> Result<Arc<Memory>, Code> {
        self.starting(address, pinned)?;
        let memory = self.live.remove(&address).ok_or(INVALID_VALUE)?;
        if let Some(d) = memory.device {
            self.used[d] -= memory.size();
        }
        Ok(memory)
    }

    /// Whether memory that somebody holds is still the program's. As it is held, its address cannot have been given out again.
    pub fn is_live(&self, memory: &Memory) -> bool {
        self.live.contains_key(&memory.address)
    }

    /// The allocation that holds `address`.
    fn holding(&self, address: usize) -> Option<&Arc<Memory>> {
        let (start, memory) = self.live.range(..=address).next_back()?;
        (address - start < memory.size()).then_some(memory)
    }

    /// Whether an operation may touch these bytes: inside one allocation, or host memory where that is allowed.
    fn check(&self, address: usize, bytes: usize, may_be_host: bool) -> Result<(), Code> {
        match self.holding(address) {
            Some(memory) if bytes <= memory.size() - (address - memory.address) => Ok(()),
            None if may_be_host && address != 0 => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }

    fn check_side(&self, side: &Side, width: usize, rows: usize) -> Result<(), Code> {
        let before_last = rows.checked_sub(1).and_then(|n| n.checked_mul(side.pitch));
        let bytes = before_last.and_then(|n| n.checked_add(width)).ok_or(INVALID_VALUE)?;
        self.check(side.address, bytes, side.host)
    }

    /// A copy of `rows` times `width` bytes; the sides are address and pitch.
    pub fn copy(&self, to: (usize, usize), from: (usize, usize), width: usize, rows: usize, kind: i32) -> Result<Operation, Code> {
        // hipMemcpyHostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default, DeviceToDeviceNoCU
        let (to_host, from_host) = match kind {
            0 | 4 => (true, true),
            1 => (false, true),
            2 => (true, false),
            3 | 1024 => (false, false),
            _ => return Err(INVALID_MEMCPY_DIRECTION),
        };
        if to.1 < width || from.1 < width {
            return Err(INVALID_PITCH);
        }
        let side = |(address, pitch): (usize, usize), may_be_host| -> Result<Side, Code> {
            self.check_side(&Side { address, pitch, host: may_be_host }, width, rows)?;
            Ok(Side { address, pitch, host: self.holding(address).is_none() })
        };
        Ok(Operation::Copy { to: side(to, to_host)?, from: side(from, from_host)?, width, rows })
    }

    pub fn fill(&self, to: usize, value: u8, bytes: usize) -> Result<Operation, Code> {
        self.check(to, bytes, false)?;
        Ok(Operation::Fill { to, value, bytes })
    }

    /// Whether a recorded operation still touches only memory that exists.
    pub fn still_valid(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Copy { to, from, width, rows } => {
                self.check_side(to, *width, *rows).is_ok() && self.check_side(from, *width, *rows).is_ok()
            }
            Operation::Fill { to, bytes, .. } => self.check(*to, *bytes, false).is_ok(),
            Operation::Host { .. } => true,
        }
    }

    /// The allocations that an operation touches.
    pub fn touched(&self, operation: &Operation) -> Vec<Arc<Memory>> {
        let addresses = match operation {
            Operation::Copy { to, from, .. } => [Some(to.address), Some(from.address)],
            Operation::Fill { to, .. } => [Some(*to), None],
            Operation::Host { .. } => [None, None],
        };
        addresses.into_iter().flatten().filter_map(|a| self.holding(a)).cloned().collect()
    }
}
