//! Comparing two results of one call, hipDNN's and native's: what elements are worth, how far apart two right results may be. Knows bytes
//! and descriptors; where results come from, and what becomes of a verdict, is decided elsewhere.

use std::fmt;

use serde::Serialize;

use crate::{data_type::DataType, problem::TensorDescriptor};

/// How elements of a type are written, and how far apart two right results may be.
struct Type {
    data_type: DataType,
    encoding: Encoding,
    /// The tolerance in epsilons of the type (the distance from 1 to the next number), of the largest magnitude in the result.
    epsilons: f64,
}

#[derive(Clone, Copy)]
enum Encoding {
    Signed,
    Unsigned,
    Single,
    Double,
    /// Sign, so many bits of exponent and of mantissa.
    Small(u32, u32, Specials),
}

/// Which codes of a small type are no finite numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// As IEEE 754 has them.
    Ieee,
    /// No infinity; NaN is all ones behind the sign.
    AllOnes,
    /// No infinity; NaN is what would be minus zero. The bias is one larger.
    MinusZero,
}

/// The tolerances. Two right results differ by how they order sums and by the one rounding at their end. The field's harness allows 80
/// epsilons root mean square, 4 for bfloat16, whose epsilon is so large that orders of sums do not show; here the same is the limit of the
/// single largest difference, which is the stricter measure: one wrong element among a million shows. Of eight-bit types the rounding is
/// all there is. Sums of integers have no order.
const TYPES: &[Type] = &[
    of(DataType::Float, Encoding::Single, 80.0),
    of(DataType::Double, Encoding::Double, 80.0),
    of(DataType::Half, Encoding::Small(5, 10, Specials::Ieee), 80.0),
    of(DataType::BFloat16, Encoding::Small(8, 7, Specials::Ieee), 4.0),
    of(DataType::Float8E4M3, Encoding::Small(4, 3, Specials::AllOnes), 1.0),
    of(DataType::Float8E5M2, Encoding::Small(5, 2, Specials::Ieee), 1.0),
    of(DataType::Float8E4M3Fnuz, Encoding::Small(4, 3, Specials::MinusZero), 1.0),
    of(DataType::Float8E5M2Fnuz, Encoding::Small(5, 2, Specials::MinusZero), 1.0),
    of(DataType::Int8, Encoding::Signed, 0.0),
    of(DataType::Int32, Encoding::Signed, 0.0),
    of(DataType::Int64, Encoding::Signed, 0.0),
    of(DataType::Uint8, Encoding::Unsigned, 0.0),
    of(DataType::Boolean, Encoding::Unsigned, 0.0),
];

const fn of(data_type: DataType, encoding: Encoding, epsilons: f64) -> Type {
    Type { data_type, encoding, epsilons }
}

impl Type {
    fn tolerance(&self) -> f64 {
        let mantissa = match self.encoding {
            Encoding::Signed | Encoding::Unsigned => return 0.0,
            Encoding::Single => 23,
            Encoding::Double => 52,
            Encoding::Small(_, mantissa, _) => mantissa,
        };
        self.epsilons * (-f64::from(mantissa)).exp2()
    }
}

/// What became of the comparison of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Verification {
    /// Both results are there.
    Compared {
        /// The largest difference, relative to the largest magnitude. Infinite (in JSON: null) if only one result has a number there.
        error: f64,
        /// What the type of the output allows.
        tolerance: f64,
        /// Whether that is enough.
        ok: bool,
    },
    /// There was nothing to compare.
    Skipped {
        /// Why.
        skipped: String,
    },
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compared { error, tolerance, ok } => write!(f, "{}, {error:.3e} of {tolerance:.3e}", if *ok { "ok" } else { "mismatch" }),
            Self::Skipped { skipped } => write!(f, "not: {skipped}"),
        }
    }
}

