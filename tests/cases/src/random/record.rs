//! What a run says about a problem: one JSON object on a line.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{
    ask::{Answer, Step, ask},
    asked::Asked,
    expressible, judge,
};
use crate::{session::Session, trace::Trace};

/// What came of one problem in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// With the next, what the problem is made of.
    pub seed: u64,
    /// Counted from 0.
    pub number: u64,
    /// Calls with their statuses, up to the first that fails.
    pub steps: Vec<Step>,
    /// Whether the executing call was made.
    pub executed: bool,
    /// Its route, if the shim tells.
    pub route: Option<String>,
    /// The rule of a decline.
    pub rule: Option<String>,
    /// A number for all memory after it.
    pub digest: Option<String>,
    /// Whether the result was compared with the definition.
    pub judged: bool,
    /// What was wrong without a look at any other run.
    pub failure: Option<String>,
}

impl Record {
    /// Asks, and judges what can be judged alone.
    pub fn of(asked: &Asked, (seed, number): (u64, u64), session: &Session, trace: &Trace) -> Self {
        let empty =
            Self { seed, number, steps: Vec::new(), executed: false, route: None, rule: None, digest: None, judged: false, failure: None };
        match ask(asked, session, trace) {
            Ok(answer) => {
                let judged = is_defined(asked) && answer.succeeded();
                let failure = if judged { right(asked, &answer).err().map(|error| format!("{error:#}")) } else { None };
                let (route, rule) = answer.event.map_or((None, None), |event| (Some(event.route), event.rule));
                let (executed, digest) = (answer.executed.is_some(), answer.executed.map(|executed| executed.digest));
                Self { steps: answer.steps, executed, route, rule, digest, judged, failure, ..empty }
            }
            Err(error) => Self { failure: Some(format!("{error:#}")), ..empty },
        }
    }

    /// As it is printed.
    pub fn line(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Reads all lines; an end within one is dropped with what it was about to say.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).with_context(|| format!("record {line}"))).collect()
    }

    /// What the last call returned.
    pub fn status(&self) -> Option<&Step> {
        self.steps.last()
    }
}

/// Whether the definition says what a success gives: of a convolution whose result shares no memory with what is read.
fn is_defined(asked: &Asked) -> bool {
    expressible::is_convolution(asked) && !expressible::shares_written_memory(asked)
}

fn right(asked: &Asked, answer: &Answer) -> Result<()> {
    let executed = answer.executed.as_ref().context("nothing was executed")?;
    judge::judge(asked, executed.before.each_ref().map(Vec::as_slice), &executed.after)
}
