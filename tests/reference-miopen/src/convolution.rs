//! Convolution descriptors: their state, every function that sets or reads it, and the arithmetic of output sizes.
//! Which tensors fit one is in `problem`; computation is in `numeric`.

use miopen_api::{convolution_attribute, convolution_find_mode, convolution_mode, padding_mode, status};

use crate::args::{In, New, Obj, Out, create, object};
use crate::failure::{Failure, Outcome, bad, fail};
use crate::tensor::Tensor;

/// A convolution descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Convolution or transpose; the other two modes of the enum mean convolution with groups.
    pub mode: i32,
    pub pads: Vec<i32>,
    pub strides: Vec<i32>,
    pub dilations: Vec<i32>,
    pub output_pads: Vec<i32>,
    pub groups: i32,
    /// By attribute number, those the version knows.
    pub attributes: [i32; 3],
    pub find_mode: i32,
}
object!(Convolution, 0x6d69_436f_6e76_4465, "convolution descriptor");

impl Convolution {
    /// With everything else as it is by default.
    pub fn new(mode: i32, pads: Vec<i32>, strides: Vec<i32>, dilations: Vec<i32>) -> Result<Convolution, Failure> {
        if !(convolution_mode::CONVOLUTION..=convolution_mode::DEPTHWISE).contains(&mode) {
            return Err(bad(format!("{mode} is no convolution mode")));
        }
        if pads.iter().any(|p| *p < 0) || strides.iter().chain(&dilations).any(|v| *v < 1) {
            return Err(bad("pads must not be negative, strides and dilations must be positive"));
        }
        let mode = if mode == convolution_mode::TRANSPOSE { mode } else { convolution_mode::CONVOLUTION };
        let output_pads = vec![0; pads.len()];
        let (attributes, find_mode) = ([-1, 0, 1], convolution_find_mode::DEFAULT);
        Ok(Convolution { mode, pads, strides, dilations, output_pads, groups: 1, attributes, find_mode })
    }

    fn default_2d() -> Convolution {
        let (output_pads, attributes, find_mode) = (vec![0; 2], [-1, 0, 1], convolution_find_mode::DEFAULT);
        let (pads, strides, dilations) = (vec![0; 2], vec![1; 2], vec![1; 2]);
        Convolution { mode: convolution_mode::CONVOLUTION, pads, strides, dilations, output_pads, groups: 1, attributes, find_mode }
    }

    /// How many spatial dimensions.
    pub fn rank(&self) -> usize {
        self.pads.len()
    }

    /// Whether it computes the gradient of a convolution with respect to its input.
    pub fn transposed(&self) -> bool {
        self.mode == convolution_mode::TRANSPOSE
    }

    /// Dimensions of the output for an input and a filter. With vectorised layouts the channels of all of them are counted in vectors, but
    /// for a filter's output channels, and a CHWNc filter is read with these first.
    pub fn output_dims(&self, x: &Tensor, w: &Tensor) -> Result<Vec<i64>, Failure> {
        if x.dims.len() != self.rank() + 2 || w.dims.len() != x.dims.len() {
            return Err(bad("input, filter and convolution differ in their number of dimensions"));
        }
        if x.vector_length != w.vector_length {
            return Err(bad("input and filter differ in the length of their vectors"));
        }
        let groups = i64::from(self.groups);
        if groups < 1 {
            return Err(bad(format!("{groups} groups")));
        }
        let filter = w.batch_first_dims();
        let (in_channels, w0, w1) = (x.dims[1] as i64, filter[0] as i64, filter[1] as i64);
        let channels = if self.transposed() {
            if in_channels != w0 || w0 % groups != 0 {
                return Err(bad("input channels do not match the filter's"));
            }
            w1 * groups
        } else {
            if in_channels != w1 * groups || w0 % groups != 0 {
                return Err(bad("input channels do not match the filter's, or do not divide into the groups"));
            }
            w0 / w.vector_length as i64
        };
        let spatial = (0..self.rank()).map(|i| self.output_size(i, x.dims[i + 2] as i64, filter[i + 2] as i64));
        let mut dims = vec![x.dims[0] as i64, channels];
        for size in spatial {
            dims.push(size?);
        }
        Ok(dims)
    }

