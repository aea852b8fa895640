//! C headers written from the table. They are our own text: valid C11 and C++, which the original header is not.

use std::fmt::{self, Write as _};

use crate::table::{Api, EnumType, Field, Function, FunctionPointer, Struct};

const PROLOGUE: &str = "\
/* MIOpen's public C API, generated from the API table of hipdnn-shim. Do not edit. Valid as C11 and as C++11.
 * It declares the functions of every MIOpen version known to the table: a given library may lack some. */
#ifndef MIOPEN_GUARD_MIOPEN_H_
#define MIOPEN_GUARD_MIOPEN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MIOPEN_API_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define MIOPEN_API_REF &
#else
#define MIOPEN_API_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define MIOPEN_API_REF *
#endif

#ifndef MIOPEN_EXPORT
#define MIOPEN_EXPORT
#endif

#ifdef __cplusplus
extern \"C\" {
#endif

/* A HIP stream (hipStream_t). */
typedef struct ihipStream_t *miopenAcceleratorQueue_t;
";

const EPILOGUE: &str = "
#ifdef __cplusplus
}
#endif

#undef MIOPEN_API_STATIC_ASSERT
#undef MIOPEN_API_REF

#endif /* MIOPEN_GUARD_MIOPEN_H_ */
";

const SHIM_HEADER: &str = "\
/* What the hipDNN-forwarding libMIOpen.so.1 exports beyond MIOpen's own API. Valid as C11 and as C++11. */
#ifndef MIOPEN_GUARD_MIOPEN_HIPDNN_H_
#define MIOPEN_GUARD_MIOPEN_HIPDNN_H_

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* The hipDNN status of the calling thread's last MIOpen call that was forwarded to hipDNN: 0 (HIPDNN_STATUS_SUCCESS) if it
 * succeeded, or if this thread has made no forwarded call. Calls that went to the native MIOpen leave it unchanged.
 *
 * MIOpen's own statuses are coarser; after a forwarded call failed, this one says what hipDNN said. It never fails, and it
 * may be called at any time and from any thread. A program that must also run on an unmodified MIOpen looks the symbol up
 * with dlsym, or declares it weak. */
int32_t miopenGetLastForwardedError(void);

#ifdef __cplusplus
}
#endif

#endif /* MIOPEN_GUARD_MIOPEN_HIPDNN_H_ */
";

/// The header `miopen/miopen.h`: every type and function of the table.
pub fn c_header(api: &Api) -> String {
    let mut out = String::from(PROLOGUE);
    write_header(&mut out, api).expect("writing to a string cannot fail");
    out + EPILOGUE
}

/// The header `miopen/miopen_hipdnn.h`: the one function that only the forwarding library has.
pub fn shim_header() -> String {
    SHIM_HEADER.to_owned()
}

fn write_header(out: &mut String, api: &Api) -> fmt::Result {
    writeln!(out, "\n/* Opaque objects. */")?;
    for handle in &api.handles {
        writeln!(out, "typedef struct {} *{handle};", handle.trim_end_matches("_t"))?;
    }
    writeln!(out, "\n/* Enums. */")?;
    api.enums.iter().try_for_each(|e| write_enum(out, e))?;
    writeln!(out, "/* Callbacks. */")?;
    api.function_pointer_types.iter().try_for_each(|f| write_function_pointer(out, f))?;
    writeln!(out, "\n/* Structs. */")?;
    api.structs.iter().try_for_each(|s| write_struct(out, s))?;
    write_functions(out, &api.functions)?;
    writeln!(out, "\n/* ---- Not in any MIOpen header, though libraries export them and clients use some. ---- */")?;
    write_functions(out, &api.unlisted_exports)
}

fn write_enum(out: &mut String, e: &EnumType) -> fmt::Result {
    writeln!(out, "typedef enum {{")?;
    for v in &e.values {
        writeln!(out, "    {} = {},", v.name, number(v.value))?;
    }
    writeln!(out, "}} {};\n", e.name)
}

/// A value beyond `int` makes the enum's type `unsigned int`: an extension of every C compiler of the platform until C23.
fn number(value: u32) -> String {
    if i32::try_from(value).is_ok() { value.to_string() } else { format!("{value:#x}u") }
}

fn write_function_pointer(out: &mut String, f: &FunctionPointer) -> fmt::Result {
    let params: Vec<_> = f.params.iter().map(|p| declare(&p.ctype, &p.name)).collect();
    writeln!(out, "typedef {}({});", declare(&f.returns, &format!("(*{})", f.name)), params.join(", "))
}

fn write_struct(out: &mut String, s: &Struct) -> fmt::Result {
    writeln!(out, "typedef struct {} {{", s.name)?;
    let mut in_union = false;
    for field in &s.fields {
        in_union = write_field(out, field, in_union)?;
    }
    if in_union {
        writeln!(out, "    }};")?;
    }
    writeln!(out, "}} {};", s.name)?;
    writeln!(out, "MIOPEN_API_STATIC_ASSERT(sizeof({0}) == {1}, \"size of {0}\");", s.name, s.size)?;
    for Field { field, offset, .. } in &s.fields {
        writeln!(out, "MIOPEN_API_STATIC_ASSERT(offsetof({0}, {field}) == {offset}, \"offset of {0}.{field}\");", s.name)?;
    }
    writeln!(out)
}

