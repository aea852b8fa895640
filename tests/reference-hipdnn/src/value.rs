//! Values of attributes, and their way from and to C arrays. What may be set where is not decided here.

use std::{ffi::c_void, ptr, sync::Arc};

use hipdnn_abi::attribute_type;

use crate::{
    descriptor::Object,
    error::{Error, Result},
    registry::DESCRIPTORS,
};

/// The elements of one attribute.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// `INT64`.
    Int64(Vec<i64>),
    /// `INT32` and every enum.
    Int32(Vec<i32>),
    /// `FLOAT`.
    Float(Vec<f32>),
    /// `DOUBLE`.
    Double(Vec<f64>),
    /// `BOOLEAN`.
    Bool(Vec<bool>),
    /// `CHAR`: text without NUL, or raw bytes.
    Bytes(Vec<u8>),
    /// `VOID_PTR` and `HANDLE`: never followed.
    Addresses(Vec<usize>),
    /// `BACKEND_DESCRIPTOR`.
    Descriptors(Vec<Arc<Object>>),
}

impl Value {
    /// Copies a C array in and checks what can be checked without knowing the attribute: enum values, booleans, live descriptors.
    ///
    /// # Safety
    /// `data` holds `count` elements of the wire type.
    pub(crate) unsafe fn read(wire: i32, count: usize, data: *const c_void) -> Result<Self> {
        // SAFETY: `data` holds `count` elements of the type that each arm reads, by the contract of this function.
        unsafe {
            Ok(match wire {
                attribute_type::INT64 => Self::Int64(elements(data, count)),
                attribute_type::FLOAT => Self::Float(elements(data, count)),
                attribute_type::DOUBLE => Self::Double(elements(data, count)),
                attribute_type::BOOLEAN => Self::Bool(elements::<u8>(data, count).into_iter().map(boolean).collect::<Result<_>>()?),
                attribute_type::CHAR => Self::Bytes(elements(data, count)),
                attribute_type::HANDLE | attribute_type::VOID_PTR => Self::Addresses(elements(data, count)),
                attribute_type::BACKEND_DESCRIPTOR => Self::Descriptors(descriptors(&elements(data, count))?),
                attribute_type::INT32 => Self::Int32(elements(data, count)),
                wire if hipdnn_abi::values_of(wire).is_some() => Self::Int32(enumeration(wire, elements(data, count))?),
                _ => return Err(Error::unsupported(format!("attribute type {wire} is not supported"))),
            })
        }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int64(v) => v.len(),
            Self::Int32(v) => v.len(),
            Self::Float(v) => v.len(),
            Self::Double(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Bytes(v) => v.len(),
            Self::Addresses(v) => v.len(),
            Self::Descriptors(v) => v.len(),
        }
    }

    /// Whether the elements have this wire type.
    pub(crate) fn has_type(&self, wire: i32) -> bool {
        match self {
            Self::Int64(_) => wire == attribute_type::INT64,
            Self::Int32(_) => {
                matches!(wire, attribute_type::INT32 | attribute_type::OPERATION_TYPE_EXT) || hipdnn_abi::values_of(wire).is_some()
            }
            Self::Float(_) => wire == attribute_type::FLOAT,
            Self::Double(_) => wire == attribute_type::DOUBLE,
            Self::Bool(_) => wire == attribute_type::BOOLEAN,
            Self::Bytes(_) => wire == attribute_type::CHAR,
            Self::Addresses(_) => matches!(wire, attribute_type::HANDLE | attribute_type::VOID_PTR),
            Self::Descriptors(_) => wire == attribute_type::BACKEND_DESCRIPTOR,
        }
    }

    /// Copies the first `count` elements out; descriptors become new handles that the caller must destroy.
    ///
    /// # Safety
    /// `array` is writable for `count` elements, and `count` is at most [`Value::len`].
    pub(crate) unsafe fn write(&self, count: usize, array: *mut c_void) {
        // SAFETY: by the contract of this function, and the elements written have the type that the attribute's wire type says.
        unsafe {
            match self {
                Self::Int64(v) => store(&v[..count], array),
                Self::Int32(v) => store(&v[..count], array),
                Self::Float(v) => store(&v[..count], array),
                Self::Double(v) => store(&v[..count], array),
                Self::Bool(v) => store(&v[..count], array),
                Self::Bytes(v) => store(&v[..count], array),
                Self::Addresses(v) => store(&v[..count], array),
                Self::Descriptors(v) => {
                    let handles: Vec<_> = v[..count].iter().map(|object| DESCRIPTORS.insert(object.clone())).collect();
                    store(&handles, array);
                }
            }
        }
    }

    /// The elements of an `INT64` attribute.
    pub(crate) fn int64s(&self) -> &[i64] {
        if let Self::Int64(v) = self { v } else { &[] }
    }

    /// The elements of an enum or `INT32` attribute.
    pub(crate) fn int32s(&self) -> &[i32] {
        if let Self::Int32(v) = self { v } else { &[] }
    }

    /// The bytes of a `CHAR` attribute.
    pub(crate) fn bytes(&self) -> &[u8] {
        if let Self::Bytes(v) = self { v } else { &[] }
    }

    /// The addresses of a `HANDLE` or `VOID_PTR` attribute.
    pub(crate) fn addresses(&self) -> &[usize] {
        if let Self::Addresses(v) = self { v } else { &[] }
    }

    /// The objects of a descriptor attribute.
    pub(crate) fn descriptors(&self) -> &[Arc<Object>] {
        if let Self::Descriptors(v) = self { v } else { &[] }
    }

    /// The first flag of a `BOOLEAN` attribute.
    pub(crate) fn flag(&self) -> bool {
        if let Self::Bool(v) = self { v.first().is_some_and(|&flag| flag) } else { false }
    }
}

/// # Safety
/// `data` holds `count` elements; it need not be aligned.
unsafe fn elements<T: Copy>(data: *const c_void, count: usize) -> Vec<T> {
    let data: *const T = data.cast();
    // SAFETY: each element is readable by the contract of this function; unaligned reads are used.
    (0..count).map(|i| unsafe { data.add(i).read_unaligned() }).collect()
}

/// # Safety
/// `array` is writable for all elements; it need not be aligned.
unsafe fn store<T: Copy>(elements: &[T], array: *mut c_void) {
    // SAFETY: copied as bytes into memory that is large enough by the contract of this function.
    unsafe { ptr::copy_nonoverlapping(elements.as_ptr().cast::<u8>(), array.cast(), size_of_val(elements)) };
}

fn boolean(byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::bad(format!("{byte} is no boolean"))),
    }
}

fn enumeration(wire: i32, values: Vec<i32>) -> Result<Vec<i32>> {
    let known = hipdnn_abi::values_of(wire).unwrap_or_default();
    // No mode but FALLBACK exists; the real backend says "not supported" to others, unlike for every other enum.
    let refuse = |value| match wire {
        attribute_type::HEUR_MODE => Error::unsupported(format!("heuristic mode {value} is not supported")),
        _ => Error::bad(format!("{value} is no value of {}", hipdnn_abi::name_in(attribute_type::ALL, wire).unwrap_or("this enum"))),
    };
    match values.iter().find(|value| hipdnn_abi::name_in(known, **value).is_none()) {
        Some(&value) => Err(refuse(value)),
        None => Ok(values),
    }
}

fn descriptors(numbers: &[*const c_void]) -> Result<Vec<Arc<Object>>> {
    numbers.iter().map(|&number| DESCRIPTORS.get(number)).collect()
}
