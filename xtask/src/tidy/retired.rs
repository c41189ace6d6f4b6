//! Words that the usual terms of the field (GLOSSARY.md) replace. Each word has a maximum number of uses, which must never be raised.

use super::rust_text::words;
use super::{Finding, Source};
use std::collections::BTreeMap;

/// A word, the words to use instead, and the maximum number of uses.
type Retired = (&'static str, &'static str, usize);

const RETIRED: [Retired; 13] = [
    ("whoever", "the person or the program: the user, the client, the server", 0),
    ("whatever", "what it is, or `any`", 0),
    ("whom", "a sentence with a subject and a verb", 0),
    ("beside", "`next to`, `in the same directory` or `at the same time`", 4),
    ("at hand", "`in memory` or `cached`", 0),
    ("heard of", "`watched` or `reported by the kernel`", 0),
    ("by and by", "`later` or `in the background`", 0),
    ("dear", "`expensive`", 0),
    ("dearer", "`more expensive`", 0),
    ("inhabited", "`in use`: the data directory has an administrator already", 0),
    ("bestow", "`apply`", 0),
    ("in_vain", "`equalize_cost`", 0),
    ("hand_on", "`propagate`", 0),
];

/// Files that may contain the words: the changelog, the pages with the ids of goals, which never change, and this table.
const EXEMPT: [&str; 4] =
    ["CHANGELOG.md", "bench/GOALS.md", "docs/benchmarks.md", "xtask/src/tidy/retired.rs"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let texts: Vec<(&str, String)> = sources
        .iter()
        .filter(|source| !EXEMPT.contains(&source.path.as_str()))
        .map(|source| (source.path.as_str(), source.text.to_ascii_lowercase()))
        .collect();
    findings.extend(RETIRED.iter().filter_map(|retired| judge(retired, &texts)));
}

fn judge((word, instead, allowed): &Retired, texts: &[(&str, String)]) -> Option<Finding> {
    let mut places = BTreeMap::new();
    for (path, text) in texts {
        let count = words(text, word).count();
        if count > 0 {
            *places.entry(path.rsplit_once('/').map_or(*path, |(folder, _)| folder)).or_insert(0) += count;
        }
    }
    let count: usize = places.values().sum();
    let list: Vec<String> = places.iter().map(|(folder, count)| format!("{folder}: {count}")).collect();
    (count > *allowed).then(|| Finding {
        path: "xtask/src/tidy/retired.rs".to_owned(),
        line: 0,
        what: format!(
            "`{word}` stands {count} times, at most {allowed}: write {instead} ({})",
            list.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_word_may_not_stand_more_often_than_it_did() {
        let texts = [("a/b.rs", "old, older, an old one".to_owned()), ("c.md", "nothing".to_owned())];
        assert_eq!(judge(&("old", "`new`", 2), &texts), None);
        let found = judge(&("old", "`new`", 1), &texts).unwrap();
        assert_eq!(found.what, "`old` stands 2 times, at most 1: write `new` (a: 2)");
    }
}
