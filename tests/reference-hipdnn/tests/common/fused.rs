//! Graphs of several operations, and what they give straight from the definition, in f64.

use std::collections::BTreeMap;

use super::{numbers::*, *};

/// Where a tensor's numbers are.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    Memory,
    Virtual,
    Constant(f64),
}

/// A tensor of a graph.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub uid: i64,
    pub data_type: i32,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub role: Role,
}

impl Tensor {
    pub fn new(uid: i64, data_type: i32, dims: &[i64], role: Role) -> Self {
        Self { uid, data_type, dims: dims.to_vec(), strides: packed(dims), role }
    }

    pub fn memory(uid: i64, (data_type, dims, strides): &(i32, Vec<i64>, Vec<i64>)) -> Self {
        Self { uid, data_type: *data_type, dims: dims.clone(), strides: strides.clone(), role: Role::Memory }
    }

    /// One number that goes with all others.
    pub fn constant(uid: i64, data_type: i32, rank: usize, number: f64) -> Self {
        Self::new(uid, data_type, &vec![1; rank], Role::Constant(number))
    }

    pub fn descriptor(&self) -> D {
        let tensor = unfinalized_tensor(self.uid, self.data_type, &self.dims, &self.strides);
        match self.role {
            Role::Memory => {}
            Role::Virtual => assert_eq!(tensor.flag(a::TENSOR_IS_VIRTUAL, true), OK),
            Role::Constant(number) => assert_eq!(tensor.set(a::TENSOR_VALUE_EXT, t::CHAR, &encode(number, self.data_type)), OK),
        }
        tensor.finalized()
    }
}

/// A pointwise operation.
#[derive(Clone, Debug)]
pub struct Pointwise {
    pub mode: i32,
    pub inputs: Vec<i64>,
    pub output: i64,
    pub precision: i32,
    pub parameters: Vec<(i32, f32)>,
}

impl Pointwise {
    pub fn new(mode: i32, inputs: &[i64], output: i64) -> Self {
        Self { mode, inputs: inputs.to_vec(), output, precision: data_type::FLOAT, parameters: vec![] }
    }

