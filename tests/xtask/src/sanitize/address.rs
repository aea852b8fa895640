//! The C clients under AddressSanitizer, on a split installation: the shim as it is shipped, its allocations the sanitizer's, so that memory
//! that is lost, given back twice, or used by the client after that is found. The libraries' own accesses are not instrumented.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};

use crate::build;

/// Exit status of a program in which something was found.
const FOUND: i32 = 23;
/// How it looks. Stacks are walked without frame pointers, which the standard library has not; signal stacks are what clients test.
const OPTIONS: &str = "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:fast_unwind_on_malloc=0:use_sigaltstack=0";

/// Programs that are right, with their arguments.
const CLIENTS: &[(&str, &[&[&str]])] = &[
    ("convolution", &[&["plain"], &["alpha"], &["beta"], &["deterministic"], &["repeat"], &["time"], &["odd"]]),
    ("find", &[&["plain"], &["request4"], &["deterministic"], &["nofind"], &["misaligned"], &["shared"]]),
    ("immediate", &[&["all"], &["deterministic"], &["shared"]]),
    ("find2", &[&["plain"], &["many"], &["gone"], &["missing"]]),
    (
        "fusion",
        &[&["plan", "bias+relu"], &["plan", "bias+relu", "v2"], &["plan", "bias+relu", "gone"], &["plan", "bias+relu", "incomplete"]],
    ),
    ("process", &[&["linked", "signals"], &["linked", "fork-first"], &["linked", "fork-after"], &["linked", "late-thread"]]),
];

/// Programs that are wrong, and what is to be said of them.
const PLANTED: &[(&str, &str)] = &[
    ("leak", "detected memory leaks"),
    ("twice", "attempting double-free"),
    ("overflow", "heap-buffer-overflow"),
    ("after-free", "heap-use-after-free"),
];

/// Runs everything; fails if anything was found, or if what was planted was not.
pub fn run(dist: &Path) -> Result<()> {
    let bench = Bench::new(dist)?;
    let planted = bench.compile("planted")?;
    for (mistake, said) in PLANTED {
        let output = bench.run(&planted, &[mistake], false)?;
        let found = String::from_utf8_lossy(&output.stderr).contains(said);
        ensure!(output.status.code() == Some(FOUND) && found, "the sanitizer does not find {mistake:?}: {output:?}");
    }
    let mut runs = 0;
    for (name, all) in CLIENTS {
        let client = bench.compile(name)?;
        for arguments in *all {
            for forwarding in [false, true] {
                let output = bench.run(&client, arguments, forwarding)?;
                let text = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                let what = format!("{name} {} with forwarding {}", arguments.join(" "), if forwarding { "on" } else { "off" });
                ensure!(output.status.success(), "{what} ended with {}:\n{}", output.status, text());
                runs += 1;
            }
        }
    }
    println!("AddressSanitizer: {runs} runs of {} clients are clean; {} planted mistakes were found", CLIENTS.len(), PLANTED.len());
    Ok(())
}

/// A split installation, and programs built for it.
struct Bench<'a> {
    dist: &'a Path,
    folder: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(dist: &'a Path) -> Result<Self> {
        let folder = build::root().join("target/sanitize/address");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let bench = Self { dist, folder };
        let native = dist.join("lib/reference").join(miopen_api::SPLIT_SONAME);
        let mut install = Command::new(dist.join("bin/hipdnn-shim"));
        let output = install.args(["install", "--native"]).arg(native).arg("--prefix").arg(bench.prefix()).output()?;
        ensure!(output.status.success(), "hipdnn-shim install failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(bench)
    }

    fn prefix(&self) -> PathBuf {
        self.folder.join("prefix")
    }

    fn compile(&self, name: &str) -> Result<PathBuf> {
        let (source, program) = (build::root().join("tests/clients").join(name).with_extension("c"), self.folder.join(name));
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-std=gnu11", "-O1", "-g", "-fsanitize=address", "-fno-omit-frame-pointer", "-fexceptions", "-rdynamic"]);
        compiler.args(["-D_GNU_SOURCE", "-include", "miopen/miopen_hipdnn.h", "-w", "-I"]).arg(self.prefix().join("include"));
        compiler.arg(source).arg("-L").arg(self.prefix().join("lib")).args(["-lMIOpen", "-ldl", "-lpthread", "-lm", "-o"]).arg(&program);
        let output = compiler.output().context("a C compiler is needed")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{name} (with AddressSanitizer, which comes with Debian's libgcc-*-dev): {said}");
        Ok(program)
    }

    fn run(&self, program: &Path, arguments: &[&str], forwarding: bool) -> Result<Output> {
        let reference = self.dist.join("lib/reference");
        let suppressions = build::root().join("tests/xtask/src/sanitize/leaks.txt");
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.folder).env("LD_LIBRARY_PATH", self.prefix().join("lib"));
        command.env("ASAN_OPTIONS", format!("{OPTIONS}:exitcode={FOUND}"));
        command.env("LSAN_OPTIONS", format!("print_suppressions=0:suppressions={}", suppressions.canonicalize()?.display()));
        command.env("MIOPEN_HIPDNN_FORWARDING", if forwarding { "1" } else { "0" });
        command.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference.join("libhipdnn_backend.so"));
        command.env("MIOPEN_HIPDNN_HIP_LIBRARY", reference.join("libamdhip64.so.7"));
        command.args(arguments).output().with_context(|| program.display().to_string())
    }
}
