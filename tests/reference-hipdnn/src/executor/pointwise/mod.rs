//! One pointwise operation on the CPU: what is taken, and running it. What modes compute is in `function`, which elements meet in `walk`.

mod function;
mod walk;

use std::sync::Arc;

use hipdnn_abi::{attribute, data_type, descriptor_type};

use self::{function::Function, walk::Walk};
use super::{
    Arguments, Work,
    element::Number,
    layout::{self, Checked, Layout},
};
use crate::{
    error::Result,
    graph::{Node, Tensor},
};

/// How many elements are computed at once.
const CHUNK: usize = 256;

/// What can be read and written. Integers are left to the convolution.
const FLOATS: [i32; 4] = [data_type::FLOAT, data_type::DOUBLE, data_type::HALF, data_type::BFLOAT16];

/// A pointwise operation that can run.
pub(super) struct Pointwise {
    shape: Arc<Shape>,
    inputs: Vec<Source>,
    output: i64,
}

/// What does not depend on addresses.
struct Shape {
    function: Function,
    /// In double precision, otherwise in floats.
    double: bool,
    /// The output's, then the inputs'.
    data_types: [i32; 3],
    walk: Walk<3>,
}

/// Where an input comes from.
#[derive(Clone, Debug)]
enum Source {
    /// The memory of the tensor with this unique id.
    Memory(i64),
    /// A single element.
    Constant(Arc<[u8]>),
}

impl Pointwise {
    /// Whether a node is a pointwise operation.
    pub(super) fn is(node: &Node) -> bool {
        node.kind == descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR
    }

    /// Takes an operation none of whose tensors is virtual, or says why not.
    pub(super) fn new(node: &Node, tensors: &[Arc<Tensor>]) -> Checked<Self> {
        let function = Function::of(node)?;
        let precision = node.enumeration(attribute::POINTWISE_MATH_PREC).unwrap_or(-1);
        if ![data_type::FLOAT, data_type::DOUBLE].contains(&precision) {
            return Err(format!("pointwise operations computed in data type {precision}"));
        }
        let output = tensor(tensors, node, attribute::OPERATION_POINTWISE_OUT_0_EXT)?;
        layout::without_overlap(output).ok_or("elements of the output overlap")?;
        let inputs = inputs(node, tensors, function.arity())?;
        let dims = layout::dims(output)?;
        let strides = inputs.iter().map(|input| broadcast(input, output)).collect::<Checked<Vec<_>>>()?;
        let of = |i: usize| strides.get(i).map_or(&[][..], Vec::as_slice);
        let data_type = |i: usize| inputs.get(i).map_or(data_type::FLOAT, |input| input.data_type);
        let shape = Shape {
            function,
            double: precision == data_type::DOUBLE,
            data_types: [output.data_type, data_type(0), data_type(1)],
            // Distinct elements in an addressable extent: as many as memory has, at most.
            walk: Walk::new(&dims, [&Layout::new(output)?.strides, of(0), of(1)]),
        };
        Ok(Self { shape: shape.into(), inputs: inputs.into_iter().map(source).collect(), output: output.uid })
    }

    /// What an execution does.
    ///
    /// # Safety
    /// Whenever the work runs, every argument's memory is live for the extent of its tensor, and the output is writable. The output
    /// overlaps an input only if both have the same address, type, dimensions and strides.
    pub(super) unsafe fn work(&self, arguments: &Arguments) -> Result<Work> {
        let (shape, output) = (self.shape.clone(), Place::Memory(arguments.address(self.output)?));
        let inputs = self.inputs.iter().map(|source| source.place(arguments)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(move || {
            // SAFETY: by the contract of `work`; constants are as long as one element, and no step leads away from it.
            unsafe { if shape.double { shape.run::<f64>(&output, &inputs) } else { shape.run::<f32>(&output, &inputs) } }
        }))
    }
}

impl Source {
    fn place(&self, arguments: &Arguments) -> Result<Place> {
        Ok(match self {
            Self::Memory(uid) => Place::Memory(arguments.address(*uid)?),
            Self::Constant(bytes) => Place::Constant(bytes.clone()),
        })
    }
}

