//! The hipDNN backend on the CPU, for tests: a `libhipdnn_backend.so` with the real C ABI that is strict about it.
//!
//! Belongs here: the rules of the backend API (what may be set where, when, and which status answers a mistake), a CPU executor, and
//! what tests need to see and to provoke (call log, counters, faults). Does not belong here: anything about MIOpen, and anything that
//! would make a client's mistake work.
//!
//! Handles and descriptors are numbers, not addresses, and never reused: a stale or foreign one is told apart without reading memory.
//!
//! | environment variable | effect |
//! | --- | --- |
//! | `REFERENCE_HIPDNN_PROFILE` | `abi` (default): one engine for all that the ABI expresses; `miopen-provider`: one engine with the limits of AMD's MIOpen provider. Read by `hipdnnCreate` |
//! | `REFERENCE_HIPDNN_PLAN_MS` | simulated cost of finalizing a plan, in milliseconds (not of loading one). Read by `hipdnnCreate` |
//! | `REFERENCE_HIPDNN_FAULT` | calls that fail, see [`faults`]. Read at the first call |
//! | `REFERENCE_HIPDNN_LOG` | file to which one line is appended for every call. Read at the first call |
//!
//! The layers, outermost first: [`abi`] (raw pointers) → `calls` (counting, faults, panics) → `descriptor` (rules) → `graph` (what was
//! described, immutable) → [`engine`] (who may run it) → [`executor`] (running it). Another library that computes goes under the same
//! rules behind the traits of the last two: `tests/hipdnn-on-cudnn` is one.

pub mod abi;
mod bytes;
mod calls;
mod descriptor;
pub mod engine;
mod error;
mod execute;
pub mod executor;
pub mod faults;
pub mod graph;
mod handle;
mod journal;
mod last_error;
mod plan;
mod registry;
mod stream;
mod thread;
mod value;

pub use error::{Error, Result};
