//! Convolutions as products of matrices, block by block of output positions. With W (filters × channels and taps), the columns X of the
//! image (channels and taps × positions), and Y (filters × positions):
//!
//! * forward: Y = W X;
//! * data: X = Wᵀ Y, which is then scattered into the image;
//! * filter: W = Y Xᵀ, summed over the blocks.
//!
//! Each matrix is packed into the workspace, except where the tensor's own memory is one already. A 1 × 1 convolution has no columns:
//! its image is the matrix.

use std::ops::Range;

use super::{
    Addresses,
    columns::{Order, Shape, gather, scatter},
    element::Number,
    layout::Layout,
    operands::{self, Every},
    problem::{Direction, Problem},
    taps::Image,
    view::{Inner, Matrix, View, multiply},
    workspace,
};

/// Bytes of one packed part that depends on how much is done at once.
const PART: usize = 2 << 20;
/// Fewer positions than this, and packing costs more than multiplying: rather are channels done one block after another.
const FEW_POSITIONS: usize = 64;
/// As [`FEW_POSITIONS`], where channels cannot be fewer.
const FEWEST_POSITIONS: usize = 8;
/// A matrix is used in place if it has at least so many columns in a row.
const LONG_RUN: usize = 256;

/// How a convolution is cut into blocks, and which tensors are used in place.
#[derive(Clone, Debug)]
pub(super) struct Dense {
    pointwise: bool,
    /// Of the columns, and of the packed image.
    inner: Inner,
    order: Order,
    /// Of packed parts of y.
    y_inner: Inner,
    x_in_place: bool,
    w_in_place: bool,
    y_in_place: bool,
    /// The longest piece of positions that is one matrix in every tensor that is used in place; blocks do not cross its multiples.
    runs: [usize; 2],
    /// The most channels, positions and images at a time.
    channels: usize,
    positions: usize,
    images: usize,
    /// Numbers of workspace for the filter, the columns, y, and the image.
    parts: [usize; 4],
}

/// Whether a view of a tensor is a matrix of numbers, at least in long runs.
fn is_matrix<T: Number>(layout: &Layout, view: &View, shortest: usize) -> bool {
    let aligned = layout.alignment.is_multiple_of(align_of::<T>());
    layout.data_type == T::DATA_TYPE && aligned && view.run() >= shortest.min(view.column_count())
}

impl Dense {
    /// `None` if its workspace does not fit into memory.
    pub(super) fn new<T: Number>(problem: &Problem) -> Option<Self> {
        let (x, y) = (operands::image(problem, 0..problem.channels), operands::map(problem, Every::of_group(problem, 0)));
        let pointwise = problem.is_pointwise();
        let x_in_place = pointwise && is_matrix::<T>(&problem.x, &x, LONG_RUN);
        let y_in_place = is_matrix::<T>(&problem.y, &y, LONG_RUN);
        let channels = channels::<T>(problem, pointwise);
        // With taps outside, some of the channels are no matrix.
        let in_order = |order| {
            let view = operands::filter(problem, Every::of_group(problem, 0), 0..problem.channels, order);
            is_matrix::<T>(&problem.w, &view, usize::MAX) && (order == Order::ChannelsOuter || channels == problem.channels)
        };
        let inner = x.inner();
        let order = match inner {
            Inner::Columns if !in_order(Order::TapsOuter) || in_order(Order::ChannelsOuter) => Order::ChannelsOuter,
            _ => Order::TapsOuter,
        };
        let mut dense = Self {
            pointwise,
            inner,
            order,
            y_inner: y.inner(),
            x_in_place,
            w_in_place: in_order(order),
            y_in_place,
            runs: [(x_in_place, &x), (y_in_place, &y)].map(|(in_place, view)| if in_place { view.run() } else { usize::MAX }),
            channels,
            positions: problem.batch * problem.output_size(),
            images: problem.batch,
            parts: [0; 4],
        };
        dense.size_parts::<T>(problem)?;
        Some(dense)
    }

