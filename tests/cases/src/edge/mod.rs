//! The edge to the libraries, as any program has them: MIOpen (the shim or a native one), HIP, and the test functions of the reference
//! hipDNN where that is the backend. All unsafe code of this crate is in this folder; nothing here decides what is called when.

mod backend;
mod convolution;
mod fusion;
mod hip;
mod miopen;
mod objects;
mod others;
mod solutions;

use std::{
    env,
    ffi::{OsStr, c_int},
    fmt,
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};
use miopen_api::status;

pub use backend::{Faults, ReferenceBackend};
pub use convolution::{Call, Direction, Scalar, Workspace};
pub use fusion::{FusionArguments, FusionPlan, Operation, Other};
pub use hip::{Capture, Gate, Graph, Hip, Memory, Stream};
pub use miopen::MiOpen;
pub use objects::{Object, Owned};
pub use others::{BatchNormTensors, DropoutState, Operand, RnnDescriptors, RnnShape, RnnSizes};
pub use solutions::{Argument, Solution};

/// What a MIOpen call returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(pub i32);

impl Status {
    /// `miopenStatusSuccess`.
    pub const SUCCESS: Self = Self(status::SUCCESS);

    /// Whether it is success.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }

    /// Success, or an error that names the call.
    pub fn check(self, call: &str) -> Result<()> {
        if self.is_success() { Ok(()) } else { Err(CallError { call: call.to_string(), status: self }.into()) }
    }
}

/// A call that did not succeed.
#[derive(Debug)]
pub struct CallError {
    call: String,
    /// What it returned.
    pub status: Status,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} returned {}", self.call, self.status)
    }
}

impl std::error::Error for CallError {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = status::ALL.iter().find(|(_, value)| *value == self.0).map_or("unknown status", |(name, _)| name);
        write!(f, "{} {name}", self.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The libraries of this process. Never unloaded: neither can be.
pub struct Libraries {
    /// MIOpen.
    pub miopen: MiOpen,
    /// HIP.
    pub hip: Hip,
}

impl Libraries {
    /// Loads them: HIP first, as a program that is linked with both has it. A path in `FIELD_CASES_MIOPEN` takes the place of the name that
    /// programs ask the loader for; HIP's is the path that the shim is told, if it is told one.
    pub fn load() -> Result<&'static Self> {
        let hip = Self::hip()?;
        let miopen = load("MIOpen", "FIELD_CASES_MIOPEN", &[miopen_api::SONAME])?;
        Ok(Box::leak(Box::new(Self { miopen: MiOpen::resolve(miopen)?, hip })))
    }

    /// HIP alone.
    pub fn hip() -> Result<Hip> {
        Hip::resolve(load("HIP", "MIOPEN_HIPDNN_HIP_LIBRARY", &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"])?)
    }
}

fn load(what: &str, variable: &str, names: &[&str]) -> Result<&'static Library> {
    let named = env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Global and lazy, as the loader treats a library that a program is linked with.
    // SAFETY: loading runs the library's initialisers, as for any program that uses it.
    let open = |name: &OsStr| unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_GLOBAL) };
    let library = match named {
        Some(path) => open(path.as_os_str()).with_context(|| format!("{what} {}", path.display()))?,
        None => {
            let found = names.iter().find_map(|name| open(OsStr::new(name)).ok());
            found.with_context(|| format!("the loader finds no {}, and {variable} names none", names.join(" or ")))?
        }
    };
    Ok(Box::leak(Box::new(library)))
}

/// Declares a struct of C functions, and how it is resolved.
macro_rules! functions {
    ($(#[$meta:meta])* $name:ident { $($field:ident $symbol:literal ($($parameter:ty),* $(,)?);)* }) => {
        $(#[$meta])*
        pub(super) struct $name {
            $(pub(super) $field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl $name {
            pub(super) fn resolve(library: &Library) -> Result<Self> {
                Ok(Self { $($field: crate::edge::symbol(library, $symbol)?,)* })
            }
        }
    };
}
use functions;

/// A function of a library. Its type is the caller's word.
fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: the C functions that are looked up have had the types that are written beside their names in every release.
    unsafe { library.get::<T>(name) }.map(|symbol| *symbol).with_context(|| format!("no {name}"))
}

/// C integers; what does not fit becomes negative, which no call takes.
fn ints(values: &[usize]) -> Vec<c_int> {
    values.iter().map(|value| c_int::try_from(*value).unwrap_or(-1)).collect()
}
