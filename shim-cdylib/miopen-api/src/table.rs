//! The API as typed data, read from the embedded JSON. How headers or stubs are written from it is for others.

use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The whole public API: the union of every version looked at.
#[derive(Debug)]
pub struct Api {
    /// Functions that some public header declares.
    pub functions: Vec<Function>,
    /// Functions that libraries export and no header declares, though clients use some.
    pub unlisted_exports: Vec<Function>,
    /// Enums, in header order.
    pub enums: Vec<EnumType>,
    /// Structs passed by pointer.
    pub structs: Vec<Struct>,
    /// Names of the opaque handle types (`miopenHandle_t`, …).
    pub handles: Vec<String>,
    /// Types of the allocator callbacks.
    pub function_pointer_types: Vec<FunctionPointer>,
}

/// One exported function.
#[derive(Debug, Deserialize)]
pub struct Function {
    /// The C name, without any suffix.
    pub name: String,
    /// The C return type: `miopenStatus_t`, but for `miopenGetErrorString`.
    pub returns: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// The operation family, e.g. `convolution` or `rnn`.
    pub family: String,
    /// What kind of call it is: create, destroy, set, get, size-query, compile or exec (may launch device work).
    pub role: String,
    /// Whether headers hide the declaration behind `MIOPEN_BETA_API`. Libraries export it all the same.
    #[serde(default)]
    pub beta: bool,
    /// `3.3.0`, or `newer`; none for unlisted exports.
    #[serde(default)]
    pub since: Option<String>,
    /// The first version it was seen in; none for unlisted exports.
    #[serde(default)]
    pub first_seen: Option<String>,
    /// The versions it was seen in.
    pub present_in: Vec<String>,
    /// The last version that had it, if it is gone.
    #[serde(default)]
    pub removed_after: Option<String>,
}

/// One parameter of a function.
#[derive(Debug, Deserialize)]
pub struct Param {
    /// The name in the header.
    pub name: String,
    /// The C type as spelled in the header, `const` on values included. One unlisted export has a C++ reference.
    pub ctype: String,
    /// How it is passed.
    pub abi: Abi,
}

/// How a parameter is passed under the x86-64 System V ABI.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
pub enum Abi {
    /// Any pointer, handles included.
    #[serde(rename = "ptr")]
    Ptr,
    /// `int`, `int32_t`.
    #[serde(rename = "i32")]
    I32,
    /// `unsigned int`, `uint32_t`.
    #[serde(rename = "u32")]
    U32,
    /// `long`, `int64_t`.
    #[serde(rename = "i64")]
    I64,
    /// `size_t`, `uint64_t`, `unsigned long long`.
    #[serde(rename = "u64")]
    U64,
    /// `float`.
    #[serde(rename = "f32")]
    F32,
    /// `double`.
    #[serde(rename = "f64")]
    F64,
    /// C `bool`, one byte.
    #[serde(rename = "u8(bool)")]
    Bool,
    /// Any enum: four bytes.
    #[serde(rename = "enum:u32")]
    Enum,
}

impl Abi {
    /// The Rust type that generated code declares for such a parameter. Enums are `i32`, like this crate's constants; a `bool`
    /// is `u8`, because a C caller's byte may be anything.
    pub fn rust_type(self) -> &'static str {
        match self {
            Abi::Ptr => "*mut core::ffi::c_void",
            Abi::I32 | Abi::Enum => "i32",
            Abi::U32 => "u32",
            Abi::I64 => "i64",
            Abi::U64 => "u64",
            Abi::F32 => "f32",
            Abi::F64 => "f64",
            Abi::Bool => "u8",
        }
    }
}

/// An enum of the API.
#[derive(Debug)]
pub struct EnumType {
    /// The C name.
    pub name: String,
    /// Its enumerators in header order; two may share a value.
    pub values: Vec<EnumValue>,
}

/// One enumerator.
#[derive(Debug)]
pub struct EnumValue {
    /// The C name.
    pub name: String,
    /// Its value: unsigned, 32 bits.
    pub value: u32,
}

/// A struct of the API.
#[derive(Debug)]
pub struct Struct {
    /// The C name.
    pub name: String,
    /// Bytes.
    pub size: usize,
    /// Bytes.
    pub align: usize,
    /// Fields in order.
    pub fields: Vec<Field>,
}