/// Where elements are.
enum Place {
    Memory(*mut u8),
    Constant(Arc<[u8]>),
}

// SAFETY: only addresses; who may use them when is the contract of `Pointwise::work`.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    fn address(&self) -> *mut u8 {
        match self {
            Self::Memory(address) => *address,
            Self::Constant(bytes) => bytes.as_ptr().cast_mut(),
        }
    }
}

impl Shape {
    /// Every element of a chunk is read before one is written, so that an input may be what is written.
    ///
    /// # Safety
    /// As for [`Pointwise::work`].
    unsafe fn run<T: Number>(&self, output: &Place, inputs: &[Place]) {
        let mut read = [[T::default(); CHUNK]; 2];
        let mut results = [T::default(); CHUNK];
        let sizes = self.data_types.map(|data_type| hipdnn_abi::data_type_bytes(data_type).unwrap_or(0));
        let steps = self.walk.steps();
        for run in self.walk.runs(CHUNK) {
            for (i, input) in inputs.iter().enumerate() {
                // SAFETY: elements inside the tensor's dimensions, hence inside its extent.
                unsafe {
                    let from = input.address().add(run.offsets[i + 1] * sizes[i + 1]);
                    T::load(self.data_types[i + 1], from, steps[i + 1], &mut read[i][..run.count]);
                }
            }
            let results = &mut results[..run.count];
            self.function.apply(&read[0][..run.count], &read[1][..run.count], results);
            // SAFETY: as above.
            unsafe { T::store(results, self.data_types[0], output.address().add(run.offsets[0] * sizes[0]), steps[0]) };
        }
    }
}

/// As many inputs as the function has, in order, and no more.
fn inputs<'a>(node: &Node, tensors: &'a [Arc<Tensor>], arity: usize) -> Checked<Vec<&'a Tensor>> {
    let numbers =
        [attribute::OPERATION_POINTWISE_IN_0_EXT, attribute::OPERATION_POINTWISE_IN_1_EXT, attribute::OPERATION_POINTWISE_IN_2_EXT];
    let (wanted, others) = numbers.split_at(arity);
    if let Some(&number) = others.iter().find(|number| node.tensor(**number).is_some()) {
        return Err(format!("{} of a function of {arity}", hipdnn_abi::name_in(attribute::ALL, number).unwrap_or("an operand")));
    }
    wanted.iter().map(|&number| tensor(tensors, node, number)).collect()
}

fn tensor<'a>(tensors: &'a [Arc<Tensor>], node: &Node, number: i32) -> Checked<&'a Tensor> {
    let name = hipdnn_abi::name_in(attribute::ALL, number).unwrap_or("a tensor");
    let tensor = node.tensor(number).and_then(|uid| layout::find(tensors, uid)).ok_or_else(|| format!("{name} is missing"))?;
    if tensor.is_virtual || tensor.runtime_by_value || tensor.ragged_offsets.is_some() {
        return Err(format!("tensor {} is virtual, by value at run time, or ragged", tensor.uid));
    }
    if !FLOATS.contains(&tensor.data_type) {
        return Err(format!("tensor {} of data type {} in a pointwise operation", tensor.uid, tensor.data_type));
    }
    Ok(tensor)
}

/// An input's strides along the output's dimensions: 0 along those where it has one element only. A single element may have any rank.
fn broadcast(input: &Tensor, output: &Tensor) -> Checked<Vec<usize>> {
    if input.dims.iter().all(|&dim| dim == 1) {
        return Ok(vec![0; output.dims.len()]);
    }
    let same_rank = input.dims.len() == output.dims.len() && input.value.is_none();
    if same_rank && input.dims.iter().zip(&output.dims).all(|(&dim, &of_output)| dim == 1 || dim == of_output) {
        return Layout::new(input).map(|layout| layout.strides);
    }
    Err(format!("tensor {} of {:?} for an output of {:?}", input.uid, input.dims, output.dims))
}

fn source(input: &Tensor) -> Source {
    match &input.value {
        Some(bytes) => Source::Constant(bytes.as_slice().into()),
        None => Source::Memory(input.uid),
    }
}
