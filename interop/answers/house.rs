//! The server that gets the requests. It always has the same users, groups, tokens, roles, datastores, files and ACLs.

use super::client::{Ask, Got};
use crate::server::{BINARY, CLOSED, Server, WITHOUT_PENALTIES, read_acl, write_acl};
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const CLOUD: &str = include_str!("cloud.json");

/// Limits by time or by number of requests are high. Therefore no answer depends on the duration of the run or on its number of requests.
const ENVIRONMENT: [(&str, &str); 11] = [
    WITHOUT_PENALTIES,
    // Over HTTP, datastores can be created only below the default roots. Commands create datastores outside of these roots while the server runs.
    // Landlock would deny the server access to these datastores, so it is switched off.
    CLOSED,
    ("ENFILADE_PRIVILEGES__LANDLOCK", "false"),
    ("ENFILADE_LIMITS__HEAD_SECONDS", "600"),
    ("ENFILADE_LIMITS__IDLE_SECONDS", "600"),
    ("ENFILADE_LIMITS__REQUESTS_PER_CONNECTION", "1000000"),
    ("ENFILADE_LIMITS__LOCKS_PER_USER", "100000"),
    ("ENFILADE_LIMITS__LOCKS_PER_STORE", "100000"),
    ("ENFILADE_LIMITS__DEEP_LISTING_SECONDS", "600"),
    ("ENFILADE_IDENTITY__TOKEN_SECONDS", "86400"),
    // The test compares each request with its line in the log, so no line may be left out.
    ("ENFILADE_LIMITS__REFUSALS_LOGGED_PER_SECOND", "1000000"),
];

/// The modification time of every initial file: 2001-09-09.
const WRITTEN: Duration = Duration::from_secs(1_000_000_000);

/// The API tokens: the caller, the name of the token, and further arguments of the command that creates it.
const TOKENS: [(&str, &str, &[&str]); 9] = [
    ("alice", "alice@corp!t", &[]),
    ("bob", "bob@corp!t", &[]),
    ("carol", "carol@corp!t", &[]),
    ("admin", "admin@Default!t", &[]),
    ("auditor", "sysreader@Default!t", &[]),
    ("own roles", "alice@corp!own", &["--own-roles"]),
    ("disabled user", "dora@corp!t", &[]),
    ("disabled token", "alice@corp!off", &[]),
    ("expired token", "alice@corp!old", &[]),
];

/// Roles on paths: path, grantee, role.
const ROLES: [(&str, &str, &str); 6] = [
    ("/", "admin@Default", "Admin"),
    ("/", "sysreader@Default", "Audit"),
    ("/datastore", "alice@corp", "DatastorePowerUser"),
    ("/datastore", "bob@corp", "DatastoreReader"),
    ("/datastore/main", "alice@corp!own", "DatastoreReader"),
    ("/datastore/small", "@staff@corp", "DatastoreAudit"),
];

/// Files of the datastore `main`: path and content; a directory has no content.
const FILES: [(&str, Option<&str>); 19] = [
    ("a.txt", Some("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")),
    ("empty", Some("")),
    ("page.html", Some("<p>hello</p>")),
    ("with space & more.txt", Some("x")),
    ("ümlaut", Some("ü")),
    ("read.txt", Some("may be read")),
    ("hidden.txt", Some("may not be seen")),
    ("damaged.txt", Some("its ACL cannot be read")),
    ("dir", None),
    ("dir/one", Some("1")),
    ("dir/two.txt", Some("22")),
    ("dir/sub", None),
    ("dir/sub/deep", Some("333")),
    ("dir/hidden", Some("may not be seen")),
    ("hidden", None),
    ("hidden/in", Some("in")),
    ("hollow", None),
    ("w", None),
    ("w/in", Some("in")),
];

/// ACLs of single files. They are set after the ACL of the whole datastore.
const ACLS: [(&str, &str); 5] = [
    ("/read.txt", "allow authenticated read"),
    ("/hidden.txt", "allow admin@Default full"),
    ("/dir/hidden", "allow admin@Default full"),
    ("/hidden", "allow admin@Default full inherit=files,dirs"),
    ("/hidden/in", "allow admin@Default full"),
];

/// Callers of every kind of user and token, in the order of `recorded.txt`. Callers with sessions follow after these.
pub(super) const CALLERS: [&str; 11] = [
    "anonymous",
    "wrong secret",
    "carol",
    "bob",
    "alice",
    "admin",
    "auditor",
    "own roles",
    "disabled user",
    "disabled token",
    "expired token",
];

