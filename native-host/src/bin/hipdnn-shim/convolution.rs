//! From the flags of a line to a convolution: lengths, strides, pads, and what is impossible about them. The formulas are the driver's.
//! No parsing of words (see `flags`), nothing about how a convolution is run.

use hipdnn_host::{
    data_type::DataType,
    offline::problems::window::Window,
    problem::{
        ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, DescriptorError, OwnedConvolution, OwnedProblem,
        Scaling, TensorDescriptor, TensorLayout,
    },
};

use crate::{
    Usage,
    flags::{Base, Direction, Line},
};

/// A tensor as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub data_type: DataType,
    /// The type that elements are cast to.
    pub cast_type: Option<DataType>,
    /// Lengths in logical order N, C, spatial.
    pub dims: Vec<i64>,
    /// Distances in elements; along C, between vectors of channels.
    pub strides: Vec<i64>,
    /// Channels that lie side by side in a vector; 1 for ordinary layouts.
    pub vector: i64,
    /// The name of the layout.
    pub layout: &'static str,
}

impl Tensor {
    /// How many elements it has.
    pub fn elements(&self) -> i64 {
        self.dims.iter().product()
    }

    /// Elements from the first to the last, both included.
    pub fn extent(&self) -> i64 {
        let last: Vec<i64> = self.dims.iter().map(|dim| dim - 1).collect();
        1 + self.offset(&last)
    }

    /// Where an element is, in elements from the first. A shorter index is filled up with zeros.
    pub fn offset(&self, index: &[i64]) -> i64 {
        let along =
            |(axis, (i, stride)): (usize, (&i64, &i64))| if axis == 1 { i / self.vector * stride + i % self.vector } else { i * stride };
        index.iter().zip(&self.strides).enumerate().map(along).sum()
    }

    /// How MIOpen's descriptor calls a vectorised layout.
    pub fn vectorized_layout(&self) -> Option<TensorLayout> {
        match (self.vector, self.layout) {
            (4, "CHWN") => Some(TensorLayout::Chwnc4),
            (8, "CHWN") => Some(TensorLayout::Chwnc8),
            (4, _) => Some(TensorLayout::Nchwc4),
            (8, _) => Some(TensorLayout::Nchwc8),
            _ => None,
        }
    }

    /// The tensor as a recorded descriptor: channels count in vectors, and a batch behind them stands there.
    fn descriptor(&self) -> Result<TensorDescriptor, DescriptorError> {
        let (mut dims, mut strides) = (self.dims.clone(), self.strides.clone());
        dims[1] /= self.vector;
        let layout = self.vectorized_layout();
        if matches!(layout, Some(TensorLayout::Chwnc4 | TensorLayout::Chwnc8)) {
            dims.rotate_left(1);
            strides.rotate_left(1);
        }
        TensorDescriptor::new(self.data_type, self.cast_type, &dims, &strides, self.vector as u32, layout)
    }
}

/// A convolution. The lists have one entry for each spatial dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Transposed, or not.
    pub transposed: bool,
    /// Groups.
    pub groups: i64,
    /// Input.
    pub x: Tensor,
    /// Filter.
    pub w: Tensor,
    /// Output.
    pub y: Tensor,
    /// Zero pads.
    pub pads: Vec<i64>,
    /// Distances between windows.
    pub strides: Vec<i64>,
    /// Distances between elements of a window.
    pub dilations: Vec<i64>,
    /// Output pads; zeros unless transposed.
    pub output_pads: Vec<i64>,
    /// Attributes by MIOpen's number. Lines have none.
    pub attributes: Vec<(u32, i64)>,
    /// Scale of the result, and of the old contents of the output. Lines have 1 and 0.
    pub scaling: Scaling,
}

/// Layouts by name: how many spatial dimensions, and the letters of the axes from the slowest to the fastest.
const LAYOUTS: &[(&str, usize)] = &[("NCHW", 2), ("NHWC", 2), ("CHWN", 2), ("NCDHW", 3), ("NDHWC", 3)];
/// MIOpen's descriptors hold 32-bit lengths and strides; tensors may have more elements.
const MAX_STRIDE: i64 = i32::MAX as i64;

