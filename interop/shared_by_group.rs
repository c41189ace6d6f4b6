//! Servers and commands of two users share a data directory by a group (`[facts] group`).

use crate::server::{BINARY, Scratch};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const GROUP: u32 = 54_321;
const USERS: [u32; 2] = [54_321, 54_322];
const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";

struct Shared {
    scratch: Scratch,
    servers: Vec<Child>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn open(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Shared {
    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn command(&self, user: u32) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["--json", "--data"]).arg(self.data()).stdin(Stdio::null()).uid(user).gid(GROUP);
        command.env("ENFILADE_FACTS__GROUP", GROUP.to_string());
        command.env("ENFILADE_DATASTORES__ROOTS", std::env::temp_dir());
        command
    }

    fn run(&self, user: u32, arguments: &[&str]) {
        let output = self.command(user).args(arguments).output().unwrap();
        assert!(output.status.success(), "{user} {arguments:?}: {output:?}");
    }

    /// Starts a server. Returns its start line, and the path of its log.
    fn serve(&mut self, user: u32, environment: &[(&str, &Path)]) -> (Value, PathBuf) {
        let log = self.scratch.path().join(format!("{user}.log"));
        let mut command = self.command(user);
        command.args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.env("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0").envs(environment.iter().copied());
        let mut child =
            command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.servers.push(child);
        let told = || std::fs::read_to_string(&log).unwrap();
        (serde_json::from_str(&line).unwrap_or_else(|_| panic!("{user} does not start: {}", told())), log)
    }
}

/// Sends a request by curl. Returns the status and the whole answer.
fn ask(url: &str, arguments: &[&str]) -> (u16, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--include"])
        .args(arguments)
        .arg(url)
        .output();
    let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{url} {arguments:?}: {text}")), text)
}

/// Only root can run servers as two users, so the test does nothing for other users.
#[test]
fn servers_of_two_users_share_locks_keys_and_counts() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut shared = Shared { scratch: Scratch::new(), servers: Vec::new() };
    // Both users must be able to reach the data directory.
    open(shared.scratch.path(), 0o755);
    let content = shared.scratch.path().join("content");
    for directory in [&shared.data(), &content] {
        std::fs::create_dir(directory).unwrap();
        chown(directory, Some(USERS[0]), Some(GROUP)).unwrap();
        open(directory, 0o770);
    }
    let (first, _) = shared.serve(USERS[0], &[]);
    // Each server needs separate certificates, because only the first user can read the certificates of the
    // first start.
    let certificates = shared.scratch.path().join("certificates");
    std::fs::create_dir(&certificates).unwrap();
    std::fs::copy(shared.data().join("tls/localhost.pem"), certificates.join("localhost.pem")).unwrap();
    for path in [&certificates, &certificates.join("localhost.pem")] {
        chown(path, Some(USERS[1]), Some(GROUP)).unwrap();
    }
    let (second, log) = shared.serve(USERS[1], &[("ENFILADE_TLS__CERTIFICATES", &certificates)]);
    let told = || std::fs::read_to_string(&log).unwrap();
    assert!(!told().contains("warning"), "{}", told());

    let url = |said: &Value, path: &str| format!("http://{}{path}", said["plain_listen"].as_str().unwrap());
    let password = first["password"].as_str().unwrap();
    let login = ["--user", &format!("admin@local:{password}")];
    shared.run(USERS[1], &["datastore", "create", "--path", content.to_str().unwrap(), "shared"]);
    let file = |said: &Value, arguments: &[&str]| {
        ask(&url(said, "/dav/shared/file"), &[&login, arguments].concat()).0
    };
    assert_eq!(file(&first, &["--request", "PUT", "--data", "one"]), 201);
    // A server sets the usual file modes on content. The operator must permit access for the group.
    open(&content.join("file"), 0o660);
    let lock = ["--request", "LOCK", "--data", LOCK];
    assert_eq!(file(&first, &lock), 200);
    assert_eq!(file(&second, &lock), 423, "a lock of the other server counts: {}", told());
    shared.run(USERS[1], &["datastore", "unlock", "shared", "/file"]);
    assert_eq!(file(&second, &lock), 200, "{}", told());
    assert_eq!(file(&first, &lock), 423, "a lock of the second server counts at the first server");

    let user = json!({ "name": "admin", "domain": { "name": "local" }, "password": password });
    let identity = json!({ "methods": ["password"], "password": { "user": user } });
    let body = json!({ "auth": { "identity": identity } }).to_string();
    let headers = ["--header", "Content-Type: application/json", "--data", &body];
    let (status, text) = ask(&url(&first, "/v3/auth/tokens"), &headers);
    assert_eq!(status, 201, "{text}");
    let is_token = |line: &&str| line.to_ascii_lowercase().starts_with("x-subject-token: ");
    let token = text.lines().find(is_token).and_then(|line| line.split_once(": ")).unwrap().1;
    let (auth, subject) = (format!("X-Auth-Token: {token}"), format!("X-Subject-Token: {token}"));
    let headers = ["--header", &auth, "--header", &subject];
    assert_eq!(ask(&url(&second, "/v3/auth/tokens"), &headers).0, 200, "a token of the first server counts");

    for name in [
        "locks/data.mdb",
        "locks/lock.mdb",
        "locks/writer.lock",
        "operations/turn",
        "last-used",
        "sessions",
        "keys/fernet/0",
    ] {
        let meta = std::fs::metadata(shared.data().join(name)).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.gid()), (0o660, GROUP), "{name}");
    }
}
