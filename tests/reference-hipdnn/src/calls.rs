//! What every call of the ABI has in common: it is counted, logged, may fail on demand, leaves an error text, and never panics out.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use hipdnn_abi::{descriptor_type, status};

use crate::{
    error::{Error, Result},
    faults, journal, last_error, thread,
};

macro_rules! functions {
    ($($name:ident)*) => {
        /// The functions of the ABI that this library has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "the C names")]
        pub(crate) enum Function {
            $($name,)*
        }

        impl Function {
            const ALL: &[Function] = &[$(Function::$name,)*];

            /// The C name.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Function::$name => stringify!($name),)*
                }
            }
        }
    };
}

functions! {
    hipdnnCreate
    hipdnnDestroy
    hipdnnSetStream
    hipdnnGetStream
    hipdnnBackendCreateDescriptor
    hipdnnBackendDestroyDescriptor
    hipdnnBackendExecute
    hipdnnBackendFinalize
    hipdnnBackendGetAttribute
    hipdnnBackendSetAttribute
    hipdnnGetErrorString
    hipdnnGetLastErrorString
    hipdnnPeekLastErrorString_ext
    hipdnnGetVersion_ext
    hipdnnVersionString_ext
    hipdnnGetEngineCount_ext
    hipdnnGetEngineInfo_ext
    hipdnnGetEngineIdByName_ext
    hipdnnGetEngineNameById_ext
    hipdnnBackendGetSerializedExecutionPlan_ext
    hipdnnBackendCreateAndDeserializeExecutionPlan_ext
    hipdnnGetLoadedEnginePluginPaths_ext
    hipdnnSetEnginePluginPaths_ext
    hipdnnBackendSetGlobalLogLevel_ext
    hipdnnBackendGetGlobalLogLevel_ext
}

/// Threads count in different places, each in cache lines of its own, so that counting is nothing that they wait for each other for.
const PLACES: usize = 16;
static COUNTS: [Counts; PLACES] = [const { Counts([const { AtomicU64::new(0) }; Function::ALL.len()]) }; PLACES];

#[repr(align(128))]
struct Counts([AtomicU64; Function::ALL.len()]);

impl Function {
    /// The function with this C name.
    pub(crate) fn by_name(name: &str) -> Option<Function> {
        Self::ALL.iter().copied().find(|function| function.name() == name)
    }

    /// How often it was called, failed calls included.
    pub(crate) fn calls(self) -> u64 {
        COUNTS.iter().map(|counts| counts.0[self as usize].load(Ordering::Relaxed)).sum()
    }
}

/// Runs one call. `kind` tells the descriptor type that the call is about; it is asked only if somebody wants to know.
pub(crate) fn enter(function: Function, kind: impl FnOnce() -> Option<i32>, body: impl FnOnce() -> Result<()>) -> i32 {
    let run = || {
        let kind = if faults::is_on() || journal::is_on() { kind().map(kind_name) } else { None };
        let code = outcome(function, kind, body);
        journal::write(function.name(), kind, code);
        code
    };
    COUNTS[thread::number() % PLACES].0[function as usize].fetch_add(1, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(status::INTERNAL_ERROR)
}

fn outcome(function: Function, kind: Option<&str>, body: impl FnOnce() -> Result<()>) -> i32 {
    let faulty = if faults::is_on() { faults::check(function.name(), kind) } else { Ok(()) };
    let panicked = |_| Err(Error::new(status::INTERNAL_ERROR, "panic in the reference backend"));
    let result = faulty.and_then(|()| catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(panicked));
    match result {
        Ok(()) => status::SUCCESS,
        Err(error) => {
            last_error::set(&format!("{}: {}", function.name(), error.message));
            error.status
        }
    }
}

/// `EXECUTION_PLAN` for `HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR`.
pub(crate) fn kind_name(kind: i32) -> &'static str {
    let name = hipdnn_abi::name_in(descriptor_type::ALL, kind).unwrap_or("unknown descriptor");
    name.trim_start_matches("HIPDNN_BACKEND_").trim_end_matches("_EXT").trim_end_matches("_DESCRIPTOR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_one_of_the_abi_and_no_core_function_is_missing() {
        for function in Function::ALL {
            let name = function.name();
            assert!(hipdnn_abi::CORE_FUNCTIONS.contains(&name) || hipdnn_abi::EXTENSION_FUNCTIONS.contains(&name), "{name}");
        }
        for name in hipdnn_abi::CORE_FUNCTIONS {
            assert!(Function::by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let code = enter(Function::hipdnnGetVersion_ext, || None, || panic!("on purpose"));
        assert_eq!(code, status::INTERNAL_ERROR);
    }
}
