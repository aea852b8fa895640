//! The edges to the two libraries that a driven line runs on, as any program has them: MIOpen (the shim, or a native one) and HIP.
//!
//! Raw pointers, C numbers and calls stay here; what is called when is decided in `drive`. Objects are destroyed when they go out of scope.

use std::{
    env,
    ffi::{OsStr, c_int, c_void},
    path::{Path, PathBuf},
    ptr::null_mut,
};

use anyhow::{Context as _, Result, ensure};
use hipdnn_host::{
    data_type::DataType,
    problem::{Scaling, TensorLayout},
};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};
use miopen_api::{ConvAlgoPerf, data_type, status, tensor_layout};

use crate::{convolution::Tensor, flags::Direction};

/// A MIOpen call that did not succeed.
#[derive(Clone, Debug)]
pub struct CallError {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub status: i32,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = status::ALL.iter().find(|(_, value)| *value == self.status).map_or("unknown status", |(name, _)| name);
        write!(f, "{} returned {} ({name})", self.call, self.status)
    }
}

impl std::error::Error for CallError {}

/// The folder of this executable.
fn own_folder() -> Option<PathBuf> {
    env::current_exe().ok()?.parent().map(Path::to_path_buf)
}

/// The first of some paths, relative to the folder of this executable, that exists.
pub fn beside(relative: &[&str]) -> Option<PathBuf> {
    let folder = own_folder()?;
    relative.iter().map(|path| folder.join(path)).find(|path| path.exists())
}

/// Loads a library for the life of the process: the named one, else the one beside this executable, else what the loader finds.
fn load(what: &str, named: Option<&Path>, relative: &[&str], names: &[&str]) -> Result<&'static Library> {
    let open = |name: &OsStr| {
        // Global and lazy, as the loader treats a library that a program is linked with.
        // SAFETY: loading runs the library's initialisers, as for any program that uses it.
        unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_GLOBAL) }
    };
    let path = named.map(Path::to_path_buf).or_else(|| beside(relative));
    let library = match path {
        Some(path) => open(path.as_os_str()).with_context(|| format!("{what} {} cannot be loaded", path.display()))?,
        None => names.iter().find_map(|name| open(OsStr::new(name)).ok()).with_context(|| {
            format!("no {what}: neither {} beside this program, nor {} for the loader", relative.join(" or "), names.join(" or "))
        })?,
    };
    // Never unloaded: neither library can be.
    Ok(Box::leak(Box::new(library)))
}

/// Declares a struct of functions, and how it is resolved.
macro_rules! functions {
    ($(#[$meta:meta])* $name:ident { $($field:ident $symbol:literal ($($parameter:ty),*);)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl $name {
            fn resolve(library: &Library) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        // SAFETY: functions of these names have had these types in every release of the library.
                        *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.with_context(|| format!("no {}", $symbol))?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// The HIP functions.
    Hip {
        malloc "hipMalloc" (*mut *mut c_void, usize);
        free "hipFree" (*mut c_void);
        memcpy "hipMemcpy" (*mut c_void, *const c_void, usize, c_int);
        synchronize "hipDeviceSynchronize" ();
        stream_create "hipStreamCreate" (*mut *mut c_void);
        stream_destroy "hipStreamDestroy" (*mut c_void);
    }
}

/// `hipMemcpyHostToDevice`.
const TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
const TO_HOST: c_int = 2;

impl Hip {
    /// Where a HIP runtime may lie beside this executable.
    pub const BESIDE: &[&str] = &["../lib/libamdhip64.so.7", "../lib/reference/libamdhip64.so.7", "libamdhip64.so.7", "libamdhip64.so"];

    /// Loads the runtime.
    pub fn load(named: Option<&Path>) -> Result<Self> {
        let names = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
        Self::resolve(load("HIP runtime", named, Self::BESIDE, &names)?)
    }

    /// Waits for everything on the device.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: takes nothing.
        check("hipDeviceSynchronize", unsafe { (self.synchronize)() })
    }

    /// Device memory.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer<'_>> {
        let mut address = null_mut();
        if bytes > 0 {
            // SAFETY: `address` is writable.
            check("hipMalloc", unsafe { (self.malloc)(&mut address, bytes) })?;
            ensure!(!address.is_null(), "hipMalloc answered no memory");
        }
        Ok(Buffer { hip: self, address, bytes })
    }

    /// A stream, as the driver makes one for its handle: copies on the null stream wait for it.
    pub fn stream(&self) -> Result<Stream<'_>> {
        let mut stream = null_mut();
        // SAFETY: `stream` is writable.
        check("hipStreamCreate", unsafe { (self.stream_create)(&mut stream) })?;
        Ok(Stream { hip: self, stream })
    }
}

