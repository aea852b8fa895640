//! The convolution calls that exist once for each direction: workspace, Find, execution, immediate mode.

use std::{
    ffi::{c_int, c_void},
    ptr::{from_ref, null_mut},
};

use anyhow::Result;
use libloading::os::unix::Library;
use miopen_api::{ConvAlgoPerf, ConvSolution};

use super::{Memory, Object, Owned, Status, symbol};

/// What is computed from the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// y
    Forward,
    /// dx
    BackwardData,
    /// dw
    BackwardWeights,
}

impl Direction {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Forward, Self::BackwardData, Self::BackwardWeights];

    /// As it stands in MIOpen's names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "Forward",
            Self::BackwardData => "BackwardData",
            Self::BackwardWeights => "BackwardWeights",
        }
    }

    /// Which of x, w and y (0, 1, 2) a call takes first, second and as its result.
    pub fn operands(self) -> [usize; 3] {
        match self {
            Self::Forward => [0, 1, 2],
            Self::BackwardData => [2, 1, 0],
            Self::BackwardWeights => [2, 0, 1],
        }
    }

    /// The same for workspace queries and immediate mode, which have the filter first in the forward direction.
    fn query_order(self) -> [usize; 3] {
        match self {
            Self::Forward => [1, 0, 2],
            other => other.operands(),
        }
    }

    /// The tensor that is computed.
    pub fn result(self) -> usize {
        self.operands()[2]
    }
}

/// Alpha or beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A pointer to a float.
    Float(f32),
    /// A pointer to a double, as calls on double tensors take it.
    Double(f64),
    /// A null pointer.
    Null,
}

impl Scalar {
    pub(super) fn pointer(&self) -> *const c_void {
        match self {
            Self::Float(value) => from_ref(value).cast(),
            Self::Double(value) => from_ref(value).cast(),
            Self::Null => null_mut(),
        }
    }

    /// Its value; a missing one is 1.
    pub fn value(self) -> f64 {
        match self {
            Self::Float(value) => f64::from(value),
            Self::Double(value) => value,
            Self::Null => 1.0,
        }
    }
}

/// Workspace as a call is told about it.
#[derive(Clone, Copy, Default)]
pub struct Workspace<'a> {
    /// The memory, none for null.
    pub memory: Option<(&'a Memory, usize)>,
    /// How many bytes the call is told.
    pub size: usize,
}

impl Workspace<'_> {
    pub(super) fn pointer(&self) -> *mut c_void {
        self.memory.map_or(null_mut(), |(memory, offset)| memory.at(offset))
    }
}

type Size = unsafe extern "C" fn(Object, Object, Object, Object, Object, *mut usize) -> c_int;
type Find = unsafe extern "C" fn(
    Object,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    Object,
    *mut c_void,
    c_int,
    *mut c_int,
    *mut ConvAlgoPerf,
    *mut c_void,
    usize,
    bool,
) -> c_int;
type Execute = unsafe extern "C" fn(
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    c_int,
    *const c_void,
    Object,
    *mut c_void,
    *mut c_void,
    usize,
) -> c_int;
type Solutions = unsafe extern "C" fn(Object, Object, Object, Object, Object, usize, *mut usize, *mut ConvSolution) -> c_int;
type SolutionSize = unsafe extern "C" fn(Object, Object, Object, Object, Object, u64, *mut usize) -> c_int;
type Compile = unsafe extern "C" fn(Object, Object, Object, Object, Object, u64) -> c_int;
type Immediate = unsafe extern "C" fn(
    Object,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    Object,
    *mut c_void,
    *mut c_void,
    usize,
    u64,
) -> c_int;

/// A direction's functions.
pub(super) struct Functions {
    size: Size,
    find: Find,
    execute: Execute,
    count: Size,
    solutions: Solutions,
    solution_size: SolutionSize,
    compile: Compile,
    immediate: Immediate,
}

impl Functions {
    pub(super) fn resolve(library: &Library, direction: Direction) -> Result<Self> {
        let name = |what: &str| format!("miopenConvolution{}{what}", direction.name());
        Ok(Self {
            size: symbol(library, &name("GetWorkSpaceSize"))?,
            find: symbol(library, &format!("miopenFindConvolution{}Algorithm", direction.name()))?,
            execute: symbol(library, &name(""))?,
            count: symbol(library, &name("GetSolutionCount"))?,
            solutions: symbol(library, &name("GetSolution"))?,
            solution_size: symbol(library, &name("GetSolutionWorkspaceSize"))?,
            compile: symbol(library, &name("CompileSolution"))?,
            immediate: symbol(library, &name("Immediate"))?,
        })
    }
}

