//! The pages of the documentation exist and are true.

use super::{Finding, Source};
use std::fmt::Write as _;
use std::path::Path;

/// What a page has to be, of the repository.
pub type Page = fn(&Path) -> Result<String, String>;

/// The pages that are written from what the code says, and by what.
pub const WRITTEN: [(&str, Page); 3] =
    [("docs/refusals.md", refusals_page), ("docs/limits.md", limits_page), ("docs/endings.md", endings_page)];

const PAGES: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];
const INVARIANTS: [&str; 16] =
    ["F1", "F2", "F3", "D1", "D2", "D3", "D4", "D5", "E1", "E2", "E3", "S1", "S2", "S3", "S4", "S5"];
const ARCHITECTURE_LINES_MAX: usize = 300;

/// The doors' tables of refusals, in the order of the walk.
const TABLES: [(&str, &str); 5] = [
    ("TLS", "crates/door-1-tls/src/refuse.rs"),
    ("Identity", "crates/door-2-identity/src/refuse.rs"),
    ("Datastore", "crates/door-3-datastore/src/refuse.rs"),
    ("Access", "crates/door-4-access/src/refuse.rs"),
    ("Content", "crates/door-5-content/src/refuse.rs"),
];

pub(super) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) {
    let missing = PAGES.iter().filter(|page| !root.join(page).is_file());
    findings.extend(missing.map(|page| Finding {
        path: (*page).into(),
        line: 0,
        what: "the page is not there: write it".into(),
    }));
    if let Some(map) = sources.iter().find(|source| source.path == "ARCHITECTURE.md") {
        let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
        findings.extend(check_map(map, crates.map(|entry| entry.file_name().to_string_lossy().into_owned())));
    }
    for (path, written) in WRITTEN {
        let page = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let what = match written(root) {
            Ok(expected) if expected == page => continue,
            Ok(_) => "what it is written from changed; run `cargo xtask pages`".into(),
            Err(what) => what,
        };
        findings.push(Finding { path: path.into(), line: 0, what });
    }
}

fn check_map(map: &Source, crates: impl Iterator<Item = String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = map.text.lines().count();
    if ARCHITECTURE_LINES_MAX < lines {
        let what = format!("{lines} lines, at most {ARCHITECTURE_LINES_MAX}: move what is no map to docs/");
        findings.push(map.finding(0, what));
    }
    let names = crates.map(|name| format!("`crates/{name}`"));
    let wanted = names.chain(INVARIANTS.iter().map(|id| format!("**{id}**")));
    let missing = wanted.filter(|word| !map.text.contains(word));
    findings.extend(missing.map(|word| map.finding(0, format!("{word} is not on the map: put it there"))));
    findings
}

/// What the page has to be.
///
/// # Errors
/// When a door's table cannot be found.
fn refusals_page(root: &Path) -> Result<String, String> {
    let mut page = String::from(
        "# Refusals\n\nEvery refusal has a stable code: two letters of the door and two digits. The log and `enfilade explain` say \
         more; the client learns the status only.\n\nWritten by `cargo xtask pages` from the doors' own tables.\n",
    );
    for (door, path) in TABLES {
        let text = std::fs::read_to_string(root.join(path)).map_err(|why| format!("`{path}`: {why}"))?;
        let rows = rows(&text);
        if rows.is_empty() {
            return Err(format!("`{path}` has no table `CODES`"));
        }
        let _ = write!(page, "\n## {door}\n\n| code | fault | meaning |\n|---|---|---|\n");
        for (code, fault, meaning) in rows {
            let _ = writeln!(page, "| {code} | {fault} | {meaning} |");
        }
    }
    Ok(page)
}

/// What the page has to be.
///
/// # Errors
/// When the table of limits cannot be found.
fn limits_page(root: &Path) -> Result<String, String> {
    let path = "crates/facts/src/limits/settable.rs";
    let text = std::fs::read_to_string(root.join(path)).map_err(|why| format!("`{path}`: {why}"))?;
    let mut page = String::from(
        "# Limits\n\nAll of these hold unless `[limits]` of `enfilade.toml` (or `ENFILADE_LIMITS__<KEY>` in the environment) says otherwise; \
         a change is obeyed after a restart. A number that is of no use is an error that says what is expected.\n\n\
         ```toml\n[limits]\nlisting_entries = 200000\nlocks_per_user = 100\n```\n\n\
         Written by `cargo xtask pages` from the table in the code.\n\n| key | usually | least to most | bounds |\n|---|---|---|---|\n",
    );
    let table = text.split("\nlimits! {").nth(1).and_then(|rest| rest.split("\n}").next());
    let table = table.ok_or_else(|| format!("`{path}` has no table `limits!`"))?;
    let mut what = "";
    for line in table.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("/// ") {
            what = said;
        } else if let Some((key, numbers)) = line.split_once(" = ") {
            let numbers: Vec<String> = numbers.trim_end_matches(';').split(", ").map(plain_number).collect();
            let [usual, least, most] = numbers.as_slice() else {
                return Err(format!("`{path}`: expected three numbers for `{key}`"));
            };
            let _ = writeln!(page, "| `{key}` | {usual} | {least} to {most} | {what} |");
        }
    }
    page.push_str(&fixed_limits(root)?);
    Ok(page)
}

