//! Execution plans: heuristics → engine configuration → plan, and the variant packs that execute them.

mod packs;

use std::{
    ffi::c_void,
    ptr::null_mut,
    time::{Duration, Instant},
};

use hipdnn_abi::{attribute, attribute_type, descriptor_type, heuristic_mode};
use thiserror::Error;

use crate::{
    backend::{BackendError, Descriptor, Handle, PointerSlots},
    cache::record::{EngineRecord, Knob},
    lower::lower,
    plan::packs::Packs,
    validate::ValidatedGraph,
};

/// The most engines that are tried for one graph.
const MAX_ENGINES: usize = 32;

/// Why there is no plan.
#[derive(Clone, Debug, Error)]
pub enum PlanError {
    /// The backend has no engine for the graph: a decline.
    #[error("no engine takes the graph{}", .0.as_ref().map_or_else(String::new, |e| format!(": {e}")))]
    NoEngine(Option<BackendError>),
    /// The backend refused the declared alignment: a decline.
    #[error("alignment {0} cannot be declared: {1}")]
    Alignment(usize, BackendError),
    /// Something went wrong while building.
    #[error("{0}")]
    Failed(BackendError),
}

/// Whichever call of a build says that something is not supported says that there is no plan.
impl From<BackendError> for PlanError {
    fn from(error: BackendError) -> Self {
        if error.is_unsupported() { Self::NoEngine(Some(error)) } else { Self::Failed(error) }
    }
}

/// How long the phases of building took.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildTimes {
    /// Validated graph to finalized backend graph.
    pub lower: Duration,
    /// Asking which engines there are.
    pub heuristics: Duration,
    /// Finalizing configuration and plan.
    pub plan: Duration,
}

/// A plan, ready to execute any number of times.
pub struct Plan {
    plan: Descriptor,
    uids: Vec<i64>,
    arguments: Vec<u32>,
    workspace: usize,
    captures: bool,
    engine: i64,
    engine_name: Option<String>,
    packs: Packs<Descriptor>,
    // Last: engine and plan refer to the graph. A plan that was made from bytes has none.
    _graph: Option<Descriptor>,
}

impl Plan {
    /// Builds a plan for the graph: the first engine, in the heuristic's order, whose plan can be finalized. With it comes the record by
    /// which it can be made again.
    pub fn build(graph: &ValidatedGraph, handle: &Handle, alignment: usize) -> Result<(Self, EngineRecord, BuildTimes), PlanError> {
        let start = Instant::now();
        let lowered = lower(graph, handle, alignment).map_err(|error| classify(error, alignment))?;
        let lowered_at = Instant::now();
        let configurations = configurations(&lowered, handle)?;
        let found_at = Instant::now();
        let (plan, configuration) = first_plan(configurations, handle)?;
        let times = BuildTimes { lower: lowered_at - start, heuristics: found_at - lowered_at, plan: found_at.elapsed() };
        let record = record(&plan, &configuration, handle)?;
        Ok((Self::assemble(graph, handle, Some(lowered), plan, &record)?, record, times))
    }

    /// Makes a plan again, without asking which engines there are: from its bytes if there are any, else with the engine of the record.
    pub fn restore(
        graph: &ValidatedGraph,
        handle: &Handle,
        alignment: usize,
        record: &EngineRecord,
    ) -> Result<(Self, BuildTimes), PlanError> {
        let mut times = BuildTimes::default();
        let start = Instant::now();
        if let Some(bytes) = &record.bytes
            && let Some(plan) = from_bytes(bytes, graph, handle)
        {
            times.plan = start.elapsed();
            return Ok((Self::assemble(graph, handle, None, plan, record)?, times));
        }
        let lowered = lower(graph, handle, alignment).map_err(|error| classify(error, alignment))?;
        times.lower = start.elapsed();
        let plan = finalize_plan(&configuration(&lowered, handle, record)?, handle)?;
        times.plan = start.elapsed() - times.lower;
        Ok((Self::assemble(graph, handle, Some(lowered), plan, record)?, times))
    }

