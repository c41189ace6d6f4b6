//! Whether each record is as it was when it was first committed.

use super::{RUNS, git};
use std::collections::BTreeMap;
use std::path::Path;

/// The commit since which records must stay unchanged. Before this commit, a run overwrote the older records of the same benchmark.
pub(crate) const SINCE: &str = "509733fdace6b436e5781920067b94ac31b1eacc";

/// The result of the comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The paths of the records that were changed or removed after their first commit.
    pub(crate) changed: Vec<String>,
    /// Which changes the history of this directory does not show, and why. `None` if it shows all changes.
    pub(crate) unknown: Option<String>,
}

/// Compares each record with its content in the commit that added it. A record that existed in the commit `since` must be as it was in `since`.
pub(crate) fn compare(root: &Path, since: &str) -> Kept {
    let Some(shallow) = git(root, &["rev-parse", "--is-shallow-repository"]) else {
        let unknown = "there is no git repository, so no record can be compared with its commit".to_owned();
        return Kept { changed: Vec::new(), unknown: Some(unknown) };
    };
    let mut first = BTreeMap::new();
    let has_since = git(root, &["merge-base", "--is-ancestor", since, "HEAD"]).is_some();
    if has_since {
        let listed = git(root, &["ls-tree", "-r", since, "--", RUNS]).unwrap_or_default();
        first.extend(listed.lines().filter_map(|line| {
            let (object, path) = line.split_once('\t')?;
            Some((path.to_owned(), object.split(' ').nth(2)?.to_owned()))
        }));
    }
    let range = if has_since { format!("{since}..HEAD") } else { "HEAD".to_owned() };
    let log = ["log", "--reverse", "--topo-order", "-m", "--no-renames", "--diff-filter=A", "--raw"];
    let added = [log.as_slice(), &["--no-abbrev", "--format=", &range, "--", RUNS]].concat();
    for line in git(root, &added).unwrap_or_default().lines() {
        let object = line.split_once('\t').and_then(|(before, path)| Some((path, before.split(' ').nth(3)?)));
        if let Some((path, object)) = object {
            first.entry(path.to_owned()).or_insert_with(|| object.to_owned());
        }
    }
    let there: Vec<&str> =
        first.keys().map(String::as_str).filter(|path| root.join(path).is_file()).collect();
    let hash = [["hash-object", "--"].as_slice(), &there].concat();
    let now = if there.is_empty() { String::new() } else { git(root, &hash).unwrap_or_default() };
    let now: BTreeMap<&str, &str> = there.iter().copied().zip(now.lines()).collect();
    let is_changed = |(path, object): (&String, &String)| {
        (now.get(path.as_str()) != Some(&object.as_str())).then(|| path.clone())
    };
    // The oldest commit of a shallow clone looks as if it had added all of its records.
    let is_shallow = shallow.trim() != "false" && !has_since;
    let unknown = is_shallow.then(|| {
        "this clone is shallow: a record that was changed before the oldest commit of the clone is not found; `git fetch --unshallow` gets the history"
            .to_owned()
    });
    Kept { changed: first.iter().filter_map(is_changed).collect(), unknown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    const RECORD: &str = "bench/runs/2026-11-20-try-abc1234.json";

    /// A new repository with one record.
    fn repository(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("xtask-kept-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join(RUNS)).unwrap();
        run(&root, &["init", "--quiet"]);
        fs::write(root.join(RECORD), "{\"value\": 1}").unwrap();
        commit(&root);
        root
    }

    fn run(root: &Path, words: &[&str]) {
        let named = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let status = Command::new("git").args(named).args(words).current_dir(root).status().unwrap();
        assert!(status.success(), "git {words:?}");
    }

    fn commit(root: &Path) {
        run(root, &["add", "--all"]);
        run(root, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
    }

    fn changed(root: &Path) -> Vec<String> {
        let kept = compare(root, SINCE);
        assert_eq!(kept.unknown, None);
        kept.changed
    }

    #[test]
    fn a_record_that_was_changed_in_a_later_commit_is_found() {
        let root = repository("changed");
        assert!(changed(&root).is_empty());
        fs::write(root.join("bench/runs/other.json"), "{}").unwrap();
        fs::write(root.join(RECORD), "{\"value\": 2}").unwrap();
        assert_eq!(changed(&root), [RECORD]);
        commit(&root);
        assert_eq!(changed(&root), [RECORD]);
        fs::write(root.join(RECORD), "{\"value\": 1}").unwrap();
        assert!(changed(&root).is_empty());
        fs::rename(root.join(RECORD), root.join("bench/runs/renamed.json")).unwrap();
        commit(&root);
        assert_eq!(changed(&root), [RECORD]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn records_that_were_changed_before_the_rule_are_compared_with_its_commit() {
        let root = repository("since");
        fs::write(root.join(RECORD), "{\"value\": 2}").unwrap();
        commit(&root);
        let since = git(&root, &["rev-parse", "HEAD"]).unwrap().trim().to_owned();
        commit(&root);
        assert_eq!(compare(&root, &since), Kept::default());
        fs::write(root.join(RECORD), "{\"value\": 1}").unwrap();
        commit(&root);
        assert_eq!(compare(&root, &since).changed, [RECORD]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_shallow_clone_finds_changes_after_its_first_commit_and_says_so() {
        let root = repository("deep");
        commit(&root);
        let shallow = root.with_extension("shallow");
        let (from, to) = (format!("file://{}", root.display()), shallow.display().to_string());
        run(&root, &["clone", "--quiet", "--depth", "1", &from, &to]);
        let kept = compare(&shallow, SINCE);
        assert!(kept.changed.is_empty() && kept.unknown.unwrap().contains("git fetch --unshallow"));
        fs::write(shallow.join(RECORD), "{\"value\": 2}").unwrap();
        commit(&shallow);
        assert_eq!(compare(&shallow, SINCE).changed, [RECORD]);
        fs::remove_dir_all(&root).unwrap();
        fs::remove_dir_all(&shallow).unwrap();
    }
}
