//! Differences between two runs, and the guards that keep a comparison from passing for want of anything to compare.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    case::{Outcome, Record},
    report,
};

/// How a case is named in comparisons and in the list of known differences.
pub fn key(record: &Record) -> String {
    format!("{} {}", record.case, record.name)
}

/// Something that differs between two runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The case.
    pub case: String,
    /// `outcome`, or the property.
    pub what: String,
    /// With forwarding off.
    pub off: String,
    /// With forwarding on.
    pub on: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} | {} | {}", self.case, self.what, self.off, self.on)
    }
}

/// Reads a report, which must not be older than the program that is to have written it.
pub fn report(path: &Path, binary: &Path) -> Result<Vec<Record>> {
    let records = report::read(path)?;
    let time = |path: &Path| -> Result<_> { Ok(fs::metadata(path).with_context(|| path.display().to_string())?.modified()?) };
    ensure!(time(path)? >= time(binary)?, "the report {} is older than {}", path.display(), binary.display());
    Ok(records)
}

/// An error unless something was executed: skipped cases were not.
pub fn executed(records: &[Record], run: &str) -> Result<()> {
    let count = records.iter().filter(|record| record.outcome != Outcome::Skipped).count();
    ensure!(count > 0, "nothing was executed in the run {run}: {} records, all skipped", records.len());
    Ok(())
}

/// An error if a case failed: a run that is wrong by itself is not compared.
pub fn without_failures(records: &[Record], run: &str) -> Result<()> {
    let failed: Vec<_> = records.iter().filter(|record| record.outcome == Outcome::Failed).collect();
    let lines: Vec<_> = failed.iter().map(|record| format!("{}: {}", key(record), record.detail)).collect();
    ensure!(failed.is_empty(), "{} cases failed in the run {run}:\n  {}", failed.len(), lines.join("\n  "));
    Ok(())
}

/// An error unless calls were forwarded where they should be, and none where they should not.
pub fn forwarded(off: &[Record], on: &[Record]) -> Result<()> {
    let served =
        |records: &[Record]| records.iter().flat_map(|record| record.routes.keys()).filter(|route| route.ends_with(" hipdnn")).count();
    ensure!(off.iter().all(|record| record.routes.is_empty()), "the run off routed calls");
    ensure!(served(on) > 0, "the run on forwarded nothing");
    Ok(())
}

/// An error unless all records name one device.
pub fn one_device(runs: &[&[Record]]) -> Result<()> {
    let devices: BTreeSet<&str> = runs.iter().flat_map(|run| run.iter()).map(|record| record.device.as_str()).collect();
    ensure!(devices.len() == 1 && !devices.contains(""), "the runs are from the devices {devices:?}");
    Ok(())
}

/// Outcomes and properties of each case, with all records of a name: duplicates do not overwrite each other.
fn collected(records: &[Record]) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut cases: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for record in records {
        let case = cases.entry(key(record)).or_default();
        case.entry("outcome".into()).or_default().push(format!("{:?}", record.outcome).to_lowercase());
        record.properties.iter().for_each(|(name, value)| case.entry(name.clone()).or_default().push(value.clone()));
    }
    cases.values_mut().flat_map(BTreeMap::values_mut).for_each(|values| values.sort());
    cases
}

/// What differs between runs with forwarding off and on. What is in one of them only is `absent` in the other.
pub fn differences(off: &[Record], on: &[Record]) -> Vec<Difference> {
    let (off, on) = (collected(off), collected(on));
    let cases: BTreeSet<&String> = off.keys().chain(on.keys()).collect();
    let none = BTreeMap::new();
    let mut found = Vec::new();
    for case in cases {
        let (left, right) = (off.get(case).unwrap_or(&none), on.get(case).unwrap_or(&none));
        let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for what in names.into_iter().filter(|name| left.get(*name) != right.get(*name)) {
            let text = |values: Option<&Vec<String>>| values.map_or("absent".into(), |values| values.join(", "));
            found.push(Difference { case: case.clone(), what: what.clone(), off: text(left.get(what)), on: text(right.get(what)) });
        }
    }
    found
}

