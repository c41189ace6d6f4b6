//! Finds the files to which symbolic links lead, so that the server can watch these files, too.

use super::Listed;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links that are followed to resolve one path. The kernel has the same limit.
const LINKS_MAX: usize = 40;

/// For each symbolic link in these directories, returns the file to which the link leads, and all other links on the way to this file. Also returns
/// all links on the paths of the directories themselves. A link that is in one of the directories is in the result only if another link leads through
/// it.
pub fn links_of(directories: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let of = |directory: &PathBuf| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        steps(directory, links.map(|link| link.file_name()))
    };
    directories.iter().flat_map(of).collect()
}

impl Listed {
    /// The result of [`links_of`] for the listed directory. If the directory has changed, it is listed again.
    pub fn links(&self) -> BTreeSet<PathBuf> {
        match self.is_unchanged() {
            true => steps(&self.directory, self.links.iter().cloned()),
            false => links_of(&[self.directory.clone()].into()),
        }
    }
}

/// The result of [`links_of`] for a directory that has these links.
fn steps(directory: &Path, links: impl Iterator<Item = OsString>) -> BTreeSet<PathBuf> {
    let mut steps = BTreeSet::new();
    let Ok(absolute) = std::path::absolute(directory) else { return steps };
    follow(&absolute, true, &mut steps);
    let Ok(real) = std::fs::canonicalize(&absolute) else { return steps };
    for link in links.map(|name| real.join(name)) {
        let mut of_link = BTreeSet::new();
        follow(&link, false, &mut of_link);
        of_link.remove(&link);
        steps.extend(of_link);
    }
    steps
}

/// Adds to `steps` all links that are followed to resolve `path`. If there is at least one link, and `only_links` is false, the function also adds
/// the file to which `path` leads.
fn follow(path: &Path, only_links: bool, steps: &mut BTreeSet<PathBuf>) {
    let names = |path: &Path| -> Vec<OsString> {
        let name = |part: Component<'_>| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        };
        path.components().rev().filter_map(name).collect()
    };
    // `left` contains the names that must still be followed, in reverse order: the last name is followed next.
    let (mut at, mut left, mut links) = (PathBuf::from("/"), names(path), 0);
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(name);
        let Ok(target) = std::fs::read_link(&next) else {
            at = next;
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return;
        }
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(names(&target));
        steps.insert(next);
    }
    if !only_links && links > 0 {
        steps.insert(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_step_to_the_file_of_a_link() {
        let scratch = Scratch::new();
        let place = std::fs::canonicalize(scratch.path()).unwrap();
        let at = |name: &str| place.join(name);
        for directory in ["tls", "tls/..one", "archive"] {
            std::fs::create_dir(at(directory)).unwrap();
        }
        std::fs::write(at("tls/plain.pem"), "").unwrap();
        std::fs::write(at("archive/a1.pem"), "").unwrap();
        std::fs::write(at("tls/..one/k.pem"), "").unwrap();
        symlink("../archive/a.pem", at("tls/a.pem")).unwrap();
        symlink("a1.pem", at("archive/a.pem")).unwrap();
        symlink("..one", at("tls/..data")).unwrap();
        symlink("..data/k.pem", at("tls/k.pem")).unwrap();
        symlink(at("tls/loop.pem"), at("tls/loop.pem")).unwrap();
        symlink("tls", at("current")).unwrap();
        let of = |directory: &str| {
            let found = links_of(&[at(directory)].into());
            let listed = crate::files::certificates::list(&at(directory)).unwrap();
            assert!(listed.is_unchanged());
            assert_eq!(listed.links(), found);
            found
        };
        let expected = ["archive/a.pem", "archive/a1.pem", "tls/..data", "tls/..one/k.pem", "tls/..one"];
        assert_eq!(of("tls"), expected.map(at).into());
        assert_eq!(of("current"), [&expected[..], &["current"]].concat().into_iter().map(at).collect());
        assert_eq!(of("archive"), [at("archive/a1.pem")].into());
    }
}
