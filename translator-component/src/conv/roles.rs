//! Which operation computes a problem, and which of MIOpen's tensors plays which part in it. One table for all directions and modes.
//!
//! hipDNN has no transposed convolution, and needs none: it is the data gradient of the convolution that reads the other way.
//! In the words of that convolution, `image` is what its window slides over and `features` is what it gives; `w` is its filter in
//! both modes (`[K, C/g, …]`, transposed `[C, K/g, …]`), so that all rules about shapes are written once.

use hipdnn_abi::{attribute, descriptor_type};

use crate::contract::{
    conv::{Argument, Direction, Mode, Problem},
    graph::{Access, TensorDescriptor},
};

/// hipDNN's three convolution operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// features from image and filter.
    Forward,
    /// image from features and filter.
    BackwardData,
    /// filter from image and features.
    BackwardFilter,
}

impl Operation {
    /// The backend's descriptor type.
    pub fn descriptor_type(self) -> i32 {
        match self {
            Self::Forward => descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            Self::BackwardData => descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            Self::BackwardFilter => descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        }
    }

    /// The backend's attributes for image, filter and features.
    fn attributes(self) -> [i32; 3] {
        match self {
            Self::Forward => [
                attribute::OPERATION_CONVOLUTION_FORWARD_X,
                attribute::OPERATION_CONVOLUTION_FORWARD_W,
                attribute::OPERATION_CONVOLUTION_FORWARD_Y,
            ],
            Self::BackwardData => [
                attribute::OPERATION_CONVOLUTION_BWD_DATA_DX,
                attribute::OPERATION_CONVOLUTION_BWD_DATA_W,
                attribute::OPERATION_CONVOLUTION_BWD_DATA_DY,
            ],
            Self::BackwardFilter => [
                attribute::OPERATION_CONVOLUTION_BWD_FILTER_X,
                attribute::OPERATION_CONVOLUTION_BWD_FILTER_DW,
                attribute::OPERATION_CONVOLUTION_BWD_FILTER_DY,
            ],
        }
    }
}

/// A tensor in its part.
#[derive(Clone, Copy)]
pub struct Role<'a> {
    /// The argument of the MIOpen call that it is.
    pub argument: Argument,
    /// What MIOpen calls it.
    pub name: &'static str,
    /// Its descriptor.
    pub tensor: &'a TensorDescriptor,
    /// The operation's attribute that takes it.
    pub attribute: i32,
    /// What the operation does with it.
    pub access: Access,
}

/// The parts of a problem.
pub struct Roles<'a> {
    /// What computes it.
    pub operation: Operation,
    /// x, or y of a transposed convolution.
    pub image: Role<'a>,
    /// w.
    pub filter: Role<'a>,
    /// y, or x of a transposed convolution.
    pub features: Role<'a>,
}

impl<'a> Roles<'a> {
    /// Casts the tensors of a problem.
    pub fn of(problem: &'a Problem) -> Self {
        let transposed = problem.mode == Mode::Transpose;
        let operation = match (problem.direction, transposed) {
            (Direction::Forward, false) | (Direction::BackwardData, true) => Operation::Forward,
            (Direction::Forward, true) | (Direction::BackwardData, false) => Operation::BackwardData,
            (Direction::BackwardWeights, _) => Operation::BackwardFilter,
        };
        let result = match problem.direction {
            Direction::Forward => Argument::Y,
            Direction::BackwardData => Argument::X,
            Direction::BackwardWeights => Argument::W,
        };
        let [image, filter, features] = operation.attributes();
        let role = |argument: Argument, attribute: i32| {
            let (name, tensor) = match argument {
                Argument::X => ("x", &problem.x),
                Argument::W => ("w", &problem.w),
                Argument::Y => ("y", &problem.y),
            };
            let access = if argument == result { Access::Write } else { Access::Read };
            Role { argument, name, tensor, attribute, access }
        };
        let (slid, given) = if transposed { (Argument::Y, Argument::X) } else { (Argument::X, Argument::Y) };
        Self { operation, image: role(slid, image), filter: role(Argument::W, filter), features: role(given, features) }
    }

    /// The three, in no particular order.
    pub fn all(&self) -> [Role<'a>; 3] {
        [self.image, self.filter, self.features]
    }

    /// The one that is computed.
    pub fn result(&self) -> Role<'a> {
        match self.operation {
            Operation::Forward => self.features,
            Operation::BackwardData => self.image,
            Operation::BackwardFilter => self.filter,
        }
    }
}
