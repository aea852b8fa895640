//! One matrix product on the CPU: C = A · B over the last two dimensions, for each index of the dimensions before them. Element by element,
//! for tests: nothing here is fast.

use std::sync::Arc;

use hipdnn_abi::{attribute, data_type, descriptor_type};

use super::{
    Arguments, Work,
    element::Number,
    layout::{self, Checked, Layout},
};
use crate::{
    error::Result,
    graph::{Node, Tensor},
};

/// What can be read and written.
const FLOATS: [i32; 4] = [data_type::FLOAT, data_type::DOUBLE, data_type::HALF, data_type::BFLOAT16];

/// A matrix product that can run.
pub(super) struct Matmul {
    product: Arc<Product>,
    uids: [i64; 3],
}

/// What does not depend on addresses.
struct Product {
    double: bool,
    /// Of A, B and C.
    data_types: [i32; 3],
    /// Where the matrices of each index before the last two dimensions start.
    starts: Vec<[usize; 3]>,
    /// Rows of C, columns of C, and what is summed over.
    size: [usize; 3],
    /// Of A, B and C: to the next row, to the next column.
    steps: [[usize; 2]; 3],
}

impl Matmul {
    /// Whether a node is a matrix product.
    pub(super) fn is(node: &Node) -> bool {
        node.kind == descriptor_type::BACKEND_OPERATION_MATMUL_DESCRIPTOR
    }

    /// Takes an operation none of whose tensors is virtual, or says why not.
    pub(super) fn new(node: &Node, tensors: &[Arc<Tensor>]) -> Checked<Self> {
        let precision = node.enumeration(attribute::MATMUL_COMP_TYPE).unwrap_or(-1);
        if ![data_type::FLOAT, data_type::DOUBLE].contains(&precision) {
            return Err(format!("a matrix product computed in data type {precision}"));
        }
        let numbers = [attribute::OPERATION_MATMUL_ADESC, attribute::OPERATION_MATMUL_BDESC, attribute::OPERATION_MATMUL_CDESC];
        let [a, b, c] = numbers.map(|number| operand(node, tensors, number));
        let (a, b, c) = (a?, b?, c?);
        layout::without_overlap(c).ok_or("elements of the product overlap")?;
        let dims = [layout::dims(a)?, layout::dims(b)?, layout::dims(c)?];
        let layouts = [Layout::new(a)?, Layout::new(b)?, Layout::new(c)?];
        let refused = || format!("matrices of {:?} and {:?} for a product of {:?}", a.dims, b.dims, c.dims);
        let rank = dims[2].len();
        if rank < 2 || dims.iter().any(|dims| dims.len() != rank) {
            return Err(refused());
        }
        let matrix = |which: usize| [dims[which][rank - 2], dims[which][rank - 1]];
        let ([rows, inner], [again, columns]) = (matrix(0), matrix(1));
        // A and B may have one matrix for all of C's.
        let repeats = |which: usize| dims[which].iter().zip(&dims[2]).take(rank - 2).all(|(own, of_c)| own == of_c || *own == 1);
        if again != inner || matrix(2) != [rows, columns] || !repeats(0) || !repeats(1) {
            return Err(refused());
        }
        let steps = [0, 1, 2].map(|which: usize| [layouts[which].strides[rank - 2], layouts[which].strides[rank - 1]]);
        let product = Product {
            double: precision == data_type::DOUBLE,
            data_types: [a.data_type, b.data_type, c.data_type],
            starts: starts(&dims[2][..rank - 2], &layouts),
            size: [rows, columns, inner],
            steps,
        };
        Ok(Self { product: product.into(), uids: [a.uid, b.uid, c.uid] })
    }

    /// What an execution does.
    ///
    /// # Safety
    /// Whenever the work runs, every argument's memory is live for the extent of its tensor, C is writable and overlaps neither A nor B.
    pub(super) unsafe fn work(&self, arguments: &Arguments) -> Result<Work> {
        let product = self.product.clone();
        let mut places = [0; 3];
        for (place, uid) in places.iter_mut().zip(self.uids) {
            *place = arguments.address(uid)?.expose_provenance();
        }
        Ok(Box::new(move || {
            let places = places.map(std::ptr::with_exposed_provenance_mut);
            // SAFETY: by the contract of `work`.
            unsafe { if product.double { product.run::<f64>(places) } else { product.run::<f32>(places) } }
        }))
    }
}

/// Every combination of indices before the last two, as offsets into A, B and C. A stride along a single element is 0.
fn starts(batch: &[usize], layouts: &[Layout; 3]) -> Vec<[usize; 3]> {
    let mut starts = vec![[0; 3]];
    for (axis, &length) in batch.iter().enumerate() {
        let next = |start: &[usize; 3], i: usize| [0, 1, 2].map(|which: usize| start[which] + i * layouts[which].strides[axis]);
        starts = starts.iter().flat_map(|start| (0..length).map(move |i| next(start, i))).collect();
    }
    starts
}

fn operand<'a>(node: &Node, tensors: &'a [Arc<Tensor>], number: i32) -> Checked<&'a Tensor> {
    let tensor = node.tensor(number).and_then(|uid| layout::find(tensors, uid)).ok_or("an operand of a matrix product is missing")?;
    let plain = tensor.value.is_none() && !tensor.runtime_by_value && tensor.ragged_offsets.is_none();
    if plain && FLOATS.contains(&tensor.data_type) {
        Ok(tensor)
    } else {
        Err(format!("tensor {} of data type {}, or by value or ragged, in a matrix product", tensor.uid, tensor.data_type))
    }
}

impl Product {
    /// # Safety
    /// As for [`Matmul::work`].
    unsafe fn run<T: Number>(&self, [a, b, c]: [*mut u8; 3]) {
        let widths = self.data_types.map(|data_type| hipdnn_abi::data_type_bytes(data_type).unwrap_or(0));
        let [rows, columns, inner] = self.size;
        let (mut row, mut column) = (vec![T::default(); inner], vec![T::default(); inner]);
        for start in &self.starts {
            for i in 0..rows {
                // SAFETY: elements inside the tensors' dimensions, hence inside their extents; as is what follows.
                unsafe { T::load(self.data_types[0], a.add((start[0] + i * self.steps[0][0]) * widths[0]), self.steps[0][1], &mut row) };
                for j in 0..columns {
                    let (from, to) = (start[1] + j * self.steps[1][1], start[2] + i * self.steps[2][0] + j * self.steps[2][1]);
                    // SAFETY: as above.
                    unsafe { T::load(self.data_types[1], b.add(from * widths[1]), self.steps[1][0], &mut column) };
                    let mut sum = T::default();
                    row.iter().zip(&column).for_each(|(&a, &b)| sum += a * b);
                    // SAFETY: as above.
                    unsafe { T::store(&[sum], self.data_types[2], c.add(to * widths[2]), 1) };
                }
            }
        }
    }
}
