//! Engine and engine configuration descriptors: one engine for one graph, and the knobs chosen for it.

use std::sync::Arc;

use hipdnn_abi::{attribute, descriptor_type};

use super::{BoundGraph, Built, Kind, Object, finalized_twice, knob};
use crate::{
    error::{Error, Result},
    executor::Executor,
    value::Value,
};

/// The most knob choices that one configuration takes.
const MAX_KNOB_CHOICES: usize = 1024;

/// An engine that said it can run a graph.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) engine: Arc<dyn Executor>,
    pub(crate) graph: Arc<BoundGraph>,
    pub(crate) workspace: usize,
}

/// A choice with its knobs.
pub(crate) struct Configuration {
    pub(crate) choice: Choice,
    pub(crate) knobs: Vec<(String, Value)>,
}

/// The graph behind a descriptor's graph attribute.
pub(super) fn graph_of(object: &Object, number: i32) -> Result<Arc<BoundGraph>> {
    match object.child(number)?.built()? {
        Built::Graph(graph) => Ok(graph.clone()),
        _ => Err(Error::bad("no operation graph")),
    }
}

pub(super) struct EngineKind;

impl Kind for EngineKind {
    fn child(&self, _number: i32) -> Option<i32> {
        Some(descriptor_type::BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let graph = graph_of(object, attribute::ENGINE_OPERATION_GRAPH)?;
        let id = object.int64(attribute::ENGINE_GLOBAL_INDEX).unwrap_or_default();
        let engine = graph.enter()?.session.engine(id, &graph.graph)?;
        let workspace =
            engine.check(&graph.graph).map_err(|refusal| Error::bad(format!("{} cannot run the graph: {refusal}", engine.name())))?;
        Ok(Built::Engine(Choice { engine, graph, workspace }))
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        let Built::Engine(choice) = object.built()? else { return Err(Error::bad("no engine")) };
        Ok(match number {
            attribute::ENGINE_KNOB_INFO => Some(Value::Descriptors(choice.engine.knobs().iter().map(knob::info).collect::<Result<_>>()?)),
            attribute::ENGINE_BEHAVIOR_NOTE => Some(Value::Int32(choice.engine.notes().to_vec())),
            attribute::ENGINE_NAME_EXT => Some(Value::Bytes(choice.engine.name().into())),
            attribute::KNOB_INFO_SERIALIZED_VALUE => return Err(Error::unsupported("knobs are not serialized here")),
            _ => None,
        })
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}

pub(super) struct ConfigurationKind;

impl Kind for ConfigurationKind {
    fn child(&self, number: i32) -> Option<i32> {
        Some(match number {
            attribute::ENGINECFG_KNOB_CHOICES => descriptor_type::BACKEND_KNOB_CHOICE_DESCRIPTOR,
            _ => descriptor_type::BACKEND_ENGINE_DESCRIPTOR,
        })
    }

    fn accept(&self, _object: &Object, number: i32, value: Value) -> Result<Value> {
        if number == attribute::ENGINECFG_KNOB_CHOICES && value.len() > MAX_KNOB_CHOICES {
            return Err(Error::bad(format!("{} knob choices, at most {MAX_KNOB_CHOICES} are taken", value.len())));
        }
        Ok(value)
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let engine = object.child(attribute::ENGINECFG_ENGINE)?;
        let Built::Engine(choice) = engine.built()? else { return Err(Error::bad("no engine")) };
        let choices = object.value(attribute::ENGINECFG_KNOB_CHOICES);
        let knobs = choices.iter().flat_map(Value::descriptors).map(|c| knob::choice(c)).collect();
        Ok(Built::Configuration(Arc::new(Configuration { choice: choice.clone(), knobs })))
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        let Built::Configuration(configuration) = object.built()? else { return Err(Error::bad("no configuration")) };
        Ok((number == attribute::ENGINECFG_WORKSPACE_SIZE).then(|| Value::Int64(vec![configuration.choice.workspace as i64])))
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}