/// How two results of one tensor differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The largest difference, relative to the largest magnitude of a finite number in either result.
    pub error: f64,
    /// What the type allows.
    pub tolerance: f64,
    /// Where it is, in the order of the descriptor's dimensions.
    pub at: Vec<i64>,
    /// The element of the first result there.
    pub first: f64,
    /// The element of the second.
    pub second: f64,
}

impl Difference {
    /// Whether it is no larger than its type allows.
    pub fn is_tolerable(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// Compares two results element by element; what lies between elements is not looked at. `None` if elements of this type, or the extent of
/// the tensor, are unknown, or if one result is not all there.
pub fn compare(tensor: &TensorDescriptor, first: &[u8], second: &[u8]) -> Option<Difference> {
    let kind = TYPES.iter().find(|kind| kind.data_type == tensor.data_type())?;
    let (bytes, extent) = (tensor.data_type().bytes()?, usize::try_from(tensor.extent_bytes()?).ok()?);
    let (first, second) = (first.get(..extent)?, second.get(..extent)?);
    let vector = i64::from(tensor.vector_length());
    let dims: Vec<i64> = tensor.dims().iter().copied().chain((vector > 1).then_some(vector)).collect();
    let strides: Vec<i64> = tensor.strides().iter().copied().chain((vector > 1).then_some(1)).collect();
    let start = vec![0; dims.len()];
    let (mut at, mut worst, mut largest) = (start.clone(), (0.0, start, 0.0, 0.0), 0.0f64);
    loop {
        let offset: i64 = at.iter().zip(&strides).map(|(index, stride)| index * stride).sum();
        // The extent, which was checked, has no overflow and holds every element.
        let place = usize::try_from(offset).ok()? * bytes;
        let elements = [first, second].map(|result| Element::read(kind.encoding, &result[place..place + bytes]));
        let values = elements.map(Element::value);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            largest = largest.max(value.abs());
        }
        let distance = Element::distance(elements);
        if distance > worst.0 {
            worst = (distance, at.clone(), values[0], values[1]);
        }
        if !advance(&mut at, &dims) {
            break;
        }
    }
    let (distance, at, first, second) = worst;
    // A difference of finite numbers means that one of them is not zero.
    let error = if distance.is_finite() && largest > 0.0 { distance / largest } else { distance };
    Some(Difference { error, tolerance: kind.tolerance(), at, first, second })
}

/// Counts an index up, last axis first. False after the last.
fn advance(at: &mut [i64], dims: &[i64]) -> bool {
    for (index, dim) in at.iter_mut().zip(dims).rev() {
        *index += 1;
        if *index < *dim {
            return true;
        }
        *index = 0;
    }
    false
}

/// One element. Integers stay integers: not all of 64 bits are floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    Integer(i64),
    Number(f64),
}

impl Element {
    /// Reads an element of at most eight bytes.
    fn read(encoding: Encoding, bytes: &[u8]) -> Self {
        let code = bytes.iter().rev().fold(0u64, |code, &byte| code << 8 | u64::from(byte));
        match encoding {
            Encoding::Unsigned => Self::Integer(code.cast_signed()),
            Encoding::Signed => {
                let unused = 64 - 8 * bytes.len();
                Self::Integer(code.cast_signed() << unused >> unused)
            }
            Encoding::Single => Self::Number(f64::from(f32::from_bits(code as u32))),
            Encoding::Double => Self::Number(f64::from_bits(code)),
            Encoding::Small(exponent, mantissa, specials) => Self::Number(small(code as u32, exponent, mantissa, specials)),
        }
    }

    fn value(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Number(value) => value,
        }
    }

    /// Infinite where only one is a number, or where they are different infinities.
    fn distance(elements: [Self; 2]) -> f64 {
        match elements {
            [Self::Integer(a), Self::Integer(b)] => a.abs_diff(b) as f64,
            [a, b] => {
                let (a, b) = (a.value(), b.value());
                let equal = a == b || (a.is_nan() && b.is_nan());
                if equal {
                    0.0
                } else if a.is_finite() && b.is_finite() {
                    (a - b).abs()
                } else {
                    f64::INFINITY
                }
            }
        }
    }
}

