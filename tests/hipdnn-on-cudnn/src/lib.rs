//! A `libhipdnn_backend.so` that computes with cuDNN: the shim's own binary on a real GPU, with real streams, real asynchrony, real costs
//! of plans and plans that can be saved.
//!
//! Belongs here: how hipDNN's operation graphs become cuDNN's, which of cuDNN's engines take them, and running those. The rules of the ABI
//! are not written here: they are those of `tests/reference-hipdnn`, whose functions this library exports ([`hipdnn_backend::engine`] is the
//! seam). Streams are CUDA's, as they are in the HIP library of `tests/hip-on-cuda`.
//!
//! The edges: [`cudnn`] and [`cuda`], over `libraries` (loading) and `search` (where). The layers: [`lower`] (graph → graph, as data) → `realize` (data → descriptors) → `ranking` (which
//! engines there are) → `engine` and `plan` (one of them, for one graph) → `session` (one handle).
//!
//! | environment variable | effect |
//! | --- | --- |
//! | `HIPDNN_ON_CUDNN_LIBRARY` | this `libcudnn.so.9`, instead of the one that the loader or the Python beside `python3` has |
//! | `HIPDNN_ON_CUDNN_DEVICE_PROPERTIES` | a file with a device's properties as cuDNN's JSON: plans are made for that device, which need not be there, and cannot be executed |
//!
//! Numbers are what hipDNN's clients expect of the types that they named: engines that would round floats to TF32 are left out, and so are
//! those that convert inputs down or sum in less than the compute type.

pub mod cuda;
pub mod cudnn;
mod engine;
mod libraries;
pub mod lower;
mod plan;
mod ranking;
mod realize;
mod search;
mod session;

/// Names cuDNN as what computes, when the library is loaded: before anybody can call a function of it.
extern "C" fn register() {
    hipdnn_backend::engine::compute_with(&session::Cudnn);
}

#[used]
// SAFETY: the section holds addresses of functions without arguments that the loader calls; this is one, and it only stores a reference.
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

/// For programs that link this crate, in which the loader may have nothing to call: the same.
pub fn compute_with_cudnn() {
    register();
}
