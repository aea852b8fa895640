//! The convolutions of ResNet-50 (v1.5: the stride is in the 3x3) at batch 1, as MIOpenDriver lines, derived from its architecture.

/// A form in which the layers are driven.
pub struct Form {
    /// For people.
    pub name: &'static str,
    base: &'static str,
    layout: &'static str,
}

/// Both forms.
pub const FORMS: [Form; 2] =
    [Form { name: "fp32 NCHW", base: "conv", layout: "NCHW" }, Form { name: "bf16 NHWC", base: "convbfp16", layout: "NHWC" }];

/// One convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// As frameworks call it.
    pub name: String,
    channels: u32,
    length: u32,
    filters: u32,
    window: u32,
    stride: u32,
}

impl Layer {
    fn new(name: String, channels: u32, length: u32, (filters, window, stride): (u32, u32, u32)) -> Self {
        Self { name, channels, length, filters, window, stride }
    }

    /// The shape for people: `64x56x56 -> 256, 1x1`.
    pub fn shape(&self) -> String {
        let Self { channels, length, filters, window, stride, .. } = self;
        let stride = if *stride > 1 { format!("/{stride}") } else { String::new() };
        format!("{channels}x{length}x{length} -> {filters}, {window}x{window}{stride}")
    }

    /// As a driver line.
    pub fn line(&self, form: &Form) -> String {
        let Self { channels, length, filters, window, stride, .. } = self;
        let (base, layout, pad) = (form.base, form.layout, window / 2);
        format!(
            "{base} -n 1 -c {channels} -H {length} -W {length} -k {filters} -y {window} -x {window} -p {pad} -q {pad} -u {stride} -v {stride} \
             -I {layout} -f {layout} -O {layout} -F 1"
        )
    }
}

/// All 53, in order.
pub fn layers() -> Vec<Layer> {
    let mut layers = vec![Layer::new("conv1".into(), 3, 224, (64, 7, 2))];
    let (mut channels, mut length) = (64, 56);
    for (stage, blocks) in [3, 4, 6, 3].into_iter().enumerate() {
        let width = 64 << stage;
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            layers.push(Layer::new(name("conv1"), channels, length, (width, 1, 1)));
            layers.push(Layer::new(name("conv2"), width, length, (width, 3, stride)));
            layers.push(Layer::new(name("conv3"), width, length / stride, (4 * width, 1, 1)));
            if block == 0 {
                layers.push(Layer::new(name("downsample"), channels, length, (4 * width, 1, stride)));
            }
            (channels, length) = (4 * width, length / stride);
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_are_those_of_the_network() {
        let layers = layers();
        assert_eq!(layers.len(), 53);
        let multiplications = |l: &Layer| {
            let output = u64::from(l.length / l.stride);
            u64::from(l.channels * l.window * l.window * l.filters) * output * output
        };
        // The published 4.1 billion multiply-adds, less the fully connected layer's two million.
        assert_eq!(layers.iter().map(multiplications).sum::<u64>(), 4_087_136_256);
        assert_eq!(
            layers[0].line(&FORMS[0]),
            "conv -n 1 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -I NCHW -f NCHW -O NCHW -F 1"
        );
        let last = layers.last().unwrap();
        assert_eq!((last.name.as_str(), last.shape().as_str()), ("layer4.2.conv3", "512x7x7 -> 2048, 1x1"));
    }
}
