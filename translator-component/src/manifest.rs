//! What this component says about itself, collected from the rule tables of the families.

use alloc::{string::ToString, vec, vec::Vec};

use crate::{
    contract::manifest::{Description, Entry},
    conv,
};

/// The component's description: name, version, families, and every rule and note there is.
pub fn describe() -> Description {
    Description {
        name: "hipdnn-shim".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        families: vec!["conv".to_string()],
        rules: conv::RULES.iter().map(|rule| entry(rule.id, rule.reason)).collect::<Vec<_>>(),
        notes: conv::NOTES.iter().map(|note| entry(note.id, note.reason)).collect::<Vec<_>>(),
    }
}

fn entry(id: &str, reason: &str) -> Entry {
    Entry { id: id.to_string(), reason: reason.to_string() }
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
        for entry in description.rules.iter().chain(&description.notes) {
            assert!(!entry.reason.is_empty() && !entry.reason.contains('\n'), "{}", entry.id);
            assert!(entry.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-'), "{}", entry.id);
        }
    }
}
