//! The exported functions that add a bias to a tensor and compute its gradient. Their arithmetic is in `numeric`.

use miopen_api::{data_type, status};

use crate::args::{Obj, Raw};
use crate::classic::Operand;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::handle::Handle;
use crate::numeric::bias::{Bias, Operation};
use crate::problem::{in_memory, scale};
use crate::tensor::Tensor;

/// A tensor and a bias that fits it. Like the real ones, these calls do not take bfloat16, and look at the descriptors outside what is
/// caught.
fn check(tensor: &Operand, bias: &Operand) -> Outcome {
    if tensor.0.is_null() || bias.0.is_null() {
        return Err(Failure { throws: true, ..bad("a tensor descriptor is null") });
    }
    let (t, b) = (tensor.0.get()?, bias.0.get()?);
    if t.data_type == data_type::BFLOAT16 || b.data_type == data_type::BFLOAT16 {
        return Err(fail(status::NOT_IMPLEMENTED, "bfloat16 is not supported for bias operations"));
    }
    if tensor.1.0.is_null() || bias.1.0.is_null() {
        return Err(bad("a tensor's memory is null"));
    }
    if t.data_type != b.data_type {
        return Err(bad("tensor and bias differ in their data type"));
    }
    if t.vector_length != 1 || b.vector_length != 1 || !(2..=5).contains(&t.dims.len()) {
        return Err(fail(status::NOT_IMPLEMENTED, "biases of such tensors are not implemented"));
    }
    let fits = b.dims.len() == t.dims.len() && b.dims.iter().enumerate().all(|(axis, d)| *d == if axis == 1 { t.dims[1] } else { 1 });
    if fits { Ok(()) } else { Err(bad(format!("a bias of dimensions {:?} for a tensor of {:?}", b.dims, t.dims))) }
}

/// `y = alpha * (y + b) + beta * y`: what the real library asks of its tensor operation.
pub fn miopenConvolutionForwardBias(
    mut handle: Obj<Handle>,
    alpha: Raw,
    b_desc: Obj<Tensor>,
    b: Raw,
    beta: Raw,
    y_desc: Obj<Tensor>,
    y: Raw,
) -> Outcome {
    let (b, y) = ((b_desc, b), (y_desc, y));
    check(&y, &b)?;
    let scale = scale(alpha, beta, y.0.get()?.data_type)?;
    let (b, y) = (in_memory(b.0.get()?, b.1)?, in_memory(y.0.get()?, y.1)?);
    handle.get_mut()?.queue(Bias { operation: Operation::Add, bias: b, tensor: y, scale })
}

/// `db = alpha * (sum of dy) + beta * db`
pub fn miopenConvolutionBackwardBias(
    mut handle: Obj<Handle>,
    alpha: Raw,
    dy_desc: Obj<Tensor>,
    dy: Raw,
    beta: Raw,
    db_desc: Obj<Tensor>,
    db: Raw,
) -> Outcome {
    let (dy, db) = ((dy_desc, dy), (db_desc, db));
    check(&dy, &db)?;
    let scale = scale(alpha, beta, db.0.get()?.data_type)?;
    let (dy, db) = (in_memory(dy.0.get()?, dy.1)?, in_memory(db.0.get()?, db.1)?);
    handle.get_mut()?.queue(Bias { operation: Operation::Sum, bias: db, tensor: dy, scale })
}