    /// One spatial dimension; never less than one, as in the real library.
    fn output_size(&self, i: usize, input: i64, kernel: i64) -> Result<i64, Failure> {
        let (pad, stride) = (i64::from(self.pads[i]), i64::from(self.strides[i]));
        let reach = 1 + i64::from(self.dilations[i]) * (kernel - 1);
        let adjust = i64::from(self.output_pads[i]);
        if !self.transposed() {
            return Ok(((input - reach + 2 * pad) / stride + 1).max(1));
        }
        if adjust < 0 || adjust >= stride {
            return Err(bad(format!("output padding {adjust} with stride {stride}")));
        }
        Ok((stride * (input - 1) + reach - 2 * pad + adjust).max(1))
    }

    fn needs_rank(&self, rank: i32) -> Outcome {
        if usize::try_from(rank) == Ok(self.rank()) {
            return Ok(());
        }
        Err(fail(status::UNKNOWN_ERROR, format!("{rank} spatial dimensions asked, {} present", self.rank())))
    }
}

pub fn miopenCreateConvolutionDescriptor(out: Out<New<Convolution>>) -> Outcome {
    create(&out, Convolution::default_2d())
}

pub fn miopenDestroyConvolutionDescriptor(conv: Obj<Convolution>) -> Outcome {
    conv.destroy()
}

#[allow(clippy::too_many_arguments)]
pub fn miopenInitConvolutionDescriptor(
    mut conv: Obj<Convolution>,
    mode: i32,
    pad_h: i32,
    pad_w: i32,
    stride_h: i32,
    stride_w: i32,
    dilation_h: i32,
    dilation_w: i32,
) -> Outcome {
    let conv = conv.get_mut()?;
    *conv = Convolution::new(mode, vec![pad_h, pad_w], vec![stride_h, stride_w], vec![dilation_h, dilation_w])?;
    Ok(())
}

/// The whole descriptor is made anew: groups, output padding and attributes return to their defaults.
pub fn miopenInitConvolutionNdDescriptor(
    mut conv: Obj<Convolution>,
    rank: i32,
    pads: In<i32>,
    strides: In<i32>,
    dilations: In<i32>,
    mode: i32,
) -> Outcome {
    let conv = conv.get_mut()?;
    let rank = usize::try_from(rank).ok().filter(|r| *r > 0).ok_or_else(|| bad("no spatial dimensions"))?;
    let all = |values: In<i32>| values.read_all(rank).ok_or_else(|| bad("pads, strides or dilations are null"));
    *conv = Convolution::new(mode, all(pads)?, all(strides)?, all(dilations)?)?;
    Ok(())
}

pub fn miopenGetConvolutionSpatialDim(conv: Obj<Convolution>, rank: Out<i32>) -> Outcome {
    rank.put(conv.get()?.rank() as i32)
}

#[allow(clippy::too_many_arguments)]
pub fn miopenGetConvolutionDescriptor(
    conv: Obj<Convolution>,
    mode: Out<i32>,
    pad_h: Out<i32>,
    pad_w: Out<i32>,
    stride_h: Out<i32>,
    stride_w: Out<i32>,
    dilation_h: Out<i32>,
    dilation_w: Out<i32>,
) -> Outcome {
    let conv = conv.get()?;
    conv.needs_rank(2)?;
    mode.put(conv.mode)?;
    let values = [&conv.pads, &conv.strides, &conv.dilations];
    for (out, values) in [[pad_h, pad_w], [stride_h, stride_w], [dilation_h, dilation_w]].iter().zip(values) {
        out[0].put(values[0])?;
        out[1].put(values[1])?;
    }
    Ok(())
}

pub fn miopenGetConvolutionNdDescriptor(
    conv: Obj<Convolution>,
    asked: i32,
    rank: Out<i32>,
    pads: Out<i32>,
    strides: Out<i32>,
    dilations: Out<i32>,
    mode: Out<i32>,
) -> Outcome {
    let conv = conv.get()?;
    let asked = usize::try_from(asked).map_err(|_| bad("a negative number of spatial dimensions"))?;
    if asked > conv.rank() {
        return Err(fail(status::UNKNOWN_ERROR, "more spatial dimensions asked than present"));
    }
    rank.put_if(conv.rank() as i32);
    mode.put_if(conv.mode);
    pads.put_all(conv.pads[..asked].iter().copied());
    strides.put_all(conv.strides[..asked].iter().copied());
    dilations.put_all(conv.dilations[..asked].iter().copied());
    Ok(())
}

