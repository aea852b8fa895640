//! From a node to the numbers of one convolution, of any direction. Everything that makes it safe to run is proved here: geometry,
//! groups, element types, that no two elements of the output are one, and that all products of sizes fit into memory's numbers. That no
//! element lies outside what a tensor's dimensions and strides span is the business of [`super::layout`].

use std::sync::Arc;

use hipdnn_abi::{attribute, convolution_mode, data_type, descriptor_type};

use super::layout::{self, Checked, Layout, dims, sizes};
use crate::graph::{Node, Tensor};

/// The most spatial dimensions.
pub(super) const MAX_SPATIAL: usize = 5;

/// What is computed. Tensors keep the names that they have in the forward direction: x is the image or its gradient, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// y from x and w.
    Forward,
    /// x from y and w.
    Data,
    /// w from x and y.
    Filter,
}

impl Direction {
    /// The direction of an operation, and its attributes for x, w and y.
    fn of(kind: i32) -> Option<(Self, [i32; 3])> {
        Some(match kind {
            descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => (
                Self::Forward,
                [
                    attribute::OPERATION_CONVOLUTION_FORWARD_X,
                    attribute::OPERATION_CONVOLUTION_FORWARD_W,
                    attribute::OPERATION_CONVOLUTION_FORWARD_Y,
                ],
            ),
            descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => (
                Self::Data,
                [
                    attribute::OPERATION_CONVOLUTION_BWD_DATA_DX,
                    attribute::OPERATION_CONVOLUTION_BWD_DATA_W,
                    attribute::OPERATION_CONVOLUTION_BWD_DATA_DY,
                ],
            ),
            descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => (
                Self::Filter,
                [
                    attribute::OPERATION_CONVOLUTION_BWD_FILTER_X,
                    attribute::OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    attribute::OPERATION_CONVOLUTION_BWD_FILTER_DY,
                ],
            ),
            _ => return None,
        })
    }

    /// Of x, w and y: the inputs, then the output.
    fn arrange<T>(self, [x, w, y]: [T; 3]) -> ([T; 2], T) {
        match self {
            Self::Forward => ([x, w], y),
            Self::Data => ([y, w], x),
            Self::Filter => ([x, y], w),
        }
    }
}

/// Whether a node is a convolution of any direction.
pub(super) fn is_convolution(node: &Node) -> bool {
    Direction::of(node.kind).is_some()
}

/// What sums are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulator {
    Float,
    /// Also for integers.
    Double,
}

/// One convolution.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) direction: Direction,
    pub(super) x: Layout,
    pub(super) w: Layout,
    pub(super) y: Layout,
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Channels of x in one group.
    pub(super) channels: usize,
    /// Channels of y in one group.
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
    pub(super) fn new(node: &Node, tensors: &[Arc<Tensor>]) -> Checked<Self> {
        let (direction, numbers) = Direction::of(node.kind).ok_or_else(|| format!("operation {}", node.kind))?;
        let [x, w, y] = [tensor(tensors, node, numbers[0])?, tensor(tensors, node, numbers[1])?, tensor(tensors, node, numbers[2])?];
        check_output(direction, [x, w, y])?;
        let (dims_x, dims_w, dims_y) = (dims(x)?, dims(w)?, dims(y)?);
        if dims_x.len() != dims_w.len() || dims_x.len() != dims_y.len() || !(3..=2 + MAX_SPATIAL).contains(&dims_x.len()) {
            return Err(format!("ranks {}, {} and {}", dims_x.len(), dims_w.len(), dims_y.len()));
        }
        let (groups, filters) = groups(&dims_x, &dims_w, &dims_y)?;
        let spatial = dims_x.len() - 2;
        let parameter = |number, least| parameter(node, number, spatial, least);
        let mut problem = Self {
            direction,
            accumulator: accumulator(node, direction, [x, w, y].map(|tensor| tensor.data_type))?,
            x: Layout::new(x)?,
            w: Layout::new(w)?,
            y: Layout::new(y)?,
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
            flip: node.enumeration(attribute::CONVOLUTION_CONV_MODE) == Some(convolution_mode::CONVOLUTION),
        };
        problem.check_geometry(&parameter(attribute::CONVOLUTION_POST_PADDINGS, 0)?)?;
        problem.check_sizes().ok_or("sizes that overflow")?;
        problem.drop_ones();
        Ok(problem)
    }

    /// The output must have exactly the size that follows from everything else. Several image sizes can give the same size of y, so the
    /// image may be larger than what its gradient's taps reach.
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

    /// Inputs may repeat elements, so their extents in memory say nothing about how many there are.
    fn check_sizes(&self) -> Option<()> {
        let (channels, filters) = (self.groups.checked_mul(self.channels)?, self.groups.checked_mul(self.filters)?);
        let parts = [([self.batch, channels], &self.input), ([self.batch, filters], &self.output), ([filters, self.channels], &self.taps)];
        parts.iter().all(|(head, spatial)| product(head.iter().chain(*spatial)).is_some()).then_some(())
    }

    /// Spatial dimensions in which nothing happens only make runs shorter.
    fn drop_ones(&mut self) {
        for i in (0..self.input.len()).rev() {
            let nothing = self.input[i] == 1 && self.taps[i] == 1 && self.output[i] == 1 && self.pre_paddings[i] == 0;
            if !nothing || self.input.len() == 1 {
                continue;
            }
            for list in [&mut self.input, &mut self.taps, &mut self.output, &mut self.pre_paddings, &mut self.strides, &mut self.dilations]
            {
                list.remove(i);
            }
            for tensor in [&mut self.x, &mut self.w, &mut self.y] {
                tensor.strides.remove(2 + i);
            }
        }
    }

    /// Elements of one channel of an image.
    pub(super) fn input_size(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of one channel of a filter.
    pub(super) fn tap_count(&self) -> usize {
        self.taps.iter().product()
    }

    /// Elements of one channel of one y.
    pub(super) fn output_size(&self) -> usize {
        self.output.iter().product()
    }

    /// Whether every output position is the input position of the same number, and nothing else.
    pub(super) fn is_pointwise(&self) -> bool {
        let plain = self.pre_paddings.iter().all(|&padding| padding == 0) && self.strides.iter().all(|&stride| stride == 1);
        plain && self.tap_count() == 1 && self.input == self.output
    }
}