/// One field of a struct.
#[derive(Debug, Deserialize)]
pub struct Field {
    /// The name in the header.
    pub field: String,
    /// The C type.
    pub ctype: String,
    /// The kind of value.
    pub abi: Abi,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Whether it is a member of the struct's one anonymous union.
    #[serde(default)]
    pub in_anonymous_union: bool,
}

/// A function pointer type of the API.
#[derive(Debug, Deserialize)]
pub struct FunctionPointer {
    /// The C name.
    pub name: String,
    /// The C return type.
    pub returns: String,
    /// Parameters in order; only name and C type are known.
    pub params: Vec<PointerParam>,
}

/// One parameter of a function pointer type.
#[derive(Debug, Deserialize)]
pub struct PointerParam {
    /// The name in the header.
    pub name: String,
    /// The C type.
    pub ctype: String,
}

/// The table. Parsed once; the JSON is part of the crate, so failing to parse it is a bug of the crate and panics.
pub fn table() -> &'static Api {
    static TABLE: OnceLock<Api> = OnceLock::new();
    TABLE.get_or_init(|| {
        let raw: Raw = serde_json::from_str(include_str!("../miopen-api.json")).expect("the embedded API table parses");
        raw.into_api()
    })
}

impl Api {
    /// Every exported MIOpen function in a fixed order: the listed ones, then the unlisted.
    pub fn exports(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().chain(&self.unlisted_exports)
    }

    /// The exported function of that name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.exports().find(|f| f.name == name)
    }
}

impl Function {
    /// The position of the parameter of that name.
    pub fn param_index(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }

    /// Whether it returns `miopenStatus_t` (all but `miopenGetErrorString` do).
    pub fn returns_status(&self) -> bool {
        self.returns == "miopenStatus_t"
    }
}

/// The JSON as it is written.
#[derive(Deserialize)]
struct Raw {
    functions: Vec<Function>,
    unlisted_exports: Vec<Function>,
    enums: Ordered<Ordered<u32>>,
    structs: Ordered<Vec<Field>>,
    struct_layout: Ordered<Layout>,
    handles: Vec<String>,
    function_pointer_types: Vec<FunctionPointer>,
}

#[derive(Deserialize)]
struct Layout {
    size: usize,
    align: usize,
}

impl Raw {
    fn into_api(self) -> Api {
        let enums = self.enums.0.into_iter().map(|(name, values)| EnumType { name, values: values.into_enumerators() });
        let layouts = self.struct_layout.0;
        let structs = self.structs.0.into_iter().map(|(name, fields)| {
            let (_, layout) = layouts.iter().find(|(n, _)| *n == name).expect("every struct has a layout");
            Struct { name, size: layout.size, align: layout.align, fields }
        });
        Api {
            functions: self.functions,
            unlisted_exports: self.unlisted_exports,
            enums: enums.collect(),
            structs: structs.collect(),
            handles: self.handles,
            function_pointer_types: self.function_pointer_types,
        }
    }
}

/// A JSON object in the order it was written (serde_json's own map sorts).
struct Ordered<V>(Vec<(String, V)>);

impl Ordered<u32> {
    fn into_enumerators(self) -> Vec<EnumValue> {
        self.0.into_iter().map(|(name, value)| EnumValue { name, value }).collect()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Ordered<V>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn has_every_export_once() {
        let names: HashSet<_> = table().exports().map(|f| f.name.as_str()).collect();
        assert_eq!((table().functions.len(), table().unlisted_exports.len()), (281, 7));
        assert_eq!(names.len(), 288);
        assert!(!names.contains(crate::FORWARDED_ERROR_FUNCTION));
    }

    #[test]
    fn finds_parameters_by_name() {
        let forward = table().function("miopenConvolutionForward").unwrap();
        assert_eq!(forward.params.len(), 13);
        assert_eq!(forward.param_index("convDesc"), Some(6));
        assert_eq!(forward.param_index("nothing"), None);
        assert_eq!(forward.params[7].abi, Abi::Enum);
        assert!(forward.returns_status() && !table().function("miopenGetErrorString").unwrap().returns_status());
    }

    #[test]
    fn constants_and_table_agree() {
        let status = table().enums.iter().find(|e| e.name == "miopenStatus_t").unwrap();
        let from_table: Vec<_> = status.values.iter().map(|v| (v.name.as_str(), v.value.cast_signed())).collect();
        assert_eq!(from_table, crate::status::ALL);
    }
}
