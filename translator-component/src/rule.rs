//! What a decline rule is, and how a list of them is tried. No rule of any family lives here.

use alloc::string::{String, ToString};

use crate::contract::graph::{Capabilities, Decline};

/// One reason to leave a problem to native MIOpen. The id, the reason and the check stand in one value, so that no rule can exist
/// without an id, nor an id without a rule; the manifest is collected from these.
pub struct Rule<Problem> {
    /// Stable identifier, `family.subject.detail`.
    pub id: &'static str,
    /// One line for rule tables.
    pub reason: &'static str,
    /// `Some(message with the offending values)` if the problem must be declined. A check may rely on the rules before it having
    /// passed, and on nothing else.
    pub check: fn(&Problem, &Capabilities) -> Option<String>,
}

/// Something that a translation does differently from what the caller asked for, without changing the result's meaning.
pub struct Note<Problem> {
    /// Stable identifier, like a rule's. It may be that of a rule, under which the host then declines if no engine takes the graph.
    pub id: &'static str,
    /// One line for rule tables.
    pub reason: &'static str,
    /// Whether it applies.
    pub applies: fn(&Problem) -> bool,
}

/// The decline of the first rule that objects, or `None` if the problem can be translated.
pub fn first_objection<Problem>(rules: &[Rule<Problem>], problem: &Problem, capabilities: &Capabilities) -> Option<Decline> {
    rules.iter().find_map(|rule| (rule.check)(problem, capabilities).map(|message| Decline { rule: rule.id.to_string(), message }))
}
