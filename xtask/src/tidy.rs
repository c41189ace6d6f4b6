//! Tidy: rules of the repository that the compiler does not check. Each finding says what to do instead.

pub(crate) mod source;
mod rust_text;
mod edges;
mod deny;
mod lints;
mod names;
mod words;
mod retired;
mod sizes;
mod doors;
mod routes;
mod imports;
mod circles;
mod pages;
mod figures;

use source::Source;
use std::fmt;
use std::path::Path;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The path of the file from the repository's root.
    pub path: String,
    /// The line, from 1; 0 if the finding is about the whole file.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// All places that break a rule.
pub fn check(root: &Path) -> Vec<Finding> {
    let sources = source::read(root);
    let mut findings = Vec::new();
    edges::check(&sources, &mut findings);
    deny::check(&sources, &mut findings);
    lints::check(&sources, &mut findings);
    names::check(&sources, &mut findings);
    words::check(&sources, &mut findings);
    retired::check(&sources, &mut findings);
    sizes::check(&sources, &mut findings);
    doors::check(&sources, &mut findings);
    routes::check(&sources, &mut findings);
    circles::check(&sources, &mut findings);
    pages::check(root, &sources, &mut findings);
    figures::check(root, &sources, &mut findings);
    findings.sort();
    findings
}

/// The lengths of the files and functions of the product, as text.
pub fn sizes(root: &Path) -> String {
    sizes::report(&source::read(root))
}