    fn assemble(
        graph: &ValidatedGraph,
        handle: &Handle,
        lowered: Option<Descriptor>,
        plan: Descriptor,
        record: &EngineRecord,
    ) -> Result<Self, PlanError> {
        let workspace = plan.int64(attribute::EXECUTION_PLAN_WORKSPACE_SIZE)?;
        Ok(Self {
            plan,
            uids: graph.bindings().iter().map(|b| b.uid).collect(),
            arguments: graph.bindings().iter().map(|b| b.argument).collect(),
            workspace: usize::try_from(workspace).unwrap_or(0),
            captures: record.captures(),
            engine: record.id,
            engine_name: handle.engine_name(record.id),
            packs: Packs::new(graph.bindings().len() + 1),
            _graph: lowered,
        })
    }

    /// Bytes of workspace that an execution needs.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Whether the engine may run while its stream is being captured.
    pub fn captures(&self) -> bool {
        self.captures
    }

    /// The engine's name, or its number where the backend does not tell.
    pub fn engine(&self) -> String {
        self.engine_name.clone().unwrap_or_else(|| self.engine.to_string())
    }

    /// Makes sure that there is a variant pack for these addresses, and answers its slot. Reuses the one of an earlier execution with
    /// the same addresses; that costs a comparison.
    pub fn pack(&mut self, handle: &Handle, pointers: &[*mut c_void], workspace: *mut c_void) -> Result<usize, BackendError> {
        let Self { uids, arguments, packs, .. } = self;
        let tensors = arguments.iter().map(|&argument| pointers.get(argument as usize).copied().unwrap_or(null_mut()));
        let addresses = tensors.clone().chain([workspace]).map(|pointer| pointer.addr());
        if let Some(slot) = packs.find(addresses.clone()) {
            return Ok(slot);
        }
        let pack = new_pack(handle, uids, &tensors.collect::<Vec<_>>(), workspace)?;
        Ok(packs.insert(addresses, pack))
    }

    /// Executes with the pack in `slot`, which [`Plan::pack`] answered.
    pub fn execute(&self, handle: &Handle, slot: usize) -> Result<(), BackendError> {
        self.packs.get(slot).map_or(Ok(()), |pack| handle.execute(&self.plan, pack))
    }
}

fn new_pack(handle: &Handle, uids: &[i64], tensors: &PointerSlots, workspace: *mut c_void) -> Result<Descriptor, BackendError> {
    let pack = Descriptor::new(handle.library(), descriptor_type::BACKEND_VARIANT_PACK_DESCRIPTOR)?;
    pack.set_int64s(attribute::VARIANT_PACK_UNIQUE_IDS, uids)?;
    pack.set_pointers(attribute::VARIANT_PACK_DATA_POINTERS, tensors)?;
    if !workspace.is_null() {
        pack.set_pointers(attribute::VARIANT_PACK_WORKSPACE, &[workspace])?;
    }
    pack.finalize()?;
    Ok(pack)
}

/// Refusals while lowering: of the alignment, of the graph, or a failure.
fn classify(error: BackendError, alignment: usize) -> PlanError {
    if error.subject.contains("BYTE_ALIGNMENT") { PlanError::Alignment(alignment, error) } else { error.into() }
}

/// What is known of the engine of a plan that was built.
fn record(plan: &Descriptor, configuration: &Descriptor, handle: &Handle) -> Result<EngineRecord, BackendError> {
    let engine = configuration.descriptor(attribute::ENGINECFG_ENGINE, descriptor_type::BACKEND_ENGINE_DESCRIPTOR)?;
    let id = engine.int64(attribute::ENGINE_GLOBAL_INDEX)?;
    // Older backends cannot tell; then nothing is assumed.
    let notes = engine.enumerations(attribute::ENGINE_BEHAVIOR_NOTE, attribute_type::BEHAVIOR_NOTE).unwrap_or_default();
    let mut record = EngineRecord { id, knobs: Vec::new(), notes, bytes: None };
    if record.serializes() {
        record.bytes = plan.serialized_plan(handle);
    }
    Ok(record)
}

