//! What hipDNN can be asked for: every reason why a call cannot be an operation graph that an engine takes, in plain terms. Written from the
//! documentation of hipDNN's backend (what its tensors, operations and variant packs hold, and what its providers run) and of MIOpen (what
//! its calls mean); it knows nothing of how the shim decides, but for the names of its rules.
//!
//! hipDNN's three convolutions (forward, gradient by image, gradient by filter) have dimensions and strides of three tensors, paddings before
//! and behind, strides and dilations. The group count is what the channels say. There is no transposed convolution, no attribute and no
//! scalar; the first is the gradient of the other reading direction, and scalars are pointwise operations behind the convolution.

use miopen_api::{activation_mode, convolution_attribute};

use super::asked::{Alias, Asked, Geometry, Style};
use crate::{
    edge::{Direction, Scalar},
    problem::{Kind, Tensor},
};

/// Which engine there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// One that takes all that the ABI expresses.
    Abi,
    /// AMD's MIOpen provider.
    Provider,
}

impl Profile {
    /// By its name in the reference hipDNN.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "abi" => Some(Self::Abi),
            "miopen-provider" => Some(Self::Provider),
            _ => None,
        }
    }
}

/// Names of the shim's rules, one for each reason; where the reason is that no engine takes the graph, the shim may name the scalar that made
/// it one that few engines take.
type Reasons = Vec<&'static str>;

/// All reasons why the call is not hipDNN's: the ones of its memory and those of what it asks for. None: it is.
///
/// In immediate mode the caller runs the first solution that was listed. If hipDNN's was not, that is native's, and no decline.
pub fn reasons(asked: &Asked, profile: Profile) -> Reasons {
    if asked.style == Style::Immediate && !offered(asked, profile) {
        return vec![if asked.is_taken() { "host.policy.native-solution" } else { "host.descriptor.unrecorded" }];
    }
    let mut reasons = memory(asked);
    reasons.extend(problem(asked, profile));
    reasons
}

/// Whether hipDNN is offered when solutions are looked for, where nothing is known of scalars yet, nor, but in Find, of memory.
pub fn offered(asked: &Asked, profile: Profile) -> bool {
    let plain = Asked { alpha: Scalar::Float(1.0), beta: Scalar::Float(0.0), ..asked.clone() };
    problem(&plain, profile).is_empty() && (asked.style == Style::Immediate || memory(&plain).is_empty())
}

/// Reasons in the arguments of the executing call: hipDNN writes where nobody else reads or writes, and needs an address for each tensor.
fn memory(asked: &Asked) -> Reasons {
    let mut reasons = Vec::new();
    when(&mut reasons, asked.null.is_some(), "host.pointer.null");
    when(&mut reasons, asked.has_scalars() && [asked.alpha, asked.beta].contains(&Scalar::Null), "host.scaling.null");
    when(&mut reasons, shared_memory(asked).is_some(), "host.aliasing");
    reasons
}

/// Reasons in what is asked for, whatever its memory.
fn problem(asked: &Asked, profile: Profile) -> Reasons {
    let mut reasons = descriptors(asked);
    if reasons.is_empty() {
        // Dimensions are compared, which must be there.
        reasons.extend(shapes(asked));
    }
    reasons.extend(demands(asked));
    reasons.extend(scaling(asked, profile));
    reasons.extend(chain(asked));
    if reasons.is_empty() {
        let refused = match profile {
            Profile::Abi => !has_arithmetic(asked),
            Profile::Provider => !provider_takes(asked),
        };
        when(&mut reasons, refused, "host.backend.unsupported");
    }
    reasons
}

fn when(reasons: &mut Reasons, holds: bool, rule: &'static str) {
    if holds {
        reasons.push(rule);
    }
}

/// The tensors that share a byte, if two do. hipDNN has a buffer for each; neither library says what shared ones mean.
fn shared_memory(asked: &Asked) -> Option<Alias> {
    let bytes = |alias: &Alias| asked.tensors[alias.onto].extent() * asked.tensors[alias.onto].kind.width();
    asked.alias.filter(|alias| alias.shift < bytes(alias))
}

/// Whether a tensor that is written shares a byte with another.
pub fn shares_written_memory(asked: &Asked) -> bool {
    let result = asked.direction.result();
    shared_memory(asked).is_some_and(|alias| alias.which == result || alias.onto == result)
}

/// Descriptors that were set, and agree on the number of dimensions: two more than the convolution has. What one holds that a setter has
/// refused, MIOpen does not say.
fn descriptors(asked: &Asked) -> Reasons {
    let mut reasons = Vec::new();
    when(&mut reasons, !asked.is_taken(), "host.descriptor.unrecorded");
    let agree = asked.tensors.iter().all(|tensor| tensor.dims.len() == asked.geometry.pads.len() + 2);
    when(&mut reasons, !agree, "conv.rank.mismatch");
    reasons
}

