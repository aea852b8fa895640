//! Who is asked, on the command line: a translator, and what it is told of the backend.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use hipdnn_host::{
    capabilities::{Capabilities, CapabilitiesFile},
    component::Translator,
    translator::Source,
};

/// The options of every verb that asks one translator.
#[derive(Args)]
pub struct Asked {
    /// A translator component instead of the built-in one
    #[arg(long, value_name = "FILE.wasm")]
    translator: Option<PathBuf>,
    /// What the backend can express, as JSON (default: all that the ABI table has)
    #[arg(long, value_name = "FILE")]
    capabilities: Option<PathBuf>,
}

impl Asked {
    /// The translator.
    pub fn translator(&self) -> Result<Translator> {
        translator(self.translator.as_deref())
    }

    /// What it is told.
    pub fn capabilities(&self) -> Result<Capabilities> {
        capabilities(self.capabilities.as_deref())
    }
}

/// The built-in translator, or the one in a file; loaded, and not tried.
pub fn translator(file: Option<&Path>) -> Result<Translator> {
    let Some(path) = file else { return Ok(Translator::embedded()?) };
    let source = Source::of_file(path).map_err(|reason| anyhow!("{}: {reason}", path.display()))?;
    source.load_anew().with_context(|| path.display().to_string())
}

/// What a backend can express: all of the ABI, or what a file says.
pub fn capabilities(file: Option<&Path>) -> Result<Capabilities> {
    let Some(path) = file else { return Ok(Capabilities::whole_abi()) };
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let file: CapabilitiesFile = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_component_is_refused() {
        assert!(translator(Some(Path::new("/nonexistent.wasm"))).is_err());
        let module = tempfile::NamedTempFile::new().unwrap();
        fs::write(module.path(), b"\0asm\x01\0\0\0").unwrap();
        assert!(translator(Some(module.path())).is_err());
    }
}
