//! The three directions of convolution: the functions that MIOpen has for each, and where their arguments are. One table.

use hipdnn_host::problem::ConvolutionDirection;

/// Where the descriptors of a call are among its arguments. The handle is always the first; where a call has memory, a tensor's is the
/// argument behind its descriptor.
pub struct Positions {
    /// Of x, w and y (of their gradients, where these are meant).
    pub tensors: [usize; 3],
    /// Of the convolution descriptor.
    pub convolution: usize,
}

/// The functions of one direction.
pub struct Names {
    /// Executes with an algorithm.
    pub classic: &'static str,
    /// Says how much workspace that may need.
    pub workspace: &'static str,
    /// Lists algorithms by measuring them.
    pub find: &'static str,
    /// Says how many solutions there are.
    pub count: &'static str,
    /// Lists solutions.
    pub list: &'static str,
    /// Says how much workspace a solution needs.
    pub solution_workspace: &'static str,
    /// Prepares a solution.
    pub compile: &'static str,
    /// Executes a solution.
    pub immediate: &'static str,
}

/// One direction.
pub struct Direction {
    /// What is computed.
    pub direction: ConvolutionDirection,
    /// The functions.
    pub names: Names,
    /// Of `(handle, alpha, aDesc, a, bDesc, b, convDesc, algo, beta, cDesc, c, workSpace, workSpaceSize)`.
    pub classic: Positions,
    /// Of `(handle, aDesc, a, bDesc, b, convDesc, cDesc, c, …)`: Find and the immediate call.
    pub memory: Positions,
    /// Of `(handle, aDesc, bDesc, convDesc, cDesc, …)`: all queries.
    pub query: Positions,
}

macro_rules! names {
    ($direction:literal) => {
        Names {
            classic: concat!("miopenConvolution", $direction),
            workspace: concat!("miopenConvolution", $direction, "GetWorkSpaceSize"),
            find: concat!("miopenFindConvolution", $direction, "Algorithm"),
            count: concat!("miopenConvolution", $direction, "GetSolutionCount"),
            list: concat!("miopenConvolution", $direction, "GetSolution"),
            solution_workspace: concat!("miopenConvolution", $direction, "GetSolutionWorkspaceSize"),
            compile: concat!("miopenConvolution", $direction, "CompileSolution"),
            immediate: concat!("miopenConvolution", $direction, "Immediate"),
        }
    };
}

const fn positions(tensors: [usize; 3], convolution: usize) -> Positions {
    Positions { tensors, convolution }
}

/// All directions.
pub static ALL: [Direction; 3] = [
    Direction {
        direction: ConvolutionDirection::Forward,
        names: names!("Forward"),
        classic: positions([2, 4, 9], 6),
        memory: positions([1, 3, 6], 5),
        // The only one whose queries name the filter first; so does its immediate call.
        query: positions([2, 1, 4], 3),
    },
    Direction {
        direction: ConvolutionDirection::BackwardData,
        names: names!("BackwardData"),
        classic: positions([9, 4, 2], 6),
        memory: positions([6, 3, 1], 5),
        query: positions([4, 2, 1], 3),
    },
    Direction {
        direction: ConvolutionDirection::BackwardWeights,
        names: names!("BackwardWeights"),
        classic: positions([4, 9, 2], 6),
        memory: positions([3, 6, 1], 5),
        query: positions([2, 4, 1], 3),
    },
];

impl Direction {
    /// The positions of the immediate call: those of Find, but that forward the filter comes first.
    pub fn immediate(&self) -> Positions {
        match self.direction {
            ConvolutionDirection::Forward => positions([3, 1, 6], 5),
            _ => positions(self.memory.tensors, self.memory.convolution),
        }
    }
}