/// Writes one field, opening or closing the anonymous union around it; returns whether the union is open now.
fn write_field(out: &mut String, field: &Field, in_union: bool) -> Result<bool, fmt::Error> {
    match (in_union, field.in_anonymous_union) {
        (false, true) => writeln!(out, "    union {{")?,
        (true, false) => writeln!(out, "    }};")?,
        _ => {}
    }
    let indent = if field.in_anonymous_union { "        " } else { "    " };
    writeln!(out, "{indent}{};", declare(&field.ctype, &field.field))?;
    Ok(field.in_anonymous_union)
}

fn write_functions(out: &mut String, functions: &[Function]) -> fmt::Result {
    let mut family = "";
    for f in functions {
        if f.family != family {
            family = &f.family;
            writeln!(out, "\n/* {family} */")?;
        }
        write_function(out, f)?;
    }
    Ok(())
}

fn write_function(out: &mut String, f: &Function) -> fmt::Result {
    let params: Vec<_> = f.params.iter().map(|p| declare(&p.ctype, &p.name)).collect();
    let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
    writeln!(out, "MIOPEN_EXPORT {}({params});{}", declare(&f.returns, &f.name), remark(f))
}

/// What a user should know about where a function exists.
fn remark(f: &Function) -> String {
    let mut notes = Vec::new();
    if let Some(first) = f.first_seen.as_deref().filter(|v| *v != "3.3.0") {
        notes.push(format!("from {first}"));
    }
    if let Some(last) = &f.removed_after {
        notes.push(format!("gone after {last}"));
    }
    if f.beta {
        notes.push("beta".to_owned());
    }
    if notes.is_empty() { String::new() } else { format!(" /* {} */", notes.join(", ")) }
}

/// `type name`, without a space behind a pointer's star. A C++ reference is a pointer to C.
fn declare(ctype: &str, name: &str) -> String {
    let ctype = ctype.replace('&', "MIOPEN_API_REF ");
    let space = if ctype.ends_with(['*', ' ']) { "" } else { " " };
    format!("{ctype}{space}{name}")
}

/// A C program that does not compile unless a header declares every function, struct and enumerator of the table with exactly these types,
/// sizes, offsets and values; and that does not link unless a library has every function. `header` is what it includes.
///
/// Stronger than comparing texts: the compiler judges. A header that knows fewer functions fails, so it is for one made from the same
/// versions as the table.
pub fn conformance_program(api: &Api, header: &str) -> String {
    let mut out =
        format!("#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n#include <{header}>\n#define MIOPEN_API_REF *\n\n");
    write_conformance(&mut out, api).expect("writing to a string cannot fail");
    out
}

fn write_conformance(out: &mut String, api: &Api) -> fmt::Result {
    for (e, v) in api.enums.iter().flat_map(|e| e.values.iter().map(move |v| (e, v))) {
        writeln!(out, "_Static_assert((unsigned){} == {:#x}u, \"{} of {}\");", v.name, v.value, v.name, e.name)?;
    }
    for s in &api.structs {
        writeln!(out, "_Static_assert(sizeof({0}) == {1} && _Alignof({0}) == {2}, \"size of {0}\");", s.name, s.size, s.align)?;
        for Field { field, offset, .. } in &s.fields {
            writeln!(out, "_Static_assert(offsetof({0}, {field}) == {offset}, \"offset of {0}.{field}\");", s.name)?;
        }
    }
    let functions: Vec<&Function> = api.exports().collect();
    for f in &functions {
        let params: Vec<_> = f.params.iter().map(|p| declare(&p.ctype, "")).collect();
        let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
        writeln!(out, "{}({params}) = {};", declare(&f.returns, &format!("(*check_{})", f.name)), f.name)?;
    }
    writeln!(out, "\nint main(void)\n{{\n    int missing = 0;")?;
    functions.iter().try_for_each(|f| writeln!(out, "    missing += !check_{};", f.name))?;
    writeln!(out, "    return missing;\n}}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles `headers` with a use of every function, so that a missing declaration fails too.
    fn compile(compiler: &[&str], extension: &str) {
        let dir = tempfile::tempdir().unwrap();
        let include = dir.path().join("miopen");
        std::fs::create_dir(&include).unwrap();
        std::fs::write(include.join("miopen.h"), c_header(crate::table())).unwrap();
        std::fs::write(include.join("miopen_hipdnn.h"), shim_header()).unwrap();
        let mut source = String::from("#include <miopen/miopen.h>\n#include <miopen/miopen.h>\n#include <miopen/miopen_hipdnn.h>\n");
        source.push_str("typedef void (*any_function)(void);\nextern const any_function all[];\nconst any_function all[] = {\n");
        for f in crate::table().exports().map(|f| f.name.as_str()).chain([crate::FORWARDED_ERROR_FUNCTION]) {
            writeln!(source, "    (any_function){f},").unwrap();
        }
        source.push_str("};\n");
        let file = dir.path().join(format!("client.{extension}"));
        std::fs::write(&file, source).unwrap();
        let result = Command::new(compiler[0]).args(&compiler[1..]).arg("-I").arg(dir.path()).arg(&file).output();
        let output = result.expect("a C and a C++ compiler are required");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn header_is_c11() {
        let strict = ["-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-fsyntax-only"];
        compile(&[&["cc", "-std=c11"][..], &strict[..]].concat(), "c");
    }

    #[test]
    fn header_is_cpp() {
        for standard in ["-std=c++11", "-std=c++17"] {
            let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-cast-function-type", "-fsyntax-only"];
            compile(&[&["c++", standard][..], &strict[..]].concat(), "cpp");
        }
    }
}
