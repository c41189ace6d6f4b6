//! Collections of requests as bytes, each with the expected response and the section of the RFC (`wire/*.cases`).

mod http1;
mod http2;
mod refused;
mod tls;

use crate::server::Server;
pub(crate) use http2::config as config_of_http2;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The longest wait for a response. The test waits this long only if an expected response does not come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Parallel connections, fewer than the limit of unauthenticated connections of an address.
const AT_ONCE: usize = 24;

/// One line of a `.cases` file.
struct Case {
    what: String,
    rfc: String,
    expected: String,
    sent: String,
}

/// A server with the files that the cases use, and the values of their placeholders.
struct World {
    server: Server,
    token: String,
}

impl World {
    fn new() -> Self {
        let server = Server::start_with(&[
            ("ENFILADE_IDENTITY__PENALTIES", "false"),
            ("ENFILADE_LIMITS__HEAD_SECONDS", "60"),
            ("ENFILADE_TLS__HTTP_LISTEN", "127.0.0.1:0"),
        ]);
        let token = server.add_token("admin@local!test");
        let root = server.data().join("datastores/main");
        std::fs::create_dir(root.join("directory")).unwrap();
        std::fs::write(root.join("directory/in"), "in").unwrap();
        std::fs::write(root.join("file"), "0123456789").unwrap();
        World { server, token }
    }

    /// The value of an Authorization header.
    fn credential(&self) -> String {
        let (token, secret) = self.token.split_once(':').unwrap();
        format!("PBSAPIToken={token}:{secret}")
    }

    /// Runs all cases of a file. If a response is not the expected one, prints the case and fails.
    fn run(&self, corpus: &str, least: usize, came: impl Fn(&Self, usize, &Case) -> String + Sync) {
        let cases = cases(corpus);
        assert!(cases.len() >= least, "{} cases, expected {least}", cases.len());
        let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|threads| {
            for _ in 0..AT_ONCE {
                threads.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(at) else { return };
                        let came = came(self, at, case);
                        if came != case.expected {
                            let Case { what, rfc, expected, .. } = case;
                            let said = format!("{what} ({rfc}): expected `{expected}`, came `{came}`");
                            wrong.lock().unwrap().push((at, said));
                        }
                    }
                });
            }
        });
        let mut wrong = wrong.into_inner().unwrap();
        wrong.sort();
        let said: Vec<String> = wrong.into_iter().map(|(_, said)| said).collect();
        assert!(said.is_empty(), "{} of {} cases:\n{}", said.len(), cases.len(), said.join("\n"));
        let root = self.server.data().join("datastores/main");
        assert_eq!(std::fs::read_to_string(root.join("file")).unwrap(), "0123456789");
        assert_eq!(std::fs::read_to_string(root.join("directory/in")).unwrap(), "in");
    }

    /// A template of case `at` with its placeholders replaced, except {A}.
    fn filled(&self, at: usize, template: &str) -> String {
        let text = template
            .replace("{w}", "/.well-known/enfilade")
            .replace("{f}", "/dav/main/file")
            .replace("{d}", "/dav/main/directory/")
            .replace("{n}", &format!("/dav/main/new-{at}"));
        repeated(&text)
    }
}

fn cases(corpus: &str) -> Vec<Case> {
    let lines = corpus.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let case = |line: &str| {
        let mut parts = line.splitn(4, " | ").map(str::to_owned);
        let mut part = || parts.next().unwrap_or_else(|| panic!("`{line}` has fewer than four parts"));
        let case = Case { what: part(), rfc: part(), expected: part(), sent: part() };
        assert!(case.rfc.contains('§'), "`{line}` does not name a section of an RFC");
        case
    };
    let cases: Vec<Case> = lines.map(case).collect();
    let mut names: Vec<&str> = cases.iter().map(|case| case.what.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "two cases have one name");
    cases
}

/// Replaces each `{x*N}` by N times `x`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (inner, after) = rest.split_once('}').unwrap();
    let (piece, count) = inner.rsplit_once('*').unwrap_or_else(|| panic!("{{{inner}}} is not a placeholder"));
    format!("{before}{}{}", piece.repeat(count.parse().unwrap()), repeated(after))
}

/// The bytes of a text with escapes.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, taken) = match rest[0] {
            b'r' => (b'\r', 1),
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b's' => (b' ', 1),
            b'0' => (0, 1),
            b'x' => (unhex(&rest[1..3])[0], 3),
            other => (other, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    bytes
}

fn unhex(digits: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(digits).unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
