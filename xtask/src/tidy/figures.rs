//! Checks that the pages of benchmarks and campaigns agree with the records, that no record was changed, and that the goals that do not hold have
//! reasons. Each figure of speed in another document must be a figure of a record.

use super::{Finding, Source};
use crate::figures::record::{Record, read_all};
use crate::figures::{REASONS, RUNS, history, kept, reasons, reference, refusal, scoreboard, written};
use std::collections::BTreeSet;
use std::path::Path;

pub(super) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) {
    let of = |path: &str, what: String| Finding { path: path.to_owned(), line: 0, what };
    let (records, files) = match read_all(root).and_then(|records| Ok((records, written(root)?))) {
        Ok(read) => read,
        Err(why) => {
            return findings.push(of(RUNS, format!("a record or the list of goals cannot be read: {why}")));
        }
    };
    for (path, wanted) in files {
        if std::fs::read_to_string(root.join(&path)).ok().as_ref() != Some(&wanted) {
            findings.push(of(
                &path,
                "not what the records in bench/runs say: run `cargo xtask scoreboard`".to_owned(),
            ));
        }
    }
    for path in kept::compare(root, kept::SINCE).changed {
        findings.push(of(
            &path,
            "the record differs from the one that was committed first, or was removed: restore it, and write a new one".to_owned(),
        ));
    }
    match reasons::read_all(root) {
        Ok(reasons) => {
            let wrong = reasons::check(&scoreboard::newest(&records), &reasons);
            findings.extend(wrong.into_iter().map(|what| of(REASONS, what)));
        }
        Err(why) => findings.push(of(REASONS, why)),
    }
    let history = history(root);
    // The page uses all records except records that contain a reason not to use them.
    for record in records.iter().filter(|record| record.refusal().is_none()) {
        if let Some(why) = refusal(record, history.as_ref()) {
            findings.push(of(
                &format!("{RUNS}/{}.json", record.name),
                format!("{why}: measure a commit of the history"),
            ));
        }
    }
    let documents = sources.iter().filter(|source| {
        let is_document = source.path == "README.md" || source.path.starts_with("docs/");
        is_document && source.path.ends_with(".md") && source.path != scoreboard::PAGE
    });
    findings.extend(documents.flat_map(|document| check_page(document, &records, history.as_ref())));
}

/// The end of a finding about a figure without a record.
const NEEDS: &str =
    "needs its record: `<!-- figure RECORD: row NAME (N) -->` or `<!-- figure RECORD: goal ID -->` after it";

/// Whether the page has figures of campaigns, which have other records than benchmarks.
fn is_of_campaigns(path: &str) -> bool {
    ["docs/reliability.md", "docs/campaigns.md"].contains(&path)
}

fn check_page(page: &Source, records: &[Record], history: Option<&BTreeSet<String>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (index, line) in page.text.lines().enumerate() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let mut find = |what: String| findings.push(page.finding(index + 1, what));
        for found in reference::references(line) {
            if let Err(why) = found.and_then(|found| judge(&found, records, history)) {
                find(why);
            }
        }
        if !is_of_campaigns(&page.path) {
            for figure in reference::unreferenced(line) {
                find(format!("`{figure}`: a figure of speed {NEEDS}"));
            }
        }
    }
    if !is_of_campaigns(&page.path) {
        for (line, sentence) in reference::sentences(&page.text) {
            for figure in reference::unreferenced_measures(&sentence) {
                let what = format!(
                    "`{figure}`: a figure in a sentence about a measurement {NEEDS}; if the figure is a setting, say so without a word such as `takes`"
                );
                findings.push(page.finding(line, what));
            }
        }
    }
    findings
}

fn judge(
    found: &reference::Reference<'_>,
    records: &[Record],
    history: Option<&BTreeSet<String>>,
) -> Result<(), String> {
    let record = records.iter().find(|record| record.name == found.record);
    let record = record.ok_or_else(|| format!("there is no record {RUNS}/{}.json", found.record))?;
    if let Some(why) = refusal(record, history) {
        return Err(format!("{} is no source for a document: {why}", found.record));
    }
    let (value, unit) = record.figure(found.key).map_err(|why| format!("{}: {why}", found.record))?;
    match reference::agrees(found.figure, value, unit)? {
        true => Ok(()),
        false => Err(format!("`{}`: {} says {value} {unit}", found.figure, found.record)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, commit: &str, value: f64) -> Record {
        let text = format!(
            r#"{{"bench":"try","commit":"{commit}","rows":[{{"name":"asked","n":4,"value":{value},"unit":"µs"}}],"goals":[]}}"#
        );
        Record::new(name.to_owned(), serde_json::from_str(&text).unwrap())
    }

    fn lines(text: &str, records: &[Record], history: Option<&BTreeSet<String>>) -> Vec<String> {
        check_page(&Source::new("docs/x.md", text), records, history)
            .into_iter()
            .map(|found| found.what)
            .collect()
    }

    #[test]
    fn a_changed_record_is_found() {
        let page = "asked in 37 µs<!-- figure 2026-11-20-try: row asked (4) -->\n";
        assert!(lines(page, &[record("2026-11-20-try", "abc1234", 37.2)], None).is_empty());
        let changed = lines(page, &[record("2026-11-20-try", "abc1234", 38.2)], None);
        assert_eq!(changed, ["`37 µs`: 2026-11-20-try says 38.2 µs"]);
        assert!(lines(page, &[], None)[0].contains("there is no record"));
    }

    #[test]
    fn a_record_without_a_clean_commit_of_the_history_is_no_source() {
        let page = "asked in 37 µs<!-- figure x: row asked (4) -->\n";
        assert!(lines(page, &[record("x", "abc1234-dirty", 37.0)], None)[0].contains("is no source"));
        let history = |commit: &str| BTreeSet::from([commit.to_owned()]);
        let records = [record("x", "abc1234", 37.0)];
        assert!(lines(page, &records, Some(&history("abc1234f00"))).is_empty());
        assert!(lines(page, &records, Some(&history("abd1234f00")))[0].contains("not in the history"));
    }

    #[test]
    fn a_figure_without_a_record_is_found_outside_of_code() {
        let page = "takes 15 µs\n\n```sh\nsleep 15 µs\n```\n";
        assert_eq!(lines(page, &[], None).len(), 1);
        let sizes = "An import takes\n438 MiB of memory.\n\nThe default is 60 s.\n";
        assert!(
            lines(sizes, &[], None)[0].starts_with("`438 MiB`: a figure in a sentence about a measurement")
        );
        assert_eq!(lines(sizes, &[], None).len(), 1);
    }
}
