//! Checks that every crate has the workspace's lints, or gives the reason why not.

use super::{Finding, Source};
use toml::{Table, Value};

/// The crates that do not inherit the workspace's lints, each with its level of `unsafe_code`. `sources` opens LMDB, maps files, uses io_uring and
/// handles signals. `enfilade` sets options of the C library's allocator, and makes a system call that no library wraps. `bench` compares two ways to
/// use io_uring. `preload` is loaded between a program and the C library. `xattrat` makes a system call with pointers.
const EXCUSED: [(&str, &str); 5] = [
    ("crates/sources/Cargo.toml", "deny"),
    ("crates/enfilade/Cargo.toml", "deny"),
    ("bench/Cargo.toml", "deny"),
    ("crates/testkit/preload/Cargo.toml", "allow"),
    ("crates/xattrat/Cargo.toml", "deny"),
];

/// The only lint that may be weaker in the tables of these crates than in the workspace's.
const RELAXED: (&str, &str) = ("rust", "unsafe_code");

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let workspace = sources.iter().find(|source| source.path == "Cargo.toml").and_then(lints_of_workspace);
    for source in sources.iter().filter(|source| source.path.ends_with("/Cargo.toml")) {
        findings.extend(check_manifest(source, workspace.as_ref()));
    }
}

fn lints_of_workspace(source: &Source) -> Option<Table> {
    let manifest: Table = source.text.parse().ok()?;
    manifest.get("workspace")?.get("lints")?.as_table().cloned()
}

fn check_manifest(source: &Source, workspace: Option<&Table>) -> Option<Finding> {
    let manifest: Table = source.text.parse().ok()?;
    let lints = manifest.get("lints").and_then(Value::as_table);
    if lints.and_then(|lints| lints.get("workspace")).and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let Some((_, relaxed)) = EXCUSED.iter().find(|(path, _)| *path == source.path) else {
        return Some(source.finding(0, "the crate has no lints: write `[lints]` with `workspace = true`"));
    };
    let has_reason = source.text.lines().any(|line| line.starts_with('#') && line.contains("unsafe"));
    if !has_reason {
        return Some(source.finding(0, "the crate has lints of its own: say why in a comment (`unsafe`)"));
    }
    let lost = lost(lints, workspace, relaxed)?;
    Some(source.finding(0, format!("the workspace's lint `{lost}` is missing or has another level: add it")))
}

/// The first lint of the workspace that is missing in the crate's own table, or has another level there.
fn lost(own: Option<&Table>, workspace: Option<&Table>, relaxed: &str) -> Option<String> {
    let groups = workspace.into_iter().flatten();
    let all = groups.flat_map(|(group, lints)| {
        let lints = lints.as_table().into_iter().flatten();
        lints.map(move |(lint, level)| (group.as_str(), lint.as_str(), level))
    });
    let mut missing = all.filter(|(group, lint, level)| {
        let here = own.and_then(|own| own.get(*group)?.get(*lint));
        let is_relaxed = (*group, *lint) == RELAXED && here.and_then(Value::as_str) == Some(relaxed);
        here != Some(*level) && !is_relaxed
    });
    missing.next().map(|(_, lint, _)| lint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let workspace =
            "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n[workspace.lints.clippy]\ntodo = \"deny\"\n";
        let mut findings = Vec::new();
        check(&[Source::new("Cargo.toml", workspace), Source::new(path, text)], &mut findings);
        findings.len()
    }

    #[test]
    fn crates_opt_in() {
        for path in ["crates/x/Cargo.toml", "xtask/Cargo.toml", EXCUSED[0].0] {
            assert_eq!(found(path, "[lints]\nworkspace = true\n"), 0);
            assert_eq!(found(path, "[lints]\nworkspace = false\n"), 1);
            assert_eq!(found(path, "[package]\n"), 1);
        }
    }

    #[test]
    fn lints_of_ones_own_need_a_reason_and_lose_nothing() {
        let own = "[lints.rust]\nunsafe_code = \"deny\"\n[lints.clippy]\ntodo = \"deny\"\n";
        let excused = format!("# One unsafe call.\n{own}");
        assert_eq!(
            EXCUSED.map(|(path, level)| found(
                path,
                &excused.replace("\"deny\"\n[", &format!("\"{level}\"\n["))
            )),
            [0; EXCUSED.len()]
        );
        assert_eq!(found("crates/x/Cargo.toml", &excused), 1);
        assert_eq!(found(EXCUSED[0].0, own), 1);
        assert_eq!(found(EXCUSED[0].0, &excused.replace("todo = \"deny\"", "")), 1);
        assert_eq!(
            found(EXCUSED[0].0, &excused.replace("unsafe_code = \"deny\"", "unsafe_code = \"allow\"")),
            1
        );
    }
}
