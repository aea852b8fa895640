//! The library's surface: exports, versions, SONAME, DT_NEEDED. Each gate fails on empty input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use integration_tests::{
    dist,
    elf::Library,
    reference, shim,
    stock::{Stock, UNDECLARED},
    succeed, text,
};
use library_gates::abi;

fn expected() -> BTreeSet<String> {
    let api = miopen_api::table().exports().map(|f| f.name.clone());
    api.chain([miopen_api::FORWARDED_ERROR_FUNCTION.to_string()]).collect()
}

#[test]
fn the_shim_exports_exactly_the_api() {
    let library = Library::read(&shim()).unwrap();
    let exported: BTreeSet<String> = library.exports.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(expected().len(), 289);
    assert_eq!(exported.difference(&expected()).collect::<Vec<_>>(), Vec::<&String>::new(), "leaked");
    assert_eq!(expected().difference(&exported).collect::<Vec<_>>(), Vec::<&String>::new(), "missing");
    assert_eq!(library.exports.len(), 289, "an export is there twice");
}

#[test]
fn every_export_carries_the_version_that_clients_ask_for() {
    let library = Library::read(&shim()).unwrap();
    for (name, version) in &library.exports {
        assert_eq!(version.as_deref(), Some(miopen_api::VERSION_NODE), "{name}");
    }
}

/// By another judge, and against a library: what programs find in the native under its stock name they find in the shim, under the same
/// version, or else in the native that was installed behind it. The latter is all that no header declares.
#[test]
fn abidiff_misses_nothing_of_native() {
    let (stock, prefix) = (Stock::build().unwrap(), tempfile::tempdir().unwrap());
    let prefix = prefix.path().join("prefix");
    succeed(&["install", "--native", text(&stock.library()), "--prefix", text(&prefix)]);
    let undeclared = [format!("{UNDECLARED}@@{}", miopen_api::VERSION_NODE)];
    for front in [shim(), prefix.join("lib").join(miopen_api::SONAME)] {
        assert_eq!(abi::removed(&stock.library(), &front).unwrap(), undeclared);
    }
    assert_eq!(abi::removed(&stock.library(), &prefix.join("lib").join(miopen_api::PRIVATE_SONAME)).unwrap(), Vec::<String>::new());
}

#[test]
fn it_answers_to_the_name_and_stays_loaded() {
    let library = Library::read(&shim()).unwrap();
    assert_eq!(library.soname.as_deref(), Some(miopen_api::SONAME));
    assert!(library.nodelete);
}

#[test]
fn it_needs_the_c_library_only() {
    let allowed = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libm.so.6"];
    let needed = Library::read(&shim()).unwrap().needed;
    assert!(!needed.is_empty());
    assert_eq!(needed.iter().filter(|n| !allowed.contains(&n.as_str())).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Every ELF file of the layout, links aside.
fn binaries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(binaries(&path));
        } else if !path.is_symlink() && fs::read(&path).is_ok_and(|data| data.starts_with(b"\x7fELF")) {
            found.push(path);
        }
    }
    found
}

