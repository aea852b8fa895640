//! The same convolution by a program that calls hipDNN itself, on the backend under test: what of a call is that backend's rules of the ABI,
//! and what is the shim. The backend's functions are those that this program is linked with, the same code as in the library.

use std::{ffi::c_void, ptr::null_mut};

use anyhow::{Result, ensure};
use field_cases::problem::{Problem, Tensor};
use hipdnn_abi::{attribute as a, attribute_type as t, convolution_mode, data_type, descriptor_type as k};
use hipdnn_backend::abi::*;
use hipdnn_on_cudnn::cuda::{Cuda, Memory};

/// Unique ids of x, w and y.
const UIDS: [i64; 3] = [1, 2, 3];

/// A plan with its handle and its workspace.
pub struct HipDnn {
    // Before the handle, which it refers to.
    plan: Descriptor,
    workspace: Memory,
    handle: Handle,
}

struct Handle(*mut c_void);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by this library; any number is safe.
        unsafe { hipdnnDestroy(self.0) };
    }
}

/// A descriptor.
pub struct Descriptor(*mut c_void);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by this library; any number is safe.
        unsafe { hipdnnBackendDestroyDescriptor(self.0) };
    }
}

fn check(call: &str, status: i32) -> Result<()> {
    ensure!(status == 0, "{call} returned {status}");
    Ok(())
}

impl Descriptor {
    fn new(kind: i32) -> Result<Self> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        check("hipdnnBackendCreateDescriptor", unsafe { hipdnnBackendCreateDescriptor(kind, &mut raw) })?;
        Ok(Self(raw))
    }

    /// Elements of the layout of the wire type.
    fn set<T>(&self, number: i32, wire: i32, values: &[T]) -> Result<()> {
        // SAFETY: as many elements as said.
        let status = unsafe { hipdnnBackendSetAttribute(self.0, number, wire, values.len() as i64, values.as_ptr().cast()) };
        check("hipdnnBackendSetAttribute", status)
    }

    fn children(&self, number: i32, children: &[&Descriptor]) -> Result<()> {
        self.set(number, t::BACKEND_DESCRIPTOR, &children.iter().map(|child| child.0).collect::<Vec<_>>())
    }

    fn finalized(self) -> Result<Self> {
        // SAFETY: any number is safe.
        check("hipdnnBackendFinalize", unsafe { hipdnnBackendFinalize(self.0) })?;
        Ok(self)
    }
}

