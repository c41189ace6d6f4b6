//! The client of the comparison: raw requests, and curl for TLS.

use super::Peer;
use crate::Failure;
use crate::stopwatch::now;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// Sends requests with curl, over http or https. The responses must be successful; their bodies are discarded.
pub(crate) fn curl(peer: &Peer, arguments: &[&str], path: &str, scheme: &str) -> Result<(), Failure> {
    let address = if scheme == "https" { peer.tls } else { peer.address };
    let url = format!("{scheme}://{address}{}{path}", peer.base);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--insecure", "--http1.1", "--header", &peer.header])
        .stdout(std::process::Stdio::null())
        .args(arguments)
        .arg(url)
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: curl: {}", peer.name, String::from_utf8_lossy(&output.stderr)).into()),
    }
}

pub(crate) fn request(peer: &Peer, method: &str, path: &str, headers: &str, bytes: usize) -> Vec<u8> {
    format!(
        "{method} {}{path} HTTP/1.1\r\nHost: {}\r\n{}\r\n{headers}Content-Length: {bytes}\r\n\r\n",
        peer.base, peer.address, peer.header
    )
    .into_bytes()
}

pub(crate) fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a PROPFIND. Returns the milliseconds to the first byte, and the number of received bytes.
pub(crate) fn propfind(peer: &Peer, path: &str, body: &str) -> Result<(f64, usize), Failure> {
    let mut stream = connect(peer.address)?;
    let mut request = request(peer, "PROPFIND", path, "Depth: 1\r\nConnection: close\r\n", body.len());
    request.extend_from_slice(body.as_bytes());
    let began = now();
    stream.write_all(&request)?;
    let (mut buffer, mut all, mut first) = (vec![0; 256 * 1024], 0, None);
    let mut head = Vec::new();
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        first.get_or_insert_with(|| began.elapsed().as_secs_f64() * 1e3);
        if head.len() < 12 {
            head.extend_from_slice(buffer.get(..count).unwrap_or_default());
        }
        all += count;
    }
    match head.starts_with(b"HTTP/1.1 207") {
        true => Ok((first.unwrap_or(f64::NAN), all)),
        false => Err(format!("{}: {}", peer.name, String::from_utf8_lossy(&head)).into()),
    }
}

/// The status of a response with Content-Length, and the length of its body, which is discarded.
pub(crate) fn answer(stream: &mut impl Read, buffer: &mut [u8]) -> Result<(u16, usize), String> {
    let mut filled = 0;
    loop {
        let count =
            stream.read(buffer.get_mut(filled..).unwrap_or_default()).map_err(|why| why.to_string())?;
        if count == 0 {
            return Err("the server hung up".to_owned());
        }
        filled += count;
        let so_far = buffer.get(..filled).unwrap_or_default();
        let Some(end) = so_far.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(so_far.get(..end).unwrap_or_default()).to_ascii_lowercase();
        let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or("no status")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length: usize = length.unwrap_or(0);
        let mut left = length.saturating_sub(filled - end - 4);
        while left > 0 {
            let most = left.min(buffer.len());
            let count =
                stream.read(buffer.get_mut(..most).unwrap_or_default()).map_err(|why| why.to_string())?;
            if count == 0 {
                return Err("the server hung up".to_owned());
            }
            left -= count;
        }
        return Ok((status, length));
    }
}
