//! Tensor descriptors: constants by value, defaults of what is not set, and what finalizing checks.

use std::sync::Arc;

use hipdnn_abi::attribute;

use super::{Built, Kind, Object};
use crate::{
    error::{Error, Result},
    graph::{DEFAULT_ALIGNMENT, Tensor},
    value::Value,
};

pub(super) struct TensorKind;

impl Kind for TensorKind {
    fn accept(&self, object: &Object, number: i32, value: Value) -> Result<Value> {
        match number {
            attribute::TENSOR_VALUE_EXT => check_constant(object, value.bytes().len())?,
            attribute::TENSOR_BYTE_ALIGNMENT => check_alignment(&value)?,
            _ => {}
        }
        Ok(value)
    }

    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let tensor = build(object)?;
        if tensor.dims.len() != tensor.strides.len() {
            return Err(Error::bad(format!("{} dimensions, but {} strides", tensor.dims.len(), tensor.strides.len())));
        }
        if let Some(value) = &tensor.value {
            check_constant(object, value.len())?;
        }
        Ok(Built::Tensor(Arc::new(tensor)))
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        if number == attribute::TENSOR_IS_BY_VALUE {
            return Ok(Some(Value::Bool(vec![object.value(attribute::TENSOR_VALUE_EXT).is_some()])));
        }
        Ok(object.value(number).or_else(|| default(number)))
    }
}

/// The value of an attribute that was not set, where the schema has one.
fn default(number: i32) -> Option<Value> {
    Some(match number {
        attribute::TENSOR_UNIQUE_ID => Value::Int64(vec![0]),
        attribute::TENSOR_BYTE_ALIGNMENT => Value::Int64(vec![DEFAULT_ALIGNMENT]),
        attribute::TENSOR_RAGGED_OFFSET_MULTIPLIER => Value::Int64(vec![1]),
        attribute::TENSOR_IS_VIRTUAL | attribute::TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT => Value::Bool(vec![false]),
        _ => return None,
    })
}

fn build(object: &Object) -> Result<Tensor> {
    let int64 = |number| object.int64(number).or_else(|| default(number).and_then(|v| v.int64s().first().copied())).unwrap_or_default();
    let int64s = |number| object.value(number).map(|value| value.int64s().to_vec()).unwrap_or_default();
    let ragged = object.value(attribute::TENSOR_RAGGED_OFFSET_DESC);
    Ok(Tensor {
        uid: int64(attribute::TENSOR_UNIQUE_ID),
        name: object.value(attribute::TENSOR_NAME_EXT).map(|value| value.bytes().to_vec()).unwrap_or_default(),
        data_type: object.int32(attribute::TENSOR_DATA_TYPE).ok_or_else(|| Error::bad("a tensor without data type"))?,
        dims: int64s(attribute::TENSOR_DIMENSIONS),
        strides: int64s(attribute::TENSOR_STRIDES),
        is_virtual: object.flag(attribute::TENSOR_IS_VIRTUAL),
        value: object.value(attribute::TENSOR_VALUE_EXT).map(|value| value.bytes().to_vec()),
        runtime_by_value: object.flag(attribute::TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT),
        alignment: int64(attribute::TENSOR_BYTE_ALIGNMENT),
        ragged_offsets: ragged.and_then(|value| value.descriptors().first().and_then(|child| child.int64(attribute::TENSOR_UNIQUE_ID))),
        ragged_multiplier: int64(attribute::TENSOR_RAGGED_OFFSET_MULTIPLIER),
    })
}

fn check_constant(object: &Object, bytes: usize) -> Result<()> {
    let data_type =
        object.int32(attribute::TENSOR_DATA_TYPE).ok_or_else(|| Error::bad("a constant's data type must be set before its value"))?;
    match hipdnn_abi::data_type_bytes(data_type) {
        Some(size) if size == bytes => Ok(()),
        Some(size) => Err(Error::bad(format!("a constant of {bytes} bytes, but its data type has {size}"))),
        None => Err(Error::bad(format!("no constants of data type {data_type}"))),
    }
}

fn check_alignment(value: &Value) -> Result<()> {
    match value.int64s().first() {
        Some(&alignment) if alignment > 0 && (alignment as u64).is_power_of_two() => Ok(()),
        other => Err(Error::bad(format!("{other:?} is no alignment"))),
    }
}
