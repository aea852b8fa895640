//! Executing: everything that is checked before an executor gets to see an address.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Arc, LazyLock},
};

use crate::{
    descriptor::{Built, Object, Pack},
    error::{Error, Result},
    executor::{Arguments, Call, Memo},
    graph::Graph,
    handle::InUse,
    plan::Plan,
    registry::DESCRIPTORS,
};

/// For benchmarks: with this variable set, everything is checked and nothing is computed.
static DISCARDS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("REFERENCE_HIPDNN_DISCARD").is_some_and(|value| !value.is_empty()));

/// `hipdnnBackendExecute`.
///
/// # Safety
/// The pack's addresses are what the caller says they are: live for the extents of the plan's tensors, the workspace for the plan's size.
pub(crate) unsafe fn execute(handle: *const c_void, plan: *const c_void, pack: *const c_void) -> Result<()> {
    let handle = InUse::enter(handle)?;
    let (plan, pack) = (DESCRIPTORS.get(plan)?, DESCRIPTORS.get(pack)?);
    let (plan, pack) = (as_plan(&plan)?, as_pack(&pack)?);
    if !handle.session.runs(plan.engine()) {
        return Err(Error::bad(format!("the handle has no engine {}", plan.engine().name())));
    }
    if pack.overrides && !plan.graph().override_shapes {
        return Err(Error::unsupported("shapes are overridden, but the plan was built without that"));
    }
    if pack.addresses.get().is_none() {
        // Of two threads with two plans, one keeps its own.
        let _ = pack.addresses.set(Addresses::new(plan, pack)?);
    }
    let unkept;
    let addresses = match pack.addresses.get() {
        Some(kept) if kept.plan == plan.serial() => kept,
        _ => {
            unkept = Addresses::new(plan, pack)?;
            &unkept
        }
    };
    if *DISCARDS {
        return Ok(());
    }
    let workspace = std::ptr::with_exposed_provenance_mut(pack.workspace);
    let call = Call { arguments: &addresses.arguments, workspace, memo: &addresses.memo, session: handle.session.as_ref() };
    // SAFETY: by the contract of this function; every tensor of the plan has an address.
    unsafe { plan.executable().execute(&call) }
}

/// A pack as one plan sees it. Kept with the pack, which never changes, for its first plan: clients use a pack with one.
pub(crate) struct Addresses {
    plan: u64,
    arguments: Arguments,
    memo: Memo,
}

impl Addresses {
    fn new(plan: &Plan, pack: &Pack) -> Result<Self> {
        let arguments = arguments(plan.graph(), pack)?;
        if plan.workspace() > 0 && pack.workspace == 0 {
            return Err(Error::bad(format!("the plan needs {} bytes of workspace, the pack has none", plan.workspace())));
        }
        Ok(Self { plan: plan.serial(), arguments, memo: Memo::new() })
    }
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
