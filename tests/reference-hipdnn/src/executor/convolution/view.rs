//! A part of a tensor, seen as a matrix: rows with one stride, and columns that are counted through several dimensions. It is copied
//! (and converted) into packed memory and back, or, where its strides and its type allow it, used where it lies.
//!
//! Nothing here knows what a convolution is.

use std::ops::Range;

use super::{element::Number, layout::Layout};

/// One dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) count: usize,
    /// In elements.
    pub(super) stride: usize,
}

/// What lies side by side in packed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// Row after row.
    Columns,
    /// Column after column.
    Rows,
}

/// A matrix somewhere in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<T> {
    pub(super) start: *mut T,
    /// In elements: of rows, then of columns.
    pub(super) strides: [isize; 2],
}

impl<T> Matrix<T> {
    /// Packed memory of so many rows and columns.
    pub(super) fn packed(start: *mut T, inner: Inner, rows: usize, columns: usize) -> Self {
        let strides = match inner {
            Inner::Columns => [columns as isize, 1],
            Inner::Rows => [1, rows as isize],
        };
        Self { start, strides }
    }

    pub(super) fn transposed(self) -> Self {
        Self { strides: [self.strides[1], self.strides[0]], ..self }
    }
}

/// `size` is rows of A, columns of A, columns of B.
///
/// # Safety
/// As for [`Number::multiply`].
pub(super) unsafe fn multiply<T: Number>(size: [usize; 3], a: Matrix<T>, b: Matrix<T>, add: bool, c: Matrix<T>) {
    // SAFETY: by the contract of this function.
    unsafe { T::multiply(size, (a.start, a.strides), (b.start, b.strides), add, (c.start, c.strides)) };
}

/// A run of columns with one stride.
struct Run {
    /// Its first column, counted from the first one that was asked for.
    at: usize,
    length: usize,
    /// Of its first element, in elements.
    offset: usize,
}

/// A part of a tensor.
#[derive(Clone, Debug)]
pub(super) struct View {
    data_type: i32,
    /// Of the first element, in elements.
    offset: usize,
    rows: Axis,
    /// Outermost first, at least one, and as few as possible.
    columns: Vec<Axis>,
}

impl View {
    /// The columns' axes are given outermost first.
    pub(super) fn new(layout: &Layout, offset: usize, rows: Axis, columns: impl IntoIterator<Item = Axis>) -> Self {
        let mut merged: Vec<Axis> = Vec::new();
        for axis in columns.into_iter().filter(|axis| axis.count != 1) {
            match merged.last_mut() {
                Some(outer) if axis.count.checked_mul(axis.stride) == Some(outer.stride) => {
                    *outer = Axis { count: outer.count * axis.count, stride: axis.stride };
                }
                _ => merged.push(axis),
            }
        }
        if merged.is_empty() {
            merged.push(Axis { count: 1, stride: 1 });
        }
        Self { data_type: layout.data_type, offset, rows, columns: merged }
    }

    fn innermost(&self) -> Axis {
        self.columns.last().copied().unwrap_or(Axis { count: 1, stride: 1 })
    }

    /// How many columns lie in one run.
    pub(super) fn run(&self) -> usize {
        self.innermost().count
    }

    pub(super) fn column_count(&self) -> usize {
        self.columns.iter().map(|axis| axis.count).product()
    }

    /// The order that copies run after run. A few rows side by side make runs too short to be worth it.
    pub(super) fn inner(&self) -> Inner {
        const SHORT: usize = 8;
        if self.rows.count >= SHORT && self.rows.stride < self.innermost().stride { Inner::Rows } else { Inner::Columns }
    }

    /// Where the matrix lies that starts at a column and does not leave its run. Only for tensors of numbers at aligned addresses.
    ///
    /// # Safety
    /// The tensor is live for its extent, and the column lies inside it.
    pub(super) unsafe fn matrix<T>(&self, data: *mut u8, first: usize) -> Matrix<T> {
        let offset = self.runs(first..first + 1).next().map_or(0, |run| run.offset);
        // SAFETY: by the contract of this function.
        let start = unsafe { data.cast::<T>().add(offset) };
        Matrix { start, strides: [self.rows.stride as isize, self.innermost().stride as isize] }
    }

    /// Copies columns into packed memory.
    ///
    /// # Safety
    /// The tensor is live for its extent, and the columns lie inside it.
    pub(super) unsafe fn load<T: Number>(&self, data: *const u8, columns: Range<usize>, inner: Inner, out: &mut [T]) {
        let (rows, width) = (self.rows, columns.len());
        let size = hipdnn_abi::data_type_bytes(self.data_type).unwrap_or(0);
        // SAFETY: elements inside the tensor's dimensions, hence inside its extent.
        let load = |offset: usize, step, out: &mut [T]| unsafe { T::load(self.data_type, data.add(offset * size), step, out) };
        let step = self.innermost().stride;
        match inner {
            Inner::Columns => {
                for run in self.runs(columns) {
                    for (row, out) in out.chunks_exact_mut(width).take(rows.count).enumerate() {
                        load(run.offset + row * rows.stride, step, &mut out[run.at..][..run.length]);
                    }
                }
            }
            Inner::Rows => {
                for run in self.runs(columns) {
                    let out = &mut out[run.at * rows.count..][..run.length * rows.count];
                    for (column, out) in out.chunks_exact_mut(rows.count).enumerate() {
                        load(run.offset + column * step, rows.stride, out);
                    }
                }
            }
        }
    }

    /// Rounds packed memory into columns.
    ///
    /// # Safety
    /// The tensor is live for its extent and writable, and the columns lie inside it.
    pub(super) unsafe fn store<T: Number>(&self, data: *mut u8, columns: Range<usize>, inner: Inner, from: &[T]) {
        let (rows, width) = (self.rows, columns.len());
        let size = hipdnn_abi::data_type_bytes(self.data_type).unwrap_or(0);
        // SAFETY: elements inside the tensor's dimensions, hence inside its extent.
        let store = |offset: usize, step, from: &[T]| unsafe { T::store(from, self.data_type, data.add(offset * size), step) };
        let step = self.innermost().stride;
        match inner {
            Inner::Columns => {
                for run in self.runs(columns) {
                    for (row, from) in from.chunks_exact(width).take(rows.count).enumerate() {
                        store(run.offset + row * rows.stride, step, &from[run.at..][..run.length]);
                    }
                }
            }
            Inner::Rows => {
                for run in self.runs(columns) {
                    let from = &from[run.at * rows.count..][..run.length * rows.count];
                    for (column, from) in from.chunks_exact(rows.count).enumerate() {
                        store(run.offset + column * step, rows.stride, from);
                    }
                }
            }
        }
    }

    /// The runs of a range of columns.
    fn runs(&self, columns: Range<usize>) -> impl Iterator<Item = Run> {
        let mut next = columns.start;
        std::iter::from_fn(move || {
            if next >= columns.end {
                return None;
            }
            let (mut rest, mut offset) = (next, self.offset);
            for axis in self.columns.iter().rev() {
                offset += rest % axis.count * axis.stride;
                rest /= axis.count;
            }
            let inner = self.run();
            let run = Run { at: next - columns.start, length: (inner - next % inner).min(columns.end - next), offset };
            next += run.length;
            Some(run)
        })
    }
}
