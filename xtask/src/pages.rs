//! The reference pages in `docs/`: all text after the line [`MARK`] is generated from the output of `enfilade reference`.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The path of a page, and the function that writes its tables.
type Page = (&'static str, fn(&Value) -> String);

/// Every page with generated tables.
pub const PAGES: [Page; 9] = [
    ("docs/configuration.md", configuration),
    ("docs/limits.md", limits),
    ("docs/refusals.md", refusals),
    ("docs/metrics.md", metrics),
    ("docs/routes.md", listeners),
    ("docs/proxmox.md", proxmox),
    ("docs/identity-v3.md", identity_v3),
    ("docs/commands.md", commands),
    ("docs/endings.md", endings),
];

/// The line between the two parts of a page: the text above it is written by hand, the text below it is generated.
pub const MARK: &str = "<!-- below: written by `cargo xtask pages`, from `enfilade reference` -->\n";

/// Every page, by path: the part above [`MARK`] unchanged, and new tables below.
///
/// # Errors
/// If a page cannot be read or has no line [`MARK`].
pub fn written(root: &Path, reference: &Value) -> Result<Vec<(&'static str, String)>, String> {
    let page = |(path, tables): &Page| {
        let text = std::fs::read_to_string(root.join(path)).map_err(|why| format!("`{path}`: {why}"))?;
        let (by_hand, _) =
            text.split_once(MARK).ok_or_else(|| format!("`{path}`: expected the line {MARK}"))?;
        Ok((*path, format!("{by_hand}{MARK}{}", tables(reference))))
    };
    PAGES.iter().map(page).collect()
}

/// Writes every page. `binary` is a built `enfilade`. If it is `None`, cargo builds the program.
///
/// # Errors
/// If the program cannot be run, or a page cannot be read or written.
pub fn write(root: &Path, binary: Option<&Path>) -> Result<(), String> {
    let mut command = match binary {
        Some(binary) => Command::new(binary),
        None => {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(["run", "--quiet", "-p", "enfilade", "--"]);
            cargo
        }
    };
    let said = command.args(["reference", "--json"]).current_dir(root).stderr(std::process::Stdio::inherit());
    let said = said.output().map_err(|why| format!("`enfilade reference` cannot be run: {why}"))?;
    if !said.status.success() {
        return Err(format!("`enfilade reference` ended with {}", said.status));
    }
    let reference =
        serde_json::from_slice(&said.stdout).map_err(|why| format!("`enfilade reference`: {why}"))?;
    for (path, text) in written(root, &reference)? {
        std::fs::write(root.join(path), text).map_err(|why| format!("`{path}` cannot be written: {why}"))?;
    }
    Ok(())
}

/// The rows of one subject of the reference.
fn rows<'r>(reference: &'r Value, subject: &str) -> &'r [Value] {
    reference.get(subject).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A cell, escaped for a Markdown table; numbers have commas between thousands.
fn cell(row: &Value, column: &str) -> String {
    match row.get(column) {
        Some(Value::String(text)) => text.replace('|', "\\|").replace('\n', " "),
        Some(Value::Number(number)) => thousands(&number.to_string()),
        _ => String::new(),
    }
}

