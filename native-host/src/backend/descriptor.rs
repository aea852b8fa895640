//! Safe owners of backend objects: handles and descriptors, with one setter for each type on the wire.

use std::{
    ffi::{c_char, c_void},
    path::PathBuf,
    ptr::{NonNull, null, null_mut},
};

use hipdnn_abi::{attribute_type, descriptor_type};

use super::{BackendError, Library};

/// The most values of one attribute that are read.
const MAX_VALUES: usize = 4096;
/// The largest plan that is kept as bytes.
const MAX_PLAN: usize = 60 << 20;
/// The most engines, or plugins, that a handle is asked about.
const MAX_LISTED: usize = 256;
/// The longest name or path that is read.
const MAX_NAME: usize = 4096;

/// A hipDNN handle. Must outlive every graph, engine and plan made with it; not to be used by two threads at once.
pub struct Handle {
    library: &'static Library,
    raw: NonNull<c_void>,
}

// SAFETY: a handle may move between threads; exclusive use is the owner's business (a lock around it).
unsafe impl Send for Handle {}

impl Handle {
    /// `hipdnnCreate`: loads the engine plugins on first use in the process.
    pub fn new(library: &'static Library) -> Result<Self, BackendError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        let status = unsafe { (library.functions.create)(&mut raw) };
        library.check(status, "hipdnnCreate", String::new)?;
        let Some(raw) = NonNull::new(raw) else {
            let message = "success without a handle".to_string();
            return Err(BackendError {
                status: hipdnn_abi::status::INTERNAL_ERROR,
                function: "hipdnnCreate",
                subject: String::new(),
                message,
            });
        };
        Ok(Self { library, raw })
    }

    /// A handle that has engines to compute with, as far as the backend can tell. Without engines (an empty folder of plugins) it would decline
    /// each graph on its own.
    pub fn with_engines(library: &'static Library) -> Result<Self, BackendError> {
        let handle = Self::new(library)?;
        if handle.engine_count() != Some(0) {
            return Ok(handle);
        }
        let message = "hipDNN has no engine: no plugin was loaded".to_string();
        Err(BackendError {
            status: hipdnn_abi::status::NOT_SUPPORTED,
            function: "hipdnnGetEngineCount_ext",
            subject: String::new(),
            message,
        })
    }

    fn engine_count(&self) -> Option<usize> {
        let mut count = 0;
        // SAFETY: the handle is live, `count` writable.
        let status = unsafe { (self.library.functions.engine_count?)(self.raw.as_ptr(), &mut count) };
        (status == hipdnn_abi::status::SUCCESS).then_some(count)
    }

    /// `hipdnnSetStream`. The stream is the caller's; it is only passed on.
    pub(crate) fn set_stream(&self, stream: *mut c_void) -> Result<(), BackendError> {
        // SAFETY: the handle is live; the stream is opaque here and valid by the caller's contract with MIOpen.
        let status = unsafe { (self.library.functions.set_stream)(self.raw.as_ptr(), stream) };
        self.library.check(status, "hipdnnSetStream", String::new)
    }

    /// `hipdnnBackendExecute`: queues the plan on the handle's stream.
    pub fn execute(&self, plan: &Descriptor, pack: &Descriptor) -> Result<(), BackendError> {
        // SAFETY: all three are live objects of this library.
        let status = unsafe { (self.library.functions.execute)(self.raw.as_ptr(), plan.raw.as_ptr(), pack.raw.as_ptr()) };
        self.library.check(status, "hipdnnBackendExecute", String::new)
    }

