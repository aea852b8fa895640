//! Executing: everything that is checked before an executor gets to see an address.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Arc, LazyLock},
};

use crate::{
    descriptor::{Built, Object, Pack},
    error::{Error, Result},
    executor::Arguments,
    graph::Graph,
    handle::InUse,
    plan::Plan,
    registry::DESCRIPTORS,
    stream,
};

/// For benchmarks: with this variable set, everything is checked and nothing is computed.
static DISCARDS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("REFERENCE_HIPDNN_DISCARD").is_some_and(|value| !value.is_empty()));

/// For tests of what compares results: with this variable set, the first element of every output comes out wrong.
static IS_WRONG: LazyLock<bool> = LazyLock::new(|| std::env::var_os("REFERENCE_HIPDNN_WRONG").is_some_and(|value| !value.is_empty()));

/// `hipdnnBackendExecute`.
///
/// # Safety
/// The pack's addresses are what the caller says they are: live for the extents of the plan's tensors, the workspace for the plan's size.
pub(crate) unsafe fn execute(handle: *const c_void, plan: *const c_void, pack: *const c_void) -> Result<()> {
    let handle = InUse::enter(handle)?;
    let (plan, pack) = (DESCRIPTORS.get(plan)?, DESCRIPTORS.get(pack)?);
    let (plan, pack) = (as_plan(&plan)?, as_pack(&pack)?);
    if handle.profile.engine(plan.engine().id()).is_none() {
        return Err(Error::bad(format!("the handle has no engine {}", plan.engine().name())));
    }
    if pack.overrides && !plan.graph().override_shapes {
        return Err(Error::unsupported("shapes are overridden, but the plan was built without that"));
    }
    let arguments = arguments(plan.graph(), pack)?;
    if plan.workspace() > 0 && pack.workspace == 0 {
        return Err(Error::bad(format!("the plan needs {} bytes of workspace, the pack has none", plan.workspace())));
    }
    if *DISCARDS {
        return Ok(());
    }
    let workspace = std::ptr::with_exposed_provenance_mut(pack.workspace);
    // SAFETY: by the contract of this function; every tensor of the plan has an address.
    unsafe { plan.executable().execute(&arguments, workspace, handle.stream()) }?;
    if *IS_WRONG {
        // SAFETY: as above.
        unsafe { spoil(plan.graph(), &arguments, handle.stream()) }?;
    }
    Ok(())
}

/// Makes the first element of every output wrong, in the order of the stream: a bit of its highest byte changes, which in every type is
/// at least 2, or half of all there is.
///
/// # Safety
/// The outputs are live and writable.
unsafe fn spoil(graph: &Graph, arguments: &Arguments, stream: usize) -> Result<()> {
    for tensor in graph.tensors.iter().filter(|tensor| tensor.needs_pointer() && graph.writes(tensor.uid)) {
        let bytes = hipdnn_abi::data_type_bytes(tensor.data_type).unwrap_or(1);
        let last = arguments.address(tensor.uid)?.wrapping_add(bytes - 1).expose_provenance();
        stream::queue(stream, move || {
            let last = std::ptr::with_exposed_provenance_mut::<u8>(last);
            // SAFETY: by the contract of `spoil`: a byte of the output's first element.
            unsafe { last.write(last.read() ^ 0x40) };
        })?;
    }
    Ok(())
}

/// Unlike elsewhere, something unfinalized is a plain BAD_PARAM here.
fn as_plan(object: &Arc<Object>) -> Result<&Arc<Plan>> {
    match object.built() {
        Ok(Built::Plan(plan)) => Ok(plan),
        _ => Err(Error::bad("no finalized execution plan")),
    }
}

fn as_pack(object: &Arc<Object>) -> Result<&Arc<Pack>> {
    match object.built() {
        Ok(Built::Pack(pack)) => Ok(pack),
        _ => Err(Error::bad("no finalized variant pack")),
    }
}

/// The addresses of all tensors that need one. Every mistake in a pack is named, also those that real engines may overlook: ids that the
/// plan does not have, and pointers for tensors that take none.
fn arguments(graph: &Graph, pack: &Pack) -> Result<Arguments> {
    for &uid in pack.pointers.keys() {
        match graph.tensor(uid) {
            Some(tensor) if tensor.needs_pointer() => {}
            Some(_) => return Err(Error::bad(format!("tensor {uid} is virtual or a constant: it takes no pointer"))),
            None => return Err(Error::bad(format!("the plan has no tensor {uid}"))),
        }
    }
    let mut addresses = BTreeMap::new();
    for tensor in graph.tensors.iter().filter(|tensor| tensor.needs_pointer()) {
        let address = pack.pointers.get(&tensor.uid).copied().unwrap_or(0);
        if address == 0 {
            return Err(Error::bad(format!("no pointer for tensor {}", tensor.uid)));
        }
        let aligned = tensor.runtime_by_value || (address as u64).is_multiple_of(tensor.alignment as u64);
        if !aligned {
            return Err(Error::bad(format!("the pointer for tensor {} is not a multiple of {} bytes", tensor.uid, tensor.alignment)));
        }
        addresses.insert(tensor.uid, address);
    }
    Ok(Arguments::new(addresses))
}
