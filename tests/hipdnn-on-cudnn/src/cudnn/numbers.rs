//! Numbers of cuDNN's backend API (`cudnn_graph_v9.h`), as far as they are used, and which of hipDNN's they stand for.

use hipdnn_abi::{behavior_note, data_type, pointwise_mode};

/// `cudnnBackendDescriptorType_t`.
#[allow(missing_docs, reason = "the C names")]
pub mod kind {
    pub const POINTWISE: i32 = 0;
    pub const CONVOLUTION: i32 = 1;
    pub const ENGINE: i32 = 2;
    pub const ENGINECFG: i32 = 3;
    pub const ENGINEHEUR: i32 = 4;
    pub const EXECUTION_PLAN: i32 = 5;
    pub const KNOB_CHOICE: i32 = 7;
    pub const OPERATION_CONVOLUTION_FORWARD: i32 = 10;
    pub const OPERATION_CONVOLUTION_BACKWARD_FILTER: i32 = 11;
    pub const OPERATION_CONVOLUTION_BACKWARD_DATA: i32 = 12;
    pub const OPERATION_POINTWISE: i32 = 13;
    pub const OPERATIONGRAPH: i32 = 15;
    pub const VARIANT_PACK: i32 = 16;
    pub const TENSOR: i32 = 17;
    pub const DEVICEPROP: i32 = 38;
}

/// `cudnnBackendAttributeName_t`.
#[allow(missing_docs, reason = "the C names")]
pub mod attribute {
    pub const POINTWISE_MODE: i32 = 0;
    pub const POINTWISE_MATH_PREC: i32 = 1;
    pub const POINTWISE_RELU_LOWER_CLIP: i32 = 3;
    pub const POINTWISE_RELU_UPPER_CLIP: i32 = 4;
    pub const POINTWISE_RELU_LOWER_CLIP_SLOPE: i32 = 5;
    pub const POINTWISE_ELU_ALPHA: i32 = 6;
    pub const POINTWISE_SOFTPLUS_BETA: i32 = 7;
    pub const POINTWISE_SWISH_BETA: i32 = 8;
    pub const CONVOLUTION_COMP_TYPE: i32 = 100;
    pub const CONVOLUTION_CONV_MODE: i32 = 101;
    pub const CONVOLUTION_DILATIONS: i32 = 102;
    pub const CONVOLUTION_FILTER_STRIDES: i32 = 103;
    pub const CONVOLUTION_POST_PADDINGS: i32 = 104;
    pub const CONVOLUTION_PRE_PADDINGS: i32 = 105;
    pub const CONVOLUTION_SPATIAL_DIMS: i32 = 106;
    pub const ENGINEHEUR_MODE: i32 = 200;
    pub const ENGINEHEUR_OPERATION_GRAPH: i32 = 201;
    pub const ENGINEHEUR_RESULTS: i32 = 202;
    pub const ENGINEHEUR_DEVICEPROP: i32 = 204;
    pub const ENGINECFG_ENGINE: i32 = 300;
    pub const ENGINECFG_KNOB_CHOICES: i32 = 302;
    pub const ENGINECFG_WORKSPACE_SIZE: i32 = 303;
    pub const EXECUTION_PLAN_HANDLE: i32 = 400;
    pub const EXECUTION_PLAN_ENGINE_CONFIG: i32 = 401;
    pub const EXECUTION_PLAN_WORKSPACE_SIZE: i32 = 402;
    pub const EXECUTION_PLAN_JSON_REPRESENTATION: i32 = 405;
    pub const EXECUTION_PLAN_DEVICEPROP: i32 = 407;
    pub const KNOB_CHOICE_KNOB_TYPE: i32 = 600;
    pub const KNOB_CHOICE_KNOB_VALUE: i32 = 601;
    pub const OPERATION_POINTWISE_PW_DESCRIPTOR: i32 = 750;
    pub const OPERATION_POINTWISE_XDESC: i32 = 751;
    pub const OPERATION_POINTWISE_BDESC: i32 = 752;
    pub const OPERATION_POINTWISE_YDESC: i32 = 753;
    pub const OPERATIONGRAPH_HANDLE: i32 = 800;
    pub const OPERATIONGRAPH_OPS: i32 = 801;
    pub const TENSOR_BYTE_ALIGNMENT: i32 = 900;
    pub const TENSOR_DATA_TYPE: i32 = 901;
    pub const TENSOR_DIMENSIONS: i32 = 902;
    pub const TENSOR_STRIDES: i32 = 903;
    pub const TENSOR_UNIQUE_ID: i32 = 906;
    pub const TENSOR_IS_VIRTUAL: i32 = 907;
    pub const TENSOR_IS_BY_VALUE: i32 = 908;
    pub const VARIANT_PACK_UNIQUE_IDS: i32 = 1000;
    pub const VARIANT_PACK_DATA_POINTERS: i32 = 1001;
    pub const VARIANT_PACK_WORKSPACE: i32 = 1003;
    pub const ENGINE_GLOBAL_INDEX: i32 = 1301;
    pub const ENGINE_NUMERICAL_NOTE: i32 = 1303;
    pub const ENGINE_BEHAVIOR_NOTE: i32 = 1305;
    pub const DEVICEPROP_JSON_REPRESENTATION: i32 = 2702;
}

