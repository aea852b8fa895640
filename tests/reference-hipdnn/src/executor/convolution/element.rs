//! Elements in memory: reading them into the type that sums are kept in, and rounding sums once into the output's type.

use half::{bf16, f16};
use hipdnn_abi::data_type;

/// A type that sums are kept in.
pub(super) trait Number: Copy + Default {
    /// The element at `from`. Types that [`super::problem`] does not let through read as zero.
    ///
    /// # Safety
    /// One element of the type is readable at `from`; it need not be aligned.
    unsafe fn load(data_type: i32, from: *const u8) -> Self;

    /// Rounds to nearest, ties to even; integers saturate, floats overflow to infinity.
    ///
    /// # Safety
    /// One element of the type is writable at `to`; it need not be aligned.
    unsafe fn store(self, data_type: i32, to: *mut u8);

    /// `self + a * b`.
    fn add_product(self, a: Self, b: Self) -> Self;
}

/// # Safety
/// One element of the type is readable at `from`.
unsafe fn load_float(data_type: i32, from: *const u8) -> f64 {
    // SAFETY: each arm reads one element of the type, as the caller promises; unaligned reads.
    unsafe {
        match data_type {
            data_type::FLOAT => from.cast::<f32>().read_unaligned().into(),
            data_type::DOUBLE => from.cast::<f64>().read_unaligned(),
            data_type::HALF => f16::from_bits(from.cast::<u16>().read_unaligned()).to_f64(),
            data_type::BFLOAT16 => bf16::from_bits(from.cast::<u16>().read_unaligned()).to_f64(),
            data_type::INT8 => from.cast::<i8>().read().into(),
            _ => 0.0,
        }
    }
}

/// # Safety
/// One element of the type is writable at `to`.
unsafe fn store_float(value: f64, data_type: i32, to: *mut u8) {
    // SAFETY: each arm writes one element of the type, as the caller promises; unaligned writes. Casts saturate.
    unsafe {
        match data_type {
            data_type::FLOAT => to.cast::<f32>().write_unaligned(value as f32),
            data_type::DOUBLE => to.cast::<f64>().write_unaligned(value),
            data_type::HALF => to.cast::<u16>().write_unaligned(f16::from_f64(value).to_bits()),
            data_type::BFLOAT16 => to.cast::<u16>().write_unaligned(bf16::from_f64(value).to_bits()),
            data_type::INT8 => to.cast::<i8>().write(value.round_ties_even() as i8),
            data_type::INT32 => to.cast::<i32>().write_unaligned(value.round_ties_even() as i32),
            _ => {}
        }
    }
}

impl Number for f64 {
    unsafe fn load(data_type: i32, from: *const u8) -> Self {
        // SAFETY: by the contract of this function.
        unsafe { load_float(data_type, from) }
    }

    unsafe fn store(self, data_type: i32, to: *mut u8) {
        // SAFETY: by the contract of this function.
        unsafe { store_float(self, data_type, to) }
    }

    fn add_product(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

impl Number for f32 {
    unsafe fn load(data_type: i32, from: *const u8) -> Self {
        // SAFETY: by the contract of this function.
        unsafe { load_float(data_type, from) as f32 }
    }

    unsafe fn store(self, data_type: i32, to: *mut u8) {
        // SAFETY: by the contract of this function. An f32 is exact as f64, so this rounds once.
        unsafe { store_float(self.into(), data_type, to) }
    }

    fn add_product(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

impl Number for i32 {
    unsafe fn load(data_type: i32, from: *const u8) -> Self {
        // SAFETY: by the contract of this function.
        unsafe { if data_type == data_type::INT8 { from.cast::<i8>().read().into() } else { 0 } }
    }

    unsafe fn store(self, data_type: i32, to: *mut u8) {
        // SAFETY: by the contract of this function. An i32 is exact as f64.
        unsafe { store_float(self.into(), data_type, to) }
    }

    fn add_product(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }
}