/// A stream, destroyed when dropped.
pub struct Stream<'a> {
    hip: &'a Hip,
    stream: *mut c_void,
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the same runtime, destroyed once.
        unsafe { (self.hip.stream_destroy)(self.stream) };
    }
}

fn check(call: &str, error: c_int) -> Result<()> {
    ensure!(error == 0, "{call} returned {error}");
    Ok(())
}

/// Device memory, freed when dropped.
pub struct Buffer<'a> {
    hip: &'a Hip,
    address: *mut c_void,
    bytes: usize,
}

impl Buffer<'_> {
    /// Overwrites the beginning of the memory.
    pub fn write(&self, data: &[u8]) -> Result<()> {
        ensure!(data.len() <= self.bytes, "{} bytes do not fit into {}", data.len(), self.bytes);
        // SAFETY: source and destination hold as many bytes, checked above.
        check("hipMemcpy", unsafe { (self.hip.memcpy)(self.address, data.as_ptr().cast(), data.len(), TO_DEVICE) })
    }

    /// Reads all of the memory.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut data = vec![0u8; self.bytes];
        // SAFETY: source and destination hold as many bytes.
        check("hipMemcpy", unsafe { (self.hip.memcpy)(data.as_mut_ptr().cast(), self.address, self.bytes, TO_HOST) })?;
        Ok(data)
    }

    /// Where it is; null if there are no bytes.
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if !self.address.is_null() {
            // SAFETY: allocated by the same runtime, freed once.
            unsafe { (self.hip.free)(self.address) };
        }
    }
}

/// Any MIOpen object.
type Object = *mut c_void;

functions! {
    /// The MIOpen functions that make and destroy objects.
    Objects {
        version "miopenGetVersion" (*mut usize, *mut usize, *mut usize);
        create "miopenCreateWithStream" (*mut Object, *mut c_void);
        destroy "miopenDestroy" (Object);
        enable_profiling "miopenEnableProfiling" (Object, bool);
        kernel_time "miopenGetKernelTime" (Object, *mut f32);
        create_tensor "miopenCreateTensorDescriptor" (*mut Object);
        set_tensor "miopenSetTensorDescriptor" (Object, c_int, c_int, *const c_int, *const c_int);
        set_tensor_with_layout "miopenSetNdTensorDescriptorWithLayout" (Object, c_int, c_int, *const c_int, c_int);
        destroy_tensor "miopenDestroyTensorDescriptor" (Object);
        create_convolution "miopenCreateConvolutionDescriptor" (*mut Object);
        init_convolution "miopenInitConvolutionNdDescriptor" (Object, c_int, *const c_int, *const c_int, *const c_int, c_int);
        set_groups "miopenSetConvolutionGroupCount" (Object, c_int);
        set_output_padding "miopenSetTransposeConvNdOutputPadding" (Object, c_int, *const c_int);
        set_attribute "miopenSetConvolutionAttribute" (Object, c_int, c_int);
        destroy_convolution "miopenDestroyConvolutionDescriptor" (Object);
    }
}

/// `(handle, …)` and three tensors and a convolution in an order of its own, and the size.
type WorkspaceSize = unsafe extern "C" fn(Object, Object, Object, Object, Object, *mut usize) -> c_int;
/// `(handle, aDesc, a, bDesc, b, convDesc, cDesc, c, requested, returned, results, workspace, its size, exhaustive)`.
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
/// `(handle, alpha, aDesc, a, bDesc, b, convDesc, algorithm, beta, cDesc, c, workspace, its size)`.
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

/// The names of a direction's calls, and which of x, w and y (0, 1, 2) are its a, b and c: c is computed from a and b.
pub struct Calls {
    /// Workspace query.
    pub workspace_size: &'static str,
    /// Find.
    pub find: &'static str,
    /// Execution.
    pub execute: &'static str,
    operands: [usize; 3],
    /// The tensors of the workspace query before and after the convolution.
    workspace_order: [usize; 3],
}