    fn operation(&self, tensors: &BTreeMap<i64, D>) -> D {
        let operation = D::new(k::BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        let inputs = [a::OPERATION_POINTWISE_IN_0_EXT, a::OPERATION_POINTWISE_IN_1_EXT, a::OPERATION_POINTWISE_IN_2_EXT];
        for (number, uid) in inputs.iter().zip(&self.inputs) {
            assert_eq!(operation.child(*number, &tensors[uid]), OK, "{}", last_error());
        }
        assert_eq!(operation.child(a::OPERATION_POINTWISE_OUT_0_EXT, &tensors[&self.output]), OK);
        assert_eq!(operation.set(a::POINTWISE_MODE, t::POINTWISE_MODE, &[self.mode]), OK);
        assert_eq!(operation.data_type(a::POINTWISE_MATH_PREC, self.precision), OK);
        for (number, value) in &self.parameters {
            assert_eq!(operation.set(*number, t::FLOAT, &[*value]), OK);
        }
        operation.finalized()
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Operation {
    /// With the unique ids of x, w and y.
    Convolution(Box<Convolution>, [i64; 3]),
    Pointwise(Pointwise),
}

/// A graph.
#[derive(Clone, Debug)]
pub struct Fused {
    pub tensors: Vec<Tensor>,
    pub operations: Vec<Operation>,
}

impl Fused {
    /// A convolution whose result is virtual: uids 1, 2 and 3 are x, w and y as they are in memory, 4 is what the convolution gives.
    pub fn convolution(case: &Convolution, between: i32) -> Self {
        let mut tensors: Vec<_> = [(1, &case.x), (2, &case.w), (3, &case.y)].map(|(uid, tensor)| Tensor::memory(uid, tensor)).into();
        let place = case.direction.place();
        let result = Tensor { uid: 4, data_type: between, role: Role::Virtual, ..tensors[place].clone() };
        tensors.push(result);
        let mut uids = [1, 2, 3];
        uids[place] = 4;
        Self { tensors, operations: vec![Operation::Convolution(case.clone().into(), uids)] }
    }

    /// result = alpha · convolution + beta · result, in place: uid 9 is the old result.
    pub fn scaled(case: &Convolution, between: i32, alpha: f64, beta: f64) -> Self {
        let mut fused = Self::convolution(case, between);
        let (result, rank) = (fused.tensors[case.direction.place()].clone(), case.x.1.len());
        let virtual_like = |uid| Tensor { uid, data_type: between, role: Role::Virtual, ..result.clone() };
        fused.tensors.extend([virtual_like(5), virtual_like(6), Tensor { uid: 9, ..result.clone() }]);
        fused.tensors.extend([(7, alpha), (8, beta)].map(|(uid, number)| Tensor::constant(uid, between, rank, number)));
        let steps = [(p::MUL, [4, 7], 5), (p::MUL, [9, 8], 6), (p::ADD, [5, 6], result.uid)];
        let steps = steps.map(|(mode, inputs, output)| Pointwise { precision: between, ..Pointwise::new(mode, &inputs, output) });
        fused.operations.extend(steps.map(Operation::Pointwise));
        fused
    }

    /// Forward, then a bias for each channel (uid 5), then ReLU.
    pub fn biased(case: &Convolution, parameters: &[(i32, f32)]) -> Self {
        let mut fused = Self::convolution(case, data_type::FLOAT);
        let mut channels = vec![1; case.y.1.len()];
        channels[1] = case.y.1[1];
        let sums = Tensor { uid: 6, data_type: data_type::FLOAT, role: Role::Virtual, ..fused.tensors[2].clone() };
        fused.tensors.extend([Tensor::new(5, case.y.0, &channels, Role::Memory), sums]);
        let relu = Pointwise { parameters: parameters.to_vec(), ..Pointwise::new(p::RELU_FWD, &[6], 3) };
        fused.operations.extend([Pointwise::new(p::ADD, &[4, 5], 6), relu].map(Operation::Pointwise));
        fused
    }

    pub fn tensor(&self, uid: i64) -> &Tensor {
        self.tensors.iter().find(|tensor| tensor.uid == uid).expect("a tensor of the graph")
    }

    pub fn tensor_mut(&mut self, uid: i64) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.uid == uid).expect("a tensor of the graph")
    }

    pub fn pointwise_mut(&mut self, place: usize) -> &mut Pointwise {
        match &mut self.operations[place] {
            Operation::Pointwise(pointwise) => pointwise,
            Operation::Convolution(..) => panic!("operation {place} is the convolution"),
        }
    }

    pub fn in_memory(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| tensor.role == Role::Memory)
    }

    pub fn outputs(&self) -> Vec<i64> {
        let output = |operation: &Operation| match operation {
            Operation::Convolution(case, uids) => uids[case.direction.place()],
            Operation::Pointwise(pointwise) => pointwise.output,
        };
        self.operations.iter().map(output).filter(|&uid| self.tensor(uid).role == Role::Memory).collect()
    }

    pub fn graph(&self, handle: &Handle) -> D {
        let tensors: BTreeMap<i64, D> = self.tensors.iter().map(|tensor| (tensor.uid, tensor.descriptor())).collect();
        let operation = |operation: &Operation| match operation {
            Operation::Convolution(case, uids) => case.operation(uids.map(|uid| &tensors[&uid])),
            Operation::Pointwise(pointwise) => pointwise.operation(&tensors),
        };
        let operations: Vec<D> = self.operations.iter().map(operation).collect();
        graph(handle, &operations.iter().collect::<Vec<_>>())
    }

