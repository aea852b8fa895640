//! What this component says about itself, collected from the rule tables of the families.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use crate::{
    contract::manifest::{Description, Entry},
    conv, fusion,
};

/// The component's description: name, version, families, and every rule and note there is.
pub fn describe() -> Description {
    Description {
        name: "hipdnn-shim".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        families: ["conv", "fusion", "activation"].map(String::from).to_vec(),
        // Those of activations are those of chains.
        rules: entries(
            conv::RULES.iter().map(|rule| (rule.id, rule.reason)).chain(fusion::RULES.iter().map(|rule| (rule.id, rule.reason))),
        ),
        // Those of chains are those of their convolutions.
        notes: entries(conv::NOTES.iter().map(|note| (note.id, note.reason))),
    }
}

/// Families share rules: each is listed once, where it comes first.
fn entries<'a>(listed: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (id, reason) in listed {
        if entries.iter().all(|entry| entry.id != id) {
            entries.push(Entry { id: String::from(id), reason: String::from(reason) });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_reasons_are_one_line() {
        let description = describe();
        // A note may have the id of a rule.
        for entries in [&description.rules, &description.notes] {
            let ids: BTreeSet<_> = entries.iter().map(|e| &e.id).collect();
            assert_eq!(ids.len(), entries.len());
        }
        let shared = |id: &str| conv::RULES.iter().find(|rule| rule.id == id).map(|rule| rule.reason);
        assert!(fusion::RULES.iter().all(|rule| shared(rule.id).is_none_or(|reason| reason == rule.reason)), "one id, one meaning");
        for entry in description.rules.iter().chain(&description.notes) {
            assert!(!entry.reason.is_empty() && !entry.reason.contains('\n'), "{}", entry.id);
            assert!(entry.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-'), "{}", entry.id);
        }
    }
}
