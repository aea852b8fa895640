//! Machine code of components: made once per machine, and kept where nobody else can change it. wasmtime believes what it is given, so the
//! code is only ever read from folders that are believed, with a digest, into memory of our own.

use serde::{Deserialize, Serialize};
#[cfg(feature = "cranelift")]
use wasmtime::Engine;

use super::Contract;
#[cfg(feature = "cranelift")]
use super::{ComponentError, limits, load_error, settings};
use crate::cache::{EntryKey, Kind, record};
#[cfg(feature = "cranelift")]
use crate::stack;

/// Stack for the compiler, in bytes: its recursion is the component's to choose.
#[cfg(feature = "cranelift")]
const COMPILER_STACK: usize = 16 << 20;

/// What decides what machine code looks like, and whether this host can run it: exactly this wasmtime, and these settings.
const MAKER: &str = concat!("wasmtime ", env!("WASMTIME_VERSION"), ", settings ", env!("COMPONENT_SETTINGS"));

/// A compiled component.
#[derive(Serialize, Deserialize)]
pub struct Code {
    /// The version of the contract that it speaks.
    pub(super) contract: String,
    pub(super) bytes: Vec<u8>,
}

/// What a component's code is found by on disk.
pub fn key(digest: &[u8; 32]) -> EntryKey {
    EntryKey::new(Kind::Compiled, &[MAKER.as_bytes(), digest])
}

impl Code {
    /// Compiles a component that somebody brings. Refused before that: anything with an import, without the exports of a contract version
    /// that the host speaks, or too large to be compiled in reasonable time. Whatever it is, it cannot use up the caller's stack.
    #[cfg(feature = "cranelift")]
    pub fn compile(wasm: &[u8]) -> Result<Self, ComponentError> {
        let contract = limits::inspect(wasm)?;
        let compiled = stack::on_another(COMPILER_STACK, || {
            let mut config = settings::config();
            config.target(settings::BASELINE_TARGET).and_then(|config| Engine::new(config))?.precompile_component(wasm)
        });
        let bytes = compiled.map_err(|error| ComponentError::Load(format!("no thread to compile it on: {error}")))?.map_err(load_error)?;
        Ok(Self { contract: contract.version().into(), bytes })
    }

    /// As a host takes it that speaks no version later than this one.
    #[must_use]
    pub fn for_hosts_of(self, newest: Contract) -> Self {
        let contract = self.contract().map_or(newest, |contract| contract.min(newest));
        Self { contract: contract.version().into(), ..self }
    }

    /// As it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        record::to_bytes(self)
    }

    /// From how it is kept.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        record::from_bytes(bytes)
    }

    /// Bytes of machine code.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The contract that it speaks, if the host still does.
    pub fn contract(&self) -> Option<Contract> {
        Contract::numbered(&self.contract)
    }
}
