//! Files to be put somewhere, so that they can be taken back: a manifest says what was put there, and is written first. Nothing that was
//! there is overwritten; a file that is replaced is set aside under another name. Knows nothing of what the files are.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use hipdnn_host::{files, identity::hexadecimal};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The manifest of an installation into a folder of its own, relative to that.
pub const PREFIX_MANIFEST: &str = "share/hipdnn-shim/installed.json";
/// The manifest of an installation in place.
pub const IN_PLACE_MANIFEST: &str = "hipdnn-shim-installed.json";
/// What is appended to the name of a file that is replaced.
const ASIDE: &str = ".before-hipdnn-shim";

/// Files to be written under a folder.
pub struct Tree {
    root: PathBuf,
    manifest: PathBuf,
    items: Vec<Item>,
}

struct Item {
    path: PathBuf,
    content: Content,
    replaces: bool,
}

enum Content {
    File(Vec<u8>),
    Link(PathBuf),
}

/// What a manifest says. Paths are relative to the root.
#[derive(Default, Serialize, Deserialize)]
struct Manifest {
    files: Vec<Entry>,
    /// Folders that were made, outer ones first.
    folders: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<PathBuf>,
    /// The file that was there, under this name now.
    #[serde(skip_serializing_if = "Option::is_none")]
    aside: Option<PathBuf>,
}

impl Tree {
    /// An empty one.
    pub fn new(root: &Path, manifest: &str) -> Self {
        Self { root: root.to_path_buf(), manifest: manifest.into(), items: Vec::new() }
    }

    /// A file in a folder.
    pub fn file(&mut self, folder: &str, name: &str, content: Vec<u8>) {
        self.items.push(Item { path: Path::new(folder).join(name), content: Content::File(content), replaces: false });
    }

    /// A link in a folder.
    pub fn link(&mut self, folder: &str, name: &str, target: &Path) {
        self.items.push(Item { path: Path::new(folder).join(name), content: Content::Link(target.into()), replaces: false });
    }

    /// A file in the place of one that is there.
    pub fn replacement(&mut self, name: &str, content: Vec<u8>) {
        self.items.push(Item { path: name.into(), content: Content::File(content), replaces: true });
    }

    /// Writes everything; answers the manifest's path.
    pub fn write(&self) -> Result<PathBuf> {
        let manifest_path = self.root.join(&self.manifest);
        ensure!(!exists(&manifest_path), "{} exists: uninstall what it lists first", manifest_path.display());
        for item in &self.items {
            let path = self.root.join(if item.replaces { aside(&item.path) } else { item.path.clone() });
            ensure!(!exists(&path), "{} exists and is not this tool's", path.display());
        }
        let folders = self.missing_folders();
        let manifest = Manifest { files: self.items.iter().map(Item::entry).collect(), folders };
        manifest.folders.iter().try_for_each(|folder| make_folder(&self.root.join(folder)))?;
        let write = || -> Result<()> {
            put(&manifest_path, serde_json::to_string_pretty(&manifest)?.as_bytes(), 0o644)?;
            self.items.iter().try_for_each(|item| item.write(&self.root))
        };
        if let Err(error) = write() {
            // As if nothing had been tried; what cannot be taken back now is what the manifest still lists.
            let _ = remove(&self.root, &self.manifest.to_string_lossy());
            return Err(error);
        }
        Ok(manifest_path)
    }

    /// Folders that writing will make, outer ones first, down from the root itself.
    fn missing_folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let files = self.items.iter().map(|item| item.path.as_path()).chain([self.manifest.as_path()]);
        for folder in files.flat_map(|path| path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev()) {
            if !folders.iter().any(|known| known == folder) && !self.root.join(folder).is_dir() {
                folders.push(folder.to_path_buf());
            }
        }
        folders
    }
}

impl Item {
    fn entry(&self) -> Entry {
        let (sha256, link) = match &self.content {
            Content::File(data) => (Some(digest(data)), None),
            Content::Link(target) => (None, Some(target.clone())),
        };
        Entry { path: self.path.clone(), sha256, link, aside: self.replaces.then(|| aside(&self.path)) }
    }

    fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.path);
        match &self.content {
            Content::Link(target) => symlink(target, &path).with_context(|| path.display().to_string()),
            Content::File(data) if self.replaces => {
                // A hard link first, so that there is a file under this name at every moment.
                let mode = fs::metadata(&path)?.permissions().mode();
                fs::hard_link(&path, root.join(aside(&self.path))).with_context(|| format!("setting {} aside", path.display()))?;
                put(&path, data, mode)
            }
            Content::File(data) => put(&path, data, 0o644),
        }
    }
}

