//! `cargo xtask demo swap`: one shim, one cache, several translators, one after the other. Routes change with the translator, results do not;
//! what one of them said is never told in another's name; and one that misbehaves costs nothing but its forwarding.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    demo::{drive_all, table},
    resnet::{self, FORMS},
};

/// A run: who translates, and what must come of it.
struct Run {
    name: &'static str,
    /// Its file in target/components; the built-in one if there is none.
    file: Option<&'static str>,
    /// Rules by which layers may be declined; all layers are forwarded if there is none.
    rules: &'static [&'static str],
}

const RUNS: &[Run] = &[
    Run { name: "built in", file: None, rules: &[] },
    Run { name: "one rule more", file: Some("stricter.wasm"), rules: &["example.stride"] },
    Run { name: "built in again", file: None, rules: &[] },
    Run {
        name: "hostile: never answers",
        file: Some("hostile/infinite_loop.wasm"),
        rules: &["host.translator.trap", "host.translator.quarantined"],
    },
    Run {
        name: "hostile: one element too far",
        file: Some("hostile/one_element_too_far.wasm"),
        rules: &["host.graph.extent", "host.translator.quarantined"],
    },
    Run { name: "built in at last", file: None, rules: &[] },
];

/// Runs them all over ResNet-50's layers; fails if any layer is computed wrongly, or goes elsewhere than it must.
pub fn run(dist: &Path, components: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let lines: Vec<String> = resnet::layers().iter().map(|layer| layer.line(&FORMS[0])).collect();
    let mut table = table(&["translator", "layers", "hipDNN", "native", "by rule", "verified"]);
    let mut wrong = Vec::new();
    for run in RUNS {
        let translator = run.file.map(|file| released(&components.join(file), folder.path())).transpose()?;
        let cache = folder.path().join("cache");
        let mut variables: Vec<(&str, &OsStr)> =
            vec![("MIOPEN_HIPDNN_CACHE", OsStr::new("rw")), ("MIOPEN_HIPDNN_CACHE_DIR", cache.as_os_str())];
        variables.extend(translator.as_ref().map(|path| ("MIOPEN_HIPDNN_TRANSLATOR", path.as_os_str())));
        let results = drive_all(dist, &lines, &variables)?;
        let seen = Seen::of(&results);
        table.add_row([
            run.name.to_string(),
            results.len().to_string(),
            seen.forwarded.to_string(),
            seen.declined.values().sum::<usize>().to_string(),
            seen.declined.iter().map(|(rule, count)| format!("{count} x {rule}")).collect::<Vec<_>>().join(", "),
            seen.verified.to_string(),
        ]);
        wrong.extend(seen.judge(run, results.len()).err().map(|error| format!("{}: {error:#}", run.name)));
    }
    println!("{table}");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("ResNet-50's layers, one binary, one cache: routes follow the translator, results stay");
    Ok(())
}

/// The translator in the place where a program is told to find it, put there as a release would be: beside, then renamed.
fn released(component: &Path, folder: &Path) -> Result<PathBuf> {
    let (new, path) = (folder.join("translator.new"), folder.join("translator.wasm"));
    fs::copy(component, &new).with_context(|| component.display().to_string())?;
    fs::rename(new, &path)?;
    Ok(path)
}

/// What came of a run.
#[derive(Default)]
struct Seen {
    forwarded: usize,
    verified: usize,
    declined: BTreeMap<String, usize>,
}

impl Seen {
    fn of(results: &[Value]) -> Self {
        let mut seen = Self::default();
        for result in results {
            seen.verified += usize::from(result["verified"] == true && result["status"] == 0);
            match result["rule"].as_str() {
                Some(rule) => *seen.declined.entry(rule.to_string()).or_default() += 1,
                None => seen.forwarded += usize::from(result["route"] == "hipdnn"),
            }
        }
        seen
    }

    fn judge(&self, run: &Run, layers: usize) -> Result<()> {
        ensure!(self.verified == layers, "{} of {layers} layers are verified", self.verified);
        let declined: usize = self.declined.values().sum();
        ensure!(self.forwarded + declined == layers, "{} forwarded and {declined} declined of {layers}", self.forwarded);
        ensure!(self.declined.keys().all(|rule| run.rules.contains(&rule.as_str())), "declined by {:?}", self.declined);
        ensure!((declined > 0) != run.rules.is_empty(), "{declined} layers are declined");
        let all = run.file.is_some_and(|file| file.starts_with("hostile/"));
        ensure!(!all || declined == layers, "a hostile translator has {} layers forwarded", self.forwarded);
        Ok(())
    }
}