pub(super) struct House {
    pub(super) server: Server,
    /// The names that requests contain as `{{…}}`, each with the id, token or other value that replaces it.
    pub(super) names: BTreeMap<String, String>,
    /// Secret values of this run. In recorded answers, the name replaces the secret value.
    pub(super) secrets: Vec<(String, String)>,
    /// The header fields with the credential of each caller.
    callers: BTreeMap<String, Vec<(String, String)>>,
    cases: usize,
    made: usize,
}

impl House {
    pub(super) fn build() -> Self {
        let mut servers = std::iter::repeat_with(|| Server::start_with(&ENVIRONMENT));
        let server = servers.find(is_local_last).unwrap();
        let cloud: Value = serde_json::from_str(CLOUD).unwrap();
        let names = cloud["names"].as_object().unwrap().iter();
        let names = names.map(|(name, id)| (name.clone(), id.as_str().unwrap().to_owned())).collect();
        import(&server, &cloud);
        let mut house =
            House { server, names, secrets: Vec::new(), callers: BTreeMap::new(), cases: 0, made: 0 };
        house.make_tokens();
        house.make_datastores();
        house.fill();
        house
    }

    fn make_tokens(&mut self) {
        for (caller, token, more) in TOKENS {
            let made = self.server.cli(&[&["token", "create", token], more].concat());
            let secret = made[0]["value"].as_str().unwrap().to_owned();
            self.callers.insert(caller.to_owned(), vec![authorization(token, &secret)]);
            self.names.insert(format!("secret of {token}"), secret.clone());
            self.secrets.push((secret, format!("secret of {token}")));
        }
        self.server.cli(&["token", "set", "alice@corp!off", "--disable"]);
        self.server.cli(&["token", "set", "alice@corp!old", "--expires", "1000000000"]);
        for (path, who, role) in ROLES {
            self.server.cli(&["role", "assign", "--path", path, "--auth-id", who, role, "--before-creation"]);
        }
        self.callers.insert("anonymous".to_owned(), Vec::new());
        self.callers.insert("wrong secret".to_owned(), vec![authorization("alice@corp!t", "wrong")]);
    }

    fn make_datastores(&self) {
        let place = |name: &str| self.server.scratch.path().join(name);
        for name in ["tank", "closed", "readonly", "small", "usb"] {
            let path = if name == "usb" { place("usb/content") } else { place(name) };
            self.server.cli(&["datastore", "create", name, "--path", path.to_str().unwrap()]);
            // The command below also sets an ACL on this file. Without an ACL, no caller would see it.
            std::fs::write(path.join("a.txt"), "0123456789").unwrap();
            set_time(&path.join("a.txt"));
            let all = "allow authenticated full inherit=files,dirs";
            self.server.cli(&["acl", "set", name, "/", all, "--recursive"]);
            set_time(&path);
        }
        let (set, project) = (["datastore", "set"], self.names["project p"].as_str());
        self.server.cli(&[&set[..], &["tank", "--project", project, "--comment", "of a project"]].concat());
        self.server.cli(&[&set[..], &["small", "--quota", "16K"]].concat());
        self.server.cli(&[&set[..], &["usb", "--mounted-at", place("usb").to_str().unwrap()]].concat());
        let closed = ["datastore", "maintenance", "closed", "offline", "--message", "back at noon"];
        self.server.cli(&closed);
        self.server.cli(&["datastore", "maintenance", "readonly", "read-only"]);
    }

    fn fill(&self) {
        let root = self.root();
        for (path, content) in FILES {
            match content {
                None => std::fs::create_dir(root.join(path)).unwrap(),
                Some(content) => std::fs::write(root.join(path), content).unwrap(),
            }
        }
        // The content contains no letters or digits, because a rule of `masks.txt` could match them.
        let large: Vec<u8> = b"!#$()*+,-./:;=?@^_|~`'%".iter().copied().cycle().take(300_000).collect();
        std::fs::write(root.join("large.bin"), large).unwrap();
        let all = "allow authenticated full inherit=files,dirs";
        self.server.cli(&["acl", "set", "main", "/", all, "--recursive"]);
        for (path, acl) in ACLS {
            self.server.cli(&["acl", "set", "main", path, acl]);
        }
        write_acl(&root.join("damaged.txt"), b"\x01\x02\x03");
        // The members of a directory come before the directory, because its modification time changes when members are written.
        FILES.iter().rev().for_each(|(path, _)| set_time(&root.join(path)));
        ["large.bin", ""].iter().for_each(|path| set_time(&root.join(path)));
    }

