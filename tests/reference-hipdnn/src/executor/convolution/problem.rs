//! From a graph to the numbers of one convolution. Everything that makes the sums safe to run is proved here: geometry, groups, element
//! types, and that no element of a tensor lies outside what its dimensions and strides span.

use hipdnn_abi::{attribute, convolution_mode, data_type, descriptor_type};

use super::super::Refusal;
use crate::graph::{Graph, Node, Tensor};

/// The most spatial dimensions.
pub(super) const MAX_SPATIAL: usize = 5;

type Checked<T> = std::result::Result<T, Refusal>;

/// What sums are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulator {
    Float,
    Double,
    Int32,
}

/// A tensor in memory.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) uid: i64,
    pub(super) data_type: i32,
    /// In elements, N and C first.
    pub(super) strides: Vec<usize>,
}

/// One forward convolution.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) x: Layout,
    pub(super) w: Layout,
    pub(super) y: Layout,
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Input channels of one group.
    pub(super) channels: usize,
    /// Output channels of one group.
    pub(super) filters: usize,
    pub(super) input: Vec<usize>,
    pub(super) taps: Vec<usize>,
    pub(super) output: Vec<usize>,
    pub(super) pre_paddings: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) dilations: Vec<usize>,
    /// True convolution: the filter is read backwards.
    pub(super) flip: bool,
    pub(super) accumulator: Accumulator,
}

impl Problem {
    pub(super) fn new(graph: &Graph) -> Checked<Self> {
        let node = only_node(graph)?;
        let tensor = |number| tensor(graph, node, number);
        let x = tensor(attribute::OPERATION_CONVOLUTION_FORWARD_X)?;
        let w = tensor(attribute::OPERATION_CONVOLUTION_FORWARD_W)?;
        let y = tensor(attribute::OPERATION_CONVOLUTION_FORWARD_Y)?;
        if y.uid == x.uid || y.uid == w.uid {
            return Err("the output is an input as well".into());
        }
        if without_overlap(y).is_none() {
            return Err("elements of the output overlap".into());
        }
        let (dims_x, dims_w, dims_y) = (dims(x)?, dims(w)?, dims(y)?);
        if dims_x.len() != dims_w.len() || dims_x.len() != dims_y.len() || !(3..=2 + MAX_SPATIAL).contains(&dims_x.len()) {
            return Err(format!("ranks {}, {} and {}", dims_x.len(), dims_w.len(), dims_y.len()));
        }
        let (groups, filters) = groups(&dims_x, &dims_w, &dims_y)?;
        let flip = node.enumeration(attribute::CONVOLUTION_CONV_MODE) == Some(convolution_mode::CONVOLUTION);
        let spatial = dims_x.len() - 2;
        let parameter = |number, least| parameter(node, number, spatial, least);
        let problem = Self {
            accumulator: accumulator(node, [x, w, y].map(|tensor| tensor.data_type))?,
            x: layout(x)?,
            w: layout(w)?,
            y: layout(y)?,
            batch: dims_x[0],
            groups,
            channels: dims_w[1],
            filters,
            input: dims_x[2..].to_vec(),
            taps: dims_w[2..].to_vec(),
            output: dims_y[2..].to_vec(),
            pre_paddings: parameter(attribute::CONVOLUTION_PRE_PADDINGS, 0)?,
            strides: parameter(attribute::CONVOLUTION_FILTER_STRIDES, 1)?,
            dilations: parameter(attribute::CONVOLUTION_DILATIONS, 1)?,
            flip,
        };
        problem.check_geometry(&parameter(attribute::CONVOLUTION_POST_PADDINGS, 0)?)?;
        Ok(problem)
    }

    /// The output must have exactly the size that follows from everything else.
    fn check_geometry(&self, post_paddings: &[usize]) -> Checked<()> {
        for (i, post_padding) in post_paddings.iter().enumerate() {
            let span = self.dilations[i].checked_mul(self.taps[i] - 1).and_then(|span| span.checked_add(1));
            let padded = self.input[i].checked_add(self.pre_paddings[i]).and_then(|sum| sum.checked_add(*post_padding));
            let (Some(span), Some(padded)) = (span, padded) else { return Err("a geometry that overflows".into()) };
            let follows = padded.checked_sub(span).map(|room| room / self.strides[i] + 1);
            if follows != Some(self.output[i]) || padded > isize::MAX as usize {
                return Err(format!("output size {} in spatial dimension {i}, but {follows:?} follows", self.output[i]));
            }
        }
        Ok(())
    }
}

