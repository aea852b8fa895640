//! The three results of a convolution as matrix products, one for each group and tap, on blocks as `lattice` lays them out.

use gemm_common::Parallelism;

use super::lattice::Lattice;

/// Places that are computed at a time, so that what the taps add to stays in the cache.
const PLACES_TOGETHER: usize = 512;

/// How many channels each tensor has.
#[derive(Clone, Copy)]
pub struct Channels {
    pub groups: usize,
    /// Of the small grid, in one group.
    pub small: usize,
    /// Of the large grid, in one group.
    pub large: usize,
}

impl Channels {
    /// Where the matrix of a group and tap starts in the filter, which is `[tap][small channel][large channel of the group]`.
    pub fn filter(&self, group: usize, tap: usize) -> usize {
        (tap * self.groups + group) * self.small * self.large
    }
}

/// A matrix in a slice: element (i, j) is at `start + i * row + j * column`.
#[derive(Clone, Copy)]
struct Shape {
    start: usize,
    row: usize,
    column: usize,
}

impl Shape {
    fn fits(&self, rows: usize, columns: usize, length: usize) -> bool {
        self.start + (rows - 1) * self.row + (columns - 1) * self.column < length
    }
}

/// `c = a * b`, or with `add`, `c += a * b`, where `c` is `m` by `n` and `k` is what is summed over.
fn multiply(add: bool, [m, n, k]: [usize; 3], c: (&mut [f64], Shape), a: (&[f64], Shape), b: (&[f64], Shape)) {
    assert!(c.1.fits(m, n, c.0.len()) && a.1.fits(m, k, a.0.len()) && b.1.fits(k, n, b.0.len()), "matrices lie in their slices");
    let strides = |shape: Shape| (shape.column as isize, shape.row as isize);
    let ((cc, cr), (ac, ar), (bc, br)) = (strides(c.1), strides(a.1), strides(b.1));
    // SAFETY: every element of the three matrices lies in its slice, as was just checked.
    unsafe {
        let (c, a, b) = (c.0.as_mut_ptr().add(c.1.start), a.0.as_ptr().add(a.1.start), b.0.as_ptr().add(b.1.start));
        let gemm = gemm_f64::gemm::f64::get_gemm_fn();
        gemm(m, n, k, c, cc, cr, add, a, ac, ar, b, bc, br, 1.0, 1.0, false, false, false, Parallelism::None);
    }
}

/// Parts of a span: start and length.
pub fn parts(span: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..span).step_by(PLACES_TOGETHER).map(move |start| (start, PLACES_TOGETHER.min(span - start)))
}

/// The small block from the large one.
pub fn small(lattice: &Lattice, channels: Channels, images: usize, small: &mut [f64], large: &[f64], filter: &[f64]) {
    let (near, far) = (lattice.small_channel(), lattice.large_channel());
    for group in 0..channels.groups {
        for (place, count) in parts(lattice.span(images)) {
            for (tap, view) in lattice.taps.iter().enumerate() {
                let result = Shape { start: group * channels.small * near + place, row: 1, column: near };
                let view = Shape { start: group * channels.large * far + view + place, row: 1, column: far };
                let weights = Shape { start: channels.filter(group, tap), row: 1, column: channels.large };
                let sizes = [count, channels.small, channels.large];
                multiply(tap > 0, sizes, (&mut *small, result), (large, view), (filter, weights));
            }
        }
    }
}

/// Adds to the large block what comes from the small one, which is zero between its rows.
pub fn large(lattice: &Lattice, channels: Channels, images: usize, small: &[f64], large: &mut [f64], filter: &[f64]) {
    let (near, far) = (lattice.small_channel(), lattice.large_channel());
    for group in 0..channels.groups {
        for (place, count) in parts(lattice.span(images)) {
            for (tap, view) in lattice.taps.iter().enumerate() {
                let from = Shape { start: group * channels.small * near + place, row: 1, column: near };
                let view = Shape { start: group * channels.large * far + view + place, row: 1, column: far };
                let weights = Shape { start: channels.filter(group, tap), row: channels.large, column: 1 };
                let sizes = [count, channels.large, channels.small];
                multiply(true, sizes, (&mut *large, view), (small, from), (filter, weights));
            }
        }
    }
}

/// Adds to the filter what comes from both blocks; the small one is zero between its rows.
pub fn filter(lattice: &Lattice, channels: Channels, images: usize, small: &[f64], large: &[f64], filter: &mut [f64]) {
    let (near, far) = (lattice.small_channel(), lattice.large_channel());
    for group in 0..channels.groups {
        for (place, count) in parts(lattice.span(images)) {
            for (tap, view) in lattice.taps.iter().enumerate() {
                let from = Shape { start: group * channels.small * near + place, row: 1, column: near };
                let view = Shape { start: group * channels.large * far + view + place, row: far, column: 1 };
                let weights = Shape { start: channels.filter(group, tap), row: 1, column: channels.large };
                let sizes = [channels.large, channels.small, count];
                multiply(true, sizes, (&mut *filter, weights), (large, view), (small, from));
            }
        }
    }
}
