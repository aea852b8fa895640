//! Version 1.0.0 of the contract. Frozen: what a later version adds gets a module of its own; both convert to the host's newest types.
//!
//! Only conversions live here, field by field, without opinion.

use wasmtime::Store;

use super::{
    State,
    contract::{Found, guest},
};
use crate::{
    capabilities::Capabilities,
    data_type::DataType,
    graph,
    problem::{
        Activation, ActivationMode, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem, FusedOperation,
        FusionProblem, NormalizationMode, Problem, Scaling, TensorDescriptor, TensorLayout,
    },
};

use super::bindings::exports::miopen_hipdnn::translator1_0_0 as wit;

/// The export that every component of this version has; it may leave out families.
pub const MANIFEST: &str = "miopen-hipdnn:translator/manifest@1.0.0";
const CONV: &str = "miopen-hipdnn:translator/conv@1.0.0";
const FUSION: &str = "miopen-hipdnn:translator/fusion@1.0.0";

/// A component of this version, instantiated.
pub struct Instance {
    manifest: wit::manifest::Guest,
    conv: Option<wit::conv::Guest>,
    fusion: Option<wit::fusion::Guest>,
}

impl Instance {
    /// Finds the interfaces of a component that has [`MANIFEST`].
    pub fn new(found: &mut Found<'_>) -> wasmtime::Result<Self> {
        Ok(Self {
            manifest: guest!(wit::manifest, found)?,
            conv: found.exports(CONV).then(|| guest!(wit::conv, found)).transpose()?,
            fusion: found.exports(FUSION).then(|| guest!(wit::fusion, found)).transpose()?,
        })
    }

    /// What the component says about itself.
    pub fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<super::Description> {
        let description = self.manifest.call_describe(store)?;
        let entries = |list: Vec<wit::manifest::Entry>| list.into_iter().map(|e| super::Entry { id: e.id, reason: e.reason }).collect();
        Ok(super::Description {
            name: description.name,
            version: description.version,
            families: description.families,
            rules: entries(description.rules),
            notes: entries(description.notes),
        })
    }

    /// Asks for the graph of a problem; `None` if the component does not translate the family.
    pub fn translate(
        &self,
        store: &mut Store<State>,
        problem: &Problem<'_>,
        capabilities: &Capabilities,
    ) -> wasmtime::Result<Option<Result<graph::ReceivedGraph, graph::ReceivedDecline>>> {
        let capabilities = capability_record(capabilities);
        let reply = match (problem, &self.conv, &self.fusion) {
            (Problem::Convolution(problem), Some(conv), _) => conv.call_translate(store, &convolution(problem), &capabilities)?,
            (Problem::Fusion(problem), _, Some(fusion)) => fusion.call_translate(store, &chain(problem), &capabilities)?,
            (Problem::Convolution(_), None, _) | (Problem::Fusion(_), _, None) | (Problem::Activation(_), ..) => return Ok(None),
        };
        Ok(Some(answer(reply)))
    }
}

/// The reply to any problem.
pub fn answer(reply: Result<wit::graph::Translation, wit::graph::Decline>) -> Result<graph::ReceivedGraph, graph::ReceivedDecline> {
    match reply {
        Ok(translation) => Ok(received(translation)),
        Err(decline) => Err(graph::ReceivedDecline { rule: decline.rule, message: decline.message }),
    }
}

/// The contract's and the host's names of element types, one table for both directions.
const DATA_TYPES: &[(DataType, wit::graph::DataType)] = &[
    (DataType::Half, wit::graph::DataType::Half),
    (DataType::Float, wit::graph::DataType::Float),
    (DataType::Double, wit::graph::DataType::Double),
    (DataType::BFloat16, wit::graph::DataType::Bfloat16),
    (DataType::Int8, wit::graph::DataType::Int8),
    (DataType::Uint8, wit::graph::DataType::Uint8),
    (DataType::Int32, wit::graph::DataType::Int32),
    (DataType::Int64, wit::graph::DataType::Int64),
    (DataType::Boolean, wit::graph::DataType::Boolean),
    (DataType::Float8E4M3Fnuz, wit::graph::DataType::Float8E4m3Fnuz),
    (DataType::Float8E5M2Fnuz, wit::graph::DataType::Float8E5m2Fnuz),
    (DataType::Float8E4M3, wit::graph::DataType::Float8E4m3),
    (DataType::Float8E5M2, wit::graph::DataType::Float8E5m2),
    (DataType::Int8x4, wit::graph::DataType::Int8x4),
    (DataType::Unrecognized, wit::graph::DataType::Unrecognized),
];

