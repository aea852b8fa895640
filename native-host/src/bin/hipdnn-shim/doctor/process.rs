//! `--pid`: what serves a running process, from what it has mapped. The shim is recognised by the note in its file, whatever its name.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use hipdnn_host::{backend, hip};

use super::{
    environment::Environment,
    file::{Kind as FileKind, Notes},
    findings::{self, Finding, Kind},
    judge, maps,
    report::{MappedMiopen, Process},
};

/// Looks at a process.
pub fn examine(pid: u32) -> Result<Process> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let mapped = maps::of(&folder).map_err(|error| unreadable(pid, &folder, &error))?;
    let named = |begin: &str| -> Vec<PathBuf> {
        let named = |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
        mapped.iter().map(|file| file.path.as_path()).filter(named).map(Path::to_path_buf).collect()
    };
    let environment = environment(&folder);
    let mut process = Process {
        version: hipdnn_host::VERSION,
        pid,
        program: fs::read_link(folder.join("exe")).ok(),
        miopens: mapped.iter().filter_map(|file| miopen(file, &folder)).collect(),
        hipdnn: named(backend::search::NAME),
        hip: named(hip::search::STEM),
        environment: environment.as_ref().map(|environment| environment.set(&environment.settings())),
        findings: Vec::new(),
    };
    let mut found = judge(&process);
    if let Some(environment) = &environment {
        found.extend(environment.judge(&environment.settings()));
    }
    findings::sort(&mut found);
    process.findings = found;
    Ok(process)
}

fn unreadable(pid: u32, folder: &Path, error: &io::Error) -> anyhow::Error {
    if !folder.exists() {
        return anyhow!("there is no process {pid}");
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!("process {pid} may not be looked at: run this as its user, or as root"),
        _ => anyhow!("what process {pid} has mapped cannot be read: {error}"),
    }
}

/// What a mapped file is, if it is a MIOpen. Only files that are called so are read as a whole.
fn miopen(file: &maps::Mapped, process: &Path) -> Option<MappedMiopen> {
    let readable = file.readable(process);
    let called = file.path.file_name().is_some_and(|name| name.to_string_lossy().contains("MIOpen"));
    let notes = Notes::read(&readable);
    let kind = match &notes {
        Some(notes) if notes.shim.is_some() => Some(FileKind::Shim),
        Some(_) if called => Some(FileKind::of(&readable)).filter(|kind| *kind != FileKind::Other),
        None if called => None,
        _ => return None,
    };
    let notes = notes.unwrap_or_default();
    Some(MappedMiopen { path: file.path.clone(), kind, version: notes.shim, build_id: notes.build_id, deleted: file.deleted })
}

/// What the process was started with.
fn environment(process: &Path) -> Option<Environment> {
    let bytes = fs::read(process.join("environ")).ok()?;
    let variables = bytes.split(|byte| *byte == 0).filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        Some((OsString::from_vec(line[..at].to_vec()), OsString::from_vec(line[at + 1..].to_vec())))
    });
    Some(Environment { variables: variables.collect() })
}

fn judge(process: &Process) -> Vec<Finding> {
    let found = |kind: Kind, what: String| kind.found(true, what);
    let (shims, others): (Vec<_>, Vec<_>) = process.miopens.iter().partition(|miopen| miopen.kind == Some(FileKind::Shim));
    let list = |miopens: &[&MappedMiopen]| miopens.iter().map(|m| m.path.display().to_string()).collect::<Vec<_>>().join(", ");
    let pid = process.pid;
    let mut findings = judge::mixed(&[], &process.hip, true);
    match (shims.len(), others.is_empty()) {
        (0, true) => findings.push(found(Kind::ProcessNoMiopen, format!("process {pid} has no MIOpen mapped"))),
        (0, false) => findings.push(found(Kind::ProcessNoShim, format!("process {pid} has {}, and no shim", list(&others)))),
        (1, true) => findings.push(found(Kind::ProcessUnbound, format!("process {pid} has the shim, and no native MIOpen"))),
        (1, false) => {}
        _ => findings.push(found(Kind::ProcessTwoShims, format!("process {pid} has more than one shim: {}", list(&shims)))),
    }
    for miopen in &process.miopens {
        let path = miopen.path.display();
        if miopen.kind.is_none() {
            findings.push(found(Kind::ProcessUnread, format!("{path}, which process {pid} has mapped, cannot be read")));
        } else if miopen.deleted {
            findings.push(found(Kind::ProcessReplaced, format!("{path} was replaced since process {pid} loaded it")));
        }
    }
    findings
}