impl Convolution {
    /// Reads the problem that a line describes.
    pub fn from_line(line: &Line) -> Result<Self, Usage> {
        let spatial = match line.integer("spatial_dim") {
            2 => 2,
            3 => 3,
            other => return Err(Usage(format!("spatial_dim {other}: 2 or 3"))),
        };
        let read = Reader { line, spatial };
        let transposed = match line.text("mode") {
            "conv" => false,
            "trans" => true,
            other => return Err(Usage(format!("mode {other}: conv or trans"))),
        };
        let (channels, outputs) = (read.positive("in_channels")?, read.positive("out_channels")?);
        let groups = read.groups(channels, outputs)?;
        let input = read.each("in_", 1)?;
        let filter = read.each("fil_", 1)?;
        let strides = read.each("conv_stride_", 1)?;
        let dilations = read.each("dilation_", 1)?;
        let pads = read.pads(&input, &filter, &strides, &dilations, transposed)?;
        let output_pads = if transposed { read.each("trans_output_pad_", 0)? } else { vec![0; spatial] };
        let window = Window { filter: &filter, strides: &strides, dilations: &dilations, pads: &pads, output_pads: &output_pads };
        let output = window.output(&input, transposed).map_err(|misfit| Usage(misfit.to_string()))?;
        let types = types(line)?;
        let (lead, rest) = if transposed { (channels, outputs) } else { (outputs, channels) };
        let vector = vector_length(line)?;
        let tensor = |flag: &str, position: usize, lead: i64, second: i64, spatial_dims: &[i64]| {
            let dims: Vec<i64> = [lead, second].iter().chain(spatial_dims).copied().collect();
            let (layout, strides) = strides_of(line.text(flag), spatial, &dims, vector)?;
            Ok(Tensor { data_type: types[position].0, cast_type: types[position].1, dims, strides, vector, layout })
        };
        let batch = read.positive("batchsize")?;
        Ok(Self {
            transposed,
            groups,
            x: tensor("in_layout", 0, batch, channels, &input)?,
            w: tensor("fil_layout", 1, lead, rest / groups, &filter)?,
            y: tensor("out_layout", 2, batch, outputs, &output)?,
            pads,
            strides,
            dilations,
            output_pads,
            attributes: vec![],
            scaling: Scaling::NONE,
        })
    }

    /// Multiplications of the forward direction if no tap falls on padding.
    pub fn multiplications(&self) -> u64 {
        let window: i64 = self.w.dims[2..].iter().product();
        let places = if self.transposed { &self.x } else { &self.y };
        (places.elements() as u64).saturating_mul((window * self.w.dims[1]) as u64)
    }

    /// The tensors as recorded descriptors, in the order x, w, y.
    pub fn tensor_descriptors(&self) -> Result<[TensorDescriptor; 3], DescriptorError> {
        Ok([self.x.descriptor()?, self.w.descriptor()?, self.y.descriptor()?])
    }

    /// One direction of it as a recorded problem. No algorithm: only Find, at run time, names one.
    pub fn problem(&self, direction: Direction) -> Result<OwnedProblem, DescriptorError> {
        let direction = match direction {
            Direction::Forward => ConvolutionDirection::Forward,
            Direction::BackwardData => ConvolutionDirection::BackwardData,
            Direction::BackwardWeights => ConvolutionDirection::BackwardWeights,
        };
        let (convolution, [x, w, y]) = (self.descriptor()?, self.tensor_descriptors()?);
        let Scaling { alpha, beta } = self.scaling;
        Ok(OwnedProblem::Convolution(Box::new(OwnedConvolution { direction, convolution, x, w, y, alpha, beta, algorithm: None })))
    }

    /// The convolution as a recorded descriptor.
    pub fn descriptor(&self) -> Result<ConvolutionDescriptor, DescriptorError> {
        ConvolutionDescriptor::new(ConvolutionFields {
            mode: if self.transposed { ConvolutionMode::Transpose } else { ConvolutionMode::Convolution },
            pads: self.pads.clone(),
            strides: self.strides.clone(),
            dilations: self.dilations.clone(),
            output_pads: self.output_pads.clone(),
            group_count: self.groups,
            attributes: self.attributes.clone(),
        })
    }
}

