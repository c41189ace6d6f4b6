//! `cargo xtask squeeze`: sends the worst input of each grammar to the real binary. Memory does not grow by more than 64 MiB, and a well-behaved
//! client does not wait for more than 250 ms (15 s when other tests run).

use crate::certificates::self_signed;
use crate::http2::{Http2, INITIAL_WINDOW};
use crate::server::{Scratch, Server, WITHOUT_PENALTIES};
use crate::signals::signal;
use rustix::fs::{XattrFlags, setxattr};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GROWTH_MAX: u64 = 64 << 20;

/// Short limits, with which the server waits for a client for at most a second.
const SOON: [(&str, &str); 3] = [
    ("ENFILADE_LIMITS__HANDSHAKE_SECONDS", "1"),
    ("ENFILADE_LIMITS__HEAD_SECONDS", "1"),
    ("ENFILADE_LIMITS__PROGRESS_SECONDS", "1"),
];

const LIST: &str = "ENFILADE_TLS__CRT_LIST";

/// The number of rounds of each attack: one in the test, many in a campaign.
fn rounds() -> usize {
    std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn wait_max() -> Duration {
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    Duration::from_millis(if is_campaign { 250 } else { 15_000 })
}

/// A server and its attackers.
struct World {
    server: Server,
    authorization: String,
    /// The number of the next loopback address. Different addresses are used, because the connections of an address are limited.
    from: AtomicU64,
    /// The server's memory at the beginning of a part of the attack, in bytes.
    before: AtomicU64,
    most: AtomicU64,
    /// The path of the server's crt-list, if it has one.
    list: Option<PathBuf>,
}

impl World {
    fn new(environment: &[(&str, &str)]) -> Self {
        let server = Server::start_with(environment);
        let token = server.add_token("admin@local!test");
        let main = server.data().join("datastores/main");
        std::fs::write(main.join("small"), "x").unwrap();
        let list = environment.iter().find(|(name, _)| *name == LIST).map(|(_, path)| PathBuf::from(path));
        World {
            server,
            authorization: format!("PBSAPIToken={token}"),
            from: AtomicU64::new(0),
            before: AtomicU64::new(0),
            most: AtomicU64::new(0),
            list,
        }
    }

    fn main(&self) -> PathBuf {
        self.server.data().join("datastores/main")
    }

    /// A connection from a loopback address of this network, with a small receive buffer. The address changes after every 32 connections.
    fn connect_from(&self, network: u8, to: &str) -> TcpStream {
        let n = self.from.fetch_add(1, Ordering::Relaxed) / 32;
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024).unwrap();
        bind(&socket, &SocketAddr::from(([127, network, (n / 250) as u8, (n % 250) as u8 + 1], 0))).unwrap();
        connect(&socket, &to.parse::<SocketAddr>().unwrap()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn connect(&self, to: &str) -> TcpStream {
        self.connect_from(1, to)
    }

    fn head(&self, method: &str, path: &str, headers: &str, length: usize) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n",
            self.authorization
        )
    }

    /// Sends bytes on a new connection and reads the whole answer. Returns the status and the number of received bytes.
    fn send(&self, network: u8, bytes: &[u8]) -> (u16, u64) {
        let mut stream = self.connect_from(network, &self.server.plain);
        let _ = stream.write_all(bytes);
        let (mut piece, mut status, mut came) = (vec![0; 1 << 16], 0, 0);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            if came == 0 {
                let line = String::from_utf8_lossy(&piece[..count.min(16)]).into_owned();
                status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
            }
            came += count as u64;
        }
        (status, came)
    }

    /// Sends a request from many clients at the same time, in rounds. Returns all responses.
    fn all_send(&self, network: u8, at_once: usize, bytes: &[u8]) -> Vec<(u16, u64)> {
        std::thread::scope(|scope| {
            let one = || (0..rounds()).map(|_| self.send(network, bytes)).collect::<Vec<_>>();
            let all: Vec<_> = (0..at_once).map(|_| scope.spawn(one)).collect();
            all.into_iter().flat_map(|one| one.join().unwrap()).collect()
        })
    }

    fn ask(&self, at_once: usize, method: &str, path: &str, headers: &str, body: &str) -> Vec<(u16, u64)> {
        let head = self.head(method, path, headers, body.len());
        self.all_send(1, at_once, format!("{head}{body}").as_bytes())
    }

    /// Creates files with long names in a separate directory.
    fn many(&self, count: usize) {
        std::fs::create_dir(self.main().join("many")).unwrap();
        for n in 0..count {
            std::fs::write(self.main().join(format!("many/{n:0>200}")), "").unwrap();
        }
    }

    /// Ends a part of the attack: prints the maximum growth of memory, and begins a new measurement.
    fn part(&self, name: &str) {
        let grown = self.status("VmHWM:").saturating_sub(self.before.load(Ordering::Relaxed));
        println!("    {name}: memory grew by {} MiB", grown >> 20);
        self.most.fetch_max(grown, Ordering::Relaxed);
        self.begin();
    }

    fn begin(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.server.pid()), "5").unwrap();
        self.before.store(self.status("VmRSS:"), Ordering::Relaxed);
    }

    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }
}

