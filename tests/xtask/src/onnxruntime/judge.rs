//! What must be true of a run, outputs aside: where its convolutions were computed, as ONNX Runtime, the shim, native and hipDNN each tell.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{Counters, Front, Report, Seen};

/// The provider that calls MIOpen.
const PROVIDER: &str = "ROCMExecutionProvider";
/// The operations of ONNX Runtime that are convolutions, the second with what was fused with it.
const OPERATIONS: [&str; 3] = ["Conv", "FusedConv", "ConvTranspose"];
/// The functions by which they are computed.
const EXECUTIONS: [&str; 3] = ["miopenConvolutionForward", "miopenConvolutionBackwardData", "miopenExecuteFusionPlan"];
/// Functions that compute something beside them, which is native's.
const NATIVES_OWN: &str = "miopenConvolutionForwardBias";
/// Where the libraries of a run are, by what their files are called.
const SHIM: &str = "/lib/libMIOpen.so.1";
const NATIVE: &str = "/libMIOpen_private.so.1";
const BACKEND: &str = "/libhipdnn_backend.so";

/// Where the executed convolutions of a run went.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// hipDNN computed them.
    pub served: usize,
    /// Native computed them, by the rule that says why.
    pub declined: BTreeMap<String, usize>,
    /// Native computed them, and nobody counted.
    pub passed: usize,
}

/// Where everything went, and what is wrong about it.
pub fn judge(front: Front, seen: &Seen, rules: &BTreeSet<String>) -> (Routes, Vec<String>) {
    let mut wrong = placement(&seen.report);
    if !seen.stderr.is_empty() {
        wrong.push(format!("on stderr: {:.300}", seen.stderr.trim()));
    }
    let native = count(&seen.native, |call| EXECUTIONS.contains(&call.as_str()));
    let routes = match front {
        Front::On(_) => forwarded(seen, rules, native, &mut wrong),
        _ => passed(seen, native, &mut wrong),
    };
    let computed = routes.served + routes.passed + routes.declined.values().sum::<usize>();
    let executed = seen.report.executions.len();
    if computed != executed {
        wrong.push(format!("{executed} convolutions were executed, {computed} were asked of MIOpen"));
    }
    (routes, wrong)
}

fn count<T>(items: &[T], which: impl Fn(&&T) -> bool) -> usize {
    items.iter().filter(which).count()
}

/// Every convolution, and nothing else, ran on the provider.
fn placement(report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    for execution in &report.executions {
        if execution.provider != PROVIDER || !OPERATIONS.contains(&execution.operation.as_str()) {
            wrong.push(format!("{} ({}) ran on {}", execution.node, execution.operation, execution.provider));
        }
    }
    let nodes: BTreeSet<&str> = report.executions.iter().map(|execution| execution.node.as_str()).collect();
    if nodes.len() != report.convolutions || nodes.is_empty() {
        wrong.push(format!("{} nodes were executed of {} convolutions", nodes.len(), report.convolutions));
    }
    for library in [SHIM, NATIVE] {
        if !is_mapped(report, library) {
            wrong.push(format!("{library} is not loaded"));
        }
    }
    wrong
}

fn is_mapped(report: &Report, library: &str) -> bool {
    report.files.iter().any(|file| file.ends_with(library))
}

/// Not forwarding: everything reached native, nothing was loaded for it, nothing was written.
fn passed(seen: &Seen, native: usize, wrong: &mut Vec<String>) -> Routes {
    if is_mapped(&seen.report, BACKEND) || seen.report.code_from_no_file > 0 {
        wrong.push(format!("hipDNN or a translator is loaded ({} mappings of code from no file)", seen.report.code_from_no_file));
    }
    if seen.census.is_some() || !seen.trace.is_empty() {
        wrong.push("the shim wrote statistics or a trace that nobody asked for".into());
    }
    Routes { passed: native, ..Routes::default() }
}

