//! What a case is, what it may ask of its surroundings, and how it reports.

use std::{collections::BTreeMap, env, fmt};

use anyhow::{Result, ensure};
use miopen_api::status;
use serde::{Deserialize, Serialize};

use crate::{
    edge::{CallError, Libraries, ReferenceBackend, Status},
    session::Session,
    trace::{Event, Mark, Trace},
};

/// What a case's numbers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// Nothing: any libraries.
    Nothing,
    /// A device: the reference MIOpen does not compute this operation, and without a device only statuses are seen.
    Gpu,
}

/// A case.
#[derive(Clone, Copy)]
pub struct Case {
    /// `V01`, or `P…` for those of the parity surface.
    pub number: &'static str,
    /// What it is about, in a few words joined by hyphens.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// Does it.
    pub run: fn(&mut Context) -> Result<()>,
}

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All as it should be.
    Passed,
    /// Something was not.
    Failed,
    /// Strict mode showed a decline, which ends a case.
    Skipped,
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number.
    pub case: String,
    /// Its name.
    pub name: String,
    /// What it needs.
    pub needs: Needs,
    /// What came of it.
    pub outcome: Outcome,
    /// `parity_served_*`, `parity_status_*` and `parity_correct_*`.
    pub properties: BTreeMap<String, String>,
    /// Routed calls as the trace tells them, `call route [rule]` with how often.
    pub routes: BTreeMap<String, usize>,
    /// Why it failed, or what else is worth knowing.
    pub detail: String,
    /// The device.
    pub device: String,
}

/// A decline that strict mode showed.
#[derive(Debug)]
pub struct Declined(String);

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "declined, and strict mode says so: {}", self.0)
    }
}

impl std::error::Error for Declined {}

/// The surroundings of a running case.
pub struct Context {
    /// The libraries.
    pub libraries: &'static Libraries,
    /// Whether a device computes: then everything must be computed.
    pub gpu: bool,
    trace: Trace,
    begin: Mark,
    forwards: bool,
    strict: bool,
    properties: BTreeMap<String, String>,
    notes: Vec<String>,
}

impl Context {
    /// For one case.
    pub fn new(libraries: &'static Libraries, gpu: bool) -> Self {
        let trace = Trace::of_environment();
        let (forwards, strict) = (is_on("MIOPEN_HIPDNN_FORWARDING"), is_on("MIOPEN_HIPDNN_STRICT"));
        let begin = trace.mark();
        Self { libraries, gpu, trace, begin, forwards, strict, properties: BTreeMap::new(), notes: Vec::new() }
    }

    /// A handle of its own.
    pub fn session(&self) -> Result<Session> {
        Session::new(self.libraries)
    }

    /// The reference hipDNN, if forwarded calls go there.
    pub fn backend(&self) -> Option<ReferenceBackend> {
        ReferenceBackend::loaded()
    }

    /// Records what a call returned. In strict mode a decline ends the case.
    pub fn status(&mut self, label: &str, status: Status) -> Result<()> {
        self.property("status", label, status.to_string());
        self.property("served", label, if status.is_success() { "yes" } else { "no" }.to_string());
        if self.shows_decline(status) {
            return Err(Declined(label.to_string()).into());
        }
        Ok(())
    }

    /// Records whether a result was right.
    pub fn correct(&mut self, label: &str, correct: bool) {
        self.property("correct", label, if correct { "yes" } else { "no" }.to_string());
    }

    /// Records the bits of a result that must not depend on who computes it.
    pub fn bits(&mut self, label: &str, digest: u64) {
        self.property("correct", &format!("{label}_bits"), format!("{digest:016x}"));
    }

    /// Takes over what a case in another process reported.
    pub fn adopt(&mut self, record: Record) -> Result<()> {
        self.properties.extend(record.properties);
        self.notes.extend((!record.detail.is_empty()).then_some(record.detail));
        match record.outcome {
            Outcome::Passed => Ok(()),
            Outcome::Failed => anyhow::bail!("it failed in a process of its own"),
            Outcome::Skipped => Err(Declined("in a process of its own".into()).into()),
        }
    }

    fn property(&mut self, what: &str, label: &str, value: String) {
        self.properties.insert(format!("parity_{what}_{label}"), value);
    }

