//! `enfilade reference`, and the pages in `docs/` that are written from it.

use crate::server::BINARY;
use enfilade_testkit::Scratch;
use serde_json::Value;
use std::process::Command;

/// What it prints, and that it touches no data directory.
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
            // Where nothing happens beyond a limit, or a row is a command itself or an argument without a default.
            let may_be_empty = ["beyond", "default", "values", "argument"];
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
    assert!(said.starts_with("ID05\n    door: identity\n    fault: client\n"), "{said}");
    assert_eq!(said.lines().filter(|line| !line.starts_with(' ')).count(), 1, "{said}");
    let said = reference(&["configuration", "tls.listen"]);
    assert!(
        said.starts_with("tls.listen\n    values: ADDRESS:PORT\n    default: 127.0.0.1:8443\n"),
        "{said}"
    );
}