/// Any number is taken, even a negative one; using it then fails.
pub fn miopenSetConvolutionGroupCount(mut conv: Obj<Convolution>, groups: i32) -> Outcome {
    conv.get_mut()?.groups = groups;
    Ok(())
}

pub fn miopenGetConvolutionGroupCount(conv: Obj<Convolution>, groups: Out<i32>) -> Outcome {
    groups.put(conv.get()?.groups)
}

/// No function sets it.
pub fn miopenGetConvolutionPaddingMode(conv: Obj<Convolution>, mode: Out<i32>) -> Outcome {
    conv.get()?;
    mode.put(padding_mode::DEFAULT)
}

pub fn miopenSetTransposeConvOutputPadding(mut conv: Obj<Convolution>, adjust_h: i32, adjust_w: i32) -> Outcome {
    let conv = conv.get_mut()?;
    conv.needs_rank(2)?;
    conv.output_pads = vec![adjust_h, adjust_w];
    Ok(())
}

pub fn miopenSetTransposeConvNdOutputPadding(mut conv: Obj<Convolution>, rank: i32, adjust: In<i32>) -> Outcome {
    let conv = conv.get_mut()?;
    conv.needs_rank(rank)?;
    conv.output_pads = adjust.read_all(conv.rank()).ok_or_else(|| bad("no output paddings"))?;
    Ok(())
}

pub fn miopenGetConvolutionForwardOutputDim(
    conv: Obj<Convolution>,
    x: Obj<Tensor>,
    w: Obj<Tensor>,
    n: Out<i32>,
    c: Out<i32>,
    h: Out<i32>,
    width: Out<i32>,
) -> Outcome {
    let conv = conv.get()?;
    conv.needs_rank(2)?;
    for (out, value) in [n, c, h, width].iter().zip(conv.output_dims(x.get()?, w.get()?)?) {
        out.put(value as i32)?;
    }
    Ok(())
}

pub fn miopenGetConvolutionNdForwardOutputDim(
    conv: Obj<Convolution>,
    x: Obj<Tensor>,
    w: Obj<Tensor>,
    rank: Out<i32>,
    dims: Out<i32>,
) -> Outcome {
    let found = conv.get()?.output_dims(x.get()?, w.get()?)?;
    rank.put(found.len() as i32)?;
    dims.put_all(found.into_iter().map(|d| d as i32));
    Ok(())
}

/// The values an attribute may have; none for attributes that version 3.5.1 does not have (the math type among them).
fn attribute_values(attribute: i32) -> Result<core::ops::RangeInclusive<i32>, Failure> {
    match attribute {
        convolution_attribute::FP16_ALT_IMPL => Ok(-1..=1),
        convolution_attribute::DETERMINISTIC | convolution_attribute::FP8_ROUNDING_MODE => Ok(0..=1),
        _ => Err(bad(format!("unknown attribute {attribute}"))),
    }
}

pub fn miopenSetConvolutionAttribute(mut conv: Obj<Convolution>, attribute: i32, value: i32) -> Outcome {
    let conv = conv.get_mut()?;
    if !attribute_values(attribute)?.contains(&value) {
        return Err(bad(format!("attribute {attribute} cannot be {value}")));
    }
    conv.attributes[attribute as usize] = value;
    Ok(())
}

pub fn miopenGetConvolutionAttribute(conv: Obj<Convolution>, attribute: i32, value: Out<i32>) -> Outcome {
    let conv = conv.get()?;
    attribute_values(attribute)?;
    value.put(conv.attributes[attribute as usize])
}

pub fn miopenSetConvolutionFindMode(mut conv: Obj<Convolution>, mode: i32) -> Outcome {
    let conv = conv.get_mut()?;
    if !convolution_find_mode::ALL.iter().any(|(_, value)| *value == mode) {
        return Err(bad(format!("{mode} is no find mode")));
    }
    conv.find_mode = mode;
    Ok(())
}

pub fn miopenGetConvolutionFindMode(conv: Obj<Convolution>, mode: Out<i32>) -> Outcome {
    mode.put(conv.get()?.find_mode)
}

pub fn miopenHiddenSetConvolutionFindMode(conv: Obj<Convolution>, mode: i32) -> Outcome {
    miopenSetConvolutionFindMode(conv, mode)
}

pub fn miopenHiddenGetConvolutionFindMode(conv: Obj<Convolution>, mode: Out<i32>) -> Outcome {
    miopenGetConvolutionFindMode(conv, mode)
}
