//! `hipdnn-shim doctor`: that it tells what the shim really uses, and finds each thing that may be wrong, under its id, and only that.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
};

use integration_tests::{Client, stock::Stock};
use serde_json::Value;
use tempfile::TempDir;

static BACKEND: LazyLock<Client> = LazyLock::new(|| Client::compile_library("backend").unwrap());
static CRASH: LazyLock<Client> = LazyLock::new(|| Client::compile_library("crash").unwrap());
static NO_DEVICE: LazyLock<Client> = LazyLock::new(|| Client::compile_library("no_device").unwrap());
static WAITING: LazyLock<Client> = LazyLock::new(|| Client::compile("waiting").unwrap());
static STOCK: LazyLock<Stock> = LazyLock::new(|| Stock::build().unwrap());

/// Without links and detours, as the tool names what it finds.
fn dist() -> PathBuf {
    integration_tests::dist().canonicalize().unwrap()
}

fn reference(name: &str) -> PathBuf {
    dist().join("lib/reference").join(name)
}

fn shim() -> PathBuf {
    dist().join("lib/libMIOpen.so.1")
}

/// A command in an environment in which the shim, and the reference libraries, are where the loader finds them, and forwarding is on.
struct Doctor(Command);

/// What it said.
struct Said {
    code: Option<i32>,
    document: Value,
}

impl Doctor {
    fn new() -> Self {
        let mut command = Command::new(dist().join("bin/hipdnn-shim"));
        command.env_clear().env("PATH", "/usr/bin:/bin").arg("doctor");
        let doctor = Self(command).env("LD_LIBRARY_PATH", folders(&[&dist().join("lib"), &reference("")]));
        doctor.env("MIOPEN_HIPDNN_FORWARDING", "1").env("MIOPEN_HIPDNN_CACHE", "off")
    }

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.0.env_remove(name);
        self
    }

    fn arguments(mut self, arguments: &[impl AsRef<OsStr>]) -> Self {
        self.0.args(arguments);
        self
    }

    fn native(self, path: impl AsRef<Path>) -> Self {
        self.env("MIOPEN_HIPDNN_NATIVE_LIBRARY", path.as_ref())
    }

    fn backend(self, path: impl AsRef<Path>) -> Self {
        self.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", path.as_ref())
    }

    fn hip(self, path: impl AsRef<Path>) -> Self {
        self.env("MIOPEN_HIPDNN_HIP_LIBRARY", path.as_ref())
    }

    /// The backend with a flaw.
    fn flawed(self, name: &str, value: &str) -> Self {
        self.backend(BACKEND.file()).env("BACKEND_REAL", reference("libhipdnn_backend.so")).env(name, value)
    }

    fn say(mut self) -> Said {
        let output = self.0.arg("--json").output().unwrap();
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        Said { code: output.status.code(), document }
    }
}

