//! Profiling control: triggers that start and stop a clock. Work here is done when a call returns, so the host's clock is the device's.

use std::{
    ffi::c_void,
    sync::LazyLock,
    time::{Duration, Instant},
};

use hipdnn_abi::attribute;

use super::{Kind, Object, finalized_twice};
use crate::{error::Result, registry::HANDLES, value::Value};

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

pub(super) struct Profiling;

impl Kind for Profiling {
    /// Triggers cannot be read back, so what is stored for them is when they were pulled.
    fn accept(&self, _object: &Object, number: i32, value: Value) -> Result<Value> {
        if number == attribute::PROFILING_HANDLE_EXT {
            for &handle in value.addresses() {
                HANDLES.get(std::ptr::without_provenance::<c_void>(handle))?;
            }
            return Ok(value);
        }
        Ok(if value.flag() { Value::Int64(vec![EPOCH.elapsed().as_nanos() as i64]) } else { value })
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        Ok(match number {
            attribute::PROFILING_ELAPSED_MS_EXT => Some(Value::Float(vec![elapsed(object).as_secs_f32() * 1e3])),
            // There is no device that could be stalled.
            attribute::PROFILING_STALL_TIMED_OUT_EXT | attribute::PROFILING_STALL_USED_EXT => Some(Value::Bool(vec![false])),
            _ => None,
        })
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}

fn elapsed(object: &Object) -> Duration {
    let at = |number| object.int64(number);
    match (at(attribute::PROFILING_START_EXT), at(attribute::PROFILING_STOP_EXT), at(attribute::PROFILING_RESET_EXT)) {
        (Some(start), Some(stop), reset) if reset.is_none_or(|reset| reset <= stop) => Duration::from_nanos(stop.abs_diff(start)),
        _ => Duration::ZERO,
    }
}
