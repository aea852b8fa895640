//! What every HIP runtime of the tests has in common: which functions it exports and under which versions (`exports.txt`, from which the
//! build scripts make stubs and a version script, see `build`), the error codes and the frame of a call, the structures that programs read,
//! and the functions that no runtime of ours can offer (kernels). How a stream, an event or memory comes about is each runtime's own.
#![allow(non_snake_case)]
#![deny(missing_docs)]

pub mod build;
pub mod device;
pub mod error;
pub mod launch;
pub mod memory;
pub mod registration;
