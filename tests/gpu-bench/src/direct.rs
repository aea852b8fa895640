//! The least that a program does that calls cuDNN itself: one convolution's graph, the plan of the first engine that keeps floats floats, and
//! a variant pack for each call. What is shared with the backend under test are the owners of descriptors, nothing else.

use std::ffi::c_void;

use anyhow::{Context as _, Result};
use field_cases::problem::{Kind, Problem, Tensor};
use hipdnn_on_cudnn::{
    cuda::{Cuda, Memory},
    cudnn::{
        CudnnError, Descriptor, Handle, Library,
        numbers::{attribute, heuristic, kind, numerical, wire},
    },
};

/// Unique ids of x, w and y.
const UIDS: [i64; 3] = [1, 2, 3];
/// Attributes of a forward convolution: its parameters, x, w, y, alpha, beta.
const FORWARD: [i32; 6] = [702, 704, 703, 705, 700, 701];
/// The most proposals that are looked at.
const MOST: usize = 128;

/// A plan and its workspace.
pub struct Direct {
    plan: Descriptor,
    workspace: Memory,
}

impl Direct {
    /// Asks cuDNN for engines and makes the plan of the first that can have one.
    pub fn build(cuda: &'static Cuda, handle: &Handle, problem: &Problem) -> Result<Self> {
        let graph = graph(handle, problem)?;
        let exact = problem.x.kind == Kind::Float;
        for mode in [heuristic::A, heuristic::FALLBACK] {
            for configuration in proposals(handle.library(), &graph, mode)? {
                if keeps_precision(&configuration, exact)?
                    && let Ok(plan) = plan(handle, |plan| plan.set_descriptors(attribute::EXECUTION_PLAN_ENGINE_CONFIG, &[&configuration]))
                {
                    return Self::with_workspace(cuda, plan);
                }
            }
        }
        anyhow::bail!("cuDNN has no engine for {problem:?}")
    }

    /// From what [`Direct::saved`] gave.
    pub fn load(cuda: &'static Cuda, handle: &Handle, saved: &str) -> Result<Self> {
        let plan = plan(handle, |plan| plan.set_text(attribute::EXECUTION_PLAN_JSON_REPRESENTATION, saved))?;
        Self::with_workspace(cuda, plan)
    }

    fn with_workspace(cuda: &'static Cuda, plan: Descriptor) -> Result<Self> {
        let bytes = usize::try_from(plan.int64(attribute::EXECUTION_PLAN_WORKSPACE_SIZE)?)?;
        Ok(Self { plan, workspace: cuda.allocate(bytes)? })
    }

    /// The plan as JSON.
    pub fn saved(&self) -> Result<String> {
        Ok(self.plan.text(attribute::EXECUTION_PLAN_JSON_REPRESENTATION)?)
    }

    /// A variant pack for x, w and y.
    pub fn pack(&self, handle: &Handle, addresses: &[*mut c_void; 3]) -> Result<Descriptor> {
        Ok(Descriptor::pack(handle.library(), &UIDS, addresses, self.workspace.address())?)
    }

    /// Queues the convolution, with a pack that was made before.
    ///
    /// # Safety
    /// The pack's addresses are memory of the problem's tensors.
    pub unsafe fn execute(&self, handle: &Handle, pack: &Descriptor) -> Result<()> {
        // SAFETY: the handle is live and was the plan's; the workspace is the plan's.
        Ok(unsafe { self.plan.execute(handle.number(), pack) }?)
    }
}

fn plan(handle: &Handle, describe: impl FnOnce(&Descriptor) -> Result<(), CudnnError>) -> Result<Descriptor, CudnnError> {
    let plan = Descriptor::new(handle.library(), kind::EXECUTION_PLAN)?;
    plan.set_handle(attribute::EXECUTION_PLAN_HANDLE, handle)?;
    describe(&plan)?;
    plan.finalize()?;
    Ok(plan)
}

