//! Turns `hipdnn-abi.json` into constants and static tables, so that every number of the backend ABI is written once.

use std::{collections::BTreeSet, env, error::Error, fmt::Write as _, fs, path::Path};

use serde_json::Value;

/// Enum in the table, module it becomes, prefix its constants lose, and the attribute type whose values it lists (if any).
const ENUMS: &[(&str, &str, &str, Option<&str>)] = &[
    ("hipdnnStatus_t", "status", "HIPDNN_STATUS_", None),
    ("hipdnnBackendAttributeType_t", "attribute_type", "HIPDNN_TYPE_", None),
    ("hipdnnBackendDescriptorType_t", "descriptor_type", "HIPDNN_", None),
    ("hipdnnBackendAttributeName_t", "attribute", "HIPDNN_ATTR_", None),
    ("hipdnnDataType_t", "data_type", "HIPDNN_DATA_", Some("HIPDNN_TYPE_DATA_TYPE")),
    ("hipdnnBackendHeurMode_t", "heuristic_mode", "HIPDNN_HEUR_MODE_", Some("HIPDNN_TYPE_HEUR_MODE")),
    ("hipdnnBackendBehaviorNote_t", "behavior_note", "HIPDNN_BEHAVIOR_NOTE_", Some("HIPDNN_TYPE_BEHAVIOR_NOTE")),
    ("hipdnnConvolutionMode_t", "convolution_mode", "HIPDNN_", Some("HIPDNN_TYPE_CONVOLUTION_MODE")),
    ("hipdnnNormFwdPhase_t", "norm_phase", "HIPDNN_NORM_FWD_", Some("HIPDNN_TYPE_NORM_FWD_PHASE")),
    ("hipdnnPaddingMode_t", "padding_mode", "HIPDNN_PADDING_", Some("HIPDNN_TYPE_PADDING_MODE")),
    ("hipdnnResampleMode_t", "resample_mode", "HIPDNN_RESAMPLE_", Some("HIPDNN_TYPE_RESAMPLE_MODE")),
    ("hipdnnReduceTensorOp_t", "reduce_op", "HIPDNN_REDUCE_TENSOR_", Some("HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE")),
    ("hipdnnPointwiseMode_t", "pointwise_mode", "HIPDNN_POINTWISE_", Some("HIPDNN_TYPE_POINTWISE_MODE")),
    ("hipdnnDiagonalAlignment_t", "diagonal_alignment", "HIPDNN_DIAGONAL_ALIGNMENT_", Some("HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT")),
    (
        "hipdnnAttentionImplementation_t",
        "attention_implementation",
        "HIPDNN_ATTENTION_IMPLEMENTATION_",
        Some("HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT"),
    ),
    (
        "hipdnnMoeGroupedMatmulMode_t",
        "moe_grouped_matmul_mode",
        "HIPDNN_MOE_GROUPED_MATMUL_MODE_",
        Some("HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE"),
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=hipdnn-abi.json");
    let table: Value = serde_json::from_str(&fs::read_to_string("hipdnn-abi.json")?)?;
    let mut out = String::new();
    for &(name, module, prefix, _) in ENUMS {
        enum_module(&mut out, &table, name, module, prefix)?;
    }
    value_lookup(&mut out)?;
    functions(&mut out, &table)?;
    descriptors(&mut out, &table)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("tables.rs"), out)?;
    Ok(())
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a serde_json::Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{what}: not an object"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("{field}: not a string in {value}"))
}

fn enum_module(out: &mut String, table: &Value, name: &str, module: &str, prefix: &str) -> Result<(), Box<dyn Error>> {
    let values = object(&table["enums"][name], name)?;
    writeln!(out, "/// Values of `{name}`.\npub mod {module} {{")?;
    for (full, number) in values {
        let short = full.strip_prefix(prefix).unwrap_or(full);
        writeln!(out, "    /// `{full}`.\n    pub const {short}: i32 = {number};")?;
    }
    writeln!(out, "    /// Every value with its C name.\n    pub static ALL: &[(i32, &str)] = &[")?;
    for (full, number) in values {
        writeln!(out, "        ({number}, {full:?}),")?;
    }
    writeln!(out, "    ];\n}}")?;
    Ok(())
}

