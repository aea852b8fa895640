//! MIOpen's C numbers, on their way to the host's types. They go no further than this.

use hipdnn_host::{
    data_type::DataType,
    problem::{ActivationMode, ConvolutionDirection, ConvolutionMode, NormalizationMode, TensorLayout},
};
use miopen_api::{
    activation_mode as activation, batch_norm_mode, convolution_mode, data_type, problem_direction as direction, tensor_layout,
};

/// The retired `miopenInt8x4`, which no header of the table names any more.
const INT8X4: i32 = 4;

/// `miopenDataType_t`.
pub fn data_type(number: i32) -> DataType {
    match number {
        data_type::HALF => DataType::Half,
        data_type::FLOAT => DataType::Float,
        data_type::INT32 => DataType::Int32,
        data_type::INT8 => DataType::Int8,
        INT8X4 => DataType::Int8x4,
        data_type::BFLOAT16 => DataType::BFloat16,
        data_type::DOUBLE => DataType::Double,
        data_type::FLOAT8_FNUZ => DataType::Float8E4M3Fnuz,
        data_type::BFLOAT8_FNUZ => DataType::Float8E5M2Fnuz,
        data_type::INT64 => DataType::Int64,
        _ => DataType::Unrecognized,
    }
}

/// `miopenTensorLayout_t`.
pub fn layout(number: i32) -> TensorLayout {
    match number {
        tensor_layout::NCHW => TensorLayout::Nchw,
        tensor_layout::NHWC => TensorLayout::Nhwc,
        tensor_layout::CHWN => TensorLayout::Chwn,
        tensor_layout::NCHWC4 => TensorLayout::Nchwc4,
        tensor_layout::NCHWC8 => TensorLayout::Nchwc8,
        tensor_layout::CHWNC4 => TensorLayout::Chwnc4,
        tensor_layout::CHWNC8 => TensorLayout::Chwnc8,
        tensor_layout::NCDHW => TensorLayout::Ncdhw,
        tensor_layout::NDHWC => TensorLayout::Ndhwc,
        _ => TensorLayout::Unrecognized,
    }
}

/// `miopenConvolutionMode_t`.
pub fn mode(number: i32) -> ConvolutionMode {
    match number {
        convolution_mode::CONVOLUTION => ConvolutionMode::Convolution,
        convolution_mode::TRANSPOSE => ConvolutionMode::Transpose,
        convolution_mode::GROUP_CONV => ConvolutionMode::GroupConv,
        convolution_mode::DEPTHWISE => ConvolutionMode::Depthwise,
        _ => ConvolutionMode::Unrecognized,
    }
}

/// `miopenActivationMode_t`.
pub fn activation_mode(number: i32) -> ActivationMode {
    match number {
        activation::PASTHRU => ActivationMode::PassThrough,
        activation::LOGISTIC => ActivationMode::Logistic,
        activation::TANH => ActivationMode::Tanh,
        activation::RELU => ActivationMode::Relu,
        activation::SOFTRELU => ActivationMode::SoftRelu,
        activation::ABS => ActivationMode::Absolute,
        activation::POWER => ActivationMode::Power,
        activation::CLIPPEDRELU => ActivationMode::ClippedRelu,
        activation::LEAKYRELU => ActivationMode::LeakyRelu,
        activation::ELU => ActivationMode::Elu,
        activation::CLAMP => ActivationMode::Clamp,
        _ => ActivationMode::Unrecognized,
    }
}

/// `miopenBatchNormMode_t`.
pub fn normalization_mode(number: i32) -> NormalizationMode {
    match number {
        batch_norm_mode::PER_ACTIVATION => NormalizationMode::PerActivation,
        batch_norm_mode::SPATIAL => NormalizationMode::Spatial,
        _ => NormalizationMode::Unrecognized,
    }
}

/// `miopenProblemDirection_t` of a convolution; `None` for what is none.
pub fn problem_direction(number: i32) -> Option<ConvolutionDirection> {
    match number {
        direction::FORWARD => Some(ConvolutionDirection::Forward),
        direction::BACKWARD => Some(ConvolutionDirection::BackwardData),
        direction::BACKWARD_WEIGHTS => Some(ConvolutionDirection::BackwardWeights),
        _ => None,
    }
}

/// Elements in one vector of a vectorised layout, else 1.
pub fn vector_length(layout: TensorLayout) -> i64 {
    match layout {
        TensorLayout::Nchwc4 | TensorLayout::Chwnc4 => 4,
        TensorLayout::Nchwc8 | TensorLayout::Chwnc8 => 8,
        _ => 1,
    }
}

/// The axes of a layout from the slowest to the fastest, as positions in N, C, [D,] H, W.
pub fn axis_order(layout: TensorLayout, rank: usize) -> Vec<usize> {
    let spatial = 2..rank;
    match layout {
        TensorLayout::Nhwc | TensorLayout::Ndhwc => [0].into_iter().chain(spatial).chain([1]).collect(),
        TensorLayout::Chwn | TensorLayout::Chwnc4 | TensorLayout::Chwnc8 => [1].into_iter().chain(spatial).chain([0]).collect(),
        _ => (0..rank).collect(),
    }
}

/// Strides of a packed tensor whose axes are stored in the given order, in elements.
pub fn packed_strides(dims: &[i64], order: &[usize], innermost: i64) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut next = innermost;
    for &axis in order.iter().rev() {
        strides[axis] = next;
        next = next.saturating_mul(dims[axis].max(1));
    }
    strides
}
