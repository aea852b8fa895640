//! The exported C functions, nothing else: raw pointers end here, rules begin behind.
//!
//! # Safety
//! As the C ABI demands: pointers are null or valid for what the function documents, arrays hold as many elements as the caller says.
//! Handles and descriptors are numbers that are checked, so any value is safe for those. After that, whatever a client does wrong
//! answers a status.
#![allow(clippy::missing_safety_doc, reason = "one contract for all, above")]
#![allow(non_snake_case, reason = "the C names")]

use std::{
    ffi::{CStr, CString, c_char, c_void},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicI32, Ordering},
    },
};

use hipdnn_abi::status;

use crate::{
    calls::{Function, enter},
    descriptor::{Built, Object, Request, loaded_plan},
    engine,
    error::{Error, Result},
    execute, faults,
    handle::{self, Handle, InUse},
    last_error,
    plan::Plan,
    registry::{DESCRIPTORS, HANDLES},
};

/// What engine info tells of every engine: it is part of this library, not of a plugin.
const PLUGIN_TYPE: &str = "builtin";
/// `hipdnnSeverity_t` from INFO to OFF.
const LOG_LEVELS: std::ops::RangeInclusive<i32> = 0..=4;
/// `hipdnnPluginLoadingMode_ext_t`: additive and absolute.
const LOADING_MODES: std::ops::RangeInclusive<i32> = 0..=1;

static LOG_LEVEL: AtomicI32 = AtomicI32::new(*LOG_LEVELS.end());
static STATUS_NAMES: LazyLock<Vec<(i32, CString)>> = LazyLock::new(|| {
    let name = |&(number, name): &(i32, &str)| (number, CString::new(name).unwrap_or_default());
    status::ALL.iter().map(name).collect()
});

/// The kind of a live descriptor, for logs and faults.
fn kind(descriptor: *const c_void) -> impl FnOnce() -> Option<i32> {
    move || DESCRIPTORS.get(descriptor).ok().map(|object| object.kind())
}

fn no_kind() -> Option<i32> {
    None
}

/// # Safety
/// `to` is null or writable.
unsafe fn write<T>(to: *mut T, value: T, what: &str) -> Result<()> {
    if to.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: not null, so writable by the contract of this function.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Fails on null, so that nothing is made that could not be handed out.
fn not_null<T>(pointer: *const T, what: &str) -> Result<()> {
    if pointer.is_null() { Err(Error::null(what)) } else { Ok(()) }
}

/// Makes a handle. Reads the profile and the simulated plan cost from the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCreate(handle: *mut *mut c_void) -> i32 {
    enter(Function::hipdnnCreate, no_kind, || {
        not_null(handle, "handle")?;
        // SAFETY: not null.
        unsafe { write(handle, HANDLES.insert(Arc::new(Handle::new()?)), "handle") }
    })
}

/// Frees a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnDestroy(handle: *mut c_void) -> i32 {
    enter(Function::hipdnnDestroy, no_kind, || {
        let _in_use = InUse::enter(handle)?;
        HANDLES.remove(handle)
    })
}

/// Binds a stream to the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnSetStream(handle: *mut c_void, stream: *mut c_void) -> i32 {
    enter(Function::hipdnnSetStream, no_kind, || InUse::enter(handle)?.session.set_stream(stream.expose_provenance()))
}

/// Reads the bound stream back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetStream(handle: *mut c_void, stream: *mut *mut c_void) -> i32 {
    enter(Function::hipdnnGetStream, no_kind, || {
        let bound = InUse::enter(handle)?.session.stream();
        // SAFETY: null or writable.
        unsafe { write(stream, std::ptr::with_exposed_provenance_mut(bound), "stream") }
    })
}

/// Makes an empty descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendCreateDescriptor(descriptor_type: i32, descriptor: *mut *mut c_void) -> i32 {
    enter(
        Function::hipdnnBackendCreateDescriptor,
        || Some(descriptor_type),
        || {
            not_null(descriptor, "descriptor")?;
            // SAFETY: not null.
            unsafe { write(descriptor, DESCRIPTORS.insert(Object::new(descriptor_type)?), "descriptor") }
        },
    )
}

