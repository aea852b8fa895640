//! What all styles of convolution calls have in common: which tensors and types fit together, and the work that is then queued.
//! How a style takes its arguments, and from whom, is in the style's modules; arithmetic is in `numeric`.

use miopen_api::{data_type, status};

use crate::args::{FromC, In, Raw};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::numeric::convolution::Output;
use crate::numeric::{self, Format, Scale, Step};
use crate::tensor::Tensor;

/// What is computed from the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// y
    Forward,
    /// dx
    BackwardData,
    /// dw
    BackwardWeights,
}

/// A convolution without its data.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    pub direction: Direction,
    /// x or dx.
    pub x: &'a Tensor,
    /// w or dw.
    pub w: &'a Tensor,
    /// y or dy.
    pub y: &'a Tensor,
    pub conv: &'a Convolution,
}

/// A convolution with copies of its descriptors: what happens to the caller's does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProblem {
    pub direction: Direction,
    pub x: Tensor,
    pub w: Tensor,
    pub y: Tensor,
    pub conv: Convolution,
}

impl OwnProblem {
    /// To be asked and computed.
    pub fn borrow(&self) -> Problem<'_> {
        let OwnProblem { direction, x, w, y, conv } = self;
        Problem { direction: *direction, x, w, y, conv }
    }
}

impl Problem<'_> {
    /// With copies.
    pub fn own(&self) -> OwnProblem {
        let Problem { direction, x, w, y, conv } = *self;
        OwnProblem { direction, x: x.clone(), w: w.clone(), y: y.clone(), conv: conv.clone() }
    }

    /// Whether there is a solution. What is the caller's mistake in any case stays a failure.
    pub fn is_applicable(&self) -> Result<bool, Failure> {
        match self.check() {
            Err(failure) if failure.status == status::BAD_PARM => Err(failure),
            checked => Ok(checked.is_ok()),
        }
    }

    /// Everything that must fit before anything is computed.
    pub fn check(&self) -> Outcome {
        let Problem { x, w, y, conv, .. } = *self;
        if x.dims.len() < 3 || x.dims.len() != w.dims.len() || x.dims.len() != y.dims.len() {
            return Err(bad("the tensors differ in their number of dimensions"));
        }
        self.check_types(x.data_type, w.data_type, y.data_type)?;
        let expected = conv.output_dims(x, w)?;
        if !y.dims.iter().map(|d| *d as i64).eq(expected.iter().copied()) || y.vector_length != x.vector_length {
            return Err(bad(format!("the output has dimensions {:?}, expected {expected:?}", y.dims)));
        }
        if conv.groups > 1 {
            group_strides(x, conv.groups as usize)?;
            group_strides(y, conv.groups as usize)?;
        }
        if x.dims.len() > 5 {
            return Err(fail(status::NOT_IMPLEMENTED, "more than three spatial dimensions are not implemented"));
        }
        self.check_vectors(x, y)
    }

    /// All types are equal, but int8 gives int8, int32 or float, and has no gradients.
    fn check_types(&self, x: i32, w: i32, y: i32) -> Outcome {
        if x != w || (x != y && x != data_type::INT8) {
            return Err(bad("the tensors differ in their data type"));
        }
        if x == data_type::INT8 && self.direction != Direction::Forward {
            return Err(bad("int8 has no gradients"));
        }
        if matches!(x, data_type::FLOAT8_FNUZ | data_type::BFLOAT8_FNUZ) {
            return Err(fail(status::NOT_IMPLEMENTED, format!("data type {x} is not implemented")));
        }
        let fits = match x {
            data_type::INT8 => matches!(y, data_type::INT8 | data_type::INT32 | data_type::FLOAT),
            _ => matches!(x, data_type::FLOAT | data_type::HALF | data_type::BFLOAT16 | data_type::DOUBLE),
        };
        if fits { Ok(()) } else { Err(no_algorithm("these data types")) }
    }

    /// Vectorised layouts are there for inference: forward, fp16 and int8, images with the batch first.
    fn check_vectors(&self, x: &Tensor, y: &Tensor) -> Outcome {
        let image = |t: &Tensor| t.dims == t.batch_first_dims() && t.strides == t.batch_first_strides();
        let forward = self.direction == Direction::Forward && !self.conv.transposed();
        let typed = matches!(x.data_type, data_type::HALF | data_type::INT8);
        if x.vector_length > 1 && !(forward && typed && image(x) && image(y)) {
            return Err(no_algorithm("these vectorised layouts"));
        }
        Ok(())
    }

    /// The tensor that is computed.
    pub fn output(&self) -> &Tensor {
        match self.direction {
            Direction::Forward => self.y,
            Direction::BackwardData => self.x,
            Direction::BackwardWeights => self.w,
        }
    }

    /// What is to be computed with the memory of x, w and y, owning all that it needs: the caller may change or destroy descriptors while
    /// it is queued.
    pub fn work(&self, memory: [Raw; 3], scale: Scale) -> Result<numeric::convolution::Convolution, Failure> {
        if memory.iter().any(|memory| memory.0.is_null()) {
            return Err(bad("a tensor's memory is null"));
        }
        let conv = self.conv;
        let [x, w, y] = [in_memory(self.x, memory[0])?, in_memory(self.w, memory[1])?, in_memory(self.y, memory[2])?];
        // A transposed convolution's input is the small grid.
        let (small, large) = if conv.transposed() { (x, y) } else { (y, x) };
        let output = match (self.direction, conv.transposed()) {
            (Direction::BackwardWeights, _) => Output::Filter,
            (Direction::Forward, false) | (Direction::BackwardData, true) => Output::Small,
            (Direction::Forward, true) | (Direction::BackwardData, false) => Output::Large,
        };
        Ok(numeric::convolution::Convolution { output, groups: conv.groups as usize, steps: steps(conv), small, large, filter: w, scale })
    }

    /// How long the one solution may take, in milliseconds: a guess from the number of products.
    pub fn estimate(&self) -> f32 {
        let product = |dims: &[usize]| dims.iter().map(|d| *d as f64).product::<f64>();
        let small = if self.conv.transposed() { self.x } else { self.y };
        (product(&small.dims) * product(&self.w.dims[1..]) / 1e6) as f32
    }
}

