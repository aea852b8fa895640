//! The library through its own exported functions, as a program calls them. One file per promise; what they share is in `c`.
//! Captures are visible to the whole process, so tests run one at a time. No test measures time or sleeps.
#![allow(clippy::unwrap_used)]

mod basics;
mod c;
mod capture;
mod devices;
mod order;
mod process;
