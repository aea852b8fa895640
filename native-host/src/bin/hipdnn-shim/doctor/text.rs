//! Reports for people: labels in a column, text wrapped at 80 columns, paths never broken.

use std::fmt::Display;

use super::{
    file::Kind,
    findings::Finding,
    report::{Cache, Chosen, Hip, Hipdnn, Library, MappedMiopen, Native, Process, Report, Shim, Variable},
};

use crate::report::shown::visible;

const WIDTH: usize = 80;
const LABEL: usize = 12;

/// A page under construction.
#[derive(Default)]
struct Page(String);

impl Page {
    /// A label, and lines beside it.
    fn entry(&mut self, label: &str, lines: impl IntoIterator<Item = String>) {
        let mut label = label;
        for line in lines {
            for (row, text) in wrapped(&visible(&line), WIDTH - LABEL).into_iter().enumerate() {
                let text = if row == 0 { text } else { format!("  {text}") };
                self.0.push_str(&format!("{label:LABEL$}{text}\n"));
                label = "";
            }
        }
    }
}

/// Words in rows; all but the first are to be indented by two. A word that is longer than a row stands alone.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let indent = if rows.len() > 1 { 2 } else { 0 };
        let row = rows.last_mut().map(|row| (row.chars().count(), row));
        match row {
            Some((0, row)) => row.push_str(word),
            Some((used, row)) if used + 1 + word.chars().count() + indent <= width => row.push_str(&format!(" {word}")),
            _ => rows.push(word.into()),
        }
    }
    rows
}

/// What would be used, and what is wrong.
pub fn report(report: &Report) -> String {
    let mut page = Page::default();
    page.entry("shim", shim(&report.shim));
    page.entry("forwarding", [forwarding(report)]);
    page.entry("native", library(&report.native, native));
    page.entry("HIP", library(&report.hip, hip));
    page.entry("hipDNN", library(&report.hipdnn, hipdnn));
    page.entry("translator", translator(report));
    page.entry("cache", cache(&report.cache));
    page.entry("environment", environment(&report.environment));
    findings(&mut page, &report.findings);
    page.0
}

/// What serves a process.
pub fn process(process: &Process) -> String {
    let mut page = Page::default();
    let program = process.program.as_ref().map(|program| format!(": {}", program.display())).unwrap_or_default();
    page.entry("process", [format!("{}{program}", process.pid)]);
    let (shims, others): (Vec<_>, Vec<_>) = process.miopens.iter().partition(|miopen| miopen.kind == Some(Kind::Shim));
    page.entry("shim", or_none(shims.into_iter().flat_map(mapped).collect()));
    page.entry("native", or_none(others.into_iter().flat_map(mapped).collect()));
    for (label, files) in [("HIP", &process.hip), ("hipDNN", &process.hipdnn)] {
        page.entry(label, or_none(files.iter().map(|file| file.display().to_string()).collect()));
    }
    match &process.environment {
        Some(variables) => page.entry("environment", environment(variables)),
        None => page.entry("environment", ["cannot be read".into()]),
    }
    findings(&mut page, &process.findings);
    page.0
}

fn or_none(lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() { vec!["none is mapped".into()] } else { lines }
}

fn mapped(miopen: &MappedMiopen) -> Vec<String> {
    let is = miopen.kind.map_or("unreadable", Kind::name);
    let deleted = if miopen.deleted { ", replaced since" } else { "" };
    vec![miopen.path.display().to_string(), format!("{is}{}{deleted}", identity(miopen.version.as_deref(), miopen.build_id.as_deref()))]
}

fn identity(version: Option<&str>, build_id: Option<&str>) -> String {
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    version + &build_id.map(|id| format!(", build {}", id.get(..12).unwrap_or(id))).unwrap_or_default()
}

fn shim(shim: &Shim) -> Vec<String> {
    let Some(path) = &shim.path else { return vec!["none".into()] };
    vec![
        path.display().to_string(),
        format!("hipdnn-shim{}; {}", identity(shim.version.as_deref(), shim.build_id.as_deref()), shim.because),
    ]
}

fn forwarding(report: &Report) -> String {
    let forwarding = &report.forwarding;
    if !forwarding.on {
        return "off: every call reaches native".into();
    }
    let (some, all) = (forwarding.functions.len(), forwarding.functions_known);
    let functions = if some == all { String::new() } else { format!("; {some} of {all} functions") };
    format!("on: {}{functions}", forwarding.families.join(", "))
}

/// A library: its file, what it is, why this one; what was there and passed over.
fn library<T>(library: &Library<T>, describe: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
    let mut lines = match &library.chosen {
        Some(chosen) => chosen_lines(chosen, describe),
        None => vec![library.crashed.as_ref().map_or_else(|| "none".into(), |how| format!("none: looking for it {how}"))],
    };
    let there = library.rejected.iter().filter(|rejected| rejected.reason != "missing");
    lines.extend(there.map(|rejected| format!("passed over: {} ({}): {}", rejected.file.display(), rejected.because, rejected.text)));
    lines
}

