//! Translators that are not the built-in one: those of `tests/components`, built by `cargo xtask components`, and files with them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use wasm_encoder::{
    CodeSection, Component, ComponentExportKind, ComponentImportSection, ComponentInstanceSection, ComponentTypeRef, ComponentTypeSection,
    Function, FunctionSection, InstanceType, Module, ModuleSection, NestedComponentSection, TypeSection,
};

/// The bytes of a component.
pub fn component(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components").join(name).with_extension("wasm");
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask components`", path.display()))
}

/// A component of the project's tests that was built once and is kept as it is.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../components/fixtures").join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of all that the hostile translator can do when it translates.
pub fn behaviours() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components/hostile");
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask components`", folder.display()));
    let names = files.map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned());
    names.filter(|name| name != "honest" && !name.ends_with("_manifest")).collect()
}

/// The hostile translator that does one thing, by name.
pub fn hostile(behaviour: &str) -> Vec<u8> {
    component(&format!("hostile/{behaviour}"))
}

/// A translator in a file of its own.
pub struct Brought {
    folder: TempDir,
}

impl Brought {
    /// Writes it.
    pub fn new(wasm: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("translator.wasm"), wasm).expect("writing a file");
        Self { folder }
    }

    /// Its file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("translator.wasm")
    }
}

/// Components that nobody should compile, each with what is said of it.
pub fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let with_module = |module: &Module| {
        let mut component = Component::new();
        component.section(&ModuleSection(module));
        component.finish()
    };
    let mut importing = Component::new();
    let mut imports = ComponentImportSection::new();
    let mut types = ComponentTypeSection::new();
    types.instance(&InstanceType::new());
    imports.import("wasi:clocks/wall-clock@0.2.0", ComponentTypeRef::Instance(0));
    importing.section(&types).section(&imports);
    let (mut deep, mut wide) = (Component::new(), Component::new());
    for _ in 0..8 {
        let mut outer = Component::new();
        outer.section(&NestedComponentSection(&deep));
        deep = outer;
    }
    wide.section(&NestedComponentSection(&Component::new()));
    let mut instances = ComponentInstanceSection::new();
    (0..1000).for_each(|_| {
        instances.instantiate(0, std::iter::empty::<(&str, ComponentExportKind, u32)>());
    });
    wide.section(&instances);
    vec![
        ("nothing", Vec::new(), ""),
        ("no wasm", b"#!/bin/sh\n".to_vec(), ""),
        ("core module", Module::new().finish(), "core module"),
        ("cut off", component("hostile")[..5000].to_vec(), ""),
        ("empty", Component::new().finish(), "exports nothing"),
        ("imports", importing.finish(), "it imports wasi:clocks/wall-clock@0.2.0"),
        ("many functions", with_module(&functions(10_000, 1)), "10000 functions"),
        ("a huge function", with_module(&functions(1, 200_000)), "bytes in one function"),
        ("too large", with_module(&functions(40, 30_000)), "more than 1048576 bytes"),
        ("deep", deep.finish(), "levels of components"),
        ("wide", wide.finish(), "1000 instances"),
    ]
}

/// A module of so many functions, each with so many instructions.
fn functions(count: u32, instructions: u32) -> Module {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], []);
    for _ in 0..count {
        functions.function(0);
        let mut function = Function::new([]);
        (0..instructions).for_each(|_| {
            function.instructions().nop();
        });
        function.instructions().end();
        code.function(&function);
    }
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    module
}
