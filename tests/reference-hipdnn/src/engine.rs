//! Which engines a handle has: the profile that its environment chose. What an engine can do is its executor's business.

use crate::{
    error::{Error, Result},
    executor::{self, Executor},
};

/// The variable that chooses the profile.
const VARIABLE: &str = "REFERENCE_HIPDNN_PROFILE";

/// The default selection policies of the real backend, by name; their ids are hashes of the names.
pub(crate) const POLICIES: &[&str] = &["SelectionHeuristic::Config", "SelectionHeuristic::StaticOrdering"];

/// A set of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Everything that the ABI expresses.
    Abi,
    /// The limits of AMD's MIOpen provider.
    MiopenProvider,
}

impl Profile {
    pub(crate) fn from_environment() -> Result<Self> {
        match std::env::var(VARIABLE).unwrap_or_default().as_str() {
            "" | "abi" => Ok(Self::Abi),
            "miopen-provider" => Ok(Self::MiopenProvider),
            other => Err(Error::bad(format!("{VARIABLE}={other}: known profiles are abi and miopen-provider"))),
        }
    }

    /// Best first.
    pub(crate) fn engines(self) -> &'static [&'static dyn Executor] {
        match self {
            Self::Abi => &[&executor::Reference],
            Self::MiopenProvider => &[&executor::MiopenProvider],
        }
    }

    pub(crate) fn engine(self, id: i64) -> Option<&'static dyn Executor> {
        self.engines().iter().copied().find(|engine| engine.id() == id)
    }
}