fn chosen_lines<T>(chosen: &Chosen<T>, describe: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
    let mut lines = vec![chosen.path.display().to_string()];
    lines.extend(chosen.real_path.iter().map(|real| format!("which is {}", real.display())));
    lines.extend(describe(&chosen.facts));
    lines.push(format!("chosen because: {}", chosen.because));
    lines
}

fn native(native: &Native) -> Vec<String> {
    let names = if native.split { "; functions are called <name>_impl" } else { "" };
    vec![format!("MIOpen {}{names}", native.version.as_deref().unwrap_or("of an unknown version"))]
}

fn hip(hip: &Hip) -> Vec<String> {
    // HIP counts 10 million for a major version, 100 thousand for a minor one.
    let version = hip.runtime_version.map(|v| format!("HIP {}.{}.{}", v / 10_000_000, v / 100_000 % 100, v % 100_000));
    let devices = hip.devices.iter().enumerate().map(|(index, device)| {
        let architecture = device.architecture.as_ref().map(|architecture| format!(", {architecture}")).unwrap_or_default();
        let memory = device.memory.map(|bytes| format!(", {:.1} GiB", bytes as f64 / f64::from(1 << 30))).unwrap_or_default();
        let units = device.compute_units.map(|units| format!(", {units} compute units")).unwrap_or_default();
        format!("device {index}: {}{architecture}{units}{memory}", device.name)
    });
    let mut lines: Vec<String> = version.into_iter().chain(devices).collect();
    if hip.devices.is_empty() {
        lines.push("no device".into());
    }
    lines
}

fn hipdnn(hipdnn: &Hipdnn) -> Vec<String> {
    let mut lines = vec![format!("hipDNN {}", if hipdnn.version.is_empty() { "of an unknown version" } else { &hipdnn.version })];
    let engines = hipdnn.engines.iter().flatten();
    lines.extend(engines.map(|engine| format!("engine {} ({} {})", engine.name, engine.plugin, engine.version)));
    if let Some(folder) = &hipdnn.plugin_folder {
        let files = hipdnn.plugin_files.as_ref().map_or("not there".to_string(), |files| format!("{} libraries", files.len()));
        lines.push(format!("plugin folder {}: {files}", folder.display()));
    }
    lines
}

fn translator(report: &Report) -> Vec<String> {
    let translator = &report.translator;
    let refused = translator.refused.as_ref().map(|reason| format!("the one that was asked for is refused: {reason}"));
    if let Some(error) = translator.error.as_ref().or(refused.as_ref().filter(|_| translator.name.is_none())) {
        return vec![format!("none: {error}")];
    }
    // Enough to compare by eye; the document has all of it.
    let digest = translator.sha256.as_deref().and_then(|digest| digest.get(..16)).unwrap_or_default();
    let contracts: Vec<&str> = translator.contracts.iter().map(|contract| contract.rsplit('/').next().unwrap_or(contract)).collect();
    let name = [translator.name.as_deref(), translator.version.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let lines = [
        format!("{name}, {}: {}", translator.source, translator.families.join(", ")),
        format!("sha256 {digest}...; contract {}", contracts.join(" ")),
    ];
    lines.into_iter().chain(refused).collect()
}

fn cache(cache: &Cache) -> Vec<String> {
    let Some(path) = &cache.path else { return vec!["off".into()] };
    let mode = match (cache.mode, cache.there) {
        ("ro", true) => "only read",
        ("ro", false) => "only read, and not there",
        (_, true) => "read and written",
        (_, false) => "read and written; not there yet",
    };
    let room = cache.max_bytes.map(|bytes| format!("; at most {} MiB", bytes >> 20)).unwrap_or_default();
    let below = cache.below.iter().map(|path| format!("and {}, only read", path.display()));
    let not_kept = "what it cannot keep: MIOpen's engine of hipDNN searches at its first execution, in every process".to_string();
    [path.display().to_string(), format!("{mode}{room}")].into_iter().chain(below).chain([not_kept]).collect()
}

fn environment(variables: &[Variable]) -> Vec<String> {
    let mut lines: Vec<String> = variables.iter().map(|v| format!("{}={}: {}", v.name, v.value, v.meaning)).collect();
    if lines.is_empty() {
        lines.push("none of the shim's variables is set".into());
    }
    lines
}

fn findings(page: &mut Page, findings: &[Finding]) {
    if findings.is_empty() {
        page.entry("findings", ["none".into()]);
    }
    for finding in findings {
        let line = |label: &str, text: &dyn Display| format!("{label}{text}");
        page.0.push('\n');
        page.entry(finding.severity.name(), [line("", &finding.what), line("why: ", &finding.why), line("do: ", &finding.todo)]);
        page.entry("", [format!("[{}]", finding.id)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_and_words_stay_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a /a/very/long/path b", 8), ["a", "/a/very/long/path", "b"]);
        let mut page = Page::default();
        page.entry("label", ["word ".repeat(40).trim().to_string()]);
        assert!(page.0.lines().all(|line| line.len() <= WIDTH) && page.0.lines().count() == 4, "{}", page.0);
        assert!(page.0.starts_with("label       word") && page.0.lines().nth(1).unwrap().starts_with("              word"));
    }
}
