//! Who translates: the built-in component, or the one that was asked for instead, as they say themselves.

use hipdnn_host::{
    component::{self, Translator},
    environment::{Settings, TRANSLATOR},
    identity::hexadecimal,
    translator::{Source, Wanted},
};

use super::{
    findings::{Finding, Kind},
    report,
};

/// The one that would be used, and why the one that was asked for would not.
pub fn translator(settings: &Settings) -> report::Translator {
    let refused = match settings.translator.as_ref().map(brought) {
        None => None,
        Some(Ok(found)) => return found,
        Some(Err(reason)) => Some(reason),
    };
    if refused.is_some() && settings.translator.as_ref().is_some_and(|wanted| wanted.required) {
        return report::Translator { source: "none".into(), refused, ..Default::default() };
    }
    let found = report::Translator { source: "built in".into(), contracts: contracts(component::EMBEDDED), refused, ..Default::default() };
    match Translator::embedded() {
        Ok(translator) => described(found, &translator),
        Err(error) => report::Translator { error: Some(error.to_string()), ..found },
    }
}

fn brought(wanted: &Wanted) -> Result<report::Translator, String> {
    let source = Source::read(wanted)?;
    let translator = source.try_out()?;
    let contracts = contracts(source.bytes());
    Ok(described(report::Translator { source: wanted.path.display().to_string(), contracts, ..Default::default() }, &translator))
}

fn described(found: report::Translator, translator: &Translator) -> report::Translator {
    let description = translator.description();
    report::Translator {
        name: Some(description.name.clone()),
        version: Some(description.version.clone()),
        sha256: Some(hexadecimal(translator.digest())),
        families: description.families.clone(),
        ..found
    }
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
pub fn judge(translator: &report::Translator, settings: &Settings, forwarding: bool) -> Vec<Finding> {
    let unusable = translator.error.as_ref().map(|error| Kind::TranslatorUnusable.found(forwarding, error.clone()));
    let refused = settings.translator.as_ref().zip(translator.refused.as_ref()).map(|(wanted, reason)| {
        let kind = if wanted.required { Kind::TranslatorRefused } else { Kind::TranslatorOverride };
        kind.found(forwarding, format!("{TRANSLATOR}={} is refused: {reason}", wanted.path.display()))
    });
    unusable.into_iter().chain(refused).collect()
}
