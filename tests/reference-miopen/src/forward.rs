//! The classic forward convolution: workspace query, Find, execution; their checks, not their arithmetic.
//! Only alpha = 1, beta = 0, in fp32, fp16 and bf16.

use std::time::Instant;

use miopen_api::{ConvAlgoPerf, data_type, fwd_algorithm, status};

use crate::args::{In, Obj, Out, Raw};
use crate::convolution::Convolution;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::handle::Handle;
use crate::numeric::{self, Buffers, Geometry, Strided};
use crate::tensor::Tensor;

/// A NULL convolution descriptor is looked at before anything else, and outside what the real library catches.
fn present(conv: &Obj<Convolution>) -> Outcome {
    if conv.is_null() {
        return Err(Failure { throws: true, ..bad("the convolution descriptor is null") });
    }
    Ok(())
}

/// Everything that must fit before anything is computed.
fn validate(conv: &Convolution, x: &Tensor, w: &Tensor, y: &Tensor) -> Result<Geometry, Failure> {
    if x.dims.len() < 3 || x.dims.len() != w.dims.len() || x.dims.len() != y.dims.len() {
        return Err(bad("the tensors differ in their number of dimensions"));
    }
    if x.data_type != w.data_type || x.data_type != y.data_type {
        return Err(bad("the tensors differ in their data type"));
    }
    let expected = conv.output_dims(x, w)?;
    if !y.dims.iter().map(|d| *d as i64).eq(expected.iter().copied()) {
        return Err(bad(format!("the output has dimensions {:?}, expected {expected:?}", y.dims)));
    }
    if conv.groups > 1 {
        group_strides(x, conv.groups as usize)?;
        group_strides(y, conv.groups as usize)?;
    }
    if [x, w, y].iter().any(|t| t.vector_length != 1) || x.dims.len() > 5 {
        return Err(fail(status::NOT_IMPLEMENTED, "vectorised layouts and more than three spatial dimensions are not implemented"));
    }
    Geometry::new(conv, x, w, y)
}

/// With groups, the stride of the dimension just outside the channels must be a multiple of the group count.
fn group_strides(t: &Tensor, groups: usize) -> Outcome {
    let outside = t.strides.iter().enumerate().filter(|(axis, s)| *axis != 1 && **s > t.strides[1]).map(|(_, s)| *s).min();
    match outside {
        Some(stride) if !stride.is_multiple_of(groups) => Err(bad(format!("stride {stride} is no multiple of {groups} groups"))),
        _ => Ok(()),
    }
}

fn not_null(buffers: &Buffers) -> Outcome {
    if buffers.x.is_null() || buffers.w.is_null() || buffers.y.is_null() {
        return Err(bad("a tensor's memory is null"));
    }
    Ok(())
}

/// Computes, and says how many milliseconds it took.
fn compute(data_type: i32, geometry: &Geometry, buffers: &Buffers) -> Result<f32, Failure> {
    let start = Instant::now();
    match data_type {
        data_type::FLOAT => numeric::forward::<f32>(geometry, buffers),
        data_type::HALF => numeric::forward::<half::f16>(geometry, buffers),
        data_type::BFLOAT16 => numeric::forward::<half::bf16>(geometry, buffers),
        other => return Err(fail(status::NOT_IMPLEMENTED, format!("data type {other} is not implemented"))),
    }
    Ok((start.elapsed().as_secs_f64() * 1e3) as f32)
}

impl Geometry {
    fn new(conv: &Convolution, x: &Tensor, w: &Tensor, y: &Tensor) -> Result<Geometry, Failure> {
        let numbers = |values: &[i32]| values.iter().map(|v| i64::from(*v)).collect::<Vec<_>>();
        Ok(Geometry {
            transposed: conv.transposed(),
            groups: conv.groups as usize,
            pads: numeric::spatial(&numbers(&conv.pads), 0),
            strides: numeric::spatial(&numbers(&conv.strides), 1),
            dilations: numeric::spatial(&numbers(&conv.dilations), 1),
            x: Strided::new(&x.dims, &x.strides),
            w: Strided::new(&w.dims, &w.strides),
            y: Strided::new(&y.dims, &y.strides),
        })
    }
}