impl Calls {
    /// Which of x, w and y is computed.
    pub fn result(&self) -> usize {
        self.operands[2]
    }
}

/// What the driver calls for a direction.
pub fn calls(direction: Direction) -> &'static Calls {
    match direction {
        Direction::Forward => &Calls {
            workspace_size: "miopenConvolutionForwardGetWorkSpaceSize",
            find: "miopenFindConvolutionForwardAlgorithm",
            execute: "miopenConvolutionForward",
            operands: [0, 1, 2],
            workspace_order: [1, 0, 2],
        },
        Direction::BackwardData => &Calls {
            workspace_size: "miopenConvolutionBackwardDataGetWorkSpaceSize",
            find: "miopenFindConvolutionBackwardDataAlgorithm",
            execute: "miopenConvolutionBackwardData",
            operands: [2, 1, 0],
            workspace_order: [2, 1, 0],
        },
        Direction::BackwardWeights => &Calls {
            workspace_size: "miopenConvolutionBackwardWeightsGetWorkSpaceSize",
            find: "miopenFindConvolutionBackwardWeightsAlgorithm",
            execute: "miopenConvolutionBackwardWeights",
            operands: [2, 0, 1],
            workspace_order: [2, 0, 1],
        },
    }
}

/// A direction's functions.
struct Functions {
    workspace_size: WorkspaceSize,
    find: Find,
    execute: Execute,
}

impl Functions {
    fn resolve(library: &Library, calls: &Calls) -> Result<Self> {
        // SAFETY: functions of these names have had these types in every release of the library.
        unsafe {
            Ok(Self {
                workspace_size: *library.get(calls.workspace_size).with_context(|| format!("no {}", calls.workspace_size))?,
                find: *library.get(calls.find).with_context(|| format!("no {}", calls.find))?,
                execute: *library.get(calls.execute).with_context(|| format!("no {}", calls.execute))?,
            })
        }
    }
}

/// MIOpen: objects, and the convolution functions by direction.
pub struct MiOpen {
    objects: Objects,
    directions: [Functions; 3],
}

impl MiOpen {
    /// Where a MIOpen may lie beside this executable.
    pub const BESIDE: &[&str] = &["../lib/libMIOpen.so.1", "libMIOpen.so"];

    /// Loads the library.
    pub fn load(named: Option<&Path>) -> Result<Self> {
        let library = load("MIOpen", named, Self::BESIDE, &[miopen_api::SONAME, "libMIOpen.so"])?;
        let functions = |direction| Functions::resolve(library, calls(direction));
        let directions = [functions(Direction::Forward)?, functions(Direction::BackwardData)?, functions(Direction::BackwardWeights)?];
        Ok(Self { objects: Objects::resolve(library)?, directions })
    }

    fn functions(&self, direction: Direction) -> &Functions {
        match direction {
            Direction::Forward => &self.directions[0],
            Direction::BackwardData => &self.directions[1],
            Direction::BackwardWeights => &self.directions[2],
        }
    }

    /// A handle on a stream, which must outlive it.
    pub fn handle(&self, stream: &Stream<'_>) -> Result<Owned, CallError> {
        let mut object = null_mut();
        // SAFETY: `object` is writable; the stream lives.
        returned("miopenCreateWithStream", unsafe { (self.objects.create)(&mut object, stream.stream) })?;
        Ok(Owned { object, destroy: self.objects.destroy })
    }

    /// Makes a first call. With it, and not before, the shim reads its environment and opens its files.
    pub fn begin(&self) -> Result<(), CallError> {
        let mut numbers = [0usize; 3];
        let [major, minor, patch] = &mut numbers;
        // SAFETY: all three are writable.
        returned("miopenGetVersion", unsafe { (self.objects.version)(major, minor, patch) })
    }

    /// Has the calls of a handle timed on the device.
    pub fn enable_profiling(&self, handle: &Owned) -> Result<(), CallError> {
        // SAFETY: the object lives.
        returned("miopenEnableProfiling", unsafe { (self.objects.enable_profiling)(handle.object, true) })
    }

    /// Milliseconds that the handle's last call took on the device.
    pub fn kernel_time(&self, handle: &Owned) -> Result<f32, CallError> {
        let mut time = 0.0;
        // SAFETY: the object lives; `time` is writable.
        returned("miopenGetKernelTime", unsafe { (self.objects.kernel_time)(handle.object, &mut time) }).map(|()| time)
    }

