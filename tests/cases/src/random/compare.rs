//! One problem with forwarding off and on: routes are as predicted, and nothing differs but what is forwarded.

use super::{
    asked::{Asked, Style},
    expressible::{self, Profile},
    record::Record,
};

/// Everything that is wrong with a problem's two records.
pub fn faults(asked: &Asked, profile: Profile, off: &Record, on: &Record) -> Vec<String> {
    let mut faults: Vec<String> = off.failure.iter().map(|failure| format!("with forwarding off: {failure}")).collect();
    faults.extend(on.failure.iter().map(|failure| format!("with forwarding on: {failure}")));
    if faults.is_empty() {
        faults.extend(route_fault(asked, profile, on));
        faults.extend(if on.route.as_deref() == Some("hipdnn") { forwarded_fault(on) } else { native_fault(asked, profile, off, on) });
    }
    faults
}

/// Whether native must take the problem before it can be executed: its objects are native's.
fn is_natives_to_offer(style: Style) -> bool {
    matches!(style, Style::FindTwo { .. } | Style::Plan)
}

/// The route is the predicted one; a decline names one of the reasons that hold.
fn route_fault(asked: &Asked, profile: Profile, on: &Record) -> Option<String> {
    let reasons = expressible::reasons(asked, profile);
    if !on.executed {
        let missed = reasons.is_empty() && !is_natives_to_offer(asked.style);
        return missed.then(|| format!("hipDNN can express it, but it ended with {:?}", on.status()));
    }
    let (route, rule) = (on.route.as_deref().unwrap_or("untraced"), on.rule.as_deref());
    match (route, rule) {
        ("hipdnn", None) if reasons.is_empty() => None,
        ("hipdnn", None) => Some(format!("forwarded in spite of {reasons:?}")),
        ("native", Some(rule)) if reasons.contains(&rule) => None,
        _ => Some(format!("predicted {}, but the route is {route} {rule:?}", predicted(&reasons))),
    }
}

fn predicted(reasons: &[&str]) -> String {
    if reasons.is_empty() { "hipdnn".into() } else { format!("a decline by one of {reasons:?}") }
}

/// What hipDNN was given it computes, and what it computed was looked at.
fn forwarded_fault(on: &Record) -> Option<String> {
    let status = on.status()?;
    if status.1 != 0 {
        return Some(format!("forwarded, but it ended with {status:?}"));
    }
    (!on.judged).then(|| "forwarded, but the definition does not say what it gives".into())
}

/// What is native's is what it is without forwarding. Where hipDNN was offered for a problem that native refuses, and then cannot execute the
/// call for its memory or scalars, native refuses later than it would have: but refuse it must.
fn native_fault(asked: &Asked, profile: Profile, off: &Record, on: &Record) -> Option<String> {
    if off.executed == on.executed {
        let same = (&off.steps, &off.digest) == (&on.steps, &on.digest);
        return (!same).then(|| format!("off: {:?} memory {:?}\n    on: {:?} memory {:?}", off.steps, off.digest, on.steps, on.digest));
    }
    let offered = on.executed && expressible::offered(asked, profile);
    let refused = on.status().is_some_and(|(_, status)| *status != 0);
    (!offered || !refused).then(|| format!("off ended with {:?}, on with {:?}", off.status(), on.status()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::generator::generate;

    fn record(route: Option<&str>, rule: Option<&str>, status: i32, digest: &str) -> Record {
        Record {
            seed: 1,
            number: 1,
            steps: vec![("call".into(), status)],
            executed: true,
            route: route.map(String::from),
            rule: rule.map(String::from),
            digest: Some(digest.into()),
            judged: false,
            failure: None,
        }
    }

    /// A problem that is forwarded, and one that is not.
    fn problems() -> [Asked; 2] {
        let find = |forwarded: bool| {
            let mut all = (0..1000).map(|number| generate(1, number)).filter(|asked| asked.style == Style::Unfound);
            all.find(|asked| expressible::reasons(asked, Profile::Abi).is_empty() == forwarded)
        };
        [find(true), find(false)].map(|asked| asked.unwrap_or_else(|| unreachable!("a thousand problems of one kind")))
    }

    #[test]
    fn every_difference_is_a_fault() {
        let [forwarded, declined] = problems();
        let rule = expressible::reasons(&declined, Profile::Abi)[0];
        let off = record(None, None, 0, "a");
        let faults = |asked: &Asked, on: Record| faults(asked, Profile::Abi, &off, &on).len();
        assert_eq!(faults(&forwarded, Record { judged: true, ..record(Some("hipdnn"), None, 0, "b") }), 0);
        assert_eq!(faults(&forwarded, record(Some("hipdnn"), None, 0, "b")), 1);
        assert_eq!(faults(&forwarded, record(Some("hipdnn"), None, 5, "b")), 1);
        assert_eq!(faults(&forwarded, record(Some("native"), Some("host.stack"), 0, "a")), 1);
        assert_eq!(faults(&forwarded, record(None, None, 0, "a")), 1);
        assert_eq!(faults(&declined, record(Some("native"), Some(rule), 0, "a")), 0);
        assert_eq!(faults(&declined, record(Some("native"), Some(rule), 0, "b")), 1);
        assert_eq!(faults(&declined, record(Some("native"), Some(rule), 3, "a")), 1);
        assert_eq!(faults(&declined, record(Some("native"), Some("host.stack"), 0, "a")), 1);
        assert_eq!(faults(&declined, Record { judged: true, ..record(Some("hipdnn"), None, 0, "a") }), 1);
        let failed = Record { failure: Some("wrong".into()), ..off.clone() };
        assert_eq!(faults(&forwarded, failed), 1);
    }
}
