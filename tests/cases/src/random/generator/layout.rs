//! Strides: every way in which programs put tensors of some lengths into memory.

use super::Source;

/// How the elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The last dimension innermost.
    Packed,
    /// Channels innermost.
    ChannelsLast,
    /// Any order of dimensions.
    Permuted,
    /// Packed, with rows longer than they are.
    PaddedRows,
    /// Packed or channels last, a part of something larger in every dimension.
    Sliced,
    /// Any order, and gaps.
    Wild,
}

/// Any of them, the usual ones more often.
pub fn any(source: &mut Source) -> Layout {
    use Layout::{ChannelsLast, Packed, PaddedRows, Permuted, Sliced, Wild};
    source.one(&[Packed, Packed, Packed, Packed, Packed, ChannelsLast, ChannelsLast, ChannelsLast, Permuted, PaddedRows, Sliced, Wild])
}

/// Strides of a layout. Those of lengths 1 mean nothing, and are then sometimes something else.
pub fn strides(source: &mut Source, layout: Layout, dims: &[usize]) -> Vec<usize> {
    let rank = dims.len();
    let first: Vec<usize> = (0..rank).collect();
    let last: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let mut strides = match layout {
        Layout::Packed => nested(source, dims, &first, &[]),
        Layout::ChannelsLast => nested(source, dims, &last, &[]),
        Layout::Permuted => {
            let order = source.order(rank);
            nested(source, dims, &order, &[])
        }
        Layout::PaddedRows => nested(source, dims, &first, &[rank - 1]),
        Layout::Sliced => {
            let order = if source.percent(50) { &first } else { &last };
            nested(source, dims, order, &first)
        }
        Layout::Wild => {
            let order = source.order(rank);
            nested(source, dims, &order, &first)
        }
    };
    if source.percent(30) {
        for (stride, _) in strides.iter_mut().zip(dims).filter(|(_, dim)| **dim == 1) {
            *stride = source.between(1, 40);
        }
    }
    strides
}

/// Strides in an order of dimensions, outermost first. Those that are part of something larger lie in it with elements on both sides.
fn nested(source: &mut Source, dims: &[usize], order: &[usize], parts: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    let mut next = if parts.len() > 1 && source.percent(25) { 2 } else { 1 };
    for &axis in order.iter().rev() {
        strides[axis] = next;
        let more = if parts.contains(&axis) { source.between(0, 2) } else { 0 };
        next *= dims[axis] + more;
    }
    strides
}
