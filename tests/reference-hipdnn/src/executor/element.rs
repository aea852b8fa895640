//! Elements in memory: runs of them read into the type that is computed in, and results rounded once into the output's type.
//!
//! Only conversions, in the few shapes that compile to fast loops; which elements make a run is the business of the operations.

use half::{f16, slice::HalfFloatSliceExt};
use hipdnn_abi::data_type;

/// A type that is computed in.
pub(super) trait Number:
    Copy + Default + Send + Sync + Into<f64> + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> + std::ops::AddAssign + 'static
{
    /// The tensor type whose elements are numbers of this type already.
    const DATA_TYPE: i32;

    /// Rounded to nearest.
    fn round(number: f64) -> Self;

    /// Reads elements that are `step` elements apart. Types that no operation lets through read as zero.
    ///
    /// # Safety
    /// The elements are readable; they need not be aligned.
    unsafe fn load(data_type: i32, from: *const u8, step: usize, out: &mut [Self]);

    /// Writes elements that are `step` elements apart. Rounds to nearest, ties to even; integers saturate, floats overflow to infinity.
    ///
    /// # Safety
    /// The elements are writable; they need not be aligned.
    unsafe fn store(numbers: &[Self], data_type: i32, to: *mut u8, step: usize);

    /// C ← A B, or C ← C + A B. A has m × k elements, B has k × n. The strides are in elements: of rows, then of columns.
    ///
    /// # Safety
    /// All elements are live and aligned; those of C are writable (and initialized if they are added to), are distinct, and overlap
    /// neither A nor B.
    unsafe fn multiply(size: [usize; 3], a: (*const Self, [isize; 2]), b: (*const Self, [isize; 2]), add: bool, c: (*mut Self, [isize; 2]));
}

/// How many elements of 16-bit floats are converted at once.
const CHUNK: usize = 64;

/// # Safety
/// Elements of type `E`, `step` apart, are readable for all of `out`.
unsafe fn read_each<E: Copy, N>(from: *const u8, step: usize, out: &mut [N], convert: impl Fn(E) -> N) {
    let from = from.cast::<E>();
    // The step is spelled out where it is 1, because only then the loop becomes vector code.
    if step == 1 {
        for (i, out) in out.iter_mut().enumerate() {
            // SAFETY: by the contract of this function.
            *out = convert(unsafe { from.add(i).read_unaligned() });
        }
    } else {
        for (i, out) in out.iter_mut().enumerate() {
            // SAFETY: by the contract of this function.
            *out = convert(unsafe { from.add(i * step).read_unaligned() });
        }
    }
}

/// # Safety
/// Elements of type `E`, `step` apart, are writable for all of `numbers`.
unsafe fn write_each<E, N: Copy>(numbers: &[N], to: *mut u8, step: usize, convert: impl Fn(N) -> E) {
    let to = to.cast::<E>();
    if step == 1 {
        for (i, &number) in numbers.iter().enumerate() {
            // SAFETY: by the contract of this function.
            unsafe { to.add(i).write_unaligned(convert(number)) };
        }
    } else {
        for (i, &number) in numbers.iter().enumerate() {
            // SAFETY: by the contract of this function.
            unsafe { to.add(i * step).write_unaligned(convert(number)) };
        }
    }
}

/// Reads f16 by way of a chunk on the stack, because the fast conversion wants aligned slices.
///
/// # Safety
/// As for [`read_each`].
unsafe fn read_halves<N>(from: *const u8, step: usize, out: &mut [N], convert: impl Fn(&[f16], &mut [N])) {
    let mut chunk = [f16::ZERO; CHUNK];
    for (i, out) in out.chunks_mut(CHUNK).enumerate() {
        let chunk = &mut chunk[..out.len()];
        // SAFETY: by the contract of this function.
        unsafe { read_each(from.add(i * CHUNK * step * size_of::<f16>()), step, chunk, f16::from_bits) };
        convert(chunk, out);
    }
}

/// # Safety
/// As for [`write_each`].
unsafe fn write_halves(numbers: &[f32], to: *mut u8, step: usize) {
    let mut chunk = [f16::ZERO; CHUNK];
    for (i, numbers) in numbers.chunks(CHUNK).enumerate() {
        let chunk = &mut chunk[..numbers.len()];
        chunk.convert_from_f32_slice(numbers);
        // SAFETY: by the contract of this function.
        unsafe { write_each(chunk, to.add(i * CHUNK * step * size_of::<f16>()), step, f16::to_bits) };
    }
}

fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// As `bf16::from_f32`, without branches.
fn narrow(number: f32) -> u16 {
    let bits = number.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if number.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded as u16 }
}

/// Rounds to an f32 that rounds on, to 16 bits, as the number itself would (round to odd). `half` converts from f64 by way of an f32
/// that is rounded to nearest, or drops bits: both round twice.
fn to_odd(number: f64) -> f32 {
    let nearest = number as f32;
    let back = f64::from(nearest);
    if back == number || !nearest.is_finite() {
        return nearest;
    }
    let towards_zero = if back.abs() > number.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(towards_zero | 1)
}

impl Number for f32 {
    const DATA_TYPE: i32 = data_type::FLOAT;

    fn round(number: f64) -> Self {
        number as f32
    }

