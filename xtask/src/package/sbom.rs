//! The components of the program, as CycloneDX 1.5 in JSON.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The list of the crates that the program is built from. `epoch` is the time of the list, in seconds since the epoch.
pub(super) fn of(root: &Path, version: &str, epoch: &str) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]);
    let printed = super::run_one(command.current_dir(root))?;
    let metadata: Value = serde_json::from_slice(&printed).map_err(|why| format!("cargo metadata: {why}"))?;
    let used = used(&metadata);
    let packages = metadata.pointer("/packages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let components: Vec<Value> =
        packages.iter().filter(|package| used.contains(text(package, "id"))).map(component).collect();
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(epoch)?,
            "component": { "type": "application", "name": "enfilade", "version": version },
        },
        "components": components,
    });
    serde_json::to_string_pretty(&list).map(|text| text + "\n").map_err(|why| why.to_string())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The ids of the packages from which the program is built, without the packages that only tests and tools need.
fn used(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata.pointer("/resolve/nodes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let program = list(metadata, "packages").iter().find(|package| text(package, "name") == "enfilade");
    let mut left: Vec<&str> = program.map(|program| text(program, "id")).into_iter().collect();
    let mut used = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !used.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| text(node, "id") == id);
        for dependency in node.map_or(&[][..], |node| list(node, "deps")) {
            // A dependency that only tests need has only the kind `dev`.
            if list(dependency, "dep_kinds").iter().any(|kind| text(kind, "kind") != "dev") {
                left.push(text(dependency, "pkg"));
            }
        }
    }
    used
}

fn component(package: &Value) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let url = format!("pkg:cargo/{name}@{version}");
    let mut component =
        json!({ "type": "library", "name": name, "version": version, "purl": url, "bom-ref": url });
    // Old crates write `MIT/Apache-2.0` for `MIT OR Apache-2.0`.
    let license = text(package, "license").replace('/', " OR ");
    if let Some(fields) = component.as_object_mut()
        && !license.is_empty()
    {
        fields.insert("licenses".to_owned(), json!([{ "expression": license }]));
    }
    component
}

/// A time in the form of RFC 3339.
fn timestamp(epoch: &str) -> Result<String, String> {
    let printed = super::run_one(Command::new("date").args([
        "--utc",
        "--date",
        &format!("@{epoch}"),
        "+%Y-%m-%dT%H:%M:%SZ",
    ]))?;
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}
