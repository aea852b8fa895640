//! One thing that is wrong, or unusual enough that libraries may treat it on their own. Only that it is put in is written here.

use miopen_api::{activation_mode, convolution_attribute};

use super::{Source, harmless};
use crate::{
    edge::Scalar,
    random::asked::{Alias, Asked, Style, scalar},
};

/// What is put into a sound problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Another group count, perhaps none or a negative one.
    Groups,
    /// Another number of channels, filters or images somewhere.
    Channels,
    /// Another output length.
    OutputLength,
    /// A negative pad, or a stride or dilation of 0.
    Refused,
    /// A window that does not fit, where MIOpen says that the output has length 1.
    Window,
    /// Output padding that is as large as a stride, or negative.
    OutputPad,
    /// A convolution of another rank.
    Rank,
    /// A tensor stride of 0.
    TensorStride,
    /// Elements that share addresses, or nearly.
    Overlap,
    /// A null pointer.
    Null,
    /// A null alpha or beta.
    NullScalar,
    /// Two tensors in one memory.
    Alias,
    /// An attribute that asks for something.
    Attribute,
    /// An attribute that asks for nothing.
    Harmless,
    /// An activation that is not always a number, or not on a graph.
    Activation,
    /// Unusual scalars.
    Scalars,
}

impl Flaw {
    /// Any.
    pub fn any(source: &mut Source) -> Self {
        use Flaw::{
            Activation, Alias, Attribute, Channels, Groups, Harmless, Null, NullScalar, OutputLength, OutputPad, Overlap, Rank, Refused,
            Scalars, TensorStride, Window,
        };
        source.one(&[
            Groups,
            Channels,
            OutputLength,
            Refused,
            Window,
            OutputPad,
            Rank,
            TensorStride,
            Overlap,
            Overlap,
            Null,
            NullScalar,
            Alias,
            Alias,
            Attribute,
            Attribute,
            Harmless,
            Activation,
            Scalars,
        ])
    }

    /// Puts it in.
    pub fn put(self, source: &mut Source, asked: &mut Asked) {
        let axis = source.between(0, asked.geometry.pads.len() - 1);
        match self {
            Self::Groups => asked.groups = source.one(&[-1, 0, 1, 2, 3, 5]),
            Self::Channels => change(source, asked, 0, 1),
            Self::OutputLength => asked.tensors[2].dims[axis + 2] += 1,
            Self::Refused => refused(source, asked, axis),
            Self::Window => window(asked, axis),
            Self::OutputPad => output_pad(source, asked, axis),
            Self::Rank => rank(source, asked),
            Self::TensorStride => overlap(source, asked, 0),
            Self::Overlap => {
                let stride = source.between(1, 3);
                overlap(source, asked, stride);
            }
            Self::Null => asked.null = nullable(asked.style).then(|| source.between(0, 2)),
            Self::NullScalar if source.percent(50) => asked.alpha = Scalar::Null,
            Self::NullScalar => asked.beta = Scalar::Null,
            Self::Alias => alias(source, asked),
            Self::Attribute => asked.attributes = demanding(source),
            Self::Harmless => asked.attributes = harmless(source),
            Self::Activation => activation(source, asked),
            Self::Scalars => scalars(source, asked),
        }
    }
}

/// Changes a length of dimensions `least` to `most` of one tensor, without telling the others.
fn change(source: &mut Source, asked: &mut Asked, least: usize, most: usize) {
    let (which, axis) = (source.between(0, 2), source.between(least, most));
    asked.tensors[which].dims[axis] += 1;
}

fn refused(source: &mut Source, asked: &mut Asked, axis: usize) {
    match source.between(0, 2) {
        0 => asked.geometry.pads[axis] = -1,
        1 => asked.geometry.strides[axis] = 0,
        _ => asked.geometry.dilations[axis] = 0,
    }
}

/// Input of length 1, no pads, a window of 3: an output of length 1 of whatever.
fn window(asked: &mut Asked, axis: usize) {
    asked.geometry.pads[axis] = 0;
    for (tensor, length) in asked.tensors.iter_mut().zip([1, 3, 1]) {
        tensor.dims[axis + 2] = length;
    }
}

/// As MIOpen would compute the length with it.
fn output_pad(source: &mut Source, asked: &mut Asked, axis: usize) {
    let geometry = &mut asked.geometry;
    let new = source.one(&[-1, geometry.strides[axis], geometry.strides[axis] + 1]);
    let old = std::mem::replace(&mut geometry.output_pads[axis], new);
    if geometry.transposed {
        let length = asked.tensors[2].dims[axis + 2] as i64 + new - old;
        asked.tensors[2].dims[axis + 2] = length.max(1) as usize;
    }
}

fn rank(source: &mut Source, asked: &mut Asked) {
    let geometry = &mut asked.geometry;
    let lists = [&mut geometry.pads, &mut geometry.strides, &mut geometry.dilations, &mut geometry.output_pads];
    let shorter = source.percent(50);
    for (list, value) in lists.into_iter().zip([0, 1, 1, 0]) {
        if shorter && list.len() > 1 {
            list.pop();
        } else {
            list.push(value);
        }
    }
}

/// Gives a dimension of any tensor a stride.
fn overlap(source: &mut Source, asked: &mut Asked, stride: usize) {
    let which = source.between(0, 2);
    let tensor = &mut asked.tensors[which];
    let axis = source.between(0, tensor.dims.len() - 1);
    tensor.strides[axis] = stride;
}

fn nullable(style: Style) -> bool {
    matches!(style, Style::Unfound | Style::Found { .. } | Style::Immediate)
}

/// Anywhere in the other's memory; often at its start.
fn alias(source: &mut Source, asked: &mut Asked) {
    let which = source.between(0, 2);
    let onto = (which + source.between(1, 2)) % 3;
    let (host, guest) = (&asked.tensors[onto], &asked.tensors[which]);
    let width = guest.kind.width();
    let last = host.extent() * host.kind.width() / width;
    // The last of these is just behind: nothing is shared there.
    let shift = if source.percent(60) { 0 } else { width * source.between(0, last + 1) };
    asked.alias = Some(Alias { which, onto, shift });
}

fn demanding(source: &mut Source) -> Vec<(i32, i32)> {
    let (alternative, deterministic) = (convolution_attribute::FP16_ALT_IMPL, convolution_attribute::DETERMINISTIC);
    match source.between(0, 4) {
        0 | 1 => vec![(deterministic, 1)],
        2 => vec![(alternative, 1)],
        3 => vec![(deterministic, 1), (deterministic, 0)],
        // Not there in MIOpen 3.5.
        _ => vec![(3, 1)],
    }
}

fn activation(source: &mut Source, asked: &mut Asked) {
    if asked.style == Style::Plan {
        let power = (activation_mode::POWER, [1.0, 1.0, 2.0]);
        let infinite = (activation_mode::CLIPPEDRELU, [f64::INFINITY, 0.0, 0.0]);
        asked.chain.activation = Some(source.one(&[power, infinite]));
    }
}

fn scalars(source: &mut Source, asked: &mut Asked) {
    let kind = asked.result().kind;
    asked.alpha = scalar(source.one(&[1.0, 0.25, 3.0]), kind);
    asked.beta = scalar(source.one(&[-0.0, 1.0, 2.0]), kind);
}
