//! Operation descriptors, all of them: the ABI table says what they take. Here is only what the table does not say: the two attributes
//! that every operation has, and which optional tensors go together.

use std::sync::Arc;

use hipdnn_abi::{AttributeSpec, Count, Need, attribute, attribute_type, descriptor_type};

use super::{Built, Kind, Object};
use crate::{
    error::{Error, Result},
    value::Value,
};

/// Attributes of every operation.
pub(super) static COMMON: &[AttributeSpec] = &[
    AttributeSpec {
        number: attribute::OPERATION_NAME_EXT,
        name: "HIPDNN_ATTR_OPERATION_NAME_EXT",
        types: &[attribute_type::CHAR],
        count: Count::Many,
        need: Need::Optional,
        access: None,
    },
    AttributeSpec {
        number: attribute::OPERATION_TYPE_EXT,
        name: "HIPDNN_ATTR_OPERATION_TYPE_EXT",
        types: &[attribute_type::OPERATION_TYPE_EXT],
        count: Count::One,
        need: Need::ReadOnly,
        access: None,
    },
];

/// Groups of conditional attributes: all of them, or none.
const TOGETHER: &[&[i32]] = &[
    &[
        attribute::OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT,
        attribute::OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT,
        attribute::OPERATION_BATCHNORM_MOMENTUM_EXT,
        attribute::OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT,
        attribute::OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT,
    ],
    &[attribute::OPERATION_BATCHNORM_MEAN_EXT, attribute::OPERATION_BATCHNORM_INV_VARIANCE_EXT],
    &[attribute::OPERATION_BATCHNORM_BACKWARD_MEAN_EXT, attribute::OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT],
    &[attribute::OPERATION_LAYERNORM_MEAN_EXT, attribute::OPERATION_LAYERNORM_INV_VARIANCE_EXT],
    &[attribute::OPERATION_LAYERNORM_BACKWARD_MEAN_EXT, attribute::OPERATION_LAYERNORM_BACKWARD_INV_VARIANCE_EXT],
];

/// `hipdnnOperationType_ext_t` counts the operations in an order of its own, which starts at 1.
const OPERATION_TYPES: &[i32] = &[
    descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_MATMUL_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_LAYERNORM_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_CUSTOM_OP_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_LAYERNORM_BACKWARD_DESCRIPTOR_EXT,
    descriptor_type::BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR,
    descriptor_type::BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR,
];

pub(super) struct Operation;

impl Kind for Operation {
    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let values = object.values();
        for group in TOGETHER {
            let set = group.iter().filter(|number| values.contains_key(number)).count();
            if set != 0 && set != group.len() {
                return Err(Error::bad(format!("{set} of {} attributes that go together with {}", group.len(), object.name(group[0]))));
            }
        }
        Ok(Built::Attributes)
    }

    fn computed(&self, object: &Object, number: i32) -> Result<Option<Value>> {
        let position = || OPERATION_TYPES.iter().position(|&kind| kind == object.kind()).map_or(0, |position| position as i32 + 1);
        Ok((number == attribute::OPERATION_TYPE_EXT).then(|| Value::Int32(vec![position()])))
    }
}