/// A client that requests a small file repeatedly. Returns its longest wait.
fn behaved(to: &str, authorization: &str, is_over: &AtomicBool) -> Duration {
    let request =
        format!("GET /dav/main/small HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n");
    let connect = || {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let (mut longest, mut stream, mut piece) = (Duration::ZERO, connect(), [0; 4096]);
    let mut began = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let asked = stream.write_all(request.as_bytes()).and_then(|()| stream.read(&mut piece));
        let Ok(count @ 1..) = asked else {
            // This process got no processor time for longer than HEAD_SECONDS, so the server closed the connection. The measured wait continues.
            stream = connect();
            continue;
        };
        assert!(piece[..count].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&piece[..count]));
        longest = longest.max(began.elapsed());
        std::thread::sleep(Duration::from_millis(5));
        began = Instant::now();
    }
    // The time of an unanswered request counts as a wait, too.
    longest.max(began.elapsed())
}

/// Runs an attack on a separate server, and measures the effect. Returns a message if the effect exceeds a limit.
fn squeeze(
    name: &str,
    environment: &[(&str, &str)],
    prepare: fn(&World),
    attack: fn(&World),
) -> Option<String> {
    let world = Arc::new(World::new(environment));
    prepare(&world);
    // The memory for the first requests does not count as growth.
    let warm = world.ask(8, "PROPFIND", "/dav/main/", "Depth: 0\r\n", "");
    assert!(warm.iter().all(|(status, _)| *status == 207), "{warm:?}");
    world.begin();
    let is_over = Arc::<AtomicBool>::default();
    let bystander = std::thread::spawn({
        let (to, authorization) = (world.server.plain.clone(), world.authorization.clone());
        let is_over = Arc::clone(&is_over);
        move || behaved(&to, &authorization, &is_over)
    });
    let began = Instant::now();
    attack(&world);
    let took = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let waited = bystander.join().unwrap();
    world.part("the rest");
    let grown = world.most.load(Ordering::Relaxed);
    println!(
        "{name}: memory grew by {} MiB, another client waited {} ms at most, the attack took {} ms",
        grown >> 20,
        waited.as_millis(),
        took.as_millis()
    );
    let holds = grown <= GROWTH_MAX && waited <= wait_max();
    (!holds).then(|| format!("{name}: memory grew by {} MiB, another client waited {waited:?}", grown >> 20))
}

/// An attack: its name, the server's environment, the preparation, and the function that attacks.
type Attack<'a> = (&'a str, &'a [(&'a str, &'a str)], fn(&World), fn(&World));

fn nothing(_: &World) {}

