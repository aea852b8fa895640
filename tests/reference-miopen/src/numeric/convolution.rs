//! One convolution, from memory to memory: its tensors, blocks of images, and the way of computing that suits it.

use super::format::Scale;
use super::lattice::{Lattice, Step};
use super::loops::{self, Pieces};
use super::products::{self, Channels};
use super::tensor::Tensor;

/// Blocks hold at least this many places of the small grid, if there are as many: matrix products want them.
const PLACES_PER_BLOCK: usize = 512;
/// With fewer pairs of channels in a group than this, loops are faster than matrix products.
const THIN: usize = 16;

/// Which of the three tensors is computed from the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Small,
    Large,
    Filter,
}

/// A convolution whose tensors are known to fit.
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

impl Convolution {
    /// Computes the output.
    pub fn run(&self) {
        let lattice = self.lattice();
        match self.output {
            Output::Small => self.run_small(&lattice),
            Output::Large => self.run_large(&lattice),
            Output::Filter => self.run_filter(&lattice),
        }
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

    fn run_small(&self, lattice: &Lattice) {
        let (filter, channels) = (self.load_filter(), self.channels());
        let finite_filter = finite(&filter);
        let (mut small, mut large) = (self.zeros_small(lattice), self.zeros_large(lattice));
        for (first, images) in self.blocks(lattice) {
            lattice.load_large(&self.large, first, images, &mut large);
            if let Some(pieces) = self.pieces(finite_filter && finite(&large)) {
                small.fill(0.0);
                loops::small(lattice, channels, (images, pieces), &mut small, &large, &filter);
            } else {
                products::small(lattice, channels, images, &mut small, &large, &filter);
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
    fn filter_lines(&self) -> impl Iterator<Item = (usize, [usize; 3], core::ops::Range<usize>)> {
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
