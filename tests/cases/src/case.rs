//! What a case is, what it may ask of its surroundings, and how it reports.

use std::{collections::BTreeMap, env, fmt};

use anyhow::{Result, ensure};
use miopen_api::status;
use serde::{Deserialize, Serialize};

use crate::{
    edge::{Libraries, ReferenceBackend, Status},
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
    strict: bool,
    properties: BTreeMap<String, String>,
    notes: Vec<String>,
}

impl Context {
    /// For one case.
    pub fn new(libraries: &'static Libraries, gpu: bool) -> Self {
        let trace = Trace::of_environment();
        let strict =
            !matches!(env::var("MIOPEN_HIPDNN_STRICT").unwrap_or_default().to_lowercase().as_str(), "" | "0" | "off" | "no" | "false");
        Self { libraries, gpu, begin: trace.mark(), trace, strict, properties: BTreeMap::new(), notes: Vec::new() }
    }

    /// A handle of its own.
    pub fn session(&self) -> Result<Session> {
        Session::new(self.libraries)
    }

    /// Whether the shim says what it does.
    pub fn is_traced(&self) -> bool {
        self.trace.exists()
    }

    /// Whether strict mode is on.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The reference hipDNN, if forwarded calls go there.
    pub fn backend(&self) -> Option<ReferenceBackend> {
        ReferenceBackend::loaded()
    }

    /// Records what a call returned. In strict mode a decline ends the case.
    pub fn status(&mut self, label: &str, status: Status) -> Result<()> {
        self.property("status", label, status.to_string());
        self.property("served", label, if status.is_success() { "yes" } else { "no" }.to_string());
        if self.strict && status.0 == status::UNSUPPORTED_OP {
            return Err(Declined(label.to_string()).into());
        }
        Ok(())
    }

    /// Records whether a result was right.
    pub fn correct(&mut self, label: &str, correct: bool) {
        self.property("correct", label, if correct { "yes" } else { "no" }.to_string());
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

    /// Now, for [`Self::events`].
    pub fn mark(&self) -> Mark {
        self.trace.mark()
    }

    /// The routed calls since a moment. Nothing if there is no trace.
    pub fn events(&self, mark: Mark) -> Result<Vec<Event>> {
        self.trace.since(mark)
    }
}

/// Runs a case.
pub fn run(case: &Case, libraries: &'static Libraries, gpu: bool, device: &str) -> Record {
    let mut cx = Context::new(libraries, gpu);
    let result = (case.run)(&mut cx);
    // What a failed case left on the device must not reach the next one.
    let waited = libraries.hip.synchronize();
    let outcome = match &result {
        Ok(()) if waited.is_ok() => Outcome::Passed,
        Err(error) if error.is::<Declined>() => Outcome::Skipped,
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
