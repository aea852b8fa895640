//! The exported symbols: one jump each to the Rust function of the same name, written by the build script from `hip-abi`'s table.
//! Nothing else belongs here.

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
