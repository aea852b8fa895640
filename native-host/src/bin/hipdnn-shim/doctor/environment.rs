//! The shim's variables that are set, what each of them comes to, and those that only look like one.

use std::ffi::OsString;

use hipdnn_host::{
    entry_points,
    environment::{self as variables, Settings, TraceTarget, VARIABLES},
};

use super::{
    findings::{Finding, Kind},
    report::{Forwarding, Variable},
};

/// An environment: this process's, or another one's.
pub struct Environment {
    /// Names and values.
    pub variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// This process's.
    pub fn own() -> Self {
        Self { variables: std::env::vars_os().collect() }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<OsString> {
        self.variables.iter().find(|(n, _)| n.to_str() == Some(name)).map(|(_, value)| value.clone())
    }

    /// What the shim makes of it.
    pub fn settings(&self) -> Settings {
        Settings::read(|name| self.get(name), false)
    }

    /// The shim's variables that are set.
    pub fn set(&self, settings: &Settings) -> Vec<Variable> {
        // Those that are not the shim's, and only say where something of the user's is, are told there.
        let ours = |name: &str| name.starts_with("MIOPEN") || [variables::LIBRARY_PATH, variables::ROCM_PATH].contains(&name);
        let set = VARIABLES.iter().filter(|variable| ours(variable.name)).filter_map(|variable| Some((variable, self.get(variable.name)?)));
        let described = set.map(|(variable, value)| {
            let warning = settings.warnings.iter().find(|warning| of_variable(warning) == variable.name);
            let meaning = match warning {
                _ if value.is_empty() => "empty, which is as if it were not set".into(),
                Some(warning) => warning.strip_prefix(&format!("{}: ", variable.name)).unwrap_or(warning).into(),
                None => meaning(variable.name, settings).unwrap_or_else(|| variable.effect.into()),
            };
            Variable { name: variable.name.into(), value: value.to_string_lossy().into_owned(), meaning }
        });
        described.collect()
    }

    /// What is wrong with it.
    pub fn judge(&self, settings: &Settings) -> Vec<Finding> {
        let found = |kind: Kind, what: String| kind.found(false, what);
        let warnings = settings.warnings.iter().map(|warning| {
            let misspelt = of_variable(warning).starts_with(variables::FORWARDING);
            found(if misspelt { Kind::ForwardingMisspelt } else { Kind::EnvironmentValue }, warning.clone())
        });
        let unknown = self.variables.iter().filter_map(|(name, _)| name.to_str()).filter(|name| is_meant_for_us(name));
        warnings.chain(unknown.map(|name| found(Kind::EnvironmentUnknown, format!("{name} is set")))).collect()
    }
}

/// The variable that a warning begins with.
fn of_variable(warning: &str) -> &str {
    warning.split(['=', ':']).next().unwrap_or_default()
}

/// Whether it has one of our names, but none that is read.
fn is_meant_for_us(name: &str) -> bool {
    let ours = name.starts_with("MIOPEN_HIPDNN_") || (name.starts_with("MIOPEN_") && name.ends_with("_HIPDNN_FOR"));
    ours && VARIABLES.iter().all(|variable| variable.name != name)
}

/// Whether anything is forwarded, and what.
pub fn forwarding(settings: &Settings) -> Forwarding {
    let functions: Vec<&str> =
        entry_points::all().filter(|(family, name)| settings.forwards(*family, name)).map(|(_, name)| name).collect();
    Forwarding {
        on: !functions.is_empty(),
        families: settings.families().into_iter().map(|family| family.name()).collect(),
        functions,
        functions_known: entry_points::all().count(),
    }
}

/// What a variable comes to, where that says more than its description.
fn meaning(name: &str, settings: &Settings) -> Option<String> {
    let path = |path: &std::path::Path| if path.exists() { "it is there".to_string() } else { "there is no such file".into() };
    let forwarding = forwarding(settings);
    Some(match name {
        variables::FORWARDING if settings.families().is_empty() => "no family is on".into(),
        variables::FORWARDING => format!("on: {}", forwarding.families.join(", ")),
        variables::USE_FOR | variables::DISABLE_FOR => {
            format!("{} of {} functions are forwarded", forwarding.functions.len(), forwarding.functions_known)
        }
        variables::NATIVE => path(settings.native_library.as_deref()?),
        variables::BACKEND => path(settings.backend_library.as_deref()?),
        variables::HIP => path(settings.hip_library.as_deref()?),
        variables::TRACE => match settings.trace.as_ref()? {
            TraceTarget::Text => "text on standard error".into(),
            TraceTarget::Json => "JSON on standard error".into(),
            TraceTarget::File(file) => format!("into the file {}", file.display()),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment { variables: pairs.iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    fn ids(pairs: &[(&str, &str)]) -> Vec<&'static str> {
        let environment = environment(pairs);
        environment.judge(&environment.settings()).into_iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn what_does_nothing_is_told() {
        assert_eq!(ids(&[("MIOPEN_HIPDNN_FORWARDING", "1"), ("MIOPEN_LOG_LEVEL", "5"), ("PATH", "/bin")]), [""; 0]);
        assert_eq!(ids(&[("MIOPEN_HIPDNN_FORWARDING", "yess")]), ["forwarding.misspelt"]);
        assert_eq!(ids(&[("MIOPEN_HIPDNN_FIND", "never")]), ["environment.value"]);
        assert_eq!(ids(&[("MIOPEN_HIPDNN_FORWARD", "1"), ("MIOPEN_USES_HIPDNN_FOR", "*")]), ["environment.unknown-variable"; 2]);
        assert_eq!(ids(&[("MIOPEN_HIPDNN_FORWARDING", "1"), ("MIOPEN_USE_HIPDNN_FOR", "cnov")]), ["environment.value"]);
    }

    #[test]
    fn what_is_set_is_told_with_what_it_comes_to() {
        let environment = environment(&[("MIOPEN_HIPDNN_FORWARDING", "1"), ("MIOPEN_DISABLE_HIPDNN_FOR", "fusion"), ("HOME", "")]);
        let settings = environment.settings();
        let set = environment.set(&settings);
        let meaning = |name: &str| set.iter().find(|variable| variable.name == name).unwrap().meaning.as_str();
        assert_eq!(meaning("MIOPEN_HIPDNN_FORWARDING"), "on: conv, fusion, activation");
        assert_eq!(meaning("MIOPEN_DISABLE_HIPDNN_FOR"), "29 of 32 functions are forwarded");
        assert!(forwarding(&settings).on && !forwarding(&Settings::default()).on);
    }
}
