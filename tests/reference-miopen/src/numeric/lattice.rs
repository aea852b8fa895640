//! Blocks of images in double precision, laid out so that each tap of the filter connects the small grid with one shifted view of the
//! large one. Only places and copies; nothing is multiplied here.
//!
//! Along an axis, place `o` of the small grid meets position `o * stride + tap * dilation` of the padded large grid. With positions
//! sorted by their remainder (their *phase*) modulo the stride, that is place `o + shift` of phase `p`, where `p` and `shift` belong to
//! the tap. So each phase is a grid of its own, a little longer than the small grid, and if the rows of the small grid are spaced as those
//! of a phase are, a tap is one offset for all places at once. Phases that no tap meets are left out; padding is zeros.
//!
//! Indices: the large block is `[channel][phase][image][depth][height][width]`, the small block `[channel][image][depth][height][width]`
//! with the spacing of a phase; its extra places hold nothing of meaning, or zeros where that matters.

use super::format::Scale;
use super::tensor::Tensor;

/// How a convolution moves along one axis.
#[derive(Clone, Copy)]
pub struct Step {
    pub pad: usize,
    pub stride: usize,
    pub dilation: usize,
}

/// One axis.
struct Axis {
    /// The phases that taps meet, ascending.
    phases: Vec<usize>,
    /// Places of each phase.
    length: usize,
    /// Per tap, which of the phases, and the shift.
    taps: Vec<(usize, usize)>,
    step: Step,
}

impl Axis {
    fn new(step: Step, small: usize, taps: usize) -> Axis {
        let reach = |tap: usize| (tap * step.dilation % step.stride, tap * step.dilation / step.stride);
        let mut phases: Vec<usize> = (0..taps).map(|tap| reach(tap).0).collect();
        phases.sort_unstable();
        phases.dedup();
        let numbered = |tap: usize| (phases.partition_point(|p| *p < reach(tap).0), reach(tap).1);
        Axis { length: small + reach(taps - 1).1, taps: (0..taps).map(numbered).collect(), phases, step }
    }

    /// Which phase and which place in it a place of the large grid has, if any tap can meet it.
    fn place(&self, large: usize) -> Option<(usize, usize)> {
        let position = large + self.step.pad;
        let phase = self.phases.binary_search(&(position % self.step.stride)).ok()?;
        let place = position / self.step.stride;
        (place < self.length).then_some((phase, place))
    }

    /// The parts of a row of the large grid, one for each phase that has any.
    fn runs(&self, large: usize) -> Vec<Run> {
        let run = |(number, phase): (usize, &usize)| {
            let (pad, stride) = (self.step.pad, self.step.stride);
            // The first place of the large grid, from 0 on, whose position has this phase.
            let from = (phase + stride - pad % stride) % stride;
            let place = (from + pad) / stride;
            let count = large.saturating_sub(from).div_ceil(stride).min(self.length.saturating_sub(place));
            Run { phase: number, place, from, count }
        };
        self.phases.iter().enumerate().map(run).filter(|run| run.count > 0).collect()
    }
}

/// `count` places of a row of the large grid, from `from` on, one stride apart, are places of a phase, from `place` on.
struct Run {
    phase: usize,
    place: usize,
    from: usize,
    count: usize,
}

/// The layout of blocks of images.
pub struct Lattice {
    axes: [Axis; 3],
    runs: Vec<Run>,
    /// Images of a full block.
    pub images: usize,
    /// Sizes of the small grid.
    pub small: [usize; 3],
    /// Where the view that a tap sees starts in a channel of the large block, by tap.
    pub taps: Vec<usize>,
}

impl Lattice {
    pub fn new(steps: [Step; 3], small: [usize; 3], large: [usize; 3], taps: [usize; 3], images: usize) -> Lattice {
        let axes = [0, 1, 2].map(|i| Axis::new(steps[i], small[i], taps[i]));
        let runs = axes[2].runs(large[2]);
        let mut lattice = Lattice { axes, runs, images, small, taps: vec![] };
        let count: usize = taps.iter().product();
        lattice.taps = (0..count).map(|tap| lattice.tap([tap / (taps[1] * taps[2]), tap / taps[2] % taps[1], tap % taps[2]])).collect();
        lattice
    }

    fn tap(&self, tap: [usize; 3]) -> usize {
        let [(pd, d), (ph, h), (pw, w)] = [0, 1, 2].map(|i| self.axes[i].taps[tap[i]]);
        self.index([pd, ph, pw], 0, [d, h, w])
    }

    /// Elements of one image of one phase.
    fn plane(&self) -> usize {
        self.axes.iter().map(|axis| axis.length).product()
    }

