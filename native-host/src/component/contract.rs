//! The versions of the contract that the host speaks. Which one a component was made for is read from its exports' names, before anything
//! is compiled: a lookup in the compiled component takes a compatible version for the one that was asked for.

use wasmtime::{
    Result, Store,
    component::{Component, Instance as Instantiated, InstancePre, Linker},
};

use super::{Description, State, v1_0, v1_1};
use crate::{
    capabilities::Capabilities,
    graph::{ReceivedDecline, ReceivedGraph},
    problem::Problem,
};

/// A version of the contract. A later one has everything of those before it; what each adds has a frozen module of its own, which converts to
/// and from the host's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contract {
    /// 1.0.0: convolutions, chains.
    V1_0,
    /// 1.1.0: and activations.
    V1_1,
}

impl Contract {
    /// All that the host speaks, newest first.
    pub const ALL: &[Contract] = &[Contract::V1_1, Contract::V1_0];

    /// The newest one.
    pub const NEWEST: Contract = Contract::ALL[0];

    /// The export that makes a component one of this version.
    pub fn mark(self) -> &'static str {
        match self {
            Self::V1_0 => v1_0::MANIFEST,
            Self::V1_1 => v1_1::ACTIVATION,
        }
    }

    /// Its number.
    pub fn version(self) -> &'static str {
        self.mark().rsplit('@').next().unwrap_or_default()
    }

    /// The version that a component with these exports is of; none if they lack what all versions have.
    pub fn of<'a>(exports: impl IntoIterator<Item = &'a str> + Clone) -> Option<Self> {
        let has = |mark: &str| exports.clone().into_iter().any(|export| export == mark);
        if !has(v1_0::MANIFEST) {
            return None;
        }
        Self::ALL.iter().copied().find(|contract| has(contract.mark()))
    }

    /// The version with a number.
    pub fn numbered(version: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|contract| contract.version() == version)
    }
}

/// A component's exports, to find interfaces among.
pub(super) struct Found<'a> {
    pub component: &'a Component,
    pub store: &'a mut Store<State>,
    pub pre: InstancePre<State>,
    pub instance: Instantiated,
}

impl Found<'_> {
    /// Whether there is an interface of this name.
    pub fn exports(&self, name: &str) -> bool {
        self.component.get_export_index(None, name).is_some()
    }
}

/// The guest's side of an interface.
macro_rules! guest {
    ($wit:ident::$interface:ident, $found:expr) => {
        $wit::$interface::GuestIndices::new(&$found.pre)?.load(&mut *$found.store, &$found.instance)
    };
}
pub(super) use guest;

/// An instance, spoken to in its version.
pub(super) struct Exports {
    v1_0: v1_0::Instance,
    v1_1: Option<v1_1::Instance>,
}

impl Exports {
    pub fn new(contract: Contract, store: &mut Store<State>, component: &Component, linker: &Linker<State>) -> Result<Self> {
        let pre = linker.instantiate_pre(component)?;
        let instance = pre.instantiate(&mut *store)?;
        let mut found = Found { component, store, pre, instance };
        let v1_1 = (contract >= Contract::V1_1).then(|| v1_1::Instance::new(&mut found)).transpose()?;
        Ok(Self { v1_0: v1_0::Instance::new(&mut found)?, v1_1 })
    }

    pub fn describe(&self, store: &mut Store<State>) -> Result<Description> {
        self.v1_0.describe(store)
    }

    /// Asks for the graph of a problem; `None` if the component does not translate the family.
    pub fn translate(
        &self,
        store: &mut Store<State>,
        problem: &Problem<'_>,
        capabilities: &Capabilities,
    ) -> Result<Option<std::result::Result<ReceivedGraph, ReceivedDecline>>> {
        match (problem, &self.v1_1) {
            (Problem::Activation(problem), Some(v1_1)) => v1_1.translate(store, problem, capabilities).map(Some),
            _ => self.v1_0.translate(store, problem, capabilities),
        }
    }
}
