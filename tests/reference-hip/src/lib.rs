//! HIP on host memory, for tests: a `libamdhip64.so.7` with which programs built for ROCm start on a machine without a GPU.
//!
//! "Device" memory is host memory that this library keeps a list of; there are two devices. Every operation runs at once, in
//! the calling thread, so all streams and events are trivially in order; a program that needs true asynchrony to show its
//! faults is not served yet. Kernels cannot run: every module or launch function refuses with an error and one line on
//! stderr, because a stand-in that pretended to compute would let wrong numbers pass.
//!
//! Stream capture is real for what HIP itself does here (asynchronous copies and fills, host functions): they are recorded
//! and run when the graph is launched. Capture does not spread to other streams through events. Computation that other
//! libraries do on the CPU cannot be seen by this one and is never recorded: they must ask for the capture status.
//!
//! Only HIP's C functions belong here, one module per kind of object; nothing about MIOpen or hipDNN. Handles are numbers,
//! not addresses, and never reused: a stale or foreign one is told apart without reading memory.

mod device;
mod error;
mod event;
mod graph;
mod launch;
mod memory;
mod runtime;
mod stream;
#[cfg(test)]
mod tests;
