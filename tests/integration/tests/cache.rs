//! The disk cache, from the outside: what the second process does not do again, what faults cost (time, and nothing else), and what
//! makes an entry another one. Section D of the case list by number. Every run's numbers are compared with the definition.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use integration_tests::{Client, Finished, Run, dist, reference, trace_lines};
use serde_json::Value;
use tempfile::TempDir;

static CONVOLUTION: LazyLock<Client> = LazyLock::new(|| Client::compile("convolution").unwrap());

/// Kinds of entries that one convolution leaves.
const KINDS: [&str; 3] = ["manifests", "plans", "translations"];

/// A folder for the cache, and jobs that use it.
struct Jobs {
    folder: TempDir,
}

/// One process that ran.
struct Job {
    finished: Finished,
    /// The first line of its trace: its cold call.
    cold: Value,
    /// Calls that reached hipDNN.
    backend: String,
}

impl Jobs {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn run(&self) -> Run {
        CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_CACHE", "rw").env("MIOPEN_HIPDNN_CACHE_DIR", self.cache())
    }

    /// Runs a job to its end, which must be a right one.
    fn job_of(&self, run: Run, what: &str) -> Job {
        let (trace, log) = (self.folder.path().join("trace.jsonl"), self.folder.path().join("backend"));
        let _ = (fs::remove_file(&trace), fs::remove_file(&log));
        let finished = run.env("MIOPEN_HIPDNN_TRACE", &trace).env("REFERENCE_HIPDNN_LOG", &log).output(&[what]).unwrap();
        if what == "plain" {
            assert_eq!(finished.line("right"), "right 1", "{finished:?}");
        }
        assert_eq!(finished.line("status"), "status 0 (miopenStatusSuccess), forwarded error 0", "{what}");
        let cold = trace_lines(&trace).unwrap().into_iter().next().unwrap();
        Job { finished, cold, backend: fs::read_to_string(log).unwrap() }
    }

    fn job(&self, what: &str) -> Job {
        self.job_of(self.run(), what)
    }

    fn with(&self, variables: &[(&str, &str)]) -> Job {
        self.job_of(variables.iter().fold(self.run(), |run, (name, value)| run.env(name, value)), "plain")
    }

    /// The files of a kind.
    fn entries(&self, kind: &str) -> Vec<PathBuf> {
        files(&self.cache().join("v1").join(kind))
    }

