//! The find-2.0 style: a problem is described, solutions are found for it, run, saved, and loaded by another process. One module for each
//! kind of object; how a solution is written down is in `blob`. Only problems of one convolution exist here: activation, bias, softmax,
//! attention and fused problems are not implemented, and how a convolution computes is in `problem` and `numeric`.
//!
//! There is one solution, the same as in `immediate`, without workspace. Where the real one's behaviour is not known:
//! * a direction or tensor number that no convolution has is taken, and shows when solutions are asked for: status 6 and 2;
//! * values of find options are kept without a check, and a tensor or workspace given twice replaces the first;
//! * finding runs the solution once, on tensors of its own where none were given; the options, the number and the room for solutions may
//!   be missing or zero (no solution is then found, which is no failure), a place for solutions may not;
//! * a convolution that does not fit gives status 3 as in the other styles, one that cannot be computed 7;
//! * running takes each of X, W and Y once, and nothing else; a descriptor that comes with one replaces the problem's for that run;
//! * a blob that is damaged in any byte, shortened or lengthened gives status 7, as garbage does.

pub mod blob;
pub mod options;
pub mod problem;
pub mod solution;

use miopen_api::tensor_argument_id as id;

/// The tensors of a convolution, in the order x, w, y.
const TENSORS: [i32; 3] = [id::TENSOR_CONVOLUTION_X, id::TENSOR_CONVOLUTION_W, id::TENSOR_CONVOLUTION_Y];