/// Strict mode changes nothing but this: a case with a decline ends at it. Both ways: a case that had no decline must be as it was, and one
/// that had must have ended.
pub fn strict_differences(on: &[Record], strict: &[Record]) -> Vec<String> {
    let mut errors = Vec::new();
    let of = |case: &str| strict.iter().filter(|record| key(record) == case).collect::<Vec<_>>();
    for record in on {
        let name = key(record);
        let [other] = of(&name)[..] else {
            errors.push(format!("{name} is not once in the strict run"));
            continue;
        };
        match (declined(record), other.outcome) {
            (true, Outcome::Skipped) => {}
            (true, outcome) => errors.push(format!("{name} had a decline, and strict mode does not show it: {outcome:?}")),
            (false, outcome) if outcome != record.outcome => {
                errors.push(format!("{name} had no decline, and is {outcome:?} in strict mode, not {:?}", record.outcome));
            }
            (false, _) if other.properties != record.properties => {
                errors.push(format!("{name} had no decline, and other properties in strict mode"));
            }
            (false, _) => {}
        }
    }
    let names: BTreeSet<String> = on.iter().map(key).collect();
    errors.extend(strict.iter().map(key).filter(|name| !names.contains(name)).map(|name| format!("{name} is in the strict run only")));
    errors
}