fn product<'a>(sizes: impl Iterator<Item = &'a usize>) -> Option<usize> {
    sizes.copied().try_fold(1usize, usize::checked_mul).filter(|&product| product <= isize::MAX as usize)
}

fn check_output(direction: Direction, tensors: [&Tensor; 3]) -> Checked<()> {
    let (inputs, output) = direction.arrange(tensors);
    if inputs.iter().any(|input| input.uid == output.uid) {
        return Err("the output is an input as well".into());
    }
    layout::without_overlap(output).ok_or_else(|| "elements of the output overlap".into())
}

fn tensor<'a>(tensors: &'a [Arc<Tensor>], node: &Node, number: i32) -> Checked<&'a Tensor> {
    let tensor = node.tensor(number).and_then(|uid| layout::find(tensors, uid)).ok_or("a tensor is missing")?;
    let plain = tensor.needs_pointer() && !tensor.runtime_by_value && tensor.ragged_offsets.is_none();
    if plain { Ok(tensor) } else { Err(format!("tensor {} is virtual, by value, or ragged", tensor.uid)) }
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

/// Every tensor keeps its own type: floats in any mixture, or integers of 8 bits to what their sums are wanted in.
fn accumulator(node: &Node, direction: Direction, types: [i32; 3]) -> Checked<Accumulator> {
    let compute = node.enumeration(attribute::CONVOLUTION_COMP_TYPE).unwrap_or(-1);
    let (inputs, output) = direction.arrange(types);
    let is_float = |t: &i32| [data_type::FLOAT, data_type::DOUBLE, data_type::HALF, data_type::BFLOAT16].contains(t);
    let floating = types.iter().all(is_float);
    let integer = inputs == [data_type::INT8; 2] && [data_type::INT8, data_type::INT32, data_type::FLOAT].contains(&output);
    match compute {
        data_type::FLOAT if floating => Ok(Accumulator::Float),
        data_type::DOUBLE if floating => Ok(Accumulator::Double),
        data_type::INT32 | data_type::FLOAT if integer => Ok(Accumulator::Double),
        _ => Err(format!("data types {inputs:?} → {output}, computed in {compute}")),
    }
}

#[cfg(test)]
impl Problem {
    /// Two images of 6 × 5, a filter of 2 × 2, and a geometry that is different in every dimension: y is 3 × 5.
    pub(super) fn sample() -> Self {
        let layout = || Layout { uid: 0, data_type: data_type::FLOAT, alignment: 16, strides: vec![0; 4], bytes: 0 };
        Self {
            direction: Direction::Forward,
            x: layout(),
            w: layout(),
            y: layout(),
            batch: 2,
            groups: 1,
            channels: 1,
            filters: 1,
            input: vec![6, 5],
            taps: vec![2, 2],
            output: vec![3, 5],
            pre_paddings: vec![1, 2],
            strides: vec![3, 1],
            dilations: vec![2, 3],
            flip: false,
            accumulator: Accumulator::Float,
        }
    }
}
