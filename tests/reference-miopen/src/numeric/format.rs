//! Number formats in memory: lines of equally spaced elements read as double-precision numbers, and written from them. What the lines
//! mean is elsewhere.

use half::{bf16, f16};

/// How a tensor's elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Double,
    Float,
    Half,
    Bfloat16,
    Int32,
    Int8,
}

/// `alpha` times what is computed, plus `beta` times what was there.
#[derive(Clone, Copy)]
pub struct Scale {
    pub alpha: f64,
    /// With 0, what was there is not looked at.
    pub beta: f64,
}

impl Scale {
    /// What is computed, as it is.
    pub const PLAIN: Scale = Scale { alpha: 1.0, beta: 0.0 };
}

/// An element.
trait Element: Copy {
    /// Exact.
    fn widen(self) -> f64;
    /// Rounded to nearest even; integers saturate.
    fn narrow(value: f64) -> Self;
}

impl Element for f64 {
    fn widen(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> f64 {
        value
    }
}

impl Element for f32 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    fn narrow(value: f64) -> f32 {
        value as f32
    }
}

impl Element for f16 {
    fn widen(self) -> f64 {
        f64::from(self.to_f32())
    }
    fn narrow(value: f64) -> f16 {
        f16::from_f32(rounded_to_odd(value))
    }
}

impl Element for bf16 {
    fn widen(self) -> f64 {
        f64::from(f32::from_bits(u32::from(self.to_bits()) << 16))
    }
    fn narrow(value: f64) -> bf16 {
        bf16::from_f32(rounded_to_odd(value))
    }
}

impl Element for i32 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    fn narrow(value: f64) -> i32 {
        value.round_ties_even() as i32
    }
}

impl Element for i8 {
    fn widen(self) -> f64 {
        f64::from(self)
    }
    fn narrow(value: f64) -> i8 {
        value.round_ties_even() as i8
    }
}

/// A single-precision number that rounds to any narrower format just as the double does: where it is not exact, the one of the two
/// neighbours with the odd last bit, so that it never looks like a tie. (Conversions of `half` from double precision drop low bits or
/// round twice.)
fn rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return nearest;
    }
    let towards_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(towards_zero | 1)
}

/// # Safety
/// `line.len()` elements lie at `from`, `step` elements apart.
unsafe fn read<E: Element>(from: *const E, step: usize, line: &mut [f64]) {
    if step == 1 {
        // SAFETY: by the contract of this function.
        line.iter_mut().enumerate().for_each(|(i, value)| *value = unsafe { from.add(i).read_unaligned() }.widen());
    } else {
        // SAFETY: by the contract of this function.
        line.iter_mut().enumerate().for_each(|(i, value)| *value = unsafe { from.add(i * step).read_unaligned() }.widen());
    }
}

/// # Safety
/// `line.len()` elements lie at `to`, `step` elements apart, and are nobody else's.
unsafe fn write<E: Element>(to: *mut E, step: usize, line: &[f64], scale: Scale) {
    let value = |place: *mut E, sum: f64| {
        if scale.beta == 0.0 {
            return E::narrow(scale.alpha * sum);
        }
        // SAFETY: called with places of the line only.
        E::narrow(scale.alpha * sum + scale.beta * unsafe { place.read_unaligned() }.widen())
    };
    if step == 1 {
        // SAFETY: by the contract of this function.
        line.iter().enumerate().for_each(|(i, sum)| unsafe { to.add(i).write_unaligned(value(to.add(i), *sum)) });
    } else {
        // SAFETY: by the contract of this function.
        line.iter().enumerate().for_each(|(i, sum)| unsafe { to.add(i * step).write_unaligned(value(to.add(i * step), *sum)) });
    }
}

impl Format {
    /// Bytes of an element.
    pub fn width(self) -> usize {
        match self {
            Format::Double => 8,
            Format::Float | Format::Int32 => 4,
            Format::Half | Format::Bfloat16 => 2,
            Format::Int8 => 1,
        }
    }

    /// Reads a line that starts `offset` elements behind an address.
    ///
    /// # Safety
    /// The line lies in memory that may be read.
    pub unsafe fn read(self, address: usize, offset: usize, step: usize, line: &mut [f64]) {
        let memory = core::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: by the contract of this function.
        unsafe {
            match self {
                Format::Double => read(memory.cast::<f64>().add(offset), step, line),
                Format::Float => read(memory.cast::<f32>().add(offset), step, line),
                Format::Half => read(memory.cast::<f16>().add(offset), step, line),
                Format::Bfloat16 => read(memory.cast::<bf16>().add(offset), step, line),
                Format::Int32 => read(memory.cast::<i32>().add(offset), step, line),
                Format::Int8 => read(memory.cast::<i8>().add(offset), step, line),
            }
        }
    }

    /// Writes a line that starts `offset` elements behind an address.
    ///
    /// # Safety
    /// The line lies in memory that may be read and written, and that nobody else uses.
    pub unsafe fn write(self, address: usize, offset: usize, step: usize, line: &[f64], scale: Scale) {
        let memory = core::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: by the contract of this function.
        unsafe {
            match self {
                Format::Double => write(memory.cast::<f64>().add(offset), step, line, scale),
                Format::Float => write(memory.cast::<f32>().add(offset), step, line, scale),
                Format::Half => write(memory.cast::<f16>().add(offset), step, line, scale),
                Format::Bfloat16 => write(memory.cast::<bf16>().add(offset), step, line, scale),
                Format::Int32 => write(memory.cast::<i32>().add(offset), step, line, scale),
                Format::Int8 => write(memory.cast::<i8>().add(offset), step, line, scale),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_formats_are_rounded_once() {
        // Just above, at and just below a tie of bf16 (eight bits) and of f16 (eleven bits), by less than single precision holds.
        for (ulp, narrow) in [
            (2f64.powi(-7), (|v| f64::from(bf16::narrow(v))) as fn(f64) -> f64),
            (2f64.powi(-10), (|v| f64::from(f16::narrow(v))) as fn(f64) -> f64),
        ] {
            let tie = 1.0 + ulp / 2.0;
            assert_eq!(narrow(tie), 1.0);
            assert_eq!(narrow(tie + 1e-12), 1.0 + ulp);
            assert_eq!(narrow(1.0 + ulp * 1.5), 1.0 + 2.0 * ulp);
            assert_eq!(narrow(1.0 + ulp * 1.5 - 1e-12), 1.0 + ulp);
            assert_eq!(narrow(-tie - 1e-12), -1.0 - ulp);
            assert!(narrow(f64::NAN).is_nan());
            assert_eq!((narrow(1e300), narrow(f64::NEG_INFINITY), narrow(1e-300)), (f64::INFINITY, f64::NEG_INFINITY, 0.0));
        }
        assert_eq!(f64::from(f16::narrow(65519.999)), 65504.0);
        assert_eq!(f64::from(f16::narrow(65520.0)), f64::INFINITY);
        assert_eq!(f64::from(f16::narrow(2f64.powi(-25) * 1.000_000_001)), 2f64.powi(-24));
    }

    #[test]
    fn integers_saturate_and_round_to_even() {
        assert_eq!([0.5, 1.5, -0.5, -2.5, 127.4, 127.5, 1e9, -1e9, f64::NAN].map(i8::narrow), [0, 2, 0, -2, 127, 127, 127, -128, 0]);
        assert_eq!([1e300, -1e300, 2_147_483_646.5].map(i32::narrow), [i32::MAX, i32::MIN, 2_147_483_646]);
    }
}
