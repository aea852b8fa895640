//! The functions of `libhipdnn_backend.so`, resolved once. Core functions must all be there; extensions are optional.

use std::{
    ffi::{CStr, c_char, c_void},
    path::{Path, PathBuf},
};

use hipdnn_abi::{data_type, descriptor_type};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use super::{BackendError, Descriptor, search};
use crate::{
    capabilities::Capabilities,
    data_type::{BACKEND_TYPES, DataType},
    search::{Candidate, Reason, Search, first},
};

/// The major version that this build speaks.
const MAJOR: u32 = 0;

pub(super) type RawHandle = *mut c_void;
pub(super) type RawDescriptor = *mut c_void;
type Status = i32;

macro_rules! functions {
    (core { $($field:ident $name:literal ($($argument:ty),*);)* } optional { $($soft:ident $soft_name:literal ($($soft_argument:ty),*) -> $soft_result:ty;)* }) => {
        /// Function pointers of the loaded library.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
            $(pub(super) $soft: Option<unsafe extern "C" fn($($soft_argument),*) -> $soft_result>,)*
        }

        impl Functions {
            fn resolve(library: &Loaded) -> Result<Self, Reason> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the symbol, if it exists, has the type that the ABI reference gives.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> Status>(concat!($name, "\0").as_bytes()) };
                        *symbol.map_err(|_| Reason::Lacks($name))?
                    },)*
                    $($soft: {
                        // SAFETY: as above.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($soft_argument),*) -> $soft_result>(concat!($soft_name, "\0").as_bytes()) };
                        symbol.ok().map(|s| *s)
                    },)*
                })
            }
        }
    };
}

functions! {
    core {
        create "hipdnnCreate" (*mut RawHandle);
        destroy "hipdnnDestroy" (RawHandle);
        set_stream "hipdnnSetStream" (RawHandle, *mut c_void);
        create_descriptor "hipdnnBackendCreateDescriptor" (i32, *mut RawDescriptor);
        destroy_descriptor "hipdnnBackendDestroyDescriptor" (RawDescriptor);
        execute "hipdnnBackendExecute" (RawHandle, RawDescriptor, RawDescriptor);
        finalize "hipdnnBackendFinalize" (RawDescriptor);
        get_attribute "hipdnnBackendGetAttribute" (RawDescriptor, i32, i32, i64, *mut i64, *mut c_void);
        set_attribute "hipdnnBackendSetAttribute" (RawDescriptor, i32, i32, i64, *const c_void);
    }
    optional {
        last_error "hipdnnGetLastErrorString" (*mut c_char, usize) -> ();
        version_string "hipdnnVersionString_ext" () -> *const c_char;
        engine_name "hipdnnGetEngineNameById_ext" (RawHandle, i64, *mut c_char, *mut usize) -> Status;
        engine_count "hipdnnGetEngineCount_ext" (RawHandle, *mut usize) -> Status;
        engine_info "hipdnnGetEngineInfo_ext" (RawHandle, usize, *mut i64, *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize) -> Status;
        plugin_paths "hipdnnGetLoadedEnginePluginPaths_ext" (RawHandle, *mut usize, *mut *mut c_char, *mut usize) -> Status;
        serialize_plan "hipdnnBackendGetSerializedExecutionPlan_ext" (RawDescriptor, usize, *mut usize, *mut u8) -> Status;
        deserialize_plan "hipdnnBackendCreateAndDeserializeExecutionPlan_ext" (RawHandle, *mut RawDescriptor, *const u8, usize) -> Status;
    }
}

/// The loaded backend. Never unloaded: its plugins keep threads and callbacks.
pub struct Library {
    pub(super) functions: Functions,
    path: PathBuf,
    version: String,
}

