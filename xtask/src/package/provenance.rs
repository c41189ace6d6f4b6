//! Where the files of a release come from: a statement of in-toto with the provenance of SLSA.

use super::{Package, run_one, sha256};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// The statement about these files.
pub(super) fn of(package: &Package, files: &[PathBuf]) -> Result<String, String> {
    let text = |command: &mut Command| {
        let printed = run_one(command.current_dir(&package.root))?;
        Ok::<_, String>(String::from_utf8_lossy(&printed).trim().to_owned())
    };
    let commit = text(Command::new("git").args(["rev-parse", "HEAD"]))?;
    let changed = text(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"]))?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiler = text(Command::new(rustc).arg("--version"))?;
    let mut subjects = Vec::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        subjects.push(json!({ "name": name, "digest": { "sha256": sha256(path)? } }));
    }
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://enfilade.invalid/packaging#cargo-xtask-package",
                "externalParameters": { "command": "cargo xtask package" },
                // Changes that were not committed make the files impossible to build again.
                "internalParameters": { "compiler": compiler, "uncommitted_changes": !changed.is_empty() },
                "resolvedDependencies": [
                    { "name": "source", "digest": { "gitCommit": commit } },
                    { "name": "Cargo.lock", "digest": { "sha256": sha256(&package.root.join("Cargo.lock"))? } },
                ],
            },
            "runDetails": { "builder": { "id": "https://enfilade.invalid/packaging#maintainer" } },
        },
    });
    serde_json::to_string_pretty(&statement).map(|text| text + "\n").map_err(|why| why.to_string())
}
