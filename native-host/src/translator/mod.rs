//! Which translator serves this process: the built-in one, or the operator's file, if it is one that can.
//!
//! The file is read once, into memory of our own, by the first call that needs a translator: whatever happens to it later concerns processes
//! that start later. Its SHA-256 is part of every key under which its answers are kept, so what one translator said is never told in another's
//! name. How components are run is not here (see [`crate::component`]), nor who asks ([`crate::forward`]).

mod acceptance;
mod faults;
mod file;
pub mod manifest;

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

pub use self::{acceptance::self_check, faults::Faults};
#[cfg(feature = "cranelift")]
use crate::component::Code;
use crate::{
    component::{self, ComponentError, EMBEDDED, EMBEDDED_DIGEST, Translator},
    identity::hexadecimal,
};

/// The translator that the operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its file.
    pub path: PathBuf,
    /// What its SHA-256 must be, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Whether the built-in one may not serve instead of it.
    pub required: bool,
}

/// A translator that may serve: its bytes, not yet compiled or run.
pub struct Source {
    digest: [u8; 32],
    /// `None` for the built-in one.
    brought: Option<Brought>,
}

/// What somebody brought.
struct Brought {
    path: PathBuf,
    wasm: Vec<u8>,
}

impl Source {
    /// The built-in one.
    pub fn built_in() -> Self {
        Self { digest: EMBEDDED_DIGEST, brought: None }
    }

    /// The one that is wanted, as far as its bytes tell. The error is the reason to refuse it, for one line.
    pub fn read(wanted: &Wanted) -> Result<Self, String> {
        let source = Self::of_file(&wanted.path)?;
        let digest = hexadecimal(source.digest());
        match &wanted.sha256 {
            Some(pinned) if *pinned != digest => Err(format!("its SHA-256 is {digest}, not {pinned}")),
            _ => Ok(source),
        }
    }

    /// The one in a file, whichever it is.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        let wasm = file::read(path).map_err(|error| format!("it cannot be read: {error}"))?;
        Ok(Self { digest: Sha256::digest(&wasm).into(), brought: Some(Brought { path: path.into(), wasm }) })
    }

    /// SHA-256 of its bytes.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Whether it is the built-in one.
    pub fn is_built_in(&self) -> bool {
        self.brought.is_none()
    }

    /// Where it was read, if it was.
    pub fn path(&self) -> Option<&Path> {
        self.brought.as_ref().map(|brought| brought.path.as_path())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.brought.as_ref().map_or(EMBEDDED, |brought| &brought.wasm)
    }

    /// Loads it without any cache.
    pub fn load_anew(&self) -> Result<Translator, ComponentError> {
        // SAFETY: nothing is remembered.
        unsafe { self.load(|| None, |_| {}) }
    }

    /// Loads it without any cache, and tries it: what a process does that meets it for the first time.
    pub fn try_out(&self) -> Result<Translator, String> {
        let translator = self.load_anew().map_err(|error| error.to_string())?;
        self_check(&translator)?;
        Ok(translator)
    }

    /// Loads it. Compiled code of it is asked for with `remembered` and given to `remember`; only code from folders that nobody else can
    /// write may come back.
    ///
    /// # Safety
    /// What `remembered` answers must be what [`Code::compile`] made.
    pub unsafe fn load(
        &self,
        remembered: impl FnOnce() -> Option<component::Code>,
        remember: impl FnOnce(&component::Code),
    ) -> Result<Translator, ComponentError> {
        let Some(brought) = &self.brought else { return Translator::embedded() };
        // SAFETY: as the caller says.
        if let Some(translator) = remembered().and_then(|code| unsafe { Translator::load(&code, self.digest) }.ok()) {
            return Ok(translator);
        }
        let code = compile(&brought.wasm)?;
        remember(&code);
        // SAFETY: compiled just now.
        unsafe { Translator::load(&code, self.digest) }
    }
}

#[cfg(feature = "cranelift")]
fn compile(wasm: &[u8]) -> Result<Code, ComponentError> {
    Code::compile(wasm)
}

#[cfg(not(feature = "cranelift"))]
fn compile(_: &[u8]) -> Result<component::Code, ComponentError> {
    let message = "this build has no compiler; run `hipdnn-shim compile` once, with the same cache folder";
    Err(ComponentError::Load(message.into()))
}
