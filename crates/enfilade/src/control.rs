//! Lets commands ask the running servers of a data directory about state that exists only in the memory of the servers.
//!
//! Each server listens on a Unix socket in the directory `control`. The mode of the socket admits the owner of the data directory, and the group of
//! `[facts] group`. A client sends one line of JSON, and the server answers with one line of JSON.

use crate::confinement::Confinement;
use crate::output;
use anyhow::{Context, ensure};
use enfilade_passage::{House, Penalty};
use enfilade_sources::files::directory;
use enfilade_sources::processes::PROCESSES_MAX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server waits for the request line of a client, and how long a client waits for the response line of a server.
const PATIENCE: Duration = Duration::from_secs(5);
const QUESTION_BYTES_MAX: u64 = 4_096;
/// The maximum length of an answer, in bytes. A full table of penalties is shorter.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A question to a server.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// Asks which addresses and names are delayed or refused after failed logins.
    Penalties,
    /// Tells the server to forget the failures of an address or a name, or all failures (`None`). The answer lists the addresses and names that were
    /// delayed or refused.
    Clear(Option<String>),
    /// Asks at which addresses clients on this machine reach the server with HTTPS.
    Addresses,
    /// Asks how the server has limited the files, ports and system calls that it can use ([`Confinement`]).
    Limits,
}

/// An address, network or name that is delayed or refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) struct Penalised {
    /// The address, network or name.
    pub(crate) subject: String,
    /// `refused`, or `delayed`.
    pub(crate) state: String,
    /// The number of failures in the last minute.
    pub(crate) failures: u32,
    /// The time at which the delay or refusal ends, in seconds since the epoch.
    pub(crate) until: i64,
    /// The process id of the server.
    pub(crate) server: u32,
}

/// Starts the thread that answers commands. If no control socket can be opened, the server still runs, but commands cannot query the server.
///
/// `about` contains the addresses for HTTPS, and the limits of this process.
pub(crate) fn follow(
    data: &Path,
    group: Option<u32>,
    house: &Arc<House>,
    about: (Vec<String>, Confinement),
) -> anyhow::Result<()> {
    let directory = place(data);
    let listener = match listen(&directory, group) {
        Ok(listener) => listener,
        Err(why) => {
            output::note(&format!(
                "warning: this server has no control socket, so the command `enfilade penalties` cannot query this server: {why:#}; correct the \
                 cause, then restart this server"
            ));
            return Ok(());
        }
    };
    let house = Arc::clone(house);
    std::thread::Builder::new().name("control".into()).spawn(move || {
        for stream in listener.incoming() {
            // An error is ignored, because it affects only the client of this connection.
            match stream {
                Ok(stream) => drop(answer(&stream, &house, &about)),
                Err(_) => std::thread::park_timeout(PATIENCE),
            }
        }
    })?;
    Ok(())
}

fn place(data: &Path) -> PathBuf {
    data.join("control")
}

/// Finds the first socket in the directory that no other server uses, and listens on this socket.
fn listen(directory: &Path, group: Option<u32>) -> anyhow::Result<UnixListener> {
    let at = || format!("`{}` cannot be used", directory.display());
    directory::make_for(directory, group).with_context(at)?;
    // The lock lets only one server at a time choose a socket. The lock is released when the file is closed.
    let turn = directory::open_for(&directory.join("turn"), group, |path| {
        File::options().write(true).create(true).truncate(false).open(path)
    });
    turn.and_then(|turn| turn.lock().map(|()| turn)).and_then(|_turn| bind(directory, group)).with_context(at)
}

fn bind(directory: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let opened = File::open(directory)?;
    for number in 0..PROCESSES_MAX {
        let path = directory.join(number.to_string());
        match UnixStream::connect(short(&opened, number)) {
            Ok(_) => continue,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            // The socket is left over from a server that has ended.
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(&path)?,
            Err(_) => continue,
        }
        let listener = UnixListener::bind(short(&opened, number))?;
        directory::share_file(&path, group)?;
        return Ok(listener);
    }
    Err(io::Error::other(format!(
        "{PROCESSES_MAX} servers already have a socket in this directory, which is the maximum"
    )))
}

