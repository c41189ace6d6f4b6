//! Finds files and functions that are too long to be read at once.

use super::rust_text::{functions, line_at};
use super::{Finding, Source};
use std::collections::HashSet;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 90;

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is_rust()) {
        let lines = source.length();
        if FILE_LINES_MAX < lines {
            let what = format!("{lines} lines, at most {FILE_LINES_MAX}: make two files of it");
            findings.push(source.finding(0, what));
        }
        for (name, first, lines) in lengths(source).filter(|(.., lines)| FUNCTION_LINES_MAX < *lines) {
            let what =
                format!("`{name}` is a function of {lines} lines, at most {FUNCTION_LINES_MAX}: split it up");
            findings.push(source.finding(first, what));
        }
    }
}

/// The functions of a file: name, first line, number of lines. Functions of tests are left out: a long test is as easy to read as a table.
fn lengths(source: &Source) -> impl Iterator<Item = (&str, usize, usize)> {
    let code: HashSet<usize> = source.code_lines().map(|(number, _)| number).collect();
    functions(&source.code).into_iter().filter_map(move |function| {
        let first = line_at(&source.code, function.begin);
        let lines = line_at(&source.code, function.end) - first + 1;
        code.contains(&first).then_some((function.name, first, lines))
    })
}

/// The lengths of the files and functions of the product, as text: the median, the 90th percentile and the longest, in lines.
pub(super) fn report(sources: &[Source]) -> String {
    let product = || {
        let is_product =
            |source: &&Source| source.path.starts_with("crates/") && !source.path.contains("testkit");
        sources
            .iter()
            .filter(|source| source.is_rust() && source.code_lines().next().is_some())
            .filter(is_product)
    };
    let files = product().map(|source| (source.length(), source.path.as_str()));
    let functions = product().flat_map(lengths).map(|(name, _, lines)| (lines, name));
    format!("{}\n{}", summary("files", files.collect()), summary("functions", functions.collect()))
}

fn summary(what: &str, mut lengths: Vec<(usize, &str)>) -> String {
    lengths.sort_unstable();
    let at = |percent: usize| lengths.get(lengths.len() * percent / 100).map_or(0, |(lines, _)| *lines);
    let (longest, name) = lengths.last().copied().unwrap_or_default();
    format!(
        "{} {what}: median {}, 90th percentile {}, longest {longest} lines (`{name}`)",
        lengths.len(),
        at(50),
        at(90)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let mut findings = Vec::new();
        check(&[Source::new("x.rs", text)], &mut findings);
        findings.len()
    }

    #[test]
    fn the_report_leaves_tests_out() {
        let text = "fn one() {}\nfn two() {\n}\n#[cfg(test)]\nmod tests {\n    fn long() {\n\n\n\n    }\n}\n";
        let sources = ["crates/a/src/lib.rs", "xtask/src/lib.rs", "crates/a/tests/t.rs"];
        assert_eq!(
            report(&sources.map(|path| Source::new(path, text))),
            "1 files: median 3, 90th percentile 3, longest 3 lines (`crates/a/src/lib.rs`)\n\
            2 functions: median 2, 90th percentile 2, longest 2 lines (`two`)"
        );
    }

    #[test]
    fn long_files() {
        assert_eq!(found(&"// x\n".repeat(600)), 0);
        assert_eq!(found(&"// x\n".repeat(601)), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(601));
        assert_eq!(found(&tests), 0);
        assert_eq!(found(&format!("{tests}{}", "// x\n".repeat(601))), 1);
    }

    #[test]
    fn long_functions() {
        let function = |lines: usize| "    x();\n".repeat(lines - 2);
        for head in
            ["fn f() {", "    pub const fn f(&self) -> [u8; 2] {", "pub(in crate::a) async unsafe fn f() {"]
        {
            assert_eq!(found(&format!("{head}\n{}}}\n", function(90))), 0, "{head}");
            assert_eq!(found(&format!("{head}\n{}}}\n", function(91))), 1, "{head}");
        }
        let fooled = format!("fn f() {{\n    a(\"\n}}\n\");\n    b('}}'); // }}\n{}}}\n", function(91));
        assert_eq!(found(&fooled), 1);
        let long = format!("fn f() {{\n{}}}\n", function(91));
        assert_eq!(found(&format!("{long}{long}")), 2);
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{\n{long}}}\n{long}")), 1);
    }
}