fn proposals(library: &'static Library, graph: &Descriptor, mode: i32) -> Result<Vec<Descriptor>> {
    let heuristic = Descriptor::new(library, kind::ENGINEHEUR)?;
    heuristic.set_descriptors(attribute::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    heuristic.set_enumeration(attribute::ENGINEHEUR_MODE, wire::HEUR_MODE, mode)?;
    heuristic.finalize()?;
    Ok(heuristic.descriptors(attribute::ENGINEHEUR_RESULTS, kind::ENGINECFG, MOST)?)
}

fn keeps_precision(configuration: &Descriptor, exact: bool) -> Result<bool> {
    let engines = configuration.descriptors_unasked(attribute::ENGINECFG_ENGINE, kind::ENGINE, 1)?;
    let notes = engines.first().context("an engine")?.enumerations(attribute::ENGINE_NUMERICAL_NOTE, wire::NUMERICAL_NOTE)?;
    let reduces = |note: &i32| match *note {
        numerical::TENSOR_CORE => exact,
        numerical::DOWN_CONVERT_INPUTS | numerical::REDUCED_PRECISION_REDUCTION => true,
        _ => false,
    };
    Ok(!notes.iter().any(reduces))
}

fn graph(handle: &Handle, problem: &Problem) -> Result<Descriptor> {
    let library = handle.library();
    let [x, w, y] = problem.tensors();
    let tensors = [tensor(library, UIDS[0], x)?, tensor(library, UIDS[1], w)?, tensor(library, UIDS[2], y)?];
    let long = |list: &[usize]| list.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let parameters = Descriptor::new(library, kind::CONVOLUTION)?;
    parameters.set_enumeration(attribute::CONVOLUTION_COMP_TYPE, wire::DATA_TYPE, 0)?;
    parameters.set_enumeration(attribute::CONVOLUTION_CONV_MODE, wire::CONVOLUTION_MODE, 1)?;
    parameters.set_int64s(attribute::CONVOLUTION_SPATIAL_DIMS, &[problem.pads.len() as i64])?;
    parameters.set_int64s(attribute::CONVOLUTION_PRE_PADDINGS, &long(&problem.pads))?;
    parameters.set_int64s(attribute::CONVOLUTION_POST_PADDINGS, &long(&problem.pads))?;
    parameters.set_int64s(attribute::CONVOLUTION_FILTER_STRIDES, &long(&problem.strides))?;
    parameters.set_int64s(attribute::CONVOLUTION_DILATIONS, &long(&problem.dilations))?;
    parameters.finalize()?;
    let operation = Descriptor::new(library, kind::OPERATION_CONVOLUTION_FORWARD)?;
    for (number, child) in FORWARD.into_iter().zip([&parameters].into_iter().chain(&tensors)) {
        operation.set_descriptors(number, &[child])?;
    }
    operation.set_float(FORWARD[4], 1.0)?;
    operation.set_float(FORWARD[5], 0.0)?;
    operation.finalize()?;
    let graph = Descriptor::new(library, kind::OPERATIONGRAPH)?;
    graph.set_handle(attribute::OPERATIONGRAPH_HANDLE, handle)?;
    graph.set_descriptors(attribute::OPERATIONGRAPH_OPS, &[&operation])?;
    graph.finalize()?;
    Ok(graph)
}

fn tensor(library: &'static Library, uid: i64, tensor: &Tensor) -> Result<Descriptor> {
    let long = |list: &[usize]| list.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let data_type = match tensor.kind {
        Kind::Float => 0,
        Kind::Half => 2,
        other => anyhow::bail!("{other:?} is not measured"),
    };
    let descriptor = Descriptor::new(library, kind::TENSOR)?;
    descriptor.set_int64s(attribute::TENSOR_UNIQUE_ID, &[uid])?;
    descriptor.set_enumeration(attribute::TENSOR_DATA_TYPE, wire::DATA_TYPE, data_type)?;
    descriptor.set_int64s(attribute::TENSOR_DIMENSIONS, &long(&tensor.dims))?;
    descriptor.set_int64s(attribute::TENSOR_STRIDES, &long(&tensor.strides))?;
    descriptor.set_int64s(attribute::TENSOR_BYTE_ALIGNMENT, &[16])?;
    descriptor.finalize()?;
    Ok(descriptor)
}
