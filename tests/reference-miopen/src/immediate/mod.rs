//! The immediate style of convolution calls: solutions are listed without running anything, and executed by number, without scalars. What
//! its directions have in common is here, their exported functions are in one module for each.
//!
//! There is one solution, [`SOLUTION`], the same in every direction and in `find2`. Nothing needs to be listed or compiled before it runs.
//! What cannot be computed has no solution: the count says 0 and returns status 6, the list is empty, and the number is refused with 3.
//! Where the real one's behaviour is not known:
//! * the time is a guess from the number of products, as a heuristic's is;
//! * with no room for solutions, none are listed, and that is no failure; a list without a place is one, with status 3;
//! * a workspace is not looked at, whatever its size;
//! * a NULL convolution descriptor gives status 3, no exception.

use miopen_api::{ConvSolution, conv_algorithm, status};

use crate::args::{Obj, Out, Raw};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::handle::Handle;
use crate::numeric::Scale;
use crate::problem::{Direction, Problem};
use crate::tensor::Tensor;

pub mod backward_data;
pub mod backward_weights;
pub mod forward;

/// The number of the one solution: none that a real solver has.
pub const SOLUTION: u64 = 9001;

/// The descriptors of a call.
pub struct Call {
    pub handle: Obj<Handle>,
    pub direction: Direction,
    /// x or dx.
    pub x: Obj<Tensor>,
    /// w or dw.
    pub w: Obj<Tensor>,
    /// y or dy.
    pub y: Obj<Tensor>,
    pub conv: Obj<Convolution>,
}

impl Call {
    fn problem(&self) -> Result<Problem<'_>, Failure> {
        self.handle.get()?;
        let (x, w, y, conv) = (self.x.get()?, self.w.get()?, self.y.get()?, self.conv.get()?);
        Ok(Problem { direction: self.direction, x, w, y, conv })
    }

    fn count(&self, count: &Out<usize>) -> Outcome {
        let applicable = self.problem()?.is_applicable()?;
        count.put(usize::from(applicable))?;
        if applicable { Ok(()) } else { Err(fail(status::NOT_IMPLEMENTED, "no solution for this convolution")) }
    }

    fn list(&self, room: u64, count: &Out<usize>, solutions: &Out<ConvSolution>) -> Outcome {
        let problem = self.problem()?;
        if count.is_null() || solutions.is_null() {
            return Err(bad("no place for solutions or their number"));
        }
        let found = room > 0 && problem.is_applicable()?;
        if found {
            let (time, algorithm) = (problem.estimate(), conv_algorithm::DIRECT);
            solutions.put(ConvSolution { time, workspace_size: 0, solution_id: SOLUTION, algorithm })?;
        }
        count.put(usize::from(found))
    }

    /// The problem, if the solution is one of it.
    fn solved_by(&self, solution: u64) -> Result<Problem<'_>, Failure> {
        let problem = self.problem()?;
        if solution != SOLUTION || !problem.is_applicable()? {
            return Err(bad(format!("{solution} is no solution of this convolution")));
        }
        Ok(problem)
    }

    fn workspace(&self, solution: u64, size: &Out<usize>) -> Outcome {
        self.solved_by(solution)?;
        size.put(0)
    }

    /// Nothing is compiled here.
    fn compile(&self, solution: u64) -> Outcome {
        self.solved_by(solution).map(|_| ())
    }

    /// Computes with the memory of x, w and y, in the order of the handle's stream.
    fn execute(mut self, memory: [Raw; 3], solution: u64) -> Outcome {
        let work = self.solved_by(solution)?.work(memory, Scale::PLAIN)?;
        self.handle.get_mut()?.queue(work)
    }
}
