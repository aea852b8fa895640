//! A MIOpen on the CPU, for tests: real descriptor state, MIOpen's argument checks and statuses, and computation of what the
//! shim forwards. It stands for the native library behind the shim (`libMIOpen_private.so.1`, every function as
//! `<name>_impl`), or with the feature `stock` for an ordinary `libMIOpen.so.1`. Device pointers are host pointers.
//!
//! It reports version 3.5.1. What is not implemented returns `miopenStatusNotImplemented` and says so on stderr.
//! Where it differs from the real library on purpose:
//! * a Forward without a Find before it is accepted (the real one returns status 7);
//! * NULL scalars give status 3 (the real one crashes);
//! * a destroyed or foreign handle gives status 3 (the real one crashes);
//! * a NULL `convDesc` throws a C++ exception only on request, see `throw`.
//!
//! Tests watch it from outside: `reference_miopen_calls(name)` counts calls, and `REFERENCE_MIOPEN_LOG` names a file that gets
//! a line per call with the raw argument bits. See `calls`.
//!
//! One module per family of functions; `args` holds everything unsafe; the exported functions are generated. Nothing of the
//! shim or of hipDNN belongs here, and the numeric code is shared with no other library.
#![allow(non_snake_case)]

mod args;
mod calls;
mod convolution;
mod exports;
mod failure;
mod forward;
mod handle;
mod numeric;
mod tensor;
#[cfg(test)]
mod tests;
mod throw;
mod version;
