//! What the tests share: the C ABI with a little comfort, and graphs to try it on. Statuses are passed through as numbers, because most
//! tests are about them.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod fused;
pub mod numbers;

use std::{
    ffi::{c_char, c_void},
    ptr::{null, null_mut},
};

use hipdnn_abi::{attribute as a, attribute_type as t, convolution_mode, data_type, descriptor_type as k, pointwise_mode as p, status};
use hipdnn_backend::abi::*;

pub const OK: i32 = status::SUCCESS;
pub const NOT_INITIALIZED: i32 = status::NOT_INITIALIZED;
pub const BAD: i32 = status::BAD_PARAM;
pub const NULL: i32 = status::BAD_PARAM_NULL_POINTER;
pub const NOT_FINALIZED: i32 = status::BAD_PARAM_NOT_FINALIZED;
pub const SMALL: i32 = status::BAD_PARAM_SIZE_INSUFFICIENT;
pub const UNSUPPORTED: i32 = status::NOT_SUPPORTED;

/// An address that a tensor could have, for packs that are never executed successfully.
pub fn somewhere() -> *mut c_void {
    std::ptr::without_provenance_mut(0x10_0000)
}

/// A hipDNN handle.
pub struct Handle(pub *mut c_void);

impl Handle {
    pub fn new() -> Self {
        let mut raw = null_mut();
        // SAFETY: the output is a local.
        assert_eq!(unsafe { hipdnnCreate(&mut raw) }, OK, "{}", last_error());
        Self(raw)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: any number is safe.
        unsafe { hipdnnDestroy(self.0) };
    }
}

/// A descriptor handle.
pub struct D(pub *mut c_void);

impl Drop for D {
    fn drop(&mut self) {
        // SAFETY: any number is safe.
        unsafe { hipdnnBackendDestroyDescriptor(self.0) };
    }
}

impl D {
    pub fn new(kind: i32) -> Self {
        Self::try_new(kind).unwrap_or_else(|status| panic!("create {kind}: {status}: {}", last_error()))
    }

    pub fn try_new(kind: i32) -> Result<Self, i32> {
        let mut raw = null_mut();
        // SAFETY: the output is a local.
        match unsafe { hipdnnBackendCreateDescriptor(kind, &mut raw) } {
            OK => Ok(Self(raw)),
            status => Err(status),
        }
    }

    pub fn set<T>(&self, number: i32, wire: i32, values: &[T]) -> i32 {
        self.set_raw(number, wire, values.len() as i64, values.as_ptr().cast())
    }

    pub fn set_raw(&self, number: i32, wire: i32, count: i64, data: *const c_void) -> i32 {
        // SAFETY: tests pass arrays of as many elements, or something that must be refused before it is read.
        unsafe { hipdnnBackendSetAttribute(self.0, number, wire, count, data) }
    }

    pub fn int64s(&self, number: i32, values: &[i64]) -> i32 {
        self.set(number, t::INT64, values)
    }

    pub fn data_type(&self, number: i32, value: i32) -> i32 {
        self.set(number, t::DATA_TYPE, &[value])
    }

    pub fn text(&self, number: i32, text: &str) -> i32 {
        self.set(number, t::CHAR, text.as_bytes())
    }

    pub fn flag(&self, number: i32, value: bool) -> i32 {
        self.set(number, t::BOOLEAN, &[u8::from(value)])
    }

    pub fn child(&self, number: i32, child: &D) -> i32 {
        self.set(number, t::BACKEND_DESCRIPTOR, &[child.0])
    }

    pub fn finalize(&self) -> i32 {
        // SAFETY: any number is safe.
        unsafe { hipdnnBackendFinalize(self.0) }
    }

    pub fn finalized(self) -> Self {
        assert_eq!(self.finalize(), OK, "{}", last_error());
        self
    }

    /// Status, reported count, elements.
    pub fn get<T: Copy + Default>(&self, number: i32, wire: i32, room: usize) -> (i32, i64, Vec<T>) {
        let mut values = vec![T::default(); room];
        let mut count = -1;
        let status = self.get_raw(number, wire, room as i64, &mut count, values.as_mut_ptr().cast());
        (status, count, values)
    }

