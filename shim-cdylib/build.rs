//! Writes the exported stubs from the API table, and names and versions the library.
//!
//! A stub is one jump through its slot. The version script makes every one of them `miopenX@@MIOPEN_HIP_1` and hides all else; it
//! needs rust-lld (the default linker on this target): GNU ld refuses a second version script beside rustc's own.

use std::{env, error::Error, fmt::Write as _, fs, path::PathBuf};

use miopen_api::{Abi, Function};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let mut names: Vec<&str> = miopen_api::table().exports().map(|f| f.name.as_str()).collect();
    names.push(miopen_api::FORWARDED_ERROR_FUNCTION);
    fs::write(out.join("stubs.s"), stubs(&names)?)?;
    fs::write(out.join("names.rs"), name_table(&names)?)?;
    let script = out.join("exports.map");
    fs::write(&script, format!("{} {{\n  global:\n    {};\n  local: *;\n}};\n", miopen_api::VERSION_NODE, names.join(";\n    ")))?;
    for argument in [
        format!("-Wl,--version-script={}", script.display()),
        format!("-Wl,-soname,{}", miopen_api::SONAME),
        "-Wl,-z,nodelete".to_string(),
        "-Wl,-z,now".to_string(),
        "-Wl,--build-id=sha1".to_string(),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    Ok(())
}

/// The stubs, and for each its slot and two small entries: one that binds the library at the first call, one that routes.
fn stubs(names: &[&str]) -> Result<String, std::fmt::Error> {
    let mut text = String::from("    .text\n");
    for (index, name) in names.iter().enumerate() {
        writeln!(text, "    .globl {name}\n    .type {name}, @function\n    .p2align 4\n{name}:")?;
        writeln!(text, "    jmp *(miopen_shim_slots + {})(%rip)\n    .size {name}, . - {name}", index * 8)?;
    }
    for (index, _) in names.iter().enumerate() {
        writeln!(text, "miopen_shim_unbound_{index}:\n    movl ${index}, %r11d\n    jmp miopen_shim_bind_entry")?;
        writeln!(text, "miopen_shim_routed_{index}:\n    movl ${index}, %r11d\n    jmp miopen_shim_route_entry")?;
    }
    table(&mut text, "slots", "unbound", names.len(), ".data")?;
    for entries in ["routed", "unbound"] {
        table(&mut text, entries, entries, names.len(), ".section .data.rel.ro, \"aw\"")?;
    }
    text.push_str("    .text\n");
    Ok(text)
}

fn table(text: &mut String, name: &str, entries: &str, length: usize, section: &str) -> std::fmt::Result {
    writeln!(text, "    {section}\n    .p2align 6\n    .globl miopen_shim_{name}\n    .hidden miopen_shim_{name}\nmiopen_shim_{name}:")?;
    (0..length).try_for_each(|index| writeln!(text, "    .quad miopen_shim_{entries}_{index}"))
}

fn name_table(names: &[&str]) -> Result<String, std::fmt::Error> {
    let mut text = format!("/// Every export, in the order of their slots.\npub static NAMES: [&CStr; {}] = [\n", names.len());
    for name in names {
        writeln!(text, "    c\"{name}\",")?;
    }
    text.push_str("];\n");
    let function = |name: &str| miopen_api::table().function(name);
    writeln!(text, "/// Which of them may start work on the device.\npub static EXECUTES: [bool; {}] = [", names.len())?;
    names.iter().try_for_each(|name| writeln!(text, "    {},", function(name).is_some_and(|f| f.role == "exec")))?;
    text.push_str("];\n");
    writeln!(text, "/// How many integers and pointers each of them takes.\npub static INTEGERS: [u8; {}] = [", names.len())?;
    let integers = |f: &Function| f.params.iter().filter(|p| !matches!(p.abi, Abi::F32 | Abi::F64)).count();
    names.iter().try_for_each(|name| writeln!(text, "    {},", function(name).map_or(0, integers)))?;
    text.push_str("];\n");
    Ok(text)
}
