//! Graphs, as capture makes them.

use crate::{
    cuda::{Address, call},
    error::Code,
};

pub unsafe extern "C" fn hipGraphInstantiate(
    out: *mut Address,
    graph: Address,
    _error_node: *mut Address,
    _log: *mut u8,
    _log_size: usize,
) -> Code {
    // SAFETY: the caller's graph and pointer. No flags are set; CUDA 12 and later have no node and log to answer.
    call(|cuda| unsafe { (cuda.graph_instantiate)(out, graph, 0) })
}

pub extern "C" fn hipGraphLaunch(executable: Address, stream: Address) -> Code {
    // SAFETY: the caller's executable and stream.
    call(|cuda| unsafe { (cuda.graph_launch)(executable, stream) })
}

pub extern "C" fn hipGraphDestroy(graph: Address) -> Code {
    // SAFETY: the caller's graph, which it gives up.
    call(|cuda| unsafe { (cuda.graph_destroy)(graph) })
}

pub extern "C" fn hipGraphExecDestroy(executable: Address) -> Code {
    // SAFETY: the caller's executable, which it gives up.
    call(|cuda| unsafe { (cuda.executable_destroy)(executable) })
}
