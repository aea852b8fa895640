//! The project's main job on real input: driver lines, and all convolutions of a model, through the shim, forwarding on, each verified
//! against an independent computation.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::Value;

use crate::resnet::{self, FORMS, Layer};

/// Driver lines and where they must end: `hipdnn`, or the rule that declines them.
const LINES: &[(&str, &str)] = &[
    ("conv -n 16 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 1 -V 1 -i 100 -t 1", "hipdnn"),
    ("conv -n 1 -c 3 -H 32 -W 32 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1 -V 1", "hipdnn"),
    ("convfp16 -n 1 -c 1 -H 8 -W 8 -k 1 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1 -V 1", "hipdnn"),
    ("conv -n 2 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -F 1 -V 1", "hipdnn"),
    ("convfp16 -n 2 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -Z 1 -L 4 -F 1 -V 1", "tensor.layout.vectorized"),
];

/// A model must give at least so many forwarded and verified lines.
const MODEL_LINES: usize = 100;

/// Runs the lines and the model, prints the tables or the JSON lines, and fails if any is not as it must be.
pub fn run(dist: &Path, json: bool) -> Result<()> {
    let mut wrong = lines(dist, json)?;
    wrong.extend(model(dist, json)?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The single lines, each in a process of its own. Answers what is wrong.
fn lines(dist: &Path, json: bool) -> Result<Vec<String>> {
    let mut table = table(&["driver line", "route", "verified", "error", "translate µs", "plan µs", "warm µs"]);
    let mut wrong = Vec::new();
    for (line, expected) in LINES {
        let result = drive(dist, line).with_context(|| (*line).to_string())?;
        if let Err(error) = check(&result, expected) {
            wrong.push(format!("{line}: {error:#}"));
        }
        if json {
            println!("{result}");
        }
        table.add_row(row(line, &result));
    }
    if !json {
        println!("{table}");
    }
    Ok(wrong)
}

/// The convolutions of ResNet-50, in both forms. Answers what is wrong.
fn model(dist: &Path, json: bool) -> Result<Vec<String>> {
    let layers = resnet::layers();
    let mut results = Vec::new();
    for form in &FORMS {
        let lines: Vec<String> = layers.iter().map(|layer| layer.line(form)).collect();
        results.push(drive_all(dist, &lines, &[])?);
    }
    let mut wrong = Vec::new();
    for (form, results) in FORMS.iter().zip(&results) {
        for (layer, result) in layers.iter().zip(results) {
            wrong.extend(check(result, "hipdnn").err().map(|error| format!("ResNet-50 {} {}: {error:#}", form.name, layer.name)));
        }
    }
    let good = 2 * layers.len() - wrong.len();
    if json {
        results.iter().flatten().for_each(|result| println!("{result}"));
    } else {
        println!("{}", model_table(&layers, &results));
        println!("ResNet-50, batch 1: {good} of {} lines forwarded and verified", FORMS.len() * layers.len());
    }
    if good < MODEL_LINES {
        wrong.push(format!("ResNet-50: {good} good lines, {MODEL_LINES} are asked for"));
    }
    Ok(wrong)
}

/// A table with these heads.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}

/// A row for each layer, with route, error and warm time in each form.
fn model_table(layers: &[Layer], results: &[Vec<Value>]) -> Table {
    let mut header = vec!["ResNet-50 layer".to_string(), "shape".to_string()];
    header.extend(FORMS.iter().flat_map(|form| ["route", "verified", "error", "warm µs"].map(|what| format!("{}: {what}", form.name))));
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for (index, layer) in layers.iter().enumerate() {
        let mut cells = vec![layer.name.clone(), layer.shape()];
        for results in results {
            let [_, route, verified, error, _, _, warm] = row("", &results[index]);
            cells.extend([route, verified, error, warm]);
        }
        table.add_row(cells);
    }
    table
}

/// Drives many lines, with variables set; answers their records in order.
pub fn drive_all(dist: &Path, lines: &[String], variables: &[(&str, &OsStr)]) -> Result<Vec<Value>> {
    let file = dist.join("demo-lines.txt");
    fs::write(&file, lines.join("\n"))?;
    let mut drive = Command::new(dist.join("bin/hipdnn-shim"));
    drive.args(["drive", "--json", "--profile", "abi", "--corpus"]).arg(&file).envs(variables.iter().copied());
    let output = drive.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let records = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>().with_context(|| text.to_string())?;
    // The first says what is driven, the last sums it up.
    ensure!(records.len() == lines.len() + 2, "{} records: {}", records.len(), String::from_utf8_lossy(&output.stderr));
    Ok(records.into_iter().skip(1).take(lines.len()).collect())
}

fn drive(dist: &Path, line: &str) -> Result<Value> {
    let output = Command::new(dist.join("bin/hipdnn-shim")).args(["drive", "--json"]).args(line.split(' ')).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().last() {
        Some(last) => serde_json::from_str(last).with_context(|| text.to_string()),
        None => bail!("no answer: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn check(result: &Value, expected: &str) -> Result<()> {
    let route = if result["route"] == "hipdnn" { "hipdnn" } else { result["rule"].as_str().unwrap_or("no route") };
    ensure!(route == expected, "went to {route}, expected {expected}");
    ensure!(result["status"] == 0, "status {}", result["status"]);
    ensure!(result["verified"] == true, "not verified: error {} of {}", result["error"], result["tolerance"]);
    Ok(())
}

fn row(line: &str, result: &Value) -> [String; 7] {
    let route = match result["rule"].as_str() {
        Some(rule) => format!("native: {rule}"),
        None => result["route"].as_str().unwrap_or("?").to_string(),
    };
    let number = |name: &str| result[name].as_f64().map_or_else(|| "–".to_string(), |v| format!("{v:.1}"));
    let error = result["error"].as_f64().map_or_else(|| "–".to_string(), |v| format!("{v:.1e}"));
    [line.to_string(), route, result["verified"].to_string(), error, number("translate_us"), number("plan_us"), number("warm_us")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    #[test]
    fn the_check_fails_on_anything_wrong() {
        let good = json!({"route": "hipdnn", "rule": null, "status": 0, "verified": true, "error": 0.0, "tolerance": 1e-6});
        check(&good, "hipdnn").unwrap();
        for (field, value) in [
            ("route", json!("failed")),
            ("route", json!(null)),
            ("status", json!(5)),
            ("verified", json!(false)),
            ("verified", json!(null)),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            assert!(check(&wrong, "hipdnn").is_err(), "{wrong}");
        }
        assert!(check(&good, "tensor.layout.vectorized").is_err());
        let declined = json!({"route": "native", "rule": "tensor.layout.vectorized", "status": 0, "verified": true});
        check(&declined, "tensor.layout.vectorized").unwrap();
        assert!(check(&declined, "hipdnn").is_err());
    }
}
