//! Which shim is examined, and whether programs meet it: what the loader gives for libMIOpen.so.1, and what hides it.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Result;
use hipdnn_host::environment::Settings;
use miopen_api::SONAME;

use super::{
    child,
    file::{Kind, Notes},
    findings::{self, Finding},
    probe::Stage,
    report::{Front, Shim},
};
use crate::libraries;

/// The shim, and what is in front: with the crash, if looking ended in one.
pub fn shim(named: Option<&Path>) -> Result<(Shim, Option<String>)> {
    let probed = child::probe(&[Stage::Front], None)?;
    let front = probed.front.as_deref().map(describe);
    let serving = front.as_ref().filter(|front| front.kind == Kind::Shim).map(|front| front.path.clone());
    let beside = || libraries::beside(&["../lib/libMIOpen.so.1", "libMIOpen.so"]).filter(|path| Kind::of(path) == Kind::Shim);
    let (path, because) = match (named, serving) {
        (Some(named), _) => (Some(named.to_path_buf()), "--shim names it"),
        (None, Some(serving)) => (Some(serving), "the loader finds it by name, as programs do"),
        (None, None) => (beside(), "it lies beside this tool"),
    };
    let path = path.map(|path| path.canonicalize().unwrap_or(path)).filter(|path| Kind::of(path) == Kind::Shim);
    let notes = path.as_deref().and_then(Notes::read).unwrap_or_default();
    let because = if path.is_some() { because } else { "none was found" };
    let crash = probed.crashes.into_iter().next().map(|(_, how)| how);
    Ok((Shim { path, version: notes.shim, build_id: notes.build_id, because, front }, crash))
}

fn describe(path: &Path) -> Front {
    let notes = Notes::read(path).unwrap_or_default();
    Front { path: path.into(), kind: Kind::of(path), version: notes.shim, build_id: notes.build_id }
}

/// What keeps programs from meeting the shim.
pub fn judge(shim: &Shim, settings: &Settings, named: Option<&Path>) -> Vec<Finding> {
    let found = |kind: findings::Kind, what: String| kind.found(false, what);
    let Some(path) = &shim.path else {
        let what = match named {
            Some(named) => format!("{} is no hipdnn-shim", named.display()),
            None => format!("no shim: neither what the loader finds by the name {SONAME}, nor beside this tool"),
        };
        return vec![found(findings::Kind::ShimMissing, what)];
    };
    let mut findings = Vec::new();
    match &shim.front {
        Some(front) if front.kind == Kind::Shim => {
            let same = front.build_id == shim.build_id;
            if !same {
                let what = format!("programs get {}, another build than {}", front.path.display(), path.display());
                findings.push(found(findings::Kind::ShimNotInFront, what));
            }
        }
        Some(front) => {
            let is = format!("programs get {}, which is {}", front.path.display(), front.kind.name());
            findings.push(match hidden(settings) {
                Some(hidden) => found(findings::Kind::ShimShadowed, format!("{is}; the shim {} comes after it", hidden.display())),
                None => found(findings::Kind::ShimNotInFront, is),
            });
        }
        None => findings.push(found(findings::Kind::ShimNotInFront, format!("the loader finds no {SONAME}"))),
    }
    let version = shim.version.as_deref().unwrap_or("from before 0.1.0");
    if version != hipdnn_host::VERSION {
        let what = format!("{} is version {version}, this tool {}", path.display(), hipdnn_host::VERSION);
        findings.push(found(findings::Kind::ShimOtherVersion, what));
    }
    findings
}

/// A shim in a folder of LD_LIBRARY_PATH.
fn hidden(settings: &Settings) -> Option<PathBuf> {
    let folders = settings.library_path.iter().flat_map(env::split_paths);
    folders.map(|folder| folder.join(SONAME)).find(|path| Notes::read(path).is_some_and(|notes| notes.shim.is_some()))
}

/// Whether the loader gives programs any libMIOpen.so.1, or one lies beside a private library.
pub fn public_exists(shim: &Shim, private: &Path) -> bool {
    shim.front.is_some() || private.with_file_name(SONAME).exists()
}
