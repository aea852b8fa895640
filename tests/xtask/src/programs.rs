//! Programs and libraries from outside the workspace: compiled, started and waited for, several at a time; and what cannot be had.

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use thiserror::Error;

use crate::build;

/// Something that others publish and that is not here or gone: nothing that is wrong here.
#[derive(Debug, Error)]
#[error("{what} cannot be had: {why}")]
pub struct Unavailable {
    /// What was wanted.
    pub what: &'static str,
    /// What stands in the way.
    pub why: String,
}

/// End of a program that took too long.
pub const TIMEOUT: &str = "out of time";

/// How a program ended: its exit code, or the signal or time that ended it.
pub fn wait(command: &mut Command, limit: Duration) -> Result<String> {
    let (mut child, start) = (command.spawn()?, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.to_string());
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(TIMEOUT.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Gives a program a folder of its own, under another, as long as it runs.
pub fn in_a_home<R>(folder: &Path, run: impl FnOnce(&Path) -> Result<R>) -> Result<R> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let home = folder.join(format!("home-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir_all(&home)?;
    let ran = run(&home);
    fs::remove_dir_all(&home)?;
    ran
}

/// Runs the C compiler.
pub fn compile(arguments: &[&OsStr], to: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(arguments).arg("-o").arg(to).output().context("a C compiler is needed")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A library from `tests/stand-ins`, named after its file, with other libraries that it needs.
pub fn compile_stand_in(source: &str, to: &Path, needed: &[&Path]) -> Result<()> {
    let source = build::root().join("tests/stand-ins").join(source).with_extension("c");
    let soname = format!("-Wl,-soname,{}", to.file_name().unwrap_or_default().to_string_lossy());
    let mut arguments = vec![OsStr::new("-shared"), "-fPIC".as_ref(), soname.as_ref(), source.as_ref(), "-Wl,--no-as-needed".as_ref()];
    arguments.extend(needed.iter().map(|library| library.as_os_str()));
    compile(&arguments, to)
}

/// Does something for each item, one thread for each processor, in their order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || -> Result<()> {
        while let Some((index, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, items.get(index)?))) {
            let result = work(item)?;
            results.lock().map_err(|_| anyhow::anyhow!("another run panicked"))?.push((index, result));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a run panicked")))
    })?;
    let mut results = results.into_inner().map_err(|_| anyhow::anyhow!("a run panicked"))?;
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
