//! What a component imports and exports, read with a parser: nothing is compiled or run. Shared with the build script.

use wasmparser::{Encoding, Parser, Payload};

/// The names that a component imports and exports.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Imports; none for anything the host runs.
    pub imports: Vec<String>,
    /// Exports, with their versions.
    pub exports: Vec<String>,
}

/// Reads the outermost component's imports and exports. The error says what is wrong with the bytes.
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
            _ => {}
        }
    }
    Ok(interface)
}