/// The number that a code of a small floating-point type is.
fn small(code: u32, exponent_bits: u32, mantissa_bits: u32, specials: Specials) -> f64 {
    let (all_exponents, all_mantissas) = ((1 << exponent_bits) - 1, (1 << mantissa_bits) - 1);
    let (exponent, mantissa) = (code >> mantissa_bits & all_exponents, code & all_mantissas);
    let negative = code >> (exponent_bits + mantissa_bits) & 1 == 1;
    let sign = if negative { -1.0 } else { 1.0 };
    match specials {
        Specials::Ieee if exponent == all_exponents => return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN },
        Specials::AllOnes if exponent == all_exponents && mantissa == all_mantissas => return f64::NAN,
        Specials::MinusZero if negative && exponent == 0 && mantissa == 0 => return f64::NAN,
        _ => {}
    }
    let bias = (1 << (exponent_bits - 1)) - i32::from(specials != Specials::MinusZero);
    let (significand, power) = if exponent == 0 { (mantissa, 1) } else { (mantissa + all_mantissas + 1, exponent.cast_signed()) };
    sign * f64::from(significand) * f64::from(power - bias - mantissa_bits.cast_signed()).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_type::BACKEND_TYPES;

    fn tensor(data_type: DataType, dims: &[i64], strides: &[i64]) -> TensorDescriptor {
        TensorDescriptor::new(data_type, None, dims, strides, 1, None).unwrap()
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn row(first: &[f32], second: &[f32]) -> Difference {
        compare(&tensor(DataType::Float, &[first.len() as i64], &[1]), &floats(first), &floats(second)).unwrap()
    }

    #[test]
    fn every_type_that_a_backend_may_write_has_a_tolerance() {
        for (data_type, _) in BACKEND_TYPES {
            assert_eq!(TYPES.iter().filter(|kind| kind.data_type == *data_type).count(), 1, "{data_type:?}");
        }
    }

    #[test]
    fn codes_are_the_numbers_that_their_types_say() {
        let number = |data_type: DataType, code: u32| {
            let Some(Type { encoding: Encoding::Small(exponent, mantissa, specials), .. }) =
                TYPES.iter().find(|t| t.data_type == data_type)
            else {
                panic!("{data_type:?} is not small");
            };
            small(code, *exponent, *mantissa, *specials)
        };
        for (data_type, code, value) in [
            (DataType::Half, 0x3c00, 1.0),
            (DataType::Half, 0xc000, -2.0),
            (DataType::Half, 0x7bff, 65504.0),
            (DataType::Half, 0x0001, 2f64.powi(-24)),
            (DataType::Half, 0xfc00, f64::NEG_INFINITY),
            (DataType::BFloat16, 0x3f80, 1.0),
            (DataType::BFloat16, 0x4049, 3.140625),
            (DataType::Float8E4M3, 0x38, 1.0),
            (DataType::Float8E4M3, 0x7e, 448.0),
            (DataType::Float8E5M2, 0x3c, 1.0),
            (DataType::Float8E5M2, 0x7b, 57344.0),
            (DataType::Float8E5M2, 0x7c, f64::INFINITY),
            (DataType::Float8E4M3Fnuz, 0x40, 1.0),
            (DataType::Float8E4M3Fnuz, 0x7f, 240.0),
            (DataType::Float8E5M2Fnuz, 0x40, 1.0),
            (DataType::Float8E5M2Fnuz, 0x7f, 57344.0),
        ] {
            assert_eq!(number(data_type, code), value, "{data_type:?} {code:#x}");
        }
        for (data_type, code) in [
            (DataType::Half, 0x7e00),
            (DataType::BFloat16, 0xffff),
            (DataType::Float8E4M3, 0xff),
            (DataType::Float8E5M2, 0x7d),
            (DataType::Float8E4M3Fnuz, 0x80),
            (DataType::Float8E5M2Fnuz, 0x80),
        ] {
            assert!(number(data_type, code).is_nan(), "{data_type:?} {code:#x}");
        }
    }

    #[test]
    fn the_largest_difference_is_found_and_measured_by_the_largest_magnitude() {
        let difference = row(&[1.0, -4.0, 2.0], &[1.0, -4.0, 2.5]);
        assert_eq!((difference.error, difference.at.as_slice(), difference.first, difference.second), (0.125, &[2][..], 2.0, 2.5));
        assert!(!difference.is_tolerable());
        let last_digit = row(&[1.0, 1e-9], &[1.0 + f32::EPSILON, 0.0]);
        assert!(last_digit.error > 0.0 && last_digit.is_tolerable(), "{last_digit:?}");
        assert_eq!(row(&[0.0, -0.0], &[0.0, 0.0]).error, 0.0);
    }

    #[test]
    fn what_is_no_number_must_be_so_in_both() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        assert_eq!(row(&[nan, infinity, -infinity], &[nan, infinity, -infinity]).error, 0.0);
        for (first, second) in [(nan, 1.0), (1.0, nan), (infinity, 1.0), (infinity, -infinity), (nan, infinity)] {
            let difference = row(&[1.0, first], &[1.0, second]);
            assert!(difference.error == f64::INFINITY && !difference.is_tolerable() && difference.at == [1], "{first} {second}");
        }
    }

    #[test]
    fn gaps_are_not_looked_at() {
        let strided = tensor(DataType::Float, &[2, 2], &[4, 2]);
        let first = floats(&[1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 4.0]);
        let second = floats(&[1.0, 7.0, 2.0, 7.0, 3.0, 7.0, 4.0]);
        assert_eq!(compare(&strided, &first, &second).unwrap().error, 0.0);
        let wrong = floats(&[1.0, 7.0, 2.0, 7.0, 5.0, 7.0, 4.0]);
        assert_eq!(compare(&strided, &first, &wrong).unwrap().at, [1, 0]);
        assert_eq!(compare(&strided, &first[1..], &second), None);
    }

    #[test]
    fn integers_are_exact() {
        let one = |data_type, first: &[u8], second: &[u8]| compare(&tensor(data_type, &[1], &[1]), first, second).unwrap();
        let (a, b) = (i64::MAX.to_le_bytes(), (i64::MAX - 1).to_le_bytes());
        assert!(!one(DataType::Int64, &a, &b).is_tolerable() && one(DataType::Int64, &a, &a).is_tolerable());
        let byte = one(DataType::Int8, &[0xff], &[1]);
        assert_eq!((byte.first, byte.second, byte.is_tolerable()), (-1.0, 1.0, false));
        assert_eq!(one(DataType::Uint8, &[0xff], &[1]).first, 255.0);
    }

    #[test]
    fn tolerances_tell_a_wrong_element_from_another_order() {
        for (data_type, near, far) in [(DataType::Half, 0x3c04u16, 0x3d00u16), (DataType::BFloat16, 0x3f81, 0x3f88)] {
            let one = if data_type == DataType::Half { 0x3c00u16 } else { 0x3f80 };
            let compared = |code: u16| compare(&tensor(data_type, &[1], &[1]), &one.to_le_bytes(), &code.to_le_bytes()).unwrap();
            assert!(compared(near).is_tolerable() && !compared(far).is_tolerable(), "{data_type:?}");
        }
    }

    #[test]
    fn vectors_are_elements() {
        let vectors = TensorDescriptor::new(DataType::Int8, None, &[2], &[4], 4, None).unwrap();
        let (first, mut second) = ([0u8; 8], [0u8; 8]);
        second[6] = 1;
        assert_eq!(compare(&vectors, &first, &second).unwrap().at, [1, 2]);
    }
}
