//! The classic style of convolution calls: workspace queries, Find, and execution with an algorithm and scalars. What its directions have
//! in common is here, their exported functions are in one module for each.

use miopen_api::ConvAlgoPerf;

use crate::args::{Obj, Out, Raw};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad};
use crate::handle::Handle;
use crate::numeric::Scale;
use crate::problem::{Direction, Problem, scale};
use crate::tensor::Tensor;

pub mod backward_data;
pub mod backward_weights;
pub mod finds;
pub mod forward;

/// A tensor as a call has it: its descriptor, and where its elements are.
pub type Operand = (Obj<Tensor>, Raw);

/// The convolution of a call.
pub struct Call {
    pub direction: Direction,
    /// x or dx.
    pub x: Operand,
    /// w or dw.
    pub w: Operand,
    /// y or dy.
    pub y: Operand,
    pub conv: Obj<Convolution>,
}

/// A NULL convolution descriptor is looked at before anything else, and by some functions outside what the real library catches.
pub fn present(conv: &Obj<Convolution>) -> Outcome {
    if conv.is_null() {
        return Err(Failure { throws: true, ..bad("the convolution descriptor is null") });
    }
    Ok(())
}

/// All that a workspace query looks at; nothing here needs workspace.
pub fn workspace(handle: &Obj<Handle>, tensors: [&Obj<Tensor>; 3], conv: &Obj<Convolution>, sizes: &[Out<usize>]) -> Outcome {
    handle.get()?;
    conv.get()?;
    tensors.iter().try_for_each(|tensor| tensor.get().map(|_| ()))?;
    sizes.iter().try_for_each(|size| size.put(0))
}

impl Call {
    /// Missing memory is noticed before what does not fit.
    fn problem(&self) -> Result<Problem<'_>, Failure> {
        let (x, w, y, conv) = (self.x.0.get()?, self.w.0.get()?, self.y.0.get()?, self.conv.get()?);
        if self.memory().iter().any(|memory| memory.0.is_null()) {
            return Err(bad("a tensor's memory is null"));
        }
        Ok(Problem { direction: self.direction, x, w, y, conv })
    }

    fn memory(&self) -> [Raw; 3] {
        [self.x.1, self.w.1, self.y.1]
    }

    /// Computes, in the order of the handle's stream. Scalars, which may not be null, are looked at last.
    pub fn execute(&self, mut handle: Obj<Handle>, algorithm: i32, alpha: Raw, beta: Raw) -> Outcome {
        let handle = handle.get_mut()?;
        let problem = self.problem()?;
        problem.check()?;
        handle.finds.check(&problem, algorithm)?;
        let work = problem.work(self.memory(), scale(alpha, beta, problem.output().data_type)?)?;
        handle.queue(work)
    }

    /// Runs the one algorithm there is, once, on the caller's buffers: the output is overwritten, as by the real Find.
    pub fn find(
        &self,
        mut handle: Obj<Handle>,
        algorithm: i32,
        requested: i32,
        returned: &Out<i32>,
        results: &Out<ConvAlgoPerf>,
    ) -> Outcome {
        let handle = handle.get_mut()?;
        if requested < 1 || returned.is_null() || results.is_null() {
            return Err(bad("no results asked for, or no place for them"));
        }
        let problem = self.problem()?;
        problem.check()?;
        let work = problem.work(self.memory(), Scale::PLAIN)?;
        let time = handle.measure(work)?;
        handle.finds.add(&problem, algorithm);
        returned.put(1)?;
        results.put(ConvAlgoPerf { algorithm, time, memory: 0 })
    }
}
