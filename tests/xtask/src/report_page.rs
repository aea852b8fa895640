//! `report-page`: the page that `hipdnn-shim report` makes, of a real job, in a real browser: its numbers are those of the statistics, it asks
//! for nothing, complains about nothing, breaks in no width and no colours, and can be used without a mouse and without scripts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    build,
    chromium::Chromium,
    resnet::{self, FORMS},
};

/// Lines beside the model: other directions, groups, what is declined, many warm calls.
const LINES: &[&str] = &[
    "conv -n 16 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -F 0 -i 100",
    "convfp16 -n 2 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -Z 1 -L 4 -F 1 -i 20",
    "convfp16 -n 4 -c 32 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -g 32 -F 7",
    "convint8 -n 4 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1",
    "conv -n 2 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -F 1",
];

/// A process of the job.
struct Rank {
    profile: &'static str,
    variable: (&'static str, &'static str),
    /// Whether it runs the model too.
    model: bool,
}

const RANKS: &[Rank] = &[
    Rank { profile: "abi", variable: ("REFERENCE_HIPDNN_PLAN_MS", "0"), model: true },
    Rank { profile: "miopen-provider", variable: ("REFERENCE_HIPDNN_PLAN_MS", "30"), model: false },
    // One execution fails, as on a device that has a bad day.
    Rank { profile: "abi", variable: ("REFERENCE_HIPDNN_FAULT", "hipdnnBackendExecute:9!=EXECUTION_FAILED"), model: false },
];

/// Widths in which the page must be good.
const WIDTHS: [u32; 3] = [360, 800, 1600];

/// Text that breaks what is careless about it.
const HOSTILE: &str =
    "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>\"'`&amp;\u{0}\u{1b}[2J\u{202e}\r\n{{7*7}}";

/// Runs it; fails if anything is wrong.
pub fn run() -> Result<()> {
    let program = Chromium::find()?;
    let dist = build::dist()?;
    let folder = build::root().canonicalize()?.join("target/report-page");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let files = job(&dist, &folder)?;
    let pages = [
        ("job", page(&dist, &folder, "job", &files)?),
        ("hostile", page(&dist, &folder, "hostile", &[hostile(&files[2], &folder)?])?),
        ("empty", page(&dist, &folder, "empty", &[empty(&files[0], &folder)?])?),
    ];
    let mut browser = Chromium::start(&program, &folder.join("profile"))?;
    for (name, (path, report)) in &pages {
        for scheme in ["light", "dark"] {
            for width in WIDTHS {
                let what = format!("{name}-{scheme}-{width}");
                browser.show_as(width, scheme)?;
                let events = browser.open(&url(path)).with_context(|| what.clone())?;
                quiet(&events, &url(path)).with_context(|| what.clone())?;
                numbers(&mut browser, report).with_context(|| what.clone())?;
                looks(&mut browser).with_context(|| what.clone())?;
                browser.picture(&folder.join(format!("{what}.png")))?;
            }
        }
    }
    let (path, report) = &pages[0].1;
    browser.show_as(1600, "light")?;
    sorts_by_keyboard(&mut browser, path)?;
    works_without_scripts(&mut browser, path, report)?;
    drop(browser);
    println!("{} pages, 2 colour schemes, {} widths: right, and nothing asked for", pages.len(), WIDTHS.len());
    println!("{}", folder.display());
    Ok(())
}

/// Runs the job; answers its statistics files.
fn job(dist: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (rank, Rank { profile, variable, model }) in RANKS.iter().enumerate() {
        let lines = folder.join(format!("rank{rank}.txt"));
        let layers = resnet::layers();
        let layers = layers.iter().filter(|_| *model).map(|layer| layer.line(&FORMS[0]));
        fs::write(&lines, LINES.iter().map(ToString::to_string).chain(layers).collect::<Vec<_>>().join("\n"))?;
        let stats = folder.join(format!("rank{rank}.json"));
        let mut command = Command::new(dist.join("bin/hipdnn-shim"));
        command.args(["drive", "--jobs", "1", "--json", "--profile", profile, "--corpus"]).arg(&lines);
        command.env("RANK", rank.to_string()).env("MIOPEN_HIPDNN_STATS", &stats).env(variable.0, variable.1);
        let output = command.output()?;
        ensure!(stats.exists(), "no statistics: {}", String::from_utf8_lossy(&output.stderr));
        files.push(stats);
    }
    Ok(files)
}

