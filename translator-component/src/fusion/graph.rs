//! The operation graph of a chain that passed all rules: the tensors of the MIOpen call, the convolution if there is one, and the steps
//! behind it. No rule lives here.
//!
//! What lies between operations is virtual and of the compute type, so the result is rounded once. The last operation writes the output.

use alloc::{string::ToString, vec, vec::Vec};

use hipdnn_abi::{attribute, descriptor_type, pointwise_mode};

use super::{
    chain,
    step::{Operand, Step, steps},
};
use crate::{
    contract::{
        conv::{self as convolution_contract, Argument},
        fusion::Problem,
        graph::{Access, Attribute, Binding, DataType, Node, Tensor, TensorDescriptor, Translation, Value},
    },
    conv,
    tensor::packed_like,
};

/// Unique ids of memory are positions of the call's arguments, counted from 1.
const INPUT: i64 = 1;
const OUTPUT: i64 = 2;
/// The operand of a convolution, which is the first operation.
const FILTER: i64 = 3;

/// The chain as a graph. `convolution` is what [`chain::convolution`] gives.
pub fn build(problem: &Problem, convolution: Option<&convolution_contract::Problem>) -> Translation {
    let mut builder = Builder::new(problem);
    let mut steps = steps(problem);
    let mut value = INPUT;
    if let Some(convolution) = convolution {
        value = if steps.is_empty() { OUTPUT } else { builder.between(&problem.output) };
        builder.convolve(convolution, value);
    } else if steps.is_empty() {
        steps.push(Step::of_value(pointwise_mode::IDENTITY));
    }
    if let Some((last, others)) = steps.split_last() {
        for step in others {
            let result = builder.between(&problem.output);
            builder.step(step, value, result);
            value = result;
        }
        builder.step(last, value, OUTPUT);
    }
    builder.graph
}

/// A graph that grows along the chain.
struct Builder {
    compute: DataType,
    rank: usize,
    graph: Translation,
    /// The unique id of the next tensor.
    next: i64,
}

impl Builder {
    /// The tensors in memory, and no operation.
    fn new(problem: &Problem) -> Self {
        let compute = chain::compute_type(problem);
        let graph = Translation {
            tensors: Vec::new(),
            nodes: Vec::new(),
            compute_type: Some(compute),
            intermediate_type: Some(compute),
            io_type: Some(problem.input.data_type),
            bindings: Vec::new(),
            notes: Vec::new(),
        };
        let mut builder = Self { compute, rank: problem.output.dims.len(), graph, next: INPUT };
        builder.bind(&problem.input, Access::Read);
        builder.bind(&problem.output, Access::Write);
        for ((_, tensor), count) in problem.operations.iter().filter_map(chain::operands) {
            (0..count).for_each(|_| builder.bind(tensor, Access::Read));
        }
        builder
    }

    /// The next argument of the call.
    fn bind(&mut self, tensor: &TensorDescriptor, access: Access) {
        let argument = self.graph.bindings.len() as u32;
        let uid = self.add(tensor.data_type, &tensor.dims, tensor.strides.clone(), Place::Memory);
        self.graph.bindings.push(Binding { uid, argument, access });
    }

    /// A tensor between two operations, as long as another.
    fn between(&mut self, like: &TensorDescriptor) -> i64 {
        self.add(self.compute, &like.dims, packed_like(like), Place::Between)
    }

    /// One number that goes with every element.
    fn number(&mut self, number: f64) -> i64 {
        let ones = vec![1; self.rank];
        self.add(self.compute, &ones, ones.clone(), Place::Constant(number))
    }

    fn add(&mut self, data_type: DataType, dims: &[i64], strides: Vec<i64>, place: Place) -> i64 {
        let uid = self.next;
        self.next += 1;
        let value = if let Place::Constant(number) = place { Some(self.bytes(number)) } else { None };
        let is_virtual = matches!(place, Place::Between);
        self.graph.tensors.push(Tensor { uid, data_type, dims: dims.to_vec(), strides, is_virtual, value });
        uid
    }

    /// Rounded as MIOpen does, unless the chain is computed in doubles.
    fn bytes(&self, number: f64) -> Vec<u8> {
        if self.compute == DataType::Double { number.to_le_bytes().to_vec() } else { (number as f32).to_le_bytes().to_vec() }
    }

    /// The convolution, and what conv notes about it.
    fn convolve(&mut self, convolution: &convolution_contract::Problem, result: i64) {
        let place = |argument| match argument {
            Argument::X => INPUT,
            Argument::W => FILTER,
            Argument::Y => result,
        };
        self.graph.nodes.push(conv::convolution(convolution, self.compute, place));
        let notes = conv::NOTES.iter().filter(|note| (note.applies)(convolution)).map(|note| note.id.to_string());
        self.graph.notes.extend(notes);
    }

    fn step(&mut self, step: &Step<'_>, value: i64, result: i64) {
        let operand = step.operand.map(|operand| self.operand(operand));
        self.pointwise(step.mode, (value, operand), result, &step.parameters);
    }

    /// The tensor of a second operand, which may take operations of its own.
    fn operand(&mut self, operand: Operand<'_>) -> i64 {
        match operand {
            Operand::Number(number) => self.number(number),
            Operand::Tensor(uid) => uid,
            Operand::InverseDeviation { variance, shape, epsilon } => {
                let (epsilon, sum, inverse) = (self.number(epsilon), self.between(shape), self.between(shape));
                self.pointwise(pointwise_mode::ADD, (variance, Some(epsilon)), sum, &[]);
                self.pointwise(pointwise_mode::RSQRT, (sum, None), inverse, &[]);
                inverse
            }
        }
    }

    fn pointwise(&mut self, mode: i32, (first, second): (i64, Option<i64>), result: i64, parameters: &[(i32, f32)]) {
        let mut attributes = vec![set(attribute::OPERATION_POINTWISE_IN_0_EXT, Value::Tensor(first))];
        attributes.extend(second.map(|second| set(attribute::OPERATION_POINTWISE_IN_1_EXT, Value::Tensor(second))));
        attributes.push(set(attribute::OPERATION_POINTWISE_OUT_0_EXT, Value::Tensor(result)));
        attributes.push(set(attribute::POINTWISE_MODE, Value::Enumeration(mode)));
        attributes.push(set(attribute::POINTWISE_MATH_PREC, Value::DataType(self.compute)));
        attributes.extend(parameters.iter().map(|&(number, value)| set(number, Value::Floats(vec![value]))));
        self.graph.nodes.push(Node { operation: descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR, attributes });
    }
}

/// Where a tensor is.
#[derive(Clone, Copy)]
enum Place {
    Memory,
    Between,
    Constant(f64),
}

fn set(number: i32, value: Value) -> Attribute {
    Attribute { number, value }
}
