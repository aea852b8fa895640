//! A split installation: the shim before a `libMIOpen_private.so.1` whose functions are called `<name>_impl`. Who builds a plugin of hipDNN
//! against the package `miopen_private` reaches that library, and never the shim that called hipDNN: what the loader bound says so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use integration_tests::{Client, Finished, dist, elf::Library, reference, shim, succeed, text, tool, trace_lines};

const PUBLIC: &str = "libMIOpen.so.1";
const PRIVATE: &str = "libMIOpen_private.so.1";

/// A split installation, as the tool makes it.
struct Split {
    folder: tempfile::TempDir,
}

impl Split {
    fn install() -> Self {
        let split = Self { folder: tempfile::tempdir().unwrap() };
        let native = reference(PRIVATE);
        succeed(&["install", "--native", text(&native), "--prefix", text(&split.prefix())]);
        split
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("prefix")
    }

    fn lib(&self) -> PathBuf {
        self.prefix().join("lib")
    }

    /// The plugin, built with a package's flags, so that the loader finds its library in this installation.
    fn plugin(&self, package: &str) -> PathBuf {
        let flags = pkg_config(&self.lib().join("pkgconfig"), package);
        let plugin = self.folder.path().join(format!("{package}.so"));
        compile(&plugin, &flags, &[&format!("-Wl,-rpath,{}", self.lib().display())]);
        plugin
    }
}

/// What a package says to a compiler.
fn pkg_config(folder: &Path, package: &str) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    let output = command.env("PKG_CONFIG_PATH", folder).args(["--cflags", "--libs", package]).output();
    let output = output.expect("pkg-config is missing: install Debian's package pkg-config");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_string).collect()
}

fn client(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").join(name)
}

fn compile(to: &Path, flags: &[String], more: &[&str]) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    let command = command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).arg(client("plugin.c"));
    let output = command.args(flags).args(more).arg("-o").arg(to).output().expect("a C compiler is needed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The program that opens plugins. It is linked with no MIOpen.
static PLUGINS: LazyLock<Client> = LazyLock::new(|| Client::compile_with("plugins", &["-Wl,--as-needed"]).unwrap());

/// What a run of a plugin came to.
struct Ran {
    finished: Finished,
    /// Names that the loader bound for the plugin, by the library that it bound them to.
    bindings: BTreeMap<String, BTreeSet<String>>,
    /// Calls that the shim traced.
    traced: Vec<String>,
    /// The shim's counters, by function.
    census: Option<serde_json::Value>,
    /// Calls that native received.
    native: Vec<String>,
}

/// Runs it with forwarding on and the loader's bindings written down.
fn run(plugin: &Path, public: Option<&Path>) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let run = PLUGINS.run().without("LD_LIBRARY_PATH").without("MIOPEN_HIPDNN_NATIVE_LIBRARY").forwarding();
    let run = run.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", file("bindings")).env("REFERENCE_MIOPEN_LOG", file("native"));
    let run = run.env("MIOPEN_HIPDNN_TRACE", file("trace.jsonl")).env("MIOPEN_HIPDNN_STATS", file("stats"));
    let arguments = [Some(plugin), public].into_iter().flatten().map(text).collect::<Vec<_>>();
    let finished = run.finish(&arguments).unwrap();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let logs = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let logs: String = logs.filter(|path| text(path).contains("bindings")).map(|path| read(&path)).collect();
    let traced = trace_lines(&file("trace.jsonl")).unwrap_or_default();
    Ran {
        finished,
        bindings: bindings(&logs, plugin),
        traced: traced.iter().map(|line| line["call"].as_str().unwrap().to_string()).collect(),
        census: serde_json::from_str::<serde_json::Value>(&read(&file("stats"))).ok().map(|stats| stats["calls"].clone()),
        native: read(&file("native")).lines().filter_map(|line| line.split(' ').next().map(str::to_string)).collect(),
    }
}

/// `binding file A [0] to B [0]: normal symbol `X'`: the X whose A is a file, by the name of B. Of MIOpen's functions only.
fn bindings(log: &str, of: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in log.lines().filter_map(|line| line.split_once("binding file ").map(|(_, rest)| rest)) {
        let Some((from, rest)) = line.split_once(" [0] to ") else { continue };
        let Some((to, rest)) = rest.split_once(" [0]: ") else { continue };
        let symbol = rest.split(['`', '\'']).nth(1).unwrap();
        if Path::new(from) == of && symbol.starts_with("miopen") {
            let library = Path::new(to).file_name().unwrap().to_str().unwrap();
            found.entry(library.into()).or_default().insert(symbol.into());
        }
    }
    found
}

