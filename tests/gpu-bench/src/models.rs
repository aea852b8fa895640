//! The convolutions of models, as problems.

#[allow(dead_code, reason = "the demo shows more of the layers than their lines")]
#[path = "../../xtask/src/resnet.rs"]
mod resnet;

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use field_cases::problem::{Kind, Problem};

/// A model in one form.
pub struct Model {
    /// For figures: `resnet50.fp32`.
    pub name: String,
    /// In order.
    pub layers: Vec<Problem>,
}

/// Element types with the layouts that models are driven in.
const FORMS: [(&str, Kind, bool); 2] = [("fp32", Kind::Float, false), ("fp16_nhwc", Kind::Half, true)];

/// ResNet-50 and U-Net, in both forms.
pub fn all(batch: usize) -> Result<Vec<Model>> {
    let lines: Vec<String> = resnet::layers().iter().map(|layer| layer.line(&resnet::FORMS[0])).collect();
    let resnet = lines.iter().map(|line| of_line(line)).collect::<Result<Vec<_>>>()?;
    let models = [("resnet50", resnet), ("unet", unet())];
    Ok(FORMS.iter().flat_map(|form| models.iter().map(move |(name, shapes)| model(name, shapes, *form, batch))).collect())
}

/// ResNet-50 in floats, as processes start with it.
pub fn first(batch: usize) -> Result<Model> {
    all(batch)?.into_iter().next().context("a model")
}

/// Channels, length, filters, window, stride; images are square and padded so that windows fit.
#[derive(Clone, Copy)]
struct Shape {
    channels: usize,
    length: usize,
    filters: usize,
    window: usize,
    stride: usize,
}

fn model(name: &str, shapes: &[Shape], (form, kind, channels_last): (&str, Kind, bool), batch: usize) -> Model {
    let problem = |shape: &Shape| {
        let Shape { channels, length, filters, window, stride } = *shape;
        let problem = Problem::new(kind, &[batch, channels, length, length], &[filters, channels, window, window]);
        let problem = problem.pads(&[window / 2]).strides(&[stride]);
        if channels_last { problem.channels_last() } else { problem }
    };
    Model { name: format!("{name}.{form}"), layers: shapes.iter().map(problem).collect() }
}

/// What a MIOpenDriver line of a square image says.
fn of_line(line: &str) -> Result<Shape> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let flags: HashMap<&str, &str> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let number = |flag: &str| -> Result<usize> { Ok(flags.get(flag).with_context(|| format!("no {flag} in {line}"))?.parse()?) };
    Ok(Shape { channels: number("-c")?, length: number("-H")?, filters: number("-k")?, window: number("-y")?, stride: number("-u")? })
}

/// The 3 × 3 and 1 × 1 convolutions of U-Net, padded, on images of 256 × 256 (its up-convolutions are transposed and not here).
fn unet() -> Vec<Shape> {
    let three = |channels, length, filters| Shape { channels, length, filters, window: 3, stride: 1 };
    let mut shapes = Vec::new();
    let widths = [64, 128, 256, 512, 1024];
    let mut channels = 3;
    for (level, width) in widths.into_iter().enumerate() {
        shapes.extend([three(channels, 256 >> level, width), three(width, 256 >> level, width)]);
        channels = width;
    }
    for (level, width) in widths.into_iter().enumerate().take(4).rev() {
        shapes.extend([three(2 * width, 256 >> level, width), three(width, 256 >> level, width)]);
    }
    shapes.push(Shape { channels: 64, length: 256, filters: 2, window: 1, stride: 1 });
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_their_layers() {
        let models = all(2).unwrap();
        let counted: Vec<_> = models.iter().map(|model| (model.name.as_str(), model.layers.len())).collect();
        assert_eq!(counted, [("resnet50.fp32", 53), ("unet.fp32", 19), ("resnet50.fp16_nhwc", 53), ("unet.fp16_nhwc", 19)]);
        let first = &models[0].layers[0];
        assert_eq!((first.x.dims.as_slice(), first.y.dims.as_slice()), ([2, 3, 224, 224].as_slice(), [2, 64, 112, 112].as_slice()));
        let last = models[3].layers.last().unwrap();
        assert_eq!((last.y.dims.as_slice(), last.y.strides[1]), ([2, 2, 256, 256].as_slice(), 1));
    }
}
