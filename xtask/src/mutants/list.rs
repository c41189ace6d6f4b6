//! Which mutants exist: cargo-mutants lists them.

use super::digest::digest;
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::process::Command;

/// One small change of the code that should make a test fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// The number of the mutant. It is the same in each run as long as the code of the file is unchanged.
    pub(super) id: u32,
    /// The path from the repository's root.
    pub(super) file: String,
    pub(super) package: String,
    /// The name in cargo-mutants, without the position: `replace == with != in open`.
    pub(super) name: String,
    /// A name that is unique in the file: `replace == with != in open #2` is the second mutant with this name. It does not depend on comments and
    /// layout.
    pub(super) label: String,
    /// The name with file and position, as cargo-mutants prints it.
    pub(super) full_name: String,
    /// The source line on which the mutant begins, trimmed: it distinguishes mutants of the same name.
    pub(super) at: String,
    pub(super) genre: Genre,
    /// The range of bytes in the file that `replacement` replaces.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) replacement: String,
    pub(super) return_type: String,
}

/// The kinds of mutants of cargo-mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
    /// A kind that the switch does not know; cargo-mutants runs it alone.
    Other,
}

/// The crates whose mutants are listed.
pub(super) const PACKAGES: [&str; 8] = [
    "enfilade-facts",
    "enfilade-sources",
    "enfilade-tls",
    "enfilade-identity",
    "enfilade-datastore",
    "enfilade-access",
    "enfilade-content",
    "enfilade-passage",
];

/// All mutants of the crates, in the order of their files.
pub(super) fn all() -> Result<Vec<Mutant>, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["mutants", "--list", "--json", "--no-config"]).current_dir(xtask::root());
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    let output = command.output().map_err(|why| format!("cargo cannot be run: {why}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(match said.contains("no such command") {
            true => "cargo-mutants is missing; run `cargo install cargo-mutants --locked`".to_owned(),
            false => format!("`cargo mutants --list` failed: {said}"),
        });
    }
    let listed: Vec<Value> =
        serde_json::from_slice(&output.stdout).map_err(|why| format!("the list of mutants: {why}"))?;
    let mut texts = HashMap::new();
    for value in &listed {
        let file = text(value, "file");
        if let Entry::Vacant(new) = texts.entry(file) {
            let file = new.key();
            let content = std::fs::read_to_string(xtask::root().join(file));
            let content = content.map_err(|why| format!("`{file}`: {why}"))?;
            new.insert(content);
        }
    }
    let read = |value: &Value| mutant(value, texts.get(&text(value, "file"))?);
    let mutants: Option<Vec<Mutant>> = listed.iter().map(read).collect();
    Ok(numbered(
        mutants.ok_or("the list of mutants has another form than version 27 of cargo-mutants writes")?,
    ))
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn mutant(value: &Value, source: &str) -> Option<Mutant> {
    let span = value.get("span")?;
    let position = |edge: &str| {
        let edge = span.get(edge)?;
        let number = |key: &str| usize::try_from(edge.get(key)?.as_u64()?).ok();
        byte(source, number("line")?, number("column")?)
    };
    let (begin, end) = (position("start")?, position("end")?);
    let full_name = text(value, "name");
    let name = full_name.splitn(4, ':').last()?.trim().to_owned();
    let before = source.get(..begin)?.rfind('\n').map_or(0, |newline| newline + 1);
    let function = value.get("function").filter(|function| !function.is_null());
    Some(Mutant {
        id: 0,
        file: text(value, "file"),
        package: text(value, "package"),
        label: name.clone(),
        name,
        full_name,
        at: source.get(before..)?.lines().next()?.trim().to_owned(),
        genre: match value.get("genre")?.as_str()? {
            "FnValue" => Genre::FnValue,
            "BinaryOperator" => Genre::BinaryOperator,
            "UnaryOperator" => Genre::UnaryOperator,
            "MatchArm" => Genre::MatchArm,
            "MatchArmGuard" => Genre::MatchArmGuard,
            "StructField" => Genre::StructField,
            _ => Genre::Other,
        },
        begin,
        end,
        replacement: text(value, "replacement"),
        return_type: function.map(|function| text(function, "return_type")).unwrap_or_default(),
    })
}

/// The byte offset of a line and a column. Both begin at 1; columns count characters.
fn byte(source: &str, line: usize, column: usize) -> Option<usize> {
    let begin = match line.checked_sub(2) {
        None => 0,
        Some(nth) => source.match_indices('\n').nth(nth)?.0 + 1,
    };
    let rest = source.get(begin..)?;
    let nth = column.checked_sub(1)?;
    Some(begin + rest.char_indices().nth(nth).map_or(rest.len(), |(at, _)| at))
}

/// Gives each mutant its label, and its id, which is a digest of file and label.
fn numbered(mut mutants: Vec<Mutant>) -> Vec<Mutant> {
    mutants.sort_by(|a, b| (&a.file, a.begin, a.end).cmp(&(&b.file, b.begin, b.end)));
    let (mut seen, mut taken) = (HashMap::<String, u32>::new(), HashSet::new());
    for mutant in &mut mutants {
        let nth = seen.entry(format!("{}\n{}", mutant.file, mutant.name)).or_default();
        *nth += 1;
        if *nth > 1 {
            mutant.label = format!("{} #{nth}", mutant.name);
        }
        let wide = digest(format!("{}\n{}", mutant.file, mutant.label).as_bytes());
        let mut id = u32::try_from(wide & 0x7fff_ffff).unwrap_or_default().max(1);
        while !taken.insert(id) {
            id += 1;
        }
        mutant.id = id;
    }
    mutants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let source = "ab\nä == b\n";
        for (line, column, expected) in [(1, 1, 0), (1, 3, 2), (2, 1, 3), (2, 3, 6), (2, 8, 11), (3, 1, 11)] {
            assert_eq!(byte(source, line, column), Some(expected), "{line}:{column}");
        }
        assert_eq!(byte(source, 9, 1), None);
    }

    #[test]
    fn a_listed_mutant_is_read() {
        let source = "fn f(a: u8) -> bool {\n    a == 1\n}\n";
        let value = serde_json::json!({
            "name": "crates/x/src/lib.rs:2:7: replace == with != in f",
            "package": "x",
            "file": "crates/x/src/lib.rs",
            "function": { "function_name": "f", "return_type": "-> bool" },
            "span": { "start": { "line": 2, "column": 7 }, "end": { "line": 2, "column": 9 } },
            "replacement": "!=",
            "genre": "BinaryOperator",
        });
        let one = mutant(&value, source).unwrap();
        assert_eq!((one.name.as_str(), one.at.as_str()), ("replace == with != in f", "a == 1"));
        assert_eq!(source.get(one.begin..one.end), Some("=="));
        // Two mutants with the same name have different ids, which are the same in each run.
        let two = numbered(vec![one.clone(), one.clone()]);
        assert_eq!(two[1].label, "replace == with != in f #2");
        let ids: Vec<u32> = two.iter().map(|one| one.id).collect();
        assert_ne!(ids[0], ids[1]);
        assert_eq!(ids, numbered(vec![one.clone(), one]).iter().map(|one| one.id).collect::<Vec<_>>());
    }
}