/// Releases one descriptor handle; what it refers to lives as long as something shares it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendDestroyDescriptor(descriptor: *mut c_void) -> i32 {
    enter(Function::hipdnnBackendDestroyDescriptor, kind(descriptor), || DESCRIPTORS.remove(descriptor))
}

/// Executes a finalized plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendExecute(handle: *mut c_void, plan: *mut c_void, pack: *mut c_void) -> i32 {
    // SAFETY: the pack's addresses are valid by the contract of this function.
    enter(Function::hipdnnBackendExecute, kind(plan), || unsafe { execute::execute(handle, plan, pack) })
}

/// Checks and freezes a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendFinalize(descriptor: *mut c_void) -> i32 {
    enter(Function::hipdnnBackendFinalize, kind(descriptor), || DESCRIPTORS.get(descriptor)?.finalize())
}

/// Reads an attribute, or only its count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetAttribute(
    descriptor: *mut c_void,
    number: i32,
    wire: i32,
    requested: i64,
    count: *mut i64,
    array: *mut c_void,
) -> i32 {
    enter(Function::hipdnnBackendGetAttribute, kind(descriptor), || {
        // SAFETY: count and array are null or writable by the contract of this function.
        unsafe { DESCRIPTORS.get(descriptor)?.get(&Request { number, wire, requested, count, array }) }
    })
}

/// Sets an attribute of a descriptor that is not finalized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendSetAttribute(
    descriptor: *mut c_void,
    number: i32,
    wire: i32,
    count: i64,
    array: *const c_void,
) -> i32 {
    // SAFETY: the array is null or holds `count` elements by the contract of this function.
    enter(Function::hipdnnBackendSetAttribute, kind(descriptor), || unsafe { DESCRIPTORS.get(descriptor)?.set(number, wire, count, array) })
}

/// The C name of a status; static.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnGetErrorString(code: i32) -> *const c_char {
    let mut name = c"HIPDNN_STATUS_UNKNOWN".as_ptr();
    let status = enter(Function::hipdnnGetErrorString, no_kind, || {
        name = STATUS_NAMES.iter().find(|(number, _)| *number == code).map_or(name, |(_, text)| text.as_ptr());
        Ok(())
    });
    if status == status::SUCCESS { name } else { std::ptr::null() }
}

/// Copies the thread's last error text and clears it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetLastErrorString(message: *mut c_char, size: usize) {
    enter(Function::hipdnnGetLastErrorString, no_kind, || {
        // SAFETY: null or writable for `size` bytes by the contract of this function.
        unsafe { last_error::copy(message, size, true) };
        Ok(())
    });
}

/// Copies the thread's last error text and keeps it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPeekLastErrorString_ext(message: *mut c_char, size: usize) {
    enter(Function::hipdnnPeekLastErrorString_ext, no_kind, || {
        // SAFETY: null or writable for `size` bytes by the contract of this function.
        unsafe { last_error::copy(message, size, false) };
        Ok(())
    });
}

/// The version text (older form).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetVersion_ext(version: *mut *const c_char) -> i32 {
    // SAFETY: null or writable.
    enter(Function::hipdnnGetVersion_ext, no_kind, || unsafe { write(version, engine::provider().version().as_ptr(), "version") })
}

/// The version text; static.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnVersionString_ext() -> *const c_char {
    let status = enter(Function::hipdnnVersionString_ext, no_kind, || Ok(()));
    if status == status::SUCCESS { engine::provider().version().as_ptr() } else { std::ptr::null() }
}

/// How many engines the handle has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineCount_ext(handle: *mut c_void, count: *mut usize) -> i32 {
    enter(Function::hipdnnGetEngineCount_ext, no_kind, || {
        let handle = InUse::enter(handle)?;
        // SAFETY: null or writable.
        unsafe { write(count, handle.session.engines().len(), "numEngines") }
    })
}