fn to_wit(data_type: DataType) -> wit::graph::DataType {
    DATA_TYPES.iter().find(|(host, _)| *host == data_type).map_or(wit::graph::DataType::Unrecognized, |(_, w)| *w)
}

fn from_wit(data_type: wit::graph::DataType) -> DataType {
    DATA_TYPES.iter().find(|(_, w)| *w == data_type).map_or(DataType::Unrecognized, |(host, _)| *host)
}

fn layout(layout: TensorLayout) -> wit::graph::TensorLayout {
    use wit::graph::TensorLayout as W;
    match layout {
        TensorLayout::Nchw => W::Nchw,
        TensorLayout::Nhwc => W::Nhwc,
        TensorLayout::Chwn => W::Chwn,
        TensorLayout::Nchwc4 => W::Nchwc4,
        TensorLayout::Nchwc8 => W::Nchwc8,
        TensorLayout::Chwnc4 => W::Chwnc4,
        TensorLayout::Chwnc8 => W::Chwnc8,
        TensorLayout::Ncdhw => W::Ncdhw,
        TensorLayout::Ndhwc => W::Ndhwc,
        TensorLayout::Unrecognized => W::Unrecognized,
    }
}

/// A descriptor.
pub fn tensor(tensor: &TensorDescriptor) -> wit::graph::TensorDescriptor {
    wit::graph::TensorDescriptor {
        data_type: to_wit(tensor.data_type()),
        cast_type: tensor.cast_type().map(to_wit),
        dims: tensor.dims().to_vec(),
        strides: tensor.strides().to_vec(),
        vector_length: tensor.vector_length(),
        layout: tensor.layout().map(layout),
    }
}

fn mode(mode: ConvolutionMode) -> wit::conv::Mode {
    match mode {
        ConvolutionMode::Convolution => wit::conv::Mode::Convolution,
        ConvolutionMode::Transpose => wit::conv::Mode::Transpose,
        ConvolutionMode::GroupConv => wit::conv::Mode::GroupConv,
        ConvolutionMode::Depthwise => wit::conv::Mode::Depthwise,
        ConvolutionMode::Unrecognized => wit::conv::Mode::Unrecognized,
    }
}

fn attributes(fields: &ConvolutionFields) -> Vec<wit::conv::ConvolutionAttribute> {
    fields.attributes.iter().map(|&(number, value)| wit::conv::ConvolutionAttribute { number, value }).collect()
}

fn convolution(problem: &ConvolutionProblem<'_>) -> wit::conv::Problem {
    let fields = problem.convolution.fields();
    wit::conv::Problem {
        direction: match problem.direction {
            ConvolutionDirection::Forward => wit::conv::Direction::Forward,
            ConvolutionDirection::BackwardData => wit::conv::Direction::BackwardData,
            ConvolutionDirection::BackwardWeights => wit::conv::Direction::BackwardWeights,
        },
        mode: mode(fields.mode),
        x: tensor(problem.x),
        w: tensor(problem.w),
        y: tensor(problem.y),
        pads: fields.pads.clone(),
        strides: fields.strides.clone(),
        dilations: fields.dilations.clone(),
        output_pads: fields.output_pads.clone(),
        group_count: fields.group_count,
        alpha: problem.alpha,
        beta: problem.beta,
        algorithm: problem.algorithm,
        attributes: attributes(fields),
    }
}

fn chain(problem: &FusionProblem<'_>) -> wit::fusion::Problem {
    wit::fusion::Problem {
        input: tensor(problem.input),
        operations: problem.operations.iter().map(operation).collect(),
        output: tensor(problem.output),
    }
}

/// Scalars.
pub fn scaling(scaling: Scaling) -> wit::fusion::Scaling {
    wit::fusion::Scaling { alpha: scaling.alpha, beta: scaling.beta }
}