/// Makes the page of some files; answers it, and the same report as JSON.
fn page(dist: &Path, folder: &Path, name: &str, files: &[PathBuf]) -> Result<(PathBuf, Value)> {
    let path = folder.join(format!("{name}.html"));
    let output = Command::new(dist.join("bin/hipdnn-shim")).args(["report", "--json", "-o"]).arg(&path).args(files).output()?;
    ensure!(output.status.success(), "report: {}", String::from_utf8_lossy(&output.stderr));
    Ok((path, serde_json::from_slice(&output.stdout)?))
}

/// Statistics with every text that a process could put there.
fn hostile(file: &Path, folder: &Path) -> Result<PathBuf> {
    let mut stats: Value = serde_json::from_slice(&fs::read(file)?)?;
    for field in ["host", "program"] {
        stats["process"][field] = HOSTILE.into();
    }
    stats["version"] = HOSTILE.into();
    stats["backend"]["library"] = HOSTILE.into();
    let text = serde_json::to_string(&stats)?;
    // A rule and an entry point, wherever they occur.
    let hostile = serde_json::to_string(HOSTILE)?;
    let text = text.replace("\"tensor.layout.vectorized\"", &hostile).replace("\"miopenConvolutionBackwardData\"", &hostile);
    ensure!(text.matches(&hostile).count() > 8, "{file:?} has nothing of what is replaced");
    let path = folder.join("hostile.json");
    fs::write(&path, text)?;
    Ok(path)
}

/// Statistics of a process that called nothing.
fn empty(file: &Path, folder: &Path) -> Result<PathBuf> {
    let mut stats: Value = serde_json::from_slice(&fs::read(file)?)?;
    for field in ["calls", "others", "rules"] {
        stats[field] = json!({});
    }
    stats["problems"] = json!([]);
    let path = folder.join("empty.json");
    fs::write(&path, stats.to_string())?;
    Ok(path)
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// No complaint, no dialog, and nothing asked for but the page itself.
fn quiet(events: &[Value], page: &str) -> Result<()> {
    let loud = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening"];
    for event in events {
        let method = event["method"].as_str().unwrap_or_default();
        ensure!(!loud.contains(&method), "{event}");
        if method == "Network.requestWillBeSent" {
            let asked = event["params"]["request"]["url"].as_str().unwrap_or_default();
            ensure!(asked == page || asked == "data:,", "it asks for {asked}");
        }
    }
    ensure!(events.iter().any(|event| event["method"] == "Network.requestWillBeSent"), "requests are not seen");
    Ok(())
}

/// What the page shows is what the report says.
fn numbers(browser: &mut Chromium, report: &Value) -> Result<()> {
    let mut same = |what: &str, expression: &str, expected: Value| -> Result<()> {
        let shown = browser.evaluate(expression)?;
        ensure!(shown == expected, "{what}: the page shows {shown}, the report has {expected}");
        Ok(())
    };
    let sum = |map: &Value| map.as_object().map_or(0, |map| map.values().filter_map(Value::as_u64).sum::<u64>());
    let total = &report["total"];
    let counts = |counters: &Value| {
        [
            counters["served"].as_u64().unwrap_or(0),
            sum(&counters["declined"]),
            counters["failed"].as_u64().unwrap_or(0),
            sum(&counters["native"]),
        ]
    };
    let ending = |ending: &str| format!("+document.querySelector('#coverage [data-ending={ending}]').dataset.count");
    for (name, count) in ["served", "declined", "failed", "native"].iter().zip(counts(total)) {
        same(name, &ending(name), count.into())?;
    }
    let all: u64 = counts(total).iter().sum();
    same("calls", "+document.querySelector('#coverage').dataset.calls", all.into())?;
    same("title", "document.title", "hipDNN forwarding report".into())?;
    let column = |table: &str, column: usize| {
        format!("[...document.querySelectorAll('#table-{table} tbody tr')].map(row => +row.cells[{column}].dataset.value)")
    };
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let calls: Vec<[u64; 4]> = list("calls").iter().map(|call| counts(&call[1])).collect();
    for (n, place) in [4, 5, 6, 7].into_iter().enumerate() {
        same("entry points", &column("calls", place), calls.iter().map(|counts| counts[n]).collect())?;
    }
    let problems: Vec<u64> = list("problems").iter().take(40).map(|problem| counts(&problem["counters"]).iter().sum()).collect();
    same("problems", &column("problems", 2), problems.into())?;
    let processes: Vec<u64> = list("processes").iter().map(|process| counts(&process["total"]).iter().sum()).collect();
    same("processes", &column("processes", 3), processes.into())?;
    for (name, field) in [("cold", "cold_calls"), ("warm", "warm_calls")] {
        same(name, &format!("+document.querySelector('[data-temperature={name}]').dataset.count"), total[field]["count"].clone())?;
    }
    let levels = ["plans", "translations"].map(|name| total[name]["built"].clone());
    same("caches", &column("caches", 4), levels.to_vec().into())?;
    if list("fixes").is_empty() {
        return same("fixes", "document.querySelectorAll('#table-fixes tr').length", 0.into());
    }
    let fixes: Vec<u64> = list("fixes").iter().filter_map(|fix| fix["calls"].as_u64()).collect();
    same("fixes", &column("fixes", 1), fixes.into())?;
    let times = browser.evaluate(&column("fixes", 2))?;
    let times: Vec<f64> = times.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    ensure!(times.is_sorted_by(|a, b| a >= b), "what to fix first is not first: {times:?}");
    Ok(())
}

/// No wider than the window, and all text with enough contrast (WCAG AA: 4.5 to 1).
fn looks(browser: &mut Chromium) -> Result<()> {
    let wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth")?;
    ensure!(wide.as_f64().is_some_and(|wide| wide <= 0.0), "the page is {wide} pixels wider than the window");
    let cut = browser.evaluate(
        "[...document.querySelectorAll('td, p, h1, h2, h3, li, dd')].filter(e => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1 \
         && !e.closest('.scroll') ).map(e => e.textContent.slice(0, 60))",
    )?;
    ensure!(cut.as_array().is_some_and(Vec::is_empty), "cut off: {cut}");
    let faint = browser.evaluate(CONTRAST)?;
    ensure!(faint.as_array().is_some_and(Vec::is_empty), "too little contrast: {faint}");
    Ok(())
}

/// Elements with text of their own whose colour is too near to the one behind it.
const CONTRAST: &str = r"(() => {
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  return [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length && e.tagName !== 'SCRIPT'
    && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
      const style = getComputedStyle(e);
      const [a, b] = [light(parse(e.closest('svg') ? style.fill : style.color)), light(behind(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName + ' ' + e.textContent.slice(0, 40)];
    }).filter(([ratio]) => ratio < 4.5).map(([ratio, text]) => ratio.toFixed(2) + ' ' + text);
})()";