/// Flags that come once for each spatial dimension, and checks of single values.
struct Reader<'a> {
    line: &'a Line,
    spatial: usize,
}

impl Reader<'_> {
    fn at_least(&self, flag: &str, least: i64) -> Result<i64, Usage> {
        let value = self.line.integer(flag);
        if value < least { Err(Usage(format!("{flag} is {value}, but must be at least {least}"))) } else { Ok(value) }
    }

    fn positive(&self, flag: &str) -> Result<i64, Usage> {
        self.at_least(flag, 1)
    }

    /// The values of a flag that ends in d, h or w; depth only with three dimensions.
    fn each(&self, prefix: &str, least: i64) -> Result<Vec<i64>, Usage> {
        let axes = &["d", "h", "w"][3 - self.spatial..];
        axes.iter().map(|axis| self.at_least(&format!("{prefix}{axis}"), least)).collect()
    }

    fn groups(&self, channels: i64, outputs: i64) -> Result<i64, Usage> {
        let groups = self.positive("group_count")?;
        if channels % groups != 0 || outputs % groups != 0 {
            return Err(Usage(format!("{groups} groups do not divide {channels} input and {outputs} output channels")));
        }
        Ok(groups)
    }

    /// The pads, as the pad mode rewrites them: only for ordinary convolutions with dilations of 1 or 1x1 filters.
    fn pads(&self, input: &[i64], filter: &[i64], strides: &[i64], dilations: &[i64], transposed: bool) -> Result<Vec<i64>, Usage> {
        let given = self.each("pad_", 0)?;
        let mode = self.line.text("pad_mode");
        let ones = |values: &[i64]| values.iter().all(|v| *v == 1);
        let rewrites = !transposed && (ones(dilations) || ones(filter));
        match mode {
            "same" if rewrites => Ok((0..self.spatial).map(|i| same_pad(input[i], filter[i], strides[i])).collect()),
            "valid" if rewrites => Ok(vec![0; self.spatial]),
            "default" | "same" | "valid" => Ok(given),
            other => Err(Usage(format!("pad_mode {other}: same, valid or default"))),
        }
    }
}

/// Half of what the windows lack, so that there are as many as strides fit into the input.
fn same_pad(input: i64, filter: i64, stride: i64) -> i64 {
    let covered = if input % stride == 0 { stride } else { input % stride };
    (filter - covered).max(0) / 2
}

/// Element and cast types of x, w and y.
fn types(line: &Line) -> Result<[(DataType, Option<DataType>); 3], Usage> {
    let (input, output) = match line.base {
        Base::Conv => (DataType::Float, DataType::Float),
        Base::ConvFp16 => (DataType::Half, DataType::Half),
        Base::ConvBfp16 => (DataType::BFloat16, DataType::BFloat16),
        Base::ConvInt8 => (DataType::Int8, DataType::Int32),
    };
    let cast = |flag: &str| match line.text(flag) {
        "-1" => Ok(None),
        "fp32" => Ok(Some(DataType::Float)),
        "fp16" => Ok(Some(DataType::Half)),
        "bf16" => Ok(Some(DataType::BFloat16)),
        "fp8" => Ok(Some(DataType::Float8E4M3Fnuz)),
        "bf8" => Ok(Some(DataType::Float8E5M2Fnuz)),
        other => Err(Usage(format!("{flag} {other}: fp32, fp16, bf16, fp8 or bf8"))),
    };
    Ok([(input, cast("in_cast_type")?), (input, cast("wei_cast_type")?), (output, cast("out_cast_type")?)])
}

fn vector_length(line: &Line) -> Result<i64, Usage> {
    match (line.integer("tensor_vect"), line.integer("vector_length")) {
        (0, 1) => Ok(1),
        (1, length @ (4 | 8)) => Ok(length),
        (vectors, length) => Err(Usage(format!("tensor_vect {vectors} with vector_length {length}: 0 with 1, or 1 with 4 or 8"))),
    }
}