    /// A tensor descriptor: with strides, or with a vectorised layout.
    pub fn tensor(&self, tensor: &Tensor) -> Result<Owned, CallError> {
        let descriptor = Owned::create("miopenCreateTensorDescriptor", self.objects.create_tensor, self.objects.destroy_tensor)?;
        let (dims, strides) = (ints(&tensor.dims), ints(&tensor.strides));
        let (object, data_type, rank) = (descriptor.object, number(tensor.data_type), dims.len() as c_int);
        match tensor.vectorized_layout().and_then(layout_number) {
            None => {
                // SAFETY: the object lives; both arrays have as many entries as the call is told.
                let status = unsafe { (self.objects.set_tensor)(object, data_type, rank, dims.as_ptr(), strides.as_ptr()) };
                returned("miopenSetTensorDescriptor", status)?;
            }
            Some(layout) => {
                // SAFETY: the object lives; the array has as many entries as the call is told.
                let status = unsafe { (self.objects.set_tensor_with_layout)(object, data_type, layout, dims.as_ptr(), rank) };
                returned("miopenSetNdTensorDescriptorWithLayout", status)?;
            }
        }
        Ok(descriptor)
    }

    /// A convolution descriptor; all lists have one entry for each spatial dimension.
    pub fn convolution(&self, pads: &[i64], strides: &[i64], dilations: &[i64], mode: i32, groups: i64) -> Result<Owned, CallError> {
        let convolution =
            Owned::create("miopenCreateConvolutionDescriptor", self.objects.create_convolution, self.objects.destroy_convolution)?;
        let (pads, strides, dilations) = (ints(pads), ints(strides), ints(dilations));
        let rank = pads.len() as c_int;
        let object = convolution.object;
        // SAFETY: the object lives; the arrays have as many entries as the call is told.
        let status = unsafe { (self.objects.init_convolution)(object, rank, pads.as_ptr(), strides.as_ptr(), dilations.as_ptr(), mode) };
        returned("miopenInitConvolutionNdDescriptor", status)?;
        // SAFETY: the object lives.
        returned("miopenSetConvolutionGroupCount", unsafe { (self.objects.set_groups)(object, groups as c_int) })?;
        Ok(convolution)
    }

    /// The output pads of a transposed convolution.
    pub fn output_padding(&self, convolution: &Owned, pads: &[i64]) -> Result<(), CallError> {
        let pads = ints(pads);
        // SAFETY: the object lives; the array has as many entries as the call is told.
        let status = unsafe { (self.objects.set_output_padding)(convolution.object, pads.len() as c_int, pads.as_ptr()) };
        returned("miopenSetTransposeConvNdOutputPadding", status)
    }

    /// An attribute of a convolution, by MIOpen's number.
    pub fn attribute(&self, convolution: &Owned, number: u32, value: i64) -> Result<(), CallError> {
        let call = "miopenSetConvolutionAttribute";
        let number = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: the object lives.
        returned(call, unsafe { (self.objects.set_attribute)(convolution.object, number, value as c_int) })
    }

    /// The workspace that any algorithm may need, in bytes.
    pub fn workspace_size(&self, call: &Call<'_>) -> Result<usize, CallError> {
        let mut bytes = 0;
        let calls = calls(call.direction);
        let [first, second, last] = calls.workspace_order.map(|tensor| call.tensors[tensor].object);
        let (handle, convolution) = (call.handle.object, call.convolution.object);
        // SAFETY: the objects live; `bytes` is writable.
        let status = unsafe { (self.functions(call.direction).workspace_size)(handle, first, second, convolution, last, &mut bytes) };
        returned(calls.workspace_size, status).map(|()| bytes)
    }

    /// Asks for algorithms; answers those found.
    pub fn find(&self, call: &Call<'_>, workspace: &Buffer<'_>, exhaustive: bool) -> Result<Vec<ConvAlgoPerf>, CallError> {
        let mut results = [ConvAlgoPerf::default(); 2];
        let mut count = 0;
        let [a, b, c] = call.operands();
        // SAFETY: the objects live; the buffers have the extents of their descriptors; results and count are writable.
        let status = unsafe {
            (self.functions(call.direction).find)(
                call.handle.object,
                a.0,
                a.1,
                b.0,
                b.1,
                call.convolution.object,
                c.0,
                c.1,
                results.len() as c_int,
                &mut count,
                results.as_mut_ptr(),
                workspace.address,
                workspace.bytes,
                exhaustive,
            )
        };
        returned(calls(call.direction).find, status)?;
        Ok(results.into_iter().take(usize::try_from(count).unwrap_or(0)).collect())
    }

