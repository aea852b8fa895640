//! A MIOpen on the CPU, for tests: real descriptor state, MIOpen's argument checks and statuses, and convolutions, computed, in every
//! style in which programs ask for them. It stands for the native library behind the shim (`libMIOpen_private.so.1`, every function as
//! `<name>_impl`), or with the feature `stock` for an ordinary `libMIOpen.so.1`. It computes on the CPU wherever the tensors are: memory that
//! the CPU does not reach (of a GPU) is copied before and after, as further work of the stream.
//!
//! The styles are folders: `classic` (Find, then execution with an algorithm and scalars), `immediate` (solutions by number), `find2`
//! (problems, solutions, and solutions saved for another process) and `fusion` (plans of a convolution, bias, batch normalisation and
//! activation, and the one call for a convolution, bias and RELU). All reduce a call to a `problem`, so they agree bit for bit. Each
//! folder's first file says what is chosen where the real one's behaviour is not known.
//!
//! Convolutions go in all three directions, plain and transposed, with groups, in one to three dimensions and any strides, in fp32, fp16,
//! bf16, fp64 and int8 (forward), and in vectorised layouts (forward); fused ones forward only, in fp32, fp16 and bf16 (the one call also
//! in fp64 and int8). Sums are in double precision and rounded once. They are queued on the handle's stream, as kernels are: a call returns
//! when its arguments are checked and its work is queued, and memory is touched in the order of the stream. Find and, under profiling,
//! every call wait for it. Without a HIP runtime in the process work is done at once.
//!
//! It reports version 3.5.1. What is not implemented returns `miopenStatusNotImplemented` and says so on stderr.
//! Where it differs from the real library on purpose:
//! * a convolution without a Find before it is accepted (the real one returns status 7; so does this one with
//!   `REFERENCE_MIOPEN_STRICT_FIND`, see `classic::finds`), and Find knows one algorithm without workspace;
//! * there is one solution, with a number that no real solver has and without workspace, in `immediate` and `find2`;
//! * any alpha and beta are computed (the real one returns status 6 to most of them in two dimensions, and in bias calls);
//! * int8 saturates as int8 output; what the real one does with numbers that do not fit depends on the kernel;
//! * NULL scalars give status 3 (the real one crashes);
//! * a destroyed or foreign handle gives status 3 (the real one crashes);
//! * a NULL `convDesc` throws a C++ exception only on request, see `throw`.
//!
//! Tests watch it from outside: `reference_miopen_calls(name)` counts calls, and `REFERENCE_MIOPEN_LOG` names a file that gets
//! a line per call with the raw argument bits. See `calls`.
//!
//! One module, or folder, per family of functions; `args` holds what is unsafe about arguments, `numeric` about memory; the exported
//! functions are generated. Nothing of the shim or of hipDNN belongs here, and the numeric code is shared with no other library.
#![allow(non_snake_case)]

mod activation;
mod args;
mod bias;
mod calls;
mod classic;
mod convolution;
mod exports;
mod failure;
mod find2;
mod fusion;
mod handle;
mod immediate;
mod numeric;
mod problem;
mod tensor;
#[cfg(test)]
mod tests;
mod throw;
mod version;
