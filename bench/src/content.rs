//! File serving compared with Apache's mod_dav: both serve the same files, one after the other in the same run; only the CPU of the servers is
//! counted.

mod apache;

use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{Samples, cpu_seconds, now};
use apache::Apache;
use enfilade_access::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANY: usize = 41_000;
/// The number of directories, and the number of files in each.
const TREE: (usize, usize) = (200, 200);
const FILE_BYTES: usize = 25_000;
const CONNECTIONS: usize = 8;
const PUTS: usize = 500;

/// The amounts of work.
struct Size {
    many: usize,
    tree: (usize, usize),
    large: u64,
    gets: usize,
    rounds: usize,
}

/// A measured server.
struct Peer {
    name: &'static str,
    address: SocketAddr,
    tls: SocketAddr,
    /// The prefix of all URL paths on this server.
    base: String,
    header: String,
    cpu: Box<dyn Fn() -> f64 + Sync>,
    resident: Box<dyn Fn() -> u64 + Sync>,
    /// The directory for uploads.
    up: PathBuf,
    /// Whether a response to PUT means that the file is on disk.
    syncs: bool,
}

impl Peer {
    /// The name of the directory for uploads.
    fn place(&self) -> &str {
        self.up.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = match small {
        true => Size { many: 2_000, tree: (20, 20), large: 64 << 20, gets: 4_000, rounds: 2 },
        false => Size { many: MANY, tree: TREE, large: 1 << 30, gets: 40_000, rounds: 3 },
    };
    let scratch = Scratch::new("content")?;
    let files = scratch.path().join("files");
    eprintln!("making {} files", size.many + size.tree.0 * size.tree.1);
    make(&files, &size)?;
    let data = scratch.path().join("data");
    let (tokenid, secret) = prepare(&data, &files)?;
    let server = Server::start(&data, &[])?;
    let pid = server.child.0.id().to_string();
    let mut peers = vec![Peer {
        name: "Enfilade",
        address: server.plain,
        tls: server.https.address(),
        base: "/dav/main".to_owned(),
        header: format!("Authorization: PBSAPIToken={tokenid}:{secret}"),
        cpu: Box::new(move || cpu_seconds(&pid).unwrap_or(f64::NAN)),
        resident: Box::new({
            let pid = server.child.0.id();
            move || resident(pid)
        }),
        up: files.join("up"),
        syncs: true,
    }];
    let apache = Apache::start(scratch.path(), &files)?;
    match &apache {
        Some(apache) => peers.push(Peer {
            name: "Apache",
            address: apache.address,
            tls: apache.tls,
            base: "/files".to_owned(),
            header: "X-Nobody: asks".to_owned(),
            cpu: Box::new({
                let pid = apache.pid();
                move || apache::cpu_seconds_of_all(pid)
            }),
            resident: Box::new({
                let pid = apache.pid();
                move || apache::processes(pid).into_iter().map(resident).sum()
            }),
            up: files.join("up-apache"),
            syncs: false,
        }),
        None => {
            eprintln!("Apache is not installed (`apt-get install apache2`), so nothing is compared with it")
        }
    }
    let mut compare = Compare { report, size: &size };
    compare.propfind(&peers)?;
    compare.tree(&peers)?;
    compare.small_gets(&peers)?;
    compare.large(&peers)?;
    compare.small_puts(&peers)?;
    compare.by_tls(&peers)?;
    Ok(())
}

fn make(files: &Path, size: &Size) -> Result<(), Failure> {
    let acl = {
        let flags = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
        let sid = Sid::AUTHENTICATED;
        let everybody = Ace { kind: AceType::Allow, flags, mask: AccessMask::ALL, sid };
        let list = SecurityDescriptor { dacl: Some(vec![everybody]), ..SecurityDescriptor::default() };
        list.to_ntacl().map_err(|why| why.to_string())?
    };
    let give = |path: &Path| -> Result<(), Failure> {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "security.NTACL", &acl, flags)
            .or_else(|_| rustix::fs::setxattr(path, "user.NTACL", &acl, flags))?;
        Ok(())
    };
    let directory = |path: &Path, mode: u32| -> Result<(), Failure> {
        std::fs::create_dir_all(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        give(path)
    };
    let file = |path: &Path, bytes: &[u8]| -> Result<(), Failure> {
        std::fs::write(path, bytes)?;
        give(path)
    };
    directory(files, 0o755)?;
    let many = files.join("many");
    directory(&many, 0o755)?;
    for n in 0..size.many {
        file(&many.join(format!("file-{n:05}.txt")), b"x")?;
    }
    for d in 0..size.tree.0 {
        let below = files.join(format!("tree/d{d:03}"));
        directory(&below, 0o755)?;
        for n in 0..size.tree.1 {
            file(&below.join(format!("f{n:03}")), b"x")?;
        }
    }
    give(&files.join("tree"))?;
    let content: Vec<u8> = (0..FILE_BYTES).map(|n| (n * 31 % 251) as u8).collect();
    directory(&files.join("small"), 0o755)?;
    for n in 0..CONNECTIONS {
        file(&files.join(format!("small/{n}")), &content)?;
    }
    let large = std::fs::File::create(files.join("large"))?;
    let piece = content.repeat(40);
    let mut left = size.large;
    while left > 0 {
        let count = left.min(piece.len() as u64);
        (&large).write_all(piece.get(..count as usize).unwrap_or_default())?;
        left -= count;
    }
    give(&files.join("large"))?;
    // Apache runs as another user.
    directory(&files.join("up"), 0o777)?;
    directory(&files.join("up-apache"), 0o777)
}

/// Makes a data directory with a datastore of the files. Returns the name and the secret of a token that may read and write the files.
fn prepare(data: &Path, files: &Path) -> Result<(String, String), Failure> {
    let program = std::env::current_exe()?.with_file_name("enfilade");
    let run = |arguments: &[&str]| -> Result<serde_json::Value, Failure> {
        let output = Command::new(&program).args(["--json", "--data"]).arg(data).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let first = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(first)?)
    };
    let path = files.to_str().ok_or("the scratch directory has no UTF-8 path")?;
    run(&["init"])?;
    run(&["datastore", "remove", "main"])?;
    run(&["datastore", "create", "main", "--path", path])?;
    run(&["user", "add", "reader@local"])?;
    run(&["role", "assign", "--path", "/datastore/main", "--auth-id", "reader@local", "DatastorePowerUser"])?;
    let made = run(&["token", "create", "reader@local!t"])?;
    let text = |key: &str| made.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    Ok((text("tokenid"), text("value")))
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

struct Compare<'c> {
    report: &'c mut Report,
    size: &'c Size,
}

