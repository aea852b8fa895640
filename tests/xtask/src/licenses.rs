//! The licences of what is linked into the layout: which packages, under which terms, and each licence text once.
//!
//! Read from cargo's own metadata and from the packages' files. A package that states no terms at all is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::build::root;

/// What is laid out: target, packages.
const HOST: (&str, &[&str]) = (
    "x86_64-unknown-linux-gnu",
    &["miopen-shim", "hipdnn-host", "reference-hip", "reference-miopen", "reference-hipdnn", "hipdnn-on-cudnn"],
);
const GUEST: (&str, &[&str]) = ("wasm32-unknown-unknown", &["translator"]);
/// How licence files begin, in capitals.
const FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: String,
    source: Option<String>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Package {
    /// It runs in the compiler only.
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }

    fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// The texts of its licence files.
    fn texts(&self) -> Result<Vec<String>> {
        let folder = Path::new(&self.manifest_path).parent().context("a manifest in a folder")?;
        let mut texts = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            if FILES.iter().any(|begin| name.starts_with(begin)) && entry.path().is_file() {
                texts.push(fs::read_to_string(entry.path())?.trim().to_string());
            }
        }
        Ok(texts)
    }
}

/// The document that goes with the layout.
pub fn document() -> Result<String> {
    let (host, guest) = (metadata(HOST.0)?, metadata(GUEST.0)?);
    let mut packages = linked(&host, HOST.1)?;
    packages.extend(linked(&guest, GUEST.1)?);
    packages.sort_by_key(|package| package.label());
    packages.dedup_by_key(|package| package.label());
    write(&packages)
}

fn metadata(target: &str) -> Result<Metadata> {
    let cargo = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let output = Command::new("cargo").args(cargo).current_dir(root()).output().context("starting cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The foreign packages that are linked into the roots: normal dependencies, without those that only run in the compiler.
fn linked<'a>(metadata: &'a Metadata, roots: &[&str]) -> Result<Vec<&'a Package>> {
    let packages: BTreeMap<&str, &Package> = metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let own = metadata.packages.iter().filter(|package| package.source.is_none() && roots.contains(&package.name.as_str()));
    let mut open: Vec<&str> = own.map(|package| package.id.as_str()).collect();
    ensure!(open.len() == roots.len(), "of the packages {}, {} are there", roots.join(", "), open.len());
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let package = packages.get(id).with_context(|| format!("no package {id}"))?;
        if package.is_macro() || !seen.insert(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("no dependencies of {id}"))?;
        open.extend(node.deps.iter().filter(|d| d.dep_kinds.iter().any(|kind| kind.kind.is_none())).map(|d| d.pkg.as_str()));
    }
    Ok(seen.into_iter().map(|id| packages[id]).filter(|package| package.source.is_some()).collect())
}

fn write(packages: &[&Package]) -> Result<String> {
    let mut document = String::from(
        "What is linked into the libraries and programs of hipdnn-shim beside its own code (LICENSE), and under which terms.\n\
         The Rust standard library is linked in too: MIT OR Apache-2.0, https://github.com/rust-lang/rust\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let own = package.texts()?;
        let terms = package.license.as_deref().unwrap_or("see its text below");
        ensure!(package.license.is_some() || !own.is_empty(), "{} states no licence", package.label());
        let place = package.repository.as_deref().unwrap_or("");
        let without = if own.is_empty() { " (no text in its package)" } else { "" };
        // A string takes every write, here and below.
        let _ = writeln!(document, "{}: {terms}{without} {place}", package.label());
        own.into_iter().for_each(|text| texts.entry(text).or_default().push(package.label()));
    }
    for (text, packages) in texts {
        let _ = writeln!(document, "\n{}\nOf: {}\n\n{text}", "=".repeat(78), packages.join(", "));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOTS: &[&str] = &["one", "two"];

    fn metadata(license: &str) -> Metadata {
        let package = |name: &str, source: &str, kind: &str| {
            format!(
                r#"{{"id":"{name}","name":"{name}","version":"1.0.0","license":{license},"repository":null,
                "manifest_path":"/nonexistent/{name}/Cargo.toml","source":{source},"targets":[{{"kind":["{kind}"]}}]}}"#
            )
        };
        let mut packages: Vec<String> = ROOTS.iter().map(|root| package(root, "null", "lib")).collect();
        packages.extend([package("used", "\"r\"", "lib"), package("derive", "\"r\"", "proc-macro"), package("tool", "\"r\"", "lib")]);
        let mut nodes: Vec<String> = ROOTS.iter().skip(1).map(|root| format!(r#"{{"id":"{root}","deps":[]}}"#)).collect();
        nodes.push(format!(
            r#"{{"id":"{}","deps":[{{"pkg":"used","dep_kinds":[{{"kind":null}}]}},{{"pkg":"derive","dep_kinds":[{{"kind":null}}]}},
            {{"pkg":"tool","dep_kinds":[{{"kind":"build"}}]}}]}}"#,
            ROOTS[0]
        ));
        nodes.push(r#"{"id":"used","deps":[]}"#.into());
        serde_json::from_str(&format!(r#"{{"packages":[{}],"resolve":{{"nodes":[{}]}}}}"#, packages.join(","), nodes.join(","))).unwrap()
    }

    #[test]
    fn only_what_is_linked_counts() {
        let metadata = metadata("\"MIT\"");
        assert_eq!(linked(&metadata, ROOTS).unwrap().iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["used"]);
    }

    #[test]
    fn nothing_is_no_answer() {
        let mut empty = metadata("null");
        empty.packages.clear();
        assert!(linked(&empty, ROOTS).is_err());
    }

    #[test]
    fn this_workspace_has_terms_for_everything() {
        let document = document().unwrap();
        assert!(document.contains("wasmtime 48.0.8: Apache-2.0 WITH LLVM-exception"));
        assert!(document.contains("LLVM Exceptions to the Apache 2.0 License") && document.contains("Permission is hereby granted"));
        assert!(document.contains("talc 5") && !document.contains("hipdnn-host"));
    }
}