/// Text with two-call sizing: a null buffer asks for the length, which counts the NUL.
///
/// # Safety
/// `length` is null or readable and writable; `buffer` is null or writable for `*length` bytes.
unsafe fn write_text(text: &str, buffer: *mut c_char, length: *mut usize) -> Result<()> {
    if length.is_null() {
        return Err(Error::null("a length"));
    }
    let needed = text.len() + 1;
    // SAFETY: `length` is valid; the buffer has room, as checked.
    unsafe {
        if !buffer.is_null() {
            if *length < needed {
                return Err(Error::new(status::BAD_PARAM_SIZE_INSUFFICIENT, format!("{needed} bytes are needed for a text")));
            }
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len());
            *buffer.add(text.len()) = 0;
        }
        *length = needed;
    }
    Ok(())
}

/// Describes one engine.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the ABI")]
pub unsafe extern "C" fn hipdnnGetEngineInfo_ext(
    handle: *mut c_void,
    index: usize,
    id: *mut i64,
    name: *mut c_char,
    name_length: *mut usize,
    plugin: *mut c_char,
    plugin_length: *mut usize,
    version: *mut c_char,
    version_length: *mut usize,
    kind: *mut c_char,
    kind_length: *mut usize,
) -> i32 {
    enter(Function::hipdnnGetEngineInfo_ext, no_kind, || {
        let handle = InUse::enter(handle)?;
        let out_of_bound = || Error::new(status::BAD_PARAM_OUT_OF_BOUND, format!("no engine number {index}"));
        let engine = handle.session.engines().get(index).ok_or_else(out_of_bound)?;
        let (plugin_name, plugin_version) = engine::provider().plugin();
        // SAFETY: each is null or valid by the contract of this function.
        unsafe {
            write(id, engine.id(), "engineId")?;
            write_text(engine.name(), name, name_length)?;
            write_text(&plugin_name, plugin, plugin_length)?;
            write_text(&plugin_version, version, version_length)?;
            write_text(PLUGIN_TYPE, kind, kind_length)
        }
    })
}

/// The id of a loaded engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineIdByName_ext(handle: *mut c_void, name: *const c_char, id: *mut i64) -> i32 {
    enter(Function::hipdnnGetEngineIdByName_ext, no_kind, || {
        let handle = InUse::enter(handle)?;
        not_null(name, "engineName")?;
        // SAFETY: not null, so NUL-terminated by the contract of this function.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let engine = handle.session.engines().iter().find(|engine| engine.name() == name);
        let engine = engine.ok_or_else(|| Error::bad(format!("no engine {name} is loaded")))?;
        // SAFETY: null or writable.
        unsafe { write(id, engine.id(), "engineId") }
    })
}

/// The name of a loaded engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineNameById_ext(handle: *mut c_void, id: i64, name: *mut c_char, length: *mut usize) -> i32 {
    enter(Function::hipdnnGetEngineNameById_ext, no_kind, || {
        let known = InUse::enter(handle)?.session.engine_name(id);
        let known = known.ok_or_else(|| Error::bad(format!("no engine {id} is loaded")))?;
        // SAFETY: each is null or valid by the contract of this function.
        unsafe { write_text(&known, name, length) }
    })
}

/// Saves a finalized plan. A null buffer asks for the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetSerializedExecutionPlan_ext(
    plan: *mut c_void,
    requested: usize,
    size: *mut usize,
    bytes: *mut u8,
) -> i32 {
    enter(Function::hipdnnBackendGetSerializedExecutionPlan_ext, kind(plan), || {
        let object = DESCRIPTORS.get(plan)?;
        not_null(size, "planByteSize")?;
        let Built::Plan(plan) = object.built()? else { return Err(Error::bad("no execution plan")) };
        let saved = plan.save()?;
        // SAFETY: the size is writable; the buffer, if there is one, for the requested bytes, which are enough.
        unsafe {
            size.write_unaligned(saved.len());
            if !bytes.is_null() {
                if requested < saved.len() {
                    return Err(Error::new(status::BAD_PARAM_SIZE_INSUFFICIENT, format!("{} bytes are needed", saved.len())));
                }
                std::ptr::copy_nonoverlapping(saved.as_ptr(), bytes, saved.len());
            }
        }
        Ok(())
    })
}

