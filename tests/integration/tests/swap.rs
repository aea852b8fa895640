//! `MIOPEN_HIPDNN_TRANSLATOR`: another translator without another library; what is refused, and what then serves; what is remembered of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use hipdnn_host::{
    identity::hexadecimal,
    translator::{Source, Wanted},
};
use integration_tests::{
    Client, Finished, Run,
    components::{Brought, bombs, fixture, hostile},
    succeed, text, tool, trace_lines,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

static CONVOLUTION: LazyLock<Client> = LazyLock::new(|| Client::compile("convolution").unwrap());

/// The translator of somebody else that is used here. It answers like the built-in one.
fn other() -> Vec<u8> {
    hostile("honest")
}

/// A folder for the traces and the cache of runs.
struct Runs(TempDir);

impl Runs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    /// With a disk cache, and this translator.
    fn run(&self, translator: &Path) -> Run {
        let run = CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_CACHE", "rw").env("MIOPEN_HIPDNN_CACHE_DIR", self.cache());
        run.env("MIOPEN_HIPDNN_TRANSLATOR", translator)
    }

    /// What it printed, its first call, and its statistics.
    fn finish(&self, run: Run) -> (Finished, Value, Value) {
        let (trace, stats) = (self.0.path().join("trace.jsonl"), self.0.path().join("stats"));
        let _ = fs::remove_file(&trace);
        let finished = run.env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_STATS", &stats).output(&["plain"]).unwrap();
        assert_eq!(finished.line("right"), "right 1", "{finished:?}");
        let first = trace_lines(&trace).unwrap().remove(0);
        (finished, first, serde_json::from_str(&fs::read_to_string(stats).unwrap()).unwrap())
    }

    fn compiled(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join("v1/compiled"));
        entries.map_or_else(|_| Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
    }
}

#[test]
fn a_file_serves_instead_of_the_built_in_one() {
    let (runs, translator) = (Runs::new(), Brought::new(&other()));
    let (finished, first, stats) = runs.finish(runs.run(&translator.path()));
    assert!(finished.messages().is_empty(), "{}", finished.stderr);
    assert_eq!((&first["route"], &first["translation"]), (&"hipdnn".into(), &"built".into()));
    assert_eq!(stats["translator"]["name"], "hostile");
    assert_eq!(stats["translator"]["file"], text(&translator.path()));
    assert_eq!(stats["translator"]["sha256"], hexadecimal(&Sha256::digest(other())).as_str());
}

#[test]
fn what_is_no_translator_is_one_line_and_the_built_in_one_serves() {
    let mut refused: Vec<(PathBuf, String, Brought)> = Vec::new();
    for (what, wasm, says) in bombs() {
        let file = Brought::new(&wasm);
        refused.push((file.path(), says.to_string(), file));
        assert!(!what.is_empty());
    }
    let folder = Brought::new(b"");
    let pipe = folder.path().with_file_name("pipe");
    let name = CString::new(text(&pipe)).unwrap();
    // SAFETY: a path that ends in a null byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for (path, says) in [
        (folder.path().with_file_name("missing"), "No such file"),
        (folder.path().parent().unwrap().into(), "no regular"),
        (pipe, "no regular"),
    ] {
        refused.push((path, says.into(), Brought::new(b"")));
    }
    let runs = Runs::new();
    for (path, says, _file) in &refused {
        let (finished, first, stats) = runs.finish(runs.run(path));
        let messages = finished.messages();
        assert_eq!(messages.len(), 1, "{}", finished.stderr);
        assert!(messages[0].contains("is refused: ") && messages[0].contains(says.as_str()), "{messages:?}, not {says}");
        assert!(messages[0].ends_with("; the built-in translator serves") && messages[0].len() < 700, "{messages:?}");
        assert_eq!((&first["route"], &stats["translator"]["name"]), (&"hipdnn".into(), &"hipdnn-shim".into()));
    }
    assert_eq!(runs.compiled(), Vec::<PathBuf>::new());
}

#[test]
fn where_it_is_required_nothing_else_serves() {
    let runs = Runs::new();
    let run = || runs.run(Path::new("/nonexistent.wasm")).env("MIOPEN_HIPDNN_TRANSLATOR_REQUIRED", "1");
    let (finished, first, _) = runs.finish(run());
    assert_eq!(finished.messages().len(), 1, "{}", finished.stderr);
    assert!(finished.messages()[0].ends_with("; every call goes to native MIOpen"), "{}", finished.stderr);
    assert_eq!((&first["route"], &first["rule"]), (&"native".into(), &"host.translator.unavailable".into()));
}

