//! The rules: which MIOpen problems become hipDNN operation graphs, which graphs, and which problems are declined and why.
//!
//! Pure: no I/O, no state, no clock, no imports. The same code is the WebAssembly component that the host runs (`component.rs`) and
//! this ordinary library, which tests and fuzzers call at full speed.
//!
//! One module per operation family ([`conv`], [`fusion`]), one for what they share ([`tensor`]), one for what a rule is ([`rule`]).
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod conv;
pub mod fusion;
pub mod manifest;
pub mod rule;
pub mod tensor;

#[cfg(target_arch = "wasm32")]
mod component;

/// The types of the contract (`wit/translator.wit`), generated from it.
#[allow(missing_docs, clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]
mod bindings {
    wit_bindgen::generate!({
        path: "../wit/translator.wit",
        world: "translator",
        additional_derives: [PartialEq],
        pub_export_macro: true,
    });
}

pub use bindings::exports::miopen_hipdnn::translator as contract;
