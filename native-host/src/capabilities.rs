//! What a backend can express: what the translator is told about it. Probed from a library, or read from a file by offline tools.

use serde::{Deserialize, Serialize};

use crate::data_type::{BACKEND_TYPES, DataType};

/// What the loaded backend can express.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// `MAJOR.MINOR.PATCH.TWEAK`, empty when the backend does not say.
    pub backend_version: String,
    /// Operation descriptor types that can be created.
    pub operations: Vec<i32>,
    /// Element types whose numbering is known for this backend.
    pub data_types: Vec<DataType>,
    /// Whether plans can be saved and loaded.
    pub plan_serialization: bool,
}

impl Capabilities {
    /// Everything that the ABI table can express: what offline tools assume when nobody says otherwise.
    pub fn whole_abi() -> Self {
        Self {
            backend_version: String::new(),
            operations: hipdnn_abi::DESCRIPTORS.iter().filter(|d| d.is_operation).map(|d| d.kind).collect(),
            data_types: BACKEND_TYPES.iter().map(|(t, _)| *t).collect(),
            plan_serialization: true,
        }
    }
}

/// The form that capabilities take in a file: the backend's own numbers.
#[derive(Debug, Serialize, Deserialize)]
pub struct CapabilitiesFile {
    /// As in [`Capabilities`].
    pub backend_version: String,
    /// As in [`Capabilities`].
    pub operations: Vec<i32>,
    /// `hipdnnDataType_t` numbers.
    pub data_types: Vec<i32>,
    /// As in [`Capabilities`].
    pub plan_serialization: bool,
}

impl From<CapabilitiesFile> for Capabilities {
    fn from(file: CapabilitiesFile) -> Self {
        let data_types = BACKEND_TYPES.iter().filter(|(_, n)| file.data_types.contains(n)).map(|(t, _)| *t).collect();
        Self { backend_version: file.backend_version, operations: file.operations, data_types, plan_serialization: file.plan_serialization }
    }
}
