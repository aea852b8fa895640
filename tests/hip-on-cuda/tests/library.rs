//! The library as a file.
#![allow(clippy::unwrap_used)]

/// What cargo calls it.
const FILE: &str = "libhip_on_cuda.so";

#[path = "../../hip-abi/checks/library.rs"]
mod library;
