//! The cases over HTTP/1.1 without TLS. There are fewer cases for the listeners that only serve plain HTTP.

use super::{Case, PATIENCE, World, unescaped};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

#[test]
fn every_request_of_the_corpus_over_http1() {
    let world = World::new();
    let listener = Listener { address: &world.server.plain, path: "/.well-known/enfilade", status: 200 };
    world.run(include_str!("http1.cases"), 290, |world, at, case| came(world, &listener, at, case));
}

#[test]
fn every_listener_holds_heads_to_the_same() {
    let world = World::new();
    for listener in [
        Listener { address: &world.server.plain, path: "/.well-known/enfilade", status: 200 },
        Listener { address: &world.server.http, path: "/anything?x", status: 308 },
        Listener { address: &world.server.operations, path: "/livez", status: 200 },
    ] {
        let corpus = include_str!("listeners.cases").replace("{s}", &listener.status.to_string());
        world.run(&corpus, 20, |world, at, case| came(world, &listener, at, case));
    }
}

/// A listener, a public path of it, and the status of a request for this path.
struct Listener<'w> {
    address: &'w str,
    path: &'w str,
    status: u16,
}

fn came(world: &World, listener: &Listener<'_>, at: usize, case: &Case) -> String {
    let text = case
        .sent
        .replace("{w}", listener.path)
        .replace("{H}", "Host: x~")
        .replace("{A}", &format!("Authorization: {}~", world.credential()));
    let sent = unescaped(&world.filled(at, &text).replace('~', "\r\n"));
    let mut words: Vec<&str> = case.expected.split(' ').collect();
    let end = words.pop().unwrap();
    let stream = TcpStream::connect(listener.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut from, mut to) =
        (Answers { stream: stream.try_clone().unwrap(), bytes: Vec::new(), is_over: false }, stream);
    // An error is ignored: the server may close the connection before it has read everything.
    let _ = to.write_all(&sent);
    let probe = format!("GET {} HTTP/1.1\r\nHost: probe\r\n\r\n", listener.path);
    let is_head = sent.starts_with(b"HEAD ");
    let (mut said, mut last) = (Vec::new(), None);
    for (nth, word) in words.iter().enumerate() {
        let heads_only = is_head || (nth > 0 && nth + 1 == words.len() && case.sent.contains("~HEAD "));
        let Some(answer) = from.next(heads_only) else { break };
        let is_bare = word.ends_with('-') && answer.content == 0;
        said.push(format!("{}{}", answer.status, if is_bare { "-" } else { "" }));
        last = Some(answer);
    }
    said.push(match end {
        "open" => match to.write_all(probe.as_bytes()).ok().and_then(|()| from.next(false)) {
            Some(answer) if answer.status == listener.status => "open".to_owned(),
            Some(answer) => format!("open, but status {} for the next request", answer.status),
            None if from.is_over => "closed".to_owned(),
            None => "silent".to_owned(),
        },
        _ => match from.next(false) {
            Some(answer) => format!("{} more", answer.status),
            None if !from.is_over => "silent".to_owned(),
            None if last.is_some_and(|answer| answer.says_close) => "closed".to_owned(),
            None => "cut".to_owned(),
        },
    });
    said.join(" ")
}

struct Answer {
    status: u16,
    says_close: bool,
    content: usize,
}

struct Answers {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Whether the connection has ended.
    is_over: bool,
}

impl Answers {
    /// The next answer. Returns `None` if the connection ends or no answer comes.
    fn next(&mut self, is_of_head: bool) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let head: Vec<u8> = self.bytes.drain(..end).collect();
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
        let value = |name: &str| {
            let field =
                head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned));
            field.unwrap_or_default()
        };
        let is_bare = is_of_head || status < 200 || status == 204 || status == 304;
        let content = match (is_bare, value("transfer-encoding").as_str()) {
            (true, _) => 0,
            (false, "chunked") => self.chunks()?,
            (false, _) => {
                let length = value("content-length").parse().unwrap_or(0);
                while self.bytes.len() < length {
                    self.more()?;
                }
                self.bytes.drain(..length);
                length
            }
        };
        // The end of the connection after an answer of HTTP/1.0 needs no header.
        let says_close = value("connection") == "close" || head.starts_with("http/1.0 ");
        Some(Answer { status, says_close, content })
    }

    /// Reads a chunked body to its end. Returns its number of bytes, including the lines between the chunks.
    fn chunks(&mut self) -> Option<usize> {
        loop {
            if let Some(at) = self.bytes.windows(5).position(|five| five == b"0\r\n\r\n") {
                self.bytes.drain(..at + 5);
                return Some(at);
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> Option<()> {
        let mut piece = [0; 4096];
        let read = self.stream.read(&mut piece);
        // If nothing comes within the timeout, the connection has not ended.
        self.is_over = !matches!(&read, Err(why) if why.kind() == ErrorKind::WouldBlock);
        let count = read.ok().filter(|count| *count > 0)?;
        self.bytes.extend_from_slice(&piece[..count]);
        Some(())
    }
}
