//! The least that a program does that calls hipDNN itself: a graph of one convolution, the first engine's plan, and for each call a variant
//! pack that is made, filled, finalized, executed and destroyed.

use std::ffi::c_void;

use anyhow::Result;
use field_cases::{
    edge::{Hip, Memory},
    problem::{Problem, Tensor},
};
use hipdnn_abi::{attribute as a, attribute_type as t, convolution_mode, data_type, descriptor_type as k};
use hipdnn_host::backend::{Descriptor, Handle, Library};

/// A plan, its handle, and where its tensors are.
pub struct Direct {
    // Before the handle, which it refers to.
    plan: Descriptor,
    pack: Descriptor,
    handle: Handle,
    addresses: [*mut c_void; 3],
    workspace: Memory,
}

/// Of x, w and y.
const UIDS: [i64; 3] = [1, 2, 3];

impl Direct {
    /// Builds the plan.
    pub fn new(library: &'static Library, hip: &'static Hip, problem: &Problem, addresses: [*mut c_void; 3]) -> Result<Self> {
        let handle = Handle::new(library)?;
        let [x, w, y] = problem.tensors();
        let tensors = [tensor(library, UIDS[0], x)?, tensor(library, UIDS[1], w)?, tensor(library, UIDS[2], y)?];
        let long = |list: &[usize]| list.iter().map(|&value| value as i64).collect::<Vec<_>>();
        let operation = Descriptor::new(library, k::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?;
        let numbers = [a::OPERATION_CONVOLUTION_FORWARD_X, a::OPERATION_CONVOLUTION_FORWARD_W, a::OPERATION_CONVOLUTION_FORWARD_Y];
        for (number, tensor) in numbers.into_iter().zip(&tensors) {
            operation.set_descriptors(number, &[tensor])?;
        }
        operation.set_data_type(a::CONVOLUTION_COMP_TYPE, data_type::FLOAT)?;
        operation.set_enumeration(a::CONVOLUTION_CONV_MODE, t::CONVOLUTION_MODE, convolution_mode::CROSS_CORRELATION)?;
        for number in [a::CONVOLUTION_PRE_PADDINGS, a::CONVOLUTION_POST_PADDINGS] {
            operation.set_int64s(number, &long(&problem.pads))?;
        }
        operation.set_int64s(a::CONVOLUTION_FILTER_STRIDES, &long(&problem.strides))?;
        operation.set_int64s(a::CONVOLUTION_DILATIONS, &long(&problem.dilations))?;
        operation.finalize()?;
        let graph = Descriptor::new(library, k::BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.set_handle(a::OPERATIONGRAPH_HANDLE, &handle)?;
        graph.set_descriptors(a::OPERATIONGRAPH_OPS, &[&operation])?;
        graph.finalize()?;
        let heuristic = Descriptor::new(library, k::BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        heuristic.set_descriptors(a::ENGINEHEUR_OPERATION_GRAPH, &[&graph])?;
        heuristic.set_enumeration(a::ENGINEHEUR_MODE, t::HEUR_MODE, 0)?;
        heuristic.finalize()?;
        let configurations = [Descriptor::new(library, k::BACKEND_ENGINECFG_DESCRIPTOR)?];
        heuristic.fill(a::ENGINEHEUR_RESULTS, &configurations)?;
        configurations[0].finalize()?;
        let plan = Descriptor::new(library, k::BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.set_descriptors(a::EXECUTION_PLAN_ENGINE_CONFIG, &[&configurations[0]])?;
        plan.finalize()?;
        let workspace = hip.allocate(usize::try_from(plan.int64(a::EXECUTION_PLAN_WORKSPACE_SIZE)?)?)?;
        let pack = pack(library, addresses, workspace.at(0))?;
        Ok(Self { plan, pack, handle, addresses, workspace })
    }

    /// A call with a pack of its own.
    pub fn call(&self) -> Result<()> {
        let pack = pack(self.handle.library(), self.addresses, self.workspace.at(0))?;
        Ok(self.handle.execute(&self.plan, &pack)?)
    }

    /// Only the execution, with a pack that was made before.
    pub fn execute(&self) -> Result<()> {
        Ok(self.handle.execute(&self.plan, &self.pack)?)
    }
}

fn tensor(library: &'static Library, uid: i64, tensor: &Tensor) -> Result<Descriptor> {
    let long = |list: &[usize]| list.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let descriptor = Descriptor::new(library, k::BACKEND_TENSOR_DESCRIPTOR)?;
    descriptor.set_int64s(a::TENSOR_UNIQUE_ID, &[uid])?;
    descriptor.set_data_type(a::TENSOR_DATA_TYPE, data_type::FLOAT)?;
    descriptor.set_int64s(a::TENSOR_DIMENSIONS, &long(&tensor.dims))?;
    descriptor.set_int64s(a::TENSOR_STRIDES, &long(&tensor.strides))?;
    descriptor.finalize()?;
    Ok(descriptor)
}

fn pack(library: &'static Library, addresses: [*mut c_void; 3], workspace: *mut c_void) -> Result<Descriptor> {
    let pack = Descriptor::new(library, k::BACKEND_VARIANT_PACK_DESCRIPTOR)?;
    pack.set_int64s(a::VARIANT_PACK_UNIQUE_IDS, &UIDS)?;
    pack.set_pointers(a::VARIANT_PACK_DATA_POINTERS, &addresses)?;
    pack.set_pointers(a::VARIANT_PACK_WORKSPACE, &[workspace])?;
    pack.finalize()?;
    Ok(pack)
}
