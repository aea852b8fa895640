//! A built HIP runtime as a file: its name, what it exports under which version, and that loading it does nothing. A module of each
//! runtime's own test, which says in `FILE` what its file is called. How a runtime behaves is tested elsewhere.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::PathBuf;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, Sym as _};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// Cargo builds the library into the folder of the tests.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(super::FILE)
}

#[test]
fn every_function_has_its_version_and_nothing_else_is_exported() {
    let data = std::fs::read(library()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*data).unwrap();
    let symbols = sections.symbols(endian, &*data, elf::SHT_DYNSYM).unwrap();
    let versions = sections.versions(endian, &*data).unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = BTreeSet::new();
    for (index, symbol) in symbols.enumerate().filter(|(_, s)| !s.is_undefined(endian) && s.st_bind() != elf::STB_LOCAL) {
        let version = versions.version(versions.version_index(endian, index)).unwrap();
        let name = text(symbols.symbol_name(endian, symbol).unwrap());
        found.insert((name, version.map(|v| text(v.name()))));
    }
    let expected: BTreeSet<_> = EXPORTS.iter().map(|(name, version)| (name.to_string(), Some(version.to_string()))).collect();
    assert_eq!(expected.len(), EXPORTS.len(), "a function is listed twice");
    assert_eq!(found, expected);
}

#[test]
fn the_file_says_its_name_and_that_it_stays() {
    let data = std::fs::read(library()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*data).unwrap();
    let (dynamic, strings) = sections.dynamic(endian, &*data).unwrap().unwrap();
    let strings = sections.strings(endian, &*data, strings).unwrap();
    let value = |tag| dynamic.iter().find(|d| d.d_tag(endian) == tag).unwrap().d_val(endian);
    assert_eq!(strings.get(value(elf::DT_SONAME).try_into().unwrap()).unwrap(), b"libamdhip64.so.7");
    assert_ne!(value(elf::DT_FLAGS_1) & u64::from(elf::DF_1_NODELETE), 0);
}

#[test]
fn loading_starts_nothing_and_functions_are_found_by_version() {
    // In a process of its own, where no other test begins or ends a thread.
    let child = ["--ignored", "--exact", "library::child_that_loads", "--test-threads=1"];
    let ended = std::process::Command::new(std::env::current_exe().unwrap()).args(child).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_that_loads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let path = CString::new(library().into_os_string().into_encoded_bytes()).unwrap();
    let before = threads();
    // SAFETY: the library has no initialisers of its own.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    assert_eq!(threads(), before);
    let find = |name: &str, version: &str| {
        let (name, version) = (CString::new(name).unwrap(), CString::new(version).unwrap());
        // SAFETY: the handle is alive, and the texts end with NUL.
        unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) }
    };
    assert!(EXPORTS.iter().all(|(name, version)| !find(name, version).is_null()));
    assert!(find("hipMalloc", "hip_4.3").is_null());
}
