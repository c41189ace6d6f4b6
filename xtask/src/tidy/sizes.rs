//! Files and functions that have grown too long to be read in one go.

use super::rust_text::{functions, line_at};
use super::{Finding, Source};
use std::collections::HashSet;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 90;

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is_rust()) {
        let lines = source.length();
        if FILE_LINES_MAX < lines {
            let what = format!("{lines} lines, at most {FILE_LINES_MAX}: make two rooms of it");
            findings.push(source.finding(0, what));
        }
        // A test is read from top to bottom, like the table it often is.
        let code: HashSet<usize> = source.code_lines().map(|(number, _)| number).collect();
        for function in functions(&source.code) {
            let first = line_at(&source.code, function.begin);
            if !code.contains(&first) {
                continue;
            }
            let lines = line_at(&source.code, function.end) - first + 1;
            if FUNCTION_LINES_MAX < lines {
                let name = function.name;
                let what = format!(
                    "`{name}` is a function of {lines} lines, at most {FUNCTION_LINES_MAX}: name its parts"
                );
                findings.push(source.finding(first, what));
            }
        }
    }
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