/// A path of a socket through `/proc/self/fd`. This path is short enough for a socket address, even if the path of the directory is long.
fn short(directory: &File, number: usize) -> String {
    format!("/proc/self/fd/{}/{number}", directory.as_raw_fd())
}

fn answer(
    stream: &UnixStream,
    house: &House,
    (addresses, limits): &(Vec<String>, Confinement),
) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let (now, penalties) = (house.now(), house.penalties());
    let mut writer = stream;
    let found = match serde_json::from_str(&line)? {
        Question::Penalties => penalties.list(now),
        Question::Clear(subject) => penalties.clear(subject.as_deref(), now),
        Question::Addresses => return Ok(writeln!(writer, "{}", serde_json::to_string(addresses)?)?),
        Question::Limits => return Ok(writeln!(writer, "{}", serde_json::to_string(&[limits])?)?),
    };
    let shown = |one: Penalty| Penalised {
        subject: one.subject.to_string(),
        state: if one.is_refused { "refused" } else { "delayed" }.to_owned(),
        failures: one.failures,
        until: now.unix_seconds.saturating_add(i64::try_from(one.left.as_secs()).unwrap_or(i64::MAX)),
        server: std::process::id(),
    };
    let all: Vec<Penalised> = found.into_iter().map(shown).collect();
    writeln!(writer, "{}", serde_json::to_string(&all)?)?;
    Ok(())
}

/// Asks every running server of the data directory. Returns the answers, sorted.
///
/// # Errors
/// Fails if no server runs. Also fails if a server does not answer, because then its penalties are unknown.
pub(crate) fn ask(data: &Path, question: &Question) -> anyhow::Result<Vec<Penalised>> {
    ask_all(data, question)
}

/// The addresses for HTTPS of every running server of the data directory, for clients on this machine.
///
/// # Errors
/// Fails in the same cases as [`ask`].
pub(crate) fn addresses(data: &Path) -> anyhow::Result<Vec<String>> {
    ask_all(data, &Question::Addresses)
}

/// The limits of every running server of the data directory.
///
/// # Errors
/// Fails in the same cases as [`ask`].
pub(crate) fn limits(data: &Path) -> anyhow::Result<Vec<Confinement>> {
    ask_all(data, &Question::Limits)
}

/// The directories in which every running server of the data directory can open content of datastores. Each directory is given by its device and
/// inode. Servers that can open content in all directories are ignored. `None` if no running server limits these directories, or if the servers
/// cannot be asked.
pub(crate) fn openable(data: &Path) -> Option<BTreeSet<(u64, u64)>> {
    let servers = limits(data).unwrap_or_default();
    let openable = servers.into_iter().filter_map(|server| server.openable);
    openable.reduce(|of_one, of_other| of_one.intersection(&of_other).copied().collect())
}

fn ask_all<T: DeserializeOwned + Ord>(data: &Path, question: &Question) -> anyhow::Result<Vec<T>> {
    let directory = place(data);
    let mut all = Vec::new();
    let mut servers = 0;
    let no_server = || {
        format!(
            "no server runs with the data directory `{}`; start a server first, because only a running server can answer this question",
            data.display()
        )
    };
    let opened = match File::open(&directory) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => anyhow::bail!(no_server()),
        opened => opened.with_context(|| {
            format!(
                "`{}` cannot be opened; run this command as the Linux user that runs the server",
                directory.display()
            )
        })?,
    };
    for number in 0..PROCESSES_MAX {
        let stream = match UnixStream::connect(short(&opened, number)) {
            Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                continue;
            }
            stream => stream,
        };
        let asked = stream.map_err(anyhow::Error::from).and_then(|stream| ask_one(&stream, question));
        let socket = directory.join(number.to_string());
        all.extend(asked.with_context(|| format!("the server at `{}` does not answer", socket.display()))?);
        servers += 1;
    }
    ensure!(servers > 0, no_server());
    all.sort();
    Ok(all)
}

fn ask_one<T: DeserializeOwned>(mut stream: &UnixStream, question: &Question) -> anyhow::Result<Vec<T>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    writeln!(stream, "{}", serde_json::to_string(question)?)?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