/// `cudnnBackendAttributeType_t`.
#[allow(missing_docs, reason = "the C names")]
pub mod wire {
    pub const HANDLE: i32 = 0;
    pub const DATA_TYPE: i32 = 1;
    pub const BOOLEAN: i32 = 2;
    pub const INT64: i32 = 3;
    pub const FLOAT: i32 = 4;
    pub const DOUBLE: i32 = 5;
    pub const VOID_PTR: i32 = 6;
    pub const CONVOLUTION_MODE: i32 = 7;
    pub const HEUR_MODE: i32 = 8;
    pub const KNOB_TYPE: i32 = 9;
    pub const NUMERICAL_NOTE: i32 = 11;
    pub const POINTWISE_MODE: i32 = 14;
    pub const BACKEND_DESCRIPTOR: i32 = 15;
    pub const BEHAVIOR_NOTE: i32 = 19;
    pub const CHAR: i32 = 24;
}

/// `cudnnBackendHeurMode_t`.
#[allow(missing_docs, reason = "the C names")]
pub mod heuristic {
    pub const FALLBACK: i32 = 2;
    pub const A: i32 = 3;
}

/// `cudnnBackendNumericalNote_t`.
#[allow(missing_docs, reason = "the C names")]
pub mod numerical {
    pub const TENSOR_CORE: i32 = 0;
    pub const DOWN_CONVERT_INPUTS: i32 = 1;
    pub const REDUCED_PRECISION_REDUCTION: i32 = 2;
}

/// `cudnnBackendBehaviorNote_t`.
#[allow(missing_docs, reason = "the C names")]
pub mod behavior {
    pub const RUNTIME_COMPILATION: i32 = 0;
    pub const REQUIRES_FILTER_INT8X32_REORDER: i32 = 1;
    pub const REQUIRES_BIAS_INT8X32_REORDER: i32 = 2;
    pub const CUBLASLT_DEPENDENCY: i32 = 4;
}

/// `cudnnDataType_t` for hipDNN's. The 8-bit floats of AMD's own kind, and types without a whole byte, have none.
pub fn data_type_of(hipdnn: i32) -> Option<i32> {
    Some(match hipdnn {
        data_type::FLOAT => 0,
        data_type::DOUBLE => 1,
        data_type::HALF => 2,
        data_type::INT8 => 3,
        data_type::INT32 => 4,
        data_type::UINT8 => 6,
        data_type::BFLOAT16 => 9,
        data_type::INT64 => 10,
        data_type::BOOLEAN => 11,
        data_type::FP8_E4M3 => 12,
        data_type::FP8_E5M2 => 13,
        _ => return None,
    })
}

/// `cudnnPointwiseMode_t` for hipDNN's modes that make one value of one or two.
pub fn pointwise_of(hipdnn: i32) -> Option<i32> {
    Some(match hipdnn {
        pointwise_mode::ADD => 0,
        pointwise_mode::MUL => 1,
        pointwise_mode::MIN => 2,
        pointwise_mode::MAX => 3,
        pointwise_mode::SQRT => 4,
        pointwise_mode::ADD_SQUARE => 5,
        pointwise_mode::DIV => 6,
        pointwise_mode::SUB => 9,
        pointwise_mode::ABS => 10,
        pointwise_mode::CEIL => 11,
        pointwise_mode::EXP => 13,
        pointwise_mode::FLOOR => 14,
        pointwise_mode::LOG => 15,
        pointwise_mode::NEG => 16,
        pointwise_mode::RSQRT => 17,
        pointwise_mode::SIN => 18,
        pointwise_mode::TAN => 19,
        pointwise_mode::ERF => 20,
        pointwise_mode::IDENTITY => 21,
        pointwise_mode::RECIPROCAL => 22,
        pointwise_mode::RELU_FWD => 100,
        pointwise_mode::TANH_FWD => 101,
        pointwise_mode::SIGMOID_FWD => 102,
        pointwise_mode::ELU_FWD => 103,
        pointwise_mode::GELU_FWD => 104,
        pointwise_mode::SOFTPLUS_FWD => 105,
        pointwise_mode::SWISH_FWD => 106,
        pointwise_mode::GELU_APPROX_TANH_FWD => 107,
        _ => return None,
    })
}

/// The parameter of a pointwise operation with this number in hipDNN.
pub fn parameter_of(hipdnn: i32) -> Option<i32> {
    use hipdnn_abi::attribute as h;
    Some(match hipdnn {
        h::POINTWISE_RELU_LOWER_CLIP => attribute::POINTWISE_RELU_LOWER_CLIP,
        h::POINTWISE_RELU_UPPER_CLIP => attribute::POINTWISE_RELU_UPPER_CLIP,
        h::POINTWISE_RELU_LOWER_CLIP_SLOPE => attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE,
        h::POINTWISE_ELU_ALPHA => attribute::POINTWISE_ELU_ALPHA,
        h::POINTWISE_SOFTPLUS_BETA => attribute::POINTWISE_SOFTPLUS_BETA,
        h::POINTWISE_SWISH_BETA => attribute::POINTWISE_SWISH_BETA,
        _ => return None,
    })
}

/// hipDNN's behaviour note for cuDNN's, where there is one.
pub fn behavior_of(cudnn: i32) -> Option<i32> {
    Some(match cudnn {
        behavior::RUNTIME_COMPILATION => behavior_note::RUNTIME_COMPILATION,
        behavior::CUBLASLT_DEPENDENCY => behavior_note::EXTERNAL_LIBRARY_DEPENDENCY,
        _ => return None,
    })
}
