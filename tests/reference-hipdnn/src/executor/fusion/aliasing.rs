//! Which tensors of an execution may share memory: none with an output, but one that is read at the same index before it is written, as
//! the old y in y = alpha · conv(x, w) + beta · y. The two are tensors of the graph with the same layout, bound to one address.
//!
//! Here an operation is finished before the next one starts, and much more would work; engines that fuse operations into one kernel
//! would not, and a client must not find out there.

use super::{Arguments, Checked, Flow, Layout};
use crate::{
    error::{Error, Result},
    graph::{Graph, Tensor},
};

/// What is checked before every execution.
pub(super) struct Aliasing(Vec<Pair>);

/// An output and another tensor in memory.
struct Pair {
    output: Span,
    other: Span,
    /// Whether they may have the same address.
    same: bool,
}

/// A tensor's place and size in bytes.
#[derive(Clone, Copy)]
struct Span {
    uid: i64,
    bytes: usize,
}

impl Aliasing {
    pub(super) fn new(graph: &Graph, flow: &Flow) -> Checked<Self> {
        let in_memory: Vec<&Tensor> = graph.tensors.iter().map(AsRef::as_ref).filter(|tensor| tensor.needs_pointer()).collect();
        let span = |tensor: &Tensor| Layout::new(tensor).map(|layout| Span { uid: tensor.uid, bytes: layout.bytes });
        let mut pairs = Vec::new();
        for output in in_memory.iter().filter(|tensor| flow.writers.contains_key(&tensor.uid)) {
            for other in in_memory.iter().filter(|tensor| tensor.uid != output.uid) {
                let same = same_layout(output, other) && flow.is_read_in_time(other.uid, output.uid);
                pairs.push(Pair { output: span(output)?, other: span(other)?, same });
            }
        }
        Ok(Self(pairs))
    }

    pub(super) fn check(&self, arguments: &Arguments) -> Result<()> {
        for Pair { output, other, same } in &self.0 {
            let (first, second) = (arguments.address(output.uid)?.addr(), arguments.address(other.uid)?.addr());
            let overlap = first < second.saturating_add(other.bytes) && second < first.saturating_add(output.bytes);
            if overlap && !(*same && first == second) {
                return Err(Error::bad(format!("output {} and tensor {} overlap", output.uid, other.uid)));
            }
        }
        Ok(())
    }
}

impl Flow {
    /// Whether all that read a tensor are pointwise operations up to the one that writes the output, and on its side of the contraction:
    /// only there an index stays an index.
    fn is_read_in_time(&self, uid: i64, output: i64) -> bool {
        let (Some(&writer), Some(readers)) = (self.writers.get(&output), self.readers.get(&uid)) else { return false };
        let side = |place: usize| self.contraction.map(|contraction| place.cmp(&contraction));
        let pointwise = |place: usize| self.contraction != Some(place);
        pointwise(writer) && readers.iter().all(|&place| place <= writer && pointwise(place) && side(place) == side(writer))
    }
}

/// Whether an index means the same element of memory in both. Strides along single elements mean nothing.
fn same_layout(a: &Tensor, b: &Tensor) -> bool {
    let strides = |tensor: &Tensor| Layout::new(tensor).ok().map(|layout| layout.strides);
    a.data_type == b.data_type && a.dims == b.dims && strides(a) == strides(b)
}
