//! Fusion plans as they are built, and the arguments of their operations. MIOpen has no getter for any of it.

use std::sync::atomic::{AtomicU64, Ordering};

use hipdnn_host::problem::{Activation, ActivationMode, ConvolutionDescriptor, NormalizationMode, Scaling, TensorDescriptor};

/// A plan.
#[derive(Clone)]
pub struct FusionPlan {
    /// What it was made for.
    pub input: TensorDescriptor,
    /// Its operations, in order.
    pub operations: Vec<PlannedOperation>,
    /// The algorithm that the caller set.
    pub algorithm: Option<u32>,
    /// Native compiled it, and nothing was added since.
    pub compiled: bool,
}

/// An operation of a plan.
#[derive(Clone)]
pub struct PlannedOperation {
    /// Native's object.
    pub address: usize,
    /// Tells it from another one that gets the same address later.
    pub serial: u64,
    /// What it does, with copies of the descriptors that it was made with, as MIOpen does.
    pub step: PlannedStep,
}

/// What an operation does.
#[derive(Clone)]
pub enum PlannedStep {
    /// Convolution.
    Convolution {
        /// Its descriptor.
        convolution: ConvolutionDescriptor,
        /// The filter's.
        w: TensorDescriptor,
    },
    /// Bias.
    Bias(TensorDescriptor),
    /// Batch normalisation with given statistics.
    Normalization(NormalizationMode, TensorDescriptor),
    /// Activation.
    Activation(ActivationMode),
    /// Another one, by the function that made it.
    Other(&'static str),
}

/// What one operation is executed with. Scalars are read when they are set.
#[derive(Clone, Copy)]
pub enum OperatorArgument {
    /// Filter.
    Convolution {
        /// The call's scalars.
        scaling: Scaling,
        /// Address.
        w: usize,
    },
    /// Bias.
    Bias {
        /// The call's scalars.
        scaling: Scaling,
        /// Address.
        bias: usize,
    },
    /// Scale, shift, mean, variance.
    Normalization {
        /// The call's scalars.
        scaling: Scaling,
        /// Addresses.
        parameters: [usize; 4],
        /// Added to the variance.
        epsilon: f64,
    },
    /// Parameters of the plan's mode.
    Activation {
        /// The call's scalars.
        scaling: Scaling,
        /// With a mode that the plan's takes the place of.
        parameters: Activation,
    },
}

/// Arguments of operations. One for each address that operations had: those of an operation that is gone make room for those of the one
/// that got its address.
#[derive(Clone, Default)]
pub struct OperatorArguments {
    set: Vec<Set>,
}

#[derive(Clone, Copy)]
struct Set {
    address: usize,
    serial: u64,
    argument: OperatorArgument,
}

impl OperatorArguments {
    /// Those of an operation.
    pub fn of(&self, operation: &PlannedOperation) -> Option<OperatorArgument> {
        self.set.iter().find(|set| set.serial == operation.serial).map(|set| set.argument)
    }

    /// Sets those of an operation.
    pub fn set(&mut self, address: usize, serial: u64, argument: OperatorArgument) {
        let set = Set { address, serial, argument };
        match self.set.iter_mut().find(|known| known.address == address) {
            Some(known) => *known = set,
            None => self.set.push(set),
        }
    }
}

impl PlannedOperation {
    /// An operation that native made.
    pub fn new(address: usize, step: PlannedStep) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { address, serial: NEXT.fetch_add(1, Ordering::Relaxed), step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: usize = 3;

    fn bias(address: usize) -> OperatorArgument {
        OperatorArgument::Bias { scaling: Scaling::NONE, bias: address }
    }

    fn bias_of(arguments: &OperatorArguments, operation: &PlannedOperation) -> Option<usize> {
        match arguments.of(operation) {
            Some(OperatorArgument::Bias { bias, .. }) => Some(bias),
            _ => None,
        }
    }

    /// As where plans are made and destroyed: their operations get the same addresses, in any order.
    #[test]
    fn arguments_of_operations_that_are_gone_make_room() {
        let mut arguments = OperatorArguments::default();
        let mut gone: Vec<PlannedOperation> = Vec::new();
        for plan in 0..5000 {
            let operation = |link| PlannedOperation::new(0x1000 + (plan + link) % LINKS, PlannedStep::Other("any"));
            let operations: Vec<_> = (0..LINKS).map(operation).collect();
            let value = |link| 10 * plan + link;
            for (link, operation) in operations.iter().enumerate() {
                assert_eq!(bias_of(&arguments, operation), None, "those of an earlier operation at this address are not its own");
                arguments.set(operation.address, operation.serial, bias(0));
                arguments.set(operation.address, operation.serial, bias(value(link)));
            }
            let found: Vec<_> = operations.iter().map(|operation| bias_of(&arguments, operation)).collect();
            assert_eq!(found, (0..LINKS).map(|link| Some(value(link))).collect::<Vec<_>>());
            assert!(gone.iter().all(|operation| bias_of(&arguments, operation).is_none()));
            assert_eq!(arguments.set.len(), LINKS);
            gone = operations;
        }
    }
}