/// A convolution as its calls take it: x, w and y (or their gradients).
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub(super) functions: &'a Functions,
    pub(super) direction: Direction,
    pub(super) handle: &'a Owned,
    pub(super) convolution: &'a Owned,
    pub(super) tensors: [&'a Owned; 3],
    /// Memory of x, w and y and where in it their first elements are; none for null pointers.
    pub(super) memory: [Option<(&'a Memory, usize)>; 3],
}

impl Call<'_> {
    fn ordered(&self, order: [usize; 3]) -> [(Object, *mut c_void); 3] {
        order.map(|i| (self.tensors[i].raw(), self.memory[i].map_or(null_mut(), |(memory, offset)| memory.at(offset))))
    }

    /// `miopenConvolution…GetWorkSpaceSize`
    pub fn workspace_size(&self) -> (Status, usize) {
        let [a, b, c] = self.ordered(self.direction.query_order());
        let mut size = 0;
        // SAFETY: all objects live, `size` is writable.
        let status = unsafe { (self.functions.size)(self.handle.raw(), a.0, b.0, self.convolution.raw(), c.0, &mut size) };
        (Status(status), size)
    }

    /// `miopenFindConvolution…Algorithm`, asking for some results.
    pub fn find(&self, requested: usize, workspace: Workspace<'_>) -> (Status, Vec<ConvAlgoPerf>) {
        let [a, b, c] = self.ordered(self.direction.operands());
        let mut results = vec![ConvAlgoPerf::default(); requested.max(1)];
        let mut count = 0;
        // SAFETY: all objects live; buffers hold what their descriptors say; as many results are writable as are asked for.
        let status = unsafe {
            (self.functions.find)(
                self.handle.raw(),
                a.0,
                a.1,
                b.0,
                b.1,
                self.convolution.raw(),
                c.0,
                c.1,
                requested as c_int,
                &mut count,
                results.as_mut_ptr(),
                workspace.pointer(),
                workspace.size,
                false,
            )
        };
        results.truncate(usize::try_from(count).unwrap_or(0));
        (Status(status), results)
    }

    /// `miopenConvolution…`
    pub fn execute(&self, algorithm: i32, (alpha, beta): (Scalar, Scalar), workspace: Workspace<'_>) -> Status {
        let [a, b, c] = self.ordered(self.direction.operands());
        // SAFETY: all objects live; buffers hold what their descriptors say; the scalars are read during the call.
        Status(unsafe {
            (self.functions.execute)(
                self.handle.raw(),
                alpha.pointer(),
                a.0,
                a.1,
                b.0,
                b.1,
                self.convolution.raw(),
                algorithm,
                beta.pointer(),
                c.0,
                c.1,
                workspace.pointer(),
                workspace.size,
            )
        })
    }

    /// `miopenConvolution…GetSolutionCount`
    pub fn solution_count(&self) -> (Status, usize) {
        let [a, b, c] = self.ordered(self.direction.query_order());
        let mut count = 0;
        // SAFETY: all objects live, `count` is writable.
        let status = unsafe { (self.functions.count)(self.handle.raw(), a.0, b.0, self.convolution.raw(), c.0, &mut count) };
        (Status(status), count)
    }

    /// `miopenConvolution…GetSolution`
    pub fn solutions(&self, at_most: usize) -> (Status, Vec<ConvSolution>) {
        let [a, b, c] = self.ordered(self.direction.query_order());
        let mut solutions = vec![ConvSolution::default(); at_most.max(1)];
        let mut count = 0;
        // SAFETY: all objects live; as many solutions are writable as are asked for.
        let status = unsafe {
            (self.functions.solutions)(
                self.handle.raw(),
                a.0,
                b.0,
                self.convolution.raw(),
                c.0,
                at_most,
                &mut count,
                solutions.as_mut_ptr(),
            )
        };
        solutions.truncate(count);
        (Status(status), solutions)
    }

    /// `miopenConvolution…GetSolutionWorkspaceSize`
    pub fn solution_workspace(&self, id: u64) -> (Status, usize) {
        let [a, b, c] = self.ordered(self.direction.query_order());
        let mut size = 0;
        // SAFETY: all objects live, `size` is writable.
        let status = unsafe { (self.functions.solution_size)(self.handle.raw(), a.0, b.0, self.convolution.raw(), c.0, id, &mut size) };
        (Status(status), size)
    }

    /// `miopenConvolution…CompileSolution`
    pub fn compile(&self, id: u64) -> Status {
        let [a, b, c] = self.ordered(self.direction.query_order());
        // SAFETY: all objects live.
        Status(unsafe { (self.functions.compile)(self.handle.raw(), a.0, b.0, self.convolution.raw(), c.0, id) })
    }

    /// `miopenConvolution…Immediate`
    pub fn immediate(&self, id: u64, workspace: Workspace<'_>) -> Status {
        let [a, b, c] = self.ordered(self.direction.query_order());
        // SAFETY: all objects live; buffers hold what their descriptors say.
        Status(unsafe {
            (self.functions.immediate)(
                self.handle.raw(),
                a.0,
                a.1,
                b.0,
                b.1,
                self.convolution.raw(),
                c.0,
                c.1,
                workspace.pointer(),
                workspace.size,
                id,
            )
        })
    }
}