/// Forwarding: census, trace and what native saw say the same, and whatever native computed has a rule.
fn forwarded(seen: &Seen, rules: &BTreeSet<String>, native: usize, wrong: &mut Vec<String>) -> Routes {
    let none = BTreeMap::new();
    let census = seen.census.as_ref().unwrap_or(&none);
    if !is_mapped(&seen.report, BACKEND) || census.is_empty() {
        wrong.push("hipDNN is not loaded, or there is no census".into());
    }
    for (call, counters) in census {
        wrong.extend(unexplained(call, counters, rules));
    }
    let mut routes = Routes::default();
    for counters in EXECUTIONS.iter().filter_map(|call| census.get(*call)) {
        routes.served += counters.served;
        for (rule, times) in counters.declined.iter().chain(&counters.native) {
            *routes.declined.entry(rule.clone()).or_default() += times;
        }
    }
    let declined: usize = routes.declined.values().sum();
    let traced = |route| count(&seen.trace, |line| line.route == route && EXECUTIONS.contains(&line.call.as_str()));
    if (traced("hipdnn"), traced("native")) != (routes.served, declined) {
        wrong.push(format!("served {}, declined {declined}; traced {} and {}", routes.served, traced("hipdnn"), traced("native")));
    }
    // Searching executes plans, too.
    if seen.executed_plans < routes.served {
        wrong.push(format!("hipDNN served {} convolutions with {} executions", routes.served, seen.executed_plans));
    }
    if native != declined {
        wrong.push(format!("{declined} convolutions were declined, native computed {native}"));
    }
    routes
}

/// Calls of an entry point that failed, or were declined by something that is no rule.
fn unexplained(call: &str, counters: &Counters, rules: &BTreeSet<String>) -> Vec<String> {
    let failed = (counters.failed > 0).then(|| format!("{call}: hipDNN failed {} times", counters.failed));
    let rules = counters.declined.keys().chain(counters.native.keys()).filter(|rule| !rules.contains(*rule));
    failed.into_iter().chain(rules.map(|rule| format!("{call}: declined by {rule}, which is no rule"))).collect()
}

/// Not forwarding, the shim is not there: not a bit of the outputs, and not one of native's calls, is another than without it.
pub fn transparent(seen: &Seen, native: &Seen, error: f64) -> Vec<String> {
    let bits = (error != 0.0).then(|| format!("outputs differ by {error:.1e} from those without the shim"));
    // Several threads have ONNX Runtime search again whenever they take turns, which is as it happens.
    let calls = (seen.report.threads == 1 && seen.native != native.native)
        .then(|| format!("native saw {} calls, {} without the shim, or others", seen.native.len(), native.native.len()));
    bits.into_iter().chain(calls).collect()
}

/// How many biases native added to a convolution that was computed before.
pub fn biases(seen: &Seen) -> usize {
    count(&seen.native, |call| *call == NATIVES_OWN)
}

#[cfg(test)]
mod tests {
    use super::super::machine::{Execution, Traced};
    use super::*;

    const ON: Front = Front::On("abi");

    fn rules() -> BTreeSet<String> {
        ["host.capture.engine".to_string()].into()
    }

    /// Two convolutions, one run.
    fn seen(front: Front) -> Seen {
        let execution = |node: &str| Execution { node: node.into(), operation: "Conv".into(), provider: PROVIDER.into() };
        let mut files = vec![format!("/d{SHIM}"), format!("/d/lib/reference{NATIVE}")];
        let mut seen = Seen::default();
        if front == ON {
            files.push(format!("/d{BACKEND}"));
            let counters = Counters { served: 2, ..Counters::default() };
            seen.census = Some([("miopenConvolutionForward".to_string(), counters)].into());
            let line = || Traced { call: "miopenConvolutionForward".into(), route: "hipdnn".into() };
            seen.trace = vec![line(), line()];
            seen.executed_plans = 4;
        } else {
            seen.native = ["miopenCreate", "miopenConvolutionForward", "miopenConvolutionForward"].map(str::to_string).to_vec();
        }
        seen.report = Report { convolutions: 2, threads: 1, executions: vec![execution("a"), execution("b")], files, code_from_no_file: 0 };
        seen
    }