impl Said {
    fn ids(&self) -> Vec<&str> {
        self.document["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect()
    }

    /// Exactly these findings; the exit status is that of their severities.
    fn finds(&self, expected: &[(&str, &str)]) -> &Self {
        assert_eq!(self.ids(), expected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{:#}", self.document);
        for ((_, severity), finding) in expected.iter().zip(self.document["findings"].as_array().unwrap()) {
            assert_eq!(finding["severity"], *severity, "{finding:#}");
            assert!(
                ["what", "why", "todo"].iter().all(|field| finding[field].as_str().is_some_and(|text| !text.is_empty())),
                "{finding:#}"
            );
        }
        let error = expected.iter().any(|(_, severity)| *severity == "error");
        assert_eq!(self.code, Some(i32::from(error)));
        self
    }

    /// The finding of this id says this.
    fn says(&self, id: &str, words: &str) -> &Self {
        let finding = self.document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id);
        let finding = finding.unwrap_or_else(|| panic!("no {id}: {:#}", self.document));
        let said = format!("{} {}", finding["what"].as_str().unwrap(), finding["todo"].as_str().unwrap());
        assert!(said.contains(words), "{words}: {said}");
        self
    }
}

fn folders(folders: &[&Path]) -> std::ffi::OsString {
    std::env::join_paths(folders).unwrap()
}

fn folder() -> TempDir {
    // On the file system of the built libraries, so that they can be linked to.
    tempfile::tempdir_in(dist()).unwrap()
}

/// A copy of a file with some bytes different, wherever they are.
fn copy_with(from: &Path, to: &Path, old: &[u8], new: &[u8]) {
    let mut data = fs::read(from).unwrap();
    let places: Vec<usize> = data.windows(old.len()).enumerate().filter(|(_, window)| *window == old).map(|(at, _)| at).collect();
    assert!(!places.is_empty() && old.len() == new.len());
    places.into_iter().for_each(|at| data[at..at + new.len()].copy_from_slice(new));
    fs::write(to, data).unwrap();
}

/// Another build of the shim: an older version, with another build id.
fn other_build(to: &Path) {
    let mut note = b"hipdnn-shim\0".to_vec();
    let old_note = [&note, env!("CARGO_PKG_VERSION").as_bytes()].concat();
    note.extend(b"0.0.9");
    copy_with(&shim(), to, &old_note, &note);
    let said = Doctor::new().say();
    let build_id = said.document["shim"]["build_id"].as_str().unwrap();
    let bytes: Vec<u8> = (0..build_id.len() / 2).map(|at| u8::from_str_radix(&build_id[2 * at..2 * at + 2], 16).unwrap()).collect();
    let other: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    copy_with(to, to, &bytes, &other);
}

// ---- what is used, and why

#[test]
fn everything_that_is_used_is_told_with_its_reason() {
    let said = Doctor::new().say();
    said.finds(&[]);
    let document = &said.document;
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&document["shim"]["version"], &document["shim"]["front"]["kind"]), (&document["version"], &"shim".into()));
    assert_eq!(document["shim"]["path"], shim().to_str().unwrap());
    assert_eq!(document["shim"]["build_id"].as_str().unwrap().len(), 40);
    assert_eq!(document["forwarding"]["families"], serde_json::json!(["conv", "fusion", "activation"]));
    let native = &document["native"];
    assert_eq!((&native["chosen"]["rule"], &native["chosen"]["split"]), (&"split.loader".into(), &true.into()));
    assert_eq!(native["chosen"]["path"], reference("libMIOpen_private.so.1").to_str().unwrap());
    assert_eq!(native["chosen"]["version"], "3.5.1");
    let rejected: Vec<_> = native["rejected"].as_array().unwrap().iter().map(|r| (r["rule"].as_str(), r["reason"].as_str())).collect();
    let missing = |rule| (Some(rule), Some("missing"));
    assert_eq!(rejected, [missing("installed.beside"), missing("installed.loader"), missing("split.beside")]);
    let hip = &document["hip"]["chosen"];
    assert_eq!((&hip["rule"], &hip["runtime_version"]), (&"loaded".into(), &70_200_000.into()));
    assert_eq!((hip["devices"].as_array().unwrap().len(), &hip["devices"][1]["architecture"]), (2, &"gfx942:sramecc+:xnack-".into()));
    let hipdnn = &document["hipdnn"]["chosen"];
    assert_eq!((&hipdnn["rule"], &hipdnn["engines"][0]["name"]), (&"loader".into(), &"REFERENCE_ENGINE".into()));
    assert!(hipdnn["version"].as_str().unwrap().starts_with("0."));
    assert!(hipdnn["plugin_folder"].as_str().unwrap().ends_with("/reference/hipdnn_plugins/engines"));
    let translator = &document["translator"];
    assert_eq!(
        (translator["sha256"].as_str().unwrap().len(), &translator["families"]),
        (64, &serde_json::json!(["conv", "fusion", "activation"]))
    );
    assert!(translator["contracts"].as_array().unwrap().iter().any(|c| c == "miopen-hipdnn:translator/conv@1.0.0"), "{translator}");
    assert_eq!(document["cache"]["mode"], "off");
    let forwarding = serde_json::json!({ "name": "MIOPEN_HIPDNN_FORWARDING", "value": "1", "meaning": "on: conv, fusion, activation" });
    assert!(document["environment"].as_array().unwrap().contains(&forwarding), "{document:#}");
}

