//! For tests of what compares results: with a variable set, the first element of every output comes out wrong.

use std::sync::LazyLock;

use crate::{error::Result, executor::Arguments, graph::Graph, stream};

static IS_WRONG: LazyLock<bool> = LazyLock::new(|| std::env::var_os("REFERENCE_HIPDNN_WRONG").is_some_and(|value| !value.is_empty()));

/// The outputs of a graph, if they shall be wrong: unique ids, and bytes of an element.
pub(super) struct Spoiler(Vec<(i64, usize)>);

impl Spoiler {
    pub(super) fn new(graph: &Graph) -> Self {
        let outputs = graph.tensors.iter().filter(|tensor| *IS_WRONG && tensor.needs_pointer() && graph.writes(tensor.uid));
        Self(outputs.map(|tensor| (tensor.uid, hipdnn_abi::data_type_bytes(tensor.data_type).unwrap_or(1))).collect())
    }

    /// Makes them wrong, in the order of the stream: a bit of the first element's highest byte changes, which in every type is at least
    /// 2, or half of all there is.
    ///
    /// # Safety
    /// The outputs are live and writable.
    pub(super) unsafe fn spoil(&self, arguments: &Arguments, stream: usize) -> Result<()> {
        for &(uid, bytes) in &self.0 {
            let last = arguments.address(uid)?.wrapping_add(bytes - 1).expose_provenance();
            stream::queue(stream, move || {
                let last = std::ptr::with_exposed_provenance_mut::<u8>(last);
                // SAFETY: by the contract of `spoil`: a byte of the output's first element.
                unsafe { last.write(last.read() ^ 0x40) };
            })?;
        }
        Ok(())
    }
}
