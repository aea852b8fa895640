//! Solutions: found for a problem, run, asked about, saved and loaded. They own all that they need of the problem.

use miopen_api::{conv_algorithm, status};

use super::options::Options;
use super::problem::Problem;
use super::{TENSORS, blob};
use crate::args::{FromC, In, New, Obj, Out, Raw, create, object};
use crate::failure::{Failure, Outcome, bad, fail};
use crate::handle::Handle;
use crate::immediate::SOLUTION;
use crate::numeric::Scale;
use crate::problem::OwnProblem;
use crate::tensor::{Tensor, element_size};

/// A solution: always the same one, of different problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    pub problem: OwnProblem,
    /// Milliseconds, as measured when it was found.
    pub time: f32,
}
object!(Solution, 0x6d69_536f_6c75_7469, "solution");

/// `miopenTensorArgument_t`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TensorArgument {
    pub id: i32,
    /// Where the caller keeps a tensor descriptor, or null.
    pub descriptor: Raw,
    pub buffer: Raw,
}

/// Runs the solution and measures it. Memory that the caller did not give is allocated for as long as it runs.
fn measure(handle: &mut Handle, problem: &OwnProblem, given: [Option<Raw>; 3]) -> Result<f32, Failure> {
    let mut own: [Vec<u8>; 3] = Default::default();
    let mut memory = [Raw(core::ptr::null_mut()); 3];
    for (i, tensor) in [&problem.x, &problem.w, &problem.y].into_iter().enumerate() {
        memory[i] = match given[i] {
            Some(given) => given,
            None => {
                own[i] = vec![0; tensor.element_space() * element_size(tensor.data_type)?];
                Raw(own[i].as_mut_ptr().cast())
            }
        };
    }
    let work = problem.borrow().work(memory, Scale::PLAIN)?;
    handle.measure(work)
}

pub fn miopenFindSolutions(
    mut handle: Obj<Handle>,
    problem: Obj<Problem>,
    options: Obj<Options>,
    solutions: Out<New<Solution>>,
    count: Out<usize>,
    room: u64,
) -> Outcome {
    let handle = handle.get_mut()?;
    let problem = problem.get()?.complete()?;
    let memory = if options.is_null() { [None; 3] } else { options.get()?.memory() };
    if solutions.is_null() {
        return Err(bad("no place for solutions"));
    }
    if !problem.borrow().is_applicable()? {
        return Err(fail(status::UNKNOWN_ERROR, "no solution for this convolution"));
    }
    if room > 0 {
        let time = measure(handle, &problem, memory)?;
        create(&solutions, Solution { problem, time })?;
    }
    count.put_if(usize::from(room > 0));
    Ok(())
}

/// The problem and memory of a run: its arguments may bring descriptors of their own.
fn with_arguments(solution: &Solution, arguments: &[TensorArgument]) -> Result<(OwnProblem, [Raw; 3]), Failure> {
    let (mut problem, mut memory) = (solution.problem.clone(), [Raw(core::ptr::null_mut()); 3]);
    let tensors = [&mut problem.x, &mut problem.w, &mut problem.y];
    for ((id, tensor), memory) in TENSORS.iter().zip(tensors).zip(&mut memory) {
        let argument = arguments.iter().find(|argument| argument.id == *id);
        let argument = argument.ok_or_else(|| fail(status::INVALID_VALUE, format!("tensor {id} is missing")))?;
        *memory = argument.buffer;
        if let Some(descriptor) = In::<Raw>::from_c(argument.descriptor.0).read() {
            *tensor = Obj::<Tensor>::from_c(descriptor.0).get()?.clone();
        }
    }
    Ok((problem, memory))
}

pub fn miopenRunSolution(
    mut handle: Obj<Handle>,
    solution: Obj<Solution>,
    count: u64,
    arguments: In<TensorArgument>,
    _workspace: Raw,
    _workspace_size: u64,
) -> Outcome {
    let (handle, solution) = (handle.get_mut()?, solution.get()?);
    if count != TENSORS.len() as u64 {
        return Err(fail(status::INVALID_VALUE, format!("{count} tensors for a convolution")));
    }
    let arguments = arguments.read_all(TENSORS.len()).ok_or_else(|| bad("no tensors"))?;
    let (problem, memory) = with_arguments(solution, &arguments)?;
    problem.borrow().check()?;
    let work = problem.borrow().work(memory, Scale::PLAIN)?;
    handle.queue(work)
}

pub fn miopenDestroySolution(solution: Obj<Solution>) -> Outcome {
    solution.destroy()
}

pub fn miopenGetSolutionSize(solution: Obj<Solution>, size: Out<usize>) -> Outcome {
    size.put(blob::write(solution.get()?).len())
}

pub fn miopenSaveSolution(solution: Obj<Solution>, data: Out<u8>) -> Outcome {
    let blob = blob::write(solution.get()?);
    if data.is_null() {
        return Err(bad("no place for the solution"));
    }
    data.put_all(blob);
    Ok(())
}

pub fn miopenLoadSolution(solution: Out<New<Solution>>, data: In<u8>, size: u64) -> Outcome {
    // Its own idea of its length is read first: a wrong size must not lead far out of the caller's memory.
    let start = data.read_start(size, blob::START).ok_or_else(|| bad("no data"))?;
    let length = blob::length(&start).filter(|length| *length as u64 == size);
    let length = length.ok_or_else(|| fail(status::UNKNOWN_ERROR, "this is no saved solution"))?;
    create(&solution, blob::read(&data.read_all(length).unwrap_or_default())?)
}

pub fn miopenGetSolutionWorkspaceSize(solution: Obj<Solution>, size: Out<usize>) -> Outcome {
    solution.get()?;
    size.put(0)
}

pub fn miopenGetSolutionTime(solution: Obj<Solution>, time: Out<f32>) -> Outcome {
    time.put(solution.get()?.time)
}

pub fn miopenGetSolutionSolverId(solution: Obj<Solution>, solver: Out<u64>) -> Outcome {
    solution.get()?;
    solver.put(SOLUTION)
}

pub fn miopenGetSolverIdConvAlgorithm(solver: u64, algorithm: Out<i32>) -> Outcome {
    if solver != SOLUTION {
        return Err(fail(status::INVALID_VALUE, format!("no solver has the number {solver}")));
    }
    algorithm.put(conv_algorithm::DIRECT)
}