#[test]
fn names_in_the_environment_win() {
    let said = Doctor::new().native(STOCK.library()).backend(reference("libhipdnn_backend.so")).hip(reference("libamdhip64.so.7")).say();
    for library in ["native", "hip", "hipdnn"] {
        assert_eq!(said.document[library]["chosen"]["rule"], "named", "{library}");
    }
}

#[test]
fn a_stock_native_is_found_where_the_shim_finds_it() {
    let rocm = folder();
    fs::create_dir(rocm.path().join("lib")).unwrap();
    fs::copy(reference("libMIOpen_private.so.1"), rocm.path().join("lib/libMIOpen.so.1")).unwrap();
    let run = || Doctor::new().env("LD_LIBRARY_PATH", dist().join("lib")).hip(reference("libamdhip64.so.7"));
    let run = || run().backend(reference("libhipdnn_backend.so"));
    let said = run().env("ROCM_PATH", rocm.path()).say();
    said.finds(&[]);
    assert_eq!(said.document["native"]["chosen"]["rule"], "stock.rocm-path");
    // The shim itself comes before it, and is passed over.
    let rejected = said.document["native"]["rejected"].as_array().unwrap();
    let passed: Vec<_> = rejected.iter().filter(|r| r["reason"] != "missing").map(|r| (r["rule"].as_str(), r["reason"].as_str())).collect();
    assert_eq!(passed, [(Some("stock.library-path"), Some("ourselves"))]);
    // Beside the HIP runtime that programs have, it comes first.
    fs::copy(reference("libamdhip64.so.7"), rocm.path().join("lib/libamdhip64.so.7")).unwrap();
    let path = folders(&[&dist().join("lib"), &rocm.path().join("lib")]);
    let said = run().without("MIOPEN_HIPDNN_HIP_LIBRARY").env("LD_LIBRARY_PATH", path).say();
    assert_eq!(said.document["native"]["chosen"]["rule"], "stock.beside-hip", "{:#}", said.document);
}

