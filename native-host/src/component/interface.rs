//! What a component imports and exports, and how much of it there is, read with a parser: nothing is compiled or run. Shared with the
//! build script.

use wasmparser::{Encoding, Parser, Payload};

/// What a component is on the outside.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Imports; none for anything the host runs.
    pub imports: Vec<String>,
    /// Exports, with their versions.
    pub exports: Vec<String>,
    /// What compiling it would be about.
    pub extent: Extent,
}

/// How much there is to compile.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Functions with a body, in all core modules.
    pub functions: usize,
    /// Bytes of the largest body.
    pub largest_function: usize,
    /// How deep components and modules lie in each other.
    pub depth: usize,
    /// Instances that are made of components and core modules, in all components.
    pub instances: usize,
}

/// Reads the outermost component's imports and exports, and measures all of it. The error says what is wrong with the bytes.
pub fn interface_of(wasm: &[u8]) -> Result<Interface, String> {
    let mut interface = Interface::default();
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| error.to_string())? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err("it is a core module, not a component".into()),
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    interface.imports.push(import.map_err(|error| error.to_string())?.name.name.to_string());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    interface.exports.push(export.map_err(|error| error.to_string())?.name.name.to_string());
                }
            }
            Payload::CodeSectionEntry(body) => {
                interface.extent.functions += 1;
                interface.extent.largest_function = interface.extent.largest_function.max(body.range().len());
            }
            Payload::InstanceSection(section) => interface.extent.instances += section.count() as usize,
            Payload::ComponentInstanceSection(section) => interface.extent.instances += section.count() as usize,
            _ => {}
        }
        interface.extent.depth = interface.extent.depth.max(depth);
    }
    Ok(interface)
}