fn thousands(digits: &str) -> String {
    let mut apart = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

fn heading(page: &mut String, titles: &[&str]) {
    let _ = writeln!(page, "| {} |\n|{}", titles.join(" | "), "---|".repeat(titles.len()));
}

fn configuration(reference: &Value) -> String {
    let (mut page, mut last) = (String::new(), String::new());
    for row in rows(reference, "configuration") {
        let key = cell(row, "key");
        let (section, name) = key.split_once('.').unwrap_or(("", &key));
        if section != last {
            let guide = cell(row, "page");
            let file = guide.split('#').next().unwrap_or_default();
            let _ = writeln!(page, "\n## `[{section}]`\n\nExplained in [{file}]({guide}).\n");
            heading(&mut page, &["key", "values", "default", "change needs", "meaning"]);
            section.clone_into(&mut last);
        }
        let [values, default, needs, meaning] =
            ["values", "default", "change needs", "meaning"].map(|column| cell(row, column));
        let _ = writeln!(page, "| `{name}` | {values} | {default} | {needs} | {meaning} |");
    }
    page
}

fn limits(reference: &Value) -> String {
    let mut page = "\n".to_owned();
    heading(&mut page, &["key", "default", "range", "unit", "what it limits", "above the limit"]);
    for row in rows(reference, "limits") {
        let [key, default, least, most, unit, meaning, beyond] =
            ["key", "default", "least", "most", "unit", "meaning", "beyond"].map(|column| cell(row, column));
        let _ = writeln!(page, "| `{key}` | {default} | {least} to {most} | {unit} | {meaning} | {beyond} |");
    }
    page.push_str("\n## Limits that cannot be changed\n\n");
    heading(&mut page, &["limit", "value", "meaning"]);
    for row in rows(reference, "fixed") {
        let [limit, value, meaning] = ["limit", "value", "meaning"].map(|column| cell(row, column));
        let _ = writeln!(page, "| `{limit}` | {value} | {meaning} |");
    }
    page
}

fn refusals(reference: &Value) -> String {
    let (mut page, mut last) = (String::new(), String::new());
    for row in rows(reference, "refusals") {
        let [code, door, status, fault, meaning, action] =
            ["code", "door", "status", "fault", "meaning", "action"].map(|column| cell(row, column));
        if door != last {
            let _ = match door.as_str() {
                "face" => writeln!(page, "\n## The request itself (`face`)\n"),
                _ => writeln!(page, "\n## Door `{door}`\n"),
            };
            heading(&mut page, &["code", "status", "fault", "meaning", "what to do"]);
            last = door;
        }
        let _ = writeln!(page, "| {code} | {status} | {fault} | {meaning} | {action} |");
    }
    page
}

fn metrics(reference: &Value) -> String {
    let mut page = "\n".to_owned();
    heading(&mut page, &["metric", "type", "labels", "meaning"]);
    for row in rows(reference, "metrics") {
        let [metric, kind, labels, meaning] =
            ["metric", "type", "labels", "meaning"].map(|column| cell(row, column));
        let _ = writeln!(page, "| `{metric}` | {kind} | {labels} | {meaning} |");
    }
    page
}

fn listeners(reference: &Value) -> String {
    let mut page = String::new();
    for (of, title) in [("main listener", "Main listener"), ("operations listener", "Operations listener")] {
        let _ = writeln!(page, "\n## {title}\n");
        heading(&mut page, &["path", "methods", "credential", "meaning"]);
        for row in rows(reference, "routes").iter().filter(|row| cell(row, "of") == of) {
            let [path, methods, needs, meaning] =
                ["path", "methods", "needs", "meaning"].map(|column| cell(row, column));
            let _ = writeln!(page, "| `{path}` | {methods} | {needs} | {meaning} |");
        }
    }
    page
}

fn proxmox(reference: &Value) -> String {
    format!("\n{}", calls(reference, "proxmox", "needs"))
}

fn identity_v3(reference: &Value) -> String {
    format!("\n{}", calls(reference, "identity v3", "any of"))
}

/// The table of the calls of an API; `needs` is the title of the column with the requirement of each call.
fn calls(reference: &Value, of: &str, needs: &str) -> String {
    let mut page = String::new();
    heading(&mut page, &["call", needs, "delegated", "summary"]);
    for row in rows(reference, "routes").iter().filter(|row| cell(row, "of") == of) {
        let [path, method, needs, delegated, meaning] =
            ["path", "methods", "needs", "delegated", "meaning"].map(|column| cell(row, column));
        let _ = writeln!(page, "| `{method} {path}` | {needs} | {delegated} | {meaning} |");
    }
    page
}

fn commands(reference: &Value) -> String {
    let (mut page, mut last, mut has_table) = (String::new(), String::new(), false);
    for row in rows(reference, "commands") {
        let [command, argument, values, default, meaning] =
            ["command", "argument", "values", "default", "meaning"].map(|column| cell(row, column));
        let group = command.split(' ').take(2).collect::<Vec<_>>().join(" ");
        if group != last {
            let _ = writeln!(page, "\n## `{group}`\n\n{meaning}.");
            last.clone_from(&group);
            has_table = false;
        }
        // The heading has the text of a command's first row.
        if command == group && argument.is_empty() {
            continue;
        }
        if !has_table {
            page.push('\n');
            heading(&mut page, &["command, argument", "meaning"]);
            has_table = true;
        }
        let noted = |name: &str, text: &str| match text.is_empty() {
            true => String::new(),
            false => format!(" [{name}: {text}]"),
        };
        let (values, default) = (noted("values", &values), noted("default", &default));
        let _ = match argument.is_empty() {
            true => writeln!(page, "| **`{command}`** | {meaning} |"),
            false => writeln!(page, "| `{argument}` | {meaning}{values}{default} |"),
        };
    }
    page
}

fn endings(reference: &Value) -> String {
    let mut page = "\n".to_owned();
    heading(&mut page, &["change", "what ends", "Keystone 30"]);
    for row in rows(reference, "endings") {
        let [change, ends, keystone] = ["change", "ends", "keystone"].map(|column| cell(row, column));
        let _ = writeln!(page, "| {change} | {ends} | {keystone} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_of_the_program_as_tables_of_a_page() {
        let reference = json!({
            "limits": [{ "key": "a_bytes", "default": 32_768, "least": 1, "most": 1_000_000, "unit": "bytes", "meaning": "A|B.", "beyond": "431" }],
            "fixed": [{ "limit": "B_MAX", "value": 999, "meaning": "C." }],
        });
        let page = limits(&reference);
        for line in
            ["| `a_bytes` | 32,768 | 1 to 1,000,000 | bytes | A\\|B. | 431 |", "| `B_MAX` | 999 | C. |"]
        {
            assert!(page.lines().any(|one| one == line), "{page}");
        }
        assert_eq!(refusals(&reference), "", "no table");
    }

    #[test]
    fn a_page_without_its_mark_is_named() {
        let why = written(Path::new("no/such/folder"), &Value::Null).unwrap_err();
        assert!(why.starts_with("`docs/configuration.md`"), "{why}");
    }
}