/// The name of a layout and the strides that it gives a packed tensor.
fn strides_of(name: &str, spatial: usize, dims: &[i64], vector: i64) -> Result<(&'static str, Vec<i64>), Usage> {
    let name = if name.is_empty() { ["NCHW", "NCDHW"][spatial - 2] } else { name };
    let known = LAYOUTS.iter().find(|(known, rank)| *known == name && *rank == spatial);
    let Some((layout, _)) = known else {
        let choices: Vec<&str> = LAYOUTS.iter().filter(|(_, rank)| *rank == spatial).map(|(known, _)| *known).collect();
        return Err(Usage(format!("layout {name}: with {spatial} spatial dimensions one of {}", choices.join(", "))));
    };
    let vectorizable = spatial == 2 && matches!(*layout, "NCHW" | "CHWN");
    if vector > 1 && (!vectorizable || dims[1] % vector != 0) {
        let channels = dims[1];
        return Err(Usage(format!(
            "layout {layout} with {channels} channels has no vectors of {vector}: NCHW or CHWN, channels a multiple"
        )));
    }
    let logical = &"NCDHW".replace(if spatial == 2 { "D" } else { "" }, "");
    let mut strides = vec![0; dims.len()];
    let mut next = vector;
    for letter in layout.chars().rev() {
        let axis = logical.find(letter).unwrap_or(0);
        strides[axis] = next;
        if next > MAX_STRIDE || dims[axis] > MAX_STRIDE {
            return Err(Usage(format!(
                "a tensor of lengths {dims:?} has lengths or strides beyond the {MAX_STRIDE} that MIOpen's descriptors hold"
            )));
        }
        // Both are below 2^31, so this cannot overflow; the outermost product is no stride.
        next *= if axis == 1 { dims[axis] / vector } else { dims[axis] };
    }
    Ok((layout, strides))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    fn convolution(line: &str) -> Result<Convolution, Usage> {
        Convolution::from_line(&parse(line).unwrap())
    }

    fn error(line: &str) -> String {
        convolution(line).unwrap_err().0
    }

    #[test]
    fn the_default_line() {
        let c = convolution("conv").unwrap();
        assert_eq!((&c.x.dims[..], &c.w.dims[..], &c.y.dims[..]), (&[100, 3, 32, 32][..], &[32, 3, 3, 3][..], &[100, 32, 30, 30][..]));
        assert_eq!(c.x.strides, [3072, 1024, 32, 1]);
        assert_eq!(c.multiplications(), 100 * 32 * 30 * 30 * 27);
    }

    #[test]
    fn same_and_valid_rewrite_pads() {
        let pads = |line: &str| convolution(line).map(|c| c.pads).unwrap();
        assert_eq!(pads("conv -z same -p 7"), [1, 1]);
        // 7 % 2 = 1, so the last window covers 1: (5 - 1) / 2; 8 is a multiple of 2: (5 - 2) / 2.
        assert_eq!(pads("conv -z same -H 7 -W 8 -y 5 -x 5 -u 2 -v 2"), [2, 1]);
        assert_eq!(pads("conv -z valid -p 2 -q 2"), [0, 0]);
        assert_eq!(pads("conv -z same -p 2 -q 1 -l 2"), [2, 1]);
        assert_eq!(pads("conv -z valid -p 2 -q 1 -y 1 -x 1 -l 2 -j 2"), [0, 0]);
        assert_eq!(pads("conv -z same -m trans -p 1 -q 1"), [1, 1]);
    }

    #[test]
    fn transposed_shapes() {
        let c = convolution("conv -m trans -n 2 -c 4 -k 6 -g 2 -H 5 -W 5 -u 2 -v 2 -p 1 -q 1 -Y 1 -X 0 -l 2").unwrap();
        assert_eq!(c.w.dims, [4, 3, 3, 3]);
        // 2·(5 - 1) + 1 + 2·(3 - 1) - 2 + 1, and 2·(5 - 1) + 1 + (3 - 1) - 2 + 0
        assert_eq!(c.y.dims, [2, 6, 12, 9]);
        assert_eq!(c.output_pads, [1, 0]);
        assert!(error("conv -m trans -Y 1").contains("below the stride"));
        assert_eq!(convolution("conv -m trans -n 1 -c 1 -k 1 -H 1 -W 4 -p 2").unwrap().y.dims, [1, 1, 1, 6]);
    }

    #[test]
    fn three_dimensions_and_layouts() {
        let c = convolution("convbfp16 -_ 3 -n 2 -c 4 -! 3 -H 5 -W 6 --in_layout ndhwc -k 8 -@ 1 -# 2").unwrap();
        assert_eq!((&c.x.dims[..], &c.x.strides[..]), (&[2, 4, 3, 5, 6][..], &[360, 1, 120, 24, 4][..]));
        assert_eq!((&c.w.dims[..], c.w.layout), (&[8, 4, 1, 3, 3][..], "NCDHW"));
        assert_eq!(c.y.dims, [2, 8, 2, 3, 4]);
        assert_eq!(convolution("conv -f CHWN -k 5").unwrap().w.strides, [1, 45, 15, 5]);
        assert!(error("conv -I NDHWC").contains("NCHW, NHWC, CHWN"));
        assert!(error("conv -I nhwc").contains("layout nhwc"));
    }

    #[test]
    fn vectors_of_channels() {
        let c = convolution("convfp16 -Z 1 -L 4 -n 2 -c 8 -k 16 -H 5 -W 6 -f CHWN").unwrap();
        // N, C/4, H, W, and four channels side by side.
        assert_eq!((&c.x.strides[..], c.x.extent()), (&[240, 120, 24, 4][..], 480));
        assert_eq!(c.x.offset(&[1, 6, 2, 3]), 240 + 120 + 48 + 12 + 2);
        // C/4, H, W, N, and four channels.
        assert_eq!((&c.w.strides[..], c.w.extent()), (&[4, 576, 192, 64][..], 1152));
        let [x, w, _] = c.tensor_descriptors().unwrap();
        assert_eq!((x.dims(), w.dims()), (&[2, 2, 5, 6][..], &[2, 3, 3, 16][..]));
    }

    #[test]
    fn types_follow_the_base() {
        let c = convolution("convint8 -c 4").unwrap();
        assert_eq!((c.x.data_type, c.w.data_type, c.y.data_type), (DataType::Int8, DataType::Int8, DataType::Int32));
        assert_eq!(convolution("conv -U fp8").unwrap().x.cast_type, Some(DataType::Float8E4M3Fnuz));
    }

    #[test]
    fn impossible_shapes() {
        assert!(error("conv -c 6 -k 8 -g 4").contains("4 groups do not divide 6"));
        assert!(error("conv -H 2").contains("reaches over 3 elements, but the padded input has 2"));
        assert!(error("conv -n 0").contains("batchsize is 0"));
        assert!(error("conv -k -1").contains("at least 1"));
        assert!(error("conv -p -1").contains("at least 0"));
        assert!(error("conv -u 0").contains("conv_stride_h"));
        assert!(error("conv -g 0").contains("group_count"));
        assert!(error("conv -_ 1").contains("2 or 3"));
        assert!(error("conv -m both").contains("conv or trans"));
        assert!(error("conv -z full").contains("pad_mode full"));
        assert!(error("conv -c 65536 -H 65536").contains("strides beyond"));
        assert!(error("conv -m trans -H 2147483647 -u 2147483647 -n 1 -c 1 -W 1 -k 1 -y 1 -x 1").contains("lengths"));
        assert_eq!(convolution("conv -n 65536 -c 65536").unwrap().x.elements(), 1 << 42);
        assert!(error("conv -Z 1").contains("vector_length 1"));
        assert!(error("conv -Z 1 -L 4").contains("layout NCHW with 3 channels"));
        assert!(error("conv -Z 1 -L 4 -c 4 -k 4 -I NHWC").contains("layout NHWC"));
    }
}