fn only_node(graph: &Graph) -> Checked<&Node> {
    let [node] = graph.nodes.as_slice() else { return Err(format!("{} operations in one graph", graph.nodes.len())) };
    if node.kind != descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR {
        return Err(format!("operation {}", node.kind));
    }
    if graph.override_shapes {
        return Err("shapes that are overridden".into());
    }
    Ok(node)
}

fn tensor<'a>(graph: &'a Graph, node: &Node, number: i32) -> Checked<&'a Tensor> {
    let tensor = node.tensor(number).and_then(|uid| graph.tensor(uid)).ok_or("a tensor is missing")?;
    let plain = tensor.needs_pointer() && !tensor.runtime_by_value && tensor.ragged_offsets.is_none();
    if plain { Ok(tensor) } else { Err(format!("tensor {} is virtual, by value, or ragged", tensor.uid)) }
}

fn sizes(values: &[i64], least: i64) -> Option<Vec<usize>> {
    values.iter().map(|&value| usize::try_from(value).ok().filter(|_| value >= least)).collect()
}

fn dims(tensor: &Tensor) -> Checked<Vec<usize>> {
    sizes(&tensor.dims, 1).ok_or_else(|| format!("tensor {} has dimensions {:?}", tensor.uid, tensor.dims))
}

/// Also proves that offsets of all elements, in bytes, are addressable. Strides of 0 repeat elements, which only inputs may.
fn layout(tensor: &Tensor) -> Checked<Layout> {
    let refuse = || format!("tensor {} has dimensions {:?} and strides {:?}", tensor.uid, tensor.dims, tensor.strides);
    let strides = sizes(&tensor.strides, 0).filter(|strides| strides.len() == tensor.dims.len()).ok_or_else(refuse)?;
    let reach = dims(tensor)?.iter().zip(&strides).try_fold(1usize, |sum, (dim, stride)| stride.checked_mul(dim - 1)?.checked_add(sum));
    let bytes = hipdnn_abi::data_type_bytes(tensor.data_type).and_then(|bytes| reach?.checked_mul(bytes));
    bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(refuse)?;
    Ok(Layout { uid: tensor.uid, data_type: tensor.data_type, strides })
}

/// Sufficient, and necessary for every layout that nests its dimensions: in order of strides, each clears all that lies inside it.
fn without_overlap(tensor: &Tensor) -> Option<()> {
    let mut order: Vec<(i64, i64)> = tensor.strides.iter().copied().zip(tensor.dims.iter().copied()).filter(|(_, dim)| *dim != 1).collect();
    order.sort_unstable();
    let mut reach = 0i64;
    for (stride, dim) in order {
        if stride <= reach {
            return None;
        }
        reach = stride.checked_mul(dim.checked_sub(1)?)?.checked_add(reach)?;
    }
    Some(())
}

/// Groups and output channels of each, from x (N, C, …), w (K, C/g, …) and y (N, K, …).
fn groups(x: &[usize], w: &[usize], y: &[usize]) -> Checked<(usize, usize)> {
    let groups = x[1] / w[1];
    let fits = x[0] == y[0] && w[0] == y[1] && x[1].is_multiple_of(w[1]) && groups > 0 && w[0].is_multiple_of(groups);
    if fits { Ok((groups, w[0] / groups)) } else { Err(format!("batch and channels: x {x:?}, w {w:?}, y {y:?}")) }
}

fn parameter(node: &Node, number: i32, spatial: usize, least: i64) -> Checked<Vec<usize>> {
    let name = hipdnn_abi::name_in(attribute::ALL, number).unwrap_or("a parameter");
    let values = node.int64s(number).unwrap_or_default();
    let fits = sizes(values, least).filter(|values| values.len() == spatial);
    fits.ok_or_else(|| format!("{name} {values:?} for {spatial} spatial dimensions"))
}

fn accumulator(node: &Node, [x, w, y]: [i32; 3]) -> Checked<Accumulator> {
    let compute = node.enumeration(attribute::CONVOLUTION_COMP_TYPE).unwrap_or(-1);
    let floating = [data_type::FLOAT, data_type::DOUBLE, data_type::HALF, data_type::BFLOAT16].contains(&x) && y == x;
    let integer = x == data_type::INT8 && [data_type::INT8, data_type::INT32, data_type::FLOAT].contains(&y);
    match compute {
        _ if w != x => Err(format!("data types {x} and {w} of input and filter")),
        data_type::FLOAT if floating || integer => Ok(Accumulator::Float),
        data_type::DOUBLE if floating => Ok(Accumulator::Double),
        data_type::INT32 if integer => Ok(Accumulator::Int32),
        _ => Err(format!("data types {x} → {y}, computed in {compute}")),
    }
}
