//! Whether every call of a program is seen, once and in order: one list of lines that three write to as things happen. The witness says what
//! the program calls; native says what it was called with; the shim's trace says where a call went that it may forward.
//!
//! The shim traces only those calls; all others are one jump, and leave no trace but at native. So a call is seen if native was called by its
//! name, or if the trace names it, between this line of the witness and the next one; and nobody else is named there, unless by native's own
//! calls and by what the shim asks native for on behalf of the call.

use std::{fmt, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::witness::MARK;

/// A line of any of the three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The program calls a function.
    Program(String),
    /// Native is entered by this name.
    Native(String),
    /// The shim says that a call is done, and by whom.
    Traced(String, String),
}

/// Reads a line: of the witness if its caller is the program; of the trace as JSON; of native as the given function knows.
pub fn read(line: &str, program: &Path, native: impl Fn(&str) -> Option<String>) -> Option<Line> {
    if let Some(text) = line.strip_prefix(MARK) {
        let (name, caller) = text.split_once(' ')?;
        // Native calls its own functions too, and those calls are the witness's first as well.
        return (Path::new(caller).file_name() == program.file_name()).then(|| Line::Program(name.into()));
    }
    if let Some(call) = line.starts_with('{').then(|| serde_json::from_str::<serde_json::Value>(line).ok()).flatten() {
        return Some(Line::Traced(call["call"].as_str()?.into(), call["route"].as_str()?.into()));
    }
    native(line).map(Line::Native)
}

/// A call of the program, and what was seen until its next one.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub name: String,
    /// Names by which native was entered.
    pub native: Vec<String>,
    /// Functions that the trace names, with their routes.
    pub traced: Vec<(String, String)>,
}

/// The calls of a list, which must begin with one.
pub fn calls(lines: impl IntoIterator<Item = Line>) -> Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    for line in lines {
        match (line, calls.last_mut()) {
            (Line::Program(name), _) => calls.push(Call { name, native: Vec::new(), traced: Vec::new() }),
            (Line::Native(name), Some(call)) => call.native.push(name),
            (Line::Traced(name, route), Some(call)) => call.traced.push((name, route)),
            (line, None) => bail!("{line:?} before any call of the program"),
        }
    }
    calls.first().context("the program made no call")?;
    Ok(calls)
}

/// What is known about a native.
pub struct Native<'a> {
    /// Whether it says that it was called by this name.
    pub tells: &'a dyn Fn(&str) -> bool,
    /// Whether it calls its own functions.
    pub calls_itself: bool,
}

/// Calls that the shim passes on and then asks native about: to record what it will have to know again.
const ASKED: &[(&str, &str)] = &[("miopenSaveSolution", "miopenGetSolutionSize")];

/// Why a call was not seen as it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Unseen(String);

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Call {
    /// What the shim asked native for on behalf of a call that it passed on.
    fn asked(&self) -> usize {
        let asks = |(call, query): &&(&str, &str)| *call == self.name && self.native.iter().any(|name| name == query);
        ASKED.iter().filter(asks).count()
    }

    /// Whether it was seen, once, and nothing else.
    pub fn seen(&self, native: &Native<'_>) -> Result<(), Unseen> {
        let Self { name, .. } = self;
        let own = self.native.iter().filter(|seen| *seen == name).count();
        let told = if (native.tells)(name) { 1 } else { own };
        let right = match &self.traced[..] {
            // It was passed on.
            [] => own == told && (native.calls_itself || self.native.len() == own + self.asked()),
            // hipDNN's, but native may have been asked as well: for its own workspace, its own list.
            [(traced, route)] if route == "hipdnn" || route == "failed" => traced == name && own <= 1,
            [(traced, _)] => traced == name && own == told,
            _ => false,
        };
        if right {
            Ok(())
        } else {
            Err(Unseen(format!("{name}: native was entered by {:?}, the trace says {:?}", self.native, self.traced)))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn seen(native: &[&str], traced: &[(&str, &str)], calls_itself: bool) -> bool {
        let native_names = native.iter().map(|name| Line::Native(name.to_string()));
        let traced = traced.iter().map(|(name, route)| Line::Traced(name.to_string(), route.to_string()));
        let lines = [Line::Program("a".into())].into_iter().chain(native_names).chain(traced);
        calls(lines).unwrap()[0].seen(&Native { tells: &|_| true, calls_itself }).is_ok()
    }

    #[test]
    fn a_call_is_seen_once_and_by_its_name() {
        assert!(seen(&["a"], &[], false) && seen(&[], &[("a", "hipdnn")], false) && seen(&["a"], &[("a", "native")], false));
        assert!(seen(&["a", "b"], &[("a", "hipdnn")], false) && seen(&["a", "b"], &[], true));
        // Lost, twice, another one, and one that nobody made.
        assert!(!seen(&[], &[], false) && !seen(&[], &[("a", "native")], false));
        assert!(!seen(&["a", "a"], &[], false) && !seen(&["a"], &[("a", "native"), ("a", "native")], false));
        assert!(!seen(&["b"], &[], false) && !seen(&["a"], &[("b", "native")], false) && !seen(&["b"], &[], true));
        assert!(!seen(&["a", "b"], &[], false));
    }

    #[test]
    fn lines_are_told_apart_and_none_are_needed_first() {
        let line = |text: &str| read(text, Path::new("/x/program"), |line| line.split(' ').next().map(str::to_string));
        assert_eq!(line("witness miopenCreate /y/program"), Some(Line::Program("miopenCreate".into())));
        assert_eq!(line("witness miopenCreate /y/libMIOpen_native.so.1"), None);
        assert_eq!(line(r#"{"call":"miopenX","route":"native"}"#), Some(Line::Traced("miopenX".into(), "native".into())));
        assert_eq!(line("miopenCreate handle=0x1"), Some(Line::Native("miopenCreate".into())));
        assert!(calls([]).is_err() && calls([Line::Native("a".into())]).is_err());
    }
}
