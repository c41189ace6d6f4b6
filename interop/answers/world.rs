//! Sends all requests in order, and collects the answers.

use super::client::{Ask, Client, Client2, Got};
use super::house::House;
use super::mask::{MaskContext, Masks};
use crate::server::Server;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime};

/// The kind of connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// A connection without TLS, one for each caller.
    Plain,
    /// A connection without TLS for one request.
    Once,
    /// HTTP/2 over TLS, one connection for each caller.
    Http2,
    Operations,
}

/// A request that was answered.
struct Entry {
    group: String,
    what: String,
    asked: String,
    way: Way,
    got: Got,
    /// The time of the request, in seconds since the epoch.
    now: i64,
    /// The content of the directory of the request.
    tree: String,
}

/// An answer in its canonical form.
pub(super) struct Canonical {
    pub(super) group: String,
    pub(super) what: String,
    pub(super) asked: String,
    pub(super) status: u16,
    /// The code of the refusal in the log, or `-`.
    pub(super) code: String,
    pub(super) answer: String,
    pub(super) log: String,
}

impl Canonical {
    /// The recorded part of a line: status, code, and digests of answer and log.
    pub(super) fn digests(&self) -> String {
        format!("{} {} {} {}", self.status, self.code, short(&self.answer, 4), short(&self.log, 3))
    }
}

fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first bytes of a digest of the text, in hexadecimal.
fn short(text: &str, bytes: usize) -> String {
    hex(text.as_bytes()).chars().take(2 * bytes).collect()
}

pub(super) struct World {
    pub(super) house: House,
    clients: BTreeMap<(String, Way), Client>,
    clients2: BTreeMap<String, Client2>,
    entries: Vec<Entry>,
    labels: BTreeSet<(String, String)>,
    group: String,
    masks: Masks,
    /// The method and path of each request.
    pub(super) asked: Vec<(String, String)>,
}

pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

impl World {
    pub(super) fn new() -> Self {
        let masks = Masks::read(include_str!("masks.txt"), now());
        let house = House::build();
        let mut world = World {
            house,
            clients: BTreeMap::new(),
            clients2: BTreeMap::new(),
            entries: Vec::new(),
            labels: BTreeSet::new(),
            group: String::new(),
            masks,
            asked: Vec::new(),
        };
        let server = world.server();
        let (scratch, plain) = (server.scratch.path().display().to_string(), server.plain.clone());
        world.masks.know_anywhere(&scratch, "scratch directory");
        world.masks.know_anywhere(&plain, "plain listener");
        for (value, name) in world.house.secrets.clone() {
            world.masks.know(&value, &name);
        }
        world
    }

    pub(super) fn server(&self) -> &Server {
        &self.house.server
    }

    /// From now on, requests are part of this group.
    pub(super) fn group(&mut self, name: &str) {
        name.clone_into(&mut self.group);
    }

    /// From now on, this name replaces the value in answers.
    pub(super) fn know(&mut self, value: &str, name: &str) {
        self.masks.know(value, name);
    }

    /// Sends a request of this caller, and records the answer.
    pub(super) fn ask(&mut self, caller: &str, what: &str, ask: Ask) -> Got {
        self.ask_by(Way::Plain, caller, what, ask)
    }

    pub(super) fn ask_by(&mut self, way: Way, caller: &str, what: &str, ask: Ask) -> Got {
        let (got, asked) = self.send(way, caller, ask);
        self.record(way, what.to_owned(), asked, got.clone(), String::new());
        got
    }

    /// Like [`World::ask`]. Also records the content of a directory after the request.
    pub(super) fn ask_and_look(&mut self, caller: &str, what: &str, ask: Ask, directory: &str) -> Got {
        let (got, asked) = self.send(Way::Plain, caller, ask);
        let tree = self.house.tree(directory);
        self.record(Way::Plain, what.to_owned(), asked, got.clone(), tree);
        got
    }

    /// Sends a request that prepares other requests. The answer is not recorded.
    pub(super) fn quietly(&mut self, caller: &str, ask: Ask) -> Got {
        // The request uses a separate connection, because the lines of the log are assigned to requests by connection.
        self.send(Way::Plain, &format!("{caller}, quietly"), ask).0
    }

    fn send(&mut self, way: Way, caller: &str, ask: Ask) -> (Got, String) {
        let credential = caller.strip_suffix(", quietly").unwrap_or(caller);
        let mut ask = self.house.filled(ask);
        let asked = format!("as {credential}\n{}", ask.text());
        let path = ask.target.split('?').next().unwrap_or_default().to_owned();
        self.asked.push((ask.method.clone(), path));
        let fields = self.house.credential(credential);
        ask.fields = [fields, ask.fields].concat();
        let server = &self.house.server;
        let got = match way {
            Way::Http2 => {
                let client = self.clients2.entry(caller.to_owned());
                client.or_insert_with(|| Client2::new(&server.address)).ask(&ask)
            }
            Way::Once => Client::new(&server.plain).ask(&ask),
            Way::Plain | Way::Operations => {
                let address = if way == Way::Plain { &server.plain } else { &server.operations };
                let client = self.clients.entry((caller.to_owned(), way));
                client.or_insert_with(|| Client::new(address)).ask(&ask)
            }
        };
        if got.body.len() >= BODY_BYTES_MAX {
            // The log line of a large answer may come after the log line of the next request on the connection. Therefore the next request gets a new
            // connection.
            self.clients.remove(&(caller.to_owned(), way));
            self.clients2.remove(caller);
        }
        (got, asked)
    }