/// A situation in which the real library finds no algorithm.
fn no_algorithm(what: &str) -> Failure {
    fail(status::UNKNOWN_ERROR, format!("no algorithm takes {what}"))
}

/// With groups, the stride of the dimension just outside the channels must be a multiple of the group count.
fn group_strides(t: &Tensor, groups: usize) -> Outcome {
    let outside = t.strides.iter().enumerate().filter(|(axis, s)| *axis != 1 && **s > t.strides[1]).map(|(_, s)| *s).min();
    match outside {
        Some(stride) if !stride.is_multiple_of(groups) => Err(bad(format!("stride {stride} is no multiple of {groups} groups"))),
        _ => Ok(()),
    }
}

/// One to three spatial dimensions as three, filled up at the front.
fn steps(conv: &Convolution) -> [Step; 3] {
    let mut steps = [Step { pad: 0, stride: 1, dilation: 1 }; 3];
    let missing = 3 - conv.rank();
    for i in 0..conv.rank() {
        let [pad, stride, dilation] = [conv.pads[i], conv.strides[i], conv.dilations[i]].map(|v| v as usize);
        steps[missing + i] = Step { pad, stride, dilation };
    }
    steps
}

/// The scalars of a call are doubles if the output tensor's elements are.
pub fn scale(alpha: Raw, beta: Raw, output_type: i32) -> Result<Scale, Failure> {
    let read = |scalar: Raw| match output_type {
        data_type::DOUBLE => In::<f64>::from_c(scalar.0).read(),
        _ => In::<f32>::from_c(scalar.0).read().map(f64::from),
    };
    let (alpha, beta) = read(alpha).zip(read(beta)).ok_or_else(|| bad("alpha or beta is null"))?;
    Ok(Scale { alpha, beta })
}

/// A tensor for computation.
pub fn in_memory(tensor: &Tensor, memory: Raw) -> Result<numeric::Tensor, Failure> {
    let format = match tensor.data_type {
        data_type::FLOAT => Format::Float,
        data_type::HALF => Format::Half,
        data_type::BFLOAT16 => Format::Bfloat16,
        data_type::DOUBLE => Format::Double,
        data_type::INT32 => Format::Int32,
        data_type::INT8 => Format::Int8,
        other => return Err(fail(status::NOT_IMPLEMENTED, format!("data type {other} is not implemented"))),
    };
    let (dims, strides) = (tensor.batch_first_dims(), tensor.batch_first_strides());
    Ok(numeric::Tensor::new(&dims, &strides, tensor.vector_length, format, memory.0.expose_provenance()))
}