    pub fn is_taken(&self, handle: &Handle) -> bool {
        heuristic(&self.graph(handle)).count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR) == (OK, 1)
    }

    /// Adds the numbers of everything that is computed, in the order of [`indices`]. Only what goes into memory is rounded into its type,
    /// which is left to the caller.
    pub fn compute(&self, values: &mut BTreeMap<i64, Vec<f64>>) {
        for tensor in &self.tensors {
            if let Role::Constant(number) = tensor.role {
                values.insert(tensor.uid, vec![decode(&encode(number, tensor.data_type), tensor.data_type)]);
            }
        }
        for operation in &self.operations {
            match operation {
                Operation::Convolution(case, uids) => {
                    let operand = |i: usize| match values.get(&uids[i]) {
                        Some(values) if i != case.direction.place() => values.clone(),
                        _ => vec![0.0; indices(&self.tensor(uids[i]).dims).len()],
                    };
                    let operands = [operand(0), operand(1), operand(2)];
                    let (sums, _) = sums(case, [&operands[0], &operands[1], &operands[2]]);
                    values.insert(uids[case.direction.place()], sums);
                }
                Operation::Pointwise(pointwise) => {
                    let results = self.pointwise(pointwise, values);
                    values.insert(pointwise.output, results);
                }
            }
        }
    }

    fn pointwise(&self, pointwise: &Pointwise, values: &BTreeMap<i64, Vec<f64>>) -> Vec<f64> {
        let at = |uid: i64, index: &[i64]| {
            let dims = &self.tensor(uid).dims;
            if dims.iter().all(|&dim| dim == 1) {
                return values[&uid][0];
            }
            let place: i64 =
                dims.iter().zip(packed(dims)).zip(index).map(|((&dim, stride), &i)| if dim == 1 { 0 } else { i * stride }).sum();
            values[&uid][place as usize]
        };
        let round = |number: f64| if pointwise.precision == data_type::FLOAT { f64::from(number as f32) } else { number };
        let element = |index: Vec<i64>| {
            let operands: Vec<f64> = pointwise.inputs.iter().map(|&uid| at(uid, &index)).collect();
            round(function(pointwise, operands[0], operands.get(1).copied().unwrap_or(f64::NAN)))
        };
        indices(&self.tensor(pointwise.output).dims).into_iter().map(element).collect()
    }
}

/// The definitions.
fn function(pointwise: &Pointwise, x: f64, y: f64) -> f64 {
    let parameter =
        |number: i32, default: f64| pointwise.parameters.iter().find(|(n, _)| *n == number).map_or(default, |(_, v)| f64::from(*v));
    match pointwise.mode {
        p::ABS => x.abs(),
        p::ADD => x + y,
        p::ADD_SQUARE => x + y * y,
        p::CEIL => x.ceil(),
        p::DIV => x / y,
        p::ELU_FWD if x > 0.0 => x,
        p::ELU_FWD => parameter(a::POINTWISE_ELU_ALPHA, 1.0) * (x.exp() - 1.0),
        p::EXP => x.exp(),
        p::FLOOR => x.floor(),
        p::IDENTITY => x,
        p::LOG => x.ln(),
        p::MAX => {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.max(y)
            }
        }
        p::MIN => {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.min(y)
            }
        }
        p::MUL => x * y,
        p::NEG => -x,
        p::RECIPROCAL => 1.0 / x,
        p::RELU_FWD => {
            let lower = parameter(a::POINTWISE_RELU_LOWER_CLIP, 0.0);
            let upper = parameter(a::POINTWISE_RELU_UPPER_CLIP, f64::INFINITY);
            let slope = parameter(a::POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0);
            if x <= lower && slope == 0.0 {
                lower
            } else if x <= lower {
                lower + slope * (x - lower)
            } else if x >= upper {
                upper
            } else {
                x
            }
        }
        p::RSQRT => 1.0 / x.sqrt(),
        p::SIGMOID_FWD => 1.0 / (1.0 + (-x).exp()),
        p::SIN => x.sin(),
        p::SOFTPLUS_FWD => {
            let beta = parameter(a::POINTWISE_SOFTPLUS_BETA, 1.0);
            (1.0 + (beta * x).exp()).ln() / beta
        }
        p::SQRT => x.sqrt(),
        p::SUB => x - y,
        p::SWISH_FWD => x / (1.0 + (-parameter(a::POINTWISE_SWISH_BETA, 1.0) * x).exp()),
        p::TAN => x.sin() / x.cos(),
        p::TANH_FWD => ((2.0 * x).exp() - 1.0) / ((2.0 * x).exp() + 1.0),
        other => panic!("mode {other}"),
    }
}
