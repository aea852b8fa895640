//! Faults on demand: which call fails, from when on, with which status. A call that fails this way has no other effect.
//!
//! A comma list of `<function>[@<KIND>][:<n>[!]]=<status>`:
//!
//! * `hipdnnBackendExecute=13` fails every execution;
//! * `hipdnnBackendFinalize@EXECUTION_PLAN=NOT_SUPPORTED` only those of execution plans (the C name of the descriptor type without
//!   `HIPDNN_BACKEND_` and `_DESCRIPTOR`);
//! * `hipdnnBackendExecute:3=13` from the third matching call on, `hipdnnBackendExecute:3!=13` only the third.
//!
//! Functions that answer text instead of a status answer null.

use std::sync::{
    LazyLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use hipdnn_abi::status;
use parking_lot::RwLock;

use crate::{
    calls::Function,
    error::{Error, Result},
};

/// The variable that is read at the first call.
const VARIABLE: &str = "REFERENCE_HIPDNN_FAULT";

static ACTIVE: AtomicBool = AtomicBool::new(false);
static RULES: LazyLock<RwLock<Vec<Rule>>> = LazyLock::new(|| {
    let rules = std::env::var(VARIABLE).ok().map_or(Ok(Vec::new()), |text| parse(&text));
    // A test with a misspelt fault must not pass by accident, and a library cannot refuse to load: say it and go on.
    let rules = rules.inspect_err(|error| eprintln!("reference hipDNN: {VARIABLE}: {error}")).unwrap_or_default();
    ACTIVE.store(!rules.is_empty(), Ordering::Release);
    RwLock::new(rules)
});

#[derive(Debug)]
struct Rule {
    function: &'static str,
    kind: Option<String>,
    first: u64,
    only: bool,
    status: i32,
    seen: AtomicU64,
}

impl Rule {
    fn matches(&self, function: &str, kind: Option<&str>) -> bool {
        self.function == function && self.kind.as_deref().is_none_or(|wanted| kind == Some(wanted))
    }

    /// Counts a matching call and says whether it fails.
    fn strikes(&self) -> bool {
        let call = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if self.only { call == self.first } else { call >= self.first }
    }
}

/// Whether any fault is armed.
pub(crate) fn is_on() -> bool {
    LazyLock::force(&RULES);
    ACTIVE.load(Ordering::Acquire)
}

/// Fails if a rule says so. Every matching rule counts the call, the first that strikes decides.
pub(crate) fn check(function: &str, kind: Option<&str>) -> Result<()> {
    let mut status = None;
    for rule in RULES.read().iter().filter(|rule| rule.matches(function, kind)) {
        if rule.strikes() {
            status = status.or(Some(rule.status));
        }
    }
    status.map_or(Ok(()), |status| Err(Error::new(status, "fault on demand")))
}

/// Replaces all rules; counting starts anew. Nothing changes if the text is wrong.
pub(crate) fn replace(text: &str) -> std::result::Result<(), String> {
    let rules = parse(text)?;
    let mut stored = RULES.write();
    ACTIVE.store(!rules.is_empty(), Ordering::Release);
    *stored = rules;
    Ok(())
}

fn parse(text: &str) -> std::result::Result<Vec<Rule>, String> {
    text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(parse_rule).collect()
}

fn parse_rule(text: &str) -> std::result::Result<Rule, String> {
    let (call, status) = text.rsplit_once('=').ok_or_else(|| format!("{text}: no status"))?;
    let (call, nth) = call.split_once(':').map_or((call, None), |(call, nth)| (call, Some(nth)));
    let (name, kind) = call.split_once('@').map_or((call, None), |(name, kind)| (name, Some(kind.to_string())));
    let function = Function::by_name(name).ok_or_else(|| format!("{name}: no function of this library"))?;
    let only = nth.is_some_and(|nth| nth.ends_with('!'));
    let first = nth.map_or(Ok(1), |nth| nth.trim_end_matches('!').parse()).map_err(|error| format!("{text}: {error}"))?;
    Ok(Rule { function: function.name(), kind, first, only, status: parse_status(status)?, seen: AtomicU64::new(0) })
}

fn parse_status(text: &str) -> std::result::Result<i32, String> {
    let named = |name: &str| name == text || name.strip_prefix("HIPDNN_STATUS_") == Some(text);
    let known = status::ALL.iter().find(|(number, name)| named(name) || text.parse() == Ok(*number));
    known.map(|(number, _)| *number).filter(|&number| number != status::SUCCESS).ok_or_else(|| format!("{text}: no failure status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_function_kind_count_and_status() {
        let rules = parse("hipdnnCreate=9, hipdnnBackendFinalize@TENSOR:2=BAD_PARAM,hipdnnBackendExecute:3!=13").expect("valid");
        let seen: Vec<_> = rules.iter().map(|r| (r.function, r.kind.as_deref(), r.first, r.only, r.status)).collect();
        let expected = [
            ("hipdnnCreate", None, 1, false, status::INTERNAL_ERROR),
            ("hipdnnBackendFinalize", Some("TENSOR"), 2, false, status::BAD_PARAM),
            ("hipdnnBackendExecute", None, 3, true, status::EXECUTION_FAILED),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in ["hipdnnCreate", "hipdnnCreat=9", "hipdnnCreate=0", "hipdnnCreate=99", "hipdnnCreate:x=9", "=9"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