    /// Where a place is in a channel of the large block.
    fn index(&self, phase: [usize; 3], image: usize, place: [usize; 3]) -> usize {
        let phases = (phase[0] * self.axes[1].phases.len() + phase[1]) * self.axes[2].phases.len() + phase[2];
        (phases * self.images + image) * self.plane() + self.small_row(0, place[0], place[1]) + place[2]
    }

    /// Where a row of the small grid starts in a channel of the small block.
    pub fn small_row(&self, image: usize, d: usize, h: usize) -> usize {
        image * self.plane() + (d * self.axes[1].length + h) * self.axes[2].length
    }

    /// Elements of a channel of the large block.
    pub fn large_channel(&self) -> usize {
        self.axes.iter().map(|axis| axis.phases.len()).product::<usize>() * self.images * self.plane()
    }

    /// Elements of a channel of the small block: none after the last place.
    pub fn small_channel(&self) -> usize {
        self.span(self.images)
    }

    /// From the first place of the small block to the last of an image count.
    pub fn span(&self, images: usize) -> usize {
        let [d, h, w] = self.small;
        self.small_row(images - 1, d - 1, h - 1) + w
    }

    /// Copies images from `first` on into the small block. Places between rows keep what they hold.
    pub fn load_small(&self, tensor: &Tensor, first: usize, images: usize, block: &mut [f64]) {
        let (channel, width) = (self.small_channel(), self.small[2]);
        for image in 0..images {
            for ([d, h], channels) in tensor.rows() {
                let row = self.small_row(image, d, h);
                for c in channels {
                    tensor.read_row(first + image, [c, d, h], &mut block[c * channel + row..][..width]);
                }
            }
        }
    }

    /// Writes the small block to images from `first` on.
    pub fn store_small(&self, tensor: &Tensor, first: usize, images: usize, block: &[f64], scale: Scale) {
        let (channel, width) = (self.small_channel(), self.small[2]);
        for image in 0..images {
            for ([d, h], channels) in tensor.rows() {
                let row = self.small_row(image, d, h);
                for c in channels {
                    tensor.write_row(first + image, [c, d, h], &block[c * channel + row..][..width], scale);
                }
            }
        }
    }

    /// The parts of a row of the large grid that taps can meet, and where in a channel of the large block they are.
    fn parts(&self, image: usize, [d, h]: [usize; 2]) -> Option<Vec<(usize, &Run)>> {
        let ((pd, d), (ph, h)) = self.axes[0].place(d).zip(self.axes[1].place(h))?;
        Some(self.runs.iter().map(|run| (self.index([pd, ph, run.phase], image, [d, h, run.place]), run)).collect())
    }

    /// Copies images from `first` on into the large block. Padding keeps what it holds.
    pub fn load_large(&self, tensor: &Tensor, first: usize, images: usize, block: &mut [f64]) {
        let (channel, step, mut row) = (self.large_channel(), self.axes[2].step.stride, vec![0.0; tensor.dims[4]]);
        for image in 0..images {
            for ([d, h], channels) in tensor.rows() {
                let Some(parts) = self.parts(image, [d, h]) else { continue };
                for c in channels {
                    tensor.read_row(first + image, [c, d, h], &mut row);
                    for (start, run) in &parts {
                        spread(&row[run.from..], step, &mut block[c * channel + start..][..run.count]);
                    }
                }
            }
        }
    }

    /// Writes the large block to images from `first` on. What no tap meets is zero.
    pub fn store_large(&self, tensor: &Tensor, first: usize, images: usize, block: &[f64], scale: Scale) {
        let (channel, step, mut row) = (self.large_channel(), self.axes[2].step.stride, vec![0.0; tensor.dims[4]]);
        for image in 0..images {
            for ([d, h], channels) in tensor.rows() {
                let parts = self.parts(image, [d, h]).unwrap_or_default();
                // The same places of every row are written below: the others stay zero.
                row.fill(0.0);
                for c in channels {
                    for (start, run) in &parts {
                        gather(&block[c * channel + start..][..run.count], step, &mut row[run.from..]);
                    }
                    tensor.write_row(first + image, [c, d, h], &row, scale);
                }
            }
        }
    }
}

/// Every `step`-th element of a row.
fn spread(row: &[f64], step: usize, into: &mut [f64]) {
    if step == 1 {
        into.copy_from_slice(&row[..into.len()]);
    } else {
        into.iter_mut().zip(row.iter().step_by(step)).for_each(|(to, from)| *to = *from);
    }
}

/// The reverse of [`spread`].
fn gather(from: &[f64], step: usize, row: &mut [f64]) {
    if step == 1 {
        row[..from.len()].copy_from_slice(from);
    } else {
        row.iter_mut().step_by(step).zip(from).for_each(|(to, from)| *to = *from);
    }
}