    /// Chooses how many positions and images there are at a time, and how much memory that takes.
    fn size_parts<T: Number>(&mut self, problem: &Problem) -> Option<()> {
        let (numbers, taps) = (PART / size_of::<T>(), problem.tap_count());
        let columns = if self.x_in_place { 0 } else { self.channels.checked_mul(taps)? };
        let y = if self.y_in_place { 0 } else { problem.filters };
        if let Some(positions) = numbers.checked_div(columns.max(y)) {
            self.positions = self.positions.min(positions.max(FEWEST_POSITIONS));
        }
        let has_image = problem.direction == Direction::Data && !self.pointwise;
        let image = if has_image { self.channels.checked_mul(problem.input_size())? } else { 0 };
        if let Some(images) = numbers.checked_div(image) {
            self.images = images.clamp(1, problem.batch);
            self.positions = self.positions.min(self.images * problem.output_size());
        }
        let filter = if self.w_in_place { 0 } else { problem.filters * problem.channels * taps };
        self.parts = [filter, columns.checked_mul(self.positions)?, y.checked_mul(self.positions)?, image.checked_mul(self.images)?];
        Some(())
    }

    pub(super) fn workspace<T: Number>(&self) -> Option<usize> {
        workspace::bytes::<T>(&self.parts)
    }

    /// Runs the convolution.
    ///
    /// # Safety
    /// The tensors are live for their extents and at addresses of their alignments, the workspace is writable for
    /// [`Dense::workspace`] bytes, and neither the output nor the workspace overlaps anything else.
    pub(super) unsafe fn run<T: Number>(&self, problem: &Problem, addresses: &Addresses) {
        // SAFETY: by the contract of this function.
        let [filter, columns, y, image] = unsafe { workspace::cut::<T, 4>(addresses.workspace, self.parts) };
        let mut work = Work { dense: self, problem, addresses, filter, columns, y, image };
        for group in 0..problem.groups {
            // SAFETY: by the contract of this function.
            unsafe {
                match problem.direction {
                    Direction::Forward => work.forward(group),
                    Direction::Data => work.data(group),
                    Direction::Filter => work.filter(group),
                }
            }
        }
    }

    /// Blocks of positions.
    fn blocks(&self, positions: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut next = positions.start;
        std::iter::from_fn(move || {
            let start = next;
            let edge = self.runs.iter().map(|&run| run - start % run).min().unwrap_or(usize::MAX);
            next = positions.end.min(start + self.positions.min(edge));
            (start < next).then_some(start..next)
        })
    }
}

/// Channels at a time: all of them, unless that would leave too few positions for a part, or the image has no room for them.
fn channels<T: Number>(problem: &Problem, pointwise: bool) -> usize {
    let numbers = PART / size_of::<T>();
    let by_columns = numbers / FEW_POSITIONS / problem.tap_count().max(1);
    let by_image = if problem.direction == Direction::Data && !pointwise { numbers / problem.input_size() } else { usize::MAX };
    problem.channels.min(by_columns.min(by_image).max(1))
}

/// One execution. All functions have the contract of [`Dense::run`].
struct Work<'a, T> {
    dense: &'a Dense,
    problem: &'a Problem,
    addresses: &'a Addresses,
    filter: &'a mut [T],
    columns: &'a mut [T],
    y: &'a mut [T],
    image: &'a mut [T],
}

