//! One convolution, from memory to memory: its tensors, blocks of images, and the way of computing that suits it.

use core::ops::Range;

use super::format::Scale;
use super::lattice::{Lattice, Step};
use super::loops::{self, Pieces};
use super::products::{self, Channels};
use super::tensor::Tensor;
use super::work::{Use, Work};

/// Blocks hold at least this many places of the small grid, if there are as many: matrix products want them.
const PLACES_PER_BLOCK: usize = 512;
/// With fewer pairs of channels in a group than this, loops are faster than matrix products.
const THIN: usize = 16;

/// As many groups, or rows of the small grid, are computed at a time as fit into about this many double-precision numbers, which the cache
/// holds.
const NUMBERS_TOGETHER: usize = 1 << 17;

/// Which of the three tensors is computed from the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Small,
    Large,
    Filter,
}

/// A convolution whose tensors are known to fit.
#[derive(Clone, Copy)]
pub struct Convolution {
    pub output: Output,
    pub groups: usize,
    /// Along D, H and W.
    pub steps: [Step; 3],
    /// What is a convolution's output, and the input of a transposed one.
    pub small: Tensor,
    pub large: Tensor,
    /// `[small channel][large channel of the group]`, for both kinds.
    pub filter: Tensor,
    pub scale: Scale,
}

impl Work for Convolution {
    fn each(&mut self, show: &mut dyn FnMut(&mut Tensor, Use)) {
        self.each_input(|tensor| show(tensor, Use::Input));
        show(self.result(), Use::Output);
    }

    fn run(&self) {
        let (lattice, channels) = (self.lattice(), self.channels());
        let group = channels.small * lattice.small_channel() + channels.large * lattice.large_channel();
        let together = (NUMBERS_TOGETHER / group).clamp(1, self.groups);
        let vectorised = [&self.small, &self.large, &self.filter].iter().any(|tensor| tensor.vector > 1);
        if vectorised || together == self.groups {
            return self.run_groups(&lattice);
        }
        for first in (0..self.groups).step_by(together) {
            self.only(first..(first + together).min(self.groups)).run_groups(&lattice);
        }
    }
}

impl Convolution {
    /// The tensor that is computed.
    pub fn result(&mut self) -> &mut Tensor {
        match self.output {
            Output::Small => &mut self.small,
            Output::Large => &mut self.large,
            Output::Filter => &mut self.filter,
        }
    }

    /// The two others.
    pub fn each_input(&mut self, show: impl FnMut(&mut Tensor)) {
        let inputs = match self.output {
            Output::Small => [&mut self.large, &mut self.filter],
            Output::Large => [&mut self.small, &mut self.filter],
            Output::Filter => [&mut self.small, &mut self.large],
        };
        inputs.into_iter().for_each(show);
    }

    /// The convolution of some of the groups.
    fn only(&self, groups: Range<usize>) -> Convolution {
        let Channels { small, large, .. } = self.channels();
        let places = |each: usize| groups.start * each..groups.end * each;
        Convolution {
            groups: groups.len(),
            small: self.small.part(1, places(small)),
            large: self.large.part(1, places(large)),
            filter: self.filter.part(0, places(small)),
            ..*self
        }
    }

    fn run_groups(&self, lattice: &Lattice) {
        match self.output {
            Output::Small => self.run_bands(lattice),
            Output::Large => self.run_large(lattice),
            Output::Filter => self.run_filter(lattice),
        }
    }

    /// The small grid in bands of rows: each is a convolution of its own.
    fn run_bands(&self, lattice: &Lattice) {
        let [_, small, depth, height, width] = self.small.dims;
        let row = (small * lattice.small_channel() + self.large.dims[1] * lattice.large_channel()).div_ceil(height);
        let enough = PLACES_PER_BLOCK.div_ceil(depth * width).min(height);
        let (rows, filter) = ((NUMBERS_TOGETHER / row).clamp(enough, height), self.load_filter());
        for first in (0..height).step_by(rows) {
            self.band(first..(first + rows).min(height)).run_small(&filter);
        }
    }

    /// The convolution that computes some rows of the small grid, with those rows of the large one that they meet.
    fn band(&self, rows: Range<usize>) -> Convolution {
        let Step { pad, stride, dilation } = self.steps[1];
        let (start, end) = (rows.start * stride, (rows.end - 1) * stride + (self.filter.dims[3] - 1) * dilation + 1);
        let end = end.saturating_sub(pad).min(self.large.dims[3]);
        let first = start.saturating_sub(pad).min(end);
        let mut steps = self.steps;
        // What is left of the padding; if no row is left, any will do.
        steps[1].pad = (first + pad).saturating_sub(start);
        Convolution { steps, small: self.small.part(3, rows), large: self.large.part(3, first..end), ..*self }
    }

