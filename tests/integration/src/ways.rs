//! Every way in which the library comes into a process: linked and found by a search path, by DT_RPATH or by DT_RUNPATH; opened in each
//! scope; preloaded. Clients take the way as their first argument (`tests/clients/dynamic.h`).

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{Client, Finished, Run, dist, shim};

/// A client, compiled as each way needs it.
pub struct Ways {
    linked: Client,
    dynamic: Client,
    rpath: Client,
    runpath: Client,
}

/// One of them.
pub struct Way<'a> {
    /// What it is called.
    pub name: &'static str,
    /// What the client is told.
    pub argument: String,
    client: &'a Client,
    searched: bool,
    preloaded: bool,
}

impl Ways {
    /// Compiles a client.
    pub fn of(name: &str) -> Result<Self> {
        let path = format!("-Wl,-rpath,{}", dist().join("lib").display());
        Ok(Self {
            linked: Client::compile_with(name, &[])?,
            dynamic: Client::compile_dynamic(name)?,
            rpath: Client::compile_with(name, &[&path, "-Wl,--disable-new-dtags"])?,
            runpath: Client::compile_with(name, &[&path, "-Wl,--enable-new-dtags"])?,
        })
    }

    /// The plainest: linked, with a search path.
    pub fn linked(&self) -> Way<'_> {
        Way { name: "linked", argument: "linked".into(), client: &self.linked, searched: true, preloaded: false }
    }

    /// Opened, in some scope.
    pub fn opened(&self, scope: &'static str) -> Way<'_> {
        let argument = format!("{scope}:{}", shim().display());
        Way { name: scope, argument, client: &self.dynamic, searched: false, preloaded: false }
    }

    /// All.
    pub fn all(&self) -> Vec<Way<'_>> {
        vec![
            self.linked(),
            Way { name: "RPATH", client: &self.rpath, searched: false, ..self.linked() },
            Way { name: "RUNPATH", client: &self.runpath, searched: false, ..self.linked() },
            self.opened("local"),
            self.opened("global"),
            self.opened("deepbind"),
            Way { name: "local, with a search path", searched: true, ..self.opened("local") },
            Way { name: "preloaded", client: &self.dynamic, preloaded: true, ..self.linked() },
            Way { name: "preloaded and linked", preloaded: true, ..self.linked() },
        ]
    }
}

impl Way<'_> {
    /// Whether `LD_PRELOAD` names it.
    pub fn preloads(&self) -> bool {
        self.preloaded
    }

    /// A run; the rest of its arguments is for [`Way::finish`].
    pub fn run(&self) -> Run {
        let run = self.client.run();
        let run = if self.searched { run } else { run.without("LD_LIBRARY_PATH") };
        if self.preloaded { run.env("LD_PRELOAD", shim()) } else { run }
    }

    /// A run in which the loader also finds what lies in a folder.
    pub fn run_with(&self, folder: &Path) -> Run {
        let own = self.searched.then(|| dist().join("lib"));
        let path = std::env::join_paths(own.iter().map(PathBuf::as_path).chain([folder])).expect("no folder of a test has a colon in it");
        self.run().env("LD_LIBRARY_PATH", path)
    }

    /// Runs it to whatever end.
    pub fn finish(&self, run: Run, arguments: &[&str]) -> Result<Finished> {
        run.finish(&[&[self.argument.as_str()], arguments].concat())
    }

    /// Runs it to a normal end.
    pub fn output(&self, run: Run, arguments: &[&str]) -> Result<Finished> {
        run.output(&[&[self.argument.as_str()], arguments].concat())
    }
}
