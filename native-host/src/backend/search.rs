//! In which places hipDNN is looked for, and why. Opens nothing.

use std::path::Path;

use crate::search::{Candidate, Rule};

/// The operator names it.
pub const NAMED: Rule = Rule { id: "named", why: "MIOPEN_HIPDNN_BACKEND_LIBRARY names it" };
/// The loader's.
pub const LOADER: Rule = Rule { id: "loader", why: "the loader finds it by name" };

/// The name under which it is shipped. It has no version in it.
pub const NAME: &str = "libhipdnn_backend.so";

/// The one that is named, else what the loader finds.
pub fn candidates(named: Option<&Path>) -> Vec<Candidate> {
    let (rule, file) = named.map_or((&LOADER, Path::new(NAME)), |file| (&NAMED, file));
    vec![Candidate { rule, file: file.into() }]
}