/// Whether a call of a case went to native by a rule.
fn declined(record: &Record) -> bool {
    record.routes.keys().any(|route| route.split(' ').nth(1) == Some("native"))
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::case::Needs;

    /// A record of a passed case.
    pub fn record(case: &str, properties: &[(&str, &str)]) -> Record {
        Record {
            case: case.into(),
            name: "name".into(),
            needs: Needs::Nothing,
            outcome: Outcome::Passed,
            properties: properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            routes: BTreeMap::new(),
            detail: String::new(),
            device: "device".into(),
        }
    }

    fn with(record: Record, outcome: Outcome) -> Record {
        Record { outcome, ..record }
    }

    fn routed(record: Record, route: &str) -> Record {
        Record { routes: [(route.to_string(), 1)].into(), ..record }
    }

    #[test]
    fn equal_runs_do_not_differ() {
        let run = [record("V01", &[("parity_status_a", "0")]), record("V02", &[])];
        assert_eq!(differences(&run, &run), []);
        let reversed = [run[1].clone(), run[0].clone()];
        assert_eq!(differences(&run, &reversed), []);
    }

    #[test]
    fn a_case_in_one_run_only_is_a_difference() {
        let (both, one) = ([record("V01", &[]), record("V02", &[])], [record("V01", &[])]);
        let expected = Difference { case: "V02 name".into(), what: "outcome".into(), off: "passed".into(), on: "absent".into() };
        assert_eq!(differences(&both, &one), [expected]);
        assert_eq!(differences(&one, &both).len(), 1);
    }

    #[test]
    fn duplicates_are_counted() {
        let (twice, once) = ([record("V01", &[]), record("V01", &[])], [record("V01", &[])]);
        assert_eq!(differences(&twice, &once)[0].off, "passed, passed");
        let failed = [record("V01", &[]), with(record("V01", &[]), Outcome::Failed)];
        assert_eq!(differences(&failed, &twice).len(), 1);
    }

    #[test]
    fn outcomes_and_properties_are_compared() {
        let off = [record("V01", &[("parity_status_a", "6"), ("parity_served_a", "no")])];
        let on = [with(record("V01", &[("parity_status_a", "0"), ("parity_correct_a", "yes")]), Outcome::Skipped)];
        let found: Vec<_> = differences(&off, &on).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "V01 name | outcome | passed | skipped",
                "V01 name | parity_correct_a | absent | yes",
                "V01 name | parity_served_a | no | absent",
                "V01 name | parity_status_a | 6 | 0",
            ]
        );
    }

    #[test]
    fn nothing_executed_is_an_error() {
        assert!(executed(&[], "off").is_err());
        assert!(executed(&[with(record("V01", &[]), Outcome::Skipped)], "off").is_err());
        assert!(executed(&[record("V01", &[])], "off").is_ok());
    }

    #[test]
    fn nothing_forwarded_is_an_error() {
        let (plain, served) = ([record("V01", &[])], [routed(record("V01", &[]), "miopenConvolutionForward hipdnn")]);
        let native = [routed(record("V01", &[]), "miopenConvolutionForward native conv.some.rule")];
        assert!(forwarded(&plain, &served).is_ok());
        assert!(forwarded(&plain, &plain).is_err());
        assert!(forwarded(&plain, &native).is_err());
        assert!(forwarded(&served, &served).is_err());
    }

    #[test]
    fn a_failure_is_an_error() {
        assert!(without_failures(&[record("V01", &[])], "on").is_ok());
        assert!(without_failures(&[with(record("V01", &[]), Outcome::Failed)], "on").unwrap_err().to_string().contains("V01 name"));
    }

    #[test]
    fn two_devices_or_none_are_an_error() {
        let (one, mut other) = ([record("V01", &[])], [record("V01", &[])]);
        assert!(one_device(&[&one, &other]).is_ok());
        other[0].device = "another".into();
        assert!(one_device(&[&one, &other]).is_err());
        other[0].device.clear();
        assert!(one_device(&[&other]).is_err());
        assert!(one_device(&[]).is_err());
    }

    #[test]
    fn reports_must_be_there_whole_and_new() {
        let folder = tempfile::tempdir().unwrap();
        let (path, binary) = (folder.path().join("report.jsonl"), folder.path().join("binary"));
        fs::write(&binary, "").unwrap();
        assert!(report(&path, &binary).unwrap_err().to_string().contains("missing"));
        let line = serde_json::to_string(&record("V01", &[])).unwrap();
        fs::write(&path, format!("{line}\n")).unwrap();
        assert_eq!(report(&path, &binary).unwrap(), [record("V01", &[])]);
        for malformed in [line.clone(), format!("{line}\n{{}}\n"), "text\n".into(), format!("{line}\n{}\n", &line[..40])] {
            fs::write(&path, &malformed).unwrap();
            assert!(report(&path, &binary).is_err(), "{malformed}");
        }
        fs::write(&path, format!("{line}\n")).unwrap();
        let later = SystemTime::now() + Duration::from_secs(100);
        fs::File::options().write(true).open(&binary).unwrap().set_modified(later).unwrap();
        assert!(report(&path, &binary).unwrap_err().to_string().contains("older"));
    }

    #[test]
    fn strict_mode_shows_declines_and_nothing_else() {
        let (served, native) = ("miopenConvolutionForward hipdnn", "miopenConvolutionForward native conv.some.rule");
        let on = [routed(record("V01", &[("p", "1")]), served), routed(record("V02", &[]), native)];
        let strict = [record("V01", &[("p", "1")]), with(record("V02", &[]), Outcome::Skipped)];
        assert_eq!(strict_differences(&on, &strict), Vec::<String>::new());
        let hidden = [record("V01", &[("p", "1")]), record("V02", &[])];
        assert!(strict_differences(&on, &hidden)[0].contains("does not show it"));
        let skipped = [with(record("V01", &[("p", "1")]), Outcome::Skipped), strict[1].clone()];
        assert!(strict_differences(&on, &skipped)[0].contains("had no decline"));
        let changed = [record("V01", &[("p", "2")]), strict[1].clone()];
        assert!(strict_differences(&on, &changed)[0].contains("other properties"));
        assert!(strict_differences(&on, &strict[..1])[0].contains("not once"));
        let more = [strict[0].clone(), strict[1].clone(), record("V03", &[])];
        assert!(strict_differences(&on, &more)[0].contains("strict run only"));
    }
}