    pub(super) fn root(&self) -> PathBuf {
        self.server.data().join("datastores/main")
    }

    /// From now on, requests of the caller have these header fields.
    pub(super) fn admit(&mut self, caller: &str, fields: &[(&str, &str)]) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.callers.insert(caller.to_owned(), fields);
    }

    pub(super) fn credential(&self, caller: &str) -> Vec<(String, String)> {
        self.callers.get(caller).unwrap_or_else(|| panic!("nobody is called `{caller}`")).clone()
    }

    /// From now on, `{{name}}` in requests is replaced by this value from an answer.
    pub(super) fn name(&mut self, name: &str, value: &str) {
        self.names.insert(name.to_owned(), value.to_owned());
    }

    /// Like [`House::name`]; the value is the id of a created record.
    pub(super) fn name_made(&mut self, name: &str, got: &Got, what: &str) {
        let id = got.json()[what]["id"].as_str().unwrap_or("nothing-was-made").to_owned();
        self.names.insert(name.to_owned(), id);
    }

    /// A name that no record has yet.
    pub(super) fn next_name(&mut self) -> String {
        self.made += 1;
        format!("new-{}", self.made)
    }

    /// The request, with the value of each `{{name}}` in it.
    pub(super) fn filled(&self, mut ask: Ask) -> Ask {
        ask.target = self.fill_text(&ask.target);
        ask.fields.iter_mut().for_each(|(_, value)| *value = self.fill_text(value));
        if let Ok(text) = std::str::from_utf8(&ask.body)
            && text.contains("{{")
        {
            ask.body = self.fill_text(text).into_bytes();
        }
        ask
    }

    fn fill_text(&self, text: &str) -> String {
        let mut parts = text.split("{{");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("}}").unwrap_or_else(|| panic!("`{text}` lacks a `}}}}`"));
            out.push_str(self.names.get(name).unwrap_or_else(|| panic!("`{name}` stands for nothing")));
            out.push_str(rest);
        }
        out
    }

    /// Creates a new directory below `/w` of `main`, for one request that changes files, and returns its name. The directory contains the file `f`,
    /// the directory `d` with `x` and `y/z`, the read-only file `r`, the hidden file `h` and the hidden directory `hd`.
    pub(super) fn case(&mut self) -> String {
        self.cases += 1;
        let (root, name) = (self.root(), format!("w/{:04}", self.cases));
        let place = root.join(&name);
        for (path, content, like) in [
            ("", None, "dir"),
            ("f", Some("0123456789"), "a.txt"),
            ("d", None, "dir"),
            ("d/x", Some("x"), "a.txt"),
            ("d/y", None, "dir"),
            ("d/y/z", Some("z"), "a.txt"),
            ("r", Some("may be read"), "read.txt"),
            ("h", Some("hidden"), "hidden.txt"),
            ("hd", None, "hidden"),
            ("hd/x", Some("x"), "hidden.txt"),
        ] {
            let path = place.join(path);
            match content {
                None => std::fs::create_dir(&path).unwrap(),
                Some(content) => std::fs::write(&path, content).unwrap(),
            }
            write_acl(&path, &read_acl(&root.join(like)));
        }
        for path in ["f", "d/x", "d/y/z", "d/y", "d", "r", "h", "hd/x", "hd", ""] {
            set_time(&place.join(path));
        }
        name
    }

    /// The content of a directory of `main`, as text, with a line for each entry: its path, the length of its ACL, and for a file also the length and
    /// a digest of its content.
    pub(super) fn tree(&self, directory: &str) -> String {
        let mut text = String::new();
        walk(&self.root().join(directory), "", &mut text);
        text
    }
}

fn walk(directory: &Path, prefix: &str, text: &mut String) {
    let mut names: Vec<_> = std::fs::read_dir(directory).into_iter().flatten().flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let mut acl = [0; 4096];
        let path = entry.path();
        let acl = rustix::fs::getxattr(&path, "security.NTACL", &mut acl)
            .or_else(|_| rustix::fs::getxattr(&path, "user.NTACL", &mut acl))
            .map_or_else(|_| "no ACL".to_owned(), |bytes| format!("an ACL of {bytes} bytes"));
        if path.is_dir() {
            let _ = writeln!(text, "{name}/ with {acl}");
            walk(&path, &format!("{name}/"), text);
        } else {
            let content = std::fs::read(&path).unwrap_or_default();
            let digest = digest(&SHA256, &content);
            let digest: String = digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "{name} of {} bytes ({digest}) with {acl}", content.len());
        }
    }
}

