//! Turns the enums of `miopen-api.json` into modules of Rust constants. Nothing else is generated here: functions and headers
//! come from the table at run time of whoever asks.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

/// Module names that do not follow from the C name by the general rule, or would read badly.
const MODULE_NAMES: &[(&str, &str)] = &[
    ("miopenConvFwdAlgorithm_t", "fwd_algorithm"),
    ("miopenConvBwdDataAlgorithm_t", "bwd_data_algorithm"),
    ("miopenConvBwdWeightsAlgorithm_t", "bwd_weights_algorithm"),
    ("miopenConvolutionAttrib_t", "convolution_attribute"),
    ("miopenRNNGEMMalgoMode_t", "rnn_gemm_algo_mode"),
    ("miopenRNNFWDMode_t", "rnn_fwd_mode"),
    ("miopenLRNMode_t", "lrn_mode"),
    ("miopenRNGType_t", "rng_type"),
    ("miopenCTCLossAlgo_t", "ctc_loss_algo"),
];

/// Enumerator prefixes of the enums with a single value, where no common prefix tells.
const PREFIXES: &[(&str, &str)] =
    &[("miopenRNNGEMMalgoMode_t", "miopenRNNAlgo"), ("miopenCTCLossAlgo_t", "MIOPEN_CTC_LOSS_ALGO_"), ("miopenRNGType_t", "MIOPEN_RNG_")];

fn main() {
    println!("cargo:rerun-if-changed=miopen-api.json");
    println!("cargo:rerun-if-changed=build.rs");
    let text = std::fs::read_to_string("miopen-api.json").expect("miopen-api.json is committed beside this crate");
    let table: Value = serde_json::from_str(&text).expect("miopen-api.json is JSON");
    let enums = table["enums"].as_object().expect("enums");
    let mut out = String::new();
    for (name, values) in enums {
        write_module(&mut out, name, values);
    }
    let path = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("constants.rs");
    std::fs::write(path, out).expect("OUT_DIR is writable");
}

/// One enum: a module with a constant per enumerator and the list of all of them.
fn write_module(out: &mut String, c_name: &str, values: &Value) {
    let entries = values.as_object().expect("enum").iter();
    let mut values: Vec<(&str, i32)> = entries.map(|(n, v)| (n.as_str(), as_i32(v.as_i64().expect("value")))).collect();
    values.sort_by_key(|&(name, value)| (value, name));
    let prefix = prefix(c_name, &values);
    writeln!(out, "/// Values of `{c_name}`.\npub mod {} {{", module_name(c_name)).expect("a string");
    for (name, value) in &values {
        writeln!(out, "    /// `{name}`\n    pub const {}: i32 = {value};", constant_name(&shorter(&name[prefix..]))).expect("a string");
    }
    writeln!(out, "    /// C name and value of every enumerator, by value.").expect("a string");
    writeln!(out, "    pub const ALL: &[(&str, i32)] = &{values:?};\n}}\n").expect("a string");
}

/// The four bytes of an enumerator: those with the highest bit set become negative, as they are where an `int` is expected.
fn as_i32(value: i64) -> i32 {
    u32::try_from(value).expect("enumerators are unsigned 32-bit values").cast_signed()
}

/// `miopenTensorLayout_t` becomes `tensor_layout`.
fn module_name(c_name: &str) -> String {
    if let Some((_, module)) = MODULE_NAMES.iter().find(|(name, _)| *name == c_name) {
        return (*module).to_owned();
    }
    let bare = c_name.trim_start_matches("miopen").trim_end_matches("_t").replace("RNN", "Rnn");
    snake(&bare)
}

/// The one enum whose enumerators repeat what its name says behind two different first words.
fn shorter(rest: &str) -> String {
    rest.replace("ConvolutionBwdDataAlgo", "").replace("TransposeBwdDataAlgo", "Transpose_")
}

/// The rest of an enumerator as a constant's name; a leading digit gets an underscore.
fn constant_name(rest: &str) -> String {
    let name = snake(rest).to_uppercase();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// Lower case with an underscore at every step from a small letter, or from a digit before a word, to a capital; runs of
/// capitals stay together, so that `NCHWc4` and `ImplicitGEMM` stay readable.
fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = b'_';
    for (i, at) in name.bytes().enumerate() {
        let word = name.as_bytes().get(i + 1).is_some_and(u8::is_ascii_lowercase);
        if at.is_ascii_uppercase() && (before.is_ascii_lowercase() || (before.is_ascii_digit() && word)) {
            out.push('_');
        }
        out.push(char::from(at.to_ascii_lowercase()));
        before = at;
    }
    out
}

/// Length of what all enumerators begin with, cut back to the start of a word.
fn prefix(c_name: &str, values: &[(&str, i32)]) -> usize {
    if let Some((_, prefix)) = PREFIXES.iter().find(|(name, _)| *name == c_name) {
        return prefix.len();
    }
    let first = values[0].0;
    let common = (0..first.len()).take_while(|&i| values.iter().all(|(v, _)| v.as_bytes().get(i) == Some(&first.as_bytes()[i]))).count();
    (0..=common).rev().find(|&cut| cut < first.len() && values.iter().all(|(v, _)| starts_word(v.as_bytes(), cut))).unwrap_or(0)
}

/// Whether a word may start at `cut`: at the beginning, after an underscore, at a capital after a small letter, or between
/// an acronym and the word behind it (`RNN|linear`, `BN|Spatial`).
fn starts_word(name: &[u8], cut: usize) -> bool {
    if cut == 0 || name[cut - 1] == b'_' {
        return true;
    }
    let Some(&at) = name.get(cut) else { return false };
    let capitals = |from: usize| name[from..cut].iter().all(u8::is_ascii_uppercase);
    let after_word = at.is_ascii_uppercase() && name[cut - 1].is_ascii_lowercase();
    let before_word = at.is_ascii_uppercase() && name.get(cut + 1).is_some_and(u8::is_ascii_lowercase) && capitals(cut - 1);
    let before_small_word = at.is_ascii_lowercase() && cut >= 2 && capitals(cut - 2);
    after_word || before_word || before_small_word
}
