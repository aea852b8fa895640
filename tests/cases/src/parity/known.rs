//! Differences that are known: one line each, `case | profile | what | off | on | reason`. Two-way: a difference that is listed and no
//! longer there is an error, like one that is there and not listed.

use anyhow::{Context as _, Result, ensure};

use super::Difference;

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The difference.
    pub difference: Difference,
    /// The profile, or `all`.
    pub profile: String,
    /// Why it is right that it differs.
    pub reason: String,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How many cases.
    pub cases: usize,
    /// Known differences that were there.
    pub known: Vec<String>,
    /// Everything else.
    pub errors: Vec<String>,
}

/// Reads the list. `#` begins a comment line.
pub fn parse(text: &str) -> Result<Vec<Known>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(i, line)| parse_line(line).with_context(|| format!("known differences, line {}", i + 1))).collect()
}

fn parse_line(line: &str) -> Result<Known> {
    let fields: Vec<String> = line.split('|').map(|field| field.trim().to_string()).collect();
    ensure!(fields.iter().all(|field| !field.is_empty()), "an empty field");
    let [case, profile, what, off, on, reason] =
        fields.try_into().map_err(|fields: Vec<_>| anyhow::anyhow!("{} fields, not 6", fields.len()))?;
    ensure!(off != on, "off and on are the same");
    Ok(Known { difference: Difference { case, what, off, on }, profile, reason })
}

/// Sorts differences of a profile into known ones and errors. Of the list, only what concerns present cases is expected.
pub fn judge(differences: &[Difference], known: &[Known], profile: &str, present: &[String]) -> Verdict {
    let known: Vec<_> = known.iter().filter(|known| [profile, "all"].contains(&known.profile.as_str())).collect();
    let mut verdict = Verdict::default();
    for difference in differences {
        match known.iter().find(|known| known.difference == *difference) {
            Some(known) => verdict.known.push(format!("{difference} | {}", known.reason)),
            None => verdict.errors.push(format!("not listed: {difference}")),
        }
    }
    let gone = known.iter().filter(|known| present.contains(&known.difference.case) && !differences.contains(&known.difference));
    verdict.errors.extend(gone.map(|known| format!("listed, but no longer so: {}", known.difference)));
    verdict
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    const LIST: &str = "# comment\n\nV18 ranks | abi | parity_status_x | 6 | 0 | native has no 4-D\n";

    fn difference(off: &str) -> Difference {
        Difference { case: "V18 ranks".into(), what: "parity_status_x".into(), off: off.into(), on: "0".into() }
    }

    #[test]
    fn a_listed_difference_is_known_and_announced() {
        let verdict = judge(&[difference("6")], &parse(LIST).unwrap(), "abi", &["V18 ranks".into()]);
        assert_eq!(verdict.errors, Vec::<String>::new());
        assert_eq!(verdict.known, ["V18 ranks | parity_status_x | 6 | 0 | native has no 4-D"]);
    }

    #[test]
    fn both_outcomes_must_match() {
        let verdict = judge(&[difference("3")], &parse(LIST).unwrap(), "abi", &["V18 ranks".into()]);
        assert_eq!(verdict.errors.len(), 2, "the new difference, and the listed one that is gone");
    }

    #[test]
    fn a_listed_difference_that_is_gone_is_an_error() {
        let known = parse(LIST).unwrap();
        assert!(judge(&[], &known, "abi", &["V18 ranks".into()]).errors[0].contains("no longer"));
        assert!(judge(&[], &known, "abi", &["V01 other".into()]).errors.is_empty(), "the case was not run");
    }

    #[test]
    fn the_profile_counts() {
        let known = parse(LIST).unwrap();
        assert!(judge(&[difference("6")], &known, "miopen-provider", &["V18 ranks".into()]).errors[0].contains("not listed"));
        let all = parse(&LIST.replace("abi", "all")).unwrap();
        assert!(judge(&[difference("6")], &all, "miopen-provider", &["V18 ranks".into()]).errors.is_empty());
    }

    #[test]
    fn lines_that_cannot_be_meant_are_refused() {
        for line in ["a | b | c | d | e", "a | b | c | d | e | ", "a | b | c | d | d | f", "a | b | c | d | e | f | g"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_committed_list_is_readable() {
        assert!(parse(super::super::KNOWN).is_ok());
    }
}
