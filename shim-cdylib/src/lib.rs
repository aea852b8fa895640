//! `libMIOpen.so.1`: every public MIOpen symbol, in front of the native MIOpen.
//!
//! * `stubs`: the exported symbols, one jump each, and the slots they jump through.
//! * `native`: finding the native library. `callers`: whose calls are not the program's. `marker`: how the file is recognised.
//! * `frame`: a routed call as the machine sees it, and the boundary that no panic crosses. `ending`: calls that come too late.
//! * `routing`: which entry points are routed or recorded, and by what. `recording` and `records`: descriptors as their setters
//!   made them, and what was searched for. `forwarding`: routed calls, handed to the host as problems. `convert`, `errors`: MIOpen's
//!   numbers and statuses.
//!
//! No graph, plan or rule lives here: those are `hipdnn-host`'s. With forwarding off, this is a table of jumps to native and nothing
//! else of it runs after the first call.

#![allow(non_snake_case, reason = "the crate is named after the library that it is")]

mod callers;
mod convert;
mod ending;
mod errors;
mod forwarding;
mod frame;
mod marker;
mod native;
mod recording;
mod records;
mod routing;
mod stubs;
