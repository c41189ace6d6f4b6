//! Every door has the same rooms, makes its permit in one place, and does no I/O.

use super::{Finding, Source};

/// Folder and permit of the doors that decide.
const DOORS: [(&str, &str); 4] = [
    ("crates/door-1-tls", "TlsPermit"),
    ("crates/door-2-identity", "IdentityPermit"),
    ("crates/door-3-datastore", "DatastorePermit"),
    ("crates/door-4-access", "AccessPermit"),
];

const ROOMS: [&str; 6] = ["ask", "view", "open", "permit", "refuse", "memo"];

/// What a door or the facts must not do (invariants F1 and D1).
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

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for (folder, permit) in DOORS {
        let of_door: Vec<&Source> = sources.iter().filter(|source| source.path.starts_with(folder)).collect();
        findings.extend(rooms(folder, &of_door));
        findings.extend(permits(folder, permit, &of_door));
    }
    let inside = |source: &&Source| {
        source.path.starts_with("crates/facts/src")
            || DOORS.iter().any(|(folder, _)| source.path.starts_with(&format!("{folder}/src")))
    };
    for source in sources.iter().filter(inside) {
        for (number, line) in source.code() {
            let code = line.split("//").next().unwrap_or_default();
            findings.extend(OUTSIDE.iter().filter(|word| code.contains(**word)).map(|word| {
                source.finding(
                    number,
                    format!("`{word}`: doors and facts do no I/O, wait for nothing and read no clock"),
                )
            }));
        }
    }
}

fn rooms(folder: &str, of_door: &[&Source]) -> Vec<Finding> {
    let missing = |what: String| Finding { path: folder.to_owned(), line: 0, what };
    let find = |name: &str| of_door.iter().find(|source| source.path == format!("{folder}/{name}"));
    let mut findings = Vec::new();
    for room in ROOMS {
        let excused =
            room == "memo" && find("src/lib.rs").is_some_and(|source| source.text.contains("no memo:"));
        if find(&format!("src/{room}.rs")).is_none() && !excused {
            findings.push(missing(format!("there is no src/{room}.rs: every door has the same rooms")));
        }
    }
    match find("README.md") {
        Some(page) if page.text.lines().count() <= 12 => {}
        _ => findings.push(missing(
            "expected a README.md of at most 12 lines: asks, reads, grants, refuses, memoises".into(),
        )),
    }
    findings
}

/// Private fields, and one place where they are filled (invariant D2).
fn permits(folder: &str, permit: &str, of_door: &[&Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut made = Vec::new();
    for source in of_door.iter().filter(|source| source.path.ends_with(".rs")) {
        for (number, line) in source.code() {
            let code = line.split("//").next().unwrap_or_default();
            if source.path.ends_with("/permit.rs")
                && code.starts_with("    pub ")
                && code.trim_end().ends_with(',')
            {
                findings.push(source.finding(number, "a permit's fields are private"));
            }
            let literal = format!("{permit} {{");
            let is_definition = ["struct ", "impl ", "for ", "-> "]
                .iter()
                .any(|word| code.contains(&format!("{word}{literal}")));
            if code.contains(&literal) && !is_definition {
                made.push(source.finding(number, format!("`{permit}` is made here")));
            }
        }
    }
    if made.len() != 1 || made.iter().any(|place| !place.path.ends_with("/open.rs")) {
        let what =
            format!("`{permit}` is made in {} places, expected one, in open.rs (invariant D2)", made.len());
        findings.push(Finding { path: folder.to_owned(), line: 0, what });
        findings.extend(made);
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
    fn one_permit_in_one_place() {
        let permit = source("d/src/permit.rs", "pub struct P {\n    pub(crate) a: u8,\n}\nimpl P {\n");
        let open = source("d/src/open.rs", "fn open() -> P {\n    Ok(P { a: 1 })\n}\n");
        let twice = source("d/src/other.rs", "    let p = P { a: 2 };\n");
        assert!(permits("d", "P", &[&permit, &open]).is_empty());
        assert_eq!(permits("d", "P", &[&permit, &open, &twice]).len(), 3);
        assert_eq!(permits("d", "P", &[&permit]).len(), 1);
        let public = source("d/src/permit.rs", "pub struct P {\n    pub a: u8,\n}\n");
        assert_eq!(permits("d", "P", &[&public, &open]).len(), 1);
    }

    #[test]
    fn doors_without_rooms_and_with_clocks() {
        let mut findings = Vec::new();
        check(
            &[source("crates/door-2-identity/src/open.rs", "let now = SystemTime::now();\n")],
            &mut findings,
        );
        let about = |word: &str| findings.iter().filter(|finding| finding.what.contains(word)).count();
        assert_eq!(about("SystemTime::now"), 1);
        assert!(about("there is no src/ask.rs") == 4 && about("README.md") == 4, "{findings:?}");
    }
}
