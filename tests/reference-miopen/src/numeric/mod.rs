//! The arithmetic of convolution on strided tensors: products and sums in double precision, rounded once at the end. No checks of
//! arguments, no MIOpen types, no streams.
//!
//! A convolution joins three tensors, and any one of them is the result of the other two: the *small* grid (a convolution's output), the
//! *large* grid (its input) and the *filter*. Place `o` of the small grid meets place `o * stride + tap * dilation - pad` of the large one.
//! Images are brought into double precision so that each tap of the filter sees one shifted view of the large grid (`lattice`); then every
//! tap is one matrix product (`products`), or a loop over places where the matrices would be thin (`loops`). Besides the filter, only as
//! much is held in double precision at a time as is worked on: a few images if they are small, bands of rows or some groups if large.
//!
//! Infinities and NaNs go where the definition has them, with padding that is zeros: an infinite weight on padding gives NaN.

pub mod bias;
pub mod chain;
pub mod convolution;
mod format;
mod lattice;
mod loops;
mod products;
mod tensor;
mod work;

pub use format::{Format, Scale};
pub use lattice::Step;
pub use tensor::Tensor;
pub use work::{Use, Work};
