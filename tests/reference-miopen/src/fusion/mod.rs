//! The fusion style: a plan lists operations, is compiled, and is executed with arguments that belong to the operations; and the call that
//! fuses a convolution, a bias and an activation without a plan. One module for each kind of object. What is computed is in `numeric`:
//! in double precision and rounded once, without rounding between operations.
//!
//! Plans that compile: convolution, bias; convolution, [bias,] activation; convolution, [bias,] batch normalisation, activation; batch
//! normalisation, activation. Forward and in inference only, from fp32, fp16 and bf16, in plain layouts, not transposed; everything else
//! is an unsupported operation (status 8). Operations of training and backward ones are not implemented (status 6).
//! Where the real one's behaviour is not known:
//! * an operation that does not fit what the plan has so far is refused when it is added, with status 3, and is then not in the plan;
//!   biases and parameters that do not fit the tensor are refused by compilation, with 8;
//! * adding an operation to a compiled plan makes it uncompiled;
//! * alpha and beta of operations are not looked at, as by the real one;
//! * execution takes exactly the input that was planned, and any strides of the output;
//! * setting an algorithm takes any of the enum; the two that are listed are always the same (direct, winograd);
//! * NaN stays NaN in every activation, and a power is what the definition says, also of numbers that are not positive.

pub mod arguments;
pub mod execute;
pub mod one_call;
pub mod operation;
pub mod plan;