    fn record(&mut self, way: Way, what: String, asked: String, got: Got, tree: String) {
        // Labels are shortened, because `recorded.txt` contains thousands of labels.
        let what =
            what.replace("/dav/main/{{case}}", "~").replace("{{", "").replace("}}", "").replace('\n', " ");
        let label = (self.group.clone(), what);
        assert!(self.labels.insert(label.clone()), "{label:?} is asked twice");
        let (group, what) = label;
        self.entries.push(Entry { group, what, asked, way, got, now: now(), tree });
    }

    /// All answers in their canonical form.
    pub(super) fn canonical(mut self) -> Vec<Canonical> {
        let mut logged = self.logged();
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().map(|entry| canonical(&mut self.masks, &mut logged, entry)).collect()
    }

    /// Waits until all events are in the log. Returns the events of each connection, in order.
    fn logged(&self) -> HashMap<String, Vec<Value>> {
        let mut expected: HashMap<&str, usize> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| matches!(entry.way, Way::Plain | Way::Http2)) {
            let count = expected.entry(&entry.got.peer).or_default();
            *count = (*count).max(entry.got.nth + 1);
        }
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let mut logged: HashMap<String, Vec<Value>> = HashMap::new();
            for line in self.server().log().lines().filter(|line| line.starts_with("{\"event\":\"request\""))
            {
                let event: Value = serde_json::from_str(line).unwrap_or_default();
                let peer = event["peer"].as_str().unwrap_or_default().to_owned();
                logged.entry(peer).or_default().push(event);
            }
            let missing: Vec<_> = expected
                .iter()
                .map(|(peer, count)| (*peer, *count, logged.get(*peer).map_or(0, Vec::len)))
                .filter(|(_, expected, found)| expected != found)
                .collect();
            if missing.is_empty() {
                return logged;
            }
            assert!(Instant::now() < deadline, "events differ (peer, requests, events in log): {missing:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The header with the id of a request, which is different in each answer.
const REQUEST_ID: &str = "x-request-id";

/// If a body has this length or more, only its digest is recorded.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The fields of an event that are recorded. The other fields contain times and addresses.
const TOLD: [&str; 12] = [
    "face",
    "verb",
    "authid",
    "datastore",
    "path",
    "verdict",
    "door",
    "code",
    "fault",
    "status",
    "bytes",
    "reason",
];

/// The event with the request id of the answer. If the connection ended without an answer, the result is the remaining event of the connection.
fn event_of(logged: &mut HashMap<String, Vec<Value>>, entry: &Entry) -> Option<Value> {
    let events = logged.get_mut(&entry.got.peer)?;
    let at = match entry.got.field(REQUEST_ID) {
        Some(id) => events.iter().position(|event| event["request"] == id)?,
        None => 0,
    };
    (at < events.len()).then(|| events.remove(at))
}

fn canonical(masks: &mut Masks, logged: &mut HashMap<String, Vec<Value>>, entry: Entry) -> Canonical {
    let event = match entry.way {
        Way::Operations => None,
        _ => event_of(logged, &entry),
    };
    let Entry { group, what, asked, got, now, tree, .. } = entry;
    let origin = format!("{group}: {what}");
    let mut context = MaskContext { origin: &origin, count: HashMap::new(), now };
    let length = got.body.len().to_string();
    let kind = got.field("content-type").unwrap_or_default();
    let body = match std::str::from_utf8(&got.body) {
        Ok(text) => masks.canonical_body(kind, text, &mut context),
        Err(_) => format!("({length} bytes, {})", hex(&got.body)),
    };
    // Replacements change the length of a body, so Content-Length is compared with the original body.
    let is_masked = body.as_bytes() != got.body;
    let body = if body.len() < BODY_BYTES_MAX {
        body
    } else {
        format!("({length} bytes, {})", hex(body.as_bytes()))
    };
    let as_long = |said: &str| is_masked && said == length;
    let mut answer = format!("{}\n", got.line);
    for (name, value) in got.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(REQUEST_ID)) {
        let value = match name.eq_ignore_ascii_case("content-length") && as_long(value) {
            true => "<the body's>".to_owned(),
            false => masks.canonical(value, &mut context),
        };
        answer.push_str(&format!("{name}: {value}\n"));
    }
    answer.push_str(&format!("\n{body}"));
    if got.status == 0 {
        answer = "(the connection ended)\n".to_owned();
    }
    if !tree.is_empty() {
        answer.push_str(&format!("\n\nleft:\n{tree}"));
    }
    let mut log = String::new();
    let code = event.as_ref().and_then(|event| event["code"].as_str()).filter(|code| !code.is_empty());
    let code = code.unwrap_or("-").to_owned();
    for name in TOLD {
        let Some(value) = event.as_ref().and_then(|event| event.get(name)) else { continue };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let text = match name == "bytes" && as_long(&text) {
            true => "<the body's>".to_owned(),
            false => masks.canonical(&text, &mut context),
        };
        log.push_str(&format!("{name}: {text}\n"));
    }
    // The request may also contain secrets of this run.
    let asked = masks.canonical(&asked, &mut context);
    Canonical { group, what, asked, status: got.status, code, answer, log }
}
