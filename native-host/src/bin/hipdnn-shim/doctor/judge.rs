//! From what was found out to what is wrong: the libraries that others bring.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use hipdnn_host::{backend, environment::Settings, hip, native, release, search::Reason};

use super::{
    file::{Kind as FileKind, Notes},
    findings::{Finding, Kind},
    front,
    probe::Stage,
    report::{Chosen, Forwarding, Hip, Hipdnn, Library, Native, Rejected, Shim},
};

/// Whether anything is forwarded.
pub fn forwarding(forwarding: &Forwarding) -> Option<Finding> {
    match (forwarding.on, forwarding.families.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Kind::ForwardingOff.found(false, "forwarding is off")),
        (false, false) => Some(Kind::ForwardingNothing.found(false, "forwarding is on for no function at all")),
    }
}

/// Stages that ended in a crash.
pub fn crashes(crashes: &[(Stage, String)]) -> Vec<Finding> {
    let doing = |stage: Stage| match stage {
        Stage::Front => "loading what the loader finds as libMIOpen.so.1",
        Stage::Program => "loading the HIP runtime that the loader finds",
        Stage::Native => "loading the native MIOpen",
        Stage::Hip => "loading HIP and asking for its devices",
        Stage::Hipdnn => "loading hipDNN and making a handle",
    };
    crashes.iter().map(|(stage, how)| Kind::LibraryCrashed.found(true, format!("{} {how}", doing(*stage)))).collect()
}

/// The native MIOpen.
pub fn native(native: &Library<Native>, shim: &Shim, settings: &Settings) -> Vec<Finding> {
    match (&native.chosen, &native.crashed) {
        (Some(chosen), _) => chosen_native(chosen, shim),
        (None, Some(_)) => Vec::new(),
        (None, None) => vec![no_native(native, shim, settings)],
    }
}

fn chosen_native(chosen: &Chosen<Native>, shim: &Shim) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = chosen.path.display();
    if let Some(wrapper) = &chosen.facts.wrapper {
        let what = format!("{} is upstream's forwarding wrapper before {path}", wrapper.display());
        findings.push(Kind::NativeWrapper.found(false, what));
    } else if chosen.rule.starts_with("installed") && FileKind::of(&chosen.path) == FileKind::Wrapper {
        findings.push(Kind::NativeWrapper.found(false, format!("{path} is upstream's forwarding wrapper, and is called as it is")));
    }
    if chosen.facts.split && !front::public_exists(shim, &chosen.path) {
        let what = format!("{path} is the private library of a split install, and there is no libMIOpen.so.1 that programs find");
        findings.push(Kind::NativeSplitAlone.found(false, what));
    }
    findings
}

fn no_native(native: &Library<Native>, shim: &Shim, settings: &Settings) -> Finding {
    let ours = [Reason::Ourselves.id(), Reason::AnotherBuild.id()];
    let ourselves = native.rejected.iter().find(|rejected| ours.contains(&rejected.reason.as_str()));
    if let Some(rejected) = ourselves {
        return Kind::NativeOurselves
            .found(false, format!("{}, {}, is {}", rejected.file.display(), named(rejected), relation(rejected, shim)));
    }
    if let (Some(path), Some(rejected)) = (&settings.native_library, native.rejected.first()) {
        return Kind::NativeMissing.found(false, format!("{}, {}, cannot be used: {}", path.display(), named(rejected), rejected.text));
    }
    let there = native.rejected.iter().filter(|rejected| rejected.reason != Reason::Missing.id());
    let there: String = there.map(|rejected| format!("; {}: {}", rejected.file.display(), rejected.text)).collect();
    Kind::NativeMissing.found(false, format!("no native MIOpen was found in {} places{there}", native.rejected.len()))
}

fn named(rejected: &Rejected) -> String {
    if rejected.rule == native::search::NAMED.id { "which MIOPEN_HIPDNN_NATIVE_LIBRARY names".into() } else { rejected.because.clone() }
}

/// What a library that is ours is to the shim.
fn relation(rejected: &Rejected, shim: &Shim) -> String {
    let file = rejected.file.as_path();
    let notes = Notes::read(file).unwrap_or_default();
    let Some(path) = &shim.path else { return "a hipdnn-shim".into() };
    if rejected.reason == Reason::Ourselves.id() {
        let link = fs::symlink_metadata(file).is_ok_and(|there| there.is_symlink());
        let same = file.canonicalize().is_ok_and(|real| real == *path);
        let relation = if link {
            "a link to the shim"
        } else if same {
            "the shim itself"
        } else {
            "a hard link to the shim"
        };
        return format!("{relation} ({})", path.display());
    }
    if notes.build_id.is_some() && notes.build_id == shim.build_id {
        return format!("a copy of the shim ({})", path.display());
    }
    format!("another build of the shim, version {}", notes.shim.as_deref().unwrap_or("unknown"))
}

/// The HIP runtime.
pub fn hip(hip: &Library<Hip>, on: bool) -> Vec<Finding> {
    let Some(chosen) = &hip.chosen else {
        let (missing, unusable): (Vec<_>, Vec<_>) = hip.rejected.iter().partition(|rejected| rejected.reason == Reason::Missing.id());
        let what = match (unusable.first(), missing.first()) {
            (Some(rejected), _) => format!("{} cannot be used as HIP: {}", rejected.file.display(), rejected.text),
            (None, Some(rejected)) if rejected.rule == hip::search::NAMED.id => {
                format!("{}, which MIOPEN_HIPDNN_HIP_LIBRARY names: {}", rejected.file.display(), rejected.text)
            }
            _ => format!("no HIP runtime: the loader finds none of {}", hip::search::NAMES.join(", ")),
        };
        return if hip.crashed.is_some() { Vec::new() } else { vec![Kind::HipMissing.found(on, what)] };
    };
    let path = chosen.path.display();
    match (chosen.facts.devices.is_empty(), chosen.facts.device_error) {
        (false, _) => Vec::new(),
        (true, Some(error)) => vec![Kind::HipNoDevice.found(on, format!("{path} has no device: hipGetDeviceCount returned {error}"))],
        (true, None) => vec![Kind::HipNoDevice.found(on, format!("{path} has no device"))],
    }
}

