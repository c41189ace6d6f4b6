//! The results of mutants, and the reasons for accepted survivors.

use super::digest;
use super::list::Mutant;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test fails.
    Caught,
    /// Only a test of the binary fails.
    CaughtByBinary,
    /// The tests do not end.
    TimedOut,
    /// The mutant does not compile.
    Unviable,
    /// Every test passes.
    Survived,
    /// Every test passes, because no test executes the mutated place.
    Unreached,
    /// No switch can be written for the mutant, and cargo-mutants has not run it yet.
    Alone,
}

/// Each outcome, with its letter in the file of results. A capital letter is the outcome of a mutant that cargo-mutants ran alone.
const NAMES: [(Outcome, char, &str); 7] = [
    (Outcome::Caught, 'c', "caught"),
    (Outcome::CaughtByBinary, 'b', "caught by the binary"),
    (Outcome::TimedOut, 't', "timed out"),
    (Outcome::Unviable, 'u', "unviable"),
    (Outcome::Survived, 's', "survived"),
    (Outcome::Unreached, 'n', "unreached"),
    (Outcome::Alone, 'a', "alone"),
];

/// The letter of a mutant without a result.
const OPEN: char = '.';

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(outcome, ..)| *outcome == self).map_or("", |(.., name)| name)
    }

    fn letter(self) -> char {
        NAMES.iter().find(|(outcome, ..)| *outcome == self).map_or(OPEN, |(_, letter, _)| *letter)
    }

    pub(super) fn survives(self) -> bool {
        matches!(self, Outcome::Survived | Outcome::Unreached)
    }

    pub(super) fn is_caught(self) -> bool {
        matches!(self, Outcome::Caught | Outcome::CaughtByBinary)
    }
}

/// The result of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) outcome: Outcome,
    pub(super) by: String,
    /// Whether the mutant has no switch: cargo-mutants builds it alone.
    pub(super) alone: bool,
}

/// Results of earlier runs. A file of the repository stores the results. The file has one line for each source file. The line contains the digest of
/// the source file, the number of mutants of each outcome, the names of the survivors, and a letter for each mutant in the order of the source.
pub(super) struct Results {
    page: PathBuf,
    /// A log of results with the tests that gave the results, for people. This program does not read the log.
    log: PathBuf,
    /// The digest and the mutants of each file: id and label.
    files: BTreeMap<String, (String, Vec<(u32, String)>)>,
    rows: HashMap<u32, Found>,
    /// The stored lines of source files whose code changed after their run.
    void: BTreeMap<String, String>,
}

impl Results {
    /// Reads the stored results, except the results of changed files.
    ///
    /// # Errors
    /// If a source file of a mutant cannot be read or is not Rust.
    pub(super) fn read(page: &Path, log: &Path, mutants: &[Mutant]) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        for mutant in mutants {
            if !files.contains_key(&mutant.file) {
                let failed = |why: String| format!("`{}`: {why}", mutant.file);
                let text = std::fs::read_to_string(xtask::root().join(&mutant.file))
                    .map_err(|why| failed(why.to_string()))?;
                let digest = digest::of_code(&text).map_err(failed)?;
                files.insert(mutant.file.clone(), (digest, Vec::new()));
            }
            files
                .entry(mutant.file.clone())
                .and_modify(|(_, of_file)| of_file.push((mutant.id, mutant.label.clone())));
        }
        let text = std::fs::read_to_string(page).unwrap_or_default();
        let (mut rows, mut void) = (HashMap::new(), BTreeMap::new());
        for line in text.lines() {
            let Some((file, digest, letters)) = parts(line) else { continue };
            match files.get(&file) {
                Some((now, mutants)) if *now == digest && mutants.len() == letters.chars().count() => {
                    let found = mutants.iter().zip(letters.chars());
                    rows.extend(found.filter_map(|((id, _), letter)| Some((*id, of_letter(letter)?))));
                }
                Some(_) => _ = void.insert(file, line.to_owned()),
                None => {}
            }
        }
        Ok(Results { page: page.to_owned(), log: log.to_owned(), files, rows, void })
    }

    pub(super) fn of(&self, mutant: &Mutant) -> Option<&Found> {
        self.rows.get(&mutant.id)
    }

    /// Files whose results no longer count, because their code changed.
    pub(super) fn void(&self) -> impl Iterator<Item = &str> {
        self.void.keys().map(String::as_str)
    }

    /// Stores a result for this run and later runs.
    ///
    /// # Errors
    /// If the file of results or the log cannot be written.
    pub(super) fn keep(&mut self, mutant: &Mutant, found: Found) -> Result<(), String> {
        let row = json!({
            "file": mutant.file, "name": mutant.label, "outcome": found.outcome.name(), "by": found.by,
        });
        self.rows.insert(mutant.id, found);
        self.void.remove(&mutant.file);
        let log = std::fs::OpenOptions::new().append(true).create(true).open(&self.log);
        log.and_then(|mut log| writeln!(log, "{row}"))
            .map_err(|why| format!("`{}`: {why}", self.log.display()))?;
        let renewed = self.page.with_extension("new");
        std::fs::write(&renewed, self.text())
            .and_then(|()| std::fs::rename(&renewed, &self.page))
            .map_err(|why| format!("`{}`: {why}", self.page.display()))
    }

    fn text(&self) -> String {
        let mut lines = self.void.clone();
        for (file, (digest, mutants)) in &self.files {
            let found: Vec<Option<&Found>> = mutants.iter().map(|(id, _)| self.rows.get(id)).collect();
            if found.iter().all(Option::is_none) {
                continue;
            }
            let count =
                |is: fn(Outcome) -> bool| found.iter().flatten().filter(|found| is(found.outcome)).count();
            let survivors: Vec<&str> = mutants
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.is_some_and(|found| found.outcome.survives()))
                .map(|((_, label), _)| label.as_str())
                .collect();
            let line = format!(
                "{{\"file\":{},\"digest\":\"{digest}\",\"mutants\":{},\"caught\":{},\"timed out\":{},\"unviable\":{},\"survivors\":{},\"outcomes\":\"{}\"}}",
                json!(file),
                mutants.len(),
                count(Outcome::is_caught),
                count(|outcome| outcome == Outcome::TimedOut),
                count(|outcome| outcome == Outcome::Unviable),
                json!(survivors),
                found.iter().map(|found| found.map_or(OPEN, to_letter)).collect::<String>(),
            );
            lines.insert(file.clone(), line);
        }
        lines.into_values().map(|line| line + "\n").collect()
    }
}

