//! Knob descriptors: what an engine can be told (KNOB_INFO), and what it is told (KNOB_CHOICE).

use std::sync::Arc;

use hipdnn_abi::{attribute, attribute_type, descriptor_type};

use super::{Built, Kind, Object, finalized_twice};
use crate::{
    error::{Error, Result},
    executor::Knob,
    value::Value,
};

/// Bytes of a knob's id.
const MAX_ID: usize = 4096;
/// Bytes of a knob's text value or description.
const MAX_TEXT: usize = 65536;

/// The KNOB_INFO descriptor of an engine's knob.
pub(super) fn info(knob: &Knob) -> Result<Arc<Object>> {
    let values = [
        (attribute::KNOB_INFO_TYPE, Value::Bytes(knob.id.into())),
        (attribute::KNOB_INFO_DESCRIPTION, Value::Bytes(knob.description.into())),
        (attribute::KNOB_INFO_DEFAULT_VALUE, Value::Int64(vec![knob.default])),
        (attribute::KNOB_INFO_MINIMUM_VALUE, Value::Int64(vec![knob.minimum])),
        (attribute::KNOB_INFO_MAXIMUM_VALUE, Value::Int64(vec![knob.maximum])),
        (attribute::KNOB_INFO_STRIDE, Value::Int64(vec![1])),
    ];
    Object::finalized(descriptor_type::BACKEND_KNOB_INFO_DESCRIPTOR, values)
}

/// The knob and value of a KNOB_CHOICE descriptor.
pub(super) fn choice(object: &Object) -> (String, Value) {
    let id = object.value(attribute::KNOB_CHOICE_KNOB_TYPE).map(|value| String::from_utf8_lossy(value.bytes()).into_owned());
    (id.unwrap_or_default(), object.value(attribute::KNOB_CHOICE_KNOB_VALUE).unwrap_or(Value::Bytes(Vec::new())))
}

pub(super) struct KnobInfo;

impl Kind for KnobInfo {
    fn accept(&self, object: &Object, number: i32, value: Value) -> Result<Value> {
        let positive = |n: i64| if n > 0 { Ok(()) } else { Err(Error::bad(format!("{} must be positive", object.name(number)))) };
        match number {
            attribute::KNOB_INFO_TYPE => check_length(object, number, &value, 1, MAX_ID)?,
            attribute::KNOB_INFO_DESCRIPTION => check_length(object, number, &value, 0, MAX_TEXT)?,
            attribute::KNOB_INFO_STRIDE => value.int64s().iter().try_for_each(|&n| positive(n))?,
            attribute::KNOB_INFO_STRING_MAX_LENGTH => value.int32s().iter().try_for_each(|&n| positive(n.into()))?,
            _ => {}
        }
        Ok(value)
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let set = |number| object.value(number).is_some();
        if set(attribute::KNOB_INFO_MINIMUM_VALUE) != set(attribute::KNOB_INFO_MAXIMUM_VALUE) {
            return Err(Error::bad("a knob with only one of minimum and maximum"));
        }
        Ok(Built::Attributes)
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        if number != attribute::KNOB_INFO_DEFAULT_VALUE_TYPE {
            return Ok(None);
        }
        let default = object.value(attribute::KNOB_INFO_DEFAULT_VALUE);
        let types = [attribute_type::INT64, attribute_type::DOUBLE, attribute_type::CHAR];
        let wire = default.and_then(|value| types.into_iter().find(|&wire| value.has_type(wire)));
        Ok(wire.map(|wire| Value::Int64(vec![wire.into()])))
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}

pub(super) struct KnobChoice;

impl Kind for KnobChoice {
    fn accept(&self, object: &Object, number: i32, value: Value) -> Result<Value> {
        match number {
            attribute::KNOB_CHOICE_KNOB_TYPE => check_length(object, number, &value, 1, MAX_ID)?,
            _ => check_length(object, number, &value, 0, MAX_TEXT)?,
        }
        Ok(value)
    }

    fn finalize_again(&self) -> Result<()> {
        finalized_twice()
    }
}

fn check_length(object: &Object, number: i32, value: &Value, least: usize, most: usize) -> Result<()> {
    let length = value.bytes().len();
    let fits = !matches!(value, Value::Bytes(_)) || (least..=most).contains(&length);
    if fits { Ok(()) } else { Err(Error::bad(format!("{} does not take {length} bytes", object.name(number)))) }
}
