//! A MIOpen on the CPU, for tests: real descriptor state, MIOpen's argument checks and statuses, and the classic convolutions and bias
//! calls, computed. It stands for the native library behind the shim (`libMIOpen_private.so.1`, every function as
//! `<name>_impl`), or with the feature `stock` for an ordinary `libMIOpen.so.1`. Device pointers are host pointers.
//!
//! Convolutions go in all three directions, plain and transposed, with groups, in one to three dimensions and any strides, in fp32, fp16,
//! bf16, fp64 and int8 (forward), and in vectorised layouts (forward); sums are in double precision and rounded once. They are queued on
//! the handle's stream, as kernels are: a call returns when its arguments are checked and its work is queued, and memory is touched in the
//! order of the stream. Find and, under profiling, every call wait for it. Without a HIP runtime in the process work is done at once.
//!
//! It reports version 3.5.1. What is not implemented returns `miopenStatusNotImplemented` and says so on stderr.
//! Where it differs from the real library on purpose:
//! * a convolution without a Find before it is accepted (the real one returns status 7), and Find knows one algorithm without workspace;
//! * any alpha and beta are computed (the real one returns status 6 to most of them in two dimensions, and in bias calls);
//! * int8 saturates as int8 output; what the real one does with numbers that do not fit depends on the kernel;
//! * NULL scalars give status 3 (the real one crashes);
//! * a destroyed or foreign handle gives status 3 (the real one crashes);
//! * a NULL `convDesc` throws a C++ exception only on request, see `throw`.
//!
//! Tests watch it from outside: `reference_miopen_calls(name)` counts calls, and `REFERENCE_MIOPEN_LOG` names a file that gets
//! a line per call with the raw argument bits. See `calls`.
//!
//! One module per family of functions; `args` holds what is unsafe about arguments, `numeric` about memory; the exported functions are
//! generated. Nothing of the
//! shim or of hipDNN belongs here, and the numeric code is shared with no other library.
#![allow(non_snake_case)]

mod args;
mod bias;
mod calls;
mod classic;
mod convolution;
mod exports;
mod failure;
mod handle;
mod immediate;
mod numeric;
mod problem;
mod tensor;
#[cfg(test)]
mod tests;
mod throw;
mod version;