fn to_letter(found: &Found) -> char {
    let letter = found.outcome.letter();
    if found.alone && found.outcome != Outcome::Alone { letter.to_ascii_uppercase() } else { letter }
}

fn of_letter(letter: char) -> Option<Found> {
    let (outcome, ..) = NAMES.iter().find(|(_, known, _)| *known == letter.to_ascii_lowercase())?;
    let alone = letter.is_ascii_uppercase() || *outcome == Outcome::Alone;
    Some(Found { outcome: *outcome, by: String::new(), alone })
}

/// The source file, the digest and the letters in a line of stored results.
fn parts(line: &str) -> Option<(String, String, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("file")?, text("digest")?, text("outcomes")?))
}

/// Why a survivor is accepted: it changes no behaviour, or another test fails for it.
pub(super) struct Reason {
    file: String,
    mutation: String,
    /// A part of the source line, needed if the function has several places with this mutation.
    at: Option<String>,
    why: String,
}

impl Reason {
    pub(super) fn is_of(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file
            && self.mutation == mutant.name
            && self.at.as_ref().is_none_or(|at| mutant.at.contains(at.as_str()))
    }

    pub(super) fn describe(&self) -> String {
        let at = self.at.as_ref().map(|at| format!(" at `{at}`")).unwrap_or_default();
        format!("{}: {}{at}", self.file, self.mutation)
    }
}

/// Reads `xtask/mutants.toml`.
pub(super) fn reasons(text: &str) -> Result<Vec<Reason>, String> {
    let page: toml::Table = text.parse().map_err(|why| format!("xtask/mutants.toml: {why}"))?;
    let rows = page.get("survivor").and_then(toml::Value::as_array).into_iter().flatten();
    rows.map(|row| {
        let value = |key: &str| row.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let reason = (|| {
            Some(Reason {
                file: value("file")?,
                mutation: value("mutation")?,
                at: value("at"),
                why: value("why").filter(|why| !why.trim().is_empty())?,
            })
        })();
        reason
            .ok_or_else(|| format!("xtask/mutants.toml: an entry needs `file`, `mutation` and `why`: {row}"))
    })
    .collect()
}

