//! The sums. The filter and one image's group are packed into the workspace, in the type that sums are kept in; then every row of the
//! output is summed up along contiguous memory.

use super::{
    element::Number,
    problem::{Layout, MAX_SPATIAL, Problem},
};

/// Where the caller's memory is.
pub(super) struct Addresses {
    pub(super) x: *const u8,
    pub(super) w: *const u8,
    pub(super) y: *mut u8,
    pub(super) workspace: *mut u8,
}

// SAFETY: only addresses; who may use them when is the contract of `run`.
unsafe impl Send for Addresses {}
// SAFETY: as above.
unsafe impl Sync for Addresses {}

/// How many numbers the packed filter, the packed input and one row of sums take.
fn parts(problem: &Problem) -> Option<[usize; 3]> {
    let product = |dims: &[usize], first: usize| dims.iter().try_fold(first, |product, &dim| product.checked_mul(dim));
    let filters = problem.groups.checked_mul(problem.filters)?.checked_mul(problem.channels)?;
    Some([product(&problem.taps, filters)?, product(&problem.input, problem.channels)?, problem.output.last().copied().unwrap_or(1)])
}

/// Bytes of workspace, with room to align it; `None` if they do not fit into memory.
pub(super) fn workspace<T: Number>(problem: &Problem) -> Option<usize> {
    let [filter, input, row] = parts(problem)?;
    let numbers = filter.checked_add(input)?.checked_add(row)?;
    let bytes = numbers.checked_mul(size_of::<T>())?.checked_add(align_of::<T>() - 1)?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// Runs the convolution.
///
/// # Safety
/// x, w and y are live for the extents of their tensors, y is writable, the workspace is writable for [`workspace`] bytes, and neither y
/// nor the workspace overlaps anything else.
pub(super) unsafe fn run<T: Number>(problem: &Problem, addresses: &Addresses) {
    let Some([filter, input, row]) = parts(problem) else { return };
    // SAFETY: the workspace has room for all three parts after aligning it; nothing else refers to it. Written before read as numbers.
    let (filter, input, row) = unsafe {
        let start = addresses.workspace.add(addresses.workspace.align_offset(align_of::<T>())).cast::<T>();
        let make = |offset: usize, length: usize| {
            let part = start.add(offset);
            (0..length).for_each(|i| part.add(i).write(T::default()));
            std::slice::from_raw_parts_mut(part, length)
        };
        (make(0, filter), make(filter, input), make(filter + input, row))
    };
    // SAFETY: the filter is live for its extent, and the indices lie inside its dimensions.
    unsafe { pack_filter(problem, addresses.w, filter) };
    for n in 0..problem.batch {
        for group in 0..problem.groups {
            let from = [n, group * problem.channels];
            // SAFETY: the input is live for its extent, and the indices lie inside its dimensions.
            unsafe { pack(&problem.x, addresses.x, from, problem.channels, &problem.input, input) };
            for k in group * problem.filters..(group + 1) * problem.filters {
                let taps = filter.len() / (problem.groups * problem.filters);
                let filter = &filter[k * taps..][..taps];
                for_each_row(&problem.output, |outer| {
                    row.fill(T::default());
                    sum_row(problem, input, filter, outer, row);
                    // SAFETY: the output is live for its extent, and the indices lie inside its dimensions.
                    unsafe { store_row(&problem.y, addresses.y, [n, k], outer, row) };
                });
            }
        }
    }
}

/// Calls with every index of all dimensions but the last.
fn for_each_row(dims: &[usize], mut row: impl FnMut(&[usize])) {
    let outer = &dims[..dims.len() - 1];
    let mut index = [0usize; MAX_SPATIAL];
    let index = &mut index[..outer.len()];
    loop {
        row(index);
        let Some(i) = (0..outer.len()).rev().find(|&i| index[i] + 1 < outer[i]) else { return };
        index[i] += 1;
        index[i + 1..].fill(0);
    }
}

/// The offset, in elements, of the first element of a row.
fn row_offset(layout: &Layout, head: [usize; 2], outer: &[usize]) -> usize {
    let index = head.iter().chain(outer);
    index.zip(&layout.strides).map(|(index, stride)| index * stride).sum()
}

/// Copies channels of one image (or filter) into contiguous memory.
///
/// # Safety
/// The tensor is live for its extent; `head`, `channels` and `spatial` lie inside its dimensions.
unsafe fn pack<T: Number>(layout: &Layout, data: *const u8, head: [usize; 2], channels: usize, spatial: &[usize], out: &mut [T]) {
    let size = hipdnn_abi::data_type_bytes(layout.data_type).unwrap_or(0);
    let step = layout.strides.last().copied().unwrap_or(0) * size;
    let width = spatial.last().copied().unwrap_or(0);
    let mut rows = out.chunks_exact_mut(width);
    for channel in head[1]..head[1] + channels {
        for_each_row(spatial, |outer| {
            let start = row_offset(layout, [head[0], channel], outer) * size;
            for (i, out) in rows.next().into_iter().flatten().enumerate() {
                // SAFETY: an element inside the tensor's dimensions, hence inside its extent.
                *out = unsafe { T::load(layout.data_type, data.add(start + i * step)) };
            }
        });
    }
}

/// Packs every filter; a true convolution reads them backwards, so that summing is the same for both modes.
///
/// # Safety
/// The filter is live for its extent.
unsafe fn pack_filter<T: Number>(problem: &Problem, data: *const u8, out: &mut [T]) {
    let filters = problem.groups * problem.filters;
    let taps: usize = problem.taps.iter().product();
    let size = out.len() / filters;
    for (k, out) in out.chunks_exact_mut(size).enumerate() {
        // SAFETY: by the contract of this function; k is below the first dimension.
        unsafe { pack(&problem.w, data, [k, 0], problem.channels, &problem.taps, out) };
        if problem.flip {
            out.chunks_exact_mut(taps).for_each(<[T]>::reverse);
        }
    }
}

/// Sums one row of the output over all channels and taps.
fn sum_row<T: Number>(problem: &Problem, input: &[T], filter: &[T], outer: &[usize], row: &mut [T]) {
    let last = problem.input.len() - 1;
    let (width, taps) = (problem.input[last], problem.taps[last]);
    let mut filter_rows = filter.chunks_exact(taps);
    for channel in input.chunks_exact(problem.input.iter().product()) {
        for_each_row(&problem.taps, |tap| {
            let Some(filter_row) = filter_rows.next() else { return };
            let mut offset = 0;
            for i in 0..last {
                let Some(at) = input_position(problem, i, outer[i], tap[i]) else { return };
                offset = offset * problem.input[i] + at;
            }
            let input_row = &channel[offset * width..][..width];
            for (t, &weight) in filter_row.iter().enumerate() {
                add_tap(problem, last, t, weight, input_row, row);
            }
        });
    }
}

/// Where an output position's tap falls in the input, if not into the padding.
fn input_position(problem: &Problem, i: usize, output: usize, tap: usize) -> Option<usize> {
    let padded = output * problem.strides[i] + tap * problem.dilations[i];
    padded.checked_sub(problem.pre_paddings[i]).filter(|&at| at < problem.input[i])
}

/// Adds one tap of the last dimension to all outputs of the row that it reaches.
fn add_tap<T: Number>(problem: &Problem, last: usize, tap: usize, weight: T, input: &[T], row: &mut [T]) {
    let (stride, padding, reach) = (problem.strides[last], problem.pre_paddings[last], tap * problem.dilations[last]);
    // Outputs o with padding <= o * stride + reach < padding + width.
    let first = padding.saturating_sub(reach).div_ceil(stride);
    let end = (padding + input.len()).saturating_sub(reach).div_ceil(stride).min(row.len());
    if first >= end {
        return;
    }
    let sums = row[first..end].iter_mut();
    let input = &input[first * stride + reach - padding..];
    if stride == 1 {
        sums.zip(input).for_each(|(sum, &x)| *sum = sum.add_product(x, weight));
    } else {
        sums.zip(input.iter().step_by(stride)).for_each(|(sum, &x)| *sum = sum.add_product(x, weight));
    }
}

/// Rounds one row of sums into the output.
///
/// # Safety
/// The output is live for its extent and writable; the indices and the row's length lie inside its dimensions.
unsafe fn store_row<T: Number>(layout: &Layout, data: *mut u8, head: [usize; 2], outer: &[usize], row: &[T]) {
    let size = hipdnn_abi::data_type_bytes(layout.data_type).unwrap_or(0);
    let step = layout.strides.last().copied().unwrap_or(0) * size;
    let start = row_offset(layout, head, outer) * size;
    for (i, &sum) in row.iter().enumerate() {
        // SAFETY: an element inside the tensor's dimensions, hence inside its extent.
        unsafe { sum.store(layout.data_type, data.add(start + i * step)) };
    }
}
