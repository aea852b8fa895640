//! Computing on the CPU: the engines of the profile that the environment chose, and what tests want of all of them.

use std::{
    ffi::CStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Executor, MiopenProvider, Reference};
use crate::{
    engine::{Provider, Session},
    error::{Error, Result},
};

/// The variable that chooses the profile.
const VARIABLE: &str = "REFERENCE_HIPDNN_PROFILE";

/// The CPU.
pub(crate) struct Cpu;

impl Provider for Cpu {
    fn version(&self) -> &'static CStr {
        c"0.4.0.reference"
    }

    /// The engines are part of this library, not of a plugin.
    fn plugin(&self) -> (String, String) {
        ("reference".into(), self.version().to_string_lossy().into_owned())
    }

    fn open(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(OnCpu { engines: engines()?, stream: AtomicUsize::new(0) }))
    }
}

/// `abi`: everything that the ABI expresses; `miopen-provider`: the limits of AMD's MIOpen provider.
fn engines() -> Result<Vec<Arc<dyn Executor>>> {
    match std::env::var(VARIABLE).unwrap_or_default().as_str() {
        "" | "abi" => Ok(vec![Arc::new(Reference)]),
        "miopen-provider" => Ok(vec![Arc::new(MiopenProvider)]),
        other => Err(Error::bad(format!("{VARIABLE}={other}: known profiles are abi and miopen-provider"))),
    }
}

struct OnCpu {
    engines: Vec<Arc<dyn Executor>>,
    stream: AtomicUsize,
}

impl Session for OnCpu {
    fn engines(&self) -> &[Arc<dyn Executor>] {
        &self.engines
    }

    fn set_stream(&self, stream: usize) -> Result<()> {
        self.stream.store(stream, Ordering::Relaxed);
        Ok(())
    }

    fn stream(&self) -> usize {
        self.stream.load(Ordering::Relaxed)
    }
}
