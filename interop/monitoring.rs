//! Metrics, alerts and the dashboard, checked by Prometheus' tool.

use crate::curl::command;
use crate::server::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn promtool(arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(packaging().join("prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter));
    words
        .filter(|word| word.starts_with("enfilade_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn prometheus_finds_nothing_wrong_with_the_metrics() {
    let server = Server::start();
    let token = server.add_token("admin@local!api");
    assert!(command(&server, &token).arg(server.url("/whoami")).output().unwrap().status.success());
    let url = format!("http://{}/metrics", server.operations);
    let metrics = Command::new("curl").args(["--silent", "--fail", &url]).output().unwrap().stdout;
    assert!(metrics.len() > 1_000);
    assert_eq!(promtool(&["check", "metrics"], &metrics), "");
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    promtool(&["check", "rules", "enfilade.rules.yml"], b"");
    promtool(&["test", "rules", "enfilade.test.yml"], b"");
    let page = std::fs::read_to_string(packaging().join("../docs/metrics.md")).unwrap();
    let known = names(&page);
    for file in ["prometheus/enfilade.rules.yml", "grafana/enfilade.json"] {
        let text = std::fs::read_to_string(packaging().join(file)).unwrap();
        let used = names(&text.replace("_seconds_bucket", "_seconds"));
        let unknown: Vec<&String> = used.difference(&known).collect();
        assert!(used.len() > 10 && unknown.is_empty(), "{file}: {unknown:?}");
    }
    let dashboard = std::fs::read_to_string(packaging().join("grafana/enfilade.json")).unwrap();
    let panels = serde_json::from_str::<Value>(&dashboard).unwrap()["panels"].as_array().unwrap().len();
    assert!(panels > 10 && dashboard.matches("\"expr\"").count() >= panels);
}
