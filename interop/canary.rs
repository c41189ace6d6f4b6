//! A second after the use of a secret, the server does not contain the secret any more: not in its memory, core dump, log or facts, neither as plain
//! text nor in base64. The same search finds a value that the test put into the memory.

use crate::server::{Server, WITHOUT_PENALTIES};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SMOKE: usize = 300;
/// This value is in the server's environment, so the server's memory contains it.
const PLANTED: &str = "planted-canary-a8f3c1d97e5b4c60";

/// Searches the memory of a process, or files, for some byte strings.
struct Search {
    needles: Vec<(String, Vec<u8>)>,
    found: Vec<String>,
}

impl Search {
    /// Adds the byte strings to search for: beginning, middle and end of a token's secret, and its end in base64, as in a Basic credential.
    fn of(&mut self, what: &str, tokenid: &str, secret: &str) {
        let bytes = secret.as_bytes();
        let half = bytes.len() / 2;
        for (part, needle) in [
            ("begin", &bytes[..half.min(16)]),
            ("middle", &bytes[half - 8..half + 8]),
            ("end", &bytes[bytes.len() - 16..]),
        ] {
            self.needles.push((format!("{what}, {part}"), needle.to_vec()));
        }
        let basic = base64(format!("{tokenid}:{secret}").as_bytes());
        // The last bytes of the base64 text encode only the secret.
        self.needles
            .push((format!("{what}, base64"), basic.as_bytes()[basic.len() - 36..basic.len() - 4].to_vec()));
    }

    fn look(&mut self, place: &str, bytes: &[u8]) {
        for (what, needle) in &self.needles {
            let count = memchr::memmem::find_iter(bytes, needle).count();
            self.found.extend(std::iter::repeat_n(format!("{what} in {place}"), count));
        }
    }

    /// Searches all readable memory of a process, except the pages of the store's file. The file itself is searched separately.
    fn look_in_memory(&mut self, process: u32) {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        for line in maps.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let path = fields.get(5).copied().unwrap_or("anonymous memory");
            if !fields[1].starts_with('r') || path.ends_with(".mdb") || path.starts_with("[v") {
                continue;
            }
            let (start, end) = fields[0].split_once('-').unwrap();
            let number = |hex: &str| u64::from_str_radix(hex, 16).unwrap();
            let (mut at, end) = (number(start), number(end));
            // The pieces overlap, because a match may cross a border.
            let mut piece = vec![0; 1 << 20];
            while at < end {
                let length = piece.len().min((end - at) as usize);
                let Ok(count) = memory.read_at(&mut piece[..length], at) else { break };
                if count == 0 {
                    break;
                }
                self.look(path, &piece[..count]);
                at += if count < piece.len() { count as u64 } else { count as u64 - 64 };
            }
        }
    }

    fn look_in_files(&mut self, directory: &Path) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.look_in_files(&path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                self.look(&path.display().to_string(), &bytes);
            }
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= three.len() { DIGITS[value] as char } else { '=' });
        }
    }
    text
}

/// Sends requests with a credential on one connection, without TLS.
fn ask(server: &Server, header: &str, times: usize) {
    let mut stream = TcpStream::connect(&server.plain).unwrap();
    let request = format!("GET /whoami HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n");
    let mut answer = [0; 4096];
    for _ in 0..times {
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        while !text.ends_with("\n\n") && !text.ends_with(" \n") && !text.ends_with("unauthorized\n") {
            let count = stream.read(&mut answer).unwrap();
            assert_ne!(count, 0, "the server hung up");
            text.push_str(&String::from_utf8_lossy(&answer[..count]));
        }
    }
}

/// Sends requests over TLS, several on each connection.
fn ask_over_tls(server: &Server, tokenid: &str, secret: &str, times: usize) {
    let mut config = format!(
        "user = \"{tokenid}:{secret}\"\ncacert = \"{}\"\nsilent\nfail\n",
        server.certificate().display()
    );
    for _ in 0..times {
        config.push_str(&format!("url = \"{}\"\noutput = \"/dev/null\"\n", server.url("/whoami")));
    }
    let place = server.scratch.path().join("curl-config");
    std::fs::write(&place, config).unwrap();
    let status = Command::new("curl").arg("--config").arg(&place).status().unwrap();
    std::fs::remove_file(place).unwrap();
    assert!(status.success());
}

fn core_of(process: u32, directory: &Path) -> Option<PathBuf> {
    let output =
        Command::new("gcore").arg("-o").arg(directory.join("core")).arg(process.to_string()).output();
    output.ok().filter(|output| output.status.success()).map(|_| directory.join(format!("core.{process}")))
}

