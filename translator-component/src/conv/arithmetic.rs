//! What a convolution is computed in, and whether its result is scaled. Facts that the rules and the graph must agree on; neither lives
//! here.

use crate::contract::{conv::Problem, graph::DataType};

/// The type sums are formed in: exact for integers, double if anything is double, else float, as MIOpen does.
pub fn compute_type(problem: &Problem) -> DataType {
    let inputs = [problem.x.data_type, problem.w.data_type];
    let any = |wanted: DataType| inputs.contains(&wanted) || problem.y.data_type == wanted;
    let integer = |t: &DataType| matches!(t, DataType::Int8 | DataType::Uint8 | DataType::Int32 | DataType::Int64 | DataType::Boolean);
    if any(DataType::Double) {
        DataType::Double
    } else if inputs.iter().all(integer) {
        if any(DataType::Int64) { DataType::Int64 } else { DataType::Int32 }
    } else {
        DataType::Float
    }
}

/// Whether alpha and beta ask for more than the convolution itself.
pub fn is_scaled(problem: &Problem) -> bool {
    scales_sums(problem) || accumulates(problem)
}

/// Whether alpha does anything. NaN is not 1.
pub fn scales_sums(problem: &Problem) -> bool {
    problem.alpha != 1.0
}

/// Whether the old output is read. −0 is 0: multiplying the old output by −0 adds at most a signed zero, which rounds away in every sum
/// but an empty one.
pub fn accumulates(problem: &Problem) -> bool {
    problem.beta != 0.0
}
