//! Profiling control: triggers that start and stop a clock. Work here is done when a call returns, so the host's clock is the device's.

use std::{
    collections::HashMap,
    ffi::c_void,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use hipdnn_abi::attribute;
use parking_lot::Mutex;

use super::{Kind, Object, finalized_twice};
use crate::{error::Result, registry::HANDLES, value::Value};

/// Clocks by object. Few exist, and only while a test profiles, so they are no part of every object.
static CLOCKS: LazyLock<Mutex<HashMap<usize, Clock>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Clock {
    started: Option<Instant>,
    elapsed: Duration,
}

pub(super) struct Profiling;

impl Kind for Profiling {
    fn accept(&self, object: &Object, number: i32, value: Value) -> Result<Value> {
        let key = std::ptr::from_ref(object).addr();
        match number {
            attribute::PROFILING_HANDLE_EXT => {
                for &handle in value.addresses() {
                    HANDLES.get(std::ptr::without_provenance::<c_void>(handle))?;
                }
            }
            attribute::PROFILING_START_EXT if value.flag() => {
                CLOCKS.lock().insert(key, Clock { started: Some(Instant::now()), elapsed: Duration::ZERO });
            }
            attribute::PROFILING_STOP_EXT if value.flag() => {
                if let Some(clock) = CLOCKS.lock().get_mut(&key) {
                    clock.elapsed = clock.started.take().map_or(clock.elapsed, |start| start.elapsed());
                }
            }
            attribute::PROFILING_RESET_EXT if value.flag() => {
                CLOCKS.lock().remove(&key);
            }
            _ => {}
        }
        Ok(value)
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        let elapsed = || CLOCKS.lock().get(&std::ptr::from_ref(object).addr()).map_or(Duration::ZERO, |clock| clock.elapsed);
        Ok(match number {
            attribute::PROFILING_ELAPSED_MS_EXT => Some(Value::Float(vec![elapsed().as_secs_f32() * 1e3])),
            // There is no device that could be stalled.
            attribute::PROFILING_STALL_TIMED_OUT_EXT | attribute::PROFILING_STALL_USED_EXT => Some(Value::Bool(vec![false])),
            _ => None,
        })
    }

    fn finalize(&self, _object: &Arc<Object>) -> Result<super::Built> {
        Ok(super::Built::Attributes)
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}
