//! Tests that `Follower` and the HTTP library agree on where each request begins. Both parse the same bytes: random requests on one connection, with
//! a few bytes changed, removed or added. In the bytes, the path `/bad` is always followed by a fragment, even inside bodies. The follower must
//! report a fragment as a flaw. So if the library delivers a request for `/bad` and no flaw was reported, the follower and the library disagree.

use super::{Heads, Malformed};
use enfilade_faces::Flaw;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::io::InspectReader;

/// The number of connections in a usual test run. For a longer test run, the environment variable `ENFILADE_CAMPAIGN_N` sets this number.
const GATE: u64 = 20_000;

/// A pseudo-random generator (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % most
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    fn head(&mut self, framing: &str) -> String {
        let method = self.one(&["GET", "PUT"]);
        let target = self.one(&["/good", "/good", "/bad#x"]);
        let more = self.one(&["", "", "X: #\r\n", "TE: y\r\n"]);
        format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{more}{framing}\r\n")
    }

    fn content(&mut self) -> String {
        match self.below(3) {
            0 => String::new(),
            1 => self.one(&["abc", "\r\n", "\n\n", "0\r\n\r\n", "#"]).to_owned(),
            _ => self.head(""),
        }
    }

    fn request(&mut self) -> String {
        let content = self.content();
        match self.below(3) {
            0 => self.head(""),
            1 => self.head(&format!("Content-Length: {}\r\n", content.len())) + &content,
            _ => {
                let extension = self.one(&["", "", ";a=b", ";a=\"#\""]);
                let trailers = self.one(&["", "X: y\r\n", "X: y\r\nZ: #\r\n"]);
                let chunk = match content.len() {
                    0 => String::new(),
                    bytes => format!("{bytes:x}{extension}\r\n{content}\r\n"),
                };
                self.head("Transfer-Encoding: chunked\r\n") + &chunk + "0\r\n" + trailers + "\r\n"
            }
        }
    }

    fn connection(&mut self) -> Vec<u8> {
        let count = 2 + self.below(4);
        let mut bytes: Vec<u8> = (0..count).flat_map(|_| self.request().into_bytes()).collect();
        for _ in 0..self.below(3) {
            // Most changes are at line ends, because parsers disagree about line ends.
            let ends: Vec<usize> =
                (0..bytes.len()).filter(|at| matches!(bytes[*at], b'\r' | b'\n')).collect();
            let at = if self.below(4) == 0 { self.below(bytes.len()) } else { ends[self.below(ends.len())] };
            match self.below(3) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, self.one(&["\r", "\n", "0", ";", ":", " ", "\t"]).as_bytes()[0]),
                _ => bytes[at] = self.one(&["\r", "\n", "0", ";", ":", " ", "\t"]).as_bytes()[0],
            }
        }
        bytes
    }
}

/// The targets that the library delivered, each with its flaw. As in the listener, a connection ends with the first flaw.
async fn handed_on(bytes: &[u8], piece: usize) -> Vec<(String, Option<Flaw>)> {
    let (mut client, server) = tokio::io::duplex(1 << 16);
    let malformed = Arc::<Malformed>::default();
    let heads = Arc::new(Heads::new(Arc::clone(&malformed)));
    let (requested, came) = (Arc::clone(&heads), Arc::<Mutex<Vec<_>>>::default());
    let seen = Arc::clone(&came);
    let service = service_fn(move |request: Request<Incoming>| {
        let body = request.body();
        let exact = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        let flaw = requested.begins(exact);
        seen.lock().unwrap().push((request.uri().path().to_owned(), flaw));
        let malformed = Arc::clone(&malformed);
        async move {
            let read = request.into_body().collect().await;
            match flaw.is_none() && read.is_ok() && !malformed.is_so() {
                true => Ok(Response::new(Empty::<Bytes>::new())),
                false => Err(io::Error::other("refused")),
            }
        }
    });
    let server = InspectReader::new(server, move |bytes| heads.came(bytes));
    let said = async {
        for piece in bytes.chunks(piece) {
            if client.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let _ = client.shutdown().await;
        let _ = client.read_to_end(&mut Vec::new()).await;
    };
    let served = http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let _ = tokio::join!(served, said);
    let came = came.lock().unwrap();
    came.clone()
}

#[test]
fn the_follower_agrees_with_the_library_on_where_requests_begin() {
    let number =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (n, seed) = (number("ENFILADE_CAMPAIGN_N", GATE), number("ENFILADE_CAMPAIGN_SEED", 1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut good, mut found) = (0, 0);
    for turn in 0..n {
        let bytes = dice.connection();
        let piece = 1 + dice.below(bytes.len());
        for (target, flaw) in runtime.block_on(handed_on(&bytes, piece)) {
            let said = String::from_utf8_lossy(&bytes);
            assert!(
                target != "/bad" || flaw.is_some(),
                "connection {turn}: a fragment was overlooked in {said:?}"
            );
            (good, found) = (good + u64::from(flaw.is_none()), found + u64::from(flaw.is_some()));
        }
    }
    assert!(good > n / 2 && found > n / 4, "{good} requests without a flaw, {found} with a flaw");
    println!("{n} connections: {good} requests without a flaw, {found} with a flaw");
}