/// The convolution whose window slides over the image and gives features: for a transposed one that is y and x.
struct Sliding<'a> {
    image: &'a Tensor,
    filter: &'a Tensor,
    features: &'a Tensor,
    held: &'a Geometry,
}

impl<'a> Sliding<'a> {
    fn of(asked: &'a Asked) -> Self {
        let (held, [x, filter, y]) = (&asked.geometry, &asked.tensors);
        let (image, features) = if held.transposed { (y, x) } else { (x, y) };
        Self { image, filter, features, held }
    }

    /// What a window covers along an axis.
    fn reach(&self, axis: usize) -> i64 {
        1 + (self.filter.dims[axis + 2] as i64 - 1) * self.held.dilations[axis]
    }

    /// `floor((image + pre + post - reach) / stride) + 1`, the length that a convolution has, or none if no window fits.
    fn windows(&self, axis: usize, post: i64) -> Option<i64> {
        let room = self.image.dims[axis + 2] as i64 + self.held.pads[axis] + post - self.reach(axis);
        (room >= 0).then(|| room / self.held.strides[axis] + 1)
    }

    /// The paddings behind the image with which its features have the problem's length, if there is one: the problem's own if that does.
    ///
    /// MIOpen's transposed convolution says `stride (x - 1) + reach - 2 pad + output pad`, and 1 where that is less; only then another
    /// padding is needed. An ordinary convolution has its pads on both sides.
    fn post_padding(&self, axis: usize) -> Option<i64> {
        let (pad, features) = (self.held.pads[axis], self.features.dims[axis + 2] as i64);
        let fits = |post: &i64| self.windows(axis, *post) == Some(features);
        if fits(&pad) {
            return Some(pad);
        }
        let most = self.held.strides[axis] * features + self.reach(axis);
        (0..=most).find(fits).filter(|_| self.held.transposed)
    }

    /// Whether y has the length along an axis that MIOpen's output query says.
    fn is_miopens_length(&self, axis: usize) -> bool {
        let (image, features) = (self.image.dims[axis + 2] as i64, self.features.dims[axis + 2] as i64);
        let (pad, stride, adjust) = (self.held.pads[axis], self.held.strides[axis], self.held.output_pads[axis]);
        if !self.held.transposed {
            let windows = (image - self.reach(axis) + 2 * pad).div_euclid(stride) + 1;
            return features == windows.max(1);
        }
        let spread = stride * (features - 1) + self.reach(axis) - 2 * pad + adjust;
        (0..stride).contains(&adjust) && image == spread.max(1)
    }
}

/// Lengths that do not belong together, and results whose elements are not places of their own.
fn shapes(asked: &Asked) -> Reasons {
    let (mut reasons, sliding, groups) = (Vec::new(), Sliding::of(asked), i64::from(asked.groups));
    let [image, filter, features] = [sliding.image, sliding.filter, sliding.features].map(|tensor| [tensor.dims[0], tensor.dims[1]]);
    when(&mut reasons, groups < 1, "conv.groups.count");
    when(&mut reasons, filter[1] as i64 * groups != image[1] as i64, "conv.groups.channels");
    when(&mut reasons, groups > 0 && filter[0] as i64 % groups != 0, "conv.groups.outputs");
    let spatial = (0..sliding.held.pads.len()).all(|axis| sliding.is_miopens_length(axis) && sliding.post_padding(axis).is_some());
    when(&mut reasons, image[0] != features[0] || features[1] != filter[0] || !spatial, "conv.output.geometry");
    when(&mut reasons, !nests(asked.result()), "tensor.strides.overlap");
    reasons
}

/// Whether the tensors are those of a convolution that is defined: what such a call gives, the definition says.
pub fn is_convolution(asked: &Asked) -> bool {
    descriptors(asked).is_empty() && shapes(asked).is_empty()
}

/// Whether every dimension lies outside of all with smaller strides: then no two elements are one.
fn nests(tensor: &Tensor) -> bool {
    let mut axes: Vec<(usize, usize)> =
        tensor.strides.iter().zip(&tensor.dims).filter(|(_, dim)| **dim > 1).map(|(s, d)| (*s, *d)).collect();
    axes.sort_unstable();
    let mut inside = 0;
    axes.into_iter().all(|(stride, dim)| {
        let clear = stride > inside;
        inside += (dim - 1) * stride;
        clear
    })
}

/// Attributes that ask for what no graph says.
fn demands(asked: &Asked) -> Reasons {
    let mut reasons = Vec::new();
    let half = asked.tensors.iter().any(|tensor| tensor.kind == Kind::Half);
    let deterministic = asked.attribute(convolution_attribute::DETERMINISTIC) == Some(1);
    let alternative = asked.attribute(convolution_attribute::FP16_ALT_IMPL) == Some(1);
    when(&mut reasons, deterministic, "conv.attribute.deterministic");
    when(&mut reasons, alternative && half, "conv.attribute.fp16-alternative");
    reasons
}

