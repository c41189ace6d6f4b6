//! `cargo xtask judges`: runs tests and conformance testers of other projects against the server. Each tester is installed into a separate directory.
//! The results are stored in `bench/runs`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The judges of one command. A judge has a name and a time limit, in seconds. `interop/judges/NAME.sh` installs and runs the judge, and
/// selects its findings: the last line of its output is JSON with `version`, `passed`, `skipped`, `failed` and `notes`.
struct Group {
    name: &'static str,
    /// Settings of the server, as environment variables.
    settings: &'static [(&'static str, &'static str)],
    judges: &'static [(&'static str, u32)],
}

const GROUPS: [Group; 2] = [
    Group {
        name: "wire",
        settings: &[],
        judges: &[
            ("h2spec", 300),
            ("litmus", 120),
            ("records", 300),
            ("rclone", 900),
            ("sslyze", 300),
            ("testssl", 600),
            ("webdav4", 300),
        ],
    },
    Group {
        name: "identity",
        // Many cases send a wrong password from the same address. With penalties, the server would block this address. The tests expect the other
        // settings, which are rules for passwords and locks.
        settings: &[
            ("ENFILADE_IDENTITY__PENALTIES", "false"),
            ("ENFILADE_IDENTITY__LOCKOUT_FAILURES", "3"),
            ("ENFILADE_IDENTITY__LOCKOUT_DURATION", "5s"),
            ("ENFILADE_PASSWORDS__UNLIKE_LAST", "2"),
        ],
        judges: &[("tempest", 3_600), ("keystone_plugin", 14_400)],
    },
];

/// Whether there is a group of judges of this name.
pub(crate) fn knows(name: &str) -> bool {
    GROUPS.iter().any(|group| group.name == name)
}

/// Runs all judges, or the named judges. With `--binary PATH`, the judges test this program, and no program is built.
pub(crate) fn run(group: &str, words: &[&str]) -> Result<(), String> {
    let group = GROUPS.iter().find(|one| one.name == group).ok_or("no such judges")?;
    let (mut binary, mut wanted) = (None, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--binary" => binary = Some(PathBuf::from(words.next().ok_or("`--binary` needs a path")?)),
            name if group.judges.iter().any(|(known, _)| *known == name) => wanted.push(name),
            other => {
                let names: Vec<_> = group.judges.iter().map(|(name, _)| *name).collect();
                return Err(format!("no judge `{other}`; known are {}", names.join(", ")));
            }
        }
    }
    let binary = binary.map_or_else(build, Ok)?;
    // The path is made absolute, because a judge runs in another working directory.
    let binary = std::path::absolute(&binary).map_err(|why| format!("`{}`: {why}", binary.display()))?;
    let scratch = std::env::temp_dir().join(format!("enfilade-judges-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|why| format!("`{}`: {why}", scratch.display()))?;
    let said = judge(group, &binary, &scratch, &wanted);
    let _ = std::fs::remove_dir_all(&scratch);
    let (rows, failed) = said?;
    let record = keep(group.name, &rows)?;
    println!("kept in {}", record.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("judges: {} found something", failed.join(", "))) }
}

fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let status = command.args(["build", "--release", "-p", "enfilade"]).current_dir(xtask::root()).status();
    match status.is_ok_and(|status| status.success()) {
        true => Ok(xtask::root().join("target/release/enfilade")),
        false => Err("the build failed".to_owned()),
    }
}

/// Runs the judges. Returns each result as a line of JSON, and the judges with findings.
fn judge(
    group: &Group,
    binary: &Path,
    scratch: &Path,
    wanted: &[&str],
) -> Result<(Vec<String>, Vec<String>), String> {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (name, seconds) in group.judges.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name))
    {
        println!("==> {name}");
        // Each judge gets a new server, so that remains of one judge, such as locks, do not affect the next judge.
        let place = scratch.join(name);
        let server = Server::start(binary, &place, group.settings)?;
        let output = Command::new("timeout")
            .args([&seconds.to_string(), "sh"])
            .arg(xtask::root().join(format!("interop/judges/{name}.sh")))
            .env("JUDGES", xtask::root().join("interop/judges"))
            .env("SCRATCH", place.join("judge"))
            .env("KEPT", xtask::root().join("target/judges"))
            .env("BINARY", binary)
            .env("DATA", place.join("data"))
            .env("STORE", place.join("data/datastores/main"))
            .env("ADDRESS", &server.address)
            .env("PLAIN", &server.plain)
            .env("LOGIN", "admin@local")
            .env("PASSWORD", &server.password)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|why| format!("{name}: {why}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let row = said.lines().last().filter(|line| line.starts_with("{\""));
        let row = row.unwrap_or("{\"failed\":1,\"notes\":\"it did not run\"}").replacen('{', "", 1);
        println!("{row}");
        rows.push(format!("{{\"judge\":\"{name}\",{row}"));
        if !output.status.success() {
            failed.push((*name).to_owned());
        }
    }
    Ok((rows, failed))
}

/// A running server, killed when dropped.
struct Server {
    child: Child,
    address: String,
    plain: String,
    password: String,
}

impl Server {
    fn start(binary: &Path, place: &Path, settings: &[(&str, &str)]) -> Result<Self, String> {
        let failed = |why: &dyn std::fmt::Display| format!("`{}`: {why}", binary.display());
        std::fs::create_dir_all(place).map_err(|why| failed(&why))?;
        let log = std::fs::File::create(place.join("log")).map_err(|why| failed(&why))?;
        let mut child = Command::new(binary)
            .args(["--json", "--data"])
            .arg(place.join("data"))
            .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
            .env("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|why| failed(&why))?;
        let mut told = String::new();
        if let Some(out) = child.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut told);
        }
        let (address, plain) = (value(&told, "listen"), value(&told, "plain_listen"));
        let server = Server { child, address, plain, password: value(&told, "password") };
        if server.address.is_empty() || server.plain.is_empty() {
            return Err(failed(&"the server did not start"));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The string value of a key in a line of JSON. The value must not contain escapes.
fn value(json: &str, key: &str) -> String {
    let rest = json.split_once(&format!("\"{key}\":\"")).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

/// Writes the results to a new file in `bench/runs`. Never overwrites an existing file.
fn keep(group: &str, rows: &[String]) -> Result<PathBuf, String> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(xtask::root()).output();
        let output = output.map_err(|why| format!("`{program}` cannot be run: {why}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (date, commit) = (said("date", &["+%F"])?, said("git", &["rev-parse", "--short", "HEAD"])?);
    let text = format!(
        "{{\"judges\":\"{group}\",\"date\":\"{date}\",\"commit\":\"{commit}\",\"rows\":[\n{}\n]}}\n",
        rows.join(",\n")
    );
    let runs = xtask::root().join("bench/runs");
    let names = std::iter::once(String::new()).chain((2..).map(|n| format!("-{n}")));
    let mut paths = names.map(|nth| runs.join(format!("{date}-judges-{group}{nth}.json")));
    let path = paths.find(|path| !path.exists()).ok_or("no name is free")?;
    std::fs::write(&path, text).map_err(|why| format!("`{}`: {why}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_judge_has_its_script() {
        for (name, _) in GROUPS.iter().flat_map(|group| group.judges) {
            assert!(xtask::root().join(format!("interop/judges/{name}.sh")).is_file(), "{name}");
        }
        assert_eq!(value(r#"{"a":"b","listen":"127.0.0.1:1","x":null}"#, "listen"), "127.0.0.1:1");
        assert_eq!(value(r#"{"listen":null}"#, "listen"), "");
    }
}
