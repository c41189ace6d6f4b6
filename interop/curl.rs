//! Runs curl and parses the response.

use crate::server::Server;
use std::process::Command;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and headers, without the date and the request id, which differ in each answer.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A curl command that trusts the server's certificate, with a time limit.
pub(crate) fn command(server: &Server, login: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "120", "--path-as-is", "--cacert"]);
    command.arg(server.certificate());
    if !login.is_empty() {
        command.args(["--user", login]);
    }
    command
}

pub(crate) fn curl(server: &Server, login: &str, path: &str, arguments: &[&str]) -> Answer {
    let output = command(server, login)
        .args(["--http1.1", "--include"])
        .args(arguments)
        .arg(server.url(path))
        .output()
        .expect("curl is needed");
    let errors = String::from_utf8_lossy(&output.stderr);
    parse(&output.stdout).unwrap_or_else(|| panic!("curl {path} {arguments:?}: {errors}\n{}", server.log()))
}

fn parse(mut bytes: &[u8]) -> Option<Answer> {
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
        bytes = &bytes[end + 4..];
        // 100 Continue precedes the response.
        if status == 100 {
            continue;
        }
        let is_own = |line: &&str| {
            ["date:", "x-request-id:"].iter().all(|name| !line.to_ascii_lowercase().starts_with(name))
        };
        let head = head.lines().filter(is_own).map(str::to_owned).collect();
        return Some(Answer { status, head, body: bytes.to_vec() });
    }
}

pub(crate) const PROPFIND_0: [&str; 4] = ["--request", "PROPFIND", "--header", "Depth: 0"];
pub(crate) const PROPFIND_1: [&str; 4] = ["--request", "PROPFIND", "--header", "Depth: 1"];