/// Alpha and beta are pointwise operations, which are there for floating point; the provider has none behind a convolution.
fn scaling(asked: &Asked, profile: Profile) -> Reasons {
    let (mut reasons, (alpha, beta)) = (Vec::new(), asked.scaling());
    let floating = asked.tensors.iter().all(|tensor| !tensor.kind.is_integer());
    let can = floating && profile == Profile::Abi;
    when(&mut reasons, alpha != 1.0 && !can, "conv.scaling.alpha");
    when(&mut reasons, beta != 0.0 && !can, "conv.scaling.beta");
    reasons
}

/// What follows the convolution of a plan: a power is 0 where its base is not positive, which no mode says; numbers must be numbers; pointwise
/// operations are there for floating point.
fn chain(asked: &Asked) -> Reasons {
    let mut reasons = Vec::new();
    if let Some((mode, parameters)) = asked.chain.activation.filter(|_| asked.style == Style::Plan) {
        when(&mut reasons, mode == activation_mode::POWER, "fusion.activation.power");
        when(&mut reasons, parameters.iter().any(|value| !value.is_finite()), "fusion.activation.parameters");
    }
    let integers = asked.tensors.iter().any(|tensor| tensor.kind.is_integer());
    when(&mut reasons, integers && behind(asked) != (false, None), "fusion.type.pointwise");
    reasons
}

/// The pointwise operations behind a plan's convolution: a bias, and the mode of an activation that does something.
fn behind(asked: &Asked) -> (bool, Option<i32>) {
    if asked.style != Style::Plan {
        return (false, None);
    }
    let activation = asked.chain.activation.map(|(mode, _)| mode);
    (asked.chain.bias, activation.filter(|mode| *mode != activation_mode::PASTHRU))
}

/// Whether sums of these types are formed by any engine: floats in any mixture, or int8 to what holds sums.
fn has_arithmetic(asked: &Asked) -> bool {
    let [a, b, result] = asked.direction.operands().map(|i| asked.tensors[i].kind);
    let floats = [a, b, result].iter().all(|kind| !kind.is_integer());
    let integers = [a, b] == [Kind::Int8; 2] && matches!(result, Kind::Int8 | Kind::Int32 | Kind::Float);
    floats || integers
}

/// MIOPEN_ENGINE: FP16, BF16 and FP32, one of them for all tensors; ranks 3 to 5; all channel first, or all channel last; equal paddings; one
/// convolution, or a forward one with an optional bias and a ReLU.
fn provider_takes(asked: &Asked) -> bool {
    let (tensors, sliding) = (&asked.tensors, Sliding::of(asked));
    let kind = tensors[0].kind;
    let typed = matches!(kind, Kind::Half | Kind::BFloat16 | Kind::Float) && tensors.iter().all(|tensor| tensor.kind == kind);
    let ranked = (3..=5).contains(&tensors[0].dims.len());
    let laid = tensors.iter().all(is_channel_first) || tensors.iter().all(is_channel_last);
    let padded = (0..sliding.held.pads.len()).all(|axis| sliding.post_padding(axis) == Some(sliding.held.pads[axis]));
    typed && ranked && laid && padded && provider_takes_chain(asked)
}

fn provider_takes_chain(asked: &Asked) -> bool {
    use activation_mode::{CLAMP, CLIPPEDRELU, LEAKYRELU, RELU};
    match behind(asked) {
        (false, None) => true,
        (true, None) => false,
        (_, Some(mode)) => asked.direction == Direction::Forward && [RELU, CLIPPEDRELU, LEAKYRELU, CLAMP].contains(&mode),
    }
}

fn is_channel_first(tensor: &Tensor) -> bool {
    falls(tensor, 0..tensor.dims.len())
}

fn is_channel_last(tensor: &Tensor) -> bool {
    falls(tensor, [0].into_iter().chain(2..tensor.dims.len()).chain([1]))
}

/// Whether strides fall in an order of dimensions, from the outermost in, with or without gaps. A length of 1 is nowhere in particular.
fn falls(tensor: &Tensor, order: impl Iterator<Item = usize>) -> bool {
    let axes: Vec<(usize, usize)> = order.map(|axis| (tensor.dims[axis], tensor.strides[axis])).filter(|(dim, _)| *dim > 1).collect();
    let inner = axes.last().is_none_or(|(_, stride)| *stride >= 1);
    inner && axes.windows(2).all(|pair| pair[0].1 >= pair[1].0 * pair[1].1)
}

#[cfg(test)]
mod tests;
