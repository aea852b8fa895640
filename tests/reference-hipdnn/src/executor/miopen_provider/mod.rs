//! The engine of the `miopen-provider` profile: the same code, behind the documented limits of AMD's MIOpen provider. Those of graphs of
//! several operations are in `fused`.

mod fused;

use hipdnn_abi::{attribute, behavior_note, convolution_mode, data_type};

use super::{Executable, Executor, Knob, Refusal, fusion::Fusion, layout::Checked};
use crate::{
    error::{Error, Result},
    graph::{Graph, Node, Tensor},
};

/// `MIOPEN_ENGINE`.
pub struct MiopenProvider;

impl Executor for MiopenProvider {
    fn name(&self) -> &str {
        "MIOPEN_ENGINE"
    }

    /// No capture (it searches inside the first execution), no serialization.
    fn notes(&self) -> &[i32] {
        &[behavior_note::EXTERNAL_LIBRARY_DEPENDENCY]
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob { id: "global.benchmarking", description: "measure algorithms (ignored here)", default: 0, minimum: 0, maximum: 1 }]
    }

    fn check(&self, graph: &Graph) -> std::result::Result<usize, Refusal> {
        let [node, others @ ..] = graph.nodes.as_slice() else { return Err("no operation".into()) };
        check_node(node)?;
        if others.is_empty() {
            alone(graph)?;
        } else {
            fused::check(graph, node, others)?;
        }
        in_memory(graph).try_for_each(check_tensor)?;
        check_together(graph)?;
        Fusion::new(graph).map(|fusion| fusion.workspace())
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Fusion::new(graph).map_err(Error::unsupported)?))
    }
}

fn check_node(node: &Node) -> Checked<()> {
    if node.enumeration(attribute::CONVOLUTION_COMP_TYPE) != Some(data_type::FLOAT) {
        return Err("a compute type that is not FLOAT".into());
    }
    if node.enumeration(attribute::CONVOLUTION_CONV_MODE) != Some(convolution_mode::CROSS_CORRELATION) {
        return Err("a mode that is not cross-correlation".into());
    }
    if node.int64s(attribute::CONVOLUTION_PRE_PADDINGS) != node.int64s(attribute::CONVOLUTION_POST_PADDINGS) {
        return Err("pre and post paddings that differ".into());
    }
    Ok(())
}

/// A convolution alone joins nothing.
fn alone(graph: &Graph) -> Checked<()> {
    let tensor = graph.tensors.iter().find(|tensor| !tensor.needs_pointer());
    tensor.map_or(Ok(()), |tensor| Err(format!("tensor {} is virtual or by value", tensor.uid)))
}

fn in_memory(graph: &Graph) -> impl Iterator<Item = &Tensor> {
    graph.tensors.iter().map(AsRef::as_ref).filter(|tensor| tensor.needs_pointer())
}

fn check_tensor(tensor: &Tensor) -> Checked<()> {
    if ![data_type::FLOAT, data_type::HALF, data_type::BFLOAT16].contains(&tensor.data_type) {
        return Err(format!("tensor {}: data type {}", tensor.uid, tensor.data_type));
    }
    if !(3..=5).contains(&tensor.dims.len()) {
        return Err(format!("tensor {}: rank {}", tensor.uid, tensor.dims.len()));
    }
    if is_channel_first(tensor) || is_channel_last(tensor) { Ok(()) } else { Err(format!("tensor {}: its layout", tensor.uid)) }
}

/// One type and one layout for all. A tensor may have both layouts (one channel, or one position), and then goes with either.
fn check_together(graph: &Graph) -> Checked<()> {
    let all = |has: fn(&Tensor) -> bool| in_memory(graph).all(has);
    if in_memory(graph).zip(in_memory(graph).skip(1)).any(|(one, next)| one.data_type != next.data_type) {
        return Err("tensors of different data types".into());
    }
    if all(is_channel_first) || all(is_channel_last) { Ok(()) } else { Err("tensors of different layouts".into()) }
}

fn is_channel_first(tensor: &Tensor) -> bool {
    descends(tensor, 0..tensor.dims.len())
}

fn is_channel_last(tensor: &Tensor) -> bool {
    descends(tensor, [0].into_iter().chain(2..tensor.dims.len()).chain([1]))
}

/// Whether the strides fall in this order of dimensions, each large enough for what lies inside it. Dimensions of size 1 do not matter.
fn descends(tensor: &Tensor, order: impl DoubleEndedIterator<Item = usize>) -> bool {
    let mut inner = 1i64;
    order.rev().filter(|&i| tensor.dims[i] != 1).all(|i| {
        let (dim, stride) = (tensor.dims[i], tensor.strides[i]);
        let fits = stride >= inner;
        inner = stride.saturating_mul(dim);
        fits
    })
}
