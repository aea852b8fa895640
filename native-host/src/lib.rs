//! The native host: runs the translator component, checks what it says, lowers it to hipDNN, caches and executes.
//!
//! Data flows one way, and the modules follow it:
//! a call's [`problem`] and its [`key`] → [`component`] (translation, sandboxed) → [`graph`] (as received) → [`validate`] → [`lower`] →
//! [`plan`] → execution ([`handle`], [`forward`]). What is found out on the way is remembered in [`cache`], under all that [`identity`] says
//! it depends on. [`backend`], [`hip`] and [`native`] are the edges to the libraries that others bring, which [`search`] finds; raw pointers
//! and C numbers stay there. What can be seen of it: [`trace`] while calls happen, [`phases`] and [`census`] in numbers, [`stats`] as the
//! file that the tools read. [`offline`] tries translators without a backend, for the tools and the fuzzers. No translation rule lives in this crate: [`rules`] holds only the host's own reasons to decline.

pub mod backend;
pub mod cache;
pub mod cancellation;
pub mod capabilities;
pub mod census;
pub mod component;
pub mod data_type;
pub mod entry_points;
pub mod environment;
pub mod files;
pub mod forward;
pub mod gate;
pub mod graph;
pub mod handle;
pub mod hip;
pub mod identity;
pub mod judge;
pub mod key;
pub mod lock;
pub mod lower;
pub mod marker;
pub mod modules;
pub mod native;
#[cfg(feature = "offline")]
pub mod offline;
pub mod phases;
pub mod plan;
pub mod problem;
pub mod release;
pub mod rules;
pub mod search;
pub mod stack;
pub mod stats;
pub mod trace;
pub mod translations;
pub mod translator;
pub mod validate;
pub mod verify;

/// The version of all that is built here: the shim, its tools, the built-in translator's host.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
