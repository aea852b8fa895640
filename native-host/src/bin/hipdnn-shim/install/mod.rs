//! `install` and `uninstall`: the shim before a native MIOpen, so that everything the native exports still resolves. What is put where is
//! decided here; how files are written and taken back is in `tree`, how libraries are rewritten in `elf`.
//!
//! The native gets a private name, and the shim a DT_NEEDED for it: the loader then finds in the native what the shim does not export (its
//! C++ symbols), and whoever asks for `libMIOpen.so.1` gets the shim. The native of a split installation has a private name already; it
//! keeps that, and those who build against it get what renames their calls.

mod check;
mod development;
pub mod elf;
mod tree;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hipdnn_host::component;
use miopen_api::{IMPLEMENTATION_SUFFIX, PRIVATE_SONAME, SONAME, SPLIT_SONAME};

use crate::{Usage, libraries};
use elf::{Edit, Export, Face, Search};
use tree::Tree;

/// Names for linkers.
const LINK_NAME: &str = "libMIOpen.so";
const SPLIT_LINK_NAME: &str = "libMIOpen_private.so";

/// Command line of `install`.
#[derive(Args)]
pub struct Options {
    /// The native libMIOpen.so.1, or the libMIOpen_private.so.1 of a split installation
    #[arg(long, value_name = "FILE")]
    native: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Install nothing; print what a program would miss with the shim before this native
    #[arg(long)]
    check: bool,
    /// The shim, if it is not the one of this tool's installation
    #[arg(long, value_name = "FILE")]
    shim: Option<PathBuf>,
}

/// Command line of `uninstall`.
#[derive(Args)]
pub struct Removal {
    /// The folder that was installed into
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    prefix: Option<PathBuf>,
    /// The folder of libraries that was installed into
    #[arg(long, value_name = "DIR")]
    in_place: Option<PathBuf>,
}

/// Where to.
#[derive(Args)]
struct Place {
    /// A folder of its own: DIR/lib, DIR/include, DIR/share. The native is copied
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    prefix: Option<PathBuf>,
    /// The folder in which the native lies, under its name: for wheels, whose RPATH wins over LD_LIBRARY_PATH. The native stays beside it
    #[arg(long)]
    in_place: bool,
}