fn of_xml(world: &World) {
    let sixteen = |name: String| std::fs::write(world.main().join(name), "").unwrap();
    (0..16).map(|n| format!("f{n}")).for_each(sixteen);
    // 256 properties have a namespace that needs six times its length in the answer.
    let quotes = "\"".repeat(59_000);
    let names: String = (0..256).map(|n| format!("<p{n}/>")).collect();
    let named = format!("<propfind xmlns='DAV:'><prop xmlns='{quotes}'>{names}</prop></propfind>");
    // A namespace of the maximal length, and many properties.
    let quotes = "\"".repeat(1000);
    let names: String = (0..250).map(|n| format!("<{}{n}/>", "p".repeat(230))).collect();
    let spelled = format!("<propfind xmlns='DAV:'><prop xmlns='{quotes}'>{names}</prop></propfind>");
    for body in [named, spelled] {
        for depth in ["0", "1"] {
            world.ask(8, "PROPFIND", "/dav/main/", &format!("Depth: {depth}\r\n"), &body);
        }
    }
    // A server without a limit would declare the long namespace on each of the elements of the value in its answer.
    let elements = "<x:a/><b/>".repeat(5_000);
    let inner = |quotes: &str| format!("<y xmlns:x='{quotes}'>{elements}</y>");
    for quotes in ["\"".repeat(8_000), "\"".repeat(1000)] {
        let value = inner(&quotes);
        let patch = format!("<propertyupdate xmlns='DAV:'><set><prop>{value}</prop></set></propertyupdate>");
        let lock = format!(
            "<lockinfo xmlns='DAV:'><lockscope><shared/></lockscope><locktype><write/></locktype><owner>{value}</owner></lockinfo>"
        );
        world.ask(8, "PROPPATCH", "/dav/main/small", "", &patch);
        world.ask(8, "LOCK", "/dav/main/small", "", &lock);
    }
    // Many attributes, many prefixes, deep nesting, and other kinds of markup.
    let attributes: String = (0..60).map(|n| format!(" a{n}=''")).collect();
    let prefixes: String = (0..60).map(|n| format!(" xmlns:p{n}='u{n}'")).collect();
    let wide = format!("<a{attributes}/>").repeat(120);
    let bound = format!("<p1:a{prefixes}/>").repeat(60);
    let used = format!("<b{prefixes}>{}</b>", "<p59:a/>".repeat(7_000));
    let nested = format!("{}{}", "<a>".repeat(9_000), "</a>".repeat(9_000));
    for inner in [wide, bound, used, nested, "<!---->".repeat(9_000), "&#34;".repeat(12_000), "&a;".repeat(9)]
    {
        let body = format!("<propfind xmlns='DAV:'><prop>{inner}</prop></propfind>");
        world.ask(8, "PROPFIND", "/dav/main/", "Depth: 1\r\n", &body);
        let body =
            format!("<propertyupdate xmlns='DAV:'><set><prop><y>{inner}</y></prop></set></propertyupdate>");
        world.ask(8, "PROPPATCH", "/dav/main/f1", "", &body);
    }
}

/// Attacks with listings of long names, and of the largest properties that the file system stores.
fn of_listings(world: &World) {
    let names: String = (0..256).map(|n| format!("<{}{n}/>", "p".repeat(230))).collect();
    let named = format!("<propfind xmlns='DAV:'><prop xmlns='urn:x'>{names}</prop></propfind>");
    world.ask(2, "PROPFIND", "/dav/main/kept/", "Depth: 1\r\n", &named);
    world.part("names");
    world.ask(8, "PROPFIND", "/dav/main/kept/", "Depth: 1\r\n", "");
    world.ask(8, "GET", "/dav/main/many/", "Accept: text/html\r\n", "");
}

fn kept(world: &World) {
    world.many(2_000);
    let kept = world.main().join("kept");
    std::fs::create_dir(&kept).unwrap();
    // Most file systems store 4 KiB of attributes for a file, and some store 64 KiB.
    let property = |bytes: usize| {
        let mut to = enfilade_facts::codec::Writer::default();
        to.list(&[()], |to, ()| {
            to.text("urn:x").text("a").option(None::<&str>, |_, _| {}).text(&"\"".repeat(bytes));
        });
        to.into_bytes()
    };
    for n in 0..if rounds() > 1 { 1024 } else { 128 } {
        let file = kept.join(n.to_string());
        std::fs::write(&file, "").unwrap();
        let set = |bytes| setxattr(&file, "user.enfilade.properties", &property(bytes), XattrFlags::empty());
        set(60_000).or_else(|_| set(3_000)).unwrap();
    }
}

fn of_headers(world: &World) {
    let many =
        |name: &str, value: &str, count: usize| format!("{name}: {}\r\n", vec![value; count].join(", "));
    let tagged = |count: usize| {
        format!("If: {}\r\n", "(<urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2>)".repeat(count))
    };
    let placed = |count: usize| {
        (0..count).fold(String::from("If:"), |mut to, n| {
            let _ = write!(to, " </dav/main/{n}> ([\"x\"])");
            to
        }) + "\r\n"
    };
    let several = |name: &str, value: &str| format!("{name}: {value}\r\n").repeat(90);
    for headers in [
        many("Range", "bytes=0-0", 800),
        format!(
            "Range: bytes={}\r\n",
            (0..1500).map(|n| format!("{0}-{0}", 2 * n)).collect::<Vec<_>>().join(",")
        ),
        many("If-None-Match", "\"x\"", 1500),
        many("If-Match", "\"x\"", 1500),
        tagged(155),
        placed(300),
        many("Want-Repr-Digest", "sha-256=1", 700),
        many("Repr-Digest", "sha-256=:AA==:", 400),
        many("Accept", "text/html", 700),
        many("Timeout", "Second-1", 800),
        several("Cookie", "PBSAuthCookie=x"),
        several("X-Forwarded-For", "1.2.3.4"),
        format!("X: {}\r\n", "x".repeat(31_000)),
        format!("Authorization: Basic {}\r\n", "QUFB".repeat(2_000)),
        format!("Destination: http://x/{}\r\n", "%41".repeat(2_500)),
        several("Transfer-Encoding", "chunked"),
    ] {
        for (method, path) in
            [("GET", "/dav/main/small"), ("PUT", "/dav/main/other"), ("PROPFIND", "/dav/main/")]
        {
            world.ask(4, method, path, &headers, "");
        }
    }
    // Long paths, and invalid heads.
    for target in [
        "/dav/main/".to_owned() + &"a/".repeat(4_000),
        "/".repeat(8_000),
        "/dav/main/?".to_owned() + &"a=&".repeat(2_500),
    ] {
        world.ask(4, "GET", &target, "", "");
    }
    world.all_send(1, 8, &b"GET / HTTP/1.1\r\n".repeat(4_000));
    world.all_send(1, 8, &[b'\n'; 60_000]);
}

