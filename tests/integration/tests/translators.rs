//! The offline tools on translators: the built-in one, and those of `tests/components` (built by `cargo xtask components`), which know nothing
//! of this project but the contract.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use integration_tests::{text, tool};
use serde_json::Value;

/// A component that was built.
fn component(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components").join(name.replace("-", "_")).with_extension("wasm");
    assert!(path.exists(), "{} is missing: run `cargo xtask components`", path.display());
    path
}

/// Runs the tool with `--json`; the exit status, and the last document that it prints.
fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = tool(arguments);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = printed.lines().last().unwrap_or_else(|| panic!("{arguments:?}: {output:?}"));
    (output.status.code(), serde_json::from_str(last).unwrap())
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number at {path} of {value}"))
}

/// Lines of the kinds that the two components forward, and some that they do not.
fn corpus(folder: &Path) -> PathBuf {
    let nhwc = "-I NHWC -f NHWC -O NHWC";
    let lines = [
        format!("convfp16 {nhwc} -n 2 -c 8 -k 4 -H 9 -W 7 -y 3 -x 3 -p 1 -q 1"),
        format!("convfp16 {nhwc} -n 1 -c 3 -k 5 -H 12 -W 12 -y 5 -x 3 -u 2 -v 1 -l 1 -j 2"),
        format!("convfp16 {nhwc} -n 2 -c 16 -k 8 -H 6 -W 5 -y 1 -x 1"),
        "convfp16 -n 2 -c 8 -k 4 -H 5 -W 6 -y 1 -x 1".to_string(),
        "conv -n 3 -c 5 -k 7 -H 4 -W 4 -y 1 -x 1".to_string(),
        "conv -n 1 -c 4 -k 4 -H 8 -W 8".to_string(),
    ];
    let file = folder.join("corpus.txt");
    fs::write(&file, lines.join("\n")).unwrap();
    file
}

#[test]
fn the_built_in_translator_passes() {
    let (code, report) = json(&["check", "--json", "--random", "2000"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!((report["ok"].as_bool(), number(&report, "/problems")), (Some(true), 2000));
    assert!(number(&report, "/graphs") > 700 && number(&report, "/numbers/right") > 200, "{report}");
}

#[test]
fn other_peoples_components_pass_and_compute_what_they_forward() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus(folder.path());
    for (name, graphs) in [("nhwc-half", 3), ("pointwise-as-matmul", 3)] {
        let file = component(name);
        let (code, report) =
            json(&["check", "--json", "--translator", text(&file), "--corpus", text(&corpus), "--random", "5000", "--seed", "3"]);
        assert_eq!(code, Some(0), "{name}: {report}");
        assert_eq!(report["translator"]["name"], name);
        // The corpus alone has so many; random problems may have more.
        assert!(number(&report, "/graphs") >= graphs && number(&report, "/numbers/right") >= graphs, "{name}: {report}");
    }
}

#[test]
fn a_matrix_product_is_an_operation_that_the_host_was_not_built_for() {
    let line = ["conv", "-n", "3", "-c", "5", "-k", "7", "-H", "4", "-W", "4", "-y", "1", "-x", "1", "-F", "1"];
    let file = component("pointwise-as-matmul");
    let (code, document) = json(&[&["translate", "--json", "--translator", text(&file)], &line[..]].concat());
    assert_eq!(code, Some(0));
    assert_eq!(document["graph"]["nodes"][0]["operation"], "HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR");
    let said = String::from_utf8_lossy(&tool(&[&["explain", "--translator", text(&file)], &line[..]].concat()).stdout).into_owned();
    assert!(said.contains("\n  matmul: adesc is w, bdesc is x, cdesc is y, "), "{said}");
}

#[test]
fn what_is_no_translator_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.wasm");
    fs::write(&file, b"\0asm\x0d\0\x01\0").unwrap();
    let (code, report) = json(&["check", "--json", "--translator", text(&file)]);
    assert_eq!((code, report["ok"].as_bool()), (Some(1), Some(false)));
    assert!(report["refused"].as_str().unwrap().contains("empty.wasm"), "{report}");
}

#[test]
fn differences_are_told_and_fail_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, file) = (corpus(folder.path()), component("nhwc-half"));
    let diff =
        |more: &[&str]| json(&[&["diff", "--json", "--corpus", text(&corpus), "--random", "500", "built-in", text(&file)], more].concat());
    let (code, summary) = diff(&[]);
    assert_eq!(code, Some(0));
    // One line of six is what both make the same graph of, but for the numbers of tensors; gradients are only the built-in one's.
    assert!(number(&summary, "/total/newly-declined") >= 15 && number(&summary, "/total/changed") >= 3, "{summary}");
    assert_eq!(number(&summary, "/total/newly-forwarded"), 0);
    assert_eq!(diff(&["--fail-on", "newly-forwarded"]).0, Some(0));
    assert_eq!(diff(&["--fail-on", "newly-forwarded,newly-declined"]).0, Some(1));
    let (code, same) =
        json(&["diff", "--json", "--fail-on", "newly-declined,changed,other-rule", "--random", "500", "built-in", "built-in"]);
    assert_eq!((code, number(&same, "/total/same")), (Some(0), 500));
}

#[test]
fn fuzzing_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let fuzz = || json(&["fuzz", "--json", "--runs", "1500", "--state", text(folder.path())]);
    let (code, first) = fuzz();
    assert_eq!((code, number(&first, "/total/tried"), number(&first, "/total/next")), (Some(0), 1500, 1500), "{first}");
    let (code, second) = fuzz();
    assert_eq!((code, number(&second, "/total/tried"), number(&second, "/total/findings")), (Some(0), 3000, 0), "{second}");
    assert!(number(&second, "/total/kinds") >= number(&first, "/total/kinds") && number(&first, "/total/kinds") > 30, "{second}");
}

#[test]
fn backends_that_lack_something_can_be_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let capabilities = folder.path().join("capabilities.json");
    fs::write(&capabilities, r#"{"backend_version":"0.1.0.0","operations":[15],"data_types":[0],"plan_serialization":false}"#).unwrap();
    let line = ["--capabilities", text(&capabilities), "conv", "-n", "1", "-F", "2"];
    let said = String::from_utf8_lossy(&tool(&[&["explain"], &line[..]].concat()).stdout).into_owned();
    assert!(said.contains("declined by conv.backend.operation") && said.contains("direction Forward instead of BackwardData"), "{said}");
}