/// The configuration that a record describes.
fn configuration(graph: &Descriptor, handle: &Handle, record: &EngineRecord) -> Result<Descriptor, BackendError> {
    let engine = Descriptor::new(handle.library(), descriptor_type::BACKEND_ENGINE_DESCRIPTOR)?;
    engine.set_descriptors(attribute::ENGINE_OPERATION_GRAPH, &[graph])?;
    engine.set_int64s(attribute::ENGINE_GLOBAL_INDEX, &[record.id])?;
    engine.finalize()?;
    let knobs = record.knobs.iter().map(|knob| knob_choice(handle, knob)).collect::<Result<Vec<_>, _>>()?;
    let configuration = Descriptor::new(handle.library(), descriptor_type::BACKEND_ENGINECFG_DESCRIPTOR)?;
    configuration.set_descriptors(attribute::ENGINECFG_ENGINE, &[&engine])?;
    if !knobs.is_empty() {
        configuration.set_descriptors(attribute::ENGINECFG_KNOB_CHOICES, &knobs.iter().collect::<Vec<_>>())?;
    }
    Ok(configuration)
}

fn knob_choice(handle: &Handle, knob: &Knob) -> Result<Descriptor, BackendError> {
    let choice = Descriptor::new(handle.library(), descriptor_type::BACKEND_KNOB_CHOICE_DESCRIPTOR)?;
    choice.set_bytes(attribute::KNOB_CHOICE_KNOB_TYPE, knob.id.as_bytes())?;
    choice.set_int64s(attribute::KNOB_CHOICE_KNOB_VALUE, &[knob.value])?;
    choice.finalize()?;
    Ok(choice)
}

/// The plan that the bytes hold, if the backend takes them and they are about this graph's tensors.
fn from_bytes(bytes: &[u8], graph: &ValidatedGraph, handle: &Handle) -> Option<Descriptor> {
    let plan = Descriptor::deserialized_plan(handle, bytes)?;
    let uids = plan.int64s(attribute::EXECUTION_PLAN_TENSOR_UIDS_EXT).ok()?;
    graph.bindings().iter().all(|binding| uids.contains(&binding.uid)).then_some(plan)
}

/// Asks the heuristic, and finalizes the configurations that it answers (it leaves that to its caller).
fn configurations(graph: &Descriptor, handle: &Handle) -> Result<Vec<Descriptor>, PlanError> {
    let heuristic = Descriptor::new(handle.library(), descriptor_type::BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    heuristic.set_descriptors(attribute::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    heuristic.set_enumeration(attribute::ENGINEHEUR_MODE, attribute_type::HEUR_MODE, heuristic_mode::FALLBACK)?;
    heuristic.finalize()?;
    let count = heuristic.count(attribute::ENGINEHEUR_RESULTS, attribute_type::BACKEND_DESCRIPTOR)?.min(MAX_ENGINES);
    if count == 0 {
        return Err(PlanError::NoEngine(None));
    }
    let mut configurations = (0..count)
        .map(|_| Descriptor::new(handle.library(), descriptor_type::BACKEND_ENGINECFG_DESCRIPTOR))
        .collect::<Result<Vec<_>, _>>()?;
    let filled = heuristic.fill(attribute::ENGINEHEUR_RESULTS, &configurations)?;
    configurations.truncate(filled);
    Ok(configurations)
}

/// The first configuration whose plan can be finalized. If none can: unsupported if all say so, else the first real failure.
fn first_plan(configurations: Vec<Descriptor>, handle: &Handle) -> Result<(Descriptor, Descriptor), PlanError> {
    let mut refusal = None;
    let mut failure = None;
    for configuration in configurations {
        match finalize_plan(&configuration, handle) {
            Ok(plan) => return Ok((plan, configuration)),
            Err(error) if error.is_unsupported() => refusal = refusal.or(Some(error)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.map_or(PlanError::NoEngine(refusal), PlanError::Failed))
}

fn finalize_plan(configuration: &Descriptor, handle: &Handle) -> Result<Descriptor, BackendError> {
    configuration.finalize()?;
    let plan = Descriptor::new(handle.library(), descriptor_type::BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
    plan.set_descriptors(attribute::EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?;
    plan.finalize()?;
    Ok(plan)
}
