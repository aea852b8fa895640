//! Copies of memory that the CPU cannot reach, in pinned memory that it can: where each region lies in one, and buffers that are used again.

use std::sync::{Mutex, PoisonError};

use crate::{HipError, Region, hip::Hip};

/// What each region's copy is aligned to: as much as any element needs.
const ALIGNMENT: usize = 256;
/// The smallest buffer that is made.
const SMALLEST: usize = 1 << 16;
/// A buffer up to this many times as large as needed is taken before a new one is made.
const WASTE: usize = 4;

/// Pinned memory.
#[derive(Clone, Copy)]
struct Buffer {
    address: usize,
    bytes: usize,
}

/// Buffers that nobody uses. They are kept for good: giving memory back would wait for the device.
static FREE: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

fn take(hip: &Hip, bytes: usize) -> Result<Buffer, HipError> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |buffer: &Buffer| (bytes..=bytes.saturating_mul(WASTE).max(SMALLEST)).contains(&buffer.bytes);
    let best = free.iter().enumerate().filter(|(_, buffer)| fits(buffer)).min_by_key(|(_, buffer)| buffer.bytes);
    if let Some(place) = best.map(|(place, _)| place) {
        return Ok(free.swap_remove(place));
    }
    drop(free);
    let bytes = bytes.next_power_of_two().max(SMALLEST);
    hip.pinned(bytes).map(|address| Buffer { address, bytes })
}

/// Copies of those regions that the CPU cannot reach.
pub struct Staging {
    buffer: Buffer,
    /// Region, and where its copy is.
    copies: Vec<(Region, usize)>,
}

impl Staging {
    /// For regions of which the CPU cannot reach some; none if it reaches all.
    pub fn new(hip: &Hip, regions: &[Region]) -> Result<Option<Staging>, HipError> {
        let (mut bytes, mut places) = (0, Vec::new());
        for region in regions.iter().filter(|region| region.bytes > 0 && hip.is_out_of_reach(region.address)) {
            places.push((*region, bytes));
            bytes += region.bytes.next_multiple_of(ALIGNMENT);
        }
        if places.is_empty() {
            return Ok(None);
        }
        let buffer = take(hip, bytes)?;
        let copies = places.into_iter().map(|(region, offset)| (region, buffer.address + offset)).collect();
        Ok(Some(Staging { buffer, copies }))
    }

    /// Where the CPU finds each region: in its copy, or where it is.
    pub fn addresses(&self, regions: &[Region]) -> Vec<usize> {
        let copy = |region: &Region| self.copies.iter().find(|(copied, _)| copied == region).map_or(region.address, |(_, copy)| *copy);
        regions.iter().map(copy).collect()
    }

    /// Has a stream copy all regions here.
    pub fn load(&self, hip: &Hip, stream: usize) -> Result<(), HipError> {
        // SAFETY: the caller vouches for its regions; their copies lie in the buffer, which stays until the stream has done its work.
        self.copies.iter().try_for_each(|(region, copy)| unsafe { hip.copy(*copy, region.address, region.bytes, stream) })
    }

    /// Has a stream copy back what is written.
    pub fn store(&self, hip: &Hip, stream: usize) -> Result<(), HipError> {
        let mut written = self.copies.iter().filter(|(region, _)| region.written);
        // SAFETY: as above.
        written.try_for_each(|(region, copy)| unsafe { hip.copy(region.address, *copy, region.bytes, stream) })
    }

    /// Lets others have the buffer. Calls nothing of HIP's.
    pub fn give_back(&self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.buffer);
    }
}
