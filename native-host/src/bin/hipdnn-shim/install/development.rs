//! What compilers and build systems look for in a prefix: headers, a pkg-config file, a CMake package of the names that MIOpen's own has; in
//! a split installation, also what makes a build call the private library.

use std::{fs, path::Path};

use anyhow::Result;
use miopen_api::{API_VERSION, PRIVATE_PACKAGE, RENAME_HEADER};

use super::tree::Tree;

/// Adds it all. Headers are the native's own where they lie beside it, since only those fit it exactly.
pub fn add(tree: &mut Tree, native_folder: &Path, split: bool) -> Result<()> {
    let found = native_folder.ancestors().skip(1).take(2).map(|root| root.join("include/miopen"));
    let found = found.into_iter().find(|folder| folder.join("miopen.h").exists());
    match &found {
        Some(folder) => copy_headers(tree, folder)?,
        None => tree.file("include/miopen", "miopen.h", miopen_api::c_header(miopen_api::table()).into_bytes()),
    }
    tree.file("include/miopen", OWN_HEADER, miopen_api::shim_header().into_bytes());
    let version = found.and_then(|folder| version(&fs::read_to_string(folder.join("version.h")).ok()?)).unwrap_or(API_VERSION.into());
    tree.file("lib/pkgconfig", "miopen.pc", pkg_config(&version).into_bytes());
    tree.file("lib/cmake/miopen", "miopen-config.cmake", CMAKE.into());
    tree.file("lib/cmake/miopen", "miopen-config-version.cmake", cmake_version(&version).into_bytes());
    if split {
        add_private(tree, &version);
    }
    Ok(())
}

/// For those who shall call the private library. No public file names any of it.
fn add_private(tree: &mut Tree, version: &str) {
    tree.file(&format!("include/{PRIVATE_PACKAGE}"), RENAME_HEADER, miopen_api::rename_header(miopen_api::table()).into_bytes());
    tree.file("lib/pkgconfig", &format!("{PRIVATE_PACKAGE}.pc"), miopen_api::private_pkg_config(version, "lib").into_bytes());
    let (folder, name) = (format!("lib/cmake/{PRIVATE_PACKAGE}"), |end: &str| format!("{PRIVATE_PACKAGE}-config{end}.cmake"));
    tree.file(&folder, &name(""), miopen_api::private_cmake("lib").into_bytes());
    tree.file(&folder, &name("-version"), cmake_version(version).into_bytes());
}

/// What the shim adds.
const OWN_HEADER: &str = "miopen_hipdnn.h";

fn copy_headers(tree: &mut Tree, folder: &Path) -> Result<()> {
    let mut paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.retain(|path| path.is_file() && !path.ends_with(OWN_HEADER));
    paths.sort();
    for path in paths {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            tree.file("include/miopen", name, fs::read(&path)?);
        }
    }
    Ok(())
}

/// The version in MIOpen's `version.h`.
fn version(header: &str) -> Option<String> {
    let number = |name: &str| {
        let mut lines = header.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find_map(|words| matches!(words[..], ["#define", found, _] if found == name).then(|| words[2].to_string()))
    };
    Some(format!("{}.{}.{}", number("MIOPEN_VERSION_MAJOR")?, number("MIOPEN_VERSION_MINOR")?, number("MIOPEN_VERSION_PATCH")?))
}

fn pkg_config(version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\nName: miopen\n\
         Description: MIOpen, with hipDNN before it\nVersion: {version}\nLibs: -L${{libdir}} -lMIOpen\nCflags: -I${{includedir}}\n"
    )
}

/// The same target and variables as upstream's package. HIP is used where it is found, as MIOpen's own headers want it.
const CMAKE: &str = r#"get_filename_component(_miopen_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET MIOpen)
  find_package(hip QUIET)
  add_library(MIOpen SHARED IMPORTED)
  set_target_properties(MIOpen PROPERTIES
    IMPORTED_LOCATION "${_miopen_prefix}/lib/libMIOpen.so.1"
    IMPORTED_SONAME "libMIOpen.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_miopen_prefix}/include")
  if(TARGET hip::host)
    set_property(TARGET MIOpen PROPERTY INTERFACE_LINK_LIBRARIES hip::host)
  endif()
endif()
foreach(_miopen_name MIOpen MIOPEN miopen)
  set(${_miopen_name}_INCLUDE_DIR "${_miopen_prefix}/include")
  set(${_miopen_name}_INCLUDE_DIRS "${_miopen_prefix}/include")
  set(${_miopen_name}_LIBRARY MIOpen)
  set(${_miopen_name}_LIBRARIES MIOpen)
endforeach()
unset(_miopen_name)
unset(_miopen_prefix)
"#;

fn cmake_version(version: &str) -> String {
    let major = version.split('.').next().unwrap_or_default();
    format!(
        "set(PACKAGE_VERSION \"{version}\")\nif(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR \
         (PACKAGE_FIND_VERSION AND NOT PACKAGE_FIND_VERSION_MAJOR EQUAL {major}))\n  set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  \
         set(PACKAGE_VERSION_COMPATIBLE TRUE)\n  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n    \
         set(PACKAGE_VERSION_EXACT TRUE)\n  endif()\nendif()\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_header() {
        let header = "#define MIOPEN_VERSION_MAJOR 3\n#define MIOPEN_VERSION_MINOR 4\n#define MIOPEN_VERSION_PATCH 0\n#define MIOPEN_VERSION_TWEAK \n";
        assert_eq!(version(header).as_deref(), Some("3.4.0"));
        assert_eq!(version("#define MIOPEN_VERSION_MAJOR 3\n"), None);
        assert!(pkg_config("3.4.0").contains("prefix=${pcfiledir}/../.."));
        assert!(cmake_version("3.4.0").starts_with("set(PACKAGE_VERSION \"3.4.0\")\n"));
    }
}
