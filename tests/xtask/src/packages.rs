//! Debian's packages, with what they depend on, unpacked side by side. Nothing is installed on the system. Which packages, and from which
//! suites, is said by those who want them.
//!
//! Suites move: a package that is gone, or a network that is not there, is [`Unavailable`].

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::programs::Unavailable;

/// Folder of the libraries, in an unpacked tree.
pub const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A set of packages.
pub struct Packages {
    /// What they are, for people.
    pub what: &'static str,
    /// Suites of Debian that they are in.
    pub suites: &'static [&'static str],
    /// Which of them is preferred for what, in apt's words.
    pub preferences: &'static str,
    /// Packages that come along with what they depend on.
    pub roots: &'static [&'static str],
    /// Packages that come without that.
    pub alone: &'static [&'static str],
    /// How the names of packages begin that are left out.
    pub without: &'static [&'static str],
    /// Files that must be there in the end.
    pub files: &'static [&'static str],
}

impl Packages {
    /// The unpacked tree in a folder; what is there already is taken as it is.
    pub fn lay_out(&self, folder: &Path) -> Result<PathBuf> {
        let (root, complete) = (folder.join("root"), folder.join("packages.txt"));
        if !complete.exists() {
            let apt = Apt::new(self, folder)?;
            eprintln!("xtask: reading Debian's package lists");
            apt.run("apt-get", ["-qq", "update"])?;
            let graph = graph(&apt.run("apt-cache", DEPENDS.iter().chain(self.roots))?);
            let names = closure(&graph, self.roots, self.without);
            for root in self.roots {
                let known = graph.get(*root).is_some_and(|needs| !needs.is_empty());
                ensure!(known, self.unavailable(format!("Debian has no {root} any more")));
            }
            eprintln!("xtask: fetching {} packages", names.len() + self.alone.len());
            let names = names.iter().map(String::as_str).chain(self.alone.iter().copied());
            apt.run("apt-get", ["-qq", "download"].into_iter().chain(names))?;
            let debs = unpack(&folder.join("debs"), &root)?;
            fs::write(&complete, debs)?;
        }
        for file in self.files {
            ensure!(root.join(file).exists(), self.unavailable(format!("the packages hold no {file} any more")));
        }
        Ok(root)
    }

    /// The names of the packages' files that were unpacked in a folder.
    pub fn unpacked(folder: &Path) -> Result<Vec<String>> {
        Ok(fs::read_to_string(folder.join("packages.txt"))?.lines().map(str::to_string).collect())
    }

    fn unavailable(&self, why: String) -> Unavailable {
        Unavailable { what: self.what, why }
    }
}

/// Unpacks every package; answers their names.
fn unpack(debs: &Path, root: &Path) -> Result<String> {
    let mut files = fs::read_dir(debs)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    let mut names = String::new();
    for file in files {
        let status = Command::new("dpkg-deb").arg("-x").arg(&file).arg(root).status().context("dpkg-deb")?;
        ensure!(status.success(), "{} cannot be unpacked", file.display());
        names += &format!("{}\n", file.file_name().unwrap_or_default().to_string_lossy());
    }
    Ok(names)
}

/// An apt of its own: lists, cache, state and preferences in a folder.
struct Apt<'a> {
    packages: &'a Packages,
    folder: PathBuf,
}