/// The functions that the plugin calls, with an ending.
fn called(ending: &str) -> BTreeSet<String> {
    let source = fs::read_to_string(client("plugin.c")).unwrap();
    let names = source.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| miopen_api::table().function(word).is_some());
    let names: BTreeSet<String> = names.map(|name| format!("{name}{ending}")).collect();
    assert_eq!(names.len(), 10);
    names
}

fn computed(ran: &Ran) {
    for line in ["public: 0", "open: 0", "compute: 0", "close: 0", "y: 15"] {
        assert_eq!(ran.finished.line(line.split(' ').next().unwrap()), line, "{:?}", ran.finished);
    }
}

#[test]
fn a_plugin_of_the_private_package_never_meets_the_shim() {
    let split = Split::install();
    let private = run(&split.plugin("miopen_private"), Some(&split.lib().join(PUBLIC)));
    computed(&private);
    assert_eq!(private.bindings, BTreeMap::from([(PRIVATE.to_string(), called("_impl"))]));
    // The shim is there and forwards; nobody of the plugin came to it.
    assert_eq!((private.traced, private.census), (vec![], Some(serde_json::json!({}))));
    assert_eq!(private.native.iter().filter(|name| *name == "miopenConvolutionForward").count(), 1);

    // The same plugin by the public names does, and is seen in each of these ways.
    let public = run(&split.plugin("miopen"), Some(&split.lib().join(PUBLIC)));
    computed(&public);
    assert_eq!(public.bindings, BTreeMap::from([(PUBLIC.to_string(), called(""))]));
    assert_eq!(public.traced, ["miopenConvolutionForwardGetWorkSpaceSize", "miopenConvolutionForward"]);
    assert_eq!(public.census.unwrap()["miopenConvolutionForward"]["served"], 1);
    assert_eq!(public.native.iter().filter(|name| *name == "miopenConvolutionForward").count(), 0);
}

#[test]
fn without_the_private_library_a_plugin_of_it_does_not_load() {
    let split = Split::install();
    let plugin = split.plugin("miopen_private");
    assert_eq!(run(&plugin, None).finished.line("y"), "y: 15");
    fs::rename(split.lib().join(PRIVATE), split.lib().join("hidden")).unwrap();
    let finished = run(&plugin, None).finished;
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert!(finished.line("dlopen").contains(PRIVATE), "{finished:?}");
}

#[test]
fn nothing_bound_is_not_taken_for_nothing_wrong() {
    assert_eq!(bindings("", Path::new("/p.so")), BTreeMap::new());
    let log = "  7:\tbinding file /p.so [0] to /lib/libMIOpen.so.1 [0]: normal symbol `miopenCreate' [MIOPEN_HIP_1]\n\
               7:\tbinding file /q.so [0] to /lib/other.so [0]: normal symbol `miopenCreate'\n\
               7:\tbinding file /p.so [0] to /lib/libc.so.6 [0]: normal symbol `free' [GLIBC_2.2.5]\n";
    assert_eq!(bindings(log, Path::new("/p.so")), BTreeMap::from([(PUBLIC.into(), BTreeSet::from(["miopenCreate".into()]))]));
}

/// The imported target, if there is a CMake to try it with; it does what the pkg-config package does.
#[test]
fn cmake_builds_a_plugin_of_the_private_library() {
    let split = Split::install();
    if Command::new("cmake").arg("--version").output().is_err() {
        // Past the harness, which would keep it to itself.
        let _ =
            std::io::stderr().write_all(b"cmake is missing (Debian's package cmake): MIOpen::private is not tried, only pkg-config is\n");
        return;
    }
    let (source, build) = (split.folder.path().join("source"), split.folder.path().join("build"));
    fs::create_dir(&source).unwrap();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(plugin C)\nfind_package(miopen_private 3 REQUIRED)\n\
         add_library(plugin SHARED {})\ntarget_link_libraries(plugin PRIVATE MIOpen::private)\n",
        client("plugin.c").display()
    );
    fs::write(source.join("CMakeLists.txt"), lists).unwrap();
    let cmake = |arguments: &[&OsStr]| {
        let output = Command::new("cmake").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", split.prefix().display());
    cmake(&["-S".as_ref(), source.as_ref(), "-B".as_ref(), build.as_ref(), prefix.as_ref()]);
    cmake(&["--build".as_ref(), build.as_ref()]);
    let private = run(&build.join("libplugin.so"), Some(&split.lib().join(PUBLIC)));
    computed(&private);
    assert_eq!(private.bindings, BTreeMap::from([(PRIVATE.to_string(), called("_impl"))]));
}