    /// The name of an engine, where the backend can tell.
    pub fn engine_name(&self, engine: i64) -> Option<String> {
        let function = self.library.functions.engine_name?;
        let mut buffer = [0u8; 256];
        let mut length = buffer.len();
        // SAFETY: buffer and length describe writable memory.
        let status = unsafe { function(self.raw.as_ptr(), engine, buffer.as_mut_ptr().cast::<c_char>(), &mut length) };
        let text = buffer.split(|&b| b == 0).next()?;
        (status == hipdnn_abi::status::SUCCESS).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// The engines in their order; `None` where the backend cannot tell.
    pub fn engines(&self) -> Option<Vec<EngineInfo>> {
        let count = self.engine_count().filter(|count| *count <= MAX_LISTED)?;
        (0..count).map(|index| self.engine(index)).collect()
    }

    fn engine(&self, index: usize) -> Option<EngineInfo> {
        let function = self.library.functions.engine_info?;
        let mut id = 0;
        let mut texts = [const { [0u8; MAX_NAME] }; 4];
        let mut lengths = [MAX_NAME; 4];
        let [name, plugin, version, kind] = &mut texts;
        let [name_length, plugin_length, version_length, kind_length] = &mut lengths;
        // SAFETY: the handle is live; each buffer has the length that is passed with it.
        let status = unsafe {
            function(
                self.raw.as_ptr(),
                index,
                &mut id,
                name.as_mut_ptr().cast(),
                name_length,
                plugin.as_mut_ptr().cast(),
                plugin_length,
                version.as_mut_ptr().cast(),
                version_length,
                kind.as_mut_ptr().cast(),
                kind_length,
            )
        };
        let [name, plugin, version, _] = texts.map(|bytes| text(&bytes));
        (status == hipdnn_abi::status::SUCCESS).then_some(EngineInfo { id, name, plugin, version })
    }

    /// The files of the loaded engine plugins; `None` where the backend cannot tell.
    pub fn plugins(&self) -> Option<Vec<PathBuf>> {
        let function = self.library.functions.plugin_paths?;
        let (mut count, mut longest) = (0, 0);
        // SAFETY: the handle is live, both numbers writable; without buffers only they are asked for.
        let status = unsafe { function(self.raw.as_ptr(), &mut count, null_mut(), &mut longest) };
        if status != hipdnn_abi::status::SUCCESS || count > MAX_LISTED || longest > MAX_NAME {
            return None;
        }
        let mut buffers = vec![vec![0u8; longest + 1]; count];
        let mut pointers: Vec<*mut c_char> = buffers.iter_mut().map(|buffer| buffer.as_mut_ptr().cast()).collect();
        if count > 0 {
            // SAFETY: as above; each of the buffers has more than the length that was asked for.
            let status = unsafe { function(self.raw.as_ptr(), &mut count, pointers.as_mut_ptr(), &mut longest) };
            if status != hipdnn_abi::status::SUCCESS {
                return None;
            }
        }
        Some(buffers.iter().take(count).map(|bytes| PathBuf::from(text(bytes))).collect())
    }

    /// The library that it is of.
    pub fn library(&self) -> &'static Library {
        self.library
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by this library, destroyed once. A failure leaves nothing that could be done.
        unsafe { (self.library.functions.destroy)(self.raw.as_ptr()) };
    }
}

/// An engine, as the backend lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Its id: a hash of its name.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The plugin that brings it.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
}

/// Text up to its NUL.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// Pointers for a variant pack, in the order of its uids. Opaque addresses: never dereferenced here.
pub type PointerSlots = [*mut c_void];

/// A backend descriptor.
pub struct Descriptor {
    library: &'static Library,
    raw: NonNull<c_void>,
    kind: i32,
}

// SAFETY: descriptors are thin owners of shared state without thread affinity; exclusive use is the owner's business.
unsafe impl Send for Descriptor {}

impl Descriptor {
    /// Creates a descriptor of the given type.
    pub fn new(library: &'static Library, kind: i32) -> Result<Self, BackendError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        let status = unsafe { (library.functions.create_descriptor)(kind, &mut raw) };
        library.check(status, "hipdnnBackendCreateDescriptor", || subject(kind))?;
        let Some(raw) = NonNull::new(raw) else {
            let (function, message) = ("hipdnnBackendCreateDescriptor", "success without a descriptor".to_string());
            return Err(BackendError { status: hipdnn_abi::status::INTERNAL_ERROR, function, subject: subject(kind), message });
        };
        Ok(Self { library, raw, kind })
    }