/// Loads a plan; it is finalized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendCreateAndDeserializeExecutionPlan_ext(
    handle: *mut c_void,
    descriptor: *mut *mut c_void,
    bytes: *const u8,
    size: usize,
) -> i32 {
    enter(Function::hipdnnBackendCreateAndDeserializeExecutionPlan_ext, no_kind, || {
        let handle = InUse::enter(handle)?;
        not_null(descriptor, "descriptor")?;
        not_null(bytes, "serializedPlan")?;
        // SAFETY: not null, so readable for `size` bytes by the contract of this function.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, size) };
        let plan = loaded_plan(Plan::load(handle.session.as_ref(), bytes)?)?;
        // SAFETY: not null.
        unsafe { write(descriptor, DESCRIPTORS.insert(plan), "descriptor") }
    })
}

/// Lists loaded plugin files: there are none, the engines are built in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetLoadedEnginePluginPaths_ext(
    handle: *mut c_void,
    count: *mut usize,
    _paths: *mut *mut c_char,
    longest: *mut usize,
) -> i32 {
    enter(Function::hipdnnGetLoadedEnginePluginPaths_ext, no_kind, || {
        let _in_use = InUse::enter(handle)?;
        not_null(longest, "maxStringLen")?;
        // SAFETY: null or writable.
        unsafe {
            write(count, 0, "numPluginPaths")?;
            write(longest, 0, "maxStringLen")
        }
    })
}

/// Chooses plugins: accepted and ignored, but only while no handle is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnSetEnginePluginPaths_ext(count: usize, paths: *const *const c_char, mode: i32) -> i32 {
    enter(Function::hipdnnSetEnginePluginPaths_ext, no_kind, || {
        if !HANDLES.is_empty() {
            return Err(Error::unsupported("plugins cannot be chosen while a handle is live"));
        }
        if !LOADING_MODES.contains(&mode) {
            return Err(Error::bad(format!("{mode} is no loading mode")));
        }
        if count > 0 {
            not_null(paths, "pluginPaths")?;
        }
        // SAFETY: holds `count` pointers by the contract of this function.
        (0..count).try_for_each(|i| not_null(unsafe { paths.add(i).read_unaligned() }, "a plugin path"))
    })
}

/// Sets the log threshold. Nothing is logged below it: the call log is a file of its own.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnBackendSetGlobalLogLevel_ext(level: i32) -> i32 {
    enter(Function::hipdnnBackendSetGlobalLogLevel_ext, no_kind, || {
        if !LOG_LEVELS.contains(&level) {
            return Err(Error::bad(format!("{level} is no severity")));
        }
        LOG_LEVEL.store(level, Ordering::Relaxed);
        Ok(())
    })
}

/// Reads the log threshold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetGlobalLogLevel_ext(level: *mut i32) -> i32 {
    // SAFETY: null or writable.
    enter(Function::hipdnnBackendGetGlobalLogLevel_ext, no_kind, || unsafe { write(level, LOG_LEVEL.load(Ordering::Relaxed), "level") })
}

/// For tests: how often a function of this library was called. `u64::MAX` for a name that it does not have, so that a misspelt one
/// cannot pass for "never called".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reference_hipdnn_calls(name: *const c_char) -> u64 {
    if name.is_null() {
        return u64::MAX;
    }
    // SAFETY: not null, so NUL-terminated by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().ok().and_then(Function::by_name).map_or(u64::MAX, Function::calls)
}

/// For tests: how often a handle was entered while another thread was inside it.
#[unsafe(no_mangle)]
pub extern "C" fn reference_hipdnn_races() -> u64 {
    handle::races()
}

/// For tests: replaces the faults, in the syntax of [`faults`]; empty text removes them. 0, or -1 if the text is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reference_hipdnn_set_faults(text: *const c_char) -> i32 {
    // SAFETY: null or NUL-terminated by the contract of this function.
    let text = if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } };
    match faults::replace(&text.to_string_lossy()) {
        Ok(()) => 0,
        Err(error) => {
            last_error::set(&error);
            -1
        }
    }
}