fn of_json(world: &World) {
    let whole = |piece: &str, begin: &str, end: &str| {
        format!("{begin}{}{end}", piece.repeat((110_000 - begin.len()) / piece.len()))
    };
    for body in [
        whole("0,", "[", "0]"),
        whole("{},", "{\"auth\":[", "{}]}"),
        whole("\"\",", "{\"auth\":{\"identity\":{\"methods\":[", "\"\"]}}}"),
        whole("\"\":0,", "{\"auth\":{", "\"\":0}}"),
        whole("[", "", ""),
        whole("1", "{\"auth\":", "}"),
        whole("\\u0041", "{\"auth\":\"", "\"}"),
        whole(
            "x",
            "{\"auth\":{\"identity\":{\"methods\":[\"password\"],\"password\":{\"user\":{\"id\":\"",
            "\",\"password\":\"x\"}}}}}",
        ),
    ] {
        // There are several rounds, because one round would not show memory that remains after each hash.
        let rounds = if body.contains("password") { 5 } else { 1 };
        for _ in 0..rounds {
            world.ask(16, "POST", "/v3/auth/tokens", "Content-Type: application/json\r\n", &body);
        }
        world.part(&body[..60]);
    }
    for body in [
        whole("a=&", "", ""),
        whole("a=%41", "", ""),
        whole("&", "", ""),
        whole("u", "username=", "&password=x"),
    ] {
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        world.ask(16, "POST", "/api2/json/access/ticket", form, &body);
        world.ask(16, "POST", "/api2/json/access/users", form, &body);
        world.part(&body[..20]);
    }
}

fn of_hellos(world: &World) {
    let record = |content: &[u8]| [&[22, 3, 1][..], &(content.len() as u16).to_be_bytes(), content].concat();
    // A ClientHello that declares the greatest length, in the largest and in the smallest records.
    let hello = [&[1, 0xff, 0xff, 0xff, 3, 3][..], &[7; 16_000]].concat();
    let large = record(&hello).repeat(20);
    // Nearly all of the longest ClientHello that the server accepts.
    let long = [&[1, 0, 0xff, 0, 3, 3][..], &[7; 65_000]].concat();
    let long: Vec<u8> = long.chunks(16_000).flat_map(record).collect();
    let small: Vec<u8> = hello.iter().take(4_000).flat_map(|byte| record(&[*byte])).collect();
    for bytes in [large, long, small, record(&[]).repeat(10_000), vec![0x80; 60_000]] {
        std::thread::scope(|scope| {
            let one = || {
                for _ in 0..rounds() {
                    let mut stream = world.connect(&world.server.address);
                    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                    let _ = stream.write_all(&bytes);
                    let _ = stream.read(&mut [0; 64]);
                }
            };
            (0..64).for_each(|_| drop(scope.spawn(one)));
        });
    }
}

fn of_proxies(world: &World) {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let second = |family: u8, length: u16| {
        [&signature[..], &[0x21, family], &length.to_be_bytes(), &[0; 2_000]].concat()
    };
    for bytes in [
        second(0x11, 65_535),
        second(0x21, 36),
        second(0x31, 1_024),
        signature.repeat(3_000),
        b"PROXY TCP4 192.0.2.7 192.0.2.1 4660 80\r\n".to_vec(),
        [&b"PROXY "[..], &[b'x'; 60_000]].concat(),
    ] {
        world.all_send(2, 64, &bytes);
    }
}

