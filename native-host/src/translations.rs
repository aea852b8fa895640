//! What a problem was translated to. Independent of handles and devices.

use std::sync::Arc;

use crate::validate::ValidatedGraph;

/// Why a problem goes to native: which rule, and what exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// Rule id.
    pub rule: String,
    /// The offending values.
    pub message: String,
}

/// What a problem was translated to.
#[derive(Clone, Debug)]
pub enum Translated {
    /// A graph that may be lowered.
    Graph(Arc<ValidatedGraph>),
    /// A decline.
    Declined(Arc<Declined>),
}
