//! `enfilade ready`.

use crate::config::Config;
use crate::output;
use anyhow::{Context, bail};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

/// The maximum time for each step of the server: to accept the connection, and to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The maximum length of the answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 10;
const QUESTION: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Asks `/readyz` at the configured address.
pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let address = config.operations.listen.for_client();
    let answer = ask(&address).with_context(|| {
        format!(
            "no server answers at {address} (`[operations] listen`): start the server, or give this command the configuration of the server"
        )
    })?;
    let Some((status, says)) = parse(&answer) else {
        bail!(
            "{address} (`[operations] listen`) does not answer as an Enfilade server: another program may listen there"
        );
    };
    let is_ready = status == 200;
    output::done(json, &json!({ "ready": is_ready, "says": says }), says);
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ask(address: &str) -> std::io::Result<String> {
    let mut last = std::io::Error::other("the host name has no IP address");
    for place in address.to_socket_addrs()? {
        match ask_at(&place) {
            Ok(answer) => return Ok(answer),
            Err(why) => last = why,
        }
    }
    Err(last)
}

fn ask_at(place: &std::net::SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(place, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(QUESTION)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The status and the first line of the body.
fn parse(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, body.lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_parsed_and_another_protocol_is_none() {
        assert_eq!(parse("HTTP/1.1 503 x\r\nA: b\r\n\r\nfacts\nmore"), Some((503, "facts")));
        assert_eq!(parse("HTTP/1.1 200 OK\r\n\r\n"), Some((200, "")));
        for other in ["", "SSH-2.0-x\r\n", "HTTP/1.1 2\r\n\r\n", "HTTP/1.1 \u{e9}\u{e9}\r\n\r\n"] {
            assert_eq!(parse(other), None, "{other:?}");
        }
    }
}