#[test]
fn the_layout_of_dist_has_the_package_too() {
    let flags = pkg_config(&dist().join("lib/pkgconfig"), "miopen_private");
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("plugin.so");
    compile(&plugin, &flags, &[&format!("-Wl,-rpath,{}", reference("").display())]);
    let ran = run(&plugin, Some(&shim()));
    assert_eq!(ran.bindings, BTreeMap::from([(PRIVATE.to_string(), called("_impl"))]));
    assert_eq!(ran.finished.line("y"), "y: 15");
}

#[test]
fn a_split_prefix_serves_programs_and_goes_without_a_trace() {
    let split = Split::install();
    let (prefix, lib) = (split.prefix(), split.lib());
    let front = Library::read(&lib.join(PUBLIC)).unwrap();
    assert_eq!((front.soname.as_deref(), front.needed[0].as_str()), (Some(PUBLIC), PRIVATE));
    let native = Library::read(&lib.join(PRIVATE)).unwrap();
    assert_eq!((native.soname.as_deref(), &native.exports), (Some(PRIVATE), &Library::read(&reference(PRIVATE)).unwrap().exports));
    for file in ["lib/libMIOpen.so", "lib/libMIOpen_private.so", "lib/pkgconfig/miopen.pc", "lib/cmake/miopen/miopen-config.cmake"] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    // What the public files say leads to the public library only.
    for folder in ["include/miopen", "lib/cmake/miopen"] {
        for file in fs::read_dir(prefix.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains("_impl") && !text.contains("_private."), "{}", file.display());
        }
    }
    let rpath = format!("-Wl,-rpath,{}", lib.display());
    let program = Client::compile_source(&client("convolution.c"), &prefix, &["-rdynamic", &rpath]).unwrap();
    let bare = || program.run().without("LD_LIBRARY_PATH").without("MIOPEN_HIPDNN_NATIVE_LIBRARY");
    for (run, mapped) in [(bare(), "mapped hipdnn 0"), (bare().forwarding(), "mapped hipdnn 1")] {
        let finished = run.output(&["plain"]).unwrap();
        assert_eq!((finished.line("right"), finished.line("mapped")), ("right 1", mapped), "{finished:?}");
    }
    succeed(&["uninstall", "--prefix", text(&prefix)]);
    assert!(!prefix.exists());
}

/// In place, it is the public library that the shim takes the name of, whatever its file is called; the private one stays as it is.
#[test]
fn in_place_it_takes_the_public_librarys_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::copy(reference(PRIVATE), file(PRIVATE)).unwrap();
    // Whatever upstream's public library is: it is only set aside.
    fs::copy(reference(PRIVATE), file("libMIOpen.so.1.0")).unwrap();
    std::os::unix::fs::symlink("libMIOpen.so.1.0", file(PUBLIC)).unwrap();
    let before = fs::read(file(PRIVATE)).unwrap();
    let private = file(PRIVATE);
    let install = ["install", "--native", text(&private), "--in-place"];
    succeed(&install);
    let front = Library::read(&file(PUBLIC)).unwrap();
    assert_eq!((front.exports.len(), front.needed[0].as_str()), (289, PRIVATE));
    assert_eq!(fs::read(file(PRIVATE)).unwrap(), before);
    let again = tool(&install);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("hipdnn-shim itself"), "{again:?}");
    succeed(&["uninstall", "--in-place", text(folder.path())]);
    assert_eq!(fs::read(file("libMIOpen.so.1.0")).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

/// Programs of a newer MIOpen ask for public names that this shim does not have: that is said, not found out by them.
#[test]
fn a_public_name_that_the_shim_lacks_is_told_before_anything_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (source, native) = (folder.path().join("newer.c"), folder.path().join(PRIVATE));
    fs::write(&source, "int miopenCreate_impl(void) { return 0; }\nint miopenBrandNew_impl(void) { return 0; }\n").unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&native).arg(&source).status().unwrap();
    assert!(built.success());
    let checked = tool(&["install", "--check", "--native", text(&native)]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert!(said.contains("miopenBrandNew: in neither library\n") && !said.contains("miopenCreate:"), "{said}");
}