/// Runs `install`.
pub fn run(options: &Options) -> Result<ExitCode> {
    let native = Native::read(&options.native)?;
    let shim = shim(options.shim.as_deref())?;
    let asked = native.asked_for();
    let missing = check::missing(&asked, &shim.face, &Face::of(&native.private()?)?);
    if options.check {
        return Ok(check::print(&missing, asked.len(), &native.databases()?));
    }
    ensure!(missing.is_empty(), "programs would miss {} exports of {}: see --check", missing.len(), native.path.display());
    let tree = match (&options.place.prefix, options.place.in_place) {
        (Some(prefix), _) => into_prefix(prefix, &native, &shim)?,
        (None, true) => in_place(&native, &shim)?,
        (None, false) => return Err(Usage("say where to: --prefix DIR or --in-place".into()).into()),
    };
    println!("{}", tree.write()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Runs `uninstall`.
pub fn remove(options: &Removal) -> Result<ExitCode> {
    let (root, manifest) = match (&options.prefix, &options.in_place) {
        (Some(root), _) => (root, tree::PREFIX_MANIFEST),
        (None, Some(root)) => (root, tree::IN_PLACE_MANIFEST),
        (None, None) => return Err(Usage("say from where: --prefix DIR or --in-place DIR".into()).into()),
    };
    let kept = tree::remove(root, manifest)?;
    for path in &kept {
        eprintln!("hipdnn-shim: {} was changed since it was installed, and is left", path.display());
    }
    Ok(if kept.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A library in memory.
struct Loaded {
    data: Vec<u8>,
    face: Face,
}

impl Loaded {
    fn read(path: &Path) -> Result<Self> {
        let data = fs::read(path).with_context(|| path.display().to_string())?;
        let face = Face::of(&data).with_context(|| path.display().to_string())?;
        Ok(Self { data, face })
    }

    fn is_a_shim(&self) -> bool {
        self.face.exports.iter().any(|(name, _)| name == miopen_api::FORWARDED_ERROR_FUNCTION)
    }
}

/// The native library, and where it really lies.
struct Native {
    path: PathBuf,
    data: Vec<u8>,
    face: Face,
    /// Whether it is that of a split installation, whose functions are called `<name>_impl`.
    split: bool,
}

impl Native {
    fn read(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        let library = Loaded::read(&path)?;
        ensure!(!library.is_a_shim(), "{} is hipdnn-shim itself, not a native MIOpen", path.display());
        let has = |wanted: &str| library.face.exports.iter().any(|(name, _)| name == wanted);
        let split = !has("miopenCreate") && has("miopenCreate_impl");
        ensure!(split || has("miopenCreate"), "{} is no MIOpen: it has no miopenCreate", path.display());
        Ok(Self { path, data: library.data, face: library.face, split })
    }

    /// What programs were linked with: its exports and, before the private library of a split installation, the public names of its
    /// functions, of whichever version.
    fn asked_for(&self) -> BTreeSet<Export> {
        let public = |(name, _): &Export| Some((name.strip_suffix(IMPLEMENTATION_SUFFIX)?.to_string(), None));
        let public = self.face.exports.iter().filter(|_| self.split).filter_map(public);
        self.face.exports.iter().cloned().chain(public).collect()
    }

    /// Its name behind the shim.
    fn soname(&self) -> &'static str {
        if self.split { SPLIT_SONAME } else { PRIVATE_SONAME }
    }

    fn folder(&self) -> Result<&Path> {
        self.path.parent().context("the native lies in no folder")
    }

    /// It under its private name, in its own folder.
    fn private(&self) -> Result<Vec<u8>> {
        Ok(elf::rewritten(&self.data, &Edit { soname: Some(self.soname()), ..Edit::default() })?)
    }

    /// Where upstream's builds look for their databases: beside the folder of the library that has `miopenCreate`.
    fn databases(&self) -> Result<PathBuf> {
        Ok(self.folder()?.parent().context("the native lies in no prefix")?.join("share/miopen"))
    }

    /// The same for another folder: a search path that is relative to its own becomes absolute, or its neighbours would be lost.
    fn private_elsewhere(&self) -> Result<Vec<u8>> {
        let folder = self.folder()?.to_str().context("the native's folder has no readable name")?;
        let search = self.face.search.as_ref().map(|(kind, path)| (*kind, absolute(path, folder)));
        let search = search.as_ref().map(|(kind, path)| (*kind, path.as_str()));
        Ok(elf::rewritten(&self.data, &Edit { soname: Some(self.soname()), search, ..Edit::default() })?)
    }
}

/// A search path as seen from a folder.
fn absolute(search: &str, folder: &str) -> String {
    search.replace("${ORIGIN}", folder).replace("$ORIGIN", folder)
}

/// The shim as it is built.
fn shim(named: Option<&Path>) -> Result<Loaded> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => {
            libraries::beside(&["../lib/libMIOpen.so.1", "libMIOpen.so"]).context("no shim beside this program; name it with --shim")?
        }
    };
    let library = Loaded::read(&path)?;
    ensure!(library.is_a_shim(), "{} is not hipdnn-shim's library", path.display());
    Ok(library)
}

/// The shim as it is installed: it needs the native beside it, wherever programs look first.
fn shim_before(native: &Native, shim: &Loaded) -> Result<Vec<u8>> {
    let edit = Edit { soname: None, needed: Some(native.soname()), search: Some((Search::First, "$ORIGIN")) };
    Ok(elf::rewritten(&shim.data, &edit)?)
}

fn into_prefix(prefix: &Path, native: &Native, shim: &Loaded) -> Result<Tree> {
    let mut tree = Tree::new(prefix, tree::PREFIX_MANIFEST);
    tree.file("lib", SONAME, shim_before(native, shim)?);
    tree.file("lib", native.soname(), native.private_elsewhere()?);
    tree.link("lib", LINK_NAME, Path::new(SONAME));
    if native.split {
        tree.link("lib", SPLIT_LINK_NAME, Path::new(SPLIT_SONAME));
    }
    tree.file("share/hipdnn-shim", "translator.wasm", component::EMBEDDED.to_vec());
    for name in ["LICENSE", "THIRD-PARTY.txt"] {
        if let Some(terms) = libraries::beside(&[&format!("../share/licenses/hipdnn-shim/{name}")]) {
            tree.file("share/licenses/hipdnn-shim", name, fs::read(terms)?);
        }
    }
    // Upstream's builds look for their databases relative to the library that has miopenCreate, and that is the shim now.
    let databases = native.databases()?;
    if databases.is_dir() {
        tree.link("share", "miopen", &databases);
    }
    development::add(&mut tree, native.folder()?, native.split)?;
    Ok(tree)
}

/// The shim takes the file name of the public library, so that every link and every DT_NEEDED that led to that leads to it.
fn in_place(native: &Native, shim: &Loaded) -> Result<Tree> {
    let folder = native.folder()?;
    let mut tree = Tree::new(folder, tree::IN_PLACE_MANIFEST);
    if native.split {
        // The private library stays as it is.
        before_split(&mut tree, folder, shim_before(native, shim)?)?;
    } else {
        tree.file("", PRIVATE_SONAME, native.private()?);
        tree.replacement(file_name(&native.path)?, shim_before(native, shim)?);
    }
    Ok(tree)
}

/// In the place of the public library of a split installation, wherever its name leads to in that folder.
fn before_split(tree: &mut Tree, folder: &Path, shim: Vec<u8>) -> Result<()> {
    let Ok(public) = folder.join(SONAME).canonicalize() else {
        tree.file("", SONAME, shim);
        return Ok(());
    };
    ensure!(!Loaded::read(&public)?.is_a_shim(), "{} is hipdnn-shim itself", public.display());
    ensure!(public.parent() == Some(folder), "{} leads to {}", folder.join(SONAME).display(), public.display());
    tree.replacement(file_name(&public)?, shim);
    Ok(())
}

fn file_name(path: &Path) -> Result<&str> {
    path.file_name().and_then(|name| name.to_str()).with_context(|| format!("{} has no readable name", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_search_paths_become_absolute() {
        assert_eq!(absolute("$ORIGIN/../lib:${ORIGIN}:/x", "/opt/lib"), "/opt/lib/../lib:/opt/lib:/x");
    }
}