fn value_lookup(out: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(out, "/// The values that an attribute of the given (enum-like) type may take, or `None` if the type is no enum.")?;
    writeln!(out, "pub fn values_of(attribute_type: i32) -> Option<&'static [(i32, &'static str)]> {{\n    match attribute_type {{")?;
    for &(_, module, _, attribute_type) in ENUMS {
        if let Some(name) = attribute_type.and_then(|t| t.strip_prefix("HIPDNN_TYPE_")) {
            writeln!(out, "        attribute_type::{name} => Some({module}::ALL),")?;
        }
    }
    writeln!(out, "        _ => None,\n    }}\n}}")?;
    Ok(())
}

fn functions(out: &mut String, table: &Value) -> Result<(), Box<dyn Error>> {
    let all = table["functions"].as_array().ok_or("functions")?;
    writeln!(out, "/// Functions that every version of the library exports.\npub static CORE_FUNCTIONS: &[&str] = &[")?;
    for function in all.iter().filter(|f| f["symbol_tier"] == "core") {
        writeln!(out, "    {:?},", text(function, "name")?)?;
    }
    writeln!(out, "];")?;
    writeln!(out, "/// Functions that some versions export; resolved softly.\npub static EXTENSION_FUNCTIONS: &[&str] = &[")?;
    for function in all.iter().filter(|f| f["symbol_tier"] != "core") {
        writeln!(out, "    {:?},", text(function, "name")?)?;
    }
    writeln!(out, "];")?;
    Ok(())
}

fn descriptors(out: &mut String, table: &Value) -> Result<(), Box<dyn Error>> {
    let unsupported: BTreeSet<i64> = table["unsupported_descriptor_types"]["create_returns_NOT_SUPPORTED"]
        .as_array()
        .ok_or("unsupported_descriptor_types")?
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    writeln!(
        out,
        "/// Descriptor types that the backend names but refuses to create.\npub static UNSUPPORTED_DESCRIPTOR_TYPES: &[i32] = &{unsupported:?};",
        unsupported = unsupported.iter().collect::<Vec<_>>()
    )?;
    writeln!(
        out,
        "/// Every descriptor type of the ABI that has attributes, with those attributes.\npub static DESCRIPTORS: &[DescriptorSpec] = &["
    )?;
    for (name, descriptor) in object(&table["descriptors"], "descriptors")? {
        let operation = name.contains("_OPERATION_");
        writeln!(out, "    DescriptorSpec {{ kind: {}, name: {name:?}, is_operation: {operation}, attributes: &[", descriptor["type"])?;
        for attribute in descriptor["attributes"].as_array().ok_or("attributes")? {
            self::attribute(out, attribute)?;
        }
        writeln!(out, "    ] }},")?;
    }
    writeln!(out, "];")?;
    Ok(())
}

fn attribute(out: &mut String, attribute: &Value) -> Result<(), Box<dyn Error>> {
    let name = text(attribute, "name")?;
    let number = attribute["number"].as_i64().ok_or("number")?;
    let types: Vec<String> = attribute["attribute_type"]
        .as_array()
        .ok_or("attribute_type")?
        .iter()
        .filter_map(Value::as_str)
        .map(|t| format!("attribute_type::{}", t.trim_start_matches("HIPDNN_TYPE_")))
        .collect();
    let count = if text(attribute, "count")? == "1" { "One" } else { "Many" };
    let need = match text(attribute, "need")? {
        "required" => "Required",
        "conditional" => "Conditional",
        "read_only" => "ReadOnly",
        _ => "Optional",
    };
    let access = match attribute["access"].as_str() {
        Some("write") => "Some(Access::Write)",
        Some(_) => "Some(Access::Read)",
        None => "None",
    };
    writeln!(
        out,
        "        AttributeSpec {{ number: {number}, name: {name:?}, types: &[{}], count: Count::{count}, need: Need::{need}, access: {access} }},",
        types.join(", ")
    )?;
    Ok(())
}
