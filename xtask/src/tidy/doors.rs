//! Checks that every door that decides has the same files, makes its permit in one place, and does no I/O. Also checks that each door has a short
//! page, and that only `admin` changes facts.

use super::rust_text::{body_end, is_word, line_at, words};
use super::{Finding, Source};

/// The folder and the permit of each door that decides.
const DOORS: [(&str, &str); 4] = [
    ("crates/door-1-tls", "TlsPermit"),
    ("crates/door-2-identity", "IdentityPermit"),
    ("crates/door-3-datastore", "DatastorePermit"),
    ("crates/door-4-access", "AccessPermit"),
];

/// The door that acts with a permit and decides nothing. It has other files than the doors that decide.
const ACTING: &str = "crates/door-5-content";

const ROOMS: [&str; 6] = ["ask", "view", "open", "permit", "refuse", "memo"];

/// Doors that may lack a memo, with the reason in their `lib.rs`.
const FORGETFUL: [&str; 2] = ["crates/door-1-tls", "crates/door-3-datastore"];

const README_LINES_MAX: usize = 12;

/// Texts of code that does I/O, waits or reads a clock. The doors that decide and `facts` must not contain them (invariants F1 and D1).
const OUTSIDE: [&str; 9] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "async fn",
    ".await",
    "tokio",
    "Instant::now",
    "SystemTime::now",
];

/// The crates of the doors, the passage and the protocols: they must not change facts themselves.
const READERS: [&str; 13] = [
    "crates/door-1-tls",
    "crates/door-2-identity",
    "crates/door-3-datastore",
    "crates/door-4-access",
    "crates/door-5-content",
    "crates/passage",
    "crates/faces",
    "crates/face-webdav",
    "crates/face-keystone",
    "crates/face-proxmox",
    "crates/face-operations",
    "crates/face-decision",
    "crates/face-console",
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for (folder, permit) in DOORS {
        let of_door = of_folder(sources, folder);
        findings.extend(rooms(folder, &of_door));
        findings.extend(page(folder, &of_door));
        findings.extend(permits(folder, permit, &of_door));
    }
    findings.extend(page(ACTING, &of_folder(sources, ACTING)));
    let folders = DOORS.iter().map(|(folder, _)| *folder).chain(["crates/facts"]);
    for folder in folders {
        let code = of_folder(sources, folder);
        findings.extend(code.iter().filter(|source| source.is_rust()).flat_map(|source| outside(source)));
    }
    for folder in READERS {
        let code = of_folder(sources, folder);
        findings.extend(code.iter().filter(|source| source.is_rust()).flat_map(|source| writes(source)));
    }
}

/// Checks that only `admin` changes facts.
fn writes(source: &Source) -> Vec<Finding> {
    let commits = source.code_lines().filter(|(_, line)| line.contains(".commit("));
    let what = "`.commit(`: only `admin` changes facts; call a function of `admin` with a `ChangeContext`";
    commits.map(|(number, _)| source.finding(number, what)).collect()
}

fn of_folder<'s>(sources: &'s [Source], folder: &str) -> Vec<&'s Source> {
    let is_inside = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    sources.iter().filter(|source| is_inside(&source.path)).collect()
}

fn find<'s>(of_door: &[&'s Source], folder: &str, name: &str) -> Option<&'s Source> {
    of_door.iter().find(|source| source.path == format!("{folder}/{name}")).copied()
}

fn rooms(folder: &str, of_door: &[&Source]) -> Vec<Finding> {
    let reason = find(of_door, folder, "src/lib.rs")
        .and_then(|source| source.text.lines().find_map(|line| line.split("no memo:").nth(1)));
    let is_excused = FORGETFUL.contains(&folder) && reason.is_some_and(|reason| !reason.trim().is_empty());
    let needed = ROOMS.iter().filter(|room| **room != "memo" || !is_excused);
    let missing = needed.filter(|room| find(of_door, folder, &format!("src/{room}.rs")).is_none());
    let what = |room| format!("there is no src/{room}.rs: every door has the same files, make it");
    missing.map(|room| Finding { path: folder.to_owned(), line: 0, what: what(room) }).collect()
}