    fn set<T>(&self, attribute: i32, wire_type: i32, values: &[T]) -> Result<(), BackendError> {
        let data: *const c_void = if values.is_empty() { null() } else { values.as_ptr().cast() };
        // SAFETY: the descriptor is live; `values` are as many elements as said, of the layout of the wire type (private callers only).
        let status = unsafe { (self.library.functions.set_attribute)(self.raw.as_ptr(), attribute, wire_type, values.len() as i64, data) };
        self.library.check(status, "hipdnnBackendSetAttribute", || attribute_subject(self.kind, attribute))
    }

    /// 64-bit integers.
    pub fn set_int64s(&self, attribute: i32, values: &[i64]) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::INT64, values)
    }

    /// 32-bit integers.
    pub fn set_int32s(&self, attribute: i32, values: &[i32]) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::INT32, values)
    }

    /// Single-precision numbers.
    pub fn set_floats(&self, attribute: i32, values: &[f32]) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::FLOAT, values)
    }

    /// Double-precision numbers.
    pub fn set_doubles(&self, attribute: i32, values: &[f64]) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::DOUBLE, values)
    }

    /// A boolean (one byte on the wire).
    pub fn set_bool(&self, attribute: i32, value: bool) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::BOOLEAN, &[u8::from(value)])
    }

    /// An element type, by the backend's number.
    pub fn set_data_type(&self, attribute: i32, number: i32) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::DATA_TYPE, &[number])
    }

    /// A value of the enum that `wire_type` names.
    pub fn set_enumeration(&self, attribute: i32, wire_type: i32, number: i32) -> Result<(), BackendError> {
        self.set(attribute, wire_type, &[number])
    }

    /// Bytes: text, or the value of a constant.
    pub fn set_bytes(&self, attribute: i32, bytes: &[u8]) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::CHAR, bytes)
    }

    /// Other descriptors. The backend keeps shared ownership of what they refer to.
    pub fn set_descriptors(&self, attribute: i32, descriptors: &[&Descriptor]) -> Result<(), BackendError> {
        let raw: Vec<*mut c_void> = descriptors.iter().map(|d| d.raw.as_ptr()).collect();
        self.set(attribute, attribute_type::BACKEND_DESCRIPTOR, &raw)
    }

    /// The hipDNN handle.
    pub fn set_handle(&self, attribute: i32, handle: &Handle) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::HANDLE, &[handle.raw.as_ptr()])
    }

    /// Addresses of tensors or workspace.
    pub fn set_pointers(&self, attribute: i32, pointers: &PointerSlots) -> Result<(), BackendError> {
        self.set(attribute, attribute_type::VOID_PTR, pointers)
    }

    /// Finalizes; nothing can be set afterwards.
    pub fn finalize(&self) -> Result<(), BackendError> {
        // SAFETY: the descriptor is live.
        let status = unsafe { (self.library.functions.finalize)(self.raw.as_ptr()) };
        self.library.check(status, "hipdnnBackendFinalize", || subject(self.kind))
    }

    /// Reads up to `room.len()` elements and answers how many the backend has.
    fn get<T>(&self, attribute: i32, wire_type: i32, room: &mut [T]) -> Result<usize, BackendError> {
        let mut count = 0i64;
        let data: *mut c_void = if room.is_empty() { null_mut() } else { room.as_mut_ptr().cast() };
        // SAFETY: the descriptor is live, `count` is writable, `data` has room for as many elements as said (private callers only).
        let status =
            unsafe { (self.library.functions.get_attribute)(self.raw.as_ptr(), attribute, wire_type, room.len() as i64, &mut count, data) };
        self.library.check(status, "hipdnnBackendGetAttribute", || attribute_subject(self.kind, attribute))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// One 64-bit integer.
    pub fn int64(&self, attribute: i32) -> Result<i64, BackendError> {
        let mut value = [0i64];
        self.get(attribute, attribute_type::INT64, &mut value)?;
        Ok(value[0])
    }

    /// All 64-bit integers of an attribute.
    pub fn int64s(&self, attribute: i32) -> Result<Vec<i64>, BackendError> {
        let mut values = vec![0; self.count(attribute, attribute_type::INT64)?.min(MAX_VALUES)];
        let count = self.get(attribute, attribute_type::INT64, &mut values)?;
        values.truncate(count);
        Ok(values)
    }

    /// A finalized plan as bytes, if its engine writes it.
    pub fn serialized_plan(&self, handle: &Handle) -> Option<Vec<u8>> {
        let function = handle.library.functions.serialize_plan?;
        let mut size = 0;
        // SAFETY: the descriptor is live, the size writable; without a buffer only the size is asked for.
        let status = unsafe { function(self.raw.as_ptr(), 0, &mut size, null_mut()) };
        if status != hipdnn_abi::status::SUCCESS || size > MAX_PLAN {
            return None;
        }
        let mut bytes = vec![0u8; size];
        // SAFETY: as above; the buffer has the size that is passed.
        let status = unsafe { function(self.raw.as_ptr(), bytes.len(), &mut size, bytes.as_mut_ptr()) };
        bytes.truncate(size);
        (status == hipdnn_abi::status::SUCCESS).then_some(bytes)
    }

    /// A finalized plan from bytes that [`Descriptor::serialized_plan`] answered, here or in another process; `None` if the backend does
    /// not take them. They may be machine code: whoever calls this has to know where they come from.
    pub fn deserialized_plan(handle: &Handle, bytes: &[u8]) -> Option<Self> {
        let function = handle.library.functions.deserialize_plan?;
        let mut raw = null_mut();
        // SAFETY: the handle is live, the descriptor writable, the bytes as many as said.
        let status = unsafe { function(handle.raw.as_ptr(), &mut raw, bytes.as_ptr(), bytes.len()) };
        let made = NonNull::new(raw).filter(|_| status == hipdnn_abi::status::SUCCESS)?;
        Some(Self { library: handle.library, raw: made, kind: descriptor_type::BACKEND_EXECUTION_PLAN_DESCRIPTOR })
    }

    /// Values of an enum, at most 64.
    pub fn enumerations(&self, attribute: i32, wire_type: i32) -> Result<Vec<i32>, BackendError> {
        let mut values = [0i32; 64];
        let count = self.get(attribute, wire_type, &mut values)?;
        Ok(values[..count.min(values.len())].to_vec())
    }

    /// One descriptor; a new owner of it.
    pub fn descriptor(&self, attribute: i32, kind: i32) -> Result<Descriptor, BackendError> {
        let mut raw: [*mut c_void; 1] = [null_mut()];
        self.get(attribute, attribute_type::BACKEND_DESCRIPTOR, &mut raw)?;
        match NonNull::new(raw[0]) {
            Some(raw) => Ok(Self { library: self.library, raw, kind }),
            None => {
                let (function, message) = ("hipdnnBackendGetAttribute", "success without a descriptor".to_string());
                let subject = attribute_subject(self.kind, attribute);
                Err(BackendError { status: hipdnn_abi::status::INTERNAL_ERROR, function, subject, message })
            }
        }
    }

    /// How many elements an attribute has (a query without room).
    pub fn count(&self, attribute: i32, wire_type: i32) -> Result<usize, BackendError> {
        self.get::<u8>(attribute, wire_type, &mut [])
    }

    /// Fills descriptors that were made before (the results of a heuristic) and answers how many.
    pub fn fill(&self, attribute: i32, targets: &[Descriptor]) -> Result<usize, BackendError> {
        let mut raw: Vec<*mut c_void> = targets.iter().map(|d| d.raw.as_ptr()).collect();
        let count = self.get(attribute, attribute_type::BACKEND_DESCRIPTOR, &mut raw)?;
        Ok(count.min(targets.len()))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made or handed out by this library, destroyed once. A failure leaves nothing that could be done.
        unsafe { (self.library.functions.destroy_descriptor)(self.raw.as_ptr()) };
    }
}

fn subject(kind: i32) -> String {
    let name = hipdnn_abi::name_in(descriptor_type::ALL, kind).unwrap_or("unknown descriptor");
    format!("({})", name.trim_start_matches("HIPDNN_BACKEND_").trim_end_matches("_EXT").trim_end_matches("_DESCRIPTOR"))
}

fn attribute_subject(kind: i32, attribute: i32) -> String {
    let name = hipdnn_abi::descriptor(kind).and_then(|d| d.attribute(attribute)).map_or("unknown attribute", |a| a.name);
    format!("({})", name.trim_start_matches("HIPDNN_ATTR_"))
}
