//! Engine heuristics: which engines of the handle can run a graph. None is a success with no result.

use std::{ffi::c_void, sync::Arc};

use hipdnn_abi::{attribute, descriptor_type, status};

use super::{Built, Choice, Kind, Object, Request, engine, finalized_twice, write_count};
use crate::{
    engine::POLICIES,
    error::{Error, Result},
    executor::{Executor, fnv1a},
    registry::DESCRIPTORS,
    value::Value,
};

pub(super) struct HeuristicKind;

impl Kind for HeuristicKind {
    fn child(&self, _number: i32) -> Option<i32> {
        Some(descriptor_type::BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let graph = engine::graph_of(object, attribute::ENGINEHEUR_OPERATION_GRAPH)?;
        let handle = graph.enter()?;
        let find_first = object.flag(attribute::ENGINEHEUR_FIND_FIRST_EXT);
        let choice = |engine: Arc<dyn Executor>| {
            let workspace = engine.check(&graph.graph).ok()?;
            Some(Choice { engine, graph: graph.clone(), workspace })
        };
        let mut found: Vec<_> = handle.session.candidates(&graph.graph)?.into_iter().filter_map(choice).collect();
        if find_first {
            found.truncate(1);
        } else {
            apply_policies(object)?;
        }
        Ok(Built::Heuristic(Arc::new(found)))
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }

    fn unfinalized_get(&self) -> Result<()> {
        Err(Error::not_finalized("the heuristic"))
    }
}

/// The engines come in their order, so a policy has nothing to order; but a list in which no policy exists decides nothing.
fn apply_policies(object: &Object) -> Result<()> {
    let Some(order) = object.value(attribute::ENGINEHEUR_POLICY_ORDER_EXT) else { return Ok(()) };
    let exists = |id: &i64| POLICIES.iter().any(|name| fnv1a(name.as_bytes()) == *id);
    if order.int64s().iter().any(exists) { Ok(()) } else { Err(Error::new(status::INTERNAL_ERROR, "every heuristic policy declined")) }
}

/// Reads the results: into configurations that the caller made. Each gets its engine; finalizing it is left to the caller.
///
/// # Safety
/// As for [`Object::get`].
pub(super) unsafe fn results(object: &Arc<Object>, request: &Request) -> Result<()> {
    let Built::Heuristic(found) = object.built()? else { return Err(Error::bad("no heuristic")) };
    if request.count.is_null() {
        return Err(Error::null("elementCount"));
    }
    if request.requested == 0 {
        // SAFETY: writable by the contract of this function.
        return unsafe { write_count(request.count, found.len(), true) };
    }
    if request.array.is_null() {
        return Err(Error::null("the array of engine configurations"));
    }
    let wanted = found.len().min(usize::try_from(request.requested).unwrap_or(usize::MAX));
    // SAFETY: the array holds as many handles as requested.
    let handles = (0..wanted).map(|i| unsafe { request.array.cast::<*const c_void>().add(i).read_unaligned() });
    // All are checked before the first is changed.
    let targets = handles.map(configuration).collect::<Result<Vec<_>>>()?;
    let graph = object.child(attribute::ENGINEHEUR_OPERATION_GRAPH)?;
    for (target, choice) in targets.iter().zip(found.iter()) {
        fill(target, &graph, choice)?;
    }
    // SAFETY: writable by the contract of this function.
    unsafe { write_count(request.count, wanted, true) }
}

fn configuration(handle: *const c_void) -> Result<Arc<Object>> {
    let target = DESCRIPTORS.get(handle)?;
    if target.kind() != descriptor_type::BACKEND_ENGINECFG_DESCRIPTOR {
        return Err(Error::bad(format!("a {} for a result", target.spec.name)));
    }
    if target.is_finalized() {
        return Err(Error::new(status::NOT_INITIALIZED, "a configuration for a result is finalized already"));
    }
    Ok(target)
}

fn fill(target: &Object, graph: &Arc<Object>, choice: &Choice) -> Result<()> {
    let values = [
        (attribute::ENGINE_OPERATION_GRAPH, Value::Descriptors(vec![graph.clone()])),
        (attribute::ENGINE_GLOBAL_INDEX, Value::Int64(vec![choice.engine.id()])),
    ];
    let engine = Object::from_built(descriptor_type::BACKEND_ENGINE_DESCRIPTOR, Built::Engine(choice.clone()))?;
    engine.values.write().extend(values);
    target.values.write().insert(attribute::ENGINECFG_ENGINE, Value::Descriptors(vec![engine]));
    Ok(())
}
