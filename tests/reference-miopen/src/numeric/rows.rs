//! The three results of a convolution as loops over rows, on blocks as `lattice` lays them out: for groups so thin that matrix products
//! do not pay, and for infinities and NaNs, because only places of the small grid are touched here, never those between its rows.

use core::ops::Range;

use super::lattice::Lattice;
use super::products::Channels;

/// A row of the small grid, the row of the large one that it meets, and the number in the filter by which it does.
struct Meeting {
    small: Range<usize>,
    large: Range<usize>,
    filter: usize,
}

/// Calls for every row of the small block, and for each row with everything that it meets.
fn meetings(lattice: &Lattice, channels: Channels, images: usize, mut each: impl FnMut(Meeting)) {
    let [depth, height, width] = lattice.small;
    let (near, far) = (lattice.small_channel(), lattice.large_channel());
    for channel in 0..channels.groups * channels.small {
        let (group, within) = (channel / channels.small, channel % channels.small);
        for row in 0..images * depth * height {
            let row = lattice.small_row(row / (depth * height), row / height % depth, row % height);
            let small = channel * near + row;
            for other in 0..channels.large {
                let large = (group * channels.large + other) * far + row;
                for (tap, view) in lattice.taps.iter().enumerate() {
                    let filter = channels.filter(group, tap) + within * channels.large + other;
                    each(Meeting { small: small..small + width, large: large + view..large + view + width, filter });
                }
            }
        }
    }
}

/// Adds to the small block what comes from the large one.
pub fn small(lattice: &Lattice, channels: Channels, images: usize, small: &mut [f64], large: &[f64], filter: &[f64]) {
    meetings(lattice, channels, images, |meeting| add(filter[meeting.filter], &large[meeting.large], &mut small[meeting.small]));
}

/// Adds to the large block what comes from the small one.
pub fn large(lattice: &Lattice, channels: Channels, images: usize, small: &[f64], large: &mut [f64], filter: &[f64]) {
    meetings(lattice, channels, images, |meeting| add(filter[meeting.filter], &small[meeting.small], &mut large[meeting.large]));
}

/// Adds to the filter what comes from both blocks.
pub fn filter(lattice: &Lattice, channels: Channels, images: usize, small: &[f64], large: &[f64], filter: &mut [f64]) {
    meetings(lattice, channels, images, |meeting| filter[meeting.filter] += dot(&small[meeting.small], &large[meeting.large]));
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
