//! The project's main job on real input: driver lines, through the shim, forwarding on, each verified against an independent
//! computation.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::Value;

/// Driver lines and where they must end: `hipdnn`, or the rule that declines them.
const LINES: &[(&str, &str)] = &[
    ("conv -n 16 -c 16 -H 16 -W 16 -k 16 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 1 -V 1 -i 100 -t 1", "hipdnn"),
    ("conv -n 1 -c 3 -H 32 -W 32 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1 -V 1", "hipdnn"),
    ("convfp16 -n 1 -c 1 -H 8 -W 8 -k 1 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1 -V 1", "hipdnn"),
    ("conv -n 2 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -F 1 -V 1", "conv.mode.transposed"),
];

/// Runs the lines, prints the table or the JSON lines, and fails if any is not as it must be.
pub fn run(dist: &Path, json: bool) -> Result<()> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["driver line", "route", "verified", "error", "translate µs", "plan µs", "warm µs"]);
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
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
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
        assert!(check(&good, "conv.mode.transposed").is_err());
        let declined = json!({"route": "native", "rule": "conv.mode.transposed", "status": 0, "verified": true});
        check(&declined, "conv.mode.transposed").unwrap();
        assert!(check(&declined, "hipdnn").is_err());
    }
}
