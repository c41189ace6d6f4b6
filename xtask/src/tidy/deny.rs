//! Checks for each library in `deny.toml` that this file and the table of libraries (`edges.rs`) allow it in the same crates.

use super::edges::crates_that_know;
use super::{Finding, Source};
use toml::{Table, Value};

const PAGE: &str = "deny.toml";

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    match sources.iter().find(|source| source.path == PAGE) {
        Some(source) => findings.extend(check_bans(source)),
        None => findings.push(Finding {
            path: PAGE.into(),
            line: 0,
            what: "the file is missing: write it".into(),
        }),
    }
}

fn check_bans(source: &Source) -> Vec<Finding> {
    let page: Table = match source.text.parse() {
        Ok(page) => page,
        Err(why) => return vec![source.finding(0, format!("the page cannot be read: {why}"))],
    };
    let bans = page.get("bans").and_then(|bans| bans.get("deny")).and_then(Value::as_array);
    let mut findings = Vec::new();
    for ban in bans.into_iter().flatten() {
        let name = ban.get("crate").and_then(Value::as_str).unwrap_or_default();
        // If a ban has no wrappers, no crate may use the library. Wrappers that are not crates of this workspace do not count.
        let wrappers = ban.get("wrappers").and_then(Value::as_array).into_iter().flatten();
        let mut here: Vec<&str> =
            wrappers.filter_map(Value::as_str).filter(|name| is_of_house(name)).collect();
        let mut there: Vec<&str> = crates_that_know(name).unwrap_or_default().to_vec();
        here.sort_unstable();
        there.sort_unstable();
        if here != there {
            let line = source
                .text
                .lines()
                .position(|line| line.contains(&format!("\"{name}\"")))
                .map_or(0, |at| at + 1);
            let what = format!(
                "`{name}` is known by [{}] here and by [{}] in xtask/src/tidy/edges.rs: make them the same",
                here.join(", "),
                there.join(", ")
            );
            findings.push(source.finding(line, what));
        }
    }
    findings
}

fn is_of_house(name: &str) -> bool {
    name == "xtask" || name.starts_with("enfilade")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ban: &str) -> usize {
        let mut findings = Vec::new();
        check(&[Source::new(PAGE, format!("[bans]\ndeny = [\n    {ban},\n]\n"))], &mut findings);
        findings.len()
    }

    #[test]
    fn both_say_the_same() {
        assert_eq!(found("{ crate = \"heed\", wrappers = [\"enfilade-sources\"] }"), 0);
        assert_eq!(
            found(
                "{ crate = \"siphasher\", wrappers = [\"phf_shared\", \"enfilade-facts\", \"enfilade-fleet\"] }"
            ),
            0
        );
        assert_eq!(found("{ crate = \"heed\", wrappers = [\"enfilade-sources\", \"enfilade\"] }"), 1);
        assert_eq!(found("{ crate = \"heed\" }"), 1);
        assert_eq!(found("{ crate = \"openssl-sys\" }"), 0);
        assert_eq!(found("= ="), 1);
        let mut findings = Vec::new();
        check(&[], &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
