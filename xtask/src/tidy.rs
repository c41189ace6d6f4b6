//! Tidy: rules about the house that the compiler does not know. Each says what to do instead.

mod doors;
mod edges;
mod files;
mod pages;
mod routes;

pub use pages::{REFUSALS_PAGE, refusals_page};

use std::fmt;
use std::path::Path;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the repository's root.
    pub path: String,
    /// The line, from 1; 0 where it is about the whole file.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A text file of the repository.
pub(crate) struct Source {
    /// From the repository's root.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }

    /// Its lines up to the tests at its end, numbered from 1.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = ["/tests/", "/tests.rs", "/reference.rs", "/scratch.rs"]
            .iter()
            .any(|part| self.path.contains(part));
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.take_while(move |(_, line)| !is_test && !line.starts_with("mod tests {"))
    }
}

/// Everything that breaks a rule.
pub fn check(root: &Path) -> Vec<Finding> {
    let sources = files::read(root);
    let mut findings = Vec::new();
    edges::check(&sources, &mut findings);
    files::check(&sources, &mut findings);
    doors::check(&sources, &mut findings);
    routes::check(&sources, &mut findings);
    pages::check(root, &sources, &mut findings);
    findings.sort();
    findings
}
