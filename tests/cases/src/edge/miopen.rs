//! MIOpen itself: handles and descriptors. The calls on them are in the files beside this one.

use std::{
    ffi::{c_int, c_void},
    ptr::{null, null_mut},
};

use anyhow::Result;
use libloading::os::unix::Library;

use super::{
    Direction, Memory, Object, Owned, Status, Stream,
    convolution::{self, Call},
    functions, fusion, ints, others, solutions, symbol,
};

functions! {
    Objects {
        version "miopenGetVersion" (*mut usize, *mut usize, *mut usize);
        create "miopenCreate" (*mut Object);
        create_with_stream "miopenCreateWithStream" (*mut Object, *mut c_void);
        destroy "miopenDestroy" (Object);
        set_stream "miopenSetStream" (Object, *mut c_void);
        get_stream "miopenGetStream" (Object, *mut *mut c_void);
        create_tensor "miopenCreateTensorDescriptor" (*mut Object);
        set_tensor "miopenSetTensorDescriptor" (Object, c_int, c_int, *const c_int, *const c_int);
        set_tensor_v2 "miopenSetTensorDescriptorV2" (Object, c_int, c_int, *const usize, *const usize);
        set_tensor_with_layout "miopenSetNdTensorDescriptorWithLayout" (Object, c_int, c_int, *const c_int, c_int);
        get_tensor "miopenGetTensorDescriptor" (Object, *mut c_int, *mut c_int, *mut c_int);
        destroy_tensor "miopenDestroyTensorDescriptor" (Object);
        create_convolution "miopenCreateConvolutionDescriptor" (*mut Object);
        init_convolution "miopenInitConvolutionNdDescriptor" (Object, c_int, *const c_int, *const c_int, *const c_int, c_int);
        set_groups "miopenSetConvolutionGroupCount" (Object, c_int);
        set_output_padding "miopenSetTransposeConvNdOutputPadding" (Object, c_int, *const c_int);
        set_attribute "miopenSetConvolutionAttribute" (Object, c_int, c_int);
        output_dims "miopenGetConvolutionNdForwardOutputDim" (Object, Object, Object, *mut c_int, *mut c_int);
        destroy_convolution "miopenDestroyConvolutionDescriptor" (Object);
    }
}

/// MIOpen.
pub struct MiOpen {
    objects: Objects,
    directions: [convolution::Functions; 3],
    pub(super) fusion: fusion::Functions,
    pub(super) solutions: solutions::Functions,
    pub(super) others: others::Functions,
    error_string: unsafe extern "C" fn(c_int) -> *const std::ffi::c_char,
}

impl MiOpen {
    pub(super) fn resolve(library: &Library) -> Result<Self> {
        let [forward, data, weights] = Direction::ALL.map(|direction| convolution::Functions::resolve(library, direction));
        Ok(Self {
            objects: Objects::resolve(library)?,
            directions: [forward?, data?, weights?],
            fusion: fusion::Functions::resolve(library)?,
            solutions: solutions::Functions::resolve(library)?,
            others: others::Functions::resolve(library)?,
            error_string: symbol(library, "miopenGetErrorString")?,
        })
    }

    /// Makes a first call. With it, and not before, the shim reads its environment and opens its files.
    pub fn begin(&self) -> Result<()> {
        let [mut major, mut minor, mut patch] = [0; 3];
        // SAFETY: all three are writable.
        Status(unsafe { (self.objects.version)(&mut major, &mut minor, &mut patch) }).check("miopenGetVersion")
    }