fn operation(operation: &FusedOperation<'_>) -> wit::fusion::Operation {
    use wit::fusion::Operation as W;
    match *operation {
        FusedOperation::Convolution { convolution, w, algorithm, scaling: scalars } => {
            let fields = convolution.fields();
            W::Convolution(wit::fusion::Convolution {
                mode: mode(fields.mode),
                w: tensor(w),
                pads: fields.pads.clone(),
                strides: fields.strides.clone(),
                dilations: fields.dilations.clone(),
                output_pads: fields.output_pads.clone(),
                group_count: fields.group_count,
                attributes: attributes(fields),
                algorithm,
                scaling: scaling(scalars),
            })
        }
        FusedOperation::Addition { tensor: added, factor } => W::Addition(wit::fusion::Addition { tensor: tensor(added), factor }),
        FusedOperation::Bias { tensor: bias, scaling: scalars } => {
            W::Bias(wit::fusion::Bias { tensor: tensor(bias), scaling: scaling(scalars) })
        }
        FusedOperation::Normalization { mode, parameters, epsilon, scaling: scalars } => {
            let mode = match mode {
                NormalizationMode::PerActivation => wit::fusion::NormalizationMode::PerActivation,
                NormalizationMode::Spatial => wit::fusion::NormalizationMode::Spatial,
                NormalizationMode::Unrecognized => wit::fusion::NormalizationMode::Unrecognized,
            };
            W::Normalization(wit::fusion::Normalization { mode, parameters: tensor(parameters), epsilon, scaling: scaling(scalars) })
        }
        FusedOperation::Activation { activation: Activation { mode, alpha, beta, gamma }, scaling: scalars } => {
            let mode = activation_mode(mode);
            W::Activation(wit::fusion::Activation { mode, alpha, beta, gamma, scaling: scaling(scalars) })
        }
        FusedOperation::Other(name) => W::Other(name.to_string()),
    }
}

/// A mode.
pub fn activation_mode(mode: ActivationMode) -> wit::fusion::ActivationMode {
    use wit::fusion::ActivationMode as W;
    match mode {
        ActivationMode::PassThrough => W::PassThrough,
        ActivationMode::Logistic => W::Logistic,
        ActivationMode::Tanh => W::Tanh,
        ActivationMode::Relu => W::Relu,
        ActivationMode::SoftRelu => W::SoftRelu,
        ActivationMode::Absolute => W::Absolute,
        ActivationMode::Power => W::Power,
        ActivationMode::ClippedRelu => W::ClippedRelu,
        ActivationMode::LeakyRelu => W::LeakyRelu,
        ActivationMode::Elu => W::Elu,
        ActivationMode::Clamp => W::Clamp,
        ActivationMode::Unrecognized => W::Unrecognized,
    }
}

/// What the backend can express.
pub fn capability_record(capabilities: &Capabilities) -> wit::graph::Capabilities {
    wit::graph::Capabilities {
        backend_version: capabilities.backend_version.clone(),
        operations: capabilities.operations.clone(),
        data_types: capabilities.data_types.iter().copied().map(to_wit).collect(),
        plan_serialization: capabilities.plan_serialization,
    }
}

fn received(translation: wit::graph::Translation) -> graph::ReceivedGraph {
    graph::ReceivedGraph {
        tensors: translation.tensors.into_iter().map(received_tensor).collect(),
        nodes: translation.nodes.into_iter().map(received_node).collect(),
        compute_type: translation.compute_type.map(from_wit),
        intermediate_type: translation.intermediate_type.map(from_wit),
        io_type: translation.io_type.map(from_wit),
        bindings: translation.bindings.into_iter().map(received_binding).collect(),
        notes: translation.notes,
    }
}

fn received_tensor(tensor: wit::graph::Tensor) -> graph::Tensor {
    graph::Tensor {
        uid: tensor.uid,
        data_type: from_wit(tensor.data_type),
        dims: tensor.dims,
        strides: tensor.strides,
        is_virtual: tensor.is_virtual,
        value: tensor.value,
    }
}

fn received_node(node: wit::graph::Node) -> graph::Node {
    let attribute = |a: wit::graph::Attribute| graph::Attribute { number: a.number, value: received_value(a.value) };
    graph::Node { operation: node.operation, attributes: node.attributes.into_iter().map(attribute).collect() }
}

fn received_value(value: wit::graph::Value) -> graph::Value {
    use wit::graph::Value as W;
    match value {
        W::Tensor(uid) => graph::Value::Tensor(uid),
        W::Tensors(uids) => graph::Value::Tensors(uids),
        W::Integers(list) => graph::Value::Integers(list),
        W::Floats(list) => graph::Value::Floats(list),
        W::Doubles(list) => graph::Value::Doubles(list),
        W::Flag(flag) => graph::Value::Flag(flag),
        W::DataType(data_type) => graph::Value::DataType(from_wit(data_type)),
        W::Enumeration(number) => graph::Value::Enumeration(number),
        W::Text(text) => graph::Value::Text(text),
    }
}

fn received_binding(binding: wit::graph::Binding) -> graph::Binding {
    let access = match binding.access {
        wit::graph::Access::Read => graph::Access::Read,
        wit::graph::Access::Write => graph::Access::Write,
    };
    graph::Binding { uid: binding.uid, argument: binding.argument, access }
}
