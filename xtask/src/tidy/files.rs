//! Names, sizes and words.

use super::{Finding, Source};
use std::path::Path;

const FOLDERS: [&str; 9] =
    ["crates", "xtask", "interop", "scenarios", "docs", "bench", "fuzz", "packaging", ".ci"];
const KINDS: [&str; 7] = ["rs", "md", "toml", "sh", "py", "world", "run"];
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 90;

/// Rooms without a purpose: a name that says nothing is where everything goes.
const FORBIDDEN_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "cache", "prelude"];

/// Every text file of the repository.
pub(super) fn read(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        walk(root, Path::new(folder), &mut sources);
    }
    let top = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.file_name());
    top.for_each(|name| read_file(root, Path::new(&name), &mut sources));
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn walk(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        if root.join(&path).is_dir() {
            walk(root, &path, sources);
        } else {
            read_file(root, &path, sources);
        }
    }
}

fn read_file(root: &Path, path: &Path, sources: &mut Vec<Source>) {
    let kind =
        path.extension().unwrap_or(path.file_name().unwrap_or_default()).to_string_lossy().into_owned();
    let full = root.join(path);
    if !KINDS.contains(&kind.as_str()) || !full.is_file() {
        return;
    }
    if let Ok(text) = std::fs::read_to_string(full) {
        sources.push(Source { path: path.to_string_lossy().into_owned(), text });
    }
}

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        findings.extend(forbidden_name(source));
        findings.extend(forbidden_words(source));
        if source.path.ends_with(".rs") {
            findings.extend(sizes(source));
            let is_root = source.path.ends_with("/lib.rs") || source.path.ends_with("/main.rs");
            if is_root && !source.text.starts_with("//!") {
                findings.push(source.finding(1, "a crate begins with a `//!` line: its one reason"));
            }
        }
    }
}

fn forbidden_name(source: &Source) -> Option<Finding> {
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let name = parts.into_iter().find(|part| FORBIDDEN_NAMES.contains(part))?;
    Some(source.finding(0, format!("`{name}` says nothing: name the file after what it is about")))
}

/// The words are put together here, so that this file does not hold them.
fn forbidden_words(source: &Source) -> Vec<Finding> {
    let rules = [
        (["FIX", "ME"].concat(), "mend it, or say in the issue what is left"),
        (["todo", "!("].concat(), "a promise not kept; build it or leave it out"),
        (["unimple", "mented!("].concat(), "a promise not kept; build it or leave it out"),
        (["#[ign", "ore"].concat(), "a test that does not run is none"),
        (["dbg", "!("].concat(), "take it out"),
        (["/wo", "rk/"].concat(), "a path of one machine"),
        (["/ro", "ot/"].concat(), "a path of one machine"),
        (["in this ses", "sion"].concat(), "the repository speaks of the project alone"),
        (["as an A", "I "].concat(), "the repository speaks of the project alone"),
    ];
    let lines = source.text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| {
        let broken = rules.iter().filter(move |(word, _)| line.contains(word.as_str()));
        broken.map(move |(word, why)| (index + 1, format!("`{word}`: {why}")))
    });
    found.map(|(line, what)| source.finding(line, what)).collect()
}

fn sizes(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.code().count();
    if lines > FILE_LINES_MAX {
        findings.push(
            source.finding(0, format!("{lines} lines, at most {FILE_LINES_MAX}: make two rooms of it")),
        );
    }
    // A function begins at its `fn` and ends at the brace that stands as far left.
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in source.code() {
        let indent = line.len() - line.trim_start().len();
        let begins = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "async fn ",
            "pub async fn ",
            "pub(crate) async fn ",
        ];
        if open.is_none() && begins.iter().any(|begin| line.trim_start().starts_with(begin)) {
            open = Some((number, indent));
        }
        if let Some((begin, left)) = open
            && indent == left
            && (line.trim() == "}"
                || line.trim_end().ends_with("}") && number == begin
                || line.trim_end().ends_with(';'))
        {
            if number - begin > FUNCTION_LINES_MAX {
                let what = format!(
                    "a function of {} lines, at most {FUNCTION_LINES_MAX}: name its parts",
                    number - begin
                );
                findings.push(source.finding(begin, what));
            }
            open = None;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    #[test]
    fn names_words_and_sizes() {
        assert!(forbidden_name(&source("crates/x/src/util.rs", "")).is_some());
        assert!(forbidden_name(&source("crates/common/src/lib.rs", "")).is_some());
        assert!(forbidden_name(&source("crates/x/src/utility_model.rs", "")).is_none());
        let text = format!("a\n// {}\n", ["FIX", "ME"].concat());
        assert_eq!(forbidden_words(&source("x.rs", &text))[0].line, 2);
        let long = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(91));
        assert_eq!(sizes(&source("x.rs", &long)).len(), 1);
        let short = format!("fn short() {{\n{}}}\n", "    x();\n".repeat(80));
        assert!(sizes(&source("x.rs", &short)).is_empty());
        assert_eq!(sizes(&source("x.rs", &"// x\n".repeat(601))).len(), 1);
    }
}
