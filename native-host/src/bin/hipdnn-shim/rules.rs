//! `rules`: the tables of reasons to decline, as the translator and the host themselves list them. No rule is written down here.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use comfy_table::{Table, presets};
use hipdnn_host::{
    component::{Entry, Translator},
    identity::hexadecimal,
    rules::HostRule,
};
use serde_json::{Value, json};

use crate::asked;

/// Command line of `rules`.
#[derive(Args)]
pub struct Options {
    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// A translator component instead of the built-in one
    #[arg(long, value_name = "FILE.wasm")]
    translator: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let translator = asked::translator(options.translator.as_deref())?;
    if options.json {
        println!("{}", as_json(&translator))
    } else {
        print(&translator)
    }
    Ok(ExitCode::SUCCESS)
}

/// Who translates, as JSON.
pub fn identity(translator: &Translator) -> Value {
    let description = translator.description();
    json!({
        "name": description.name,
        "version": description.version,
        "sha256": hexadecimal(translator.digest()),
        "families": description.families,
    })
}

fn as_json(translator: &Translator) -> Value {
    let entries = |list: &[Entry]| list.iter().map(|e| json!({ "id": e.id, "reason": e.reason })).collect::<Vec<_>>();
    let description = translator.description();
    let host: Vec<Value> = HostRule::ALL.iter().map(|rule| json!({ "id": rule.id(), "reason": rule.reason() })).collect();
    json!({
        "translator": identity(translator),
        "rules": entries(&description.rules),
        "notes": entries(&description.notes),
        "host_rules": host,
    })
}

fn print(translator: &Translator) {
    let description = translator.description();
    let families = description.families.join(", ");
    println!("{} {} ({families}), sha256 {}\n", description.name, description.version, hexadecimal(translator.digest()));
    let entries = |list: &[Entry]| list.iter().map(|e| [e.id.clone(), e.reason.clone()]).collect::<Vec<_>>();
    print_table("Rules of the translator, in the order they are tried", entries(&description.rules));
    print_table("Notes: translated, but not to the letter", entries(&description.notes));
    let host = HostRule::ALL.iter().map(|rule| [rule.id().to_string(), rule.reason().to_string()]);
    print_table("Rules of the host: the environment of a call, and faults of a translator", host.collect());
}

fn print_table(title: &str, rows: Vec<[String; 2]>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in rows {
        table.add_row(row);
    }
    println!("{title}\n{table}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_complete() {
        let document = as_json(&asked::translator(None).unwrap());
        assert_eq!(document["host_rules"].as_array().unwrap().len(), HostRule::ALL.len());
        assert!(document["rules"].as_array().unwrap().iter().any(|rule| rule["id"] == "conv.scaling.alpha"));
        assert_eq!(document["translator"]["sha256"].as_str().unwrap().len(), 64);
    }
}
