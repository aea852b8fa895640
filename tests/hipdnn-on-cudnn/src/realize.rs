//! Lowered graphs as descriptors of cuDNN's.

use crate::{
    cudnn::{
        CudnnError, Descriptor, Library,
        numbers::{attribute, kind, wire},
    },
    lower::{Lowered, Operation, Tensor},
    session::Device,
};

/// `CUDNN_DATA_DOUBLE`.
const DOUBLE: i32 = 1;

/// The finalized operation graph.
pub(crate) fn realize(lowered: &Lowered, device: &Device) -> Result<Descriptor, CudnnError> {
    let library = device.library();
    let tensors = lowered.tensors.iter().map(|t| Ok((t.uid, tensor(library, t)?))).collect::<Result<Vec<_>, CudnnError>>()?;
    let find = |uid: i64| tensors.iter().filter(move |(number, _)| *number == uid).map(|(_, tensor)| tensor).collect::<Vec<_>>();
    let operations = lowered.operations.iter().map(|o| operation(library, o, &find)).collect::<Result<Vec<_>, _>>()?;
    let graph = Descriptor::new(library, kind::OPERATIONGRAPH)?;
    if let Device::Present(handle) = device {
        graph.set_handle(attribute::OPERATIONGRAPH_HANDLE, handle)?;
    }
    graph.set_descriptors(attribute::OPERATIONGRAPH_OPS, &operations.iter().collect::<Vec<_>>())?;
    graph.finalize()?;
    Ok(graph)
}

fn tensor(library: &'static Library, tensor: &Tensor) -> Result<Descriptor, CudnnError> {
    let descriptor = Descriptor::new(library, kind::TENSOR)?;
    descriptor.set_int64s(attribute::TENSOR_UNIQUE_ID, &[tensor.uid])?;
    descriptor.set_enumeration(attribute::TENSOR_DATA_TYPE, wire::DATA_TYPE, tensor.data_type)?;
    descriptor.set_int64s(attribute::TENSOR_DIMENSIONS, &tensor.dims)?;
    descriptor.set_int64s(attribute::TENSOR_STRIDES, &tensor.strides)?;
    descriptor.set_int64s(attribute::TENSOR_BYTE_ALIGNMENT, &[tensor.alignment])?;
    descriptor.set_flag(attribute::TENSOR_IS_VIRTUAL, tensor.is_virtual)?;
    descriptor.set_flag(attribute::TENSOR_IS_BY_VALUE, tensor.by_value)?;
    descriptor.finalize()?;
    Ok(descriptor)
}

fn operation<'a>(
    library: &'static Library,
    operation: &Operation,
    find: &impl Fn(i64) -> Vec<&'a Descriptor>,
) -> Result<Descriptor, CudnnError> {
    match operation {
        Operation::Convolution { .. } => convolution(library, operation, find),
        Operation::Pointwise { mode, compute, x, b, y, parameters } => {
            let pointwise = Descriptor::new(library, kind::POINTWISE)?;
            pointwise.set_enumeration(attribute::POINTWISE_MODE, wire::POINTWISE_MODE, *mode)?;
            pointwise.set_enumeration(attribute::POINTWISE_MATH_PREC, wire::DATA_TYPE, *compute)?;
            for &(number, value) in parameters {
                pointwise.set_double(number, value.into())?;
            }
            pointwise.finalize()?;
            let descriptor = Descriptor::new(library, kind::OPERATION_POINTWISE)?;
            descriptor.set_descriptors(attribute::OPERATION_POINTWISE_PW_DESCRIPTOR, &[&pointwise])?;
            descriptor.set_descriptors(attribute::OPERATION_POINTWISE_XDESC, &find(*x))?;
            if let Some(b) = b {
                descriptor.set_descriptors(attribute::OPERATION_POINTWISE_BDESC, &find(*b))?;
            }
            descriptor.set_descriptors(attribute::OPERATION_POINTWISE_YDESC, &find(*y))?;
            descriptor.finalize()?;
            Ok(descriptor)
        }
    }
}

fn convolution<'a>(
    library: &'static Library,
    operation: &Operation,
    find: &impl Fn(i64) -> Vec<&'a Descriptor>,
) -> Result<Descriptor, CudnnError> {
    let Operation::Convolution { kind, x, w, y, compute, mode, pre_paddings, post_paddings, strides, dilations, alpha, beta } = operation
    else {
        return Err(CudnnError { status: 0, function: "convolution".into(), message: "another operation".into() });
    };
    let convolution = Descriptor::new(library, kind::CONVOLUTION)?;
    convolution.set_enumeration(attribute::CONVOLUTION_COMP_TYPE, wire::DATA_TYPE, *compute)?;
    convolution.set_enumeration(attribute::CONVOLUTION_CONV_MODE, wire::CONVOLUTION_MODE, *mode)?;
    convolution.set_int64s(attribute::CONVOLUTION_SPATIAL_DIMS, &[strides.len() as i64])?;
    convolution.set_int64s(attribute::CONVOLUTION_PRE_PADDINGS, pre_paddings)?;
    convolution.set_int64s(attribute::CONVOLUTION_POST_PADDINGS, post_paddings)?;
    convolution.set_int64s(attribute::CONVOLUTION_FILTER_STRIDES, strides)?;
    convolution.set_int64s(attribute::CONVOLUTION_DILATIONS, dilations)?;
    convolution.finalize()?;
    let numbers = Numbers::of(*kind);
    let descriptor = Descriptor::new(library, *kind)?;
    descriptor.set_descriptors(numbers.convolution, &[&convolution])?;
    for (number, uid) in [(numbers.x, x), (numbers.w, w), (numbers.y, y)] {
        descriptor.set_descriptors(number, &find(*uid))?;
    }
    for (number, scalar) in [(numbers.alpha, *alpha), (numbers.beta, *beta)] {
        // Of the type that sums are in; a float's value goes there and back unchanged.
        if *compute == DOUBLE { descriptor.set_double(number, scalar)? } else { descriptor.set_float(number, scalar as f32)? }
    }
    descriptor.finalize()?;
    Ok(descriptor)
}

/// The attributes of one of the three operations: they are numbered in orders of their own.
struct Numbers {
    alpha: i32,
    beta: i32,
    convolution: i32,
    x: i32,
    w: i32,
    y: i32,
}

impl Numbers {
    fn of(operation: i32) -> Self {
        match operation {
            kind::OPERATION_CONVOLUTION_BACKWARD_DATA => Self { alpha: 706, beta: 707, convolution: 708, w: 709, x: 710, y: 711 },
            kind::OPERATION_CONVOLUTION_BACKWARD_FILTER => Self { alpha: 712, beta: 713, convolution: 714, w: 715, x: 716, y: 717 },
            _ => Self { alpha: 700, beta: 701, convolution: 702, w: 703, x: 704, y: 705 },
        }
    }
}
