//! Convolution descriptors.

use hipdnn_host::problem::{ConvolutionDescriptor, ConvolutionFields};
use miopen_api::convolution_attribute;

use super::{read, wide};
use crate::{convert, frame::Frame, routing::Forwarding};

/// What the operator asks of every convolution, whatever its program set.
fn imposed(fields: ConvolutionFields, forwarding: &Forwarding) -> ConvolutionFields {
    if forwarding.host.settings().deterministic {
        return with_attribute(fields, convolution_attribute::DETERMINISTIC.cast_unsigned(), 1);
    }
    fields
}

fn with_attribute(mut fields: ConvolutionFields, number: u32, value: i64) -> ConvolutionFields {
    match fields.attributes.binary_search_by_key(&number, |(n, _)| *n) {
        Ok(position) => fields.attributes[position].1 = value,
        Err(position) => fields.attributes.insert(position, (number, value)),
    }
    fields
}

fn keep(frame: &Frame, forwarding: &Forwarding, fields: Option<ConvolutionFields>) {
    let convolutions = forwarding.records.convolutions.pin();
    let address = frame.integer(0) as usize;
    match fields.map(|fields| ConvolutionDescriptor::new(imposed(fields, forwarding))) {
        Some(Ok(record)) => drop(convolutions.insert(address, record)),
        Some(Err(_)) | None => drop(convolutions.remove(&address)),
    }
}

/// Edits the recorded fields, if there are any.
fn edit(frame: &Frame, forwarding: &Forwarding, success: bool, edit: impl FnOnce(&mut ConvolutionFields)) {
    let known = forwarding.records.convolutions.pin().get(&(frame.integer(0) as usize)).map(|record| record.fields().clone());
    let edited = known.filter(|_| success).map(|mut fields| {
        edit(&mut fields);
        fields
    });
    keep(frame, forwarding, edited);
}

/// `miopenInitConvolutionDescriptor(desc, mode, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w)`.
pub fn init(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let pair = |n| vec![i64::from(frame.int(n)), i64::from(frame.int(n + 1))];
    keep(frame, forwarding, success.then(|| ConvolutionFields::initial(convert::mode(frame.int(1)), pair(2), pair(4), pair(6))));
}

/// `miopenInitConvolutionNdDescriptor(desc, spatial rank, pads, strides, dilations, mode)`.
pub fn init_nd(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = |n| read::<i32>(frame.pointer(n), usize::try_from(frame.int(1)).unwrap_or(usize::MAX)).map(wide);
    let fields = || Some(ConvolutionFields::initial(convert::mode(frame.int(5)), values(2)?, values(3)?, values(4)?));
    keep(frame, forwarding, if success { fields() } else { None });
}

/// `miopenSetConvolutionGroupCount(desc, groups)`.
pub fn set_group_count(frame: &Frame, forwarding: &Forwarding, success: bool) {
    edit(frame, forwarding, success, |fields| fields.group_count = i64::from(frame.int(1)));
}

/// `miopenSetTransposeConvOutputPadding(desc, adj_h, adj_w)`.
pub fn set_output_padding(frame: &Frame, forwarding: &Forwarding, success: bool) {
    edit(frame, forwarding, success, |fields| fields.output_pads = vec![i64::from(frame.int(1)), i64::from(frame.int(2))]);
}

/// `miopenSetTransposeConvNdOutputPadding(desc, spatial rank, adj)`.
pub fn set_output_padding_nd(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let values = read::<i32>(frame.pointer(2), usize::try_from(frame.int(1)).unwrap_or(usize::MAX)).map(wide);
    edit(frame, forwarding, success && values.is_some(), |fields| fields.output_pads = values.unwrap_or_default());
}

/// `miopenSetConvolutionAttribute(desc, attribute, value)`.
pub fn set_attribute(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let (number, value) = (frame.int(1).cast_unsigned(), i64::from(frame.int(2)));
    // Unlike other setters, this one is called for attributes that a release may not have (PyTorch and the math type), and leaves the
    // descriptor as it was if it fails.
    if !success {
        return;
    }
    edit(frame, forwarding, true, |fields| *fields = with_attribute(fields.clone(), number, value));
}

/// `miopenDestroyConvolutionDescriptor(desc)`.
pub fn forget(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.convolutions.pin().remove(&(frame.integer(0) as usize));
}