impl<T: Number> Work<'_, T> {
    unsafe fn forward(&mut self, group: usize) {
        let filters = self.problem.filters;
        // SAFETY: by the contract; sizes are those of the views.
        unsafe {
            self.load_filter(group);
            for positions in self.dense.blocks(self.all_positions()) {
                let y = self.y_matrix(group, &positions);
                for channels in self.channel_blocks() {
                    let size = [filters, channels.len() * self.problem.tap_count(), positions.len()];
                    self.load_columns(group, &channels, &positions);
                    let (w, x) = (self.w_matrix(group, &channels), self.x_matrix(group, &channels, &positions));
                    multiply(size, w, x, channels.start > 0, y);
                }
                if !self.dense.y_in_place {
                    let packed = &self.y[..filters * positions.len()];
                    self.map_view(group).store(self.addresses.y, positions, self.dense.y_inner, packed);
                }
            }
        }
    }

    unsafe fn data(&mut self, group: usize) {
        let (batch, output) = (self.problem.batch, self.problem.output_size());
        // SAFETY: by the contract; sizes are those of the views.
        unsafe {
            self.load_filter(group);
            for first in (0..batch).step_by(self.dense.images) {
                let images = first..batch.min(first + self.dense.images);
                for channels in self.channel_blocks() {
                    self.image.fill(T::default());
                    for positions in self.dense.blocks(images.start * output..images.end * output) {
                        self.load_y(group, &positions);
                        let size = [channels.len() * self.problem.tap_count(), self.problem.filters, positions.len()];
                        let (w, x) = (self.w_matrix(group, &channels), self.x_matrix(group, &channels, &positions));
                        multiply(size, w.transposed(), self.y_matrix(group, &positions), false, x);
                        self.store_columns(group, &channels, &images, positions);
                    }
                    self.store_image(group, &channels, &images);
                }
            }
        }
    }

    unsafe fn filter(&mut self, group: usize) {
        let filters = self.problem.filters;
        // SAFETY: by the contract; sizes are those of the views.
        unsafe {
            for positions in self.dense.blocks(self.all_positions()) {
                self.load_y(group, &positions);
                for channels in self.channel_blocks() {
                    self.load_columns(group, &channels, &positions);
                    let size = [filters, positions.len(), channels.len() * self.problem.tap_count()];
                    let (w, x) = (self.w_matrix(group, &channels), self.x_matrix(group, &channels, &positions));
                    multiply(size, self.y_matrix(group, &positions), x.transposed(), positions.start > 0, w);
                }
            }
            self.store_filter(group);
        }
    }

    fn image_view(&self, group: usize, channels: &Range<usize>) -> View {
        let first = group * self.problem.channels;
        operands::image(self.problem, first + channels.start..first + channels.end)
    }

    fn map_view(&self, group: usize) -> View {
        operands::map(self.problem, Every::of_group(self.problem, group))
    }

    fn filter_view(&self, group: usize, channels: &Range<usize>) -> View {
        operands::filter(self.problem, Every::of_group(self.problem, group), channels.clone(), self.dense.order)
    }

    fn all_positions(&self) -> Range<usize> {
        0..self.problem.batch * self.problem.output_size()
    }

    fn channel_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (all, block) = (self.problem.channels, self.dense.channels);
        (0..all).step_by(block).map(move |first| first..all.min(first + block))
    }

    /// Where the packed filter has some channels.
    fn filter_part(&self, channels: &Range<usize>) -> Range<usize> {
        let channel = self.problem.filters * self.problem.tap_count();
        channels.start * channel..channels.end * channel
    }

    unsafe fn w_matrix(&mut self, group: usize, channels: &Range<usize>) -> Matrix<T> {
        if self.dense.w_in_place {
            let view = self.filter_view(group, channels);
            // SAFETY: by the contract; a tensor in place is one run.
            return unsafe { view.matrix(self.addresses.w, 0) };
        }
        let part = self.filter_part(channels);
        let columns = channels.len() * self.problem.tap_count();
        Matrix::packed(self.filter[part].as_mut_ptr(), Inner::Columns, self.problem.filters, columns)
    }

    unsafe fn x_matrix(&mut self, group: usize, channels: &Range<usize>, positions: &Range<usize>) -> Matrix<T> {
        if self.dense.x_in_place {
            let view = self.image_view(group, channels);
            // SAFETY: by the contract; blocks do not cross runs.
            return unsafe { view.matrix(self.addresses.x, positions.start) };
        }
        let rows = channels.len() * self.problem.tap_count();
        Matrix::packed(self.columns.as_mut_ptr(), self.dense.inner, rows, positions.len())
    }

    unsafe fn y_matrix(&mut self, group: usize, positions: &Range<usize>) -> Matrix<T> {
        if self.dense.y_in_place {
            // SAFETY: by the contract; blocks do not cross runs.
            return unsafe { self.map_view(group).matrix(self.addresses.y, positions.start) };
        }
        Matrix::packed(self.y.as_mut_ptr(), self.dense.y_inner, self.problem.filters, positions.len())
    }

    unsafe fn load_filter(&mut self, group: usize) {
        for channels in self.channel_blocks().filter(|_| !self.dense.w_in_place) {
            let view = self.filter_view(group, &channels);
            let part = self.filter_part(&channels);
            // SAFETY: by the contract.
            unsafe { view.load(self.addresses.w, 0..view.column_count(), Inner::Columns, &mut self.filter[part]) };
        }
    }

    unsafe fn store_filter(&mut self, group: usize) {
        for channels in self.channel_blocks().filter(|_| !self.dense.w_in_place) {
            let view = self.filter_view(group, &channels);
            let part = self.filter_part(&channels);
            // SAFETY: by the contract.
            unsafe { view.store(self.addresses.w, 0..view.column_count(), Inner::Columns, &self.filter[part]) };
        }
    }

    unsafe fn load_y(&mut self, group: usize, positions: &Range<usize>) {
        if !self.dense.y_in_place {
            // SAFETY: by the contract.
            unsafe { self.map_view(group).load(self.addresses.y, positions.clone(), self.dense.y_inner, self.y) };
        }
    }

    fn shape(&self, channels: &Range<usize>, positions: &Range<usize>) -> Shape {
        let Dense { inner, order, .. } = *self.dense;
        Shape { inner, order, channels: channels.len(), taps: self.problem.tap_count(), width: positions.len() }
    }

    unsafe fn load_columns(&mut self, group: usize, channels: &Range<usize>, positions: &Range<usize>) {
        let (problem, shape) = (self.problem, self.shape(channels, positions));
        if self.dense.x_in_place {
            return;
        }
        // SAFETY: by the contract; the channels lie inside the tensor.
        unsafe {
            if self.dense.pointwise {
                let view = self.image_view(group, channels);
                return view.load(self.addresses.x, positions.clone(), self.dense.inner, self.columns);
            }
            let strides = &problem.x.strides;
            let size = hipdnn_abi::data_type_bytes(problem.x.data_type).unwrap_or(0);
            let first = self.addresses.x.add((group * problem.channels + channels.start) * strides[1] * size);
            let image = Image { first: 0, batch: strides[0], spatial: strides[2..].to_vec() };
            gather(problem, (first, strides[1]), &image, positions.clone(), shape, self.columns);
        }
    }

    /// Takes the columns to where they belong: into x for a 1 × 1 convolution, otherwise into the packed image.
    unsafe fn store_columns(&mut self, group: usize, channels: &Range<usize>, images: &Range<usize>, positions: Range<usize>) {
        let (problem, shape) = (self.problem, self.shape(channels, &positions));
        if self.dense.x_in_place {
            return;
        }
        if self.dense.pointwise {
            let (view, columns) = (self.image_view(group, channels), &self.columns[..channels.len() * positions.len()]);
            // SAFETY: by the contract.
            return unsafe { view.store(self.addresses.x, positions, self.dense.inner, columns) };
        }
        let [channel, position] = match self.dense.inner {
            Inner::Columns => [images.len() * problem.input_size(), 1],
            Inner::Rows => [1, channels.len()],
        };
        let inside = |i: usize| problem.input[i + 1..].iter().product::<usize>();
        let spatial = (0..problem.input.len()).map(|i| inside(i) * position).collect();
        let image = Image { first: images.start, batch: problem.input_size() * position, spatial };
        scatter(problem, self.columns, shape, positions, &image, (self.image, channel));
    }

    unsafe fn store_image(&mut self, group: usize, channels: &Range<usize>, images: &Range<usize>) {
        if self.image.is_empty() {
            return;
        }
        let size = self.problem.input_size();
        let (view, image) = (self.image_view(group, channels), &self.image[..channels.len() * images.len() * size]);
        // SAFETY: by the contract.
        unsafe { view.store(self.addresses.x, images.start * size..images.end * size, self.dense.inner, image) };
    }
}