    fn entry(&self, kind: &str) -> PathBuf {
        let [entry] = self.entries(kind).try_into().unwrap();
        entry
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map_or_else(|_| Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

impl Job {
    fn levels(&self) -> (&str, &str) {
        (self.cold["translation"].as_str().unwrap_or("-"), self.cold["plan"].as_str().unwrap_or("-"))
    }

    fn did(&self, phase: &str) -> bool {
        self.cold["phases_us"][phase].is_number()
    }

    fn asked_for_engines(&self) -> bool {
        self.backend.contains("(ENGINEHEUR)")
    }

    fn is_quiet(&self) -> bool {
        self.finished.messages().is_empty()
    }
}

#[test]
fn the_second_process_enters_no_wasm_and_asks_for_no_engines() {
    for (profile, by) in
        [("abi", "hipdnnBackendCreateAndDeserializeExecutionPlan_ext"), ("miopen-provider", "hipdnnBackendFinalize(ENGINE)")]
    {
        let jobs = Jobs::new();
        let (first, second) = (jobs.with(&[("REFERENCE_HIPDNN_PROFILE", profile)]), jobs.with(&[("REFERENCE_HIPDNN_PROFILE", profile)]));
        assert_eq!((first.levels(), second.levels()), (("built", "built"), ("disk", "disk")), "{profile}");
        for phase in ["translator", "translate", "heuristics"] {
            assert_eq!((first.did(phase), second.did(phase)), (true, false), "{profile}: {phase}");
        }
        assert!(first.asked_for_engines() && !second.asked_for_engines(), "{profile}");
        assert_eq!((first.backend.contains(by), second.backend.contains(by)), (false, true), "{profile}: {}", second.backend);
        assert!(first.is_quiet() && second.is_quiet());
        assert_eq!(KINDS.map(|kind| jobs.entries(kind).len()), [1, 1, 1], "{profile}");
        assert_eq!(files(&jobs.cache().join("v1/tmp")), Vec::<PathBuf>::new());
        assert_eq!(first.cold["engine"], second.cold["engine"]);
    }
}

#[test]
fn declines_are_remembered_too() {
    let jobs = Jobs::new();
    let (first, second) = (jobs.job("deterministic"), jobs.job("deterministic"));
    assert_eq!((first.levels(), second.levels()), (("built", "-"), ("disk", "-")));
    assert!(first.did("translator") && !second.did("translator"));
    assert_eq!((&first.cold["rule"], &first.cold["message"]), (&second.cold["rule"], &second.cold["message"]));
    assert_eq!(second.cold["rule"], "conv.attribute.deterministic");
    assert_eq!(first.finished.line("y"), second.finished.line("y"));
}

/// Who translated, and what the rules mean, is known without the translator.
#[test]
fn the_second_process_says_as_much_as_the_first() {
    let jobs = Jobs::new();
    let stats = jobs.folder.path().join("stats");
    let said = || -> Value {
        jobs.job_of(jobs.run().env("MIOPEN_HIPDNN_STATS", &stats), "deterministic");
        serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap()
    };
    let (first, second) = (said(), said());
    assert!(first["translator"]["sha256"].is_string() && first["rules"]["conv.attribute.deterministic"].is_string(), "{first}");
    assert_eq!((&first["translator"], &first["rules"]), (&second["translator"], &second["rules"]));
}

// V62 of the case list, across processes.
#[test]
fn that_no_engine_takes_a_graph_is_remembered_for_this_backend_only() {
    let jobs = Jobs::new();
    let job = |profile: &str| jobs.job_of(jobs.run().env("REFERENCE_HIPDNN_PROFILE", profile), "alpha");
    let (first, second) = (job("miopen-provider"), job("miopen-provider"));
    assert_eq!((first.levels(), second.levels()), (("built", "built"), ("disk", "disk")));
    assert!(first.asked_for_engines() && !second.asked_for_engines() && !second.did("translator"));
    for declined in [&first, &second] {
        assert_eq!((&declined.cold["route"], &declined.cold["rule"]), (&"native".into(), &"conv.scaling.alpha".into()));
    }
    // Other engines are another key: what limited the answer is gone.
    let other = job("abi");
    assert_eq!((other.levels(), &other.cold["route"]), (("disk", "built"), &"hipdnn".into()));
}

#[test]
fn off_and_read_only_write_nothing() {
    let jobs = Jobs::new();
    for mode in ["off", "ro"] {
        let job = jobs.with(&[("MIOPEN_HIPDNN_CACHE", mode)]);
        assert_eq!((job.levels(), job.is_quiet(), jobs.cache().exists()), (("built", "built"), true, false), "{mode}");
    }
    jobs.job("plain");
    let before = KINDS.map(|kind| jobs.entries(kind));
    assert_eq!(jobs.with(&[("MIOPEN_HIPDNN_CACHE", "ro")]).levels(), ("disk", "disk"));
    assert_eq!(jobs.with(&[("MIOPEN_HIPDNN_CACHE", "off")]).levels(), ("built", "built"));
    // Another problem.
    let alpha = jobs.job_of(jobs.run().env("MIOPEN_HIPDNN_CACHE", "ro"), "alpha");
    assert_eq!(alpha.levels(), ("built", "built"));
    assert_eq!(KINDS.map(|kind| jobs.entries(kind)), before);
    let odd = jobs.with(&[("MIOPEN_HIPDNN_CACHE", "maybe")]);
    assert!(odd.finished.messages().len() == 1 && odd.finished.messages()[0].contains("MIOPEN_HIPDNN_CACHE"), "{:?}", odd.finished);
}

#[test]
fn a_cache_that_is_only_read_lies_below_one_that_is_written() {
    let jobs = Jobs::new();
    jobs.job("plain");
    let below = jobs.folder.path().join("below");
    fs::rename(jobs.cache(), &below).unwrap();
    let before = files(&below.join("v1/plans"));
    let run = |what: &str| jobs.job_of(jobs.run().env("MIOPEN_HIPDNN_CACHE_BELOW", &below), what);
    assert_eq!(run("plain").levels(), ("disk", "disk"));
    assert_eq!(jobs.entries("plans"), Vec::<PathBuf>::new());
    assert_eq!((run("alpha").levels(), run("alpha").levels()), (("built", "built"), ("disk", "disk")));
    assert_eq!((jobs.entries("plans").len(), files(&below.join("v1/plans"))), (1, before));
    fs::remove_dir_all(&below).unwrap();
    let missing = run("plain");
    let messages = missing.finished.messages();
    assert!(messages.len() == 1 && messages[0].contains("MIOPEN_HIPDNN_CACHE_BELOW"), "{messages:?}");
}

// V42 of the case list: places that cannot be, and places with odd names.
#[test]
fn without_a_folder_there_is_one_warning_and_the_same_numbers() {
    let jobs = Jobs::new();
    fs::write(jobs.folder.path().join("file"), "").unwrap();
    let long = "x".repeat(4000);
    let bad: [(&str, &OsStr); 3] = [
        ("MIOPEN_HIPDNN_CACHE_DIR", OsStr::new("/proc/self/nowhere")),
        ("MIOPEN_HIPDNN_CACHE_DIR", OsStr::new(&long)),
        ("MIOPEN_HIPDNN_CACHE_DIR", &jobs.folder.path().join("file").into_os_string()),
    ];
    for (name, value) in bad {
        let job = jobs.job_of(jobs.run().env(name, value), "plain");
        assert_eq!(job.levels(), ("built", "built"), "{value:?}");
        let messages = job.finished.messages();
        assert!(messages.len() == 1 && messages[0].contains("MIOPEN_HIPDNN_CACHE_DIR"), "{value:?}: {messages:?}");
    }
    let home = |home: Option<&str>, xdg: &str| {
        let run = jobs.run().without("MIOPEN_HIPDNN_CACHE_DIR").without("HOME").env("XDG_CACHE_HOME", xdg);
        jobs.job_of(home.into_iter().fold(run, |run, home| run.env("HOME", home)), "plain")
    };
    for (at, xdg) in [(None, ""), (None, "relative"), (Some("/proc/self/nowhere"), "")] {
        let job = home(at, xdg);
        assert!(job.finished.messages().len() == 1, "{at:?} {xdg}: {:?}", job.finished.messages());
        assert!(job.finished.messages()[0].contains("MIOPEN_HIPDNN_CACHE_DIR"));
    }
    assert!(!Path::new("relative").exists());
    let at = jobs.folder.path().join("home");
    assert!(home(at.to_str(), "relative").is_quiet());
    assert_eq!(files(&at.join(".cache/hipdnn-shim/v1/plans")).len(), 1);
    assert_eq!(home(at.to_str(), "").levels(), ("disk", "disk"));
    for name in [&b"with some spaces"[..], b"\xff\xfe not text", b"a:b"] {
        let path = jobs.folder.path().join(OsStr::from_bytes(name));
        let run = || jobs.job_of(jobs.run().env("MIOPEN_HIPDNN_CACHE_DIR", &path), "plain");
        assert!(run().is_quiet());
        assert_eq!(run().levels(), ("disk", "disk"));
    }
}

/// Folders that somebody else could have filled.
#[test]
fn folders_that_others_can_write_are_refused_with_one_line() {
    let jobs = Jobs::new();
    jobs.job("plain");
    let refused = |why: &str| {
        let job = jobs.job("plain");
        assert_eq!(job.levels(), ("built", "built"), "{why}");
        let messages = job.finished.messages();
        assert!(messages.len() == 1 && messages[0].contains(why) && messages[0].contains("MIOPEN_HIPDNN_CACHE_DIR"), "{messages:?}");
    };
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for folder in ["", "v1", "v1/plans", "v1/translations"] {
        mode(&jobs.cache().join(folder), 0o777);
        refused("others may write");
        mode(&jobs.cache().join(folder), 0o700);
    }
    assert_eq!(jobs.job("plain").levels(), ("disk", "disk"));
    // A file that others can write is no entry, and is replaced by one that is.
    mode(&jobs.entry("plans"), 0o666);
    assert_eq!(jobs.job("plain").levels(), ("disk", "built"));
    assert_eq!(jobs.job("plain").levels(), ("disk", "disk"));
    let moved = jobs.folder.path().join("moved");
    fs::rename(jobs.cache(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, jobs.cache()).unwrap();
    refused("symbolic link");
    fs::remove_file(jobs.cache()).unwrap();
    fs::rename(&moved, jobs.cache()).unwrap();
    if is_root() {
        std::os::unix::fs::chown(jobs.cache(), Some(65534), None).unwrap();
        refused("belongs to user 65534");
    }
}

fn is_root() -> bool {
    // The owner of what this process makes.
    std::os::unix::fs::MetadataExt::uid(&tempfile::tempdir().unwrap().path().metadata().unwrap()) == 0
}

/// A folder that this user may read and not write.
#[test]
fn a_folder_that_cannot_be_written_is_still_read() {
    let jobs = Jobs::new();
    jobs.job("plain");
    // Root may write anything; somebody else then runs it, on root's folder.
    let mode = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    for folder in ["v1/tmp", "v1/plans", "v1/translations", "v1/manifests", "v1/compiled", "v1", ""] {
        mode(&jobs.cache().join(folder));
    }
    for file in KINDS.iter().flat_map(|kind| jobs.entries(kind)) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    }
    let outside = jobs.folder.path();
    fs::set_permissions(outside, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(CONVOLUTION.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |what: &str| {
        let mut command = if is_root() { Command::new("setpriv") } else { Command::new("env") };
        if is_root() {
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "env"]);
        }
        let variables: Vec<String> = variables(&jobs).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let output = command.args(variables).arg("MIOPEN_HIPDNN_TRACE=json").arg(CONVOLUTION.file()).arg(what).output().unwrap();
        Finished::from(output)
    };
    let (known, unknown) = (run("plain"), run("alpha"));
    assert_eq!(known.line("right"), "right 1", "{known:?}");
    // What has nothing to write has nothing to complain about.
    for (finished, level, messages) in [(&known, "disk", 0), (&unknown, "built", 1)] {
        let traced = finished.stderr.lines().find(|line| line.starts_with('{') && line.contains("\"call\"")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(traced).unwrap()["plan"], level, "{finished:?}");
        assert_eq!(finished.messages().len(), messages, "{finished:?}");
        assert!(finished.messages().iter().all(|message| message.contains("cannot be written")), "{finished:?}");
    }
}

/// The variables of a job, for one that is started in another way.
fn variables(jobs: &Jobs) -> Vec<(&'static str, String)> {
    let path = |path: PathBuf| path.to_str().unwrap().to_string();
    vec![
        ("LD_LIBRARY_PATH", path(dist().join("lib"))),
        ("MIOPEN_HIPDNN_NATIVE_LIBRARY", path(reference("libMIOpen_private.so.1"))),
        ("MIOPEN_HIPDNN_BACKEND_LIBRARY", path(reference("libhipdnn_backend.so"))),
        ("MIOPEN_HIPDNN_HIP_LIBRARY", path(reference("libamdhip64.so.7"))),
        ("MIOPEN_HIPDNN_FORWARDING", "1".into()),
        ("MIOPEN_HIPDNN_CACHE", "rw".into()),
        ("MIOPEN_HIPDNN_CACHE_DIR", path(jobs.cache())),
    ]
}

// V44 of the case list, with the whole shim around it; every length and every bit are tried where files are parsed.
#[test]
fn a_mangled_entry_is_a_miss_and_is_replaced() {
    let jobs = Jobs::new();
    jobs.job("plain");
    for kind in KINDS {
        let (path, bytes) = (jobs.entry(kind), fs::read(jobs.entry(kind)).unwrap());
        let cut = [0, 1, 63, 64, bytes.len() / 2, bytes.len() - 1].map(|length| bytes[..length].to_vec());
        let flipped = (0..64).step_by(5).chain((64..bytes.len()).step_by(bytes.len() / 12)).map(|at| {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            flipped
        });
        let longer = [&bytes[..], b"more"].concat();
        for mangled in cut.into_iter().chain(flipped).chain([longer]) {
            fs::write(&path, &mangled).unwrap();
            let job = jobs.job("plain");
            let expected = match kind {
                "manifests" => ("disk", "disk"),
                "plans" => ("disk", "built"),
                _ => ("built", "disk"),
            };
            assert_eq!((job.levels(), job.is_quiet()), (expected, true), "{kind}, {} bytes", mangled.len());
            assert_eq!(fs::read(&path).unwrap(), bytes, "{kind} was not replaced");
        }
    }
}

// V44: something else in the place of an entry.
#[test]
fn whatever_lies_in_the_place_of_an_entry_is_no_harm() {
    let jobs = Jobs::new();
    jobs.job("plain");
    let (path, bytes) = (jobs.entry("plans"), fs::read(jobs.entry("plans")).unwrap());
    let elsewhere = jobs.folder.path().join("elsewhere");
    fs::write(&elsewhere, &bytes).unwrap();
    let link = |to: &str| std::os::unix::fs::symlink(to, &path).unwrap();
    let places: [(&str, &dyn Fn()); 6] = [
        ("an empty folder", &|| fs::create_dir(&path).unwrap()),
        ("a folder with something in it", &|| fs::create_dir_all(path.join("a/b")).unwrap()),
        ("a pipe", &|| assert!(Command::new("mkfifo").arg(&path).status().unwrap().success())),
        ("a link to an entry", &|| link(elsewhere.to_str().unwrap())),
        ("a link to a device", &|| link("/dev/zero")),
        ("a link to itself", &|| link(path.to_str().unwrap())),
    ];
    for (what, place) in places {
        fs::remove_file(&path).unwrap();
        place();
        let job = jobs.job("plain");
        assert_eq!((job.levels(), job.is_quiet()), (("disk", "built"), true), "{what}");
        assert!(path.symlink_metadata().unwrap().is_file() && fs::read(&path).unwrap() == bytes, "{what} was not replaced");
        assert_eq!(jobs.job("plain").levels(), ("disk", "disk"));
    }
    assert_eq!(fs::read(elsewhere).unwrap(), bytes);
}

/// Runs a job under a tool, which must end well.
fn under(jobs: &Jobs, tool: &[&str], job: &[&str]) -> Finished {
    let mut command = Command::new(tool[0]);
    command.args(&tool[1..]).args(job).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    command.envs(variables(jobs)).env("MIOPEN_HIPDNN_TRACE", "json");
    let finished = Finished::from(command.output().unwrap_or_else(|error| panic!("{} is needed: {error}", tool[0])));
    assert_eq!((finished.code, finished.line("right")), (Some(0), "right 1"), "{finished:?}");
    finished
}

// V40 and V46 of the case list: the system says no.
#[test]
fn a_system_that_refuses_costs_one_warning_at_most() {
    let client = CONVOLUTION.file();
    let client = client.to_str().unwrap();
    for (fault, writes) in [
        ("openat2:error=EMFILE", false),
        ("renameat:error=EDQUOT", false),
        ("renameat:error=EIO", false),
        ("renameat2:error=EIO", true),
        ("flock,fcntl:error=ENOLCK", true),
        ("fsync,fdatasync:error=EIO", true),
    ] {
        let jobs = Jobs::new();
        let inject = format!("inject={fault}");
        let finished = under(&jobs, &["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject], &[client, "plain"]);
        assert!(finished.messages().len() <= 1, "{fault}: {finished:?}");
        let written = jobs.entries("plans").len() + jobs.entries("translations").len();
        assert_eq!(written, if writes { 2 } else { 0 }, "{fault}");
        assert_eq!(finished.messages().len(), usize::from(!writes), "{fault}: {finished:?}");
        assert_eq!(files(&jobs.cache().join("v1/tmp")).len(), 0, "{fault}");
        // The next process heals it.
        jobs.job("plain");
        assert_eq!(jobs.job("plain").levels(), ("disk", "disk"), "{fault}");
    }
}

// V46: a full disk. The file system is one of 4 pages, which the folders take already.
#[test]
fn a_full_disk_costs_one_warning() {
    let jobs = Jobs::new();
    fs::create_dir(jobs.cache()).unwrap();
    let (cache, client) = (jobs.cache(), CONVOLUTION.file());
    let script = format!(
        "mount -t tmpfs -o size=16k,mode=700 tmpfs '{0}' && dd if=/dev/zero of='{0}/filler' bs=4k count=3 2>/dev/null && '{1}' plain \
         && ls -R '{0}' >&2",
        cache.display(),
        client.display()
    );
    let finished = under(&jobs, &["unshare", "-rm"], &["sh", "-c", &script]);
    assert_eq!(finished.messages().len(), 1, "{finished:?}");
    assert!(finished.messages()[0].contains("No space left") && finished.messages()[0].contains("cannot be written"), "{finished:?}");
    assert!(finished.stderr.contains("v1/tmp:") && !finished.stderr.contains("-0-"), "a temporary file was left: {finished:?}");
}

// V41 of the case list.
#[test]
fn killed_writers_leave_nothing_that_hurts() {
    for round in 0..100 {
        let jobs = Jobs::new();
        let mut children: Vec<_> = (0..16)
            .map(|_| {
                let mut command = Command::new(CONVOLUTION.file());
                command
                    .arg("plain")
                    .env_remove("HOME")
                    .envs(variables(&jobs))
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for (index, child) in children.iter_mut().enumerate().filter(|(index, _)| index % 2 == 0) {
            // Spread over the time that a job takes, differently in each round.
            std::thread::sleep(std::time::Duration::from_micros(((index * 7 + round * 13) % 40) as u64 * 100));
            child.kill().unwrap();
        }
        for (index, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            let killed = output.status.signal() == Some(9);
            assert!(killed || output.status.success(), "round {round}: {output:?}");
            if index % 2 == 1 {
                let finished = Finished::from(output);
                assert_eq!((finished.line("right"), finished.messages().len()), ("right 1", 0), "round {round}: {finished:?}");
            }
        }
        let (last, after) = (jobs.job("plain"), jobs.job("plain"));
        assert!(last.is_quiet() && after.is_quiet());
        assert_eq!(after.levels(), ("disk", "disk"), "round {round}");
    }
}

// V47 of the case list: each part that an answer depends on makes it another one, and the way back hits again.
#[test]
fn another_part_is_another_entry_and_the_way_back_hits() {
    let jobs = Jobs::new();
    jobs.job("plain");
    let copies = tempfile::tempdir().unwrap();
    let altered = |file: &Path| {
        let copy = copies.path().join(file.file_name().unwrap());
        fs::write(&copy, integration_tests::elf::with_other_build_id(&fs::read(file).unwrap())).unwrap();
        copy.to_str().unwrap().to_string()
    };
    let (native, backend) = (altered(&reference("libMIOpen_private.so.1")), altered(&reference("libhipdnn_backend.so")));
    altered(&dist().join("lib/libMIOpen.so.1"));
    let shim = format!("{}:{}", copies.path().display(), dist().join("lib").display());
    let parts: [(&str, &str); 8] = [
        ("MIOPEN_HIPDNN_NATIVE_LIBRARY", &native),
        ("MIOPEN_HIPDNN_BACKEND_LIBRARY", &backend),
        ("LD_LIBRARY_PATH", &shim),
        ("REFERENCE_HIP_ARCHITECTURE", "gfx950"),
        ("REFERENCE_HIP_COMPUTE_UNITS", "256"),
        ("REFERENCE_HIP_DRIVER_VERSION", "70300000"),
        ("REFERENCE_HIPDNN_PROFILE", "miopen-provider"),
        ("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER", "REFERENCE_ENGINE"),
    ];
    for (part, value) in parts {
        let (changed, again) = (jobs.with(&[(part, value)]), jobs.with(&[(part, value)]));
        assert_eq!((changed.levels(), again.levels()), (("disk", "built"), ("disk", "disk")), "{part}");
        assert_eq!(jobs.job("plain").levels(), ("disk", "disk"), "{part}");
    }
    assert_eq!((jobs.entries("plans").len(), jobs.entries("translations").len()), (1 + parts.len(), 1));
}

/// Entries that were not used for longest go when there is no more room, and leftovers of dead writers with them.
#[test]
fn there_is_only_so_much_room() {
    let jobs = Jobs::new();
    for what in ["plain", "alpha", "beta"] {
        jobs.job(what);
    }
    let old = fs::File::options().append(true).open(&jobs.entries("plans")[0]).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let leftover = jobs.cache().join("v1/tmp/leftover");
    fs::write(&leftover, "").unwrap();
    // From the future: the clock went backwards.
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(1 << 20);
    fs::File::options().append(true).open(&leftover).unwrap().set_modified(future).unwrap();
    let (before, oldest) = (jobs.entries("plans").len(), jobs.entries("plans")[0].clone());
    let total: u64 = KINDS.iter().flat_map(|kind| jobs.entries(kind)).map(|path| path.metadata().unwrap().len()).sum();
    // The first entry that a process writes makes it look after the room.
    let room = total.to_string();
    let run = jobs.run().env("MIOPEN_HIPDNN_CACHE_MAX_BYTES", room).env("REFERENCE_HIP_ARCHITECTURE", "other");
    jobs.job_of(run, "plain");
    assert!(!leftover.exists() && !oldest.exists());
    assert_eq!(jobs.entries("plans").len(), before);
}

fn tool(jobs: &Jobs, arguments: &[&str]) -> Finished {
    let mut command = Command::new(dist().join("bin/hipdnn-shim"));
    command.args(["cache"]).args(arguments).env_remove("HOME").env_remove("XDG_CACHE_HOME").envs(variables(jobs));
    Finished::from(command.output().unwrap())
}

/// The tool's verbs over a cache that a job left.
#[test]
fn the_tool_counts_checks_packs_and_clears() {
    let jobs = Jobs::new();
    let cache = jobs.cache();
    assert_eq!(tool(&jobs, &["path"]).stdout.trim(), cache.to_str().unwrap());
    let nothing: Value = serde_json::from_str(&tool(&jobs, &["stats", "--json"]).stdout).unwrap();
    assert_eq!((&nothing["bytes"], cache.exists()), (&0.into(), false));
    jobs.job("plain");
    jobs.job("alpha");
    let stats: Value = serde_json::from_str(&tool(&jobs, &["stats", "--json"]).stdout).unwrap();
    let counted: Vec<_> = ["manifests", "translations", "plans", "compiled"].map(|kind| stats["kinds"][kind]["entries"].as_u64()).into();
    assert_eq!(counted, [Some(1), Some(2), Some(2), Some(0)], "{stats}");
    // A pack of one cache is another cache, without the bytes of plans.
    let pack = jobs.folder.path().join("pack");
    let pack = pack.to_str().unwrap();
    assert!(tool(&jobs, &["pack", "-o", pack]).stdout.contains("packed 5 entries"));
    let other = jobs.folder.path().join("other");
    let other = other.to_str().unwrap();
    assert!(tool(&jobs, &["unpack", "--dir", other, pack]).stdout.contains("took 5 entries"));
    let unpacked = jobs.job_of(jobs.run().env("MIOPEN_HIPDNN_CACHE_DIR", other), "plain");
    assert_eq!(unpacked.levels(), ("disk", "disk"));
    assert!(!unpacked.asked_for_engines() && !unpacked.backend.contains("Deserialize"), "{}", unpacked.backend);
    // Damage is told, and can be removed.
    assert_eq!(tool(&jobs, &["verify"]).code, Some(0));
    let entry = jobs.entries("plans")[0].clone();
    fs::write(&entry, "x").unwrap();
    let found = tool(&jobs, &["verify"]);
    assert!(found.code == Some(1) && found.stdout.contains("4 entries are whole, 1 are not"), "{found:?}");
    assert_eq!((tool(&jobs, &["verify", "--remove"]).code, entry.exists()), (Some(0), false));
    assert!(tool(&jobs, &["prune", "--max-bytes", "0"]).stdout.contains("removed 4 entries"));
    fs::write(cache.join("v1/tmp/leftover"), "").unwrap();
    assert!(tool(&jobs, &["clear"]).stdout.contains("removed 0 entries") && !cache.join("v1/tmp/leftover").exists());
    // Mistakes say what is wrong.
    fs::write(pack, "no pack").unwrap();
    let refused = tool(&jobs, &["unpack", pack]);
    assert!(refused.code == Some(1) && (refused.stderr.contains("no pack") || refused.stderr.contains("cut off")), "{refused:?}");
    let missing = tool(&jobs, &["verify", "--dir", "/nonexistent"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("/nonexistent"), "{missing:?}");
}

#[test]
fn lines_that_were_run_once_are_warm_in_every_job() {
    let jobs = Jobs::new();
    let lines = jobs.folder.path().join("lines");
    // The client's own problem, and one that is declined.
    let problem = "conv -n 2 -c 3 -H 5 -W 5 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1";
    fs::write(&lines, format!("{problem}\n{problem} -m trans -k 3\n")).unwrap();
    let done = tool(&jobs, &["prewarm", "--jobs", "2", lines.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("plans and"), "{done:?}");
    let job = jobs.job("plain");
    // The client names another algorithm than the tool: the translator may look at it, the plan does not depend on it.
    assert_eq!(job.levels(), ("built", "disk"), "{:?}", job.cold);
}
