//! The copy of the source tree that contains all mutants that can be built together, and its test programs.

use super::list::{Genre, Mutant, PACKAGES};
use super::results::{Found, Outcome, Results};
use super::switch::{ASKED, Switched, switch};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Crates whose tests judge the mutants, in addition to the crates of the mutants.
const JUDGES: [&str; 6] = [
    "enfilade-admin",
    "enfilade-faces",
    "enfilade-webdav",
    "enfilade-keystone",
    "enfilade-proxmox",
    "enfilade-testkit",
];

/// The maximum number of builds; after each, mutants that do not compile are removed.
const ROUNDS_MAX: usize = 60;

/// A test program.
pub(super) struct Program {
    /// The package and its target: `enfilade-testkit sessions`.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) path: PathBuf,
    /// The directory in which cargo would run the program.
    pub(super) place: PathBuf,
}

/// The directory with all files that `cargo xtask mutants` makes, except the stored results.
pub(super) struct Place {
    pub(super) root: PathBuf,
}

impl Place {
    fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// The temporary directory of the tests of a job.
    pub(super) fn scratch(&self, job: usize) -> PathBuf {
        self.root.join(format!("tmp-{job}"))
    }

    /// A command that runs cargo in a tree, with a target directory that all runs share.
    pub(super) fn cargo(&self, tree: &Path) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(tree);
        command.env("CARGO_TARGET_DIR", self.root.join("build"));
        // The test programs are compiled once and run for a few seconds, so they get no optimization and no debug information.
        command.envs([
            ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
            ("CARGO_PROFILE_DEV_DEBUG", "false"),
            ("CARGO_INCREMENTAL", "1"),
        ]);
        command
    }
}

/// Copies the files of the repository to `tree`; the content of a file in `instead` replaces the original. Files that are already equal are not
/// written. Files of an earlier copy that are gone from the repository are removed.
pub(super) fn copy(tree: &Path, instead: &BTreeMap<String, String>) -> Result<(), String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(xtask::root())
        .output()
        .map_err(|why| format!("git cannot be run: {why}"))?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted: HashSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    let remembered = tree.with_extension("files");
    for gone in std::fs::read_to_string(&remembered).unwrap_or_default().split('\0') {
        if !gone.is_empty() && !wanted.contains(gone) {
            let _ = std::fs::remove_file(tree.join(gone));
        }
    }
    for path in wanted {
        let (from, to) = (xtask::root().join(path), tree.join(path));
        let failed = |why: std::io::Error| format!("`{}`: {why}", to.display());
        if !from.is_file() {
            let _ = std::fs::remove_file(&to);
            continue;
        }
        let content = match instead.get(path) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(&from).map_err(failed)?,
        };
        if std::fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        to.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        std::fs::copy(&from, &to).map_err(failed)?;
        std::fs::write(&to, content).map_err(failed)?;
    }
    std::fs::write(&remembered, listed).map_err(|why| format!("`{}`: {why}", remembered.display()))
}

/// Builds the tree with every mutant for which a switch can be written; the other mutants are recorded in the results.
pub(super) fn build(
    place: &Place,
    mutants: &[&Mutant],
    results: &mut Results,
    interop: bool,
) -> Result<Vec<Program>, String> {
    let mut libraries = vec!["build", "--lib", "--keep-going"];
    let mut tests = vec!["test", "--no-run", "--lib", "--tests"];
    for package in PACKAGES {
        libraries.extend(["-p", package]);
        tests.extend(["-p", package]);
    }
    JUDGES.iter().for_each(|package| tests.extend(["-p", package]));
    build_with(place, mutants, results, &libraries)?;
    let mut programs = build_with(place, mutants, results, &tests)?;
    if interop {
        let tests = ["test", "--no-run", "-p", "enfilade", "--test", "interop"];
        programs.extend(build_with(place, mutants, results, &tests)?);
    }
    Ok(programs)
}

fn build_with(
    place: &Place,
    mutants: &[&Mutant],
    results: &mut Results,
    arguments: &[&str],
) -> Result<Vec<Program>, String> {
    let by_id: HashMap<u32, &Mutant> = mutants.iter().map(|mutant| (mutant.id, *mutant)).collect();
    for _ in 0..ROUNDS_MAX {
        let switched = switched(mutants, results)?;
        let mut texts: BTreeMap<String, String> =
            switched.iter().map(|(file, switched)| (file.clone(), switched.text.clone())).collect();
        let libraries: HashSet<String> = mutants
            .iter()
            .filter_map(|mutant| Some(format!("{}/src/lib.rs", mutant.file.split_once("/src/")?.0)))
            .collect();
        for library in libraries {
            if !texts.contains_key(&library) {
                let text = std::fs::read_to_string(xtask::root().join(&library));
                texts.insert(library.clone(), text.map_err(|why| format!("`{library}`: {why}"))?);
            }
            texts.entry(library).and_modify(|text| text.push_str(ASKED));
        }
        copy(&place.tree(), &texts)?;
        let output = place
            .cargo(&place.tree())
            .args(arguments)
            .args(["--message-format", "json"])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|why| format!("cargo cannot be run: {why}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if output.status.success() {
            return Ok(messages.iter().filter_map(program).collect());
        }
        let mut taken_out = 0;
        for (id, unviable, why) in errors(&messages, &switched, &by_id) {
            if let Some(mutant) = by_id.get(&id)
                && results.of(mutant).is_none_or(|found| !out(found))
            {
                taken_out += 1;
                let outcome = if unviable { Outcome::Unviable } else { Outcome::Alone };
                results.keep(mutant, Found { outcome, by: why, alone: !unviable })?;
            }
        }
        println!("mutants: {taken_out} do not compile in one program and are taken out");
        if taken_out == 0 {
            let rendered =
                messages.iter().filter_map(|message| message.get("message")?.get("rendered")?.as_str());
            return Err(format!(
                "the tree with the mutants does not compile:\n{}",
                rendered.collect::<String>()
            ));
        }
    }
    Err("mutants still do not compile after all rounds: look at the last compiler \
        errors, then at xtask/src/mutants/build.rs"
        .to_owned())
}