/// Problems: a survivor without a reason, and a reason without a survivor.
pub(super) fn wrong(
    all: &[Mutant],
    chosen: &[&Mutant],
    results: &Results,
    reasons: &[Reason],
) -> Vec<String> {
    let survives = |mutant: &Mutant| results.of(mutant).is_some_and(|found| found.outcome.survives());
    let mut wrong = Vec::new();
    for mutant in chosen.iter().filter(|mutant| survives(mutant)) {
        if !reasons.iter().any(|reason| reason.is_of(mutant)) {
            let by = results.of(mutant).map(|found| found.outcome.name()).unwrap_or_default();
            wrong.push(format!("{by}, without a reason: {}\n    {}", mutant.full_name, mutant.at));
        }
    }
    for reason in reasons {
        let of: Vec<&Mutant> = all.iter().filter(|mutant| reason.is_of(mutant)).collect();
        // A mutant that only tests of the binary catch survives without `--interop`.
        let is_caught = |found: &Found| !found.outcome.survives() && found.outcome != Outcome::CaughtByBinary;
        let caught = |mutant: &&Mutant| results.of(mutant).is_some_and(is_caught);
        if of.is_empty() {
            wrong.push(format!("a reason for a mutant that does not exist: {}", reason.describe()));
        } else if of.iter().all(caught) {
            wrong.push(format!(
                "a reason for a mutant that does not survive: {} ({})",
                reason.describe(),
                reason.why
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::list::Genre;
    use super::*;

    const FILE: &str = "xtask/src/mutants.rs";

    fn mutant(id: u32, name: &str, at: &str) -> Mutant {
        Mutant {
            id,
            file: FILE.into(),
            package: "xtask".into(),
            name: name.into(),
            label: format!("{name} {id}"),
            full_name: format!("{FILE}:1:1: {name}"),
            at: at.into(),
            genre: Genre::Other,
            begin: 0,
            end: 0,
            replacement: String::new(),
            return_type: String::new(),
        }
    }

    #[test]
    fn results_are_of_the_code_of_a_file_and_survivors_need_a_reason() {
        let place = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let (page, log) = (place.join("page"), place.join("log"));
        let mutants = [
            mutant(1, "replace a with b", "x == 1"),
            mutant(2, "replace a with b", "y == 1"),
            mutant(3, "c", "z"),
            mutant(4, "d", "z"),
            mutant(5, "e", "z"),
        ];
        let mut results = Results::read(&page, &log, &mutants).unwrap();
        for (mutant, outcome, alone) in [
            (&mutants[0], Outcome::Survived, false),
            (&mutants[1], Outcome::Unreached, false),
            (&mutants[2], Outcome::Caught, true),
            (&mutants[3], Outcome::Alone, true),
        ] {
            results.keep(mutant, Found { outcome, by: String::new(), alone }).unwrap();
        }
        // Stored results are read again. A line gives no results if its digest or its number of mutants is wrong, or if it cannot be parsed.
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("\"outcomes\":\"snCa.\"") && text.lines().count() == 1, "{text}");
        assert_eq!(Results::read(&page, &log, &mutants).unwrap().rows, results.rows);
        let (digest, _) = results.files.get(FILE).unwrap().clone();
        for (text, is_void) in [
            (text.replace(&digest, "0000000000000000"), true),
            (text.replace("snCa.", "snCa"), true),
            (text.replace(FILE, "crates/gone.rs"), false),
            (text.replace('{', ""), false),
        ] {
            std::fs::write(&page, &text).unwrap();
            let mut read = Results::read(&page, &log, &mutants).unwrap();
            assert!(read.rows.is_empty(), "{text}");
            assert_eq!(read.void().collect::<Vec<_>>(), if is_void { vec![FILE] } else { vec![] });
            // A line of a changed file stays until the file has a new result.
            assert_eq!(read.text(), if is_void { text } else { String::new() });
            read.keep(&mutants[4], Found { outcome: Outcome::TimedOut, by: String::new(), alone: false })
                .unwrap();
            assert!(read.text().contains("....t") && read.text().lines().count() == 1);
        }
        std::fs::remove_dir_all(&place).unwrap();

        let chosen: Vec<&Mutant> = mutants.iter().collect();
        let entry = |mutation: &str, at: &str| {
            format!("[[survivor]]\nfile = \"{FILE}\"\nmutation = \"{mutation}\"\n{at}\nwhy = \"w\"\n")
        };
        for (page, expected) in [
            (String::new(), vec!["survived, without", "unreached, without"]),
            (entry("replace a with b", ""), vec![]),
            (entry("replace a with b", "at = \"x ==\""), vec!["unreached, without"]),
            (entry("replace a with b", "") + &entry("gone", ""), vec!["does not exist"]),
            (entry("replace a with b", "") + &entry("c", ""), vec!["does not survive"]),
        ] {
            let wrong = wrong(&mutants, &chosen, &results, &reasons(&page).unwrap());
            assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
            for (line, part) in wrong.iter().zip(expected) {
                assert!(line.contains(part), "{line} {part}");
            }
        }
        assert!(reasons("[[survivor]]\nfile = \"x\"\nmutation = \"y\"\nwhy = \" \"\n").is_err());
    }
}
