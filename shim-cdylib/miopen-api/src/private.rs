//! What a build needs that calls the native MIOpen of a split installation by its own names, `<name>_impl` in `libMIOpen_private.so.1`, and
//! never the public library: engine plugins of hipDNN above all, whose calls would else come back to the library that called hipDNN.
//!
//! A header that renames every function, and the pkg-config and CMake files that put it before a source. Public headers say none of this.

use std::fmt::Write as _;

use crate::{IMPLEMENTATION_SUFFIX, PRIVATE_PACKAGE, SPLIT_SONAME, table::Api};

/// Name of the renaming header, in a folder that is called like the package.
pub const RENAME_HEADER: &str = "rename.h";

/// The header `miopen_private/rename.h`: every function of the table under the name that the private library gives it.
pub fn rename_header(api: &Api) -> String {
    let mut out = format!(
        "/* Calls of MIOpen that reach {SPLIT_SONAME} itself, not the library before it. Generated from the API table of hipdnn-shim. Do not\n \
         * edit. To be included before any header of MIOpen's: the pkg-config package {PRIVATE_PACKAGE} and the CMake target MIOpen::private do\n \
         * so with -include. Link with -lMIOpen_private, and not with -lMIOpen. */\n\
         #ifndef MIOPEN_GUARD_MIOPEN_PRIVATE_RENAME_H_\n#define MIOPEN_GUARD_MIOPEN_PRIVATE_RENAME_H_\n\n\
         #ifdef MIOPEN_GUARD_MIOPEN_H_\n#error \"{PRIVATE_PACKAGE}/{RENAME_HEADER} comes too late: miopen/miopen.h was included before it\"\n\
         #endif\n\n"
    );
    for function in api.exports() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "#define {0} {0}{IMPLEMENTATION_SUFFIX}", function.name);
    }
    out + "\n#endif /* MIOPEN_GUARD_MIOPEN_PRIVATE_RENAME_H_ */\n"
}

/// The file `lib/pkgconfig/miopen_private.pc` of a prefix whose private library lies in this folder of it.
pub fn private_pkg_config(version: &str, library_folder: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/{library_folder}\n\n\
         Name: {PRIVATE_PACKAGE}\nDescription: the MIOpen behind hipDNN, for plugins of hipDNN\nVersion: {version}\n\
         Libs: -L${{libdir}} -lMIOpen_private\nCflags: -I${{includedir}} -include ${{includedir}}/{PRIVATE_PACKAGE}/{RENAME_HEADER}\n"
    )
}

/// The file `lib/cmake/miopen_private/miopen_private-config.cmake` of such a prefix: the imported target `MIOpen::private`.
pub fn private_cmake(library_folder: &str) -> String {
    format!(
        r#"get_filename_component(_miopen_private_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET MIOpen::private)
  add_library(MIOpen::private SHARED IMPORTED)
  set_target_properties(MIOpen::private PROPERTIES
    IMPORTED_LOCATION "${{_miopen_private_prefix}}/{library_folder}/{SPLIT_SONAME}"
    IMPORTED_SONAME "{SPLIT_SONAME}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_miopen_private_prefix}}/include"
    INTERFACE_COMPILE_OPTIONS "SHELL:-include \"${{_miopen_private_prefix}}/include/{PRIVATE_PACKAGE}/{RENAME_HEADER}\"")
endif()
unset(_miopen_private_prefix)
"#
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{c_header, table};
    use std::{fs, path::Path, process::Command};

    /// A folder of headers, and a program that uses every function.
    fn layout() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("miopen/miopen.h", c_header(table())), ("miopen_private/rename.h", rename_header(table()))] {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut source =
            String::from("#include <miopen/miopen.h>\ntypedef void (*any)(void);\nextern const any all[];\nconst any all[] = {\n");
        table().exports().for_each(|f| writeln!(source, "    (any){},", f.name).unwrap());
        fs::write(folder.path().join("all.c"), source + "};\n").unwrap();
        folder
    }

    fn compile(compiler: &str, folder: &Path, flags: &[&str]) -> std::process::Output {
        let strict = ["-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-I"];
        let mut command = Command::new(compiler);
        command.args(strict).arg(folder).args(flags).arg(folder.join("all.c")).output().expect("a C and a C++ compiler are required")
    }

    #[test]
    fn every_function_is_renamed_in_c_and_in_cpp() {
        let folder = layout();
        let object = folder.path().join("all.o");
        for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
            let flags = ["-x", language, "-c", "-include", "miopen_private/rename.h", "-o", object.to_str().unwrap()];
            let output = compile(compiler, folder.path(), &flags);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let data = fs::read(&object).unwrap();
            let count = |text: &str| data.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
            for function in table().exports() {
                let name = &function.name;
                assert_eq!((count(&format!("\0{name}_impl\0")), count(&format!("\0{name}\0"))), (1, 0), "{language}: {name}");
            }
        }
    }

    #[test]
    fn it_may_not_come_too_late() {
        let folder = layout();
        let flags = ["-fsyntax-only", "-include", "miopen/miopen.h", "-include", "miopen_private/rename.h"];
        let output = compile("cc", folder.path(), &flags);
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("comes too late"));
    }
}
