//! Running translator components: load, instantiate, call, contain.
//!
//! Everything a component says is untrusted; a trap, a timeout or an overflow is an error here and costs its instance, nothing else.
//! What the answers mean is not decided here (see [`crate::validate`]).

mod code;
mod contract;
#[cfg(feature = "cranelift")]
mod interface;
#[cfg(feature = "cranelift")]
mod limits;
mod settings;
mod signals;
mod v1_0;
mod v1_1;

#[cfg(feature = "cranelift")]
pub use interface::{Interface, interface_of};
pub use {
    code::{Code, key as code_key},
    contract::Contract,
};

use std::{borrow::Cow, sync::OnceLock};

use serde::{Deserialize, Serialize};
#[cfg(feature = "cranelift")]
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime::{
    Config, Engine, Store, StoreLimits, StoreLimitsBuilder,
    component::{Component, Linker},
};

use crate::{
    capabilities::Capabilities,
    graph::{ReceivedDecline, ReceivedGraph},
    lock::Mutex,
    problem::Problem,
};

/// The newest world: it includes those before it, whose interfaces keep their versions.
#[allow(missing_docs, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod bindings {
    wasmtime::component::bindgen!({
        path: ["../wit/translator.wit", "../wit/activation.wit"],
        world: "miopen-hipdnn:translator/translator@1.1.0",
    });
}

/// Bytes of a component that somebody brings; more are neither read nor compiled. The built-in one has 140 KiB.
pub const MAX_BYTES: usize = 1 << 20;
/// Fuel for one call: a thousand times what a translation needs, about a millisecond.
const FUEL: u64 = 10_000_000;
/// Linear memory of one instance, in bytes.
const MAX_MEMORY: usize = 16 << 20;
/// Bytes of host memory that one reply may make us allocate.
const MAX_REPLY: usize = 1 << 20;
/// Instances kept for reuse. More threads translating at once make more instances; these are dropped afterwards.
const POOL: usize = 8;

/// The embedded translator, precompiled for the baseline processor by the build script.
static EMBEDDED_PRECOMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/translator.cwasm"));
/// The embedded translator as WebAssembly.
pub static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/translator.wasm"));
/// Its SHA-256.
pub static EMBEDDED_DIGEST: [u8; 32] = *include_bytes!(concat!(env!("OUT_DIR"), "/translator.sha256"));

/// The contract that it speaks.
pub const EMBEDDED_CONTRACT: Contract = Contract::NEWEST;

/// The engine's settings. wasmtime reads a variable when it makes them, so they are made when the environment is read.
static CONFIG: OnceLock<Config> = OnceLock::new();

/// Makes the settings now. No engine, no thread, no memory of WebAssembly.
pub fn prepare() {
    config();
}

fn config() -> &'static Config {
    CONFIG.get_or_init(settings::config)
}

/// Why a component cannot be used, or did not answer.
#[derive(Debug, Error)]
pub enum ComponentError {
    /// It could not be loaded.
    #[error("the translator cannot be loaded: {0}")]
    Load(String),
    /// It trapped, or exceeded its fuel, stack or memory.
    #[error("the translator trapped: {0}")]
    Trap(String),
    /// It has no interface for the family.
    #[error("the translator does not translate {0}")]
    Family(&'static str),
}

/// Stages of loading a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// wasmtime's engine exists.
    Engine,
    /// The precompiled component is in memory.
    Load,
    /// It has an instance, and has said what it is.
    Instantiate,
}

/// An id and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Stable identifier.
    pub id: String,
    /// One line.
    pub reason: String,
}

/// What a component says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Semantic version of its rules.
    pub version: String,
    /// Operation families that it translates.
    pub families: Vec<String>,
    /// Every rule that a decline may name.
    pub rules: Vec<Entry>,
    /// Every note that a translation may carry.
    pub notes: Vec<Entry>,
}

/// State of a store: its limits.
pub struct State {
    limits: StoreLimits,
}

struct Instance {
    store: Store<State>,
    exports: contract::Exports,
}

/// A loaded component and a pool of its instances.
pub struct Translator {
    engine: Engine,
    component: Component,
    contract: Contract,
    digest: [u8; 32],
    description: Description,
    idle: Mutex<Vec<Instance>>,
}

impl Translator {
    /// Loads the embedded translator. Nothing is compiled.
    pub fn embedded() -> Result<Self, ComponentError> {
        Self::embedded_observed(|_| {})
    }

    /// As [`Translator::embedded`], saying which stage is done: what a cold start costs is measured from here.
    pub fn embedded_observed(mut done: impl FnMut(Stage)) -> Result<Self, ComponentError> {
        let engine = Engine::new(config()).map_err(load_error)?;
        done(Stage::Engine);
        // SAFETY: the bytes are part of this library, written by its own build script with the same wasmtime and the same settings;
        // nobody can have changed them without being able to change the library itself.
        let component = unsafe { Component::deserialize(&engine, EMBEDDED_PRECOMPILED) }.map_err(load_error)?;
        done(Stage::Load);
        let translator = Self::new(engine, component, EMBEDDED_CONTRACT, EMBEDDED_DIGEST)?;
        done(Stage::Instantiate);
        Ok(translator)
    }

