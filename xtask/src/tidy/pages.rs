//! Checks that the pages of the documentation exist, that bash runs their commands as they are written, and that ARCHITECTURE.md is short and names
//! each crate and invariant. `interop/reference.rs` checks that the reference pages agree with the output of the program.

use super::{Finding, Source};
use crate::pages::PAGES as WRITTEN;
use std::path::Path;

const PAGES: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];
const INVARIANTS: [&str; 19] = [
    "F1", "F2", "F3", "D1", "D2", "D3", "D4", "D5", "E1", "E2", "E3", "S1", "S2", "S3", "S4", "S5", "S6",
    "S7", "S8",
];
const ARCHITECTURE_LINES_MAX: usize = 250;

pub(super) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) {
    let pages = PAGES.into_iter().chain(WRITTEN.iter().map(|(page, _)| *page));
    let missing = pages.filter(|page| !root.join(page).is_file());
    findings.extend(missing.map(|page| Finding {
        path: page.into(),
        line: 0,
        what: "the file is missing: write it".into(),
    }));
    findings.extend(sources.iter().filter(|source| source.path.ends_with(".md")).flat_map(check_commands));
    if let Some(map) = sources.iter().find(|source| source.path == "ARCHITECTURE.md") {
        let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
        findings.extend(check_map(map, crates.map(|entry| entry.file_name().to_string_lossy().into_owned())));
    }
}

/// Finds commands of a page that bash changes: outside of single quotes, bash replaces `!` and the word after it by a former command.
fn check_commands(page: &Source) -> Vec<Finding> {
    let mut is_shell = false;
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        if line.starts_with("```") {
            is_shell = line.trim_end() == "```sh";
            continue;
        }
        let bare = line.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
        let command = bare.split(" #").next().unwrap_or_default();
        if is_shell && command.split('!').skip(1).any(|after| after.starts_with(char::is_alphanumeric)) {
            findings.push(page.finding(
                index + 1,
                "bash replaces `!` and the word after it: write the word in single quotes",
            ));
        }
    }
    findings
}

fn check_map(map: &Source, crates: impl Iterator<Item = String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = map.text.lines().count();
    if ARCHITECTURE_LINES_MAX < lines {
        let what = format!("{lines} lines, at most {ARCHITECTURE_LINES_MAX}: move details to docs/");
        findings.push(map.finding(0, what));
    }
    let names = crates.map(|name| format!("`crates/{name}`"));
    let wanted = names.chain(INVARIANTS.iter().map(|id| format!("**{id}**")));
    let missing = wanted.filter(|word| !map.text.contains(word));
    findings.extend(missing.map(|word| map.finding(0, format!("{word} is not on the map: put it there"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_true_and_short() {
        let ids: String = INVARIANTS.iter().map(|id| format!("**{id}** ")).collect();
        let found = |text: &str| {
            check_map(&Source::new("ARCHITECTURE.md", text), ["facts".to_owned()].into_iter()).len()
        };
        let map = format!("`crates/facts` {ids}");
        assert_eq!(found(&map), 0);
        assert_eq!(found(&ids), 1);
        assert_eq!(found(&map.replace("**D4**", "D4")), 1);
        assert_eq!(found(&format!("{map}{}", "\n".repeat(ARCHITECTURE_LINES_MAX))), 0);
        assert_eq!(found(&format!("{map}{}", "\n".repeat(ARCHITECTURE_LINES_MAX + 1))), 1);
    }

    #[test]
    fn a_command_with_a_bare_exclamation_mark() {
        let found = |line: &str| {
            let text = format!("a!b\n```sh\n{line}\n```\na!b\n```\na!b\n```\n");
            check_commands(&Source::new("docs/x.md", text)).iter().map(|found| found.line).collect::<Vec<_>>()
        };
        for line in ["token show 'a@local!t'", "x   # so that a!b", "! grep x", "[ a != b ]"] {
            assert!(found(line).is_empty(), "{line}");
        }
        for line in ["token show a@local!t", "token show \"a@local!t\"", "x 'y' a!t"] {
            assert_eq!(found(line), [3], "{line}");
        }
    }

    #[test]
    fn pages_that_are_not_there() {
        let mut findings = Vec::new();
        check(Path::new("no/such/folder"), &[], &mut findings);
        for page in PAGES.iter().chain(WRITTEN.iter().map(|(page, _)| page)) {
            assert_eq!(findings.iter().filter(|finding| finding.path == *page).count(), 1, "{page}");
        }
    }
}
