//! `enfilade support-bundle`: writes one file with data for the examination of a problem. The command also works if no server runs, or if the
//! configuration or the facts cannot be read.

use crate::{clock, home, output};
use anyhow::Context;
use enfilade_sources::support::write_archive;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The commands of this program with output in the bundle, each with the name of the file for the output. The output contains no secrets.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("doctor", &["doctor"]),
    ("config", &["config", "show"]),
    ("facts", &["facts", "status"]),
    ("certificates", &["certs", "list"]),
    ("datastores", &["datastore", "list"]),
    ("fleet", &["fleet", "status"]),
];

/// The files of the operating system that are copied into the bundle.
const FILES: [&str; 6] = [
    "/etc/os-release",
    "/proc/version",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/self/mountinfo",
    "/sys/kernel/security/lsm",
];

/// The properties of the systemd unit that the bundle contains. The environment of the unit is not among them, because it can contain secrets.
const UNIT: &str = "ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainStartTimestamp,MemoryCurrent,TasksCurrent,FragmentPath,DropInPaths";

/// The maximum time for one item of the bundle. The reason for the limit: a check of a file system that does not answer may never end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which a running command is checked.
const LOOK: Duration = Duration::from_millis(50);
/// The maximum number of bytes of one item of the bundle.
const BYTES_MAX: u64 = 16 << 20;

const README: &str = "What is needed to examine a problem of an Enfilade server.\n\n\
    *.json         the output of commands of enfilade, and what they said on standard error\n\
    metrics.txt    the metrics of the running server\n\
    log.txt        the newest lines of the journal of the unit enfilade\n\
    unit.txt       the state of the unit\n\
    system/        files of the system\n\n\
    There are no passwords, secrets of tokens, keys, facts or files of datastores in it. There are names of users, datastores, files and machines, and addresses of\n\
    clients. Look at it before you give it to somebody.\n";

/// Writes the bundle to `file`. `log_lines` is the number of lines of the log in the bundle.
pub(super) fn run(
    data: Option<PathBuf>,
    config: Option<&Path>,
    (file, log_lines): (&Path, u32),
    as_json: bool,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        !file.exists(),
        "`{}` is there already, and nothing was written: give another name",
        file.display()
    );
    let data = home::data_directory(data)?;
    let own = std::env::current_exe().context("the path of this program cannot be read")?;
    let mut texts = vec![("README.txt".to_owned(), README.as_bytes().to_vec())];
    for (name, words) in COMMANDS {
        output::note(&format!("enfilade {}", words.join(" ")));
        let mut command = Command::new(&own);
        command.args(["--json", "--data"]).arg(&data);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        texts.push((format!("{name}.json"), printed(command.args(words))));
    }
    texts.push(("metrics.txt".to_owned(), metrics(&data, config)));
    let mut journal = Command::new("journalctl");
    journal.args(["--unit", "enfilade", "--no-pager", "--output", "short-iso", "--lines"]);
    texts.push(("log.txt".to_owned(), printed(journal.arg(log_lines.to_string()))));
    let mut unit = Command::new("systemctl");
    texts.push(("unit.txt".to_owned(), printed(unit.args(["show", "enfilade", "--property", UNIT]))));
    for path in FILES {
        let text = std::fs::read(path).unwrap_or_else(|why| format!("{why}\n").into_bytes());
        texts.push((format!("system{path}"), text));
    }
    let now = clock::now().unix_seconds;
    write_archive(file, u64::try_from(now).unwrap_or(0), &texts)
        .with_context(|| format!("`{}` cannot be written", file.display()))?;
    let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    let text = format!(
        "{} contains {} files. They contain no secrets, but names of users, files and machines. Read the files before you give the archive to \
         somebody: tar xf {}",
        file.display(),
        names.len(),
        output::word(&file.display().to_string())
    );
    output::done(as_json, &json!({ "file": file.display().to_string(), "texts": names }), &text);
    Ok(())
}

/// The text that a command writes to standard output and standard error, and the exit status of the command.
fn printed(command: &mut Command) -> Vec<u8> {
    let failed = |why: std::io::Error| format!("cannot be run: {why}\n").into_bytes();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(why) => return failed(why),
    };
    let reader = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.map(|pipe| pipe.take(BYTES_MAX).read_to_end(&mut text));
            text
        })
    };
    let out = reader(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = reader(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let mut waited = Duration::ZERO;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break format!("{status}\n"),
            Ok(None) if waited < PATIENCE => {
                std::thread::park_timeout(LOOK);
                waited += LOOK;
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                break format!("killed after {} s\n", PATIENCE.as_secs());
            }
            Err(why) => return failed(why),
        }
    };
    let mut text = out.join().unwrap_or_default();
    text.extend(err.join().unwrap_or_default());
    text.extend(ended.into_bytes());
    text
}

/// The metrics of the running server, or the reason why there are none.
fn metrics(data: &Path, config: Option<&Path>) -> Vec<u8> {
    let read = || {
        let config = home::config_of(Some(data.to_owned()), config)?;
        let text = config.operations.listen.for_client();
        let address = text.to_socket_addrs()?.next().context("`[operations] listen` has no IP address")?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("no server answers on {text}"))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(BYTES_MAX).read_to_end(&mut answer)?;
        Ok::<_, anyhow::Error>(answer)
    };
    read().unwrap_or_else(|why| format!("{why:#}\n").into_bytes())
}
