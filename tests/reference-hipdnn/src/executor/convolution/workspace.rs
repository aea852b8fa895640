//! The workspace: how large it must be for packed parts, and cutting it into them.

use super::element::Number;

/// What parts are aligned to as a whole: a cache line. The caller's address promises nothing.
const ALIGNMENT: usize = 64;

/// Bytes for parts of so many numbers; `None` if they do not fit into memory. Nothing for nothing.
pub(super) fn bytes<T: Number>(parts: &[usize]) -> Option<usize> {
    let numbers = parts.iter().try_fold(0usize, |sum, &part| sum.checked_add(part))?;
    if numbers == 0 {
        return Some(0);
    }
    let bytes = numbers.checked_mul(size_of::<T>())?.checked_add(ALIGNMENT - 1)?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// The parts, all zero.
///
/// # Safety
/// The workspace is writable for [`bytes`] of the same parts, and nothing else refers to it for `'a`.
pub(super) unsafe fn cut<'a, T: Number, const N: usize>(workspace: *mut u8, parts: [usize; N]) -> [&'a mut [T]; N] {
    let mut offset = 0;
    parts.map(|part| {
        if part == 0 {
            return <&mut [T]>::default();
        }
        // SAFETY: there is room for all parts behind an aligned address, by the contract of this function. All bytes zero is the number
        // zero, written before the slice is made.
        unsafe {
            let start = workspace.add(workspace.align_offset(ALIGNMENT)).cast::<T>().add(offset);
            offset += part;
            start.write_bytes(0, part);
            std::slice::from_raw_parts_mut(start, part)
        }
    })
}