#[test]
fn a_secret_is_nowhere_a_second_after_it_was_used() {
    let n = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok());
    let requests = n.unwrap_or(SMOKE);
    let server = Server::start_with(&[("CANARY", PLANTED), WITHOUT_PENALTIES]);
    let login = server.add_user("alice", "DatastoreReader");
    let generated = login.split_once(':').unwrap();
    // Loads a token with the slow hash of another system.
    let uuid = "7d1c9a52-3e8b-4f60-9b1d-c05e2a7f4e83";
    let hash = Command::new("openssl").args(["passwd", "-5", uuid]).output().unwrap();
    let hash = String::from_utf8(hash.stdout).unwrap();
    let write = |name: &str, text: &str| std::fs::write(server.data().join(name), text).unwrap();
    write("token.shadow", &format!("{{\"ann@pbs!tok\":\"{}\"}}", hash.trim()));
    write("user.cfg", "user: ann@pbs\n\ntoken: ann@pbs!tok\n\n");
    server.cli(&["token", "list"]);

    let mut search = Search { needles: Vec::new(), found: Vec::new() };
    let wrong = "wrong-b27c4e9d18f35a60c2e7b9d4";
    for (what, tokenid, secret, is_right) in [
        ("a generated secret", generated.0, generated.1, true),
        ("a secret from elsewhere", "ann@pbs!tok", uuid, true),
        ("a wrong secret", "ann@pbs!tok", wrong, false),
    ] {
        search.of(what, tokenid, secret);
        let (times, tls) = if is_right { (requests / 6, requests / 6) } else { (3, 0) };
        ask(&server, &format!("Authorization: PBSAPIToken={tokenid}:{secret}"), times);
        ask(
            &server,
            &format!("Authorization: Basic {}", base64(format!("{tokenid}:{secret}").as_bytes())),
            times,
        );
        if tls > 0 {
            ask_over_tls(&server, tokenid, secret, tls);
        }
    }

    let mut planted =
        Search { needles: vec![("the canary".into(), PLANTED.as_bytes().to_vec())], found: Vec::new() };
    planted.look_in_memory(server.pid());
    assert!(!planted.found.is_empty(), "the search does not find the canary in the memory of the server");
    // On a busy machine, the server may free its buffers later than after a second.
    for _ in 0..30 {
        std::thread::sleep(Duration::from_secs(1));
        search.found.clear();
        search.look_in_memory(server.pid());
        search.look_in_files(&server.data());
        search.look("the log", server.log().as_bytes());
        if search.found.is_empty() {
            break;
        }
    }
    assert!(server.log().contains("ann@pbs!tok"), "the log does not contain the name of the token");
    let mut places = "memory, log and data";
    if let Some(core) = core_of(server.pid(), server.scratch.path()) {
        search.look("a core", &std::fs::read(&core).unwrap());
        planted.found.clear();
        planted.look("a core", &std::fs::read(core).unwrap());
        assert!(!planted.found.is_empty(), "the search does not find the canary in the core dump");
        places = "memory, core, log and data";
    }
    let count = search.found.len();
    search.found.sort();
    search.found.dedup();
    assert!(search.found.is_empty(), "found {count} times: {:#?}", search.found);
    println!("canary: after {requests} requests no secret is in {places}, and a canary would be found");
}

#[test]
fn a_support_bundle_has_what_helps_and_no_secret() {
    let server = Server::start_with(&[("CANARY", PLANTED), WITHOUT_PENALTIES]);
    let login = server.add_user("alice", "DatastoreReader");
    let (tokenid, secret) = login.split_once(':').unwrap();
    ask(&server, &format!("Authorization: PBSAPIToken={tokenid}:{secret}"), 2);
    let operations = [("ENFILADE_OPERATIONS__LISTEN", server.operations.as_str()), ("CANARY", PLANTED)];
    let bundle = |name: &str| {
        let file = server.scratch.path().join(name);
        let written = server.cli_output_with(&operations, &["support-bundle", file.to_str().unwrap()], "");
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        std::fs::read(file).unwrap()
    };
    let bytes = bundle("support.tar");
    let mut search = Search { needles: Vec::new(), found: Vec::new() };
    search.of("the secret of a token", tokenid, secret);
    search.of("the password", "admin@local", &server.password);
    search.needles.push(("the environment".into(), PLANTED.as_bytes().to_vec()));
    let mut keys = vec![server.data().join("tls/localhost.pem"), server.data().join("keys/token-hash.key")];
    keys.extend(std::fs::read_dir(server.data().join("keys/fernet")).unwrap().map(|key| key.unwrap().path()));
    assert!(keys.len() > 2);
    for key in keys {
        let key_bytes = std::fs::read(&key).unwrap();
        let line = key_bytes.split(|byte| *byte == b'\n').max_by_key(|line| line.len()).unwrap();
        search.needles.push((key.display().to_string(), line.to_vec()));
    }
    search.look("the bundle", &bytes);
    assert_eq!(search.found, Vec::<String>::new());
    let has = |bytes: &[u8], text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    for text in ["enfilade_requests_total", "\"facts\"", "PRETTY_NAME", "identity.penalties", "localhost.pem"]
    {
        assert!(has(&bytes, text), "{text}");
    }
    // The command that writes the bundle works even if the server cannot start.
    std::fs::write(server.data().join("enfilade.toml"), "[tls\n").unwrap();
    let bytes = bundle("broken.tar");
    assert!(has(&bytes, "enfilade.toml") && has(&bytes, "expected"), "{}", String::from_utf8_lossy(&bytes));
    let again = server
        .cli_output(&["support-bundle", server.scratch.path().join("broken.tar").to_str().unwrap()], "");
    assert!(!again.status.success());
}