    fn lattice(&self) -> Lattice {
        let small = self.small.grid();
        let images = PLACES_PER_BLOCK.div_ceil(small.iter().product()).min(self.small.dims[0]);
        Lattice::new(self.steps, small, self.large.grid(), self.filter.grid(), images)
    }

    fn channels(&self) -> Channels {
        Channels { groups: self.groups, small: self.small.dims[1] / self.groups, large: self.large.dims[1] / self.groups }
    }

    /// First image and number of images of each block.
    fn blocks(&self, lattice: &Lattice) -> impl Iterator<Item = (usize, usize)> {
        let (all, each) = (self.small.dims[0], lattice.images);
        (0..all).step_by(each).map(move |first| (first, each.min(all - first)))
    }

    fn zeros_small(&self, lattice: &Lattice) -> Vec<f64> {
        vec![0.0; self.small.dims[1] * lattice.small_channel()]
    }

    fn zeros_large(&self, lattice: &Lattice) -> Vec<f64> {
        vec![0.0; self.large.dims[1] * lattice.large_channel()]
    }

    fn zeros_filter(&self) -> Vec<f64> {
        vec![0.0; self.filter.dims.iter().product()]
    }

    /// By loops over which places, if not by matrix products.
    fn pieces(&self, is_finite: bool) -> Option<Pieces> {
        let channels = self.channels();
        if !is_finite {
            return Some(Pieces::Rows);
        }
        (channels.small * channels.large < THIN).then_some(Pieces::All)
    }

    fn run_small(&self, filter: &[f64]) {
        let (lattice, channels, finite_filter) = (&self.lattice(), self.channels(), finite(filter));
        let (mut small, mut large) = (self.zeros_small(lattice), self.zeros_large(lattice));
        for (first, images) in self.blocks(lattice) {
            lattice.load_large(&self.large, first, images, &mut large);
            if let Some(pieces) = self.pieces(finite_filter && finite(&large)) {
                small.fill(0.0);
                loops::small(lattice, channels, (images, pieces), &mut small, &large, filter);
            } else {
                products::small(lattice, channels, images, &mut small, &large, filter);
            }
            lattice.store_small(&self.small, first, images, &small, self.scale);
        }
    }

    fn run_large(&self, lattice: &Lattice) {
        let (filter, channels) = (self.load_filter(), self.channels());
        let finite_filter = finite(&filter);
        let (mut small, mut large) = (self.zeros_small(lattice), self.zeros_large(lattice));
        for (first, images) in self.blocks(lattice) {
            lattice.load_small(&self.small, first, images, &mut small);
            large.fill(0.0);
            if let Some(pieces) = self.pieces(finite_filter && finite(&small)) {
                loops::large(lattice, channels, (images, pieces), &small, &mut large, &filter);
            } else {
                products::large(lattice, channels, images, &small, &mut large, &filter);
            }
            lattice.store_large(&self.large, first, images, &large, self.scale);
        }
    }

    fn run_filter(&self, lattice: &Lattice) {
        let (mut filter, channels) = (self.zeros_filter(), self.channels());
        let (mut small, mut large) = (self.zeros_small(lattice), self.zeros_large(lattice));
        for (first, images) in self.blocks(lattice) {
            lattice.load_small(&self.small, first, images, &mut small);
            lattice.load_large(&self.large, first, images, &mut large);
            if let Some(pieces) = self.pieces(finite(&small) && finite(&large)) {
                loops::filter(lattice, channels, (images, pieces), &small, &large, &mut filter);
            } else {
                products::filter(lattice, channels, images, &small, &large, &mut filter);
            }
        }
        self.store_filter(&filter);
    }

    /// Small channel and place of every line of the filter, with where it is in the dense one.
    fn filter_lines(&self) -> impl Iterator<Item = (usize, [usize; 3], Range<usize>)> {
        let [outer, inner, depth, height, width] = self.filter.dims;
        (0..outer).flat_map(move |channel| {
            (0..depth * height * width).map(move |tap| {
                let start = (tap * outer + channel) * inner;
                (channel, [tap / (height * width), tap / width % height, tap % width], start..start + inner)
            })
        })
    }

    /// The filter as `[tap][small channel][large channel of the group]`.
    fn load_filter(&self) -> Vec<f64> {
        let mut dense = self.zeros_filter();
        for (channel, place, line) in self.filter_lines() {
            self.filter.read_channels(channel, place, &mut dense[line]);
        }
        dense
    }

    fn store_filter(&self, dense: &[f64]) {
        for (channel, place, line) in self.filter_lines() {
            self.filter.write_channels(channel, place, &dense[line], self.scale);
        }
    }
}

/// Whether there is no infinity and no NaN.
fn finite(values: &[f64]) -> bool {
    // In pieces, so that the compiler can look at several at a time and a search can still end early.
    values.chunks(1024).all(|values| values.iter().fold(true, |all, value| all & value.is_finite()))
}
