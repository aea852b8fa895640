//! The hipDNN backend ABI as data: every number, every attribute of every descriptor, from `hipdnn-abi.json`.
//!
//! Belongs here: numbers and tables of the ABI, which are the vocabulary of the contract in `wit/`. Does not belong here: any
//! opinion about how to use them (translator), any call into a library (host).
#![no_std]

/// What an operation does with the tensor that an attribute names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The operation reads the tensor.
    Read,
    /// The operation writes the tensor.
    Write,
}

/// How many elements an attribute takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly one.
    One,
    /// One or more.
    Many,
}

/// Whether an attribute must be set before its descriptor can be finalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It must.
    Required,
    /// It may be left out.
    Optional,
    /// It must be set together with others of its group (the running statistics of batch normalization, …).
    Conditional,
    /// It can only be read.
    ReadOnly,
}

/// One attribute of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct AttributeSpec {
    /// The number on the wire (`hipdnnBackendAttributeName_t`).
    pub number: i32,
    /// The C name.
    pub name: &'static str,
    /// The attribute types it takes (`hipdnnBackendAttributeType_t`), nearly always one.
    pub types: &'static [i32],
    /// How many elements it takes.
    pub count: Count,
    /// Whether it must be set.
    pub need: Need,
    /// For tensors of operations: whether the operation reads or writes them.
    pub access: Option<Access>,
}

/// One descriptor type.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorSpec {
    /// The number on the wire (`hipdnnBackendDescriptorType_t`).
    pub kind: i32,
    /// The C name.
    pub name: &'static str,
    /// Whether it can be a node of an operation graph.
    pub is_operation: bool,
    /// Its attributes.
    pub attributes: &'static [AttributeSpec],
}

impl DescriptorSpec {
    /// The attribute with this number, if the descriptor has it.
    pub fn attribute(&self, number: i32) -> Option<&'static AttributeSpec> {
        self.attributes.iter().find(|a| a.number == number)
    }
}

/// The descriptor with this type number, if the ABI table describes it.
pub fn descriptor(kind: i32) -> Option<&'static DescriptorSpec> {
    DESCRIPTORS.iter().find(|d| d.kind == kind)
}

/// The name of a value in one of the `ALL` lists, or `None`.
pub fn name_in(values: &'static [(i32, &'static str)], value: i32) -> Option<&'static str> {
    values.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
}

/// Bytes of one element of a `hipdnnDataType_t`, or `None` for types without a whole number of bytes (FP4, FP6, INT4, E8M0).
pub const fn data_type_bytes(data_type: i32) -> Option<usize> {
    match data_type {
        data_type::DOUBLE | data_type::INT64 => Some(8),
        data_type::FLOAT | data_type::INT32 => Some(4),
        data_type::HALF | data_type::BFLOAT16 => Some(2),
        data_type::INT8 | data_type::UINT8 | data_type::FP8_E4M3 | data_type::FP8_E5M2 => Some(1),
        data_type::BOOLEAN | data_type::FP8_E4M3_FNUZ | data_type::FP8_E5M2_FNUZ => Some(1),
        _ => None,
    }
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_reads_and_writes_something() {
        for operation in DESCRIPTORS.iter().filter(|d| d.is_operation) {
            for access in [Access::Read, Access::Write] {
                assert!(operation.attributes.iter().any(|a| a.access == Some(access)), "{} has no {access:?}", operation.name);
            }
        }
    }

    #[test]
    fn numbers_within_a_descriptor_are_unique() {
        for descriptor in DESCRIPTORS {
            for (i, a) in descriptor.attributes.iter().enumerate() {
                assert!(descriptor.attributes[..i].iter().all(|b| b.number != a.number), "{} repeats {}", descriptor.name, a.number);
            }
        }
    }

    #[test]
    fn the_numbers_are_the_published_ones() {
        assert_eq!(attribute::OPERATION_CONVOLUTION_FORWARD_W, 1400);
        assert_eq!(descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 15);
        assert_eq!(data_type::FP8_E5M2_FNUZ, 17);
        assert_eq!(CORE_FUNCTIONS.len(), 12);
    }
}
