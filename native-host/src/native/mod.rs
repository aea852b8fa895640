//! The native MIOpen: where it is looked for (`search`), and how it is opened and asked for its functions (`library`). Never the library
//! that asks.

mod library;
pub mod search;

pub use library::{Library, Names};
