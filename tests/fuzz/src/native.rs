//! The rules as an ordinary library, asked with the host's problems and answering in the host's graphs: field by field, without opinion.

use hipdnn_host::{
    capabilities::Capabilities,
    data_type::DataType,
    graph::{self, ReceivedDecline, ReceivedGraph},
    problem::{
        Activation, ActivationMode, ConvolutionDirection, ConvolutionMode, FusedOperation, NormalizationMode, Problem, Scaling,
        TensorDescriptor, TensorLayout,
    },
};
use translator::contract::{activation, conv, fusion, graph as wit};

/// What the rules answer, natively.
pub fn translate(problem: &Problem<'_>, capabilities: &Capabilities) -> Result<ReceivedGraph, ReceivedDecline> {
    let capabilities = self::capabilities(capabilities);
    let reply = match problem {
        Problem::Convolution(p) => {
            let fields = p.convolution.fields();
            let problem = conv::Problem {
                direction: match p.direction {
                    ConvolutionDirection::Forward => conv::Direction::Forward,
                    ConvolutionDirection::BackwardData => conv::Direction::BackwardData,
                    ConvolutionDirection::BackwardWeights => conv::Direction::BackwardWeights,
                },
                mode: mode(fields.mode),
                x: tensor(p.x),
                w: tensor(p.w),
                y: tensor(p.y),
                pads: fields.pads.clone(),
                strides: fields.strides.clone(),
                dilations: fields.dilations.clone(),
                output_pads: fields.output_pads.clone(),
                group_count: fields.group_count,
                alpha: p.alpha,
                beta: p.beta,
                algorithm: p.algorithm,
                attributes: attributes(&fields.attributes),
            };
            translator::conv::translate(&problem, &capabilities)
        }
        Problem::Fusion(p) => {
            let operations = p.operations.iter().map(operation).collect();
            let problem = fusion::Problem { input: tensor(p.input), operations, output: tensor(p.output) };
            translator::fusion::translate(&problem, &capabilities)
        }
        Problem::Activation(p) => {
            let Activation { mode, alpha, beta, gamma } = p.activation;
            let mode = activation_mode(mode);
            let problem = activation::Problem { x: tensor(p.x), y: tensor(p.y), mode, alpha, beta, gamma, scaling: scaling(p.scaling) };
            translator::activation::translate(problem, &capabilities)
        }
    };
    reply.map(received).map_err(|decline| ReceivedDecline { rule: decline.rule, message: decline.message })
}

const DATA_TYPES: &[(DataType, wit::DataType)] = &[
    (DataType::Half, wit::DataType::Half),
    (DataType::Float, wit::DataType::Float),
    (DataType::Double, wit::DataType::Double),
    (DataType::BFloat16, wit::DataType::Bfloat16),
    (DataType::Int8, wit::DataType::Int8),
    (DataType::Uint8, wit::DataType::Uint8),
    (DataType::Int32, wit::DataType::Int32),
    (DataType::Int64, wit::DataType::Int64),
    (DataType::Boolean, wit::DataType::Boolean),
    (DataType::Float8E4M3Fnuz, wit::DataType::Float8E4m3Fnuz),
    (DataType::Float8E5M2Fnuz, wit::DataType::Float8E5m2Fnuz),
    (DataType::Float8E4M3, wit::DataType::Float8E4m3),
    (DataType::Float8E5M2, wit::DataType::Float8E5m2),
    (DataType::Int8x4, wit::DataType::Int8x4),
    (DataType::Unrecognized, wit::DataType::Unrecognized),
];

fn to_wit(data_type: DataType) -> wit::DataType {
    DATA_TYPES.iter().find(|(host, _)| *host == data_type).map_or(wit::DataType::Unrecognized, |(_, wit)| *wit)
}

fn from_wit(data_type: wit::DataType) -> DataType {
    DATA_TYPES.iter().find(|(_, wit)| *wit == data_type).map_or(DataType::Unrecognized, |(host, _)| *host)
}

fn capabilities(capabilities: &Capabilities) -> wit::Capabilities {
    wit::Capabilities {
        backend_version: capabilities.backend_version.clone(),
        operations: capabilities.operations.clone(),
        data_types: capabilities.data_types.iter().copied().map(to_wit).collect(),
        plan_serialization: capabilities.plan_serialization,
    }
}

fn tensor(tensor: &TensorDescriptor) -> wit::TensorDescriptor {
    wit::TensorDescriptor {
        data_type: to_wit(tensor.data_type()),
        cast_type: tensor.cast_type().map(to_wit),
        dims: tensor.dims().to_vec(),
        strides: tensor.strides().to_vec(),
        vector_length: tensor.vector_length(),
        layout: tensor.layout().map(layout),
    }
}

fn layout(layout: TensorLayout) -> wit::TensorLayout {
    match layout {
        TensorLayout::Nchw => wit::TensorLayout::Nchw,
        TensorLayout::Nhwc => wit::TensorLayout::Nhwc,
        TensorLayout::Chwn => wit::TensorLayout::Chwn,
        TensorLayout::Nchwc4 => wit::TensorLayout::Nchwc4,
        TensorLayout::Nchwc8 => wit::TensorLayout::Nchwc8,
        TensorLayout::Chwnc4 => wit::TensorLayout::Chwnc4,
        TensorLayout::Chwnc8 => wit::TensorLayout::Chwnc8,
        TensorLayout::Ncdhw => wit::TensorLayout::Ncdhw,
        TensorLayout::Ndhwc => wit::TensorLayout::Ndhwc,
        TensorLayout::Unrecognized => wit::TensorLayout::Unrecognized,
    }
}

