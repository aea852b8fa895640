//! The exported functions, generated from the API table, and the frame they run in. No behaviour of any function is here.

use std::panic::{AssertUnwindSafe, catch_unwind};

use miopen_api::status;

use crate::args::FromC;
use crate::calls;
use crate::failure::{Failure, Outcome};
use crate::throw;

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// Runs an implementation. A panic becomes a status; a C++ exception, where one is due, is thrown outside the code that
/// catches panics, because Rust aborts when it catches a foreign exception.
fn finish(name: &str, body: impl FnOnce() -> Outcome) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    match outcome {
        Ok(Ok(())) => status::SUCCESS,
        Ok(Err(failure)) => {
            if failure.throws {
                throw::if_asked();
            }
            report(name, &failure);
            failure.status
        }
        Err(_) => status::INTERNAL_ERROR,
    }
}

/// The real library prints one such line for every failing call.
fn report(name: &str, failure: &Failure) {
    eprintln!("MIOpen Error: {name}: {}", failure.message);
}

fn not_implemented(name: &str) -> i32 {
    eprintln!("reference MIOpen: {name} is not implemented");
    status::NOT_IMPLEMENTED
}
