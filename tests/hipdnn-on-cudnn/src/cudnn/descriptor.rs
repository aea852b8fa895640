//! Safe owners of cuDNN's objects: handles and backend descriptors, with one setter for each type on the wire.

use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
};

use super::{
    CudnnError, Library,
    numbers::{attribute, kind, wire},
};

/// The longest text that is read: plans as JSON are some kilobytes.
const MAX_TEXT: usize = 64 << 20;

/// A cuDNN handle.
pub struct Handle {
    library: &'static Library,
    raw: NonNull<c_void>,
}

// SAFETY: a handle may move between threads; cuDNN's calls with one handle are ordered by the owner, or lock themselves.
unsafe impl Send for Handle {}
// SAFETY: as above: nothing is read through a shared reference but the address.
unsafe impl Sync for Handle {}

impl Handle {
    /// `cudnnCreate`, on the current device.
    pub fn new(library: &'static Library) -> Result<Self, CudnnError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        let status = unsafe { (library.functions.create)(&mut raw) };
        library.check(status, || "cudnnCreate".into())?;
        let none = || CudnnError { status: 0, function: "cudnnCreate".into(), message: "success without a handle".into() };
        Ok(Self { library, raw: NonNull::new(raw).ok_or_else(none)? })
    }

    /// The library that it is of.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Its number, to pass through places that know nothing of cuDNN.
    pub fn number(&self) -> usize {
        self.raw.as_ptr().expose_provenance()
    }

    /// Binds a stream, which is a `cudaStream_t`; 0 is the null stream.
    pub fn set_stream(&self, stream: usize) -> Result<(), CudnnError> {
        // SAFETY: the handle is live; the stream is the caller's.
        let status = unsafe { (self.library.functions.set_stream)(self.raw.as_ptr(), std::ptr::with_exposed_provenance_mut(stream)) };
        self.library.check(status, || "cudnnSetStream".into())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by this library, destroyed once. A failure leaves nothing that could be done.
        unsafe { (self.library.functions.destroy)(self.raw.as_ptr()) };
    }
}

/// A backend descriptor.
pub struct Descriptor {
    library: &'static Library,
    raw: NonNull<c_void>,
}