fn mode(mode: ConvolutionMode) -> conv::Mode {
    match mode {
        ConvolutionMode::Convolution => conv::Mode::Convolution,
        ConvolutionMode::Transpose => conv::Mode::Transpose,
        ConvolutionMode::GroupConv => conv::Mode::GroupConv,
        ConvolutionMode::Depthwise => conv::Mode::Depthwise,
        ConvolutionMode::Unrecognized => conv::Mode::Unrecognized,
    }
}

fn attributes(attributes: &[(u32, i64)]) -> Vec<conv::ConvolutionAttribute> {
    attributes.iter().map(|&(number, value)| conv::ConvolutionAttribute { number, value }).collect()
}

fn scaling(Scaling { alpha, beta }: Scaling) -> fusion::Scaling {
    fusion::Scaling { alpha, beta }
}

fn operation(operation: &FusedOperation<'_>) -> fusion::Operation {
    match *operation {
        FusedOperation::Convolution { convolution, w, algorithm, scaling: scalars } => {
            let fields = convolution.fields();
            fusion::Operation::Convolution(fusion::Convolution {
                mode: mode(fields.mode),
                w: tensor(w),
                pads: fields.pads.clone(),
                strides: fields.strides.clone(),
                dilations: fields.dilations.clone(),
                output_pads: fields.output_pads.clone(),
                group_count: fields.group_count,
                attributes: attributes(&fields.attributes),
                algorithm,
                scaling: scaling(scalars),
            })
        }
        FusedOperation::Addition { tensor: added, factor } => {
            fusion::Operation::Addition(fusion::Addition { tensor: tensor(added), factor })
        }
        FusedOperation::Bias { tensor: bias, scaling: scalars } => {
            fusion::Operation::Bias(fusion::Bias { tensor: tensor(bias), scaling: scaling(scalars) })
        }
        FusedOperation::Normalization { mode, parameters, epsilon, scaling: scalars } => {
            let mode = match mode {
                NormalizationMode::PerActivation => fusion::NormalizationMode::PerActivation,
                NormalizationMode::Spatial => fusion::NormalizationMode::Spatial,
                NormalizationMode::Unrecognized => fusion::NormalizationMode::Unrecognized,
            };
            let (parameters, scaling) = (tensor(parameters), scaling(scalars));
            fusion::Operation::Normalization(fusion::Normalization { mode, parameters, epsilon, scaling })
        }
        FusedOperation::Activation { activation, scaling: scalars } => fusion::Operation::Activation(fusion::Activation {
            mode: activation_mode(activation.mode),
            alpha: activation.alpha,
            beta: activation.beta,
            gamma: activation.gamma,
            scaling: scaling(scalars),
        }),
        FusedOperation::Other(name) => fusion::Operation::Other(name.to_string()),
    }
}

fn activation_mode(mode: ActivationMode) -> fusion::ActivationMode {
    match mode {
        ActivationMode::PassThrough => fusion::ActivationMode::PassThrough,
        ActivationMode::Logistic => fusion::ActivationMode::Logistic,
        ActivationMode::Tanh => fusion::ActivationMode::Tanh,
        ActivationMode::Relu => fusion::ActivationMode::Relu,
        ActivationMode::SoftRelu => fusion::ActivationMode::SoftRelu,
        ActivationMode::Absolute => fusion::ActivationMode::Absolute,
        ActivationMode::Power => fusion::ActivationMode::Power,
        ActivationMode::ClippedRelu => fusion::ActivationMode::ClippedRelu,
        ActivationMode::LeakyRelu => fusion::ActivationMode::LeakyRelu,
        ActivationMode::Elu => fusion::ActivationMode::Elu,
        ActivationMode::Clamp => fusion::ActivationMode::Clamp,
        ActivationMode::Unrecognized => fusion::ActivationMode::Unrecognized,
    }
}

fn received(translation: wit::Translation) -> ReceivedGraph {
    let tensor = |t: wit::Tensor| graph::Tensor {
        uid: t.uid,
        data_type: from_wit(t.data_type),
        dims: t.dims,
        strides: t.strides,
        is_virtual: t.is_virtual,
        value: t.value,
    };
    let attribute = |a: wit::Attribute| graph::Attribute { number: a.number, value: value(a.value) };
    let node = |n: wit::Node| graph::Node { operation: n.operation, attributes: n.attributes.into_iter().map(attribute).collect() };
    let binding = |b: wit::Binding| graph::Binding {
        uid: b.uid,
        argument: b.argument,
        access: match b.access {
            wit::Access::Read => graph::Access::Read,
            wit::Access::Write => graph::Access::Write,
        },
    };
    ReceivedGraph {
        tensors: translation.tensors.into_iter().map(tensor).collect(),
        nodes: translation.nodes.into_iter().map(node).collect(),
        compute_type: translation.compute_type.map(from_wit),
        intermediate_type: translation.intermediate_type.map(from_wit),
        io_type: translation.io_type.map(from_wit),
        bindings: translation.bindings.into_iter().map(binding).collect(),
        notes: translation.notes,
    }
}

fn value(value: wit::Value) -> graph::Value {
    match value {
        wit::Value::Tensor(uid) => graph::Value::Tensor(uid),
        wit::Value::Tensors(uids) => graph::Value::Tensors(uids),
        wit::Value::Integers(list) => graph::Value::Integers(list),
        wit::Value::Floats(list) => graph::Value::Floats(list),
        wit::Value::Doubles(list) => graph::Value::Doubles(list),
        wit::Value::Flag(flag) => graph::Value::Flag(flag),
        wit::Value::DataType(data_type) => graph::Value::DataType(from_wit(data_type)),
        wit::Value::Enumeration(number) => graph::Value::Enumeration(number),
        wit::Value::Text(text) => graph::Value::Text(text),
    }
}
