//! Finds modules and files whose names do not describe a purpose, and crates without a comment that states their purpose.

use super::{Finding, Source};

/// Names that do not describe a purpose. A module with such a name collects unrelated code.
const FORBIDDEN: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "cache", "prelude"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        findings.extend(in_path(source));
        if source.is_rust() {
            findings.extend(in_modules(source));
            findings.extend(reason(source));
        }
    }
}

fn in_path(source: &Source) -> Option<Finding> {
    let mut parts = source.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let name = parts.find(|part| FORBIDDEN.contains(part))?;
    Some(source.finding(0, format!("`{name}` says nothing: name the file after what it is about")))
}

fn in_modules(source: &Source) -> Vec<Finding> {
    let lines = source.code.lines().enumerate();
    let modules = lines.filter_map(|(index, line)| {
        let mut words = line.split([' ', ';', '{']).filter(|word| !word.is_empty());
        words.find(|word| *word == "mod")?;
        Some((index + 1, words.next()?))
    });
    let wrong = modules.filter(|(_, name)| FORBIDDEN.contains(name));
    let what = |name| format!("`mod {name}` says nothing: name the module after what it is about");
    wrong.map(|(line, name)| source.finding(line, what(name))).collect()
}

fn reason(source: &Source) -> Option<Finding> {
    let is_root = source.path.ends_with("/lib.rs") || source.path.ends_with("/main.rs");
    let what = "a crate must begin with a `//!` line: write there the one reason why the crate exists";
    (is_root && !source.text.starts_with("//! ")).then(|| source.finding(1, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check(&[Source::new(path, text)], &mut findings);
        findings.len()
    }

    #[test]
    fn names() {
        for name in FORBIDDEN {
            assert_eq!(found(&format!("crates/x/src/{name}.rs"), ""), 1, "{name}");
            assert_eq!(found(&format!("crates/{name}/src/a.rs"), ""), 1, "{name}");
            assert_eq!(
                found("crates/x/src/a.rs", &format!("x\npub(crate) mod {name} {{\n}}\n")),
                1,
                "{name}"
            );
            assert_eq!(found("crates/x/src/a.rs", &format!("mod {name};\n")), 1, "{name}");
        }
        assert_eq!(found("crates/x/src/utility_model.rs", "// mod util;\nmod commons;\n"), 0);
    }

    #[test]
    fn a_crate_says_its_reason() {
        assert_eq!(found("crates/x/src/lib.rs", "//! What can be true.\n"), 0);
        assert_eq!(found("crates/x/src/lib.rs", "mod a;\n"), 1);
        assert_eq!(found("xtask/src/main.rs", "// a comment\n"), 1);
        assert_eq!(found("crates/x/src/other.rs", "mod a;\n"), 0);
    }
}
