//! Find 2.0: problems, options, solutions.

use std::{
    ffi::{c_char, c_int, c_void},
    ptr::null_mut,
};

use anyhow::Result;
use libloading::os::unix::Library;
use miopen_api::{problem_direction, tensor_argument_id};

use super::{Direction, Memory, MiOpen, Object, Owned, Status, Workspace, functions};

/// `miopenTensorArgument_t`
#[repr(C)]
pub(super) struct TensorArgument {
    id: c_int,
    descriptor: *mut Object,
    buffer: *mut c_void,
}

functions! {
    Functions {
        create_problem "miopenCreateConvProblem" (*mut Object, Object, c_int);
        destroy_problem "miopenDestroyProblem" (Object);
        set_tensor "miopenSetProblemTensorDescriptor" (Object, c_int, Object);
        create_options "miopenCreateFindOptions" (*mut Object);
        destroy_options "miopenDestroyFindOptions" (Object);
        preallocated_tensor "miopenSetFindOptionPreallocatedTensor" (Object, c_int, *mut c_void);
        find "miopenFindSolutions" (Object, Object, Object, *mut Object, *mut usize, usize);
        run "miopenRunSolution" (Object, Object, usize, *const TensorArgument, *mut c_void, usize);
        destroy_solution "miopenDestroySolution" (Object);
        workspace_size "miopenGetSolutionWorkspaceSize" (Object, *mut usize);
        size "miopenGetSolutionSize" (Object, *mut usize);
        save "miopenSaveSolution" (Object, *mut c_char);
        load "miopenLoadSolution" (*mut Object, *const c_char, usize);
    }
}

/// A tensor of a solution's run: which of x, w and y it is, and its memory.
pub type Argument<'a> = (usize, &'a Memory, usize);

const IDS: [i32; 3] =
    [tensor_argument_id::TENSOR_CONVOLUTION_X, tensor_argument_id::TENSOR_CONVOLUTION_W, tensor_argument_id::TENSOR_CONVOLUTION_Y];

/// A found or loaded solution.
pub struct Solution(Owned);

impl MiOpen {
    /// Finds at most so many solutions, on the caller's buffers.
    pub fn find_solutions(
        &self,
        handle: &Owned,
        (convolution, direction): (&Owned, Direction),
        tensors: [&Owned; 3],
        memory: [(&Memory, usize); 3],
        at_most: usize,
    ) -> Result<(Status, Vec<Solution>)> {
        let f = &self.solutions;
        let number = match direction {
            Direction::Forward => problem_direction::FORWARD,
            Direction::BackwardData => problem_direction::BACKWARD,
            Direction::BackwardWeights => problem_direction::BACKWARD_WEIGHTS,
        };
        let mut problem = null_mut();
        // SAFETY: `problem` is writable, the convolution lives.
        Status(unsafe { (f.create_problem)(&mut problem, convolution.raw(), number) }).check("miopenCreateConvProblem")?;
        let problem = Owned::adopt(problem, f.destroy_problem);
        let options = Owned::create("miopenCreateFindOptions", f.create_options, f.destroy_options)?;
        for i in 0..3 {
            // SAFETY: both objects live.
            let status = unsafe { (f.set_tensor)(problem.raw(), IDS[i], tensors[i].raw()) };
            Status(status).check("miopenSetProblemTensorDescriptor")?;
            // SAFETY: the options live; the memory outlives the search.
            let status = unsafe { (f.preallocated_tensor)(options.raw(), IDS[i], memory[i].0.at(memory[i].1)) };
            Status(status).check("miopenSetFindOptionPreallocatedTensor")?;
        }
        let (mut found, mut count) = (vec![null_mut(); at_most], 0);
        // SAFETY: all objects live; as many solutions are writable as are asked for.
        let status = unsafe { (f.find)(handle.raw(), problem.raw(), options.raw(), found.as_mut_ptr(), &mut count, at_most) };
        found.truncate(count);
        Ok((Status(status), found.into_iter().map(|solution| Solution(Owned::adopt(solution, f.destroy_solution))).collect()))
    }

    /// `miopenGetSolutionWorkspaceSize`
    pub fn solution_workspace(&self, solution: &Solution) -> (Status, usize) {
        let mut size = 0;
        // SAFETY: the solution lives, `size` is writable.
        (Status(unsafe { (self.solutions.workspace_size)(solution.0.raw(), &mut size) }), size)
    }

    /// Saves a solution and loads it again, as another process would.
    pub fn reload(&self, solution: &Solution) -> Result<Solution> {
        let f = &self.solutions;
        let (mut size, mut loaded) = (0, null_mut());
        // SAFETY: the solution lives, `size` is writable.
        Status(unsafe { (f.size)(solution.0.raw(), &mut size) }).check("miopenGetSolutionSize")?;
        let mut bytes = vec![0u8; size];
        // SAFETY: as many bytes are writable as the call before said.
        Status(unsafe { (f.save)(solution.0.raw(), bytes.as_mut_ptr().cast()) }).check("miopenSaveSolution")?;
        // SAFETY: the bytes are readable, `loaded` is writable.
        Status(unsafe { (f.load)(&mut loaded, bytes.as_ptr().cast(), size) }).check("miopenLoadSolution")?;
        Ok(Solution(Owned::adopt(loaded, f.destroy_solution)))
    }

    /// `miopenRunSolution`, without descriptors of its own.
    pub fn run_solution(&self, handle: &Owned, solution: &Solution, arguments: [Argument<'_>; 3], workspace: Workspace<'_>) -> Status {
        let arguments =
            arguments.map(|(which, memory, offset)| TensorArgument { id: IDS[which], descriptor: null_mut(), buffer: memory.at(offset) });
        // SAFETY: all objects live; three arguments, whose memory holds what the descriptors said.
        Status(unsafe {
            (self.solutions.run)(handle.raw(), solution.0.raw(), arguments.len(), arguments.as_ptr(), workspace.pointer(), workspace.size)
        })
    }
}
