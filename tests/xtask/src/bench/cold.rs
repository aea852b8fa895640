//! The same job as first and as second process, with forwarding off and on, where every plan that hipDNN builds costs 400 ms: time from the
//! start of the process to its end, which is right after its first result, and where it went.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::median;

/// What a plan costs, in milliseconds.
const PLAN_MS: &str = "400";
/// First processes are slow; of second ones there are more.
const FIRST: usize = 5;
const SECOND: usize = 21;

/// Runs it.
pub fn run(dist: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Job { program: super::compile(dist, "convolution")?, dist, folder: folder.path() };
    let off = job.times(SECOND, false, |_| Ok(()))?;
    let forget = |cache: &Path| if cache.exists() { fs::remove_dir_all(cache).context("an old cache") } else { Ok(()) };
    let first = job.times(FIRST, true, forget)?;
    let second = job.times(SECOND, true, |_| Ok(()))?;
    let aim = off.median * 1.10 + 20.0;
    print(json!({ "bench": "cold.off", "value": off.median, "unit": "ms", "baseline": off.median, "ratio": 1.0 }));
    for (name, on) in [("cold.first", &first), ("cold.second", &second)] {
        let ratio = on.median / off.median;
        print(json!({
            "bench": name, "value": on.median, "unit": "ms", "baseline": off.median, "ratio": ratio,
            "phases_us": on.phases, "levels": on.levels,
        }));
    }
    print(json!({ "bench": "cold.second.aim", "value": second.median, "unit": "ms", "baseline": aim, "ratio": second.median / aim }));
    ensure!(first.levels == json!(["built", "built"]) && second.levels == json!(["disk", "disk"]), "the cache did not do its work");
    ensure!(second.median <= aim, "the second process is slower than 1.10 times the unforwarded one plus 20 ms");
    Ok(())
}

fn print(line: Value) {
    println!("{line}");
}

/// What is run.
struct Job<'a> {
    program: std::path::PathBuf,
    dist: &'a Path,
    folder: &'a Path,
}

/// What runs took, in milliseconds; phases and levels are those of the last one.
struct Times {
    median: f64,
    phases: Value,
    levels: Value,
}

impl Job<'_> {
    fn times(&self, count: usize, forwarding: bool, prepare: impl Fn(&Path) -> Result<()>) -> Result<Times> {
        let cache = self.folder.join("cache");
        let mut times = Vec::new();
        let (mut phases, mut levels) = (Value::Null, Value::Null);
        for _ in 0..count {
            prepare(&cache)?;
            let (time, trace) = self.once(&cache, forwarding)?;
            times.push(time.as_secs_f64() * 1e3);
            (phases, levels) = (trace["phases_us"].clone(), json!([trace["translation"], trace["plan"]]));
        }
        Ok(Times { median: median(&mut times), phases, levels })
    }

    /// One process; its time, and the trace line of its first call.
    fn once(&self, cache: &Path, forwarding: bool) -> Result<(Duration, Value)> {
        let (reference, trace) = (self.dist.join("lib/reference"), self.folder.join("trace.jsonl"));
        let _ = fs::remove_file(&trace);
        let mut command = Command::new(&self.program);
        command
            .arg("plain")
            .env("LD_LIBRARY_PATH", self.dist.join("lib"))
            .env("MIOPEN_HIPDNN_NATIVE_LIBRARY", reference.join("libMIOpen_private.so.1"))
            .env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference.join("libhipdnn_backend.so"))
            .env("MIOPEN_HIPDNN_HIP_LIBRARY", reference.join("libamdhip64.so.7"))
            .env("MIOPEN_HIPDNN_FORWARDING", if forwarding { "1" } else { "0" })
            .env("MIOPEN_HIPDNN_CACHE_DIR", cache)
            .env("MIOPEN_HIPDNN_TRACE", &trace)
            .env("REFERENCE_HIPDNN_PLAN_MS", PLAN_MS)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let start = Instant::now();
        let output = command.output()?;
        let time = start.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.lines().any(|line| line == "right 1"), "the job failed: {text}");
        let line = fs::read_to_string(&trace).unwrap_or_default();
        // Behind the banner.
        let line = line.lines().nth(1).map_or(Ok(Value::Null), serde_json::from_str)?;
        Ok((time, line))
    }
}
