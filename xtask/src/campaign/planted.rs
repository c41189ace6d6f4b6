//! Plants faults in a copy of the source. The campaign `nemesis`, which disturbs a fleet and checks its answers, must find each fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The name of the campaign.
pub(super) const NAME: &str = "planted";

/// A rule of docs/fleet-protocol.md that is left out in the copy.
struct Fault {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const FAULTS: [Fault; 4] = [
    Fault {
        name: "the time of a proof is noted after the answer (rule 2)",
        file: "crates/fleet/src/server.rs",
        from: "self.state.prove(question, asked);",
        to: "let _ = asked; self.state.prove(question, (self.clock)());",
    },
    Fault {
        name: "no member is waited for (rule 5)",
        file: "crates/fleet/src/replica.rs",
        from: "lacking.retain(|id| Some(id.as_str()) != own);",
        to: "let _ = own; lacking.clear();",
    },
    Fault {
        name: "a member without a registration gets a proof (rule 6)",
        file: "crates/fleet/src/registration.rs",
        from: "self.etcd().transact(is_own, reads)",
        to: "{ drop(is_own); self.etcd().transact(Vec::new(), reads) }",
    },
    Fault {
        name: "a member reports directly a change that it has not applied (rule 5)",
        file: "crates/fleet/src/server.rs",
        from: "self.direct.tell(self.replica.applied());",
        to: "self.direct.tell(Revision(self.replica.applied().0 + 1));",
    },
];

/// Plants each fault, and runs the nemesis test on the changed copy for at most `n` seconds. Returns whether all faults were found, and a line for
/// each fault.
#[expect(clippy::disallowed_methods, reason = "the record says after how long each fault was found")]
pub(super) fn run(n: u64, seed: Option<u64>) -> Result<(bool, Vec<String>), String> {
    let place = xtask::root().join("target/planted");
    let (mut all, mut lines) = (true, Vec::new());
    for fault in &FAULTS {
        copy_of("HEAD", &place)?;
        plant(&place, fault)?;
        eprintln!("{}: building", fault.name);
        let test = ["test", "--workspace", "--test", "interop"];
        let built = cargo(&place).args(test).arg("--no-run").status();
        if !built.is_ok_and(|status| status.success()) {
            return Err(format!("{}: the copy cannot be built; correct the replacement", fault.name));
        }
        let mut nemesis = cargo(&place);
        nemesis.args(test).args(["fleet::nemesis", "--", "--nocapture"]);
        nemesis.env("ENFILADE_CAMPAIGN_N", n.to_string()).env("RUST_BACKTRACE", "0");
        if let Some(seed) = seed {
            nemesis.env("ENFILADE_CAMPAIGN_SEED", seed.to_string());
        }
        let began = Instant::now();
        let output = nemesis.output().map_err(|why| format!("cargo cannot be run: {why}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let found = text.lines().find(|line| line.starts_with("stale: ") || line.starts_with("lost: "));
        all &= found.is_some();
        let what = match found {
            Some(line) => format!("found after {} s: {line}", began.elapsed().as_secs()),
            None => format!("not found in {n} s"),
        };
        println!("planted: {}: {what}", fault.name);
        lines.push(format!("{}: {what}", fault.name));
    }
    Ok((all, lines))
}

/// Makes a copy of this commit in `place`, or changes the files of an existing copy to this commit.
pub(super) fn copy_of(commit: &str, place: &Path) -> Result<(), String> {
    let git = |arguments: &[&str], at: &Path| {
        let status = Command::new("git").args(arguments).current_dir(at).status();
        let is_done = status.is_ok_and(|status| status.success());
        is_done.then_some(()).ok_or_else(|| format!("git {} failed", arguments.join(" ")))
    };
    let root = xtask::root();
    let source = root.to_string_lossy();
    if !place.join(".git").exists() {
        git(&["clone", "--quiet", &source, &place.to_string_lossy()], &root)?;
    }
    git(&["fetch", "--quiet", &source, commit], place)?;
    git(&["reset", "--quiet", "--hard", "FETCH_HEAD"], place)
}

fn plant(place: &Path, fault: &Fault) -> Result<(), String> {
    let path: PathBuf = place.join(fault.file);
    let text = fs::read_to_string(&path).map_err(|why| format!("`{}`: {why}", path.display()))?;
    if text.matches(fault.from).count() != 1 {
        return Err(format!("{}: expected `{}` once in `{}`", fault.name, fault.from, fault.file));
    }
    fs::write(&path, text.replace(fault.from, fault.to)).map_err(|why| format!("`{}`: {why}", path.display()))
}

pub(super) fn cargo(place: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(place).env("CARGO_TARGET_DIR", place.join("target"));
    command
}

#[cfg(test)]
mod tests {
    use super::FAULTS;

    #[test]
    fn each_fault_can_be_planted_in_this_source() {
        for fault in &FAULTS {
            let text = std::fs::read_to_string(xtask::root().join(fault.file)).unwrap();
            assert_eq!(
                text.matches(fault.from).count(),
                1,
                "{}: `{}` in `{}`",
                fault.name,
                fault.from,
                fault.file
            );
        }
    }
}
