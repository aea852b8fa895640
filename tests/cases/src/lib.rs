//! Cases from the field, run through MIOpen's public API only, and judged by the definition of what was asked for, never by another run.
//!
//! `edge` has the libraries, `problem` what a convolution is, `definition` what it must give, `memory` the poisoned and guarded buffers,
//! `trial` the ways in which programs ask for a convolution, `case` what a case is and what it reports, `cases` the cases, `parity` the
//! comparison of runs with forwarding off, on, and strict, `random` a property over random problems.

#![deny(unsafe_code)]

pub mod case;
pub mod cases;
pub mod definition;
#[allow(unsafe_code, reason = "all of it is there")]
pub mod edge;
pub mod fused;
pub mod memory;
pub mod parity;
pub mod problem;
pub mod random;
pub mod report;
pub mod session;
pub mod trace;
pub mod trial;
