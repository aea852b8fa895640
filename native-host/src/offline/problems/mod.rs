//! Problems: making them, bending them, and making those that show something smaller.
//!
//! [`generate`] makes them, mostly sound; [`slots`] is the one walk over everything that a problem holds; [`mutate`] bends a part or the
//! structure to whatever MIOpen's API can be told; [`shrink`] looks for the simplest problem with a property; [`window`] is the arithmetic
//! of lengths. What a translator should answer is not known here.

pub mod generate;
pub mod mutate;
pub mod shrink;
pub mod slots;
pub mod window;
