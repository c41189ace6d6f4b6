//! The results of mutants, and the reasons for accepted survivors.

use super::digest::digest;
use super::list::Mutant;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// How a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test fails.
    Caught,
    /// The tests do not end.
    TimedOut,
    /// It does not compile.
    Unviable,
    /// Every test passes.
    Survived,
    /// Every test passes, because none reaches the place.
    Unreached,
    /// No switch can be written for it; cargo-mutants did not run it yet.
    Alone,
}

const NAMES: [(Outcome, &str); 6] = [
    (Outcome::Caught, "caught"),
    (Outcome::TimedOut, "timed out"),
    (Outcome::Unviable, "unviable"),
    (Outcome::Survived, "survived"),
    (Outcome::Unreached, "unreached"),
    (Outcome::Alone, "alone"),
];

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, name)| name)
    }

    pub(super) fn survives(self) -> bool {
        matches!(self, Outcome::Survived | Outcome::Unreached)
    }
}

/// A result, and the test that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) outcome: Outcome,
    pub(super) by: String,
    /// It has no switch: cargo-mutants builds it alone.
    pub(super) alone: bool,
}

/// Results of earlier runs, for unchanged files.
pub(super) struct Results {
    path: PathBuf,
    digests: HashMap<String, String>,
    rows: HashMap<u32, Found>,
}

impl Results {
    /// Reads stored results; results of changed files do not count.
    pub(super) fn read(path: &Path, mutants: &[Mutant]) -> Result<Self, String> {
        let mut digests = HashMap::new();
        for mutant in mutants {
            if !digests.contains_key(&mutant.file) {
                let content = std::fs::read(xtask::root().join(&mutant.file))
                    .map_err(|why| format!("`{}`: {why}", mutant.file))?;
                digests.insert(mutant.file.clone(), format!("{:016x}", digest(&content)));
            }
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let rows = text.lines().filter_map(|line| row(line, &digests)).collect();
        Ok(Results { path: path.to_owned(), digests, rows })
    }

    pub(super) fn of(&self, mutant: &Mutant) -> Option<&Found> {
        self.rows.get(&mutant.id)
    }

    /// Keeps a result, now and for the next run.
    pub(super) fn keep(&mut self, mutant: &Mutant, found: Found) -> Result<(), String> {
        let row = json!({
            "file": mutant.file, "digest": self.digests.get(&mutant.file), "id": mutant.id, "name": mutant.name,
            "outcome": found.outcome.name(), "by": found.by, "alone": found.alone,
        });
        self.rows.insert(mutant.id, found);
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&self.path);
        file.and_then(|mut file| writeln!(file, "{row}"))
            .map_err(|why| format!("`{}`: {why}", self.path.display()))
    }
}

fn row(line: &str, digests: &HashMap<String, String>) -> Option<(u32, Found)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if digests.get(text("file")?)? != text("digest")? {
        return None;
    }
    let (outcome, _) = NAMES.iter().find(|(_, name)| Some(*name) == text("outcome"))?;
    let alone = value.get("alone").and_then(Value::as_bool).unwrap_or_default();
    let id = u32::try_from(value.get("id")?.as_u64()?).ok()?;
    Some((id, Found { outcome: *outcome, by: text("by")?.to_owned(), alone }))
}

/// Why a survivor is accepted: it changes no behaviour, or another test finds it.
pub(super) struct Reason {
    file: String,
    mutation: String,
    /// Part of the line, where one function has more than one place of the same mutation.
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
        // A mutant found only by tests of the binary survives without `--interop`.
        let is_caught =
            |found: &Found| !found.outcome.survives() && !found.by.starts_with("enfilade interop");
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

    fn mutant(id: u32, name: &str, at: &str) -> Mutant {
        Mutant {
            id,
            file: "xtask/Cargo.toml".into(),
            package: "xtask".into(),
            name: name.into(),
            full_name: format!("xtask/Cargo.toml:1:1: {name}"),
            at: at.into(),
            genre: Genre::Other,
            begin: 0,
            end: 0,
            replacement: String::new(),
            return_type: String::new(),
        }
    }

    #[test]
    fn results_are_of_a_digest_and_survivors_need_a_reason() {
        let path = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        let mutants = [
            mutant(1, "replace a with b", "x == 1"),
            mutant(2, "replace a with b", "y == 1"),
            mutant(3, "c", "z"),
        ];
        let mut results = Results::read(&path, &mutants).unwrap();
        for (mutant, outcome) in mutants.iter().zip([Outcome::Survived, Outcome::Unreached, Outcome::Caught])
        {
            results.keep(mutant, Found { outcome, by: String::new(), alone: false }).unwrap();
        }
        // Read again they are the same; of another digest, or broken, they are not there.
        let text = std::fs::read_to_string(&path).unwrap();
        let again = Results::read(&path, &mutants).unwrap();
        assert_eq!(again.of(&mutants[1]).map(|found| found.outcome), Some(Outcome::Unreached));
        let digest = results.digests.get("xtask/Cargo.toml").unwrap().clone();
        std::fs::write(&path, text.replace(&digest, "0000000000000000")).unwrap();
        assert!(Results::read(&path, &mutants).unwrap().rows.is_empty());
        std::fs::remove_file(&path).unwrap();

        let chosen: Vec<&Mutant> = mutants.iter().collect();
        let entry = |mutation: &str, at: &str| {
            format!(
                "[[survivor]]\nfile = \"xtask/Cargo.toml\"\nmutation = \"{mutation}\"\n{at}\nwhy = \"w\"\n"
            )
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
