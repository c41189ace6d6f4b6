//! Mutants for which no switch can be written (constants, early returns of `impl Trait`): cargo-mutants builds and runs each of them alone.

use super::build::{Place, copy};
use super::list::Mutant;
use super::results::{Found, Outcome, Results};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The time limit for the build and the tests of one mutant, in seconds.
const SECONDS_MAX: &str = "900";

/// Runs the mutants, one crate after the other: first with the tests of the crate, then the survivors with the tests of the testkit.
pub(super) fn run(place: &Place, mutants: &[&Mutant], results: &mut Results) -> Result<(), String> {
    let mut by_package: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        by_package.entry(&mutant.package).or_default().push(mutant);
    }
    for (package, mutants) in by_package {
        println!("mutants: cargo-mutants builds and runs {} mutants of {package}, each alone", mutants.len());
        let survivors = run_with(place, &mutants, package, results)?;
        if !survivors.is_empty() {
            run_with(place, &survivors, "enfilade-testkit", results)?;
        }
    }
    Ok(())
}

fn run_with<'m>(
    place: &Place,
    mutants: &[&'m Mutant],
    tested: &str,
    results: &mut Results,
) -> Result<Vec<&'m Mutant>, String> {
    let tree = place.root.join("alone");
    copy(&tree, &BTreeMap::new())?;
    let output = place.root.join("alone.out");
    let _ = std::fs::remove_dir_all(&output);
    std::fs::create_dir_all(&output).map_err(|why| format!("`{}`: {why}", output.display()))?;
    let config = place.root.join("alone.toml");
    let names: Vec<String> =
        mutants.iter().map(|mutant| format!("'''^{}$'''", escaped(&mutant.full_name))).collect();
    let text = format!("examine_re = [\n{}\n]\n", names.join(",\n"));
    std::fs::write(&config, text).map_err(|why| format!("`{}`: {why}", config.display()))?;
    let mut command = place.cargo(&tree);
    command.args(["mutants", "--in-place", "--baseline", "skip", "--timeout", SECONDS_MAX, "--config"]);
    command.arg(&config).arg("--output").arg(&output).args(["--workspace", "--test-package", tested]);
    // cargo-mutants does not apply `examine_re` to every kind of mutant, so the files are named, too.
    let files: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.file.as_str()).collect();
    command.args(files.into_iter().flat_map(|file| ["--file", file]));
    // The exit codes 2 and 3 mean that a mutant survived or exceeded the time limit.
    let status = command.status().map_err(|why| format!("cargo cannot be run: {why}"))?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("cargo-mutants ended with {status}"));
    }
    let path = output.join("mutants.out/outcomes.json");
    let text = std::fs::read_to_string(&path).map_err(|why| format!("`{}`: {why}", path.display()))?;
    let page: Value = serde_json::from_str(&text).map_err(|why| format!("`{}`: {why}", path.display()))?;
    let mut survivors = Vec::new();
    for row in page.get("outcomes").and_then(Value::as_array).into_iter().flatten() {
        let name = row.get("scenario").and_then(|scenario| scenario.get("Mutant")?.get("name")?.as_str());
        let Some(mutant) = mutants.iter().copied().find(|mutant| Some(mutant.full_name.as_str()) == name)
        else {
            continue;
        };
        let outcome = match row.get("summary").and_then(Value::as_str) {
            Some("CaughtMutant") => Outcome::Caught,
            Some("Timeout") => Outcome::TimedOut,
            Some("Unviable") => Outcome::Unviable,
            Some("MissedMutant") => Outcome::Survived,
            _ => continue,
        };
        if outcome == Outcome::Survived {
            survivors.push(mutant);
        }
        results.keep(mutant, Found { outcome, by: tested.to_owned(), alone: true })?;
    }
    Ok(survivors)
}

/// A name as a regular expression that matches only this name.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_means_itself() {
        let name = "x.rs:1:2: replace f -> Vec<(u8, u8)> with vec![(0, 1)]";
        assert_eq!(super::escaped(name), r"x\.rs:1:2: replace f \-> Vec<\(u8, u8\)> with vec!\[\(0, 1\)\]");
    }
}
