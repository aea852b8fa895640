//! Execution plans: heuristics → engine configuration → plan, and the variant packs that execute them.

use std::{
    ffi::c_void,
    ptr::null_mut,
    time::{Duration, Instant},
};

use hipdnn_abi::{attribute, attribute_type, behavior_note, descriptor_type, heuristic_mode};
use thiserror::Error;

use crate::{
    backend::{BackendError, Descriptor, Handle},
    lower::lower,
    problem::MAX_ARGUMENTS,
    validate::ValidatedGraph,
};

/// The most engines that are tried for one graph.
const MAX_ENGINES: usize = 32;
/// Variant packs kept for one plan. Callers alternate between few sets of buffers.
const PACKS: usize = 4;

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
    Failed(#[from] BackendError),
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
    packs: [Option<Pack>; PACKS],
    next_pack: usize,
    // Last: engine and plan refer to the graph.
    _graph: Descriptor,
}

struct Pack {
    pointers: [*mut c_void; MAX_ARGUMENTS],
    workspace: *mut c_void,
    descriptor: Descriptor,
}

// SAFETY: the addresses are only compared; the descriptor is Send.
unsafe impl Send for Pack {}

impl Plan {
    /// Builds a plan for the graph: the first engine, in the heuristic's order, whose plan can be finalized.
    pub fn build(graph: &ValidatedGraph, handle: &Handle, alignment: usize) -> Result<(Self, BuildTimes), PlanError> {
        let start = Instant::now();
        let lowered = lower(graph, handle, alignment).map_err(|error| classify(error, alignment))?;
        let lowered_at = Instant::now();
        let configurations = configurations(&lowered, handle)?;
        let found_at = Instant::now();
        let (plan, configuration) = first_plan(configurations, handle)?;
        let times = BuildTimes { lower: lowered_at - start, heuristics: found_at - lowered_at, plan: found_at.elapsed() };
        Ok((Self::assemble(graph, handle, lowered, plan, &configuration)?, times))
    }

    fn assemble(
        graph: &ValidatedGraph,
        handle: &Handle,
        lowered: Descriptor,
        plan: Descriptor,
        configuration: &Descriptor,
    ) -> Result<Self, PlanError> {
        let engine = configuration.descriptor(attribute::ENGINECFG_ENGINE, descriptor_type::BACKEND_ENGINE_DESCRIPTOR)?;
        let id = engine.int64(attribute::ENGINE_GLOBAL_INDEX)?;
        // Older backends cannot tell; then nothing is assumed.
        let notes = engine.enumerations(attribute::ENGINE_BEHAVIOR_NOTE, attribute_type::BEHAVIOR_NOTE).unwrap_or_default();
        let workspace = plan.int64(attribute::EXECUTION_PLAN_WORKSPACE_SIZE)?;
        Ok(Self {
            plan,
            uids: graph.bindings().iter().map(|b| b.uid).collect(),
            arguments: graph.bindings().iter().map(|b| b.argument).collect(),
            workspace: usize::try_from(workspace).unwrap_or(0),
            captures: notes.contains(&behavior_note::SUPPORTS_GRAPH_CAPTURE),
            engine: id,
            engine_name: handle.engine_name(id),
            packs: [const { None }; PACKS],
            next_pack: 0,
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
    pub fn pack(
        &mut self,
        handle: &Handle,
        pointers: &[*mut c_void; MAX_ARGUMENTS],
        workspace: *mut c_void,
    ) -> Result<usize, BackendError> {
        let same = |pack: &Pack| pack.pointers == *pointers && pack.workspace == workspace;
        if let Some(slot) = self.packs.iter().position(|pack| pack.as_ref().is_some_and(same)) {
            return Ok(slot);
        }
        let descriptor = self.new_pack(handle, pointers, workspace)?;
        let slot = self.next_pack;
        self.packs[slot] = Some(Pack { pointers: *pointers, workspace, descriptor });
        self.next_pack = (slot + 1) % PACKS;
        Ok(slot)
    }

    fn new_pack(
        &self,
        handle: &Handle,
        pointers: &[*mut c_void; MAX_ARGUMENTS],
        workspace: *mut c_void,
    ) -> Result<Descriptor, BackendError> {
        let pack = Descriptor::new(handle.library(), descriptor_type::BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        let mut data = [null_mut(); crate::validate::MAX_ITEMS];
        for (slot, &argument) in data.iter_mut().zip(&self.arguments) {
            *slot = pointers.get(argument as usize).copied().unwrap_or(null_mut());
        }
        pack.set_int64s(attribute::VARIANT_PACK_UNIQUE_IDS, &self.uids)?;
        pack.set_pointers(attribute::VARIANT_PACK_DATA_POINTERS, &data[..self.uids.len()])?;
        if !workspace.is_null() {
            pack.set_pointers(attribute::VARIANT_PACK_WORKSPACE, &[workspace])?;
        }
        pack.finalize()?;
        Ok(pack)
    }

    /// Executes with the pack in `slot`, which [`Plan::pack`] answered.
    pub fn execute(&self, handle: &Handle, slot: usize) -> Result<(), BackendError> {
        match &self.packs[slot] {
            Some(pack) => handle.execute(&self.plan, &pack.descriptor),
            None => Ok(()),
        }
    }
}

/// Refusals while lowering: of the alignment, of the graph, or a failure.
fn classify(error: BackendError, alignment: usize) -> PlanError {
    if error.subject.contains("BYTE_ALIGNMENT") {
        PlanError::Alignment(alignment, error)
    } else if error.is_unsupported() {
        PlanError::NoEngine(Some(error))
    } else {
        PlanError::Failed(error)
    }
}

/// Asks the heuristic, and finalizes the configurations that it answers (it leaves that to its caller).
fn configurations(graph: &Descriptor, handle: &Handle) -> Result<Vec<Descriptor>, PlanError> {
    let unsupported =
        |error: BackendError| if error.is_unsupported() { PlanError::NoEngine(Some(error)) } else { PlanError::Failed(error) };
    let heuristic = Descriptor::new(handle.library(), descriptor_type::BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    heuristic.set_descriptors(attribute::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    heuristic.set_enumeration(attribute::ENGINEHEUR_MODE, attribute_type::HEUR_MODE, heuristic_mode::FALLBACK)?;
    heuristic.finalize().map_err(unsupported)?;
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