    /// The text of a status.
    pub fn error_string(&self, status: Status) -> String {
        // SAFETY: takes a number, answers a text that is never freed.
        let text = unsafe { (self.error_string)(status.0) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: NUL-terminated, by the contract of the call.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// `miopenCreate`
    pub fn handle(&self) -> Result<Owned> {
        Owned::create("miopenCreate", self.objects.create, self.objects.destroy)
    }

    /// `miopenCreateWithStream`
    pub fn handle_on(&self, stream: &Stream) -> Result<Owned> {
        let mut object = null_mut();
        // SAFETY: `object` is writable, the stream lives.
        Status(unsafe { (self.objects.create_with_stream)(&mut object, stream.raw()) }).check("miopenCreateWithStream")?;
        Ok(Owned::adopt(object, self.objects.destroy))
    }

    /// `miopenDestroy(NULL)`
    pub fn destroy_no_handle(&self) -> Status {
        // SAFETY: null is what the call checks for.
        Status(unsafe { (self.objects.destroy)(null_mut()) })
    }

    /// `miopenSetStream`; none is the null stream.
    pub fn set_stream(&self, handle: &Owned, stream: Option<&Stream>) -> Status {
        // SAFETY: the handle lives, and the stream if there is one.
        Status(unsafe { (self.objects.set_stream)(handle.raw(), stream.map_or(null_mut(), Stream::raw)) })
    }

    /// `miopenGetStream`: the address.
    pub fn stream_of(&self, handle: &Owned) -> (Status, usize) {
        let mut stream = null_mut();
        // SAFETY: the handle lives, `stream` is writable.
        let status = unsafe { (self.objects.get_stream)(handle.raw(), &mut stream) };
        (Status(status), stream.addr())
    }

    /// A tensor descriptor that is not set.
    pub fn tensor(&self) -> Result<Owned> {
        Owned::create("miopenCreateTensorDescriptor", self.objects.create_tensor, self.objects.destroy_tensor)
    }

    /// `miopenSetTensorDescriptor`; without strides packed.
    pub fn set_tensor(&self, tensor: &Owned, data_type: i32, dims: &[usize], strides: Option<&[usize]>) -> Status {
        let (dims, strides) = (ints(dims), strides.map(ints));
        let strides = strides.as_ref().map_or(null(), |strides| strides.as_ptr());
        // SAFETY: the object lives; the arrays have as many entries as the call is told.
        Status(unsafe { (self.objects.set_tensor)(tensor.raw(), data_type, dims.len() as c_int, dims.as_ptr(), strides) })
    }

    /// `miopenSetTensorDescriptorV2`; without strides packed.
    pub fn set_tensor_v2(&self, tensor: &Owned, data_type: i32, dims: &[usize], strides: Option<&[usize]>) -> Status {
        let strides = strides.map_or(null(), <[usize]>::as_ptr);
        // SAFETY: the object lives; the arrays have as many entries as the call is told.
        Status(unsafe { (self.objects.set_tensor_v2)(tensor.raw(), data_type, dims.len() as c_int, dims.as_ptr(), strides) })
    }

    /// `miopenSetNdTensorDescriptorWithLayout`
    pub fn set_tensor_with_layout(&self, tensor: &Owned, data_type: i32, layout: i32, dims: &[usize]) -> Status {
        let dims = ints(dims);
        // SAFETY: the object lives; the array has as many entries as the call is told.
        Status(unsafe { (self.objects.set_tensor_with_layout)(tensor.raw(), data_type, layout, dims.as_ptr(), dims.len() as c_int) })
    }

    /// `miopenGetTensorDescriptor` of a tensor of at most eight dimensions: lengths and strides.
    pub fn tensor_dims(&self, tensor: &Owned, rank: usize) -> (Status, [Vec<i32>; 2]) {
        let (mut data_type, mut dims, mut strides) = (0, vec![0; rank.max(8)], vec![0; rank.max(8)]);
        // SAFETY: the object lives; there is room for more dimensions than any tensor here has.
        let status = unsafe { (self.objects.get_tensor)(tensor.raw(), &mut data_type, dims.as_mut_ptr(), strides.as_mut_ptr()) };
        dims.truncate(rank);
        strides.truncate(rank);
        (Status(status), [dims, strides])
    }

    /// A convolution descriptor as it is made: 2-D, no pads.
    pub fn convolution(&self) -> Result<Owned> {
        Owned::create("miopenCreateConvolutionDescriptor", self.objects.create_convolution, self.objects.destroy_convolution)
    }

    /// `miopenInitConvolutionNdDescriptor`; all lists have one entry for each spatial dimension.
    pub fn init_convolution(&self, convolution: &Owned, [pads, strides, dilations]: [&[usize]; 3], mode: i32) -> Status {
        let rank = pads.len().min(strides.len()).min(dilations.len()) as c_int;
        let (pads, strides, dilations) = (ints(pads), ints(strides), ints(dilations));
        // SAFETY: the object lives; the arrays have at least as many entries as the call is told.
        Status(unsafe {
            (self.objects.init_convolution)(convolution.raw(), rank, pads.as_ptr(), strides.as_ptr(), dilations.as_ptr(), mode)
        })
    }

    /// `miopenSetConvolutionGroupCount`
    pub fn set_groups(&self, convolution: &Owned, groups: i32) -> Status {
        // SAFETY: the object lives.
        Status(unsafe { (self.objects.set_groups)(convolution.raw(), groups) })
    }

    /// `miopenSetTransposeConvNdOutputPadding`
    pub fn set_output_padding(&self, convolution: &Owned, padding: &[usize]) -> Status {
        let padding = ints(padding);
        // SAFETY: the object lives; the array has as many entries as the call is told.
        Status(unsafe { (self.objects.set_output_padding)(convolution.raw(), padding.len() as c_int, padding.as_ptr()) })
    }

    /// `miopenSetConvolutionAttribute`
    pub fn set_attribute(&self, convolution: &Owned, attribute: i32, value: i32) -> Status {
        // SAFETY: the object lives.
        Status(unsafe { (self.objects.set_attribute)(convolution.raw(), attribute, value) })
    }

    /// `miopenGetConvolutionNdForwardOutputDim`, of at most eight dimensions.
    pub fn output_dims(&self, convolution: &Owned, x: &Owned, w: &Owned) -> (Status, Vec<i32>) {
        let (mut rank, mut dims) = (0, vec![0; 8]);
        // SAFETY: the objects live; there is room for more dimensions than any tensor here has.
        let status = unsafe { (self.objects.output_dims)(convolution.raw(), x.raw(), w.raw(), &mut rank, dims.as_mut_ptr()) };
        dims.truncate(usize::try_from(rank).unwrap_or(0));
        (Status(status), dims)
    }

    /// The calls of a convolution on x, w and y (or their gradients).
    pub fn call<'a>(
        &'a self,
        direction: Direction,
        handle: &'a Owned,
        convolution: &'a Owned,
        tensors: [&'a Owned; 3],
        memory: [Option<(&'a Memory, usize)>; 3],
    ) -> Call<'a> {
        Call { functions: &self.directions[direction as usize], direction, handle, convolution, tensors, memory }
    }
}