impl Compare<'_> {
    /// Reports the cost of each server, and the cost of Enfilade divided by that of Apache; this ratio is a goal if one is given.
    fn both(
        &mut self,
        peers: &[Peer],
        what: &str,
        unit: &'static str,
        goal: Option<(&'static str, f64)>,
        mut measure: impl FnMut(&Peer) -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        let mut values = Vec::new();
        // The servers take turns, so that noise of the machine affects both.
        let mut samples: Vec<Samples> = peers.iter().map(|_| Samples::default()).collect();
        for _ in 0..self.size.rounds {
            for (peer, samples) in peers.iter().zip(&mut samples) {
                samples.push(measure(peer)?);
            }
        }
        for (peer, samples) in peers.iter().zip(&samples) {
            values.push(self.report.middle(
                &format!("{what}, {}", peer.name),
                self.size.many as u64,
                samples,
                unit,
            ));
        }
        if let [ours, theirs] = values.as_slice() {
            match goal {
                Some((id, most)) => {
                    self.report.goal(id, &format!("{what}, ours by Apache's"), ours / theirs, most, "times")
                }
                None => self.report.once(
                    &format!("{what}, ours by Apache's"),
                    self.size.many as u64,
                    ours / theirs,
                    "times",
                ),
            }
        }
        Ok(())
    }

    fn propfind(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        for (what, body, goal) in [
            ("PROPFIND of a directory, everything", "", Some(("propfind", 0.25))),
            ("PROPFIND of a directory, four properties", FOUR, None),
        ] {
            let ask = |peer: &Peer| propfind(peer, "/many/", body);
            for peer in peers {
                // Warm-up: after this request the server remembers the directory.
                ask(peer)?;
            }
            self.both(peers, &format!("{what}, CPU"), "ms", goal, |peer| {
                let before = (peer.cpu)();
                for _ in 0..5 {
                    ask(peer)?;
                }
                Ok(((peer.cpu)() - before) / 5.0 * 1e3)
            })?;
        }
        let Some(ours) = peers.first() else { return Ok(()) };
        let before = (ours.resident)();
        let mut first = Samples::default();
        for _ in 0..10 {
            first.push(propfind(ours, "/many/", "")?.0);
        }
        let grown = (ours.resident)().saturating_sub(before) as f64 / f64::from(1 << 20);
        self.report.goal("propfind-memory", "PROPFIND of a directory, memory grows by", grown, 16.0, "MiB");
        self.report.goal("propfind-first", "PROPFIND of a directory, first byte", first.at(50), 10.0, "ms");
        Ok(())
    }

    fn tree(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        if Command::new("rclone").arg("version").output().is_err() {
            eprintln!("rclone is not there (`apt-get install rclone`), so no tree is listed by it");
            return Ok(());
        }
        let size = self.size.tree;
        for scheme in ["http", "https"] {
            self.both(peers, &format!("rclone lsf -R of a tree by {scheme}, CPU"), "s", None, |peer| {
                let before = (peer.cpu)();
                let address = if scheme == "https" { peer.tls } else { peer.address };
                let url = format!("{scheme}://{address}{}/tree", peer.base);
                let header = peer.header.replacen(": ", ",", 1);
                let output = Command::new("rclone")
                    .args([
                        "--config",
                        "",
                        "--no-check-certificate",
                        "--webdav-url",
                        &url,
                        "--webdav-headers",
                        &header,
                        "lsf",
                        "-R",
                        ":webdav:",
                    ])
                    .output()?;
                let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
                if lines != size.0 * (size.1 + 1) {
                    return Err(
                        format!("rclone lists {lines}: {}", String::from_utf8_lossy(&output.stderr)).into()
                    );
                }
                Ok((peer.cpu)() - before)
            })?;
        }
        Ok(())
    }

    fn small_gets(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let gets = self.size.gets / CONNECTIONS;
        self.both(peers, "GET of 25 kB by 8 at once, CPU of each", "µs", Some(("get", 1.0)), |peer| {
            let before = (peer.cpu)();
            std::thread::scope(|scope| -> Result<(), Failure> {
                let run = |n: usize| -> Result<(), String> {
                    let mut stream = connect(peer.address).map_err(|why| why.to_string())?;
                    let request = request(peer, "GET", &format!("/small/{n}"), "", 0);
                    let mut buffer = vec![0; 64 * 1024];
                    for _ in 0..gets {
                        stream.write_all(&request).map_err(|why| why.to_string())?;
                        let got = answer(&mut stream, &mut buffer)?;
                        if got != (200, FILE_BYTES) {
                            return Err(format!("{}: answered with {got:?}", peer.name));
                        }
                    }
                    Ok(())
                };
                let running: Vec<_> = (0..CONNECTIONS).map(|n| scope.spawn(move || run(n))).collect();
                for one in running {
                    one.join().map_err(|_| "a client ended")??;
                }
                Ok(())
            })?;
            Ok(((peer.cpu)() - before) / (gets * CONNECTIONS) as f64 * 1e6)
        })
    }

    fn large(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let bytes = self.size.large;
        for (scheme, goal) in [("http", Some(("get-large", 1.1))), ("https", None)] {
            self.both(peers, &format!("GET of a large file by {scheme}, CPU"), "s", goal, |peer| {
                let before = (peer.cpu)();
                // The kernel counts CPU in hundredths of a second, and one GET takes about ten of these, so ten GETs are measured.
                curl(peer, &[], "/large?[1-10]", scheme)?;
                Ok(((peer.cpu)() - before) / 10.0)
            })?;
        }
        let source = peers.first().and_then(|peer| peer.up.parent()).ok_or("no files")?.join("large");
        let source = source.to_str().ok_or("the scratch directory has no UTF-8 path")?.to_owned();
        // The time includes the sync to the disk for both servers, because Apache acknowledges before it syncs.
        self.both(peers, "PUT of a large file, on the disk, time", "s", Some(("put-large", 1.0)), |peer| {
            rustix::fs::sync();
            let began = now();
            let goal = format!("/{}/large", peer.place());
            curl(peer, &["--upload-file", &source, "--header", "Expect:"], &goal, "http")?;
            if !peer.syncs {
                rustix::fs::syncfs(std::fs::File::open(&peer.up)?)?;
            }
            let took = began.elapsed().as_secs_f64();
            if std::fs::metadata(peer.up.join("large"))?.len() != bytes {
                return Err(format!("{}: what was put is not as large as it was", peer.name).into());
            }
            std::fs::remove_file(peer.up.join("large"))?;
            Ok(took)
        })?;
        self.both(peers, "PUT of a large file by https, CPU", "s", None, |peer| {
            let before = (peer.cpu)();
            let goal = format!("/{}/large", peer.place());
            curl(peer, &["--upload-file", &source, "--header", "Expect:"], &goal, "https")?;
            let spent = (peer.cpu)() - before;
            std::fs::remove_file(peer.up.join("large"))?;
            Ok(spent)
        })
    }

    /// Measures further requests over TLS, with curl as the client.
    fn by_tls(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let depth = ["--request", "PROPFIND", "--header", "Depth: 1"];
        self.both(peers, "PROPFIND of a directory, everything, by https, CPU", "ms", None, |peer| {
            let before = (peer.cpu)();
            curl(peer, &depth, "/many/?[1-5]", "https")?;
            Ok(((peer.cpu)() - before) / 5.0 * 1e3)
        })?;
        let gets = self.size.gets / CONNECTIONS;
        self.both(peers, "GET of 25 kB by 8 at once by https, CPU of each", "µs", None, |peer| {
            let before = (peer.cpu)();
            std::thread::scope(|scope| -> Result<(), Failure> {
                let get = |n| curl(peer, &[], &format!("/small/{n}?[1-{gets}]"), "https");
                let get = move |n: usize| get(n).map_err(|why| why.to_string());
                let running: Vec<_> = (0..CONNECTIONS).map(|n| scope.spawn(move || get(n))).collect();
                for one in running {
                    one.join().map_err(|_| "a client ended")??;
                }
                Ok(())
            })?;
            Ok(((peer.cpu)() - before) / (gets * CONNECTIONS) as f64 * 1e6)
        })?;
        let source = peers.first().and_then(|peer| peer.up.parent()).ok_or("no files")?.join("small/0");
        let source = source.to_str().ok_or("the scratch directory has no UTF-8 path")?.to_owned();
        self.both(peers, "PUT of 500 files of 25 kB by https, CPU", "s", None, |peer| {
            let before = (peer.cpu)();
            curl(peer, &["--upload-file", &source], &format!("/{}/f[1-{PUTS}]", peer.place()), "https")?;
            let spent = (peer.cpu)() - before;
            for n in 1..=PUTS {
                std::fs::remove_file(peer.up.join(format!("f{n}")))?;
            }
            Ok(spent)
        })
    }

    fn small_puts(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let content = vec![b'x'; FILE_BYTES];
        self.both(peers, "PUT of 500 files of 25 kB, CPU", "s", None, |peer| {
            let before = (peer.cpu)();
            let place = peer.place();
            let mut stream = connect(peer.address)?;
            let mut buffer = vec![0; 64 * 1024];
            for n in 0..PUTS {
                stream.write_all(&request(peer, "PUT", &format!("/{place}/f{n}"), "", FILE_BYTES))?;
                stream.write_all(&content)?;
                match answer(&mut stream, &mut buffer)?.0 {
                    201 | 204 => {}
                    status => return Err(format!("{}: PUT is answered with {status}", peer.name).into()),
                }
            }
            let spent = (peer.cpu)() - before;
            for n in 0..PUTS {
                std::fs::remove_file(peer.up.join(format!("f{n}")))?;
            }
            Ok(spent)
        })
    }
}

const FOUR: &str = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:displayname/><D:getlastmodified/>\
                    <D:getcontentlength/><D:resourcetype/></D:prop></D:propfind>";

/// Sends requests with curl, over http or https. The responses must be successful; their bodies are discarded.
fn curl(peer: &Peer, arguments: &[&str], path: &str, scheme: &str) -> Result<(), Failure> {
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

fn request(peer: &Peer, method: &str, path: &str, headers: &str, bytes: usize) -> Vec<u8> {
    format!(
        "{method} {}{path} HTTP/1.1\r\nHost: {}\r\n{}\r\n{headers}Content-Length: {bytes}\r\n\r\n",
        peer.base, peer.address, peer.header
    )
    .into_bytes()
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Milliseconds to the first byte, and the number of bytes received.
fn propfind(peer: &Peer, path: &str, body: &str) -> Result<(f64, usize), Failure> {
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
fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(u16, usize), String> {
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