/// A table is sorted with the keyboard alone, there and back, and says so.
fn sorts_by_keyboard(browser: &mut Chromium, path: &Path) -> Result<()> {
    browser.open(&url(path))?;
    browser.press("Tab", 9, "")?;
    let first = browser.evaluate("document.activeElement.className")?;
    ensure!(first == "skip", "the first stop is {first}, not the link to the report");
    // On to the header of a column, as far as it takes.
    let wanted = "document.activeElement.closest('#table-problems th')?.cellIndex === 2";
    for _ in 0..200 {
        if browser.evaluate(wanted)? == true {
            break;
        }
        browser.press("Tab", 9, "")?;
    }
    ensure!(browser.evaluate(wanted)? == true, "the keyboard does not reach the problems' columns");
    let ring = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")?;
    ensure!(ring == "solid", "what has the focus is not seen: {ring}");
    let values = "[...document.querySelectorAll('#table-problems tbody tr')].map(row => +row.cells[2].dataset.value)";
    let count = browser.evaluate("document.querySelectorAll('#table-problems tbody tr').length")?;
    for (direction, descending) in [("descending", true), ("ascending", false)] {
        browser.press("Enter", 13, "\r")?;
        let sorted = browser.evaluate(values)?;
        let sorted: Vec<f64> = sorted.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        ensure!(sorted.is_sorted_by(|a, b| if descending { a >= b } else { a <= b }), "not {direction}: {sorted:?}");
        ensure!(json!(sorted.len()) == count && sorted.first() != sorted.last(), "rows are lost, or all alike: {sorted:?}");
        let said = browser.evaluate("document.querySelectorAll('#table-problems th')[2].getAttribute('aria-sort')")?;
        ensure!(said == direction, "it says {said}, not {direction}");
    }
    Ok(())
}

/// Without scripts everything is there but the buttons.
fn works_without_scripts(browser: &mut Chromium, path: &Path, report: &Value) -> Result<()> {
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }))?;
    // Its end is not waited for in the page: nothing runs there.
    browser.call("Page.navigate", json!({ "url": url(path) }))?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let buttons = browser.evaluate("document.querySelectorAll('th button').length")?;
    ensure!(buttons == 0, "{buttons} buttons without a script");
    numbers(browser, report).context("without scripts")?;
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": false })).map(drop)
}