    /// Compiles a component that somebody brings, see [`Code::compile`].
    #[cfg(feature = "cranelift")]
    pub fn compile(wasm: &[u8]) -> Result<Self, ComponentError> {
        let code = Code::compile(wasm)?;
        // SAFETY: compiled just now, by the same wasmtime.
        unsafe { Self::load(&code, Sha256::digest(wasm).into()) }
    }

    /// Loads a component from its machine code.
    ///
    /// # Safety
    /// The code must be what [`Code::compile`] made: whoever can change it can do whatever this process can.
    pub unsafe fn load(code: &Code, digest: [u8; 32]) -> Result<Self, ComponentError> {
        let contract = code.contract().ok_or_else(|| ComponentError::Load(format!("it was compiled for {}", code.contract)))?;
        let engine = Engine::new(config()).map_err(load_error)?;
        // SAFETY: as the caller says.
        let component = unsafe { Component::deserialize(&engine, &code.bytes) }.map_err(load_error)?;
        Self::new(engine, component, contract, digest)
    }

    fn new(engine: Engine, component: Component, contract: Contract, digest: [u8; 32]) -> Result<Self, ComponentError> {
        let empty = Description { name: String::new(), version: String::new(), families: vec![], rules: vec![], notes: vec![] };
        let mut translator = Self { engine, component, contract, digest, description: empty, idle: Mutex::new(Vec::new()) };
        translator.description = translator.with_instance(|instance| instance.exports.describe(&mut instance.store))?;
        Ok(translator)
    }

    /// The version of the contract that the host speaks with it.
    pub fn contract(&self) -> Contract {
        self.contract
    }

    /// The same component without an instance: what it answers then depends on nothing that was asked before.
    #[cfg(feature = "offline")]
    pub fn fresh(&self) -> Self {
        let (engine, component, description) = (self.engine.clone(), self.component.clone(), self.description.clone());
        Self { engine, component, contract: self.contract, digest: self.digest, description, idle: Mutex::new(Vec::new()) }
    }

    /// What the component says about itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// SHA-256 of the component's bytes.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Asks for the graph of a problem.
    pub fn translate(
        &self,
        problem: &Problem<'_>,
        capabilities: &Capabilities,
    ) -> Result<Result<ReceivedGraph, ReceivedDecline>, ComponentError> {
        let reply = self.with_instance(|instance| instance.exports.translate(&mut instance.store, problem, capabilities))?;
        reply.ok_or(ComponentError::Family(problem.family().name()))
    }

    /// Runs a call on an idle instance, or a fresh one. An instance that trapped cannot be entered again and is dropped.
    fn with_instance<T>(&self, call: impl FnOnce(&mut Instance) -> wasmtime::Result<T>) -> Result<T, ComponentError> {
        let refused = || ComponentError::Trap("the thread's signal stack cannot be kept as it is".into());
        signals::preserved(|| self.run(call)).ok_or_else(refused)?
    }

    fn run<T>(&self, call: impl FnOnce(&mut Instance) -> wasmtime::Result<T>) -> Result<T, ComponentError> {
        let idle = self.idle.lock().pop();
        let mut instance = match idle {
            Some(instance) => instance,
            None => self.instantiate().map_err(trap_error)?,
        };
        instance.store.set_fuel(FUEL).map_err(trap_error)?;
        instance.store.set_hostcall_fuel(MAX_REPLY);
        let answer = call(&mut instance).map_err(trap_error)?;
        let mut idle = self.idle.lock();
        if idle.len() < POOL {
            idle.push(instance);
        }
        Ok(answer)
    }

    fn instantiate(&self) -> wasmtime::Result<Instance> {
        let limits = StoreLimitsBuilder::new().memory_size(MAX_MEMORY).memories(4).tables(4).table_elements(10_000).instances(16).build();
        let mut store = Store::new(&self.engine, State { limits });
        store.limiter(|state| &mut state.limits);
        store.set_fuel(FUEL)?;
        let exports = contract::Exports::new(self.contract, &mut store, &self.component, &Linker::new(&self.engine))?;
        Ok(Instance { store, exports })
    }
}

fn load_error(error: wasmtime::Error) -> ComponentError {
    ComponentError::Load(one_line(format!("{error:#}")))
}

fn trap_error(error: wasmtime::Error) -> ComponentError {
    ComponentError::Trap(one_line(format!("{error:#}")))
}

fn one_line(text: String) -> String {
    let text: Cow<'_, str> = if text.contains('\n') { text.replace('\n', "; ").into() } else { text.into() };
    text.into_owned()
}
