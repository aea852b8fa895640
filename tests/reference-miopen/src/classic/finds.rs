//! What Find found on a handle. The real library executes nothing else, and says 7 to it; this one insists on that for handles that are
//! made while the environment variable `REFERENCE_MIOPEN_STRICT_FIND` is set.

use miopen_api::{convolution_find_mode, status};

use crate::failure::{Outcome, fail};
use crate::problem::{OwnProblem, Problem};

/// Problems of a handle, each with an algorithm that Find listed for it.
#[derive(Default)]
pub struct Finds {
    strict: bool,
    found: Vec<(OwnProblem, i32)>,
}

/// How a problem was searched does not make it another one.
fn key(problem: &Problem) -> OwnProblem {
    let mut key = problem.own();
    key.conv.find_mode = convolution_find_mode::DEFAULT;
    key
}

impl Finds {
    /// As strict as the environment asks for.
    pub fn from_environment() -> Finds {
        Finds { strict: std::env::var_os("REFERENCE_MIOPEN_STRICT_FIND").is_some(), found: Vec::new() }
    }

    /// From now on nothing else is executed.
    #[cfg(test)]
    pub fn insist(&mut self) {
        self.strict = true;
    }

    /// Find listed an algorithm.
    pub fn add(&mut self, problem: &Problem, algorithm: i32) {
        if self.strict && self.check(problem, algorithm).is_err() {
            self.found.push((key(problem), algorithm));
        }
    }

    /// Whether an algorithm may execute.
    pub fn check(&self, problem: &Problem, algorithm: i32) -> Outcome {
        if self.strict && !self.found.contains(&(key(problem), algorithm)) {
            return Err(fail(status::UNKNOWN_ERROR, format!("Find did not list algorithm {algorithm} for this convolution")));
        }
        Ok(())
    }
}