fn page(folder: &str, of_door: &[&Source]) -> Option<Finding> {
    let lines = find(of_door, folder, "README.md").map(|page| page.text.lines().count());
    let what = match lines {
        Some(lines) if lines <= README_LINES_MAX => return None,
        Some(lines) => format!("{lines} lines, at most {README_LINES_MAX}: move the rest to docs/"),
        None => {
            "there is no such page: write what the door asks, reads, grants, refuses, memoises".to_owned()
        }
    };
    Some(Finding { path: format!("{folder}/README.md"), line: 0, what })
}

/// Checks that a permit has private fields, and that one place fills them (invariant D2).
fn permits(folder: &str, permit: &str, of_door: &[&Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut made = Vec::new();
    let room = format!("{folder}/src/permit.rs");
    for source in of_door.iter().filter(|source| source.is_rust()) {
        let is_room = source.path == room;
        if is_room {
            findings.extend(public_fields(source));
        }
        for (number, line) in source.code_lines() {
            let is_made = is_literal(line, permit) || is_room && is_literal(line, "Self");
            made.extend(is_made.then(|| source.finding(number, format!("`{permit}` is made here"))));
            let from_nothing =
                ["Default", "Deserialize"].iter().find(|word| words(line, word).next().is_some());
            if let Some(word) = from_nothing.filter(|_| is_room) {
                let what = format!("`{word}` makes a permit that no door granted: remove it");
                findings.push(source.finding(number, what));
            }
        }
    }
    let door = format!("{folder}/src/open.rs");
    if made.len() != 1 || made.iter().any(|place| place.path != door) {
        let count = made.len();
        let what = format!("`{permit}` is made in {count} places: make it once, in open.rs (invariant D2)");
        findings.push(Finding { path: folder.to_owned(), line: 0, what });
        findings.extend(made);
    }
    findings
}

/// Whether the line constructs a value of the type, and is not its definition or an `impl`.
fn is_literal(line: &str, name: &str) -> bool {
    let literal = format!("{name} {{");
    words(line, &literal).any(|at| {
        let before = line.get(..at).unwrap_or_default().trim_end();
        !["struct", "impl", "for", "->", ">"].iter().any(|word| before.ends_with(word))
            || before.ends_with("=>")
    })
}

fn public_fields(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let bodies = words(code, "struct").filter_map(|begin| {
        let end = body_end(code, begin).or_else(|| Some(begin + code.get(begin..)?.find(';')?))?;
        Some((begin, code.get(begin..end)?))
    });
    let public = bodies.flat_map(|(begin, body)| {
        let plain =
            words(body, "pub").filter(|at| body.get(at + 3..).is_some_and(|rest| rest.starts_with(' ')));
        plain.map(move |at| begin + at)
    });
    let what = "a permit's fields must be private: write a method that shows what has to be seen";
    public.map(|at| source.finding(line_at(code, at), what)).collect()
}

fn outside(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut is_std_list = false;
    for (number, line) in source.code_lines() {
        found.extend(OUTSIDE.iter().filter(|word| line.contains(**word)).map(|word| (number, *word)));
        // `use std::{…}` lists modules without the prefix `std::`.
        let list = line.split_once("std::{").map(|(_, list)| list).or(is_std_list.then_some(line));
        if let Some(list) = list {
            let is_listed = |word: &&&str| {
                let module = word.strip_prefix("std::");
                module.is_some_and(|module| list.split(|c| !is_word(c)).any(|part| part == module))
            };
            found.extend(OUTSIDE.iter().filter(is_listed).map(|word| (number, *word)));
            is_std_list = !list.contains(';');
        }
    }
    let what = |word| {
        format!(
            "`{word}`: doors and facts must not do I/O, wait or read a clock; take the value as an argument"
        )
    };
    found.into_iter().map(|(number, word)| source.finding(number, what(word))).collect()
}

#[cfg(test)]
mod tests;