impl Library {
    /// Loads the backend from a path, or, without one, by its bare name, else from folders of ROCm's. The error says why not, on one line.
    pub fn load(path: Option<&Path>, folders: &[PathBuf]) -> Result<Self, String> {
        let Search { found, rejected } = Self::find(path, folders);
        let told = |(candidate, reason): &(Candidate, Reason)| match reason {
            Reason::NotLoadable(text) => text.clone(),
            reason => format!("{}: {reason}", candidate.file.display()),
        };
        found.map(|(_, library)| library).ok_or_else(|| rejected.iter().map(told).collect::<Vec<_>>().join("; "))
    }

    /// The first of the places that can be used.
    pub fn find(path: Option<&Path>, folders: &[PathBuf]) -> Search<Self> {
        let open = |candidate: &Candidate| Self::open(&candidate.file);
        let mut search = first(search::candidates(path), open);
        if search.found.is_none() && path.is_none() {
            // Folders are read only now.
            let versioned = first(search::versioned(folders), open);
            search.found = versioned.found;
            search.rejected.extend(versioned.rejected);
        }
        search
    }

    /// Loaded `RTLD_LOCAL`, as AMD's own clients do, so that its symbols never enter the caller's scope.
    fn open(path: &Path) -> Result<Self, Reason> {
        Reason::of_place(path)?;
        // SAFETY: loading runs the library's initialisers; that is what the operator asked for by turning forwarding on.
        let loaded = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| Reason::of_loader(path, error))?;
        let functions = Functions::resolve(&loaded)?;
        std::mem::forget(loaded);
        let version = functions.version_string.map_or_else(String::new, |version| {
            // SAFETY: the function takes nothing and returns static text or null.
            let text = unsafe { version() };
            // SAFETY: if not null it is NUL-terminated and lives as long as the library.
            if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
        });
        if version.split('.').next().is_some_and(|major| !major.is_empty() && major != MAJOR.to_string()) {
            return Err(Reason::Version(version, MAJOR));
        }
        Ok(Self { functions, path: path.to_path_buf(), version })
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `MAJOR.MINOR.PATCH.TWEAK`, or empty.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// An address inside the library, to tell which module it is.
    pub fn address(&self) -> usize {
        self.functions.create as usize
    }

    /// Probes what this backend can express: which operations can be created, and which numbering of data types it has.
    pub fn capabilities(&'static self) -> Capabilities {
        let creatable = |kind: &i32| Descriptor::new(self, *kind).is_ok();
        let varying = self.accepts_data_type(data_type::FP8_E5M2_FNUZ);
        let data_types: Vec<DataType> = BACKEND_TYPES.iter().map(|(t, _)| *t).filter(|t| varying || !t.numbering_varies()).collect();
        Capabilities {
            backend_version: self.version.clone(),
            operations: hipdnn_abi::DESCRIPTORS.iter().filter(|d| d.is_operation).map(|d| d.kind).filter(creatable).collect(),
            data_types,
            plan_serialization: self.functions.serialize_plan.is_some() && self.functions.deserialize_plan.is_some(),
        }
    }

    /// Setting 17 succeeds only on the newest numbering of types 15 to 17, so it tells the versions apart.
    fn accepts_data_type(&'static self, number: i32) -> bool {
        Descriptor::new(self, descriptor_type::BACKEND_TENSOR_DESCRIPTOR)
            .and_then(|tensor| tensor.set_data_type(hipdnn_abi::attribute::TENSOR_DATA_TYPE, number))
            .is_ok()
    }

    /// Turns a status into a result; on failure takes the thread's error text with it.
    pub(super) fn check(&self, status: i32, function: &'static str, subject: impl FnOnce() -> String) -> Result<(), BackendError> {
        if status == hipdnn_abi::status::SUCCESS {
            return Ok(());
        }
        Err(BackendError { status, function, subject: subject(), message: self.take_last_error() })
    }

    fn take_last_error(&self) -> String {
        let Some(last_error) = self.functions.last_error else { return String::new() };
        let mut buffer = [0u8; 2048];
        // SAFETY: the buffer is writable for the size that is passed; the function NUL-terminates within it.
        unsafe { last_error(buffer.as_mut_ptr().cast(), buffer.len()) };
        let text = buffer.split(|&b| b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).replace('\n', "; ")
    }
}
