//! Executions on a stream: queued in its order, or recorded when it is capturing.

use hipdnn_abi::status;

use crate::error::{Error, Result};

/// Queues the work on a stream; a capturing stream has it run whenever the captured graph is launched.
pub(crate) fn queue(stream: usize, work: impl Fn() + Send + Sync + 'static) -> Result<()> {
    hip_queue::queue(stream, work).map_err(|error| Error::new(status::EXECUTION_FAILED, format!("queueing work on the stream: {error}")))
}