/// Libraries of more than one installation of ROCm.
pub fn mixed(libraries: &[(&str, &Path)], mapped: &[PathBuf], on: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let hips = mapped.iter().filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(hip::search::STEM)));
    let hips: BTreeSet<PathBuf> = hips.map(|path| path.canonicalize().unwrap_or(path.clone())).collect();
    if hips.len() > 1 {
        let list = hips.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
        findings.push(Kind::TwoHips.found(on, format!("one process gets {} HIP runtimes: {list}", hips.len())));
    }
    let mut releases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, path) in libraries {
        if let Some(release) = release::of(path) {
            releases.entry(release).or_default().push(format!("{what} {}", path.display()));
        }
    }
    if releases.len() > 1 {
        let list = releases.iter().map(|(release, libraries)| format!("ROCm {release}: {}", libraries.join(", ")));
        findings.push(Kind::MixedTrees.found(on, list.collect::<Vec<_>>().join("; ")));
    }
    findings
}

/// A native that nobody named, beside a HIP runtime of another release: the shim does not forward then.
pub fn native_of_another_release(native: &Library<Native>, hip: Option<&Path>, on: bool) -> Option<Finding> {
    let chosen = native.chosen.as_ref().filter(|chosen| chosen.rule != native::search::NAMED.id)?;
    let (of_native, of_hip) = (release::of(&chosen.path)?, release::of(hip?)?);
    let (native, hip) = (chosen.path.display(), hip?.display());
    (of_native != of_hip).then(|| Kind::NativeOtherRelease.found(on, format!("{native} is of ROCm {of_native}, {hip} of ROCm {of_hip}")))
}

/// hipDNN.
pub fn hipdnn(hipdnn: &Library<Hipdnn>, around: &[Option<&Path>], settings: &Settings, on: bool) -> Vec<Finding> {
    if let Some(chosen) = &hipdnn.chosen {
        return chosen_hipdnn(chosen, on).into_iter().collect();
    }
    let Some(rejected) = hipdnn.rejected.last().filter(|_| hipdnn.crashed.is_none()) else { return Vec::new() };
    let kind = match rejected.reason.as_str() {
        reason if reason == Reason::Missing.id() => Kind::HipdnnMissing,
        "version" => Kind::HipdnnVersion,
        _ => Kind::HipdnnUnusable,
    };
    let mut finding = kind.found(on, format!("{} ({}): {}", rejected.file.display(), rejected.because, rejected.text));
    if kind == Kind::HipdnnMissing {
        if rejected.rule == backend::search::LOADER.id {
            finding.what = format!("the loader finds no {}", backend::search::NAME);
        }
        let elsewhere: Vec<String> = elsewhere(around, settings).iter().map(|path| path.display().to_string()).collect();
        if !elsewhere.is_empty() {
            finding.todo = format!("set MIOPEN_HIPDNN_BACKEND_LIBRARY; there is {}", elsewhere.join(", "));
        }
    }
    vec![finding]
}

fn chosen_hipdnn(chosen: &Chosen<Hipdnn>, on: bool) -> Option<Finding> {
    let (path, facts) = (chosen.path.display(), &chosen.facts);
    let folder = facts.plugin_folder.as_deref().map(|folder| folder.display().to_string()).unwrap_or_default();
    if let Some(error) = &facts.handle_error {
        return Some(Kind::HipdnnHandle.found(on, format!("{path} gives no handle: {error}")));
    }
    match (&facts.engines, &facts.plugin_files) {
        (Some(engines), _) if !engines.is_empty() => None,
        (_, None) => Some(Kind::HipdnnNoPluginFolder.found(on, format!("{path} has no folder of engine plugins: there is no {folder}"))),
        (_, Some(files)) if files.is_empty() => {
            Some(Kind::HipdnnNoPlugins.found(on, format!("the folder of engine plugins {folder} is empty")))
        }
        (Some(_), Some(files)) => {
            Some(Kind::HipdnnNoEngines.found(on, format!("hipDNN has no engine, of {} plugins in {folder}", files.len())))
        }
        (None, Some(_)) => None,
    }
}

/// Files of hipDNN's name, or of that with a version behind it, where other libraries of ROCm are.
fn elsewhere(around: &[Option<&Path>], settings: &Settings) -> Vec<PathBuf> {
    let beside = around.iter().flatten().filter_map(|path| Some(path.parent()?.to_path_buf()));
    let listed = settings.library_path.iter().flat_map(env::split_paths);
    let rocm = settings.rocm_path.iter().map(|rocm| rocm.join("lib")).chain([PathBuf::from("/opt/rocm/lib")]);
    let mut found = Vec::new();
    for folder in beside.chain(listed).chain(rocm) {
        let entries = folder.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        found.extend(entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(backend::search::NAME))));
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runtimes_in_one_process_are_told() {
        let mapped = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(mixed(&[], &mapped(&["/a/libamdhip64.so.7", "/a/libamdhip64.so.7", "/a/libother.so"]), true), []);
        let found = mixed(&[], &mapped(&["/a/libamdhip64.so.7", "/b/libamdhip64.so.6"]), true);
        assert_eq!(found[0].id, "rocm.two-hips");
        assert!(found[0].what.contains("/a/libamdhip64.so.7 and /b/libamdhip64.so.6"));
    }
}
