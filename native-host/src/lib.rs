//! The native host: runs the translator component, checks what it says, lowers it to hipDNN, caches and executes.
//!
//! Data flows one way, and the modules follow it:
//! a call's [`problem`] and its [`key`] → [`component`] (translation, sandboxed) → [`graph`] (as received) → [`validate`] → [`lower`] →
//! [`plan`] → execution ([`handle`], [`forward`]). [`backend`] and [`hip`] are the edges to the two native libraries; raw pointers
//! and C numbers stay there. No translation rule lives in this crate: [`rules`] holds only the host's own reasons to decline.

// TODO pub mod backend;
pub mod capabilities;
pub mod component;
pub mod data_type;
// TODO pub mod environment;
// TODO pub mod forward;
pub mod graph;
// TODO pub mod handle;
// TODO pub mod hip;
pub mod key;
// TODO pub mod lower;
// TODO pub mod plan;
pub mod problem;
pub mod rules;
// TODO pub mod trace;
// TODO pub mod translations;
pub mod validate;