    unsafe fn load(data_type: i32, from: *const u8, step: usize, out: &mut [Self]) {
        // SAFETY: each arm reads elements of the type, as the caller promises.
        unsafe {
            match data_type {
                data_type::FLOAT => read_each(from, step, out, |number: f32| number),
                data_type::DOUBLE => read_each(from, step, out, |number: f64| number as f32),
                data_type::HALF => read_halves(from, step, out, |chunk, out| chunk.convert_to_f32_slice(out)),
                data_type::BFLOAT16 => read_each(from, step, out, widen),
                _ => out.fill(0.0),
            }
        }
    }

    unsafe fn store(numbers: &[Self], data_type: i32, to: *mut u8, step: usize) {
        // SAFETY: each arm writes elements of the type, as the caller promises.
        unsafe {
            match data_type {
                data_type::FLOAT => write_each(numbers, to, step, |number| number),
                data_type::DOUBLE => write_each(numbers, to, step, f64::from),
                data_type::HALF => write_halves(numbers, to, step),
                data_type::BFLOAT16 => write_each(numbers, to, step, narrow),
                _ => {}
            }
        }
    }

    unsafe fn multiply(
        [m, k, n]: [usize; 3],
        (a, [ar, ac]): (*const Self, [isize; 2]),
        (b, [br, bc]): (*const Self, [isize; 2]),
        add: bool,
        (c, [cr, cc]): (*mut Self, [isize; 2]),
    ) {
        // SAFETY: by the contract of this function. C is not read if beta is 0.
        unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a, ar, ac, b, br, bc, add.into(), c, cr, cc) };
    }
}

/// Also for integers of 8 bits: their sums are exact as long as they stay below 2^53, which takes more memory than there is.
impl Number for f64 {
    const DATA_TYPE: i32 = data_type::DOUBLE;

    fn round(number: f64) -> Self {
        number
    }

    unsafe fn load(data_type: i32, from: *const u8, step: usize, out: &mut [Self]) {
        // SAFETY: each arm reads elements of the type, as the caller promises.
        unsafe {
            match data_type {
                data_type::FLOAT => read_each(from, step, out, |number: f32| number.into()),
                data_type::DOUBLE => read_each(from, step, out, |number: f64| number),
                data_type::HALF => read_halves(from, step, out, |chunk, out| chunk.convert_to_f64_slice(out)),
                data_type::BFLOAT16 => read_each(from, step, out, |bits| widen(bits).into()),
                data_type::INT8 => read_each(from, step, out, |number: i8| number.into()),
                _ => out.fill(0.0),
            }
        }
    }

    unsafe fn store(numbers: &[Self], data_type: i32, to: *mut u8, step: usize) {
        // SAFETY: each arm writes elements of the type, as the caller promises. Casts to integers saturate.
        unsafe {
            match data_type {
                data_type::FLOAT => write_each(numbers, to, step, |number| number as f32),
                data_type::DOUBLE => write_each(numbers, to, step, |number| number),
                data_type::HALF => write_each(numbers, to, step, |number| f16::from_f32(to_odd(number)).to_bits()),
                data_type::BFLOAT16 => write_each(numbers, to, step, |number| narrow(to_odd(number))),
                data_type::INT8 => write_each(numbers, to, step, |number: f64| number.round_ties_even() as i8),
                data_type::INT32 => write_each(numbers, to, step, |number: f64| number.round_ties_even() as i32),
                _ => {}
            }
        }
    }

    unsafe fn multiply(
        [m, k, n]: [usize; 3],
        (a, [ar, ac]): (*const Self, [isize; 2]),
        (b, [br, bc]): (*const Self, [isize; 2]),
        add: bool,
        (c, [cr, cc]): (*mut Self, [isize; 2]),
    ) {
        // SAFETY: by the contract of this function. C is not read if beta is 0.
        unsafe { matrixmultiply::dgemm(m, k, n, 1.0, a, ar, ac, b, br, bc, u8::from(add).into(), c, cr, cc) };
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn bf16_is_rounded_as_half_does_it() {
        for high in 0..=u16::MAX {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let number = f32::from_bits(u32::from(high) << 16 | low);
                let expected = bf16::from_f32(number);
                let nan = bf16::from_bits(narrow(number)).is_nan() && expected.is_nan();
                assert!(narrow(number) == expected.to_bits() || nan, "{number}: {:x}", number.to_bits());
            }
        }
    }

    #[test]
    fn f64_is_rounded_once() {
        let tie = 1.0 + 1.0 / 2048.0;
        let above = tie + f64::EPSILON;
        assert_eq!(f16::from_f32(to_odd(above)).to_bits(), 0x3c01, "just above the tie");
        assert_eq!(f16::from_f32(to_odd(-above)).to_bits(), 0xbc01);
        assert_eq!(f16::from_f32(to_odd(tie)).to_bits(), 0x3c00, "the tie itself, to even");
        assert_eq!(f16::from_f32(to_odd(tie - f64::EPSILON)).to_bits(), 0x3c00);
        assert_eq!(narrow(to_odd(1.0 + 1.0 / 256.0 + f64::EPSILON)), 0x3f81);
        assert_eq!(to_odd(1e-300), f32::from_bits(1));
        assert_eq!(to_odd(1e300), f32::INFINITY);
    }
}
