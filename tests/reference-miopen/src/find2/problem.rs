//! Problems to find solutions for. They copy descriptors when they are set.

use std::collections::BTreeMap;

use miopen_api::{problem_direction, status};

use super::TENSORS;
use crate::args::{New, Obj, Out, create, object};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::problem::{Direction, OwnProblem};
use crate::tensor::Tensor;

/// A problem that may still lack tensors.
pub struct Problem {
    conv: Convolution,
    direction: i32,
    /// By the number of the argument.
    tensors: BTreeMap<i32, Tensor>,
}
object!(Problem, 0x6d69_5072_6f62_6c65, "problem");

impl Problem {
    /// What is to be solved, if it is all there.
    pub fn complete(&self) -> Result<OwnProblem, Failure> {
        let missing = || fail(status::INVALID_VALUE, "a convolution has the tensors X, W and Y, and no others");
        let tensor = |id: i32| self.tensors.get(&id).cloned().ok_or_else(missing);
        if self.tensors.len() != TENSORS.len() {
            return Err(missing());
        }
        let [x, w, y] = [tensor(TENSORS[0])?, tensor(TENSORS[1])?, tensor(TENSORS[2])?];
        let direction = match self.direction {
            problem_direction::FORWARD => Direction::Forward,
            problem_direction::BACKWARD => Direction::BackwardData,
            problem_direction::BACKWARD_WEIGHTS => Direction::BackwardWeights,
            other => return Err(fail(status::NOT_IMPLEMENTED, format!("a convolution in direction {other}"))),
        };
        Ok(OwnProblem { direction, x, w, y, conv: self.conv.clone() })
    }
}

pub fn miopenCreateConvProblem(problem: Out<New<Problem>>, conv: Obj<Convolution>, direction: i32) -> Outcome {
    create(&problem, Problem { conv: conv.get()?.clone(), direction, tensors: BTreeMap::new() })
}

pub fn miopenDestroyProblem(problem: Obj<Problem>) -> Outcome {
    problem.destroy()
}

pub fn miopenSetProblemTensorDescriptor(mut problem: Obj<Problem>, id: i32, tensor: Obj<Tensor>) -> Outcome {
    let (problem, tensor) = (problem.get_mut()?, tensor.get()?.clone());
    if problem.tensors.contains_key(&id) {
        return Err(bad(format!("tensor {id} is set already")));
    }
    problem.tensors.insert(id, tensor);
    Ok(())
}