#[test]
fn everything_runs_on_glibc_2_34() {
    let files: Vec<PathBuf> = ["bin", "lib"].iter().flat_map(|folder| binaries(&dist().join(folder))).collect();
    assert_eq!(files.len(), 9, "the shim, three programs, three reference libraries, two for CUDA: {files:?}");
    for file in files {
        let needs = Library::read_program(&file).unwrap().needed_versions;
        let minor = |v: &String| v.strip_prefix("GLIBC_2.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        let newest = needs.iter().filter_map(minor).max();
        assert!(newest.is_some_and(|minor| minor <= 34), "{}: {needs:?}", file.display());
        let foreign: Vec<&String> = needs.iter().filter(|v| !v.starts_with("GLIBC_2.") && !v.starts_with("GCC_")).collect();
        assert!(foreign.is_empty(), "{}: {foreign:?}", file.display());
    }
}

#[test]
fn the_layout_says_under_which_terms_it_is() {
    let terms = dist().join("share/licenses/hipdnn-shim");
    assert!(fs::read_to_string(terms.join("LICENSE")).unwrap().contains("MIT"));
    let foreign = fs::read_to_string(terms.join("THIRD-PARTY.txt")).unwrap();
    for linked in ["wasmtime", "libloading", "matrixmultiply", "gemm-f64", "talc"] {
        assert!(foreign.lines().any(|line| line.starts_with(&format!("{linked} "))), "{linked}");
    }
}

#[test]
fn the_reference_native_has_all_implementations_under_its_private_names() {
    let library = Library::read(&reference("libMIOpen_private.so.1")).unwrap();
    assert_eq!(library.soname.as_deref(), Some("libMIOpen_private.so.1"));
    let exported: BTreeSet<&str> = library.exports.iter().map(|(name, _)| name.as_str()).collect();
    for function in miopen_api::table().exports() {
        assert!(exported.contains(format!("{}_impl", function.name).as_str()), "{}", function.name);
    }
    assert!(exported.iter().all(|name| !name.starts_with("miopen") || name.ends_with("_impl")));
}

/// The cost of not forwarding: every export is one jump through memory, `ff 25` and the distance to its slot.
#[test]
fn every_export_is_one_load_and_one_jump() {
    let library = Library::read(&shim()).unwrap();
    for ((name, _), start) in library.exports.iter().zip(&library.starts) {
        assert_eq!(start[..2], [0xff, 0x25], "{name} begins with {start:x?}");
    }
    assert_eq!(library.starts.len(), 289);
}

#[test]
fn every_symbol_that_released_programs_ask_for_resolves() {
    #[derive(serde::Deserialize)]
    struct Client {
        version: String,
        symbols: Vec<String>,
    }
    let clients: std::collections::BTreeMap<String, Client> = serde_json::from_str(include_str!("../clients.json")).unwrap();
    assert!(clients.len() == 5 && clients.values().all(|client| client.symbols.len() > 50), "the lists are empty");
    let exported = Library::read(&shim()).unwrap().exports;
    for (client, Client { version, symbols }) in &clients {
        // Names that are found in a program's strings may be such that MIOpen never had.
        let known = symbols.iter().filter(|symbol| expected().contains(*symbol));
        let missing: Vec<_> = known.clone().filter(|symbol| !exported.iter().any(|(name, _)| name == *symbol)).collect();
        assert!(missing.is_empty() && known.count() > 50, "{client} {version}: {missing:?}");
    }
}

/// Compiles and links a program, against the installed headers and the shim; answers what the compiler says.
fn compiled(source: &str) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    fs::write(&file, source).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-o"]).arg(folder.path().join("program"));
    compiler.arg("-I").arg(dist().join("include")).arg(&file).arg("-L").arg(dist().join("lib")).arg("-lMIOpen").output().unwrap()
}

/// Signatures, struct layouts and enum values are the table's, by a compiler's judgement, and every function is there to link with.
#[test]
fn the_installed_header_says_what_the_table_says() {
    let program = miopen_api::conformance_program(miopen_api::table(), "miopen/miopen.h");
    let good = compiled(&program);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    // And it is a gate: another type, another value, another function does not pass.
    for (from, to) in [
        ("(*check_miopenCreate)(miopenHandle_t *)", "(*check_miopenCreate)(miopenTensorDescriptor_t *)"),
        ("miopenStatusBadParm == 0x3u", "miopenStatusBadParm == 0x4u"),
        ("= miopenCreate;", "= miopenCreateSomething;"),
        ("sizeof(miopenConvSolution_t) == 32", "sizeof(miopenConvSolution_t) == 24"),
    ] {
        assert!(program.contains(from), "{from}");
        assert!(!compiled(&program.replace(from, to)).status.success(), "{to} passes");
    }
}

#[test]
fn installed_headers_name_nothing_private() {
    let headers: Vec<_> = fs::read_dir(dist().join("include/miopen")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(headers.len(), 2);
    for header in headers {
        let text = fs::read_to_string(&header).unwrap();
        assert!(text.contains("miopen") && !text.contains("_impl"), "{}", header.display());
    }
    // One that does is in a folder of its own, which nobody includes from by chance.
    let mut folders: Vec<_> = fs::read_dir(dist().join("include")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    folders.sort();
    assert_eq!(folders, ["miopen", miopen_api::PRIVATE_PACKAGE]);
}

#[test]
fn the_gates_do_not_pass_on_nothing() {
    assert!(Library::parse(b"").is_err());
    assert!(Library::parse(&[0; 4096]).is_err());
    assert!(Library::read("/nonexistent".as_ref()).is_err());
    // An executable header alone, without sections.
    let shim = std::fs::read(shim()).unwrap();
    assert!(Library::parse(&shim[..64]).is_err());
}
