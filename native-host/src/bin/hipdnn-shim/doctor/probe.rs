//! The child process: it does what the shim does in a program, with the shim's own code, and tells what came of it, line by line. A library
//! that crashes takes this process with it, and not the one that reports.

use std::{
    io::{Write as _, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use hipdnn_host::{
    backend::{self, Handle},
    environment::Settings,
    hip, modules, native,
    search::{Candidate, Reason, Search},
};
use libloading::os::unix::{Library as Loaded, RTLD_LAZY, RTLD_LOCAL};
use serde::{Deserialize, Serialize};

use super::{
    maps,
    report::{Chosen, Engine, Hip, Hipdnn, Library, Native, Rejected},
};

/// What begins the lines that are ours: libraries may print, too.
pub const MARK: char = '\u{1e}';

/// Something that is done in the child, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Which library the loader gives programs for libMIOpen.so.1. In a process of its own, since it stays loaded.
    Front,
    /// The HIP runtime that a program linked with HIP has before its first call.
    Program,
    /// The native MIOpen.
    Native,
    /// The HIP runtime that the host uses.
    Hip,
    /// hipDNN.
    Hipdnn,
}

impl Stage {
    /// What a program with the shim does.
    pub const OF_A_PROGRAM: [Stage; 4] = [Stage::Program, Stage::Native, Stage::Hip, Stage::Hipdnn];
}

/// A line of the child's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A stage begins.
    Begin(Stage),
    /// What it came to.
    Front(Option<PathBuf>),
    /// The same.
    Program(Option<PathBuf>),
    /// The same.
    Native(Library<Native>),
    /// The same.
    Hip(Library<Hip>),
    /// The same.
    Hipdnn(Library<Hipdnn>),
    /// All files that are mapped now.
    Mapped(Vec<PathBuf>),
}

/// Does the stages, as if the shim lay in that file.
pub fn serve(stages: &[Stage], shim: Option<&Path>) -> Result<ExitCode> {
    // Rust's runtime has handlers for these, which swallow a signal that a library sends itself.
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: sets a disposition that the system provides; there is one thread.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let settings = Settings::from_process();
    for stage in stages {
        tell(&Line::Begin(*stage))?;
        tell(&match stage {
            Stage::Front => Line::Front(front()),
            Stage::Program => Line::Program(program()),
            Stage::Native => Line::Native(find_native(&settings, shim)),
            Stage::Hip => Line::Hip(find_hip(&settings)),
            Stage::Hipdnn => Line::Hipdnn(find_hipdnn(&settings)),
        })?;
    }
    let mapped = maps::of(Path::new("/proc/self"))?.into_iter().map(|file| file.path).collect();
    tell(&Line::Mapped(mapped))?;
    // Everything is told: what libraries do at exit, without a device or halfway loaded, is nobody's business here.
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn tell(line: &Line) -> Result<()> {
    let mut out = stdout().lock();
    // A library may have printed half a line.
    writeln!(out, "\n{MARK}{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}

fn front() -> Option<PathBuf> {
    // SAFETY: loading runs the library's initialisers, as in any program that is linked with it.
    let library = unsafe { Loaded::open(Some(miopen_api::SONAME), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
    // SAFETY: only the address is taken.
    let address = unsafe { library.get::<*mut ()>(b"miopenCreate\0") }.ok()?.as_raw_ptr() as usize;
    std::mem::forget(library);
    Some(modules::module_of(address)?.file)
}

fn program() -> Option<PathBuf> {
    let (_, hip) = hip::Hip::find(None).found?;
    Some(modules::module_of(hip.address())?.file)
}

fn find_native(settings: &Settings, shim: Option<&Path>) -> Library<Native> {
    let hip_folder = modules::folder_of(hip::search::STEM);
    let around = native::search::Surroundings { settings, own_file: shim, hip_folder: hip_folder.as_deref() };
    told(native::Library::find(&around), |library| {
        let facts = Native {
            version: library.version(),
            split: library.names() == native::Names::Implementation,
            wrapper: library.wrapper().filter(|_| library.names() == native::Names::Implementation),
        };
        (library.file(), facts)
    })
}

fn find_hip(settings: &Settings) -> Library<Hip> {
    told(hip::Hip::find(settings.hip_library.as_deref()), |hip| {
        let count = hip.device_count();
        let indices = 0..i32::try_from(count.unwrap_or(0)).unwrap_or(0);
        let facts = Hip {
            runtime_version: hip.runtime_version(),
            devices: indices.map(|index| hip.device_info(index)).collect(),
            device_error: count.err(),
            program: None,
        };
        (modules::module_of(hip.address()).map(|module| module.file), facts)
    })
}

fn find_hipdnn(settings: &Settings) -> Library<Hipdnn> {
    let folders = native::search::library_folders(settings);
    told(backend::Library::find(settings.backend_library.as_deref(), &folders), |library| {
        let file = modules::module_of(library.address()).map(|module| module.file);
        let folder = file.as_deref().and_then(Path::parent).map(plugin_folder);
        let mut facts = Hipdnn {
            version: library.version().into(),
            plugin_files: folder.as_deref().and_then(libraries_in),
            plugin_folder: folder,
            ..Hipdnn::default()
        };
        // For the life of this process, as in the shim.
        match Handle::new(Box::leak(Box::new(library))) {
            Ok(handle) => {
                let engine = |e: backend::EngineInfo| Engine { name: e.name, plugin: e.plugin, version: e.version };
                facts.engines = handle.engines().map(|engines| engines.into_iter().map(engine).collect());
                facts.plugins = handle.plugins();
                std::mem::forget(handle);
            }
            Err(error) => facts.handle_error = Some(error.to_string()),
        }
        (file, facts)
    })
}

/// Where hipDNN looks for engine plugins: a folder that it is told, relative to its own, or the usual one.
fn plugin_folder(own: &Path) -> PathBuf {
    let named = std::env::var_os("HIPDNN_PLUGIN_DIR").filter(|folder| !folder.is_empty());
    own.join(named.map_or_else(|| "hipdnn_plugins/engines".into(), PathBuf::from))
}

fn libraries_in(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|extension| extension == "so")).collect();
    files.sort();
    Some(files)
}

/// What came of a search, in the report's words. The function says which file it was and what it is.
fn told<T, F>(search: Search<T>, describe: impl FnOnce(T) -> (Option<PathBuf>, F)) -> Library<F> {
    let chosen = search.found.map(|(candidate, library)| {
        let (file, facts) = describe(library);
        let path = file.unwrap_or(candidate.file);
        let real_path = path.canonicalize().ok().filter(|real| *real != path);
        Chosen { path, real_path, rule: candidate.rule.id.into(), because: candidate.rule.why.into(), facts }
    });
    Library { chosen, rejected: search.rejected.iter().map(rejected).collect(), crashed: None }
}

fn rejected((candidate, reason): &(Candidate, Reason)) -> Rejected {
    Rejected {
        file: candidate.file.clone(),
        rule: candidate.rule.id.into(),
        because: candidate.rule.why.into(),
        reason: reason.id().into(),
        text: reason.to_string(),
    }
}