    /// Computes the direction's result.
    pub fn execute(&self, call: &Call<'_>, algorithm: i32, workspace: &Buffer<'_>) -> Result<(), CallError> {
        // All types of this tool take their scalars as floats.
        let (alpha, beta) = (call.scaling.alpha as f32, call.scaling.beta as f32);
        let [a, b, c] = call.operands();
        // SAFETY: the objects live; the buffers have the extents of their descriptors; the scalars are floats, as the types want them.
        let status = unsafe {
            (self.functions(call.direction).execute)(
                call.handle.object,
                (&raw const alpha).cast(),
                a.0,
                a.1,
                b.0,
                b.1,
                call.convolution.object,
                algorithm,
                (&raw const beta).cast(),
                c.0,
                c.1,
                workspace.address,
                workspace.bytes,
            )
        };
        returned(calls(call.direction).execute, status)
    }
}

/// What the calls of a direction share. Descriptors and buffers in the order x, w, y; each buffer holds at least the extent of its
/// descriptor.
pub struct Call<'a> {
    /// Direction.
    pub direction: Direction,
    /// Handle.
    pub handle: &'a Owned,
    /// Convolution descriptor.
    pub convolution: &'a Owned,
    /// What the result and the old contents of the output are multiplied with.
    pub scaling: Scaling,
    /// Tensor descriptors.
    pub tensors: &'a [Owned; 3],
    /// Their memory.
    pub buffers: [&'a Buffer<'a>; 3],
}

impl Call<'_> {
    /// Descriptor and memory of a, b and c.
    fn operands(&self) -> [(Object, *mut c_void); 3] {
        calls(self.direction).operands.map(|tensor| (self.tensors[tensor].object, self.buffers[tensor].address))
    }

    /// The memory of what is computed.
    pub fn result(&self) -> &Buffer<'_> {
        self.buffers[calls(self.direction).result()]
    }
}

/// A MIOpen object, destroyed when dropped.
pub struct Owned {
    object: Object,
    destroy: unsafe extern "C" fn(Object) -> c_int,
}

impl Owned {
    fn create(
        call: &'static str,
        create: unsafe extern "C" fn(*mut Object) -> c_int,
        destroy: unsafe extern "C" fn(Object) -> c_int,
    ) -> Result<Self, CallError> {
        let mut object = null_mut();
        // SAFETY: `object` is writable.
        returned(call, unsafe { create(&mut object) })?;
        Ok(Self { object, destroy })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: created by the function that belongs to this one, destroyed once. A status could not be acted on.
        unsafe { (self.destroy)(self.object) };
    }
}

fn returned(call: &'static str, status: i32) -> Result<(), CallError> {
    if status == status::SUCCESS { Ok(()) } else { Err(CallError { call, status }) }
}

/// MIOpen's lengths are C integers; `convolution` made sure that these fit.
fn ints(values: &[i64]) -> Vec<c_int> {
    values.iter().map(|v| c_int::try_from(*v).unwrap_or(c_int::MAX)).collect()
}

/// The number of a vectorised layout (`miopenTensorLayout_t`).
fn layout_number(layout: TensorLayout) -> Option<c_int> {
    match layout {
        TensorLayout::Nchwc4 => Some(tensor_layout::NCHWC4),
        TensorLayout::Nchwc8 => Some(tensor_layout::NCHWC8),
        TensorLayout::Chwnc4 => Some(tensor_layout::CHWNC4),
        TensorLayout::Chwnc8 => Some(tensor_layout::CHWNC8),
        _ => None,
    }
}

/// The number of an element type (`miopenDataType_t`).
fn number(data_type: DataType) -> c_int {
    match data_type {
        DataType::Half => data_type::HALF,
        DataType::BFloat16 => data_type::BFLOAT16,
        DataType::Int8 => data_type::INT8,
        DataType::Int32 => data_type::INT32,
        _ => data_type::FLOAT,
    }
}