#[test]
fn a_digest_pins_it() {
    let (runs, translator) = (Runs::new(), Brought::new(&other()));
    let digest = hexadecimal(&Sha256::digest(other()));
    for (pin, name) in [(digest.clone(), "hostile"), (digest.to_uppercase(), "hostile"), (digest.replace(&digest[..1], "x"), "hipdnn-shim")]
    {
        let (finished, _, stats) = runs.finish(runs.run(&translator.path()).env("MIOPEN_HIPDNN_TRANSLATOR_SHA256", &pin));
        assert_eq!(stats["translator"]["name"], name, "{pin}");
        let refused = finished.messages().iter().any(|line| line.contains("its SHA-256 is") && line.contains(&digest));
        assert_eq!(refused, name == "hipdnn-shim", "{}", finished.stderr);
    }
}

#[test]
fn answers_of_one_translator_are_never_anothers() {
    let (runs, one, other) = (Runs::new(), Brought::new(&other()), Brought::new(&fixture("contract-1.0")));
    let level = |translator: &Brought| runs.finish(runs.run(&translator.path())).1["translation"].clone();
    assert_eq!([&one, &other, &one, &other].map(level), ["built", "built", "disk", "disk"]);
    // The same graph, so the same plan.
    let plans = fs::read_dir(runs.cache().join("v1/plans")).unwrap().count();
    assert_eq!(plans, 1);
}

#[test]
fn its_code_is_compiled_once_and_never_believed_when_it_is_damaged() {
    let (runs, translator) = (Runs::new(), Brought::new(&other()));
    let new_problem = |job: &str| {
        // Another problem, so that the translator has to be loaded.
        let finished = runs.run(&translator.path()).output(&[job]).unwrap();
        assert!(finished.messages().is_empty(), "{}", finished.stderr);
    };
    new_problem("plain");
    let [entry]: [PathBuf; 1] = runs.compiled().try_into().unwrap();
    let whole = fs::read(&entry).unwrap();
    new_problem("alpha");
    assert_eq!(fs::read(&entry).unwrap(), whole);
    let flips = [0, 9, 17, 40, 70, 200, whole.len() / 2, whole.len() - 1];
    for (n, at) in flips.into_iter().enumerate() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&entry, &flipped).unwrap();
        // No manifest, so it is loaded whatever the problem.
        fs::remove_dir_all(runs.cache().join("v1/manifests")).unwrap();
        new_problem(if n % 2 == 0 { "plain" } else { "alpha" });
        assert_eq!(fs::read(&entry).unwrap(), whole, "byte {at} was not healed");
    }
}

#[test]
fn it_can_be_compiled_beforehand() {
    let (runs, translator) = (Runs::new(), Brought::new(&other()));
    let said = succeed(&["compile", text(&translator.path()), "--dir", text(&runs.cache())]);
    assert!(said.contains("hostile") && said.contains(&hexadecimal(&Sha256::digest(other()))), "{said}");
    let [entry]: [PathBuf; 1] = runs.compiled().try_into().unwrap();
    let modified = fs::metadata(&entry).unwrap().modified().unwrap();
    let (finished, first, _) = runs.finish(runs.run(&translator.path()));
    assert!(finished.messages().is_empty() && first["route"] == "hipdnn");
    assert_eq!(fs::metadata(&entry).unwrap().modified().unwrap(), modified, "it was compiled again");
    for (what, wasm, says) in bombs() {
        let file = Brought::new(&wasm);
        let output = tool(&["compile", text(&file.path()), "--dir", text(&runs.cache())]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && error.contains("is refused") && error.contains(says), "{what}: {error}");
    }
}

#[test]
fn a_file_that_changes_later_changes_nothing() {
    let translator = Brought::new(&other());
    let wanted = Wanted { path: translator.path(), sha256: None, required: true };
    let source = Source::read(&wanted).unwrap();
    fs::write(translator.path(), b"no translator").unwrap();
    assert_eq!(source.bytes(), other());
    assert_eq!(source.try_out().unwrap().description().name, "hostile");
    assert!(Source::read(&wanted).unwrap().try_out().is_err());
}
