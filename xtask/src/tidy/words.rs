//! Finds words that must not be committed.

use super::rust_text::{is_word, line_at, words};
use super::{Finding, Source};

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        findings.extend(forbidden(source));
        findings.extend(machine_paths(source));
    }
}

/// The words are composed of parts, so that this file does not contain them.
fn forbidden(source: &Source) -> Vec<Finding> {
    let later = "fix it, or describe the rest in an issue";
    let promise = "a promise not kept; build it or leave it out";
    let alone = "the texts of the repository describe only the project, not how they were written; remove it";
    let rules = [
        (["FIX", "ME"].concat(), later),
        (["XX", "X"].concat(), later),
        (["todo", "!"].concat(), promise),
        (["unimple", "mented!"].concat(), promise),
        (["#[ign", "ore"].concat(), "the test does not run; make it run or remove it"),
        (["dbg", "!"].concat(), "it is for debugging; remove it"),
        (["this ses", "sion"].concat(), alone),
        (["as an ", "AI"].concat(), alone),
    ];
    let lower = source.text.to_ascii_lowercase();
    let found = rules.iter().flat_map(|(word, why)| {
        // Phrases also match in other case, because a sentence may begin with a phrase.
        let phrase = word.to_ascii_lowercase();
        let places: Vec<usize> = match word.contains(' ') {
            true => words(&lower, &phrase).collect(),
            false => words(&source.text, word).collect(),
        };
        places.into_iter().map(move |at| (at, format!("`{word}`: {why}")))
    });
    found.map(|(at, what)| source.finding(line_at(&source.text, at), what)).collect()
}

/// Finds absolute paths that exist on one machine only.
fn machine_paths(source: &Source) -> Vec<Finding> {
    let places = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/ho", "me/"].concat()];
    let found = places.iter().flat_map(|place| {
        source.text.match_indices(place.as_str()).filter_map(move |(at, _)| {
            let before = source.text.get(..at)?.chars().next_back();
            let after = source.text.get(at + place.len()..)?.chars().next();
            // In the middle of a longer path the text is only the name of a folder.
            let is_inside = before.is_some_and(|c| is_word(c) || ".-~})".contains(c));
            let leads_on = after.is_some_and(|c| is_word(c) || c == '.');
            (!is_inside && leads_on).then_some((at, place))
        })
    });
    let what = |place| format!("`{place}` is a path of one machine: write it from the repository's root");
    found.map(|(at, place)| source.finding(line_at(&source.text, at), what(place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&[Source::new("x.md", text)], &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_word_is_found() {
        for pieces in [
            ["FIX", "ME"],
            ["XX", "X"],
            ["todo", "!()"],
            ["unimple", "mented!()"],
            ["#[ign", "ore = \"slow\"]"],
            ["dbg", "!(x)"],
            ["This ses", "sion"],
            ["as an ", "AI, I"],
            ["/wo", "rk/tree"],
            ["`/ro", "ot/.cargo`"],
            ["file:///ho", "me/me"],
        ] {
            let word = pieces.concat();
            assert_eq!(lines(&format!("a\n// {word} b\n")), [2], "{word}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_left_alone() {
        let path = ["target/wo", "rk/x"].concat();
        let marks = "X".repeat(6);
        assert!(lines(&format!("{path} mktemp {marks} as an aid\n")).is_empty());
    }
}