// SAFETY: descriptors have no thread affinity.
unsafe impl Send for Descriptor {}
// SAFETY: once finalized they are only read, and here nobody shares one before.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// An empty descriptor.
    pub fn new(library: &'static Library, kind: i32) -> Result<Self, CudnnError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        let status = unsafe { (library.functions.create_descriptor)(kind, &mut raw) };
        let function = || format!("cudnnBackendCreateDescriptor({kind})");
        library.check(status, function)?;
        let none = || CudnnError { status: 0, function: function(), message: "success without a descriptor".into() };
        Ok(Self { library, raw: NonNull::new(raw).ok_or_else(none)? })
    }

    fn set<T>(&self, number: i32, wire: i32, values: &[T]) -> Result<(), CudnnError> {
        let (count, data) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: the descriptor is live; `values` are as many elements of the wire type's layout (private callers only).
        let status = unsafe { (self.library.functions.set_attribute)(self.raw.as_ptr(), number, wire, count, data) };
        self.library.check(status, || format!("cudnnBackendSetAttribute({number})"))
    }

    /// 64-bit integers.
    pub fn set_int64s(&self, number: i32, values: &[i64]) -> Result<(), CudnnError> {
        self.set(number, wire::INT64, values)
    }

    /// One number of an enum.
    pub fn set_enumeration(&self, number: i32, wire: i32, value: i32) -> Result<(), CudnnError> {
        self.set(number, wire, &[value])
    }

    /// One single-precision number.
    pub fn set_float(&self, number: i32, value: f32) -> Result<(), CudnnError> {
        self.set(number, wire::FLOAT, &[value])
    }

    /// One double-precision number.
    pub fn set_double(&self, number: i32, value: f64) -> Result<(), CudnnError> {
        self.set(number, wire::DOUBLE, &[value])
    }

    /// A flag.
    pub fn set_flag(&self, number: i32, value: bool) -> Result<(), CudnnError> {
        self.set(number, wire::BOOLEAN, &[u8::from(value)])
    }

    /// Bytes of text.
    pub fn set_text(&self, number: i32, text: &str) -> Result<(), CudnnError> {
        self.set(number, wire::CHAR, text.as_bytes())
    }

    /// Other descriptors.
    pub fn set_descriptors(&self, number: i32, children: &[&Descriptor]) -> Result<(), CudnnError> {
        let raw: Vec<*mut c_void> = children.iter().map(|child| child.raw.as_ptr()).collect();
        self.set(number, wire::BACKEND_DESCRIPTOR, &raw)
    }

    /// The handle.
    pub fn set_handle(&self, number: i32, handle: &Handle) -> Result<(), CudnnError> {
        self.set(number, wire::HANDLE, &[handle.raw.as_ptr()])
    }

    /// Freezes it; nothing can be set afterwards.
    pub fn finalize(&self) -> Result<(), CudnnError> {
        // SAFETY: the descriptor is live.
        let status = unsafe { (self.library.functions.finalize)(self.raw.as_ptr()) };
        self.library.check(status, || "cudnnBackendFinalize".into())
    }

    /// Reads up to `room.len()` elements and answers how many there are.
    fn get<T>(&self, number: i32, wire: i32, room: &mut [T]) -> Result<usize, CudnnError> {
        let mut count = 0i64;
        let data: *mut c_void = if room.is_empty() { null_mut() } else { room.as_mut_ptr().cast() };
        // SAFETY: the descriptor is live, `count` writable, `data` has room for as many elements as said (private callers only).
        let status =
            unsafe { (self.library.functions.get_attribute)(self.raw.as_ptr(), number, wire, room.len() as i64, &mut count, data) };
        self.library.check(status, || format!("cudnnBackendGetAttribute({number})"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// One 64-bit integer.
    pub fn int64(&self, number: i32) -> Result<i64, CudnnError> {
        let mut value = [0i64];
        self.get(number, wire::INT64, &mut value)?;
        Ok(value[0])
    }

    /// One number of an enum.
    pub fn enumeration(&self, number: i32, wire: i32) -> Result<i32, CudnnError> {
        let mut value = [0i32];
        self.get(number, wire, &mut value)?;
        Ok(value[0])
    }

    /// Numbers of an enum, at most 32.
    pub fn enumerations(&self, number: i32, wire: i32) -> Result<Vec<i32>, CudnnError> {
        let mut values = [0i32; 32];
        let count = self.get(number, wire, &mut values)?;
        Ok(values[..count.min(values.len())].to_vec())
    }

    /// Text.
    pub fn text(&self, number: i32) -> Result<String, CudnnError> {
        let count = self.get::<u8>(number, wire::CHAR, &mut [])?.min(MAX_TEXT);
        let mut bytes = vec![0u8; count];
        let count = self.get(number, wire::CHAR, &mut bytes)?;
        bytes.truncate(count);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Other descriptors, of one kind: as many as cuDNN says that there are, at most `most`.
    pub fn descriptors(&self, number: i32, kind: i32, most: usize) -> Result<Vec<Descriptor>, CudnnError> {
        let count = self.get::<u8>(number, wire::BACKEND_DESCRIPTOR, &mut [])?.min(most);
        self.descriptors_unasked(number, kind, count)
    }

    /// The same of attributes whose count cuDNN does not tell. It fills descriptors that its caller made.
    pub fn descriptors_unasked(&self, number: i32, kind: i32, room: usize) -> Result<Vec<Descriptor>, CudnnError> {
        let mut targets = (0..room).map(|_| Self::new(self.library, kind)).collect::<Result<Vec<_>, _>>()?;
        if targets.is_empty() {
            return Ok(targets);
        }
        let mut raw: Vec<*mut c_void> = targets.iter().map(|target| target.raw.as_ptr()).collect();
        let filled = self.get(number, wire::BACKEND_DESCRIPTOR, &mut raw)?;
        targets.truncate(filled);
        Ok(targets)
    }

    /// A finalized variant pack.
    pub fn pack(library: &'static Library, uids: &[i64], addresses: &[*mut c_void], workspace: *mut c_void) -> Result<Self, CudnnError> {
        let pack = Self::new(library, kind::VARIANT_PACK)?;
        pack.set_int64s(attribute::VARIANT_PACK_UNIQUE_IDS, uids)?;
        pack.set(attribute::VARIANT_PACK_DATA_POINTERS, wire::VOID_PTR, addresses)?;
        pack.set(attribute::VARIANT_PACK_WORKSPACE, wire::VOID_PTR, &[workspace])?;
        pack.finalize()?;
        Ok(pack)
    }

    /// Queues this plan on a handle's stream.
    ///
    /// # Safety
    /// The handle is the number of a live [`Handle`] of the plan's device; the pack's addresses are live for the plan's tensors, its
    /// workspace for the plan's bytes.
    pub unsafe fn execute(&self, handle: usize, pack: &Descriptor) -> Result<(), CudnnError> {
        let handle = std::ptr::with_exposed_provenance_mut(handle);
        // SAFETY: by the contract of this function.
        let status = unsafe { (self.library.functions.execute)(handle, self.raw.as_ptr(), pack.raw.as_ptr()) };
        self.library.check(status, || "cudnnBackendExecute".into())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by this library, destroyed once. A failure leaves nothing that could be done.
        unsafe { (self.library.functions.destroy_descriptor)(self.raw.as_ptr()) };
    }
}
