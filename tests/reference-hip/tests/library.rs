//! The library as a file.
#![allow(clippy::unwrap_used)]

/// What cargo calls it.
const FILE: &str = "libamdhip64.so";

#[path = "../../hip-abi/checks/library.rs"]
mod library;