fn all_live(handle: &Obj<Handle>, w: &Obj<Tensor>, x: &Obj<Tensor>, conv: &Obj<Convolution>, y: &Obj<Tensor>) -> Outcome {
    handle.get()?;
    conv.get()?;
    [w, x, y].iter().try_for_each(|t| t.get().map(|_| ()))
}

/// Nothing here needs workspace.
pub fn miopenConvolutionForwardGetWorkSpaceSize(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    size: Out<usize>,
) -> Outcome {
    all_live(&handle, &w, &x, &conv, &y)?;
    size.put(0)
}

pub fn miopenConvolutionForwardGetWorkSpaceSizeRange(
    handle: Obj<Handle>,
    w: Obj<Tensor>,
    x: Obj<Tensor>,
    conv: Obj<Convolution>,
    y: Obj<Tensor>,
    least: Out<usize>,
    most: Out<usize>,
) -> Outcome {
    all_live(&handle, &w, &x, &conv, &y)?;
    least.put(0)?;
    most.put(0)
}

/// Runs the one algorithm there is, once, on the caller's buffers: the output is overwritten, as by the real Find.
#[allow(clippy::too_many_arguments)]
pub fn miopenFindConvolutionForwardAlgorithm(
    mut handle: Obj<Handle>,
    x_desc: Obj<Tensor>,
    x: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    y_desc: Obj<Tensor>,
    y: Raw,
    requested: i32,
    returned: Out<i32>,
    results: Out<ConvAlgoPerf>,
    _workspace: Raw,
    _workspace_size: u64,
    _exhaustive: bool,
) -> Outcome {
    present(&conv)?;
    let handle = handle.get_mut()?;
    let (x_desc, w_desc, y_desc, conv) = (x_desc.get()?, w_desc.get()?, y_desc.get()?, conv.get()?);
    let buffers = Buffers { x: x.0, w: w.0, y: y.0 };
    not_null(&buffers)?;
    if requested < 1 || returned.is_null() || results.is_null() {
        return Err(bad("no results asked for, or no place for them"));
    }
    let geometry = validate(conv, x_desc, w_desc, y_desc)?;
    let time = compute(x_desc.data_type, &geometry, &buffers)?;
    handle.computed_for(time);
    returned.put(1)?;
    results.put(ConvAlgoPerf { algorithm: fwd_algorithm::DIRECT, time, memory: 0 })
}

/// The real library wants a Find of the same problem on this handle first, else status 7; this one does not insist.
#[allow(clippy::too_many_arguments)]
pub fn miopenConvolutionForward(
    mut handle: Obj<Handle>,
    alpha: In<f32>,
    x_desc: Obj<Tensor>,
    x: Raw,
    w_desc: Obj<Tensor>,
    w: Raw,
    conv: Obj<Convolution>,
    _algorithm: i32,
    beta: In<f32>,
    y_desc: Obj<Tensor>,
    y: Raw,
    _workspace: Raw,
    _workspace_size: u64,
) -> Outcome {
    present(&conv)?;
    let handle = handle.get_mut()?;
    let (x_desc, w_desc, y_desc, conv) = (x_desc.get()?, w_desc.get()?, y_desc.get()?, conv.get()?);
    let buffers = Buffers { x: x.0, w: w.0, y: y.0 };
    not_null(&buffers)?;
    let geometry = validate(conv, x_desc, w_desc, y_desc)?;
    let scalars = alpha.read().zip(beta.read()).ok_or_else(|| bad("alpha or beta is null"))?;
    if scalars != (1.0, 0.0) {
        return Err(fail(status::NOT_IMPLEMENTED, "only alpha = 1 and beta = 0 are supported"));
    }
    let time = compute(x_desc.data_type, &geometry, &buffers)?;
    handle.computed_for(time);
    Ok(())
}
