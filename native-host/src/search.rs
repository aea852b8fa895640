//! Looking for a library in several places: which rule led to which place, and why a place was passed over, as data. What the places are
//! is said in `native::search`, `hip::search` and `backend::search`; the shim binds by them, and `hipdnn-shim doctor` explains by them.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a place is looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable identifier.
    pub id: &'static str,
    /// In words.
    pub why: &'static str,
}

/// A place: a path, or a bare name that the loader looks for in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Why it is one.
    pub rule: &'static Rule,
    /// Path or name.
    pub file: PathBuf,
}

impl Candidate {
    /// Whether it is looked for by a path rather than by the loader's search.
    pub fn is_path(&self) -> bool {
        self.file.as_os_str().as_encoded_bytes().contains(&b'/')
    }
}

/// Why a place was passed over.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is there.
    #[error("there is no such file")]
    Missing,
    /// The library that asks.
    #[error("it is this library itself")]
    Ourselves,
    /// What asks, built or copied another time.
    #[error("it is another build of this library")]
    AnotherBuild,
    /// The loader's word.
    #[error("{0}")]
    NotLoadable(String),
    /// A function that it would have if it were what it is looked for as.
    #[error("it lacks {0}")]
    Lacks(&'static str),
    /// A version that this build does not speak.
    #[error("version {0} is of another major than {1}, which this shim was built for")]
    Version(String, u32),
}

impl Reason {
    /// Stable identifier.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Ourselves => "ourselves",
            Self::AnotherBuild => "another-build",
            Self::NotLoadable(_) => "not-loadable",
            Self::Lacks(_) => "lacks",
            Self::Version(..) => "version",
        }
    }

    /// Why a place need not be tried: a path to what is there and no file, where the loader would wait for whoever writes into a pipe.
    pub(crate) fn of_place(file: &Path) -> Result<(), Self> {
        let is_path = file.components().count() > 1;
        match is_path.then(|| file.metadata()) {
            Some(Ok(there)) if !there.is_file() => Err(Self::NotLoadable(format!("{}: it is no regular file", file.display()))),
            _ => Ok(()),
        }
    }

    /// What the loader said about a file: that it is not there, or why it cannot be loaded.
    pub(crate) fn of_loader(file: &Path, error: libloading::Error) -> Self {
        let text = crate::backend::loader_text(error);
        // Of a library that it needs it would say the same, with that one's name.
        if text.starts_with(&format!("{}: cannot open shared object file: No such file", file.display())) {
            return Self::Missing;
        }
        Self::NotLoadable(text)
    }
}

/// What came of a search.
#[derive(Debug)]
pub struct Search<T> {
    /// The first that could be used.
    pub found: Option<(Candidate, T)>,
    /// Those before it, in order.
    pub rejected: Vec<(Candidate, Reason)>,
}

/// Tries places in order, until one can be used.
pub fn first<T>(candidates: Vec<Candidate>, mut open: impl FnMut(&Candidate) -> Result<T, Reason>) -> Search<T> {
    let mut rejected = Vec::new();
    for candidate in candidates {
        match open(&candidate) {
            Ok(library) => return Search { found: Some((candidate, library)), rejected },
            Err(reason) => rejected.push((candidate, reason)),
        }
    }
    Search { found: None, rejected }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { id: "test", why: "a test wants it" };

    fn candidates(files: &[&str]) -> Vec<Candidate> {
        files.iter().map(|file| Candidate { rule: &RULE, file: file.into() }).collect()
    }

    #[test]
    fn the_first_that_opens_is_taken_and_those_before_it_are_told() {
        let open = |candidate: &Candidate| if candidate.is_path() { Ok(1) } else { Err(Reason::Missing) };
        let search = first(candidates(&["a", "b", "/c", "/d"]), open);
        assert_eq!(search.found.map(|(candidate, _)| candidate.file), Some("/c".into()));
        assert_eq!(
            search.rejected.iter().map(|(candidate, _)| candidate.file.as_path()).collect::<Vec<_>>(),
            [Path::new("a"), Path::new("b")]
        );
        assert!(first(candidates(&["a"]), open).found.is_none());
    }
}
