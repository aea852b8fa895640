//! The three results of a convolution as loops over places of the small grid, on blocks as `lattice` lays them out: for groups so thin
//! that matrix products do not pay, and for infinities and NaNs.

use core::ops::Range;

use super::lattice::Lattice;
use super::products::{self, Channels};

/// Neighbouring places of the small block, those of the large one that they meet, and the number in the filter by which they do.
struct Meeting {
    small: Range<usize>,
    large: Range<usize>,
    filter: usize,
}

/// Which places of a small channel are handled at a time.
pub enum Pieces {
    /// All, with those between the rows: for finite numbers, where it does no harm.
    All,
    /// Row by row. What is between the rows is never touched.
    Rows,
}

impl Pieces {
    fn of(self, lattice: &Lattice, images: usize) -> Vec<(usize, usize)> {
        let [depth, height, width] = lattice.small;
        match self {
            Pieces::All => products::parts(lattice.span(images)).collect(),
            Pieces::Rows => (0..images * depth * height)
                .map(|row| (lattice.small_row(row / (depth * height), row / height % depth, row % height), width))
                .collect(),
        }
    }
}

/// Calls for every piece of every small channel, and for each of these with everything that it meets.
fn meetings(lattice: &Lattice, channels: Channels, pieces: &[(usize, usize)], mut each: impl FnMut(Meeting)) {
    let (near, far) = (lattice.small_channel(), lattice.large_channel());
    for channel in 0..channels.groups * channels.small {
        let (group, within) = (channel / channels.small, channel % channels.small);
        for (place, count) in pieces {
            let small = channel * near + place;
            for other in 0..channels.large {
                let large = (group * channels.large + other) * far + place;
                for (tap, view) in lattice.taps.iter().enumerate() {
                    let filter = channels.filter(group, tap) + within * channels.large + other;
                    each(Meeting { small: small..small + count, large: large + view..large + view + count, filter });
                }
            }
        }
    }
}

/// Adds to the small block what comes from the large one.
pub fn small(lattice: &Lattice, channels: Channels, (images, pieces): (usize, Pieces), small: &mut [f64], large: &[f64], filter: &[f64]) {
    let pieces = pieces.of(lattice, images);
    meetings(lattice, channels, &pieces, |meeting| add(filter[meeting.filter], &large[meeting.large], &mut small[meeting.small]));
}

/// Adds to the large block what comes from the small one.
pub fn large(lattice: &Lattice, channels: Channels, (images, pieces): (usize, Pieces), small: &[f64], large: &mut [f64], filter: &[f64]) {
    let pieces = pieces.of(lattice, images);
    meetings(lattice, channels, &pieces, |meeting| add(filter[meeting.filter], &small[meeting.small], &mut large[meeting.large]));
}

/// Adds to the filter what comes from both blocks.
pub fn filter(lattice: &Lattice, channels: Channels, (images, pieces): (usize, Pieces), small: &[f64], large: &[f64], filter: &mut [f64]) {
    let pieces = pieces.of(lattice, images);
    meetings(lattice, channels, &pieces, |meeting| filter[meeting.filter] += dot(&small[meeting.small], &large[meeting.large]));
}

/// `sums += weight * row`
fn add(weight: f64, row: &[f64], sums: &mut [f64]) {
    sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
}

/// In several sums at a time, which the compiler can keep side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + rest
}