#[test]
fn the_text_fits_and_tells_the_same() {
    let mut command = Doctor::new().env("MIOPEN_HIPDNN_TRACE", "text").0;
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for words in [
        "hipdnn-shim 0",
        "functions are called <name>_impl",
        "engine REFERENCE_ENGINE",
        "device 1:",
        "findings    none",
        "contract graph@1.0.0",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for line in text.lines().filter(|line| line.len() > 80) {
        // A label at most beside what cannot be broken.
        assert!(line.split_whitespace().filter(|word| !word.contains('/')).count() <= 1, "{line}");
    }
}

#[test]
fn the_version_is_in_trace_statistics_and_file() {
    let client = Client::compile("convolution").unwrap();
    let (trace, stats) = (client.folder().join("trace.jsonl"), client.folder().join("stats"));
    let run = client.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_STATS", &stats);
    run.output(&["plain"]).unwrap();
    let text = fs::read_to_string(&trace).unwrap();
    let banner: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let stats: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
    assert_eq!((&banner["shim"], &stats["version"]), (&env!("CARGO_PKG_VERSION").into(), &env!("CARGO_PKG_VERSION").into()));
    assert!(banner["native_library"].as_str().unwrap().ends_with("/reference/libMIOpen_private.so.1"), "{banner}");
    assert_eq!((&banner["pid"], &banner["forwarding"]), (&stats["process"]["pid"], &serde_json::json!(["conv", "fusion", "activation"])));
    let finished = client.run().forwarding().env("MIOPEN_HIPDNN_TRACE", "text").output(&["plain"]).unwrap();
    let first = format!("[MIOpen->hipDNN] hipdnn-shim {} in process ", env!("CARGO_PKG_VERSION"));
    assert!(
        finished.messages()[0].starts_with(&first) && finished.messages()[0].contains(": forwarding conv, fusion, activation; native /")
    );
}

// ---- the shim

#[test]
fn what_hides_the_shim_is_told() {
    let path = folders(&[&STOCK.lib(), &dist().join("lib"), &reference("")]);
    let said = Doctor::new().env("LD_LIBRARY_PATH", path).say();
    said.finds(&[("shim.shadowed", "error")]).says("shim.shadowed", "upstream's forwarding wrapper");
    said.says("shim.shadowed", shim().to_str().unwrap());
    let path = folders(&[&STOCK.lib(), &reference("")]);
    Doctor::new().env("LD_LIBRARY_PATH", path).say().finds(&[("shim.not-in-front", "warning")]);
    let path = folders(&[&reference("")]);
    let split = &[("shim.not-in-front", "warning"), ("native.split-alone", "warning")];
    Doctor::new().env("LD_LIBRARY_PATH", path).say().finds(split);
}

#[test]
fn another_version_in_front_is_told() {
    let folder = folder();
    other_build(&folder.path().join("libMIOpen.so.1"));
    let path = folders(&[folder.path(), &reference("")]);
    let said = Doctor::new().env("LD_LIBRARY_PATH", &path).say();
    said.finds(&[("shim.other-version", "warning")]).says("shim.other-version", "0.0.9");
    let said = Doctor::new().env("LD_LIBRARY_PATH", &path).arguments(&["--shim".as_ref(), shim().as_os_str()]).say();
    said.finds(&[("shim.not-in-front", "warning")]).says("shim.not-in-front", "another build");
    let said = Doctor::new().arguments(&["--shim".as_ref(), reference("libamdhip64.so.7").as_os_str()]).say();
    said.finds(&[("shim.missing", "error")]);
}

#[test]
fn an_installed_shim_is_known_and_so_is_its_native() {
    let folder = folder();
    let (prefix, library) = (folder.path().join("prefix"), STOCK.library());
    let arguments = ["install".as_ref(), "--native".as_ref(), library.as_os_str(), "--prefix".as_ref(), prefix.as_os_str()];
    assert!(Command::new(dist().join("bin/hipdnn-shim")).args(arguments).output().unwrap().status.success());
    let path = folders(&[&prefix.join("lib"), &reference("")]);
    let said = Doctor::new().env("LD_LIBRARY_PATH", path).say();
    // The native of these tests is such a wrapper.
    said.finds(&[("native.wrapper", "warning")]);
    let chosen = &said.document["native"]["chosen"];
    assert_eq!((&chosen["rule"], &chosen["split"]), (&"installed.beside".into(), &false.into()), "{:#}", said.document);
    assert_eq!(said.document["shim"]["path"], prefix.canonicalize().unwrap().join("lib/libMIOpen.so.1").to_str().unwrap());
}

// ---- native

#[test]
fn a_native_that_cannot_be_used_is_told() {
    let said = Doctor::new().native("/nonexistent/libMIOpen.so.1").say();
    said.finds(&[("native.missing", "error")]).says("native.missing", "/nonexistent/libMIOpen.so.1");
    let said = Doctor::new().native(reference("libamdhip64.so.7")).say();
    said.finds(&[("native.missing", "error")]).says("native.missing", "it lacks miopenCreate");
    let alone = Doctor::new().env("LD_LIBRARY_PATH", dist().join("lib")).hip(reference("libamdhip64.so.7"));
    let said = alone.backend(reference("libhipdnn_backend.so")).say();
    // The only one that there is.
    said.finds(&[("native.ourselves", "error")]);
}

#[test]
fn the_shim_is_recognised_in_every_disguise() {
    let folder = folder();
    let [link, hard, copy, other] = ["link.so", "hard.so", "copy.so", "other.so"].map(|name| folder.path().join(name));
    symlink(shim(), &link).unwrap();
    fs::hard_link(shim(), &hard).unwrap();
    fs::copy(shim(), &copy).unwrap();
    other_build(&other);
    let disguises = [
        (shim(), "the shim itself"),
        (link, "a link to the shim"),
        (hard, "a hard link to the shim"),
        (copy, "a copy of the shim"),
        (other, "another build of the shim, version 0.0.9"),
    ];
    for (path, is) in disguises {
        Doctor::new().native(path).say().finds(&[("native.ourselves", "error")]).says("native.ourselves", is);
    }
}

#[test]
fn upstreams_wrapper_is_passed_by_and_told() {
    let said = Doctor::new().native(STOCK.library()).say();
    said.finds(&[("native.wrapper", "warning")]).says("native.wrapper", STOCK.library().to_str().unwrap());
    let chosen = &said.document["native"]["chosen"];
    assert!(chosen["path"].as_str().unwrap().ends_with("libMIOpen_private.so.1") && chosen["split"] == true, "{chosen:#}");
}

// ---- HIP

#[test]
fn a_hip_that_cannot_be_used_is_told() {
    let said = Doctor::new().hip("/nonexistent/libamdhip64.so.7").say();
    said.finds(&[("hip.missing", "error")]).says("hip.missing", "MIOPEN_HIPDNN_HIP_LIBRARY");
    let said = Doctor::new().hip("libc.so.6").say();
    said.finds(&[("hip.missing", "error")]).says("hip.missing", "it lacks hipGetDevice");
    let path = folders(&[&dist().join("lib")]);
    let run = || Doctor::new().env("LD_LIBRARY_PATH", &path).native(reference("libMIOpen_private.so.1"));
    let run = || run().backend(reference("libhipdnn_backend.so"));
    run().say().finds(&[("hip.missing", "error")]).says("hip.missing", "the loader finds none of");
    run().without("MIOPEN_HIPDNN_FORWARDING").say().finds(&[("hip.missing", "warning"), ("forwarding.off", "note")]);
    let said = run().hip(NO_DEVICE.file()).say();
    said.finds(&[("hip.no-device", "error")]).says("hip.no-device", "hipGetDeviceCount returned 100");
    assert_eq!(said.document["hip"]["chosen"]["device_error"], 100);
}

#[test]
fn a_hip_without_a_device_is_one_line_and_native() {
    let client = Client::compile("convolution").unwrap();
    let finished = client.run().forwarding().env("MIOPEN_HIPDNN_HIP_LIBRARY", NO_DEVICE.file()).output(&["repeat"]).unwrap();
    assert_eq!(finished.line("right"), "right 1", "{finished:?}");
    let messages = finished.messages();
    assert!(messages.len() == 1 && messages[0].contains("has no device: hipGetDeviceCount returned 100"), "{messages:?}");
}

#[test]
fn two_runtimes_and_two_releases_are_told() {
    let folder = folder();
    let [old, new] = ["rocm-6", "rocm-7"].map(|name| folder.path().join(name));
    for (rocm, version) in [(&old, "6.4.0-1\n"), (&new, "7.2.0-9\n")] {
        fs::create_dir_all(rocm.join("lib")).unwrap();
        fs::create_dir(rocm.join(".info")).unwrap();
        fs::write(rocm.join(".info/version"), version).unwrap();
        fs::copy(reference("libMIOpen_private.so.1"), rocm.join("lib/libMIOpen_private.so.1")).unwrap();
        fs::copy(reference("libamdhip64.so.7"), rocm.join("lib/libamdhip64.so.7")).unwrap();
    }
    let hip = new.join("lib/libamdhip64.so.7");
    let said = Doctor::new().hip(&hip).say();
    said.finds(&[("rocm.two-hips", "error")]).says("rocm.two-hips", hip.to_str().unwrap());
    let path = folders(&[&dist().join("lib"), &old.join("lib")]);
    let run = || Doctor::new().env("LD_LIBRARY_PATH", &path).backend(reference("libhipdnn_backend.so"));
    run().say().finds(&[]);
    let said = run().native(new.join("lib/libMIOpen_private.so.1")).say();
    said.finds(&[("rocm.mixed", "warning")]).says("rocm.mixed", "ROCm 6.4.0-1: HIP").says("rocm.mixed", "ROCm 7.2.0-9: native");
    // If nobody names such a native, the shim does not forward.
    fs::remove_file(old.join("lib/libMIOpen_private.so.1")).unwrap();
    let path = folders(&[&dist().join("lib"), &old.join("lib"), &new.join("lib")]);
    let said = Doctor::new().env("LD_LIBRARY_PATH", path).backend(reference("libhipdnn_backend.so")).say();
    said.finds(&[("rocm.native", "error"), ("rocm.mixed", "warning")]).says("rocm.native", "of ROCm 7.2.0-9");
}

// ---- hipDNN

#[test]
fn a_hipdnn_that_cannot_be_used_is_told() {
    let folder = folder();
    let garbage = folder.path().join("garbage.so");
    fs::write(&garbage, "no library, ".repeat(100)).unwrap();
    let usable = reference("libhipdnn_backend.so");
    let cases = [
        (Doctor::new().backend("/nonexistent/libhipdnn_backend.so"), "hipdnn.missing", "there is no such file"),
        (Doctor::new().backend("/nonexistent/libhipdnn_backend.so"), "hipdnn.missing", usable.to_str().unwrap()),
        (Doctor::new().backend(&garbage), "hipdnn.unusable", "invalid ELF header"),
        (Doctor::new().backend("libc.so.6"), "hipdnn.unusable", "it lacks hipdnnCreate"),
        (Doctor::new().flawed("BACKEND_VERSION", "1.2.3.4"), "hipdnn.version", "version 1.2.3.4 is of another major"),
        (Doctor::new().flawed("BACKEND_NULL", "1"), "hipdnn.handle", "success without a handle"),
        (Doctor::new().env("REFERENCE_HIPDNN_FAULT", "hipdnnCreate=9"), "hipdnn.handle", "HIPDNN_STATUS_INTERNAL_ERROR"),
    ];
    for (doctor, id, words) in cases {
        doctor.say().finds(&[(id, "error")]).says(id, words);
    }
    let off = Doctor::new().backend(&garbage).env("MIOPEN_HIPDNN_FORWARDING", "off").say();
    off.finds(&[("hipdnn.unusable", "warning"), ("forwarding.off", "note")]);
}

#[test]
fn a_hipdnn_under_its_versioned_name_only_is_used_as_the_shim_does() {
    let folder = folder();
    for name in ["libMIOpen_private.so.1", "libamdhip64.so.7"] {
        fs::copy(reference(name), folder.path().join(name)).unwrap();
    }
    let versioned = folder.path().join("libhipdnn_backend.so.0.4");
    fs::copy(reference("libhipdnn_backend.so"), &versioned).unwrap();
    let said = Doctor::new().env("LD_LIBRARY_PATH", folders(&[&dist().join("lib"), folder.path()])).say();
    let chosen = &said.finds(&[]).document["hipdnn"]["chosen"];
    assert_eq!((&chosen["rule"], &chosen["path"]), (&"versioned".into(), &versioned.to_str().unwrap().into()));
}

#[test]
fn missing_engine_plugins_are_told() {
    let folder = folder();
    let empty = folder.path().to_str().unwrap();
    let cannot_tell = || Doctor::new().flawed("X", "");
    cannot_tell().say().finds(&[("hipdnn.no-plugin-folder", "error")]).says("hipdnn.no-plugin-folder", "hipdnn_plugins/engines");
    cannot_tell().env("HIPDNN_PLUGIN_DIR", empty).say().finds(&[("hipdnn.no-plugins", "error")]).says("hipdnn.no-plugins", empty);
    fs::write(folder.path().join("libmiopen_plugin.so"), "").unwrap();
    let said = cannot_tell().env("HIPDNN_PLUGIN_DIR", empty).say();
    assert_eq!(said.finds(&[]).document["hipdnn"]["chosen"]["plugin_files"].as_array().unwrap().len(), 1);
    let none = Doctor::new().flawed("BACKEND_ENGINES", "0").env("HIPDNN_PLUGIN_DIR", empty).say();
    none.finds(&[("hipdnn.no-engines", "error")]).says("hipdnn.no-engines", "of 1 plugins");
}

// ---- crashes

#[test]
fn a_library_that_crashes_is_told_and_the_rest_too() {
    let said = Doctor::new().backend(CRASH.file()).say();
    said.finds(&[("library.crashed", "error")])
        .says("library.crashed", "loading hipDNN and making a handle was ended by signal 11 (SIGSEGV)");
    said.says("library.crashed", "it said: no such device");
    assert_eq!(said.document["native"]["chosen"]["rule"], "split.loader");
    assert!(said.document["hipdnn"]["crashed"].as_str().unwrap().contains("SIGSEGV"));
    let said = Doctor::new().native(CRASH.file()).say();
    said.finds(&[("library.crashed", "error")]).says("library.crashed", "loading the native MIOpen");
    assert_eq!(said.document["hipdnn"]["chosen"]["rule"], "loader", "{:#}", said.document);
}

// ---- environment and translator

#[test]
fn switches_that_do_not_do_what_they_should_are_told() {
    let off = ("forwarding.off", "note");
    Doctor::new().without("MIOPEN_HIPDNN_FORWARDING").say().finds(&[off]);
    let said = Doctor::new().env("MIOPEN_HIPDNN_FORWARDING", "enabeld").say();
    said.finds(&[("forwarding.misspelt", "warning"), off]).says("forwarding.misspelt", "enabeld");
    Doctor::new().env("MIOPEN_DISABLE_HIPDNN_FOR", "*").say().finds(&[("forwarding.nothing", "warning")]);
    let said = Doctor::new().env("MIOPEN_DISABLE_HIPDNN_FOR", "fusion,cnov").say();
    said.finds(&[("environment.value", "warning")]).says("environment.value", "\"cnov\" is neither a family (conv, fusion, activation)");
    assert_eq!(said.document["forwarding"]["functions"].as_array().unwrap().len(), 29);
    let said = Doctor::new().env("MIOPEN_HIPDNN_BACKEND", "/x").say();
    said.finds(&[("environment.unknown-variable", "warning")]).says("environment.unknown-variable", "MIOPEN_HIPDNN_BACKEND");
    let said = Doctor::new().env("MIOPEN_HIPDNN_TRANSLATOR", "/nonexistent/rules.wasm").say();
    said.finds(&[("translator.override", "warning")]).says("translator.override", "cannot be read");
}

#[test]
fn the_cache_is_told_and_why_it_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let path = folder.path().join("cache");
    let run = || Doctor::new().without("MIOPEN_HIPDNN_CACHE").env("MIOPEN_HIPDNN_CACHE_DIR", &path);
    let said = run().env("MIOPEN_HIPDNN_CACHE_MAX_BYTES", "1048576").say();
    let cache = serde_json::json!({ "mode": "rw", "path": path, "below": null, "max_bytes": 1_048_576, "there": false, "error": null });
    assert_eq!(said.finds(&[]).document["cache"], cache);
    assert!(!path.exists(), "looking makes nothing");
    let said = run().env("MIOPEN_HIPDNN_CACHE", "ro").say();
    assert_eq!(said.finds(&[]).document["cache"]["mode"], "ro");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    run().say().finds(&[("cache.unusable", "warning")]).says("cache.unusable", "others may write to it");
    fs::write(folder.path().join("file"), "").unwrap();
    run().env("MIOPEN_HIPDNN_CACHE_DIR", folder.path().join("file/cache")).say().finds(&[("cache.unusable", "warning")]);
    let nowhere = Doctor::new().without("MIOPEN_HIPDNN_CACHE").say();
    nowhere.finds(&[("cache.unusable", "warning")]).says("cache.unusable", "no folder for the disk cache");
}

