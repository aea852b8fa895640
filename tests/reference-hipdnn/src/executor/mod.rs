//! Executors: what can run graphs. The traits are the seam behind which a second one (another library on another device) can be put
//! under the same descriptors.
//!
//! [`Reference`] and [`MiopenProvider`] run on the CPU, which `cpu` puts under handles: `fusion` makes steps of a whole graph, which are
//! operations of `convolution`, `matmul` and
//! `pointwise`; all of them stand on `layout` (where elements lie) and `element` (what they are).

mod convolution;
pub(crate) mod cpu;
mod element;
mod fusion;
mod layout;
mod matmul;
mod miopen_provider;
mod pointwise;
mod reference;

use std::{any::Any, collections::BTreeMap, sync::OnceLock};

pub use self::{miopen_provider::MiopenProvider, reference::Reference};
use crate::{
    engine::Session,
    error::{Error, Result},
    graph::Graph,
};

/// Why an executor does not run a graph.
pub type Refusal = String;

/// An integer that can be chosen for a plan.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names of KNOB_INFO")]
pub struct Knob {
    pub id: &'static str,
    pub description: &'static str,
    pub default: i64,
    pub minimum: i64,
    pub maximum: i64,
}

/// An engine.
pub trait Executor: Send + Sync {
    /// The engine's name.
    fn name(&self) -> &str;

    /// The engine's id: a hash of its name.
    fn id(&self) -> i64 {
        fnv1a(self.name().as_bytes())
    }

    /// `hipdnnBackendBehaviorNote_t` values.
    fn notes(&self) -> &[i32];

    /// What can be chosen.
    fn knobs(&self) -> &'static [Knob] {
        &[]
    }

    /// Whether it can run the graph: an upper bound of the bytes of workspace, or why not. Cheap; total over all graphs.
    fn check(&self, graph: &Graph) -> std::result::Result<usize, Refusal>;

    /// Prepares to run a graph that [`Executor::check`] accepted.
    fn compile(&self, graph: &Graph) -> Result<Box<dyn Executable>>;
}

/// A compiled graph. May be executed by several threads at once.
pub trait Executable: Send + Sync {
    /// Bytes of workspace that an execution needs.
    fn workspace(&self) -> usize;

    /// What a saved plan holds beyond the graph.
    fn payload(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Runs it on the stream of the call's handle.
    ///
    /// # Safety
    /// Every argument's memory is live for the extent of its tensor, outputs are writable, and the workspace is writable for
    /// [`Executable::workspace`] bytes and overlaps no argument.
    unsafe fn execute(&self, call: &Call<'_>) -> Result<()>;
}

/// One execution.
pub struct Call<'a> {
    /// The addresses.
    pub arguments: &'a Arguments,
    /// As many bytes as [`Executable::workspace`] says.
    pub workspace: *mut u8,
    /// What an earlier execution made of the same addresses.
    pub memo: &'a Memo,
    /// Of the handle.
    pub session: &'a dyn Session,
}

/// Where an executable keeps what it makes of the addresses of a variant pack, for further executions with the same pack.
pub type Memo = OnceLock<Box<dyn Any + Send + Sync>>;

/// What an execution does, to be queued on its stream. Runs again whenever a captured graph is launched.
type Work = Box<dyn Fn() + Send + Sync>;

/// The addresses of an execution, by unique id: of every tensor that is neither virtual nor a constant. For run-time scalars they are
/// host addresses.
#[derive(Clone, Debug, Default)]
pub struct Arguments(BTreeMap<i64, usize>);

impl Arguments {
    pub(crate) fn new(addresses: BTreeMap<i64, usize>) -> Self {
        Self(addresses)
    }

    /// With the addresses of further tensors.
    fn with(&self, others: impl IntoIterator<Item = (i64, usize)>) -> Self {
        Self(self.0.iter().map(|(&uid, &address)| (uid, address)).chain(others).collect())
    }

    /// The address of a tensor.
    pub fn address(&self, uid: i64) -> Result<*mut u8> {
        let address = self.0.get(&uid).copied().ok_or_else(|| Error::bad(format!("no address for tensor {uid}")))?;
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }
}

/// The 64-bit FNV-1a hash: of names it gives hipDNN's ids, of files a checksum (each byte that changes, changes it).
pub fn fnv1a(bytes: &[u8]) -> i64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_published_hashes() {
        assert_eq!(MiopenProvider.id(), 1_563_989_756_945_604_898);
        assert_eq!(fnv1a(b"SelectionHeuristic::StaticOrdering"), -5_112_828_146_460_458_467);
    }
}
