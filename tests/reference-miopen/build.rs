//! Writes the exported functions from the API table: each counts and logs the call, then runs the implementation of that name
//! if there is one in `src/`, else reports that there is none. Also names the library. No behaviour of MIOpen belongs here.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use miopen_api::{Abi, Function};

fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let stock = std::env::var_os("CARGO_FEATURE_STOCK").is_some();
    let mut found = HashMap::new();
    implementations(Path::new("src"), "crate", &mut found);
    std::fs::write(out.join("exports.rs"), exports(&found, stock)).expect("OUT_DIR is writable");
    name_library(&out, stock);
}

/// Which module implements which function: every `pub fn miopen…(` in the files under the folder. So there is no second list to keep.
fn implementations(folder: &Path, module: &str, found: &mut HashMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("the folder is readable").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let inner = if name == "mod" { module.to_owned() } else { format!("{module}::{name}") };
        if path.is_dir() {
            implementations(&path, &inner, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("sources are text");
        for line in text.lines().filter_map(|l| l.strip_prefix("pub fn miopen")) {
            let name = format!("miopen{}", line.split('(').next().expect("split gives one"));
            found.insert(name, inner.clone());
        }
    }
}

fn exports(implementations: &HashMap<String, String>, stock: bool) -> String {
    let functions: Vec<&Function> = miopen_api::table().exports().collect();
    let unknown = implementations.keys().find(|name| functions.iter().all(|f| f.name != **name));
    assert!(unknown.is_none(), "{unknown:?} is implemented but is no function of the API");
    let mut code = String::new();
    let names: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
    writeln!(code, "/// Every export, in table order.\npub static NAMES: [&str; {}] = {names:?};", names.len()).expect("a string");
    let parameters: Vec<Vec<&str>> = functions.iter().map(|f| f.params.iter().map(|p| p.name.as_str()).collect()).collect();
    let literals: Vec<String> = parameters.iter().map(|p| format!("&{p:?}")).collect();
    let kind = format!("[&[&str]; {}]", names.len());
    writeln!(code, "/// Their parameters.\npub static PARAMETERS: {kind} = [{}];\n", literals.join(", ")).expect("a string");
    for (index, f) in functions.iter().enumerate() {
        export(&mut code, index, f, implementations.get(&f.name).map(String::as_str), stock);
    }
    code
}

/// One exported function. `C-unwind`, because some of them let a C++ exception out, as the real ones do.
fn export(code: &mut String, index: usize, f: &Function, module: Option<&str>, stock: bool) {
    let suffix = if stock { "" } else { "_impl" };
    let parameters: Vec<String> = f.params.iter().enumerate().map(|(i, p)| format!("p{i}: {}", p.abi.rust_type())).collect();
    let raw: Vec<String> = f.params.iter().enumerate().map(|(i, p)| raw(i, p.abi)).collect();
    let given: Vec<String> = f.params.iter().enumerate().map(|(i, p)| given(i, p.abi)).collect();
    let returns = if f.returns_status() { "i32" } else { "*const core::ffi::c_char" };
    let body = match module {
        Some(m) if f.returns_status() => format!("finish({:?}, || {m}::{}({}))", f.name, f.name, given.join(", ")),
        Some(m) => format!("{m}::{}({})", f.name, given.join(", ")),
        None => format!("not_implemented({:?})", f.name),
    };
    writeln!(
        code,
        "#[unsafe(export_name = \"{}{suffix}\")]\nunsafe extern \"C-unwind\" fn e{index}({}) -> {returns} {{\n    \
         calls::enter({index}, &[{}]);\n    {body}\n}}\n",
        f.name,
        parameters.join(", "),
        raw.join(", ")
    )
    .expect("a string");
}

/// An argument as the bits that came, zero-extended.
fn raw(i: usize, abi: Abi) -> String {
    match abi {
        Abi::Ptr => format!("p{i} as usize as u64"),
        Abi::I32 | Abi::Enum => format!("u64::from(p{i}.cast_unsigned())"),
        Abi::I64 => format!("p{i}.cast_unsigned()"),
        Abi::F32 => format!("u64::from(p{i}.to_bits())"),
        Abi::F64 => format!("p{i}.to_bits()"),
        Abi::U64 => format!("p{i}"),
        Abi::U32 | Abi::Bool => format!("u64::from(p{i})"),
    }
}

/// An argument as the implementation takes it: pointers become the wrapper that its signature names.
fn given(i: usize, abi: Abi) -> String {
    match abi {
        Abi::Ptr => format!("FromC::from_c(p{i})"),
        Abi::Bool => format!("p{i} != 0"),
        _ => format!("p{i}"),
    }
}

/// The SONAME, and for the stock kind the version node that released clients require. The linker must be rust-lld (the
/// default): it defines the node beside the version script that rustc itself passes, which GNU ld refuses.
fn name_library(out: &Path, stock: bool) {
    let soname = if stock { miopen_api::SONAME } else { "libMIOpen_private.so.1" };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    if stock {
        let script = out.join("version.map");
        std::fs::write(&script, format!("{} {{ }};\n", miopen_api::VERSION_NODE)).expect("OUT_DIR is writable");
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    }
}
