//! The cases, by subject. Each file lists its own.

mod layouts;
mod numerics;
mod others;
mod streams;
mod surface;

use crate::case::Case;

/// All cases, in the order of their numbers.
pub fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = [layouts::CASES, numerics::CASES, others::CASES, streams::CASES, surface::CASES].concat();
    cases.sort_by_key(|case| (case.number, case.name));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|case| (case.number, case.name)).collect();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
