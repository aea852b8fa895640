//! A tensor in memory, brought to five dimensions: where its elements are, and lines of them. What is computed is elsewhere.

use core::ops::Range;

use super::format::{Format, Scale};

/// How many channels are read or written side by side: with channels innermost in memory, what a cache line holds in 16-bit formats.
const CHANNELS_TOGETHER: usize = 32;

/// Dimensions and strides as N, C, D, H, W, with sizes 1 where the tensor has fewer. Whoever makes one vouches for memory that covers all
/// elements as long as it is used, and for an output that nobody else uses meanwhile.
#[derive(Clone, Copy)]
pub struct Tensor {
    pub dims: [usize; 5],
    pub strides: [usize; 5],
    /// This many channels lie side by side, and the channel stride leads from one such vector to the next.
    pub vector: usize,
    pub format: Format,
    pub address: usize,
    /// Where the first element is, in elements behind the address.
    start: usize,
}

impl Tensor {
    /// Dimensions (two to five, the channels in vectors) as a descriptor has them.
    pub fn new(dims: &[usize], strides: &[usize], vector: usize, format: Format, address: usize) -> Tensor {
        let mut five = Tensor { dims: [1; 5], strides: [0; 5], vector, format, address, start: 0 };
        let missing = 5 - dims.len();
        for (i, (dim, stride)) in dims.iter().zip(strides).enumerate() {
            let axis = if i < 2 { i } else { i + missing };
            (five.dims[axis], five.strides[axis]) = (*dim, *stride);
        }
        five.dims[1] *= vector;
        five
    }

    /// How many bytes behind the address its last element ends.
    pub fn bytes(&self) -> usize {
        (self.offset(self.dims.map(|dim| dim - 1)) + 1) * self.format.width()
    }

    /// The part of a tensor that has only some places along an axis. Channels in vectors cannot be parted.
    pub fn part(mut self, axis: usize, places: Range<usize>) -> Tensor {
        debug_assert!(self.vector == 1 || axis > 1);
        self.start += places.start * self.strides[axis];
        self.dims[axis] = places.len();
        self
    }

    /// Sizes along D, H and W.
    pub fn grid(&self) -> [usize; 3] {
        [self.dims[2], self.dims[3], self.dims[4]]
    }

    /// Depth and height of every row of an image, with a few channels: to be handled in this order, so that a cache line that was fetched
    /// for one channel serves its neighbours, whatever the layout.
    pub fn rows(&self) -> impl Iterator<Item = ([usize; 2], Range<usize>)> {
        let [_, channels, depth, height, _] = self.dims;
        let blocks = (0..channels).step_by(CHANNELS_TOGETHER).map(move |c| c..(c + CHANNELS_TOGETHER).min(channels));
        blocks.flat_map(move |block| (0..depth * height).map(move |i| ([i / height, i % height], block.clone())))
    }

    fn offset(&self, [n, c, d, h, w]: [usize; 5]) -> usize {
        let [sn, sc, sd, sh, sw] = self.strides;
        let channel = if self.vector == 1 { c * sc } else { c / self.vector * sc + c % self.vector };
        self.start + n * sn + channel + d * sd + h * sh + w * sw
    }

    /// Reads one row.
    pub fn read_row(&self, n: usize, [c, d, h]: [usize; 3], row: &mut [f64]) {
        debug_assert_eq!(row.len(), self.dims[4]);
        // SAFETY: the maker vouches for the memory, and the row is one of the tensor's.
        unsafe { self.format.read(self.address, self.offset([n, c, d, h, 0]), self.strides[4], row) };
    }

    /// Writes one row.
    pub fn write_row(&self, n: usize, [c, d, h]: [usize; 3], row: &[f64], scale: Scale) {
        debug_assert_eq!(row.len(), self.dims[4]);
        // SAFETY: as above; the maker vouches for an output that nobody else uses.
        unsafe { self.format.write(self.address, self.offset([n, c, d, h, 0]), self.strides[4], row, scale) };
    }

    /// Parts of a line through all channels that lie equally spaced: first channel, spacing, count.
    fn channel_lines(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let (channels, vector) = (self.dims[1], self.vector);
        let (step, length) = if vector == 1 { (self.strides[1], channels) } else { (1, vector) };
        (0..channels).step_by(length).map(move |c| (c, step, length))
    }

    /// Reads all channels at one place.
    pub fn read_channels(&self, n: usize, [d, h, w]: [usize; 3], line: &mut [f64]) {
        for (c, step, length) in self.channel_lines() {
            // SAFETY: as above.
            unsafe { self.format.read(self.address, self.offset([n, c, d, h, w]), step, &mut line[c..c + length]) };
        }
    }

    /// Writes all channels at one place.
    pub fn write_channels(&self, n: usize, [d, h, w]: [usize; 3], line: &[f64], scale: Scale) {
        for (c, step, length) in self.channel_lines() {
            // SAFETY: as above.
            unsafe { self.format.write(self.address, self.offset([n, c, d, h, w]), step, &line[c..c + length], scale) };
        }
    }
}
