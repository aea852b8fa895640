//! Translators looked at offline, without a backend: problems to try them on, and what must be true of whatever they answer.
//!
//! [`choices`] is where decisions come from (a seed, or a fuzzer's bytes); [`problems`] makes problems of them, bends them, and makes those
//! that show something smaller; [`examine`] says what a translator owes for each, and
//! [`repair`] what would have to be otherwise for one that is declined; [`graphs`] makes graphs as hostile translators might, and
//! [`proof`] judges them slowly and obviously, to compare the validator with. The tools `check`, `diff`, `explain` and `fuzz` and the
//! coverage-guided targets (`tests/fuzz`) are made of these. Nothing here is part of serving a call.

pub mod choices;
pub mod examine;
pub mod graphs;
pub mod problems;
pub mod proof;
pub mod repair;
