//! `enfilade reference`, and the pages in `docs/` that are generated from its output.

use crate::server::BINARY;
use enfilade_testkit::Scratch;
use serde_json::Value;
use std::process::Command;

/// The output of `enfilade reference`. Checks that the command uses no data directory.
fn reference(arguments: &[&str]) -> String {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let said =
        Command::new(BINARY).arg("--data").arg(&data).arg("reference").args(arguments).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(!data.exists());
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn every_page_is_what_the_program_says() {
    let reference: Value = serde_json::from_str(&reference(&["--json"])).unwrap();
    let root = xtask::root();
    let stale: Vec<&str> = xtask::pages::written(&root, &reference)
        .unwrap()
        .into_iter()
        .filter(|(path, text)| std::fs::read_to_string(root.join(path)).unwrap() != *text)
        .map(|(path, _)| path)
        .collect();
    assert!(stale.is_empty(), "run `cargo xtask pages`: {stale:?}");
}

#[test]
fn every_row_says_what_it_is() {
    let reference: Value = serde_json::from_str(&reference(&["--json"])).unwrap();
    for (subject, rows) in reference.as_object().unwrap() {
        let rows = rows.as_array().unwrap();
        assert!(!rows.is_empty(), "{subject}");
        for row in rows {
            let cells = row.as_object().unwrap();
            // These cells may be empty: for example, a limit without an effect, or an argument without a default.
            let may_be_empty = ["beyond", "default", "values", "argument", "labels", "status", "delegated"];
            let is_empty = |(column, cell): (&String, &Value)| {
                cell.as_str() == Some("") && !may_be_empty.contains(&column.as_str())
            };
            assert!(!cells.iter().any(is_empty), "{subject}: {row}");
        }
    }
}

#[test]
fn one_row_for_a_person() {
    let said = reference(&["refusals", "ID05"]);
    assert!(said.starts_with("ID05\n    door: identity\n    status: 401\n    fault: client\n"), "{said}");
    assert_eq!(said.lines().filter(|line| !line.starts_with(' ')).count(), 1, "{said}");
    assert_eq!(reference(&["refusals", "id05"]), said);
    let unknown = Command::new(BINARY).args(["reference", "refusals", "ID5"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let said = reference(&["configuration", "tls.listen"]);
    assert!(
        said.starts_with("tls.listen\n    values: ADDRESS:PORT, ")
            && said.contains("\n    default: 127.0.0.1:8443\n"),
        "{said}"
    );
}

/// `config reference WORD` searches both tables of the configuration.
#[test]
fn keys_and_limits_are_found_by_a_part_of_their_name() {
    for (word, row) in
        [("tls.", "tls.listen\n"), ("xml_bytes", "xml_bytes\n"), ("listen", "operations.listen\n")]
    {
        let said = Command::new(BINARY).args(["config", "reference", word]).output().unwrap();
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(said.status.success() && said.stderr.is_empty() && text.contains(row), "{word}: {text}");
    }
    let unknown = Command::new(BINARY).args(["config", "reference", "nothing"]).output().unwrap();
    assert!(!unknown.status.success() && unknown.stdout.is_empty(), "{unknown:?}");
}

/// Every code has one row. Every refusal has a status, except refusals of door 1, which end the handshake.
#[test]
fn every_refusal_has_a_status() {
    let reference: Value = serde_json::from_str(&reference(&["refusals", "--json"])).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for row in reference["refusals"].as_array().unwrap() {
        let (code, status) = (row["code"].as_str().unwrap(), row["status"].as_str().unwrap());
        assert_eq!(status.is_empty(), code.starts_with("TL"), "{row}");
        assert!(seen.insert(code.to_owned()), "{row}");
    }
}

/// The operations listener lists the metrics of the table in the order of the table, with the labels of the table.
#[test]
fn metrics_are_those_of_the_reference() {
    let server = crate::server::Server::start();
    let shown = Command::new("curl").args(["-s", &format!("http://{}/metrics", server.operations)]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let reference: Value = serde_json::from_str(&reference(&["metrics", "--json"])).unwrap();
    let metrics = reference["metrics"].as_array().unwrap();
    let named: Vec<&str> = metrics.iter().map(|row| row["metric"].as_str().unwrap()).collect();
    let types = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    assert_eq!(types.map(|(name, _)| name).collect::<Vec<_>>(), named);
    for sample in shown.lines().filter(|line| !line.starts_with('#')) {
        let name = sample.split(['{', ' ']).next().unwrap();
        // A histogram has samples with three names.
        let whole = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let is_of = |row: &&Value| row["metric"] == name || whole.is_some_and(|whole| row["metric"] == whole);
        let row = metrics.iter().find(is_of).unwrap();
        for label in row["labels"].as_str().unwrap().split(", ").filter(|label| !label.is_empty()) {
            assert!(sample.contains(&format!("{label}=\"")), "{sample}");
        }
    }
}