/// The shim says the same, once.
#[test]
fn names_that_mean_nothing_are_one_line_of_the_shims() {
    let client = Client::compile("convolution").unwrap();
    let finished = client.run().forwarding().env("MIOPEN_DISABLE_HIPDNN_FOR", "fusion,cnov").output(&["plain"]).unwrap();
    assert_eq!(finished.line("right"), "right 1");
    assert!(finished.messages().len() == 1 && finished.messages()[0].contains("\"cnov\" is neither"), "{finished:?}");
}

// ---- --pid

/// A process that waits until it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(arguments: &[&str], variables: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(WAITING.file());
        command.env_clear().env("LD_LIBRARY_PATH", folders(&[&dist().join("lib"), &reference("")]));
        command.envs(variables.iter().copied()).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn look(&self) -> Said {
        Doctor::new().arguments(&["--pid", &self.0.id().to_string()]).say()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Kind and file name of every MIOpen in the process, sorted.
fn miopens(said: &Said) -> Vec<String> {
    let list = said.document["miopens"].as_array().unwrap();
    let name = |path: &str| Path::new(path).file_name().unwrap().to_string_lossy().into_owned();
    let told = |m: &Value| format!("{} {}", m["kind"].as_str().unwrap_or("unreadable"), name(m["path"].as_str().unwrap()));
    let mut found: Vec<String> = list.iter().map(told).collect();
    found.sort();
    found
}

#[test]
fn what_serves_a_process_is_told() {
    let said = Waiting::start(&[], &[("MIOPEN_HIPDNN_FIND", "both".as_ref())]).look();
    said.finds(&[]);
    assert_eq!(miopens(&said), ["private libMIOpen_private.so.1", "shim libMIOpen.so.1"]);
    let shims = said.document["miopens"].as_array().unwrap().iter().find(|m| m["kind"] == "shim").unwrap();
    assert_eq!((&shims["version"], &shims["deleted"]), (&env!("CARGO_PKG_VERSION").into(), &false.into()));
    assert_eq!(said.document["program"], WAITING.file().canonicalize().unwrap().to_str().unwrap());
    assert!(said.document["environment"].as_array().unwrap().iter().any(|v| v["name"] == "MIOPEN_HIPDNN_FIND"), "{:#}", said.document);
    let unbound = Waiting::start(&["idle"], &[]).look();
    unbound.finds(&[("process.unbound", "note")]);
}

#[test]
fn the_shim_in_a_process_is_known_by_what_it_is() {
    let folder = folder();
    let [first, second] = ["libsomething.so", "libelse.so"].map(|name| folder.path().join(name));
    fs::copy(shim(), &first).unwrap();
    fs::copy(shim(), &second).unwrap();
    let stock = STOCK.lib();
    let preload = |libraries: &[&PathBuf]| libraries.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>().join(" ");
    let process = Waiting::start(&[], &[("LD_PRELOAD", preload(&[&first]).as_ref())]);
    assert_eq!(miopens(process.look().finds(&[])), ["private libMIOpen_private.so.1", "shim libsomething.so"]);
    // It goes on when its file is replaced.
    fs::copy(shim(), folder.path().join("new")).unwrap();
    fs::rename(folder.path().join("new"), &first).unwrap();
    let said = process.look();
    if said.ids() != ["process.unread"] {
        // Who may follow mappings is told what the old file is.
        said.finds(&[("process.replaced", "note")]);
    }
    let two = Waiting::start(&[], &[("LD_PRELOAD", preload(&[&first, &second]).as_ref())]).look();
    two.finds(&[("process.two-shims", "error")]).says("process.two-shims", second.to_str().unwrap());
    let none = Waiting::start(&[], &[("LD_LIBRARY_PATH", folders(&[&stock, &reference("")]).as_ref())]).look();
    none.finds(&[("process.no-shim", "error")]).says("process.no-shim", stock.to_str().unwrap());
    assert_eq!(miopens(&none), ["private libMIOpen_private.so.1", "wrapper libMIOpen.so.1.0"]);
    let idle = Command::new("sleep").arg("600").spawn().map(Idle).unwrap();
    Doctor::new().arguments(&["--pid", &idle.0.id().to_string()]).say().finds(&[("process.no-miopen", "warning")]);
}

/// A process of no interest, ended when dropped.
struct Idle(Child);

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_cannot_be_looked_at_is_told() {
    let refuse = |mut command: Command, words: &str| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.lines().count() == 1 && said.contains(words), "{output:?}");
    };
    refuse(Doctor::new().arguments(&["--pid", "4294967295"]).0, "there is no process 4294967295");
    // Another user's: root's for everyone else, and for root's sake everyone else's view of root's.
    let mut command = Doctor::new().arguments(&["--pid", "1"]).0;
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        command.uid(65534);
    }
    refuse(command, "process 1 may not be looked at");
}
