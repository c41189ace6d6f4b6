//! `cargo xtask site`: the documentation as pages with a search, made by mdBook. The chapters are the pages that docs/README.md lists, in its order.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The version of mdBook that is installed if mdBook is missing.
const MDBOOK: &str = "0.5.4";

/// Writes the site into `target/site/book`.
pub(crate) fn run() -> Result<(), String> {
    let (root, place) = (xtask::root(), xtask::root().join("target/site"));
    let failed = |why: std::io::Error| format!("`{}` cannot be written: {why}", place.display());
    if place.exists() {
        fs::remove_dir_all(&place).map_err(failed)?;
    }
    let source = place.join("src");
    fs::create_dir_all(&source).map_err(failed)?;
    let printed =
        Command::new("git").args(["ls-files"]).current_dir(&root).output().map_err(|why| why.to_string())?;
    let files = String::from_utf8_lossy(&printed.stdout).into_owned();
    // All pages keep their places, so that their links to each other stay right.
    for file in files.lines().filter(|file| is_of_site(file)) {
        let to = source.join(file);
        fs::create_dir_all(to.parent().unwrap_or(&source)).map_err(failed)?;
        fs::copy(root.join(file), to).map_err(failed)?;
    }
    let contents = fs::read_to_string(root.join("docs/README.md")).map_err(failed)?;
    fs::write(source.join("SUMMARY.md"), summary(&root, &contents)?).map_err(failed)?;
    let settings = "[book]\ntitle = \"Enfilade\"\nlanguage = \"en\"\n[output.html]\nno-section-label = true\n\
                    [output.html.search]\nlimit-results = 20\n";
    fs::write(place.join("book.toml"), settings).map_err(failed)?;
    let made = Command::new(mdbook()?).arg("build").arg(&place).status();
    match made.map_err(|why| format!("mdBook cannot be run: {why}"))? {
        status if status.success() => {
            println!("{}", place.join("book/docs/index.html").display());
            Ok(())
        }
        _ => Err("mdBook failed".to_owned()),
    }
}

fn is_of_site(file: &str) -> bool {
    let is_kind = [".md", ".svg", ".json", ".png"].iter().any(|end| file.ends_with(end));
    is_kind
        && !["bench/runs", "interop/", "crates/testkit", "xtask/"].iter().any(|place| file.starts_with(place))
}

/// The chapters for mdBook: each heading of the page is a part, and each link to a page a chapter.
fn summary(root: &Path, contents: &str) -> Result<String, String> {
    let mut summary = "# Enfilade\n\n[Documentation](docs/README.md)\n".to_owned();
    for line in contents.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            let _ = write!(summary, "\n# {part}\n\n");
        }
        // Only rows of tables are read, because the pages to which sentences link have rows, too.
        for link in line.split("](").skip(1).filter(|_| line.starts_with('|')) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.ends_with(".md") {
                let page = plain(&Path::new("docs").join(target));
                let _ = writeln!(summary, "- [{}]({})", title(root, &page)?, page.display());
            }
        }
    }
    Ok(summary)
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

/// The first heading of a page.
fn title(root: &Path, page: &Path) -> Result<String, String> {
    let failed = |why: std::io::Error| format!("`{}` cannot be read: {why}", page.display());
    let text = fs::read_to_string(root.join(page)).map_err(failed)?;
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.map(str::to_owned).ok_or_else(|| format!("`{}` has no heading", page.display()))
}

/// The path of mdBook: of the program in the search path, or of a program that is installed into `target`.
fn mdbook() -> Result<PathBuf, String> {
    if Command::new("mdbook").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok("mdbook".into());
    }
    let place = xtask::root().join("target/tools");
    let program = place.join("bin/mdbook");
    if !program.exists() {
        println!("==> cargo install mdbook {MDBOOK}");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut install = Command::new(cargo);
        install.args(["install", "--locked", "--no-default-features", "--features", "search", "--version"]);
        let status = install.args([MDBOOK, "mdbook", "--root"]).arg(&place).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(
                "mdBook cannot be installed: install it yourself, and put it into the search path".to_owned()
            );
        }
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::{plain, summary};
    use std::path::Path;

    #[test]
    fn every_page_of_docs_is_a_chapter_once() {
        let root = xtask::root();
        let contents = std::fs::read_to_string(root.join("docs/README.md")).unwrap();
        let summary = summary(&root, &contents).unwrap();
        for entry in std::fs::read_dir(root.join("docs")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                assert_eq!(summary.matches(&format!("(docs/{name})")).count(), 1, "{name}");
            }
        }
        assert!(summary.contains("](README.md)"), "{summary}");
        assert_eq!(plain(Path::new("docs/../README.md")), Path::new("README.md"));
    }
}
