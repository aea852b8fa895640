//! Variant packs: which pointer stands for which tensor in one execution.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use hipdnn_abi::attribute;

use super::{Built, Kind, Object};
use crate::{
    error::{Error, Result},
    execute::Addresses,
};

/// A finalized variant pack. Addresses are the caller's and are looked at only by an execution.
pub(crate) struct Pack {
    pub(crate) pointers: BTreeMap<i64, usize>,
    pub(crate) workspace: usize,
    pub(crate) overrides: bool,
    /// What its first execution made of it.
    pub(crate) addresses: OnceLock<Addresses>,
}

pub(super) struct PackKind;

impl Kind for PackKind {
    fn finalize(&self, object: &Arc<Object>) -> Result<Built> {
        let uids = object.value(attribute::VARIANT_PACK_UNIQUE_IDS);
        let addresses = object.value(attribute::VARIANT_PACK_DATA_POINTERS);
        let (uids, addresses) = (uids.as_ref().map_or(&[][..], |v| v.int64s()), addresses.as_ref().map_or(&[][..], |v| v.addresses()));
        if uids.len() != addresses.len() {
            return Err(Error::bad(format!("{} unique ids, but {} pointers", uids.len(), addresses.len())));
        }
        let pointers: BTreeMap<i64, usize> = uids.iter().copied().zip(addresses.iter().copied()).collect();
        if pointers.len() != uids.len() {
            return Err(Error::bad("a unique id twice"));
        }
        let overrides = check_overrides(object, &pointers)?;
        let workspace = object.value(attribute::VARIANT_PACK_WORKSPACE).and_then(|value| value.addresses().first().copied());
        Ok(Built::Pack(Arc::new(Pack { pointers, workspace: workspace.unwrap_or(0), overrides, addresses: OnceLock::new() })))
    }
}

/// Whether the pack overrides shapes; if so, the four attributes must fit together.
fn check_overrides(object: &Object, pointers: &BTreeMap<i64, usize>) -> Result<bool> {
    let group = [
        attribute::VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT,
        attribute::VARIANT_PACK_OVERRIDE_LENGTHS_EXT,
        attribute::VARIANT_PACK_OVERRIDE_SHAPES_EXT,
        attribute::VARIANT_PACK_OVERRIDE_STRIDES_EXT,
    ];
    let values: Vec<_> = group.into_iter().filter_map(|number| object.value(number)).collect();
    let [uids, lengths, shapes, strides] = values.iter().map(|value| value.int64s()).collect::<Vec<_>>()[..] else {
        return if values.is_empty() { Ok(false) } else { Err(Error::bad("only some of the override attributes are set")) };
    };
    let unique = uids.iter().collect::<std::collections::BTreeSet<_>>().len() == uids.len();
    if !unique || uids.iter().any(|uid| !pointers.contains_key(uid)) {
        return Err(Error::bad("override unique ids must be unique and in the pack"));
    }
    if lengths.len() != uids.len() || lengths.iter().any(|&length| length <= 0) {
        return Err(Error::bad("one positive override length is needed for each override unique id"));
    }
    let total = lengths.iter().try_fold(0i64, |sum, &length| sum.checked_add(length));
    if total != Some(shapes.len() as i64) || total != Some(strides.len() as i64) {
        return Err(Error::bad("override shapes and strides must be as long as the lengths say"));
    }
    Ok(true)
}