/// Limits of the store of facts that nobody can set, in the order of the page.
const FIXED: [&str; 5] = [
    "MAP_PERCENT_MAX",
    "MAP_PERCENT_OF_USERS_MAX",
    "COMPACT_WORTH_BYTES_MIN",
    "UPGRADE_AT_START_RECORDS_MAX",
    "REVOCATIONS_INDEXED_MAX",
];

fn fixed_limits(root: &Path) -> Result<String, String> {
    let path = "crates/facts/src/limits.rs";
    let text = std::fs::read_to_string(root.join(path)).map_err(|why| format!("`{path}`: {why}"))?;
    let mut page = String::from(
        "\n## Limits of the store of facts\n\nThese cannot be set. How far the store may grow can be: `[facts] map_mebibytes` \
         ([backup.md](backup.md#when-the-store-is-nearly-full)).\n\n| limit | is | bounds |\n|---|---|---|\n",
    );
    for name in FIXED {
        let (before, after) = text
            .split_once(&format!("pub const {name}: "))
            .ok_or_else(|| format!("`{path}` has no constant `{name}`"))?;
        let number = after.split_once(" = ").and_then(|(_, rest)| rest.split_once(';'));
        let number = plain_number(number.ok_or_else(|| format!("`{path}`: `{name}` has no value"))?.0);
        let mut said: Vec<&str> = before.lines().rev().map_while(|line| line.strip_prefix("/// ")).collect();
        said.reverse();
        let _ = writeln!(page, "| `{name}` | {number} | {} |", said.join(" "));
    }
    Ok(page)
}

/// What the page has to be.
///
/// # Errors
/// When the table of endings cannot be found.
fn endings_page(root: &Path) -> Result<String, String> {
    let path = "crates/facts/src/tables/endings.rs";
    let text = std::fs::read_to_string(root.join(path)).map_err(|why| format!("`{path}`: {why}"))?;
    let table = text.split("pub const ENDINGS").nth(1).and_then(|rest| rest.split("];\n").next());
    let table = table.ok_or_else(|| format!("`{path}` has no table `ENDINGS`"))?;
    let mut page = String::from(
        "# What ends sessions\n\nEach of these changes ends what it says in its own commit: the next request obeys, and so does a download that runs. \
         A session that ended stays over when the change is undone, and when the same right is given in another way: directly, by another group, \
         by another role, from above. A new session has it.\n\n\
         Roles on paths and ACLs of files are different: no session rests on them. They are judged at every request, so a change of them is \
         obeyed at once, ends nothing, and is good again for everybody once it is undone.\n\n\
         Written by `cargo xtask pages` from the table in the code, of which a test takes every step.\n\n\
         | when | it ends | Keystone 30 |\n|---|---|---|\n",
    );
    let words: Vec<&str> = table.split('"').skip(1).step_by(2).collect();
    for row in words.chunks(3) {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
    Ok(page)
}

/// Writes `32 * 1024` and named constants as a number with separated thousands.
fn plain_number(text: &str) -> String {
    let factor = |factor: &str| match factor {
        "HOUR" => Some(3600),
        "MIB" => Some(1 << 20),
        "MANY" => Some(1_000_000_000),
        digits => digits.replace('_', "").parse::<u64>().ok(),
    };
    let Some(number) = text.split(" * ").map(factor).product::<Option<u64>>() else { return text.to_owned() };
    let digits = number.to_string();
    let mut apart = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

/// The rows `("ID01", Fault::Client, "meaning")` of a table, however they are broken into lines.
fn rows(text: &str) -> Vec<(String, String, String)> {
    let table =
        text.split("pub const CODES").nth(1).unwrap_or_default().split("];").next().unwrap_or_default();
    let joined: String = table.lines().map(str::trim).collect();
    let entries = joined.split("(\"").skip(1);
    let row = |entry: &str| {
        let mut strings = entry.split('"');
        let code = strings.next()?.to_owned();
        let fault = strings.next()?.split("Fault::").nth(1)?.trim_matches([',', ' ']).to_lowercase();
        Some((code, fault, strings.next()?.to_owned()))
    };
    entries.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_table() {
        let text = "pub const CODES: [(&str, Fault, &str); 2] = [\n    (\"A1\", Fault::Client, \"one\"),\n    (\n        \"A2\",\n        Fault::Source,\n        \"two\",\n    ),\n];\n";
        let expected = [("A1", "client", "one"), ("A2", "source", "two")];
        assert_eq!(rows(text), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    }

    #[test]
    fn the_map_is_true_and_short() {
        let ids: String = INVARIANTS.iter().map(|id| format!("**{id}** ")).collect();
        let found = |text: &str| {
            check_map(&Source::new("ARCHITECTURE.md", text), ["facts".to_owned()].into_iter()).len()
        };
        let map = format!("`crates/facts` {ids}");
        assert_eq!(found(&map), 0);
        assert_eq!(found(&ids), 1);
        assert_eq!(found(&map.replace("**D4**", "D4")), 1);
        assert_eq!(found(&format!("{map}{}", "\n".repeat(300))), 0);
        assert_eq!(found(&format!("{map}{}", "\n".repeat(301))), 1);
    }

    #[test]
    fn pages_that_are_not_there() {
        let mut findings = Vec::new();
        check(Path::new("no/such/folder"), &[], &mut findings);
        for page in PAGES.iter().chain(WRITTEN.iter().map(|(page, _)| page)) {
            assert_eq!(findings.iter().filter(|finding| finding.path == *page).count(), 1, "{page}");
        }
    }
}