    pub fn get_raw(&self, number: i32, wire: i32, requested: i64, count: *mut i64, array: *mut c_void) -> i32 {
        // SAFETY: tests pass arrays with room, or something that must be refused.
        unsafe { hipdnnBackendGetAttribute(self.0, number, wire, requested, count, array) }
    }

    /// Status and count of a query.
    pub fn count(&self, number: i32, wire: i32) -> (i32, i64) {
        let mut count = -1;
        let status = self.get_raw(number, wire, 0, &mut count, null_mut());
        (status, count)
    }

    pub fn get_int64(&self, number: i32) -> i64 {
        let (status, count, values) = self.get::<i64>(number, t::INT64, 1);
        assert_eq!((status, count), (OK, 1), "{}", last_error());
        values[0]
    }
}

pub fn last_error() -> String {
    let mut buffer = [0u8; 2048];
    // SAFETY: the buffer is a local of that size.
    unsafe { hipdnnPeekLastErrorString_ext(buffer.as_mut_ptr().cast::<c_char>(), buffer.len()) };
    String::from_utf8_lossy(buffer.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// A finalized tensor.
pub fn tensor(uid: i64, data_type: i32, dims: &[i64], strides: &[i64]) -> D {
    unfinalized_tensor(uid, data_type, dims, strides).finalized()
}

pub fn unfinalized_tensor(uid: i64, data_type: i32, dims: &[i64], strides: &[i64]) -> D {
    let tensor = D::new(k::BACKEND_TENSOR_DESCRIPTOR);
    assert_eq!(tensor.int64s(a::TENSOR_UNIQUE_ID, &[uid]), OK);
    assert_eq!(tensor.data_type(a::TENSOR_DATA_TYPE, data_type), OK);
    assert_eq!(tensor.int64s(a::TENSOR_DIMENSIONS, dims), OK);
    assert_eq!(tensor.int64s(a::TENSOR_STRIDES, strides), OK);
    tensor
}

/// Strides in the order of the dimensions.
pub fn packed(dims: &[i64]) -> Vec<i64> {
    (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect()
}

/// Which of a convolution's tensors is computed from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Data,
    Filter,
}

pub const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::Data, Direction::Filter];

impl Direction {
    fn kind(self) -> i32 {
        match self {
            Self::Forward => k::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            Self::Data => k::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            Self::Filter => k::BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        }
    }

    /// Of the result among x, w and y.
    pub fn place(self) -> usize {
        [2, 0, 1][self as usize]
    }

    /// The attributes for x, w and y.
    fn tensors(self) -> [i32; 3] {
        match self {
            Self::Forward => [a::OPERATION_CONVOLUTION_FORWARD_X, a::OPERATION_CONVOLUTION_FORWARD_W, a::OPERATION_CONVOLUTION_FORWARD_Y],
            Self::Data => [a::OPERATION_CONVOLUTION_BWD_DATA_DX, a::OPERATION_CONVOLUTION_BWD_DATA_W, a::OPERATION_CONVOLUTION_BWD_DATA_DY],
            Self::Filter => {
                [a::OPERATION_CONVOLUTION_BWD_FILTER_X, a::OPERATION_CONVOLUTION_BWD_FILTER_DW, a::OPERATION_CONVOLUTION_BWD_FILTER_DY]
            }
        }
    }
}

/// A convolution as the ABI sees it. Tensors keep the names of the forward direction.
#[derive(Clone, Debug)]
pub struct Convolution {
    pub direction: Direction,
    pub x: (i32, Vec<i64>, Vec<i64>),
    pub w: (i32, Vec<i64>, Vec<i64>),
    pub y: (i32, Vec<i64>, Vec<i64>),
    pub pre: Vec<i64>,
    pub post: Vec<i64>,
    pub stride: Vec<i64>,
    pub dilation: Vec<i64>,
    pub mode: i32,
    pub compute: i32,
    /// Of all tensors.
    pub alignment: i64,
}

impl Convolution {
    /// 2 × 3 × 5 × 6, four filters of 3 × 3, padding 1.
    pub fn small() -> Self {
        Self::new(&[2, 3, 5, 6], &[4, 3, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])
    }

    /// Everything packed and FLOAT; parameters are pre and post paddings, strides, dilations. The output size follows.
    pub fn new(x: &[i64], w: &[i64], [pre, post, stride, dilation]: [&[i64]; 4]) -> Self {
        let spatial = |i: usize| (x[i + 2] + pre[i] + post[i] - dilation[i] * (w[i + 2] - 1) - 1) / stride[i] + 1;
        let y: Vec<i64> = [x[0], w[0]].into_iter().chain((0..pre.len()).map(spatial)).collect();
        let plain = |dims: &[i64]| (data_type::FLOAT, dims.to_vec(), packed(dims));
        Self {
            direction: Direction::Forward,
            x: plain(x),
            w: plain(w),
            y: plain(&y),
            pre: pre.to_vec(),
            post: post.to_vec(),
            stride: stride.to_vec(),
            dilation: dilation.to_vec(),
            mode: convolution_mode::CROSS_CORRELATION,
            compute: data_type::FLOAT,
            alignment: 16,
        }
    }

    pub fn operation(&self, [x, w, y]: [&D; 3]) -> D {
        let operation = D::new(self.direction.kind());
        let [number_x, number_w, number_y] = self.direction.tensors();
        let statuses = [
            operation.child(number_x, x),
            operation.child(number_w, w),
            operation.child(number_y, y),
            operation.data_type(a::CONVOLUTION_COMP_TYPE, self.compute),
            operation.set(a::CONVOLUTION_CONV_MODE, t::CONVOLUTION_MODE, &[self.mode]),
            operation.int64s(a::CONVOLUTION_PRE_PADDINGS, &self.pre),
            operation.int64s(a::CONVOLUTION_POST_PADDINGS, &self.post),
            operation.int64s(a::CONVOLUTION_FILTER_STRIDES, &self.stride),
            operation.int64s(a::CONVOLUTION_DILATIONS, &self.dilation),
        ];
        assert_eq!(statuses, [OK; 9], "{}", last_error());
        operation.finalized()
    }

    pub fn towards(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// A finalized graph; unique ids 1, 2 and 3 are x, w and y.
    pub fn graph(&self, handle: &Handle) -> D {
        let tensors = [(1, &self.x), (2, &self.w), (3, &self.y)].map(|(uid, (data_type, dims, strides))| {
            let tensor = unfinalized_tensor(uid, *data_type, dims, strides);
            assert_eq!(tensor.int64s(a::TENSOR_BYTE_ALIGNMENT, &[self.alignment]), OK);
            tensor.finalized()
        });
        graph(handle, &[&self.operation([&tensors[0], &tensors[1], &tensors[2]])])
    }

    pub fn plan(&self, handle: &Handle) -> D {
        plan(&self.graph(handle))
    }

    /// Whether any engine takes it.
    pub fn is_taken(&self, handle: &Handle) -> bool {
        heuristic(&self.graph(handle)).count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR) == (OK, 1)
    }
}

pub fn graph(handle: &Handle, operations: &[&D]) -> D {
    let graph = D::new(k::BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    assert_eq!(graph.set(a::OPERATIONGRAPH_HANDLE, t::HANDLE, &[handle.0]), OK);
    let raw: Vec<_> = operations.iter().map(|operation| operation.0).collect();
    assert_eq!(graph.set(a::OPERATIONGRAPH_OPS, t::BACKEND_DESCRIPTOR, &raw), OK, "{}", last_error());
    graph.finalized()
}

pub fn unfinalized_heuristic(graph: &D) -> D {
    let heuristic = D::new(k::BACKEND_ENGINEHEUR_DESCRIPTOR);
    assert_eq!(heuristic.child(a::ENGINEHEUR_OPERATION_GRAPH, graph), OK, "{}", last_error());
    assert_eq!(heuristic.set(a::ENGINEHEUR_MODE, t::HEUR_MODE, &[0i32]), OK);
    heuristic
}

pub fn heuristic(graph: &D) -> D {
    unfinalized_heuristic(graph).finalized()
}

/// The first result of the heuristic; finalized.
pub fn configuration(graph: &D) -> D {
    let configuration = D::new(k::BACKEND_ENGINECFG_DESCRIPTOR);
    let mut array = [configuration.0];
    let mut count = 0;
    let status = heuristic(graph).get_raw(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR, 1, &mut count, array.as_mut_ptr().cast());
    assert_eq!((status, count), (OK, 1), "{}", last_error());
    configuration.finalized()
}

pub fn unfinalized_plan(configuration: &D) -> D {
    let plan = D::new(k::BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    assert_eq!(plan.child(a::EXECUTION_PLAN_ENGINE_CONFIG, configuration), OK, "{}", last_error());
    plan
}

pub fn plan(graph: &D) -> D {
    unfinalized_plan(&configuration(graph)).finalized()
}

pub fn pack(pointers: &[(i64, *mut c_void)], workspace: *mut c_void) -> D {
    let pack = D::new(k::BACKEND_VARIANT_PACK_DESCRIPTOR);
    let (uids, addresses): (Vec<i64>, Vec<*mut c_void>) = pointers.iter().copied().unzip();
    assert_eq!(pack.int64s(a::VARIANT_PACK_UNIQUE_IDS, &uids), OK);
    assert_eq!(pack.set(a::VARIANT_PACK_DATA_POINTERS, t::VOID_PTR, &addresses), OK);
    assert_eq!(pack.set(a::VARIANT_PACK_WORKSPACE, t::VOID_PTR, &[workspace]), OK);
    pack.finalized()
}

pub fn execute(handle: &Handle, plan: &D, pack: &D) -> i32 {
    // SAFETY: tests give live buffers of the tensors' extents, or something that must be refused.
    unsafe { hipdnnBackendExecute(handle.0, plan.0, pack.0) }
}

/// The plan as bytes.
pub fn save(plan: &D) -> Result<Vec<u8>, i32> {
    let mut size = 0;
    // SAFETY: the size is a local.
    let status = unsafe { hipdnnBackendGetSerializedExecutionPlan_ext(plan.0, 0, &mut size, null_mut()) };
    if status != OK {
        return Err(status);
    }
    let mut bytes = vec![0; size];
    // SAFETY: the buffer has the size that is passed.
    let status = unsafe { hipdnnBackendGetSerializedExecutionPlan_ext(plan.0, bytes.len(), &mut size, bytes.as_mut_ptr()) };
    if status == OK { Ok(bytes) } else { Err(status) }
}

pub fn load(handle: &Handle, bytes: &[u8]) -> Result<D, i32> {
    let mut raw = null_mut();
    let data = if bytes.is_empty() { [0u8].as_ptr() } else { bytes.as_ptr() };
    // SAFETY: the slice is readable for its length.
    match unsafe { hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle.0, &mut raw, data, bytes.len()) } {
        OK => Ok(D(raw)),
        status => Err(status),
    }
}

/// Memory with margins that must not change, aligned as the ABI wants it.
pub struct Buffer {
    memory: Vec<u128>,
    bytes: usize,
    fill: u8,
}

const MARGIN: usize = 16;

impl Buffer {
    pub fn new(bytes: usize, fill: u8) -> Self {
        let words = bytes.div_ceil(16) + 2 * MARGIN;
        Self { memory: vec![u128::from_ne_bytes([fill; 16]); words], bytes, fill }
    }

    pub fn pointer(&mut self) -> *mut c_void {
        self.memory[MARGIN..].as_mut_ptr().cast()
    }

    pub fn bytes(&self) -> &[u8] {
        let all = self.all();
        &all[MARGIN * 16..][..self.bytes]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        // SAFETY: plain bytes of a live vector.
        let all = unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast::<u8>(), self.memory.len() * 16) };
        &mut all[MARGIN * 16..][..bytes]
    }

    fn all(&self) -> &[u8] {
        // SAFETY: plain bytes of a live vector.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<u8>(), self.memory.len() * 16) }
    }

    pub fn assert_margins(&self, what: &str) {
        let all = self.all();
        let outside = all[..MARGIN * 16].iter().chain(&all[MARGIN * 16 + self.bytes..]);
        assert!(outside.into_iter().all(|&byte| byte == self.fill), "{what}: written outside the buffer");
    }
}

/// Typed null, for calls that must be refused.
pub fn null_array() -> *const c_void {
    null()
}