/// Attacks with large and malformed files that the server reads itself.
fn of_files(world: &World) {
    let datastores = world.server.data().join("datastore.cfg");
    let list = world.list.as_ref().unwrap();
    let (stores, first) =
        (std::fs::read_to_string(&datastores).unwrap(), std::fs::read_to_string(list).unwrap());
    let certificate = first.trim();
    let of_stores = ["datastore: x\n\tpath /x\n".repeat(20_000), "x".repeat(1 << 20), "\n\t".repeat(1 << 19)];
    let of_lists = [
        format!("{certificate} a.example\n").repeat(5_000),
        format!("{certificate} {}", "b.example ".repeat(100_000)),
        "[".repeat(1 << 20),
    ];
    for _ in 0..rounds().min(3) {
        for (n, (more, certificates)) in of_stores.iter().zip(&of_lists).enumerate() {
            std::fs::write(&datastores, format!("{stores}\n{more}")).unwrap();
            std::fs::write(list, format!("{first}{certificates}")).unwrap();
            signal("HUP", world.server.pid());
            std::thread::sleep(Duration::from_millis(1200));
            world.part(&format!("datastore.cfg and crt-list {n}"));
        }
    }
}

/// Attacks with many simultaneous responses that no client reads.
fn of_readers(world: &World) {
    let fields = |method, path, more| {
        [(":method", method), (":scheme", "https"), (":authority", "x"), (":path", path)]
            .into_iter()
            .chain([("authorization", world.authorization.as_str()), more])
            .collect::<Vec<_>>()
    };
    let asked = [
        ("GET", "/dav/main/many/", ("accept", "text/html")),
        ("PROPFIND", "/dav/main/many/", ("depth", "1")),
        ("GET", "/dav/main/large", ("accept", "*/*")),
    ];
    // The client permits no bytes, one byte of each stream, or many bytes of each stream. In the last case, the window of the connection is the
    // limit.
    for window in [0, 1, 1 << 24] {
        for (method, path, more) in asked {
            let mut http2 = Http2::connect(&world.server.address, &[(INITIAL_WINDOW, window)]);
            for _ in 0..100 {
                http2.ask(&fields(method, path, more));
            }
            std::thread::sleep(Duration::from_millis(400));
            world.part(&format!("{method} {path}, a window of {window}"));
        }
    }
    for (method, path, (name, value)) in asked {
        let head = world.head(method, path, &format!("{name}: {value}\r\n"), 0);
        let streams: Vec<TcpStream> = (0..64)
            .map(|_| {
                let mut stream = world.connect(&world.server.plain);
                stream.write_all(head.as_bytes()).unwrap();
                stream
            })
            .collect();
        std::thread::sleep(Duration::from_millis(400));
        world.part(&format!("{method} {path}, HTTP/1.1"));
        drop(streams);
    }
}

fn to_be_read(world: &World) {
    world.many(if rounds() > 1 { 4_000 } else { 2_000 });
    std::fs::File::create(world.main().join("large")).unwrap().set_len(64 << 20).unwrap();
}

#[test]
fn nobody_takes_all_memory_or_all_time() {
    let scratch = Scratch::new();
    let (pem, list) = (scratch.path().join("one.pem"), scratch.path().join("list"));
    std::fs::write(&pem, self_signed("x.example", 30)).unwrap();
    std::fs::write(&list, format!("{}\n", pem.display())).unwrap();
    let listed = [(LIST, list.to_str().unwrap())];
    let trusting = [("ENFILADE_TLS__PROXY_FROM", "127.2.0.0/16"), SOON[0]];
    let attacks: [Attack<'_>; 8] = [
        ("XML", &[], nothing, of_xml),
        ("listings", &[], kept, of_listings),
        ("headers", &SOON, nothing, of_headers),
        ("JSON and forms", &[WITHOUT_PENALTIES], nothing, of_json),
        ("hellos", &SOON, nothing, of_hellos),
        ("PROXY", &trusting, nothing, of_proxies),
        ("files", &listed, nothing, of_files),
        ("readers", &[], to_be_read, of_readers),
    ];
    let wanted = std::env::var("ENFILADE_SQUEEZE").unwrap_or_default();
    let attacks = attacks.into_iter().filter(|attack| attack.0.starts_with(&wanted));
    let broken: Vec<String> = attacks
        .filter_map(|(name, environment, prepare, attack)| squeeze(name, environment, prepare, attack))
        .collect();
    assert_eq!(broken, Vec::<String>::new());
}
