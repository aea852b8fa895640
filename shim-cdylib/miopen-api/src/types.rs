//! The structs that MIOpen's C API passes by pointer, as Rust sees them. Only layout: nothing is computed here.

use core::ffi::{c_int, c_void};

/// `miopenConvAlgoPerf_t`: one result of a classic Find. The three algorithm enums of its union share `algorithm`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConvAlgoPerf {
    /// `fwd_algo`, `bwd_weights_algo` or `bwd_data_algo`, by the call.
    pub algorithm: c_int,
    /// Milliseconds.
    pub time: f32,
    /// Workspace the algorithm needs, in bytes.
    pub memory: usize,
}

/// `miopenConvSolution_t`: one result of an immediate-mode query.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConvSolution {
    /// Milliseconds, or negative when unknown.
    pub time: f32,
    /// Workspace the solution needs, in bytes.
    pub workspace_size: usize,
    /// What the caller gives back to execute this solution.
    pub solution_id: u64,
    /// A value of [`conv_algorithm`](crate::conv_algorithm).
    pub algorithm: c_int,
}

/// `miopenTensorArgument_t`: one tensor that a find-2.0 solution runs with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorArgument {
    /// A value of [`tensor_argument_id`](crate::tensor_argument_id).
    pub id: c_int,
    /// Where the caller keeps a tensor descriptor that takes the place of the problem's, or null.
    pub descriptor: *mut *mut c_void,
    /// Device memory.
    pub buffer: *mut c_void,
}

#[cfg(all(test, feature = "table"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use core::mem::{align_of, offset_of, size_of};

    #[test]
    fn layouts_are_the_tables() {
        let offset = |name: &str, field: &str| {
            let found = crate::table().structs.iter().find(|s| s.name == name).unwrap();
            (found.size, found.align, found.fields.iter().find(|f| f.field == field).unwrap().offset)
        };
        let perf = (size_of::<ConvAlgoPerf>(), align_of::<ConvAlgoPerf>());
        assert_eq!(offset("miopenConvAlgoPerf_t", "time"), (perf.0, perf.1, offset_of!(ConvAlgoPerf, time)));
        assert_eq!(offset("miopenConvAlgoPerf_t", "memory"), (perf.0, perf.1, offset_of!(ConvAlgoPerf, memory)));
        let solution = (size_of::<ConvSolution>(), align_of::<ConvSolution>());
        assert_eq!(offset("miopenConvSolution_t", "workspace_size").2, offset_of!(ConvSolution, workspace_size));
        assert_eq!(offset("miopenConvSolution_t", "solution_id").2, offset_of!(ConvSolution, solution_id));
        let argument = (size_of::<TensorArgument>(), align_of::<TensorArgument>());
        assert_eq!(offset("miopenTensorArgument_t", "buffer"), (argument.0, argument.1, offset_of!(TensorArgument, buffer)));
        assert_eq!(offset("miopenTensorArgument_t", "descriptor").2, offset_of!(TensorArgument, descriptor));
        assert_eq!(offset("miopenConvSolution_t", "algorithm"), (solution.0, solution.1, offset_of!(ConvSolution, algorithm)));
    }
}
