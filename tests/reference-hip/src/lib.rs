//! HIP on host memory, for tests: a `libamdhip64.so.7` with which programs built for ROCm start on a machine without a GPU.
//!
//! "Device" memory is host memory that this library keeps a list of. There are two devices, each with its own memory budget,
//! streams and null stream. Kernels cannot run: every module or launch function refuses with an error and one line on stderr,
//! because a stand-in that pretended to compute would let wrong numbers pass. Registering kernels, as programs that contain
//! some do on being loaded, succeeds.
//!
//! Streams are real queues: what is asynchronous in HIP is done by a thread of the stream, never by the caller, and ordered as
//! HIP orders it: within a stream, by events, and by the null stream of a device. Copies from and to pageable host memory are
//! asynchronous too, where a GPU might have them done on return; so a program that reuses such memory too early is caught.
//! Work that gets its turn after its memory was freed ends the process, as a page fault of a GPU does.
//!
//! A host function may block for as long as it likes. HIP forbids it to call HIP; here, such calls work but for those that
//! would have to wait, which fail with `hipErrorNotSupported` instead of waiting for their own end. A child process after `fork`
//! (which HIP does not promise to survive) keeps memory and handles and can go on; work that was queued in the parent is dropped
//! in the child. Nothing is done on load: no thread, no allocation.
//!
//! Stream capture is real for what HIP itself does here (copies and fills, host functions, graphs): it is recorded and run, in
//! the order of the capture, when the graph is launched. Capture spreads to other streams through events. Computation that other
//! libraries do on the CPU cannot be seen by this one and is neither recorded nor ordered: they must submit host functions.
//!
//! Only HIP's C functions belong here, one module per kind of object, and in `runtime` the rules that they share; nothing about
//! MIOpen or hipDNN. What is exported, and under which version, is said in `hip-abi`'s table. Handles are numbers, not addresses, and
//! never reused: a stale or foreign one is told apart without reading memory.
#![allow(non_snake_case)]

use hip_abi::{error, launch, registration};

mod capture;
mod device;
mod event;
mod graph;
mod memory;
mod runtime;
mod stream;
mod stubs;
#[cfg(test)]
mod tests;
