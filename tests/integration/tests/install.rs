//! The shim installed before a native MIOpen: what programs then find, and that nothing is left when it is taken back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use integration_tests::{
    Client, Run, dist,
    elf::Library,
    shim,
    stock::{ANSWER, Stock, UNDECLARED},
    succeed, text, tool, trace_lines,
};

const PRIVATE: &str = "libMIOpen_native.so.1";

fn refuse(arguments: &[&str], why: &str) {
    let output = tool(arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains(why), "{arguments:?}: {message}");
}

/// Every file and link of a folder, with its bytes or where it leads.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// A run in which only the loader's own ways lead to any MIOpen.
fn bare(client: &Client) -> Run {
    client.run().without("LD_LIBRARY_PATH").without("MIOPEN_HIPDNN_NATIVE_LIBRARY")
}

/// The client computes rightly, by native with forwarding off and by hipDNN with it on.
fn works(client: &Client, run: impl Fn() -> Run) {
    let (native, trace) = (client.folder().join("native"), client.folder().join("trace.jsonl"));
    let off = run().env("REFERENCE_MIOPEN_LOG", &native).output(&["plain"]).unwrap();
    assert_eq!((off.line("right"), off.line("mapped"), off.messages()), ("right 1", "mapped hipdnn 0", vec![]), "{off:?}");
    assert!(fs::read_to_string(&native).unwrap().contains("miopenConvolutionForward "), "native was not called");
    let on = run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&["plain"]).unwrap();
    assert_eq!((on.line("right"), on.line("mapped")), ("right 1", "mapped hipdnn 1"), "{on:?}");
    assert!(trace_lines(&trace).unwrap().iter().all(|line| line["route"] == "hipdnn"));
    assert_eq!(off.line("y"), on.line("y"));
    fs::remove_file(&trace).unwrap();
}

/// A program linked with the native that uses an export which no header declares: it must start and find it.
fn undeclared(stock: &Stock, flags: &[&str]) -> Client {
    let source = stock.root().join("undeclared.c");
    let body = format!("int {UNDECLARED}(void);\nint main(void) {{ return miopenCreate(0) && {UNDECLARED}() == {ANSWER} ? 0 : 1; }}\n");
    fs::write(&source, format!("#include <miopen/miopen.h>\n{body}")).unwrap();
    Client::compile_source(&source, stock.root(), flags).unwrap()
}

fn convolution(prefix: &Path, flags: &[&str]) -> Client {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/convolution.c");
    Client::compile_source(&source, prefix, flags).unwrap()
}

#[test]
fn a_prefix_serves_programs_and_goes_without_a_trace() {
    let stock = Stock::build().unwrap();
    let before = contents(stock.root());
    let (library, prefix) = (stock.library(), stock.root().join("prefix"));
    let install = ["install", "--native", text(&library), "--prefix", text(&prefix)];
    succeed(&install);
    let lib = prefix.join("lib");

    let front = Library::read(&lib.join("libMIOpen.so.1")).unwrap();
    assert_eq!((front.soname.as_deref(), front.needed[0].as_str()), (Some("libMIOpen.so.1"), PRIVATE));
    assert_eq!(front.exports, Library::read(&shim()).unwrap().exports);
    let native = Library::read(&lib.join(PRIVATE)).unwrap();
    assert_eq!(native.soname.as_deref(), Some(PRIVATE));
    assert_eq!(native.exports, Library::read(&stock.library()).unwrap().exports);
    for file in ["lib/libMIOpen.so", "lib/pkgconfig/miopen.pc", "lib/cmake/miopen/miopen-config.cmake", "share/miopen/db"] {
        assert!(prefix.join(file).exists(), "{file}");
    }

    let rpath = convolution(&prefix, &["-rdynamic", "-Wl,--disable-new-dtags", &format!("-Wl,-rpath,{}", lib.display())]);
    works(&rpath, || bare(&rpath));
    let plain = convolution(&prefix, &["-rdynamic"]);
    works(&plain, || bare(&plain).env("LD_LIBRARY_PATH", &lib));
    undeclared(&stock, &[]).run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("LD_LIBRARY_PATH", &lib).output(&[]).unwrap();

    refuse(&install, "uninstall");
    succeed(&["uninstall", "--prefix", text(&prefix)]);
    assert!(!prefix.exists());
    fs::remove_file(stock.root().join("undeclared.c")).unwrap();
    assert_eq!(contents(stock.root()), before);
    refuse(&["uninstall", "--prefix", text(&prefix)], "nothing is installed there");
}

#[test]
fn in_place_it_serves_programs_whose_rpath_wins() {
    let stock = Stock::build().unwrap();
    let before = contents(&stock.lib());
    let flags = ["-rdynamic", "-Wl,--disable-new-dtags", &format!("-Wl,-rpath,{}", stock.lib().display())];
    // Linked with the shim's own layout, since the client also calls what only the shim exports; run where the native is.
    let (client, cpp) = (convolution(&dist(), &flags), undeclared(&stock, &flags));
    succeed(&["install", "--native", text(&stock.library()), "--in-place"]);
    works(&client, || bare(&client).env("LD_LIBRARY_PATH", "/nonexistent"));
    bare(&cpp).output(&[]).unwrap();
    refuse(&["install", "--native", text(&stock.library()), "--in-place"], "hipdnn-shim itself");
    succeed(&["uninstall", "--in-place", text(&stock.lib())]);
    assert_eq!(contents(&stock.lib()), before);
    bare(&cpp).output(&[]).unwrap();
}

#[test]
fn what_programs_would_miss_is_said_before_anything_is_installed() {
    let stock = Stock::build().unwrap();
    let native = stock.library();
    let exports = miopen_api::table().exports().count() + 1;
    let said = succeed(&["install", "--check", "--native", text(&native)]);
    let (resolved, databases) = said.split_once('\n').unwrap();
    assert_eq!(resolved, format!("{exports} of {exports} exports resolve through the shim and the native behind it"));
    let folder = stock.root().canonicalize().unwrap().join("share/miopen/db");
    assert!(databases.starts_with(&format!("databases: {}; ", folder.display())), "{databases}");
    fs::remove_dir(&folder).unwrap();
    let said = succeed(&["install", "--check", "--native", text(&native)]);
    assert!(said.lines().nth(1).unwrap().contains("none in") && said.contains("MIOPEN_SYSTEM_DB_PATH"), "{said}");
    // One whose functions have another version: programs that ask for it would not start.
    let other = stock.root().join("other.so");
    let data = fs::read(&native).unwrap();
    fs::write(&other, replaced(&data, miopen_api::VERSION_NODE.as_bytes(), b"MIOPEN_HIP_9")).unwrap();
    let checked = tool(&["install", "--check", "--native", text(&other)]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("miopenCreate@MIOPEN_HIP_9: the shim lacks this version"));
    let prefix = stock.root().join("prefix");
    refuse(&["install", "--native", text(&other), "--prefix", text(&prefix)], "programs would miss");
    assert!(!prefix.exists());
    refuse(&["install", "--native", text(&shim()), "--prefix", text(&prefix)], "hipdnn-shim itself");
    refuse(&["install", "--native", "/nonexistent", "--prefix", text(&prefix)], "/nonexistent");
    refuse(&["install", "--native", text(&native)], "--prefix DIR or --in-place");
}

fn replaced(data: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut copy = data.to_vec();
    let places: Vec<usize> = data.windows(from.len()).enumerate().filter(|(_, window)| *window == from).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        copy[at..at + to.len()].copy_from_slice(to);
    }
    copy
}
