//! The repository's text files, as the rules read them.

use super::Finding;
use super::rust_text::{blanked, test_lines, test_modules};
use std::path::Path;

const KINDS: [&str; 7] = ["rs", "md", "toml", "sh", "py", "world", "run"];

/// Directories that are not read: build output, and git's own files.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// A text file of the repository.
pub(crate) struct Source {
    /// The path from the repository's root.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text without comments and literals if the file is Rust, else the text.
    pub(crate) code: String,
    /// Whether the whole file is for tests only.
    is_test: bool,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Source {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { blanked(&text) } else { text.clone() };
        let is_test = path.contains("/tests/") || path.starts_with("interop/");
        Source { path, text, code, is_test }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }

    /// The lines of [`Source::code`] with their numbers from 1, without the lines that are for tests only.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let flags = test_lines(&self.code);
        let lines = self.code.lines().enumerate().zip(flags);
        lines.filter_map(|((index, line), is_test)| (!self.is_test && !is_test).then_some((index + 1, line)))
    }

    /// The number of lines, without the block of tests.
    pub(crate) fn length(&self) -> usize {
        test_lines(&self.code).iter().filter(|is_test| !**is_test).count()
    }
}

/// Every text file of the repository.
pub(crate) fn read(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    walk(root, Path::new(""), &mut sources);
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    mark_tests(&mut sources);
    sources
}

fn walk(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        // The type is the type of the entry itself. A link is not followed, because it may lead out of the tree or into a loop.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) => {
                walk(root, &path, sources);
            }
            Ok(kind) if kind.is_file() => sources.extend(read_file(root, &path)),
            _ => {}
        }
    }
}

fn read_file(root: &Path, path: &Path) -> Option<Source> {
    let kind = path.extension().or_else(|| path.file_name())?.to_str()?;
    let text = KINDS.contains(&kind).then(|| std::fs::read_to_string(root.join(path)))?.ok()?;
    Some(Source::new(path.to_string_lossy(), text))
}

/// Marks each file as a test that another file declares by `#[cfg(test)] mod …;`. Also marks the files of the modules below such a file.
pub(super) fn mark_tests(sources: &mut [Source]) {
    let mut tests = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
        let below = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder,
            _ => source.path.trim_end_matches(".rs"),
        };
        tests.extend(test_modules(&source.code).iter().map(|name| format!("{below}/{name}")));
    }
    for source in sources {
        let rest = tests.iter().filter_map(|test| source.path.strip_prefix(test.as_str()));
        source.is_test |= rest.into_iter().any(|rest| rest == ".rs" || rest.starts_with('/'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_tests_are_those_declared_so() {
        let mut sources = [
            Source::new("c/src/lib.rs", "#[cfg(test)]\nmod reference;\nmod open;\n"),
            Source::new("c/src/reference.rs", "x\n"),
            Source::new("c/src/open.rs", "#[cfg(test)]\nmod deep;\nx\n#[cfg(test)]\nmod tests {\n}\ny\n"),
            Source::new("c/src/open/deep/a.rs", "x\n"),
            Source::new("d/src/reference.rs", "x\n"),
        ];
        mark_tests(&mut sources);
        assert_eq!(sources.each_ref().map(|source| source.is_test), [false, true, false, true, false]);
        assert_eq!(sources[1].code_lines().count(), 0);
        assert_eq!(sources[2].code_lines().last(), Some((7, "y")));
        assert_eq!(sources[1].length(), 1);
    }

    #[test]
    fn a_tree_is_read_but_for_what_is_built() {
        let root = std::env::temp_dir().join(format!("xtask-source-{}", std::process::id()));
        for file in ["a.md", "new/folder/b.rs", "target/c.rs", "new/target/d.rs", "e.bin", ".ci/run"] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x\n").unwrap();
        }
        let paths: Vec<String> = read(&root).into_iter().map(|source| source.path).collect();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(paths, [".ci/run", "a.md", "new/folder/b.rs"]);
    }
}
