//! The rules that all families share: what they ask of every tensor of a problem, or of its result. Each family takes those that it
//! wants into its own table, so that one id means the same everywhere.

use alloc::string::String;

use super::Named;
use crate::rule::Rule;

/// A problem with tensors.
pub trait Tensors {
    /// What the check says of the first tensor that it objects to.
    fn any_tensor(&self, check: &dyn Fn(Named<'_>) -> Option<String>) -> Option<String>;

    /// The tensor that is computed.
    fn result(&self) -> Named<'_>;
}

/// No vectorised layouts.
pub const fn vectorized<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.layout.vectorized",
        reason: "vectorised layouts (NCHWc, CHWNc) have no counterpart",
        check: |problem, _| problem.any_tensor(&super::vectorized),
    }
}

/// No types that hipDNN does not know.
pub const fn type_counterpart<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.type.counterpart",
        reason: "a data type without counterpart in hipDNN",
        check: |problem, _| problem.any_tensor(&super::without_counterpart),
    }
}

/// No casts.
pub const fn type_cast<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.type.cast",
        reason: "a cast type that differs from the data type",
        check: |problem, _| problem.any_tensor(&super::cast),
    }
}

/// No types that this backend does not have.
pub const fn type_backend<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.type.backend",
        reason: "a data type that the loaded backend does not have",
        check: |problem, capabilities| problem.any_tensor(&|named| super::beyond_backend(named, capabilities)),
    }
}

/// No empty tensors.
pub const fn dims_empty<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.dims.empty",
        reason: "a dimension of length zero (or less), or no dimension at all",
        check: |problem, _| problem.any_tensor(&super::without_elements),
    }
}

/// Strides lead forward.
pub const fn strides_positive<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.strides.positive",
        reason: "a stride that is zero or negative",
        check: |problem, _| problem.any_tensor(&super::stride_not_positive),
    }
}

/// Every element of the result is a place of its own.
pub const fn strides_overlap<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.strides.overlap",
        reason: "strides that may put two elements of the output on one address",
        check: |problem, _| super::may_overlap(problem.result()),
    }
}

/// Addresses can be computed.
pub const fn extent_range<P: Tensors>() -> Rule<P> {
    Rule {
        id: "tensor.extent.range",
        reason: "a tensor so large that addresses could overflow",
        check: |problem, _| problem.any_tensor(&super::too_far_apart),
    }
}