impl HipDnn {
    /// The plan of the first engine.
    pub fn new(cuda: &'static Cuda, stream: *mut c_void, problem: &Problem) -> Result<Self> {
        hipdnn_on_cudnn::compute_with_cudnn();
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        check("hipdnnCreate", unsafe { hipdnnCreate(&mut raw) })?;
        let handle = Handle(raw);
        // SAFETY: the stream is live.
        check("hipdnnSetStream", unsafe { hipdnnSetStream(handle.0, stream) })?;
        let configuration = configuration(&graph(&handle, problem)?)?;
        let plan = Descriptor::new(k::BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.children(a::EXECUTION_PLAN_ENGINE_CONFIG, &[&configuration])?;
        let plan = plan.finalized()?;
        let (mut bytes, mut count) = (0i64, 0i64);
        // SAFETY: both numbers are writable.
        let status = unsafe {
            let bytes = std::ptr::from_mut(&mut bytes).cast();
            hipdnnBackendGetAttribute(plan.0, a::EXECUTION_PLAN_WORKSPACE_SIZE, t::INT64, 1, &mut count, bytes)
        };
        check("hipdnnBackendGetAttribute", status)?;
        Ok(Self { plan, workspace: cuda.allocate(usize::try_from(bytes)?)?, handle })
    }

    /// A variant pack for x, w and y.
    pub fn pack(&self, addresses: &[*mut c_void; 3]) -> Result<Descriptor> {
        let pack = Descriptor::new(k::BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(a::VARIANT_PACK_UNIQUE_IDS, t::INT64, &UIDS)?;
        pack.set(a::VARIANT_PACK_DATA_POINTERS, t::VOID_PTR, addresses)?;
        pack.set(a::VARIANT_PACK_WORKSPACE, t::VOID_PTR, &[self.workspace.address()])?;
        pack.finalized()
    }

    /// Queues the convolution, with a pack that was made before.
    ///
    /// # Safety
    /// The pack's addresses are memory of the problem's tensors.
    pub unsafe fn execute(&self, pack: &Descriptor) -> Result<()> {
        // SAFETY: by the contract of this function.
        check("hipdnnBackendExecute", unsafe { hipdnnBackendExecute(self.handle.0, self.plan.0, pack.0) })
    }
}

fn graph(handle: &Handle, problem: &Problem) -> Result<Descriptor> {
    let [x, w, y] = problem.tensors();
    let tensors = [tensor(UIDS[0], x)?, tensor(UIDS[1], w)?, tensor(UIDS[2], y)?];
    let operation = Descriptor::new(k::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?;
    let numbers = [a::OPERATION_CONVOLUTION_FORWARD_X, a::OPERATION_CONVOLUTION_FORWARD_W, a::OPERATION_CONVOLUTION_FORWARD_Y];
    for (number, tensor) in numbers.into_iter().zip(&tensors) {
        operation.children(number, &[tensor])?;
    }
    operation.set(a::CONVOLUTION_COMP_TYPE, t::DATA_TYPE, &[data_type::FLOAT])?;
    operation.set(a::CONVOLUTION_CONV_MODE, t::CONVOLUTION_MODE, &[convolution_mode::CROSS_CORRELATION])?;
    for (number, list) in [
        (a::CONVOLUTION_PRE_PADDINGS, &problem.pads),
        (a::CONVOLUTION_POST_PADDINGS, &problem.pads),
        (a::CONVOLUTION_FILTER_STRIDES, &problem.strides),
        (a::CONVOLUTION_DILATIONS, &problem.dilations),
    ] {
        operation.set(number, t::INT64, &long(list))?;
    }
    let operation = operation.finalized()?;
    let graph = Descriptor::new(k::BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
    graph.set(a::OPERATIONGRAPH_HANDLE, t::HANDLE, &[handle.0])?;
    graph.children(a::OPERATIONGRAPH_OPS, &[&operation])?;
    graph.finalized()
}

fn tensor(uid: i64, tensor: &Tensor) -> Result<Descriptor> {
    let descriptor = Descriptor::new(k::BACKEND_TENSOR_DESCRIPTOR)?;
    descriptor.set(a::TENSOR_UNIQUE_ID, t::INT64, &[uid])?;
    descriptor.set(a::TENSOR_DATA_TYPE, t::DATA_TYPE, &[data_type::FLOAT])?;
    descriptor.set(a::TENSOR_DIMENSIONS, t::INT64, &long(&tensor.dims))?;
    descriptor.set(a::TENSOR_STRIDES, t::INT64, &long(&tensor.strides))?;
    descriptor.finalized()
}

fn configuration(graph: &Descriptor) -> Result<Descriptor> {
    let heuristic = Descriptor::new(k::BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    heuristic.children(a::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    heuristic.set(a::ENGINEHEUR_MODE, t::HEUR_MODE, &[0i32])?;
    let heuristic = heuristic.finalized()?;
    let configuration = Descriptor::new(k::BACKEND_ENGINECFG_DESCRIPTOR)?;
    let (mut raw, mut count) = ([configuration.0], 0i64);
    // SAFETY: the array has room for one, the count is writable.
    let status = unsafe {
        let raw = raw.as_mut_ptr().cast();
        hipdnnBackendGetAttribute(heuristic.0, a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR, 1, &mut count, raw)
    };
    check("hipdnnBackendGetAttribute", status)?;
    ensure!(count == 1, "no engine");
    configuration.finalized()
}

fn long(list: &[usize]) -> Vec<i64> {
    list.iter().map(|&value| value as i64).collect()
}
