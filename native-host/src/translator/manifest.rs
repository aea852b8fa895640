//! What a translator may say about itself: asked by whoever takes one, and by the offline tools. One list.

use std::collections::HashSet;

use crate::component::{Description, Entry};

/// Rules, notes or families.
const MAX_ENTRIES: usize = 4096;
/// Bytes of a name, an id or a reason.
const MAX_TEXT: usize = 1024;
/// Characters of an id that a message shows.
const SHOWN: usize = 60;

/// What is wrong with a manifest, in one line each; none if nothing is. Which families there are is not asked: a translator may have more than
/// a host.
pub fn faults(description: &Description) -> Vec<String> {
    let mut faults = Vec::new();
    let lists = [("rule", &description.rules), ("note", &description.notes)];
    if description.families.len() > MAX_ENTRIES || lists.iter().any(|(_, entries)| entries.len() > MAX_ENTRIES) {
        return vec![format!("its manifest lists more than {MAX_ENTRIES} families, rules or notes")];
    }
    if !is_line(&description.name) {
        faults.push("it has no name of one line".into());
    }
    if description.version.is_empty() {
        faults.push("it has no version".into());
    } else if !is_semantic(&description.version) {
        faults.push(format!("its version {} is no semantic version", shown(&description.version)));
    }
    if description.families.is_empty() {
        faults.push("its manifest lists no family".into());
    }
    let odd = description.families.iter().filter(|family| !is_line(family));
    faults.extend(odd.map(|family| format!("{} is no name of a family", shown(family))));
    for (what, entries) in lists {
        let mut seen = HashSet::new();
        for entry in entries {
            let id = shown(&entry.id);
            let mut wrong = |detail: &str| faults.push(format!("{what} {id} {detail}"));
            faults_of_entry(entry, &mut wrong);
            if !seen.insert(&entry.id) {
                wrong("is listed twice");
            }
        }
    }
    faults
}

fn faults_of_entry(Entry { id, reason }: &Entry, wrong: &mut impl FnMut(&str)) {
    if !is_line(id) || id.chars().any(char::is_whitespace) {
        wrong("is no id");
    }
    if id.starts_with("host.") {
        wrong("has a name of the host's");
    }
    if !is_line(reason) || reason.trim().is_empty() {
        wrong("has no reason of one line");
    }
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control)
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(SHOWN).collect::<String>())
}

/// MAJOR.MINOR.PATCH, with whatever a semantic version may have behind it.
fn is_semantic(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() == 3 && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let entry = |id: &str| Entry { id: id.into(), reason: "because".into() };
        Description {
            name: "one".into(),
            version: "1.2.3-rc.1+4".into(),
            families: vec!["conv".into()],
            rules: vec![entry("a.b"), entry("a.c")],
            notes: vec![entry("a.b")],
        }
    }

    #[test]
    fn what_a_manifest_may_not_say() {
        assert_eq!(faults(&description()), [] as [String; 0]);
        type Bend = fn(&mut Description);
        let bends: [(Bend, &str); 8] = [
            (|d| d.name.clear(), "name"),
            (|d| d.name = "two\nlines".into(), "name"),
            (|d| d.version = "1.2".into(), "semantic"),
            (|d| d.families.clear(), "no family"),
            (|d| d.rules[0].id = "host.stack".into(), "host's"),
            (|d| d.rules[0].id = "a.c".into(), "twice"),
            (|d| d.rules[0].reason = "x".repeat(MAX_TEXT + 1), "reason"),
            (|d| d.notes = vec![d.notes[0].clone(); MAX_ENTRIES + 1], "more than"),
        ];
        for (bend, says) in bends {
            let mut bent = description();
            bend(&mut bent);
            let faults = faults(&bent);
            assert!(faults.len() == 1 && faults[0].contains(says), "{faults:?}");
        }
    }
}
