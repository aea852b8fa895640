//! The rules: which MIOpen problems become hipDNN operation graphs, which graphs, and which problems are declined and why.
//!
//! Pure: no I/O, no state, no clock, no imports. The same code is the WebAssembly component that the host runs (`component.rs`) and
//! this ordinary library, which tests and fuzzers call at full speed.
//!
//! One module per operation family ([`conv`], [`fusion`], [`activation`]), one for what they share ([`tensor`]), one for what a rule is ([`rule`]).
#![cfg_attr(all(target_arch = "wasm32", feature = "component"), no_std)]

extern crate alloc;

pub mod activation;
pub mod conv;
pub mod fusion;
pub mod manifest;
pub mod rule;
pub mod tensor;

#[cfg(all(target_arch = "wasm32", feature = "component"))]
mod component;

/// The types of the contract (`wit/`), generated from it, and the macro that exports what implements it.
#[allow(missing_docs, clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../wit/translator.wit", "../wit/activation.wit"],
        world: "miopen-hipdnn:translator/translator@1.1.0",
        additional_derives: [PartialEq],
        pub_export_macro: true,
    });
}

/// The interfaces of the contract, whichever version brought them.
pub mod contract {
    pub use super::bindings::exports::miopen_hipdnn::{
        translator1_0_0::{conv, fusion, graph, manifest},
        translator1_1_0::activation,
    };
}