    fn wrong(front: Front, spoil: impl FnOnce(&mut Seen)) -> usize {
        let mut seen = seen(front);
        spoil(&mut seen);
        judge(front, &seen, &rules()).1.len()
    }

    fn forward(seen: &mut Seen) -> &mut Counters {
        seen.census.as_mut().unwrap().get_mut("miopenConvolutionForward").unwrap()
    }

    #[test]
    fn good_runs_are_good() {
        assert_eq!(judge(ON, &seen(ON), &rules()), (Routes { served: 2, ..Routes::default() }, vec![]));
        assert_eq!(judge(Front::Off, &seen(Front::Off), &rules()), (Routes { passed: 2, ..Routes::default() }, vec![]));
    }

    #[test]
    fn nodes_must_all_run_on_the_provider_and_be_convolutions() {
        for front in [ON, Front::Off] {
            assert_eq!(wrong(front, |s| s.report.executions[0].provider = "CPUExecutionProvider".into()), 1);
            assert_eq!(wrong(front, |s| s.report.executions[0].operation = "Clip".into()), 1);
            assert_eq!(wrong(front, |s| s.report.convolutions = 3), 1);
            assert_eq!(wrong(front, |s| s.report.files.clear()), if front == ON { 3 } else { 2 });
            assert_eq!(wrong(front, |s| s.stderr = "MIOpen Error: x\n".into()), 1);
        }
        assert!(wrong(ON, |s| s.report.executions.clear()) >= 2);
    }

    #[test]
    fn without_forwarding_nothing_is_loaded_and_native_computes_all() {
        assert_eq!(wrong(Front::Off, |s| s.report.files.push(format!("/d{BACKEND}"))), 1);
        assert_eq!(wrong(Front::Off, |s| s.report.code_from_no_file = 1), 1);
        assert_eq!(wrong(Front::Off, |s| s.census = Some(BTreeMap::new())), 1);
        assert_eq!(wrong(Front::Off, |s| s.native.truncate(2)), 1);
    }

    #[test]
    fn without_forwarding_bits_and_calls_are_natives() {
        let (off, mut native) = (seen(Front::Off), seen(Front::Off));
        assert_eq!(transparent(&off, &native, 0.0).len(), 0);
        assert_eq!(transparent(&off, &native, 1e-9).len(), 1);
        native.native.rotate_left(1);
        assert_eq!(transparent(&off, &native, 0.0).len(), 1);
        native.report.threads = 4;
        assert_eq!(transparent(&native, &off, 0.0).len(), 0);
    }

    #[test]
    fn census_trace_and_native_must_agree() {
        assert_eq!(wrong(ON, |s| s.census = None), 3);
        assert_eq!(wrong(ON, |s| s.trace.truncate(1)), 1);
        assert_eq!(wrong(ON, |s| s.executed_plans = 1), 1);
        assert_eq!(wrong(ON, |s| s.native.push("miopenConvolutionForward".into())), 1);
        assert_eq!(wrong(ON, |s| forward(s).failed = 1), 1);
        assert_eq!(wrong(ON, |s| forward(s).served = 1), 2);
    }

    #[test]
    fn declined_convolutions_are_natives_and_have_a_rule() {
        let decline = |s: &mut Seen, rule: &str| {
            forward(s).served = 1;
            forward(s).declined.insert(rule.into(), 1);
            s.trace[1].route = "native".into();
            s.native.push("miopenConvolutionForward".into());
        };
        assert_eq!(wrong(ON, |s| decline(s, "host.capture.engine")), 0);
        assert_eq!(wrong(ON, |s| decline(s, "host.capture.engines")), 1);
    }
}
