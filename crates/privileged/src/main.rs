//! `enfilade-privileged`: the helper process. It has the capabilities that the server needs. It does not have a configuration. It reads no file
//! except `/etc/passwd`, and makes no network sockets except those that it gives to the server.

use enfilade_privileged::serve::serve;
use rustix::fd::OwnedFd;
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: enfilade-privileged --user NAME|UID [--port PORT]... [--socket PATH]

The helper of an Enfilade server: it has the capabilities that the server needs. It answers only processes that run as the user NAME or UID.
  --user    the user that the server runs as
  --port    a port below 1024 on which the server may listen; by default 80 and 443
  --socket  the path of the socket; by default, the service manager passes the socket
";
/// The maximum number of connections that wait until the helper accepts them.
const BACKLOG: i32 = 16;

struct Options {
    user: u32,
    ports: BTreeSet<u16>,
    socket: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        let _ = std::io::stdout().write_all(USAGE.as_bytes());
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let options = read(arguments)?;
    let socket = match &options.socket {
        Some(path) => listen_at(path)?,
        None => passed()?,
    };
    serve(&socket, options.user, &options.ports)
        .map_err(|why| format!("the helper cannot accept connections on its socket any more: {why}"))
}

fn read(arguments: &[String]) -> Result<Options, String> {
    let (mut user, mut ports, mut socket) = (None, BTreeSet::new(), None);
    let mut left = arguments.iter();
    while let Some(option) = left.next() {
        let value = left.next().ok_or_else(|| format!("`{option}` needs a value\n{USAGE}"))?;
        match option.as_str() {
            "--user" => {
                let of_machine = uid_of(value, Path::new("/etc/passwd"));
                user =
                    Some(of_machine.ok_or_else(|| format!("this machine has no user `{value}`: create it"))?);
            }
            "--port" => match value.parse() {
                Ok(port @ 1..1024) => drop(ports.insert(port)),
                _ => return Err(format!("`{value}` is not a port below 1024")),
            },
            "--socket" => socket = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option `{other}`\n{USAGE}")),
        }
    }
    if ports.is_empty() {
        ports = [80, 443].into();
    }
    Ok(Options { user: user.ok_or_else(|| format!("--user is missing\n{USAGE}"))?, ports, socket })
}

/// The number of a user in `/etc/passwd` (passwd(5)). If `user` is not the name of an entry, but a number, this number is returned.
fn uid_of(user: &str, accounts: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(accounts).unwrap_or_default();
    let named = text.lines().find(|line| line.split(':').next() == Some(user));
    named.and_then(|line| line.split(':').nth(2)?.parse().ok()).or_else(|| user.parse().ok())
}

/// Listens at a path. The umask of this process decides which users can connect; [`serve`] closes the connections of all users except the user of the
/// server.
fn listen_at(path: &Path) -> Result<OwnedFd, String> {
    let failed = |why: rustix::io::Errno| format!("cannot listen at `{}`: {why}", path.display());
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    bind(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    listen(&socket, BACKLOG).map_err(failed)?;
    Ok(socket)
}

/// The socket that the service manager has opened: standard input (`StandardInput=socket`, systemd.exec(5)).
fn passed() -> Result<OwnedFd, String> {
    let input = std::io::stdin();
    match socket_acceptconn(&input) {
        Ok(true) => input.as_fd().try_clone_to_owned().map_err(|why| why.to_string()),
        _ => Err(format!(
            "standard input is not a listening socket: start the helper with its systemd unit, or give --socket\n{USAGE}"
        )),
    }
}