    /// Says something in the report.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Records a status of an operation that the reference MIOpen lacks. True if there are numbers to judge; on a device there must be.
    pub fn computes(&mut self, label: &str, status: Status) -> Result<bool> {
        self.status(label, status)?;
        if status.0 == status::NOT_IMPLEMENTED && !self.gpu {
            self.note(format!("{label}: this MIOpen does not compute it, only its status is compared"));
            return Ok(false);
        }
        ensure!(status.is_success(), "{label}: status {status}");
        Ok(true)
    }

    /// Whether forwarding is on, and the shim says what it does.
    pub fn sees_routes(&self) -> bool {
        self.trace.exists() && self.forwards
    }

    /// Whether forwarding is on.
    pub fn forwards(&self) -> bool {
        self.forwards
    }

    /// Whether strict mode showed a decline: the status, and a call that went to native by a rule. Native itself may answer this status.
    fn shows_decline(&self, status: Status) -> bool {
        let by_rule = || self.trace.since(self.begin).is_ok_and(|events| events.iter().any(|event| event.route == "native"));
        self.strict && status.0 == status::UNSUPPORTED_OP && (!self.trace.exists() || by_rule())
    }

    /// Whether an error is such a decline.
    fn is_decline(&self, error: &anyhow::Error) -> bool {
        let shown = |error: &CallError| self.shows_decline(error.status);
        error.chain().any(|cause| cause.is::<Declined>() || cause.downcast_ref().is_some_and(shown))
    }

    /// Now, for [`Self::events`].
    pub fn mark(&self) -> Mark {
        self.trace.mark()
    }

    /// The routed calls since a moment. Nothing if there is no trace.
    pub fn events(&self, mark: Mark) -> Result<Vec<Event>> {
        self.trace.since(mark)
    }

    /// The routes and rules of the executions since a moment.
    pub fn routes(&self, mark: Mark) -> Result<Vec<String>> {
        Ok(self.events(mark)?.iter().map(ToString::to_string).collect())
    }

    /// Whether the problem of the last call since a moment was new to whatever was asked about it since then. Nothing if hipDNN did not
    /// serve that call, or nobody says.
    pub fn was_new(&self, mark: Mark) -> Result<Option<bool>> {
        let events = self.events(mark)?;
        let served = events.last().is_some_and(|event| event.route == "hipdnn");
        Ok(served.then(|| events.iter().any(|event| event.cold)))
    }

    /// Fails if hipDNN was entered since a moment and failed: that is no refusal, whatever the status.
    pub fn nothing_failed(&self, mark: Mark) -> Result<()> {
        let events = self.events(mark)?;
        ensure!(events.iter().all(|event| event.route != "failed"), "hipDNN was entered and failed: {}", join(&events));
        Ok(())
    }

    /// Fails unless a call since a moment was declined by a rule; knows nothing, and fails not, unless forwarding is on and traced.
    pub fn declined(&self, mark: Mark, rule: &str) -> Result<()> {
        let events = self.events(mark)?;
        let seen = events.iter().any(|event| event.route == "native" && event.rule.as_deref() == Some(rule));
        ensure!(seen || !self.sees_routes(), "no decline by {rule}, but: {}", join(&events));
        Ok(())
    }
}

fn join(events: &[Event]) -> String {
    events.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Whether a switch of the shim is on.
fn is_on(variable: &str) -> bool {
    let value = env::var(variable).unwrap_or_default().to_lowercase();
    ["1", "on", "yes", "true", "enable", "enabled"].contains(&value.as_str())
}

/// Runs a case.
pub fn run(case: &Case, libraries: &'static Libraries, gpu: bool, device: &str) -> Record {
    let mut cx = Context::new(libraries, gpu);
    let result = (case.run)(&mut cx);
    // What a failed case left on the device must not reach the next one.
    let waited = libraries.hip.synchronize();
    let outcome = match &result {
        Ok(()) if waited.is_ok() => Outcome::Passed,
        Err(error) if cx.is_decline(error) => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    let events = cx.trace.since(cx.begin);
    let mut routes = BTreeMap::new();
    events.iter().flatten().for_each(|event| *routes.entry(event.to_string()).or_insert(0) += 1);
    let mut detail = cx.notes;
    detail.extend(result.err().or(waited.err()).or(events.err()).map(|error| format!("{error:#}")));
    Record {
        case: case.number.into(),
        name: case.name.into(),
        needs: case.needs,
        outcome,
        properties: cx.properties,
        routes,
        detail: detail.join("; "),
        device: device.into(),
    }
}
