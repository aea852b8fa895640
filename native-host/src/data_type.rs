//! Element types, once for the whole host: what the contract calls them, what the backend numbers them, how many bytes they take.
//! MIOpen's own numbers stop at the edge (the shim's `convert`).

use hipdnn_abi::data_type as number;
use serde::{Deserialize, Serialize};

/// An element type of MIOpen or of the hipDNN backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "lowercase")]
pub enum DataType {
    /// IEEE binary16.
    Half,
    /// IEEE binary32.
    Float,
    /// IEEE binary64.
    Double,
    /// bfloat16.
    BFloat16,
    /// Signed 8-bit integer.
    Int8,
    /// Unsigned 8-bit integer.
    Uint8,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
    /// One byte, 0 or 1.
    Boolean,
    /// `miopenFloat8_fnuz`.
    Float8E4M3Fnuz,
    /// `miopenBFloat8_fnuz`.
    Float8E5M2Fnuz,
    /// OCP E4M3.
    Float8E4M3,
    /// OCP E5M2.
    Float8E5M2,
    /// MIOpen's retired vector of four int8.
    Int8x4,
    /// A number that this version does not know.
    Unrecognized,
}

/// Types with a backend number, in the order they are probed and listed.
pub const BACKEND_TYPES: &[(DataType, i32)] = &[
    (DataType::Float, number::FLOAT),
    (DataType::Double, number::DOUBLE),
    (DataType::Half, number::HALF),
    (DataType::Int8, number::INT8),
    (DataType::Int32, number::INT32),
    (DataType::Uint8, number::UINT8),
    (DataType::BFloat16, number::BFLOAT16),
    (DataType::Float8E4M3, number::FP8_E4M3),
    (DataType::Float8E5M2, number::FP8_E5M2),
    (DataType::Int64, number::INT64),
    (DataType::Boolean, number::BOOLEAN),
    (DataType::Float8E4M3Fnuz, number::FP8_E4M3_FNUZ),
    (DataType::Float8E5M2Fnuz, number::FP8_E5M2_FNUZ),
];

impl DataType {
    /// The backend's number (`hipdnnDataType_t`), or `None` if it has none.
    pub fn backend_number(self) -> Option<i32> {
        BACKEND_TYPES.iter().find(|(t, _)| *t == self).map(|(_, n)| *n)
    }

    /// Bytes of one element, or `None` if the type has no backend number.
    pub fn bytes(self) -> Option<usize> {
        self.backend_number().and_then(hipdnn_abi::data_type_bytes)
    }

    /// Whether the number means different things to different versions of the backend, so that it must be probed.
    pub fn numbering_varies(self) -> bool {
        matches!(self, Self::Boolean | Self::Float8E4M3Fnuz | Self::Float8E5M2Fnuz)
    }
}
