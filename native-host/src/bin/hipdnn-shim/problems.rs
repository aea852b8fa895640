//! Recorded problems as something that can be driven: what a process asked for, with any strides, attributes and scalars, in the terms in
//! which lines are driven. What cannot be driven is said; it can be translated all the same.

use hipdnn_host::{
    data_type::DataType,
    offline::problems::window::Window,
    problem::{
        ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, OwnedConvolution, OwnedProblem, TensorDescriptor,
    },
};

use crate::{
    Usage,
    convolution::{Convolution, Tensor},
    flags::{Base, Direction, Line},
};

/// MIOpen's descriptors hold 32-bit numbers.
const MAX: i64 = i32::MAX as i64;

/// A recorded problem, ready to be driven.
#[derive(Debug)]
pub struct Drivable {
    /// How it is run.
    pub line: Line,
    /// What it is.
    pub convolution: Convolution,
    /// Which of its tensors is computed.
    pub direction: Direction,
}

/// The name of a recorded problem in records: of its JSON form, which holds all of it.
pub fn id(problem: &OwnedProblem) -> String {
    hash(&serde_json::to_string(problem).unwrap_or_default())
}

/// A short name for a text.
pub fn hash(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// The same problem in the mode that says what it computes: modes for groups only repeat that there are groups. Native may see that
/// otherwise, so what is driven keeps its mode.
pub fn ordinary(recorded: &OwnedConvolution) -> OwnedProblem {
    let mut ordinary = recorded.clone();
    let mut fields: ConvolutionFields = recorded.convolution.fields().clone();
    if matches!(fields.mode, ConvolutionMode::GroupConv | ConvolutionMode::Depthwise) {
        fields.mode = ConvolutionMode::Convolution;
    }
    if let Ok(convolution) = ConvolutionDescriptor::new(fields) {
        ordinary.convolution = convolution;
    }
    OwnedProblem::Convolution(Box::new(ordinary))
}

/// The driver line that says exactly this problem, if one does.
pub fn driver_line(problem: &OwnedProblem) -> Option<String> {
    let OwnedProblem::Convolution(recorded) = problem else { return None };
    let Drivable { line, convolution: c, direction } = Drivable::of(problem).ok()?;
    let spatial = c.pads.len();
    let axes = ["d", "h", "w"].get(3usize.checked_sub(spatial)?..)?;
    let mut words = format!("{} --spatial_dim {spatial} --forw {} --batchsize {}", line.base.name(), direction.bit(), c.x.dims[0]);
    let mut say = |flag: &str, value: &dyn std::fmt::Display| words += &format!(" --{flag} {value}");
    say("in_channels", &c.x.dims[1]);
    say("out_channels", &c.y.dims[1]);
    say("group_count", &c.groups);
    say("mode", &if c.transposed { "trans" } else { "conv" });
    let lists = [
        ("in_", &c.x.dims[2..]),
        ("fil_", &c.w.dims[2..]),
        ("pad_", &c.pads[..]),
        ("conv_stride_", &c.strides[..]),
        ("dilation_", &c.dilations[..]),
        ("trans_output_pad_", &c.output_pads[..]),
    ];
    for (prefix, list) in lists {
        axes.iter().zip(list).for_each(|(axis, value)| say(&format!("{prefix}{axis}"), value));
    }
    // Layouts that a line can name: the first is its own.
    let layouts = if spatial == 2 { ["NCHW", "NHWC", "CHWN"].as_slice() } else { &["NCDHW", "NDHWC"] };
    let choices =
        |words: Vec<String>, flag: &str| layouts.iter().map(|layout| format!("{} --{flag} {layout}", words.join(" "))).collect::<Vec<_>>();
    let mut lines = vec![words];
    for flag in ["in_layout", "fil_layout", "out_layout"] {
        lines = lines.into_iter().flat_map(|line| choices(vec![line], flag)).collect();
    }
    let wanted = OwnedConvolution { algorithm: None, ..(**recorded).clone() };
    let says = |line: &String| {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let parsed = Line::parse(&words).ok()?;
        let problem = Convolution::from_line(&parsed).ok()?.problem(direction).ok()?;
        (problem == OwnedProblem::Convolution(Box::new(wanted.clone()))).then_some(())
    };
    lines.into_iter().find(|line| says(line).is_some())
}

impl Drivable {
    /// Of a problem; an error says why it can only be translated.
    pub fn of(problem: &OwnedProblem) -> Result<Self, Usage> {
        let OwnedProblem::Convolution(recorded) = problem else {
            return Err(Usage("a fused chain is only translated, not driven".into()));
        };
        let base = base(recorded)?;
        let direction = match recorded.direction {
            ConvolutionDirection::Forward => Direction::Forward,
            ConvolutionDirection::BackwardData => Direction::BackwardData,
            ConvolutionDirection::BackwardWeights => Direction::BackwardWeights,
        };
        let convolution = convolution(recorded)?;
        let result = [&convolution.x, &convolution.w, &convolution.y][crate::libraries::calls(direction).result()];
        if !is_injective(result) {
            return Err(Usage("its output has two elements at one address".into()));
        }
        let words = [base.name(), "--forw", &direction.bit().to_string(), "--iter", "1", "--verify", "1"].map(String::from);
        let mut line = Line::parse(&words)?;
        line.command = problem.to_string();
        Ok(Self { line, convolution, direction })
    }
}

/// The word of the driver for the types of a problem.
fn base(recorded: &OwnedConvolution) -> Result<Base, Usage> {
    match [&recorded.x, &recorded.w, &recorded.y].map(TensorDescriptor::data_type) {
        [DataType::Float, DataType::Float, DataType::Float] => Ok(Base::Conv),
        [DataType::Half, DataType::Half, DataType::Half] => Ok(Base::ConvFp16),
        [DataType::BFloat16, DataType::BFloat16, DataType::BFloat16] => Ok(Base::ConvBfp16),
        [DataType::Int8, DataType::Int8, DataType::Int32] => Ok(Base::ConvInt8),
        types => Err(Usage(format!("tensors of types {types:?} are only translated, not driven"))),
    }
}

fn convolution(recorded: &OwnedConvolution) -> Result<Convolution, Usage> {
    let fields = recorded.convolution.fields();
    let transposed = match fields.mode {
        ConvolutionMode::Convolution => false,
        ConvolutionMode::Transpose => true,
        mode => return Err(Usage(format!("convolutions of mode {mode:?} are only translated, not driven"))),
    };
    let scaling = hipdnn_host::problem::Scaling { alpha: recorded.alpha, beta: recorded.beta };
    if !scaling.alpha.is_finite() || !scaling.beta.is_finite() {
        return Err(Usage("with scalars that are no finite numbers nothing can be verified".into()));
    }
    let (x, w, y) = (tensor("x", &recorded.x)?, tensor("w", &recorded.w)?, tensor("y", &recorded.y)?);
    let spatial = x.dims.len().saturating_sub(2);
    let lists = [&fields.pads, &fields.strides, &fields.dilations, &fields.output_pads];
    if spatial == 0 || w.dims.len() != x.dims.len() || y.dims.len() != x.dims.len() || lists.iter().any(|list| list.len() != spatial) {
        return Err(Usage("its tensors and its convolution have different numbers of dimensions".into()));
    }
    let in_range = |list: &[i64], least: i64| list.iter().all(|value| (least..=MAX).contains(value));
    let steps = in_range(&fields.strides, 1) && in_range(&fields.dilations, 1);
    if !steps || !in_range(&fields.pads, 0) || !in_range(&fields.output_pads, 0) || !(1..=MAX).contains(&fields.group_count) {
        return Err(Usage("native refuses such pads, strides, dilations or groups".into()));
    }
    let convolution = Convolution {
        transposed,
        groups: fields.group_count,
        x,
        w,
        y,
        pads: fields.pads.clone(),
        strides: fields.strides.clone(),
        dilations: fields.dilations.clone(),
        output_pads: fields.output_pads.clone(),
        attributes: fields.attributes.clone(),
        scaling,
    };
    if belongs_together(&convolution) { Ok(convolution) } else { Err(Usage("its lengths do not belong together".into())) }
}

/// A tensor of a recorded problem; an error says why it can only be translated.
pub fn tensor(name: &str, recorded: &TensorDescriptor) -> Result<Tensor, Usage> {
    if recorded.vector_length() != 1 {
        return Err(Usage(format!("{name} has vectors of channels: such tensors are only translated, not driven")));
    }
    let is_int = |least: i64, value: &i64| (least..=MAX).contains(value);
    if !recorded.dims().iter().all(|dim| is_int(1, dim)) || !recorded.strides().iter().all(|stride| is_int(0, stride)) {
        return Err(Usage(format!("{name} has lengths or strides that MIOpen's descriptors do not hold")));
    }
    recorded.extent_bytes().ok_or_else(|| Usage(format!("the size of {name} cannot be computed")))?;
    Ok(Tensor {
        data_type: recorded.data_type(),
        cast_type: recorded.cast_type(),
        dims: recorded.dims().to_vec(),
        strides: recorded.strides().to_vec(),
        vector: 1,
        layout: "strided",
    })
}

/// Whether the lengths are those of a convolution.
fn belongs_together(c: &Convolution) -> bool {
    let (x, w, y) = (&c.x.dims, &c.w.dims, &c.y.dims);
    let (leading, inner) = if c.transposed { (x[1], y[1]) } else { (y[1], x[1]) };
    let channels = w[0] == leading && w[1].checked_mul(c.groups) == Some(inner) && leading % c.groups == 0;
    let window = Window { filter: &w[2..], strides: &c.strides, dilations: &c.dilations, pads: &c.pads, output_pads: &c.output_pads };
    x[0] == y[0] && channels && window.output(&x[2..], c.transposed).is_ok_and(|output| output == y[2..])
}

/// Whether every element has an address of its own. Some odd ones that do are not seen to.
fn is_injective(tensor: &Tensor) -> bool {
    let mut axes: Vec<(i64, i64)> = tensor.strides.iter().copied().zip(tensor.dims.iter().copied()).filter(|(_, dim)| *dim > 1).collect();
    axes.sort_unstable();
    let mut reach = 0i64;
    axes.into_iter().all(|(stride, dim)| {
        let apart = stride > reach;
        reach = stride.saturating_mul(dim - 1).saturating_add(reach);
        apart
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn tensor(dims: &[i64], strides: &[i64]) -> TensorDescriptor {
        TensorDescriptor::new(DataType::Float, None, dims, strides, 1, None).unwrap()
    }

    /// 1-D, strided, scaled, with an attribute: nothing that a line can say.
    pub fn odd() -> OwnedConvolution {
        let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1], vec![2], vec![1]);
        OwnedConvolution {
            direction: ConvolutionDirection::Forward,
            convolution: ConvolutionDescriptor::new(ConvolutionFields { attributes: vec![(0, 1)], ..fields }).unwrap(),
            x: tensor(&[2, 4, 9], &[50, 12, 1]),
            w: tensor(&[6, 4, 3], &[12, 3, 1]),
            y: tensor(&[2, 6, 5], &[60, 1, 8]),
            alpha: 2.0,
            beta: 0.5,
            algorithm: Some(1),
        }
    }

    fn why(change: impl FnOnce(&mut OwnedConvolution)) -> String {
        let mut problem = odd();
        change(&mut problem);
        Drivable::of(&OwnedProblem::Convolution(Box::new(problem))).map(|_| ()).unwrap_err().0
    }

    #[test]
    fn what_no_line_says_can_be_driven() {
        let problem = OwnedProblem::Convolution(Box::new(odd()));
        let drivable = Drivable::of(&problem).unwrap();
        let c = &drivable.convolution;
        assert_eq!((&c.y.strides[..], &c.attributes[..], c.scaling.beta), (&[60, 1, 8][..], &[(0, 1)][..], 0.5));
        // What is driven is what was recorded.
        assert_eq!(c.descriptor().unwrap(), odd().convolution);
        assert_eq!(c.tensor_descriptors().unwrap(), [odd().x, odd().w, odd().y]);
        assert_eq!(drivable.line.command, problem.to_string());
        assert_eq!(drivable.line.directions().unwrap(), [Direction::Forward]);
    }

    #[test]
    fn what_cannot_be_driven_is_said() {
        assert!(why(|p| p.y = tensor(&[2, 6, 5], &[30, 1, 1])).contains("one address"));
        assert!(why(|p| p.y = tensor(&[2, 6, 4], &[24, 4, 1])).contains("belong together"));
        assert!(why(|p| p.w = tensor(&[6, 4, 3, 1], &[12, 3, 1, 1])).contains("numbers of dimensions"));
        assert!(why(|p| p.x = TensorDescriptor::new(DataType::Double, None, &[2, 4, 9], &[36, 9, 1], 1, None).unwrap()).contains("types"));
        assert!(why(|p| p.x = TensorDescriptor::new(DataType::Float, None, &[2, 1, 9], &[36, 9, 1], 4, None).unwrap()).contains("vectors"));
        assert!(why(|p| p.alpha = f64::NAN).contains("finite"));
        assert!(why(|p| p.x = tensor(&[2, 4, 9], &[1 << 40, 9, 1])).contains("do not hold"));
    }

    #[test]
    fn lines_are_found_for_what_lines_can_say() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            Convolution::from_line(&Line::parse(&words).unwrap()).unwrap().problem(Direction::BackwardData).unwrap()
        };
        for line in ["conv -n 2", "convfp16 -c 8 -k 4 -g 2 -I NHWC -O CHWN -m trans -u 2 -Y 1", "convbfp16 -_ 3 -@ 1 -f NDHWC -^ 2"] {
            let problem = of(line);
            assert_eq!(of(&driver_line(&problem).unwrap()), problem, "{line}");
        }
        assert_eq!(driver_line(&OwnedProblem::Convolution(Box::new(odd()))), None);
    }

    #[test]
    fn ids_tell_problems_apart() {
        let id = |p: OwnedConvolution| super::id(&OwnedProblem::Convolution(Box::new(p)));
        assert_eq!(id(odd()), id(odd()));
        assert_ne!(id(odd()), id(OwnedConvolution { beta: 0.25, ..odd() }));
    }
}