const DEPENDS: &[&str] =
    &["depends", "--recurse", "-i", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"];

impl<'a> Apt<'a> {
    fn new(packages: &'a Packages, folder: &Path) -> Result<Self> {
        for part in ["apt/lists/partial", "apt/cache/archives/partial", "debs", "root"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let folder = folder.canonicalize()?;
        let keyrings = fs::read_dir("/usr/share/keyrings").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let key = keyrings.filter(|path| path.file_stem() == Some(OsStr::new("debian-archive-keyring"))).min();
        let key = key.ok_or_else(|| packages.unavailable("this system has no keyring of Debian's archive".into()))?;
        let no_mirror = || packages.unavailable("the system's apt names no mirror of Debian".into());
        let mirror = mirror(&sources()).ok_or_else(no_mirror)?;
        let line = |suite: &&str| format!("deb [arch=amd64 signed-by={}] {mirror} {suite} main\n", key.display());
        fs::write(folder.join("apt/sources.list"), packages.suites.iter().map(line).collect::<String>())?;
        fs::write(folder.join("apt/preferences"), packages.preferences)?;
        fs::write(folder.join("apt/status"), "")?;
        Ok(Self { packages, folder })
    }

    fn run<A: AsRef<OsStr>>(&self, program: &str, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let mut command = Command::new(program);
        let options = [
            ("Dir::Etc::SourceList", "apt/sources.list"),
            ("Dir::Etc::Preferences", "apt/preferences"),
            ("Dir::State::Lists", "apt/lists"),
            ("Dir::State::status", "apt/status"),
            ("Dir::Cache", "apt/cache"),
        ];
        for (name, path) in options {
            command.arg("-o").arg(format!("{name}={}", self.folder.join(path).display()));
        }
        for option in ["Dir::Etc::SourceParts=/dev/null", "Dir::Etc::PreferencesParts=/dev/null", "APT::Sandbox::User=root"] {
            command.args(["-o", option]);
        }
        // Failing to reach the mirror is a failure, not a warning.
        command.args(["-o", "APT::Update::Error-Mode=any"]).args(arguments).current_dir(self.folder.join("debs"));
        let output = command.output().map_err(|error| self.packages.unavailable(format!("{program}: {error} (Debian's apt is needed)")))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = said.lines().find(|line| line.starts_with("E:")).or(said.lines().last()).unwrap_or("no reason given");
        ensure!(output.status.success(), self.packages.unavailable(format!("{program}: {error}")));
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The system's own apt sources.
fn sources() -> String {
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let files = parts.chain([PathBuf::from("/etc/apt/sources.list")]);
    files.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// The mirror of Debian that they name.
fn mirror(sources: &str) -> Option<String> {
    let lines = sources.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(str::split_whitespace).map(|word| word.trim_end_matches('/'));
    words.filter(|word| word.starts_with("http") && word.ends_with("/debian")).map(str::to_string).next()
}

/// What each package depends on, from `apt-cache depends --recurse`.
fn graph(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut graph: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut of = String::new();
    for line in text.lines() {
        match line.trim_start().trim_start_matches('|').split_once("Depends: ") {
            // Names in angle brackets are virtual; what stands for them follows, as a choice that no library here needs.
            Some((_, name)) if !name.starts_with('<') => graph.entry(of.clone()).or_default().push(name.to_string()),
            None if !line.starts_with(' ') => of = line.to_string(),
            _ => {}
        }
    }
    graph
}

/// Packages and all that they depend on, without some and what only those depend on.
fn closure(graph: &BTreeMap<String, Vec<String>>, roots: &[&str], without: &[&str]) -> Vec<String> {
    let (mut found, mut waiting) = (Vec::new(), VecDeque::from_iter(roots.iter().map(|name| name.to_string())));
    while let Some(name) = waiting.pop_front() {
        if found.contains(&name) || without.iter().any(|without| name.starts_with(without)) {
            continue;
        }
        waiting.extend(graph.get(&name).into_iter().flatten().cloned());
        found.push(name);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_systems() {
        assert_eq!(
            mirror("# deb http://old/debian x\ndeb [a=b] https://m.example/debian/ bookworm main\n").unwrap(),
            "https://m.example/debian"
        );
        assert_eq!(mirror("URIs: http://m.example/debian\n").unwrap(), "http://m.example/debian");
        assert_eq!(mirror("deb http://security/debian-security x\n"), None);
    }

    #[test]
    fn everything_that_is_needed_comes_along_but_what_is_replaced() {
        let text =
            "libmiopen1\n  Depends: libc6\n |Depends: liba\n  Depends: librocblas5\n  Depends: <x>\n    y\nlibc6\n  PreDepends: libb\n";
        let graph = graph(text);
        assert_eq!(
            closure(&graph, &["libmiopen1", "libmiopen1-tests"], &["librocblas"]),
            ["libmiopen1", "libmiopen1-tests", "libc6", "liba", "libb"]
        );
    }
}
