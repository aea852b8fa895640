//! What a component may be before it is compiled: compiling costs time and memory without bound, and so do imports that somebody would have
//! to serve. All limits on a foreign component's bytes stand here.

use super::{
    ComponentError, MAX_BYTES,
    contract::Contract,
    interface::{Interface, interface_of},
};

/// Functions of all its modules.
const MAX_FUNCTIONS: usize = 4096;
/// Bytes of one function: time and memory of a compiler grow faster than these.
const MAX_FUNCTION_BYTES: usize = 64 << 10;
/// The component, what it is made of, and what that is made of: deeper, instances multiply.
const MAX_DEPTH: usize = 3;
/// Instances, as written in the bytes.
const MAX_INSTANCES: usize = 64;

/// Whether a component may be compiled, and the contract that it speaks.
pub fn inspect(wasm: &[u8]) -> Result<Contract, ComponentError> {
    let refused = |reason: String| Err(ComponentError::Load(reason));
    if wasm.len() > MAX_BYTES {
        return refused(format!("it has {} bytes; at most {MAX_BYTES} are compiled", wasm.len()));
    }
    let Interface { imports, exports, extent } = interface_of(wasm).map_err(|error| ComponentError::Load(super::one_line(error)))?;
    if let Some(import) = imports.first() {
        return refused(format!("it imports {import}; a translator imports nothing"));
    }
    let limits = [
        ("functions", extent.functions, MAX_FUNCTIONS),
        ("bytes in one function", extent.largest_function, MAX_FUNCTION_BYTES),
        ("levels of components in components", extent.depth, MAX_DEPTH),
        ("instances", extent.instances, MAX_INSTANCES),
    ];
    if let Some((what, amount, limit)) = limits.into_iter().find(|(_, amount, limit)| amount > limit) {
        return refused(format!("it has {amount} {what}; at most {limit} are compiled"));
    }
    match Contract::of(exports.iter().map(String::as_str)) {
        Some(contract) => Ok(contract),
        None => {
            let spoken: Vec<&str> = Contract::ALL.iter().map(|contract| contract.version()).collect();
            let exports = if exports.is_empty() { "nothing".into() } else { exports.join(", ") };
            refused(format!("it speaks no contract that this host speaks ({}); it exports {exports}", spoken.join(", ")))
        }
    }
}
