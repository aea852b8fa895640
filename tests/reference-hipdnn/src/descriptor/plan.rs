//! Execution plan descriptors: made from a configuration, or loaded from bytes.

use std::sync::Arc;

use hipdnn_abi::{attribute, descriptor_type, status};

use super::{Built, Kind, Object, finalized_twice};
use crate::{
    error::{Error, Result},
    plan::Plan,
    value::Value,
};

/// A finalized descriptor for a plan that was loaded: there is no configuration behind it.
pub(crate) fn loaded(plan: Plan) -> Result<Arc<Object>> {
    Object::from_built(descriptor_type::BACKEND_EXECUTION_PLAN_DESCRIPTOR, Built::Plan(Arc::new(plan)))
}

pub(super) struct PlanKind;

impl Kind for PlanKind {
    fn child(&self, _number: i32) -> Option<i32> {
        Some(descriptor_type::BACKEND_ENGINECFG_DESCRIPTOR)
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let configuration = object.child(attribute::EXECUTION_PLAN_ENGINE_CONFIG)?;
        let Built::Configuration(configuration) = configuration.built()? else { return Err(Error::bad("no engine configuration")) };
        let handle = configuration.choice.graph.enter()?;
        std::thread::sleep(handle.plan_cost);
        Ok(Built::Plan(Arc::new(Plan::build(configuration)?)))
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        let Built::Plan(plan) = object.built()? else { return Err(Error::bad("no plan")) };
        Ok(match number {
            attribute::EXECUTION_PLAN_ENGINE_CONFIG if plan.is_loaded() => {
                return Err(Error::new(status::BAD_PARAM_NULL_POINTER, "a loaded plan has no engine configuration"));
            }
            attribute::EXECUTION_PLAN_WORKSPACE_SIZE => Some(Value::Int64(vec![plan.workspace() as i64])),
            attribute::EXECUTION_PLAN_TENSOR_UIDS_EXT => Some(Value::Int64(plan.graph().tensors.iter().map(|t| t.uid).collect())),
            attribute::EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT => Some(Value::Int64(vec![plan.engine().id()])),
            attribute::EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT => Some(Value::Bool(vec![plan.graph().override_shapes])),
            _ => None,
        })
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}
