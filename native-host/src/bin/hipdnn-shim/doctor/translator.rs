//! Who translates: the built-in component, as it says itself, and what was asked for instead of it.

use std::{fs, path::Path};

use hipdnn_host::{component, identity};

use super::{
    environment::{Environment, TRANSLATOR},
    findings::{Finding, Kind},
    report,
};
use crate::rules;

/// The one that would be used.
pub fn translator() -> report::Translator {
    let mut found = report::Translator { source: "built in".into(), contracts: contracts(component::EMBEDDED), ..Default::default() };
    match component::Translator::embedded() {
        Ok(translator) => {
            let description = translator.description();
            found.name = Some(description.name.clone());
            found.version = Some(description.version.clone());
            found.sha256 = Some(identity::hexadecimal(translator.digest()));
            found.families = description.families.clone();
        }
        Err(error) => found.error = Some(error.to_string()),
    }
    found
}

/// The versions of the contract's interfaces that a component exports.
#[cfg(feature = "cranelift")]
fn contracts(wasm: &[u8]) -> Vec<String> {
    component::interface_of(wasm).map(|interface| interface.exports).unwrap_or_default()
}

#[cfg(not(feature = "cranelift"))]
fn contracts(_: &[u8]) -> Vec<String> {
    Vec::new()
}

/// What is wrong with it, and with what was asked for.
pub fn judge(translator: &report::Translator, environment: &Environment, forwarding: bool) -> Vec<Finding> {
    let unusable = translator.error.as_ref().map(|error| Kind::TranslatorUnusable.found(forwarding, error.clone()));
    let asked = environment.get(TRANSLATOR).filter(|value| !value.is_empty());
    let asked = asked.map(|file| {
        let state = override_state(Path::new(&file));
        let file = Path::new(&file).display();
        Kind::TranslatorOverride
            .found(forwarding, format!("{TRANSLATOR}={file}: {state}, and this version reads no translator from a file"))
    });
    unusable.into_iter().chain(asked).collect()
}

/// What a file is that should be a translator.
fn override_state(file: &Path) -> String {
    match fs::read(file) {
        Err(error) => format!("the file cannot be read ({error})"),
        Ok(_) => match rules::load(Some(file)) {
            Ok(translator) => format!("it is {} {}", translator.description().name, translator.description().version),
            Err(error) => format!("{error:#}"),
        },
    }
}