fn set_time(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + WRITTEN).unwrap();
}

/// Whether the domain `local` comes after `Default` in lists. Lists are sorted by id, and the id of `local` is random.
fn is_local_last(server: &Server) -> bool {
    let domains = server.cli(&["domain", "list"]);
    let local = domains.iter().find(|domain| domain["domain"] == "local").unwrap();
    local["id"].as_str().unwrap().as_bytes() > b"6465".as_slice()
}

fn authorization(token: &str, secret: &str) -> (String, String) {
    ("Authorization".to_owned(), format!("PBSAPIToken={token}:{secret}"))
}

/// Imports the cloud from a simple HTTP server that answers like Keystone. By this import, all records have the fixed ids of `cloud.json`.
fn import(server: &Server, cloud: &Value) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let place = |name: &str| server.scratch.path().join(name);
    let auth = "username: admin\n      password: pw\n      project_name: admin";
    let text = format!("clouds:\n  old:\n    auth:\n      auth_url: http://{address}/v3\n      {auth}\n");
    std::fs::write(place("clouds.yaml"), text).unwrap();
    let (mut users, mut passwords) = (String::new(), String::new());
    for (nth, (user, hash)) in cloud["passwords"].as_object().unwrap().iter().enumerate() {
        let _ = writeln!(users, "INSERT INTO `local_user` VALUES ({nth},'{user}');");
        let _ = writeln!(
            passwords,
            "INSERT INTO `password` VALUES ({nth},{nth},'{}',1,NULL);",
            hash.as_str().unwrap()
        );
    }
    let dump = format!(
        "CREATE TABLE `local_user` (\n  `id` int,\n  `user_id` varchar(64)\n);\n{users}\
         CREATE TABLE `password` (\n  `id` int,\n  `local_user_id` int,\n  `password_hash` text,\n  `created_at_int` bigint,\n  `expires_at_int` bigint\n);\n{passwords}"
    );
    std::fs::write(place("keystone.sql"), dump).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data"]).arg(server.data()).args(["import", "keystone", "--os-cloud", "old"]);
    command.arg("--passwords").arg(place("keystone.sql")).env("OS_CLIENT_CONFIG_FILE", place("clouds.yaml"));
    let output = std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, cloud));
        let output = command.output().unwrap();
        // A connection without a request ends `serve`.
        drop(TcpStream::connect(address));
        output
    });
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let left = said.lines().find(|line| line.contains("\"left_out\":\"") && !line.contains("already exists"));
    assert!(output.status.success() && left.is_none(), "{}\n{said}", String::from_utf8_lossy(&output.stderr));
}

/// The records of a list. A list with the filter `domain_id` contains only the records of this domain.
fn listed(cloud: &Value, name: &str) -> Vec<Value> {
    let list = |name: &str| cloud.get(name).and_then(Value::as_array).cloned();
    let of_domain = || {
        let (many, domain) = name.split_once("?domain_id=")?;
        let all = list(many)?.into_iter();
        Some(all.filter(|record| record["domain_id"] == domain).collect())
    };
    list(name).or_else(of_domain).unwrap_or_default()
}

/// Serves one connection after another, until a connection ends without a request.
fn serve(listener: &TcpListener, cloud: &Value) {
    loop {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut requests = 0;
        while let Some((method, path, length)) = head(&mut stream) {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let name = path.trim_start_matches("/v3/");
            let many = name.rsplit('/').next().unwrap_or_default().split('?').next().unwrap_or_default();
            let (status, said) = match method.as_str() {
                "POST" => ("201 Created", json!({ "token": {} })),
                _ if many == "config" => ("404 Not Found", json!({})),
                _ => ("200 OK", json!({ many: listed(cloud, name) })),
            };
            let said = said.to_string();
            let text = format!(
                "HTTP/1.1 {status}\r\nX-Subject-Token: t\r\nContent-Length: {}\r\n\r\n{said}",
                said.len()
            );
            stream.get_mut().write_all(text.as_bytes()).unwrap();
            requests += 1;
        }
        if requests == 0 {
            return;
        }
    }
}

/// The method, the path and the length of the body of the next request.
fn head(stream: &mut BufReader<TcpStream>) -> Option<(String, String, usize)> {
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            let (method, path): (String, String) = first?;
            return Some((method, path, length));
        }
        if first.is_none() {
            let mut words = line.split(' ').map(str::to_owned);
            first = Some((words.next()?, words.next()?));
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
}
