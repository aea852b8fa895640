//! Walking through several tensors at equal indices: as few and as long runs as their strides allow.
//!
//! Nothing here knows what is computed.

/// A run of elements with one stride in each tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<const N: usize> {
    pub(super) count: usize,
    /// Of its first element in each tensor, in elements.
    pub(super) offsets: [usize; N],
}

#[derive(Clone, Copy, Debug)]
struct Axis<const N: usize> {
    count: usize,
    strides: [usize; N],
}

/// The common indices of `N` tensors.
#[derive(Clone, Debug)]
pub(super) struct Walk<const N: usize> {
    /// Outermost first.
    outer: Vec<Axis<N>>,
    inner: Axis<N>,
}

impl<const N: usize> Walk<N> {
    /// The product of `dims` must fit into memory's numbers. Runs go along the smallest stride of the first tensor.
    pub(super) fn new(dims: &[usize], strides: [&[usize]; N]) -> Self {
        let axis = |(i, &count): (usize, &usize)| Axis { count, strides: strides.map(|strides| strides.get(i).copied().unwrap_or(0)) };
        let mut axes: Vec<Axis<N>> = dims.iter().enumerate().filter(|(_, count)| **count != 1).map(axis).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.strides.first().copied()));
        let mut outer: Vec<Axis<N>> = Vec::new();
        for axis in axes {
            match outer.last_mut() {
                Some(last) if last.continues(axis) => *last = Axis { count: last.count * axis.count, strides: axis.strides },
                _ => outer.push(axis),
            }
        }
        let inner = outer.pop().unwrap_or(Axis { count: 1, strides: [0; N] });
        Self { outer, inner }
    }

    /// Between the elements of a run, in each tensor.
    pub(super) fn steps(&self) -> [usize; N] {
        self.inner.strides
    }

    /// Runs of at most `longest` elements, which together are all indices, each once.
    pub(super) fn runs(&self, longest: usize) -> impl Iterator<Item = Run<N>> {
        let rows = self.outer.iter().map(|axis| axis.count).product::<usize>();
        (0..rows).flat_map(move |row| {
            let start = self.offsets(row);
            (0..self.inner.count).step_by(longest).map(move |first| Run {
                count: longest.min(self.inner.count - first),
                offsets: std::array::from_fn(|i| start[i] + first * self.inner.strides[i]),
            })
        })
    }

    fn offsets(&self, mut row: usize) -> [usize; N] {
        let mut offsets = [0; N];
        for axis in self.outer.iter().rev() {
            let index = row % axis.count;
            row /= axis.count;
            offsets.iter_mut().zip(axis.strides).for_each(|(offset, stride)| *offset += index * stride);
        }
        offsets
    }
}

impl<const N: usize> Axis<N> {
    /// Whether one axis can stand for this one and a next inner one, in every tensor.
    fn continues(&self, inner: Self) -> bool {
        self.strides.iter().zip(inner.strides).all(|(&outer, stride)| stride.checked_mul(inner.count) == Some(outer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_layouts_are_one_run() {
        let walk = Walk::new(&[2, 3, 4], [&[12, 4, 1], &[12, 4, 1]]);
        let runs: Vec<_> = walk.runs(100).map(|run| (run.count, run.offsets)).collect();
        assert_eq!((runs, walk.steps()), (vec![(24, [0, 0])], [1, 1]));
        let last = Walk::new(&[2, 3, 4], [&[12, 1, 3], &[12, 1, 3]]);
        assert_eq!(last.runs(100).count(), 1, "channel last as well");
    }

    #[test]
    fn repeated_elements_stay_where_they_are() {
        let walk = Walk::new(&[2, 3, 4], [&[12, 4, 1], &[0, 1, 0]]);
        let runs: Vec<_> = walk.runs(3).map(|run| (run.count, run.offsets)).collect();
        assert_eq!(runs[..4], [(3, [0, 0]), (1, [3, 0]), (3, [4, 1]), (1, [7, 1])]);
        assert_eq!((runs.len(), walk.steps()), (12, [1, 0]));
    }

    #[test]
    fn a_single_element_is_a_run() {
        let walk = Walk::new(&[1, 1], [&[0, 0]]);
        assert_eq!(walk.runs(8).map(|run| run.count).collect::<Vec<_>>(), [1]);
    }
}
