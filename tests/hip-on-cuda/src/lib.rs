//! HIP on the CUDA runtime, for tests: a `libamdhip64.so.7` with which programs built for ROCm use a GPU that has no ROCm, as far as they
//! launch no kernels of their own. Streams, events, graphs and addresses are CUDA's, handed through as they are, so that another library
//! that works with CUDA (cuDNN) can be given them.
//!
//! The CUDA runtime is loaded at the first call, from where `search` says; without one, or without a device, every function says
//! `hipErrorNoDevice`, and one line on stderr says why. What is exported, and under which version, is `hip-abi`'s table, as for the
//! reference HIP. The numbers of the two interfaces meet in `numbers` and nowhere else; `cuda` has the functions that are called.
//!
//! Where CUDA's runtime behaves otherwise than HIP's: host functions of different streams may run one after the other on one thread, and
//! must not call HIP at all; nothing survives a `fork`.
#![allow(non_snake_case)]

use hip_abi::{launch, registration};

mod capture;
mod cuda;
mod device;
mod error;
mod event;
mod graph;
mod memory;
mod numbers;
mod search;
mod stream;
mod stubs;