/// Whether a mutant is left out of the tree: it has no switch, or does not compile.
fn out(found: &Found) -> bool {
    found.alone || found.outcome == Outcome::Unviable
}

/// Each file with its mutants, except the mutants that are left out ([`out`]).
fn switched(mutants: &[&Mutant], results: &mut Results) -> Result<BTreeMap<String, Switched>, String> {
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let mut all = BTreeMap::new();
    for (file, mutants) in by_file {
        let text =
            std::fs::read_to_string(xtask::root().join(file)).map_err(|why| format!("`{file}`: {why}"))?;
        let within: Vec<&Mutant> = mutants
            .iter()
            .copied()
            .filter(|mutant| results.of(mutant).is_none_or(|found| !out(found)))
            .collect();
        let switched = switch(&text, &within).map_err(|why| format!("`{file}`: {why}"))?;
        for mutant in within {
            let unviable = switched.unviable.contains(&mutant.id);
            if unviable || switched.alone.contains(&mutant.id) {
                let outcome = if unviable { Outcome::Unviable } else { Outcome::Alone };
                results.keep(mutant, Found { outcome, by: "no switch".into(), alone: !unviable })?;
            }
        }
        all.insert(file.to_owned(), switched);
    }
    Ok(all)
}

/// The mutants that cause errors of the compiler: for each, whether it would also fail to compile alone, and the error.
fn errors(
    messages: &[Value],
    switched: &BTreeMap<String, Switched>,
    by_id: &HashMap<u32, &Mutant>,
) -> Vec<(u32, bool, String)> {
    let mut found = Vec::new();
    for message in messages.iter().filter_map(|message| message.get("message")) {
        if message.get("level").and_then(Value::as_str) != Some("error") {
            continue;
        }
        let code =
            message.get("code").and_then(|code| code.get("code")).and_then(Value::as_str).unwrap_or_default();
        let text = message.get("message").and_then(Value::as_str).unwrap_or_default();
        for span in message.get("spans").and_then(Value::as_array).into_iter().flatten() {
            let number = |key: &str| usize::try_from(span.get(key)?.as_u64()?).ok();
            let file = span.get("file_name").and_then(Value::as_str).unwrap_or_default();
            let is_primary = span.get("is_primary").and_then(Value::as_bool) == Some(true);
            let (Some(begin), Some(end), Some(switched), true) =
                (number("byte_start"), number("byte_end"), switched.get(file), is_primary)
            else {
                continue;
            };
            let around = switched.places.iter().filter(|(range, _)| range.start <= begin && end <= range.end);
            let within = switched.places.iter().filter(|(range, _)| begin <= range.start && range.end <= end);
            let innermost = around
                .min_by_key(|(range, _)| range.len())
                .or_else(|| within.max_by_key(|(range, _)| range.len()));
            let Some((_, ids)) = innermost else { continue };
            for id in ids {
                let unviable =
                    ids.len() == 1 && by_id.get(id).is_some_and(|mutant| fails_alone(mutant, code));
                found.push((*id, unviable, format!("{code} {text}")));
            }
        }
    }
    found
}

/// Whether the compiler's error would also occur if the mutant were built alone, without a switch. The switch itself causes errors about moved and
/// borrowed bindings, about types that cannot be inferred, and about a match that is not exhaustive.
fn fails_alone(mutant: &Mutant, code: &str) -> bool {
    let of_switch = match mutant.genre {
        Genre::MatchArm => code == "E0004",
        _ => false,
    };
    let borrows =
        code.starts_with("E05") || ["E0373", "E0381", "E0382", "E0716", "E0282", "E0283"].contains(&code);
    !of_switch && !borrows
}

fn program(message: &Value) -> Option<Program> {
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    message.get("profile")?.get("test")?.as_bool().filter(|test| *test)?;
    let place = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let target = message.get("target")?.get("name")?.as_str()?;
    let manifest: toml::Table = std::fs::read_to_string(place.join("Cargo.toml")).ok()?.parse().ok()?;
    let package = manifest.get("package")?.get("name")?.as_str()?.to_owned();
    Some(Program { name: format!("{package} {target}"), package, path, place })
}
