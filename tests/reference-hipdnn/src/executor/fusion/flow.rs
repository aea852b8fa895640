//! What goes from operation to operation: every tensor is written at most once, virtual ones before they are read, and nothing but
//! virtual tensors joins operations.

use std::collections::{BTreeMap, BTreeSet};

use hipdnn_abi::Access;

use super::{Checked, Convolution, Matmul};
use crate::graph::{Graph, Node};

/// Which operations write and read each tensor, by their places in the graph.
pub(super) struct Flow {
    pub(super) writers: BTreeMap<i64, usize>,
    pub(super) readers: BTreeMap<i64, BTreeSet<usize>>,
    /// The place of the convolution, or of the matrix product: where an index does not stay an index.
    pub(super) contraction: Option<usize>,
}

impl Flow {
    pub(super) fn new(graph: &Graph) -> Checked<Self> {
        let mut flow = Self { writers: BTreeMap::new(), readers: BTreeMap::new(), contraction: None };
        for (place, node) in graph.nodes.iter().enumerate() {
            flow.add(graph, place, node)?;
        }
        flow.check_ends(graph)?;
        Ok(flow)
    }

    fn add(&mut self, graph: &Graph, place: usize, node: &Node) -> Checked<()> {
        if (Convolution::is(node) || Matmul::is(node)) && self.contraction.replace(place).is_some() {
            return Err("more than one convolution or matrix product in one graph".into());
        }
        for uid in node.accesses(Access::Read) {
            let is_virtual = graph.tensor(uid).is_some_and(|tensor| tensor.is_virtual);
            if is_virtual && !self.writers.contains_key(&uid) {
                return Err(format!("virtual tensor {uid} is read before an operation writes it"));
            }
            self.readers.entry(uid).or_default().insert(place);
        }
        for uid in node.accesses(Access::Write) {
            if graph.tensor(uid).is_some_and(|tensor| tensor.value.is_some()) {
                return Err(format!("constant {uid} is written"));
            }
            if self.writers.insert(uid, place).is_some() {
                return Err(format!("tensor {uid} is written twice"));
            }
        }
        Ok(())
    }

    /// A virtual tensor must be read, and nothing else may be both read and written.
    fn check_ends(&self, graph: &Graph) -> Checked<()> {
        for &uid in self.writers.keys() {
            let is_virtual = graph.tensor(uid).is_some_and(|tensor| tensor.is_virtual);
            match (is_virtual, self.readers.contains_key(&uid)) {
                (true, false) => return Err(format!("nothing reads virtual tensor {uid}")),
                (false, true) => return Err(format!("tensor {uid} is written and read, but not virtual")),
                _ => {}
            }
        }
        Ok(())
    }
}