/// Takes back what a manifest lists; answers what was changed since and is therefore left.
pub fn remove(root: &Path, manifest: &str) -> Result<Vec<PathBuf>> {
    let path = root.join(manifest);
    let text = fs::read(&path).with_context(|| format!("{}: nothing is installed there", path.display()))?;
    let listed: Manifest = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    let paths = listed.files.iter().flat_map(|entry| [Some(&entry.path), entry.aside.as_ref()]).flatten().chain(&listed.folders);
    for path in paths {
        ensure!(path.components().all(|part| matches!(part, Component::Normal(_))), "{} leads out of {}", path.display(), root.display());
    }
    let mut kept = Vec::new();
    for entry in &listed.files {
        if !entry.remove(root)? {
            kept.push(root.join(&entry.path));
        }
    }
    fs::remove_file(&path)?;
    for folder in listed.folders.iter().rev() {
        // One that holds something else stays.
        let _ = fs::remove_dir(root.join(folder));
    }
    Ok(kept)
}

impl Entry {
    /// Whether it is gone, or was never there.
    fn remove(&self, root: &Path) -> Result<bool> {
        let path = root.join(&self.path);
        let ours = match (&self.sha256, &self.link) {
            (Some(sha256), _) => fs::read(&path).ok().map(|data| digest(&data) == *sha256),
            (None, Some(target)) => fs::read_link(&path).ok().map(|found| found == *target),
            (None, None) => None,
        };
        let aside = self.aside.as_ref().map(|aside| root.join(aside)).filter(|aside| exists(aside));
        match (ours, aside) {
            (Some(true), Some(aside)) => fs::rename(&aside, &path).map(|()| true),
            (Some(true), None) => fs::remove_file(&path).map(|()| true),
            // Not replaced yet, or replaced by someone else: what was set aside is either the same file or outdated.
            (_, Some(aside)) => fs::remove_file(aside).map(|()| true),
            (Some(false), None) => Ok(self.aside.is_some()),
            (None, None) => Ok(true),
        }
        .with_context(|| path.display().to_string())
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ASIDE);
    name.into()
}

/// Whether there is anything of this name, be it a link to nowhere.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn digest(data: &[u8]) -> String {
    hexadecimal(&Sha256::digest(data))
}

fn make_folder(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path),
        other => other,
    }
    .with_context(|| path.display().to_string())
}

/// Written under another name and renamed: a program that runs on the old file keeps it.
fn put(path: &Path, data: &[u8], mode: u32) -> Result<()> {
    files::publish(path, data, Some(fs::Permissions::from_mode(mode))).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hipdnn-shim-tree-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn listing(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_put_is_taken_back_with_its_folders() {
        let root = folder();
        let mut tree = Tree::new(&root, PREFIX_MANIFEST);
        tree.file("lib", "a", b"1".to_vec());
        tree.link("lib", "b", Path::new("a"));
        tree.write().unwrap();
        assert_eq!(listing(&root), ["lib", "share"]);
        assert_eq!(fs::read(root.join("lib/b")).unwrap(), b"1");
        assert!(tree.write().unwrap_err().to_string().contains("uninstall"));
        assert_eq!(remove(&root, PREFIX_MANIFEST).unwrap(), Vec::<PathBuf>::new());
        assert!(!root.exists());
    }

    #[test]
    fn what_others_put_there_stays() {
        let root = folder();
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::write(root.join("lib/other"), "x").unwrap();
        let mut tree = Tree::new(&root, PREFIX_MANIFEST);
        tree.file("lib", "a", b"1".to_vec());
        tree.write().unwrap();
        fs::write(root.join("lib/a"), "changed").unwrap();
        assert_eq!(remove(&root, PREFIX_MANIFEST).unwrap(), [root.join("lib/a")]);
        assert_eq!(listing(&root.join("lib")), ["a", "other"]);
        assert!(tree.write().unwrap_err().to_string().contains("exists and is not this tool's"));
        assert_eq!(listing(&root), ["lib"], "a refused installation leaves nothing");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_replaced_file_comes_back() {
        let root = folder();
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("native"), "old").unwrap();
        let mut tree = Tree::new(&root, IN_PLACE_MANIFEST);
        tree.replacement("native", b"new".to_vec());
        tree.write().unwrap();
        assert_eq!(fs::read(root.join("native")).unwrap(), b"new");
        remove(&root, IN_PLACE_MANIFEST).unwrap();
        assert_eq!((fs::read(root.join("native")).unwrap(), listing(&root)), (b"old".to_vec(), vec!["native".to_string()]));
        // A package manager that brought a newer one meanwhile keeps it.
        tree.write().unwrap();
        fs::write(root.join("native"), "newer").unwrap();
        assert_eq!(remove(&root, IN_PLACE_MANIFEST).unwrap(), Vec::<PathBuf>::new());
        assert_eq!((fs::read(root.join("native")).unwrap(), listing(&root)), (b"newer".to_vec(), vec!["native".to_string()]));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_manifest_leads_nowhere_else() {
        let root = folder();
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join(IN_PLACE_MANIFEST), r#"{"files":[{"path":"../x","sha256":""}],"folders":[]}"#).unwrap();
        assert!(remove(&root, IN_PLACE_MANIFEST).unwrap_err().to_string().contains("leads out of"));
        assert!(remove(&root, PREFIX_MANIFEST).unwrap_err().to_string().contains("nothing is installed there"));
        fs::remove_dir_all(&root).unwrap();
    }
}
