//! The recorded work: commands of an operator and requests of clients, one after another.

use crate::BINARY;
use crate::disk::Event;
use crate::recorder::{Recorder, Running};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The events and the acknowledgements. Each acknowledgement has the number of the event that followed it.
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    pub(crate) acknowledged: Vec<(usize, String)>,
}

struct Script {
    recorder: Recorder,
    data: PathBuf,
    acknowledged: Vec<(usize, String)>,
    /// `127.0.0.1:<port>` without TLS.
    address: String,
    login: String,
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
const UNPATCH: &str = "<D:propertyupdate xmlns:D='DAV:' xmlns:x='urn:x'><D:remove><D:prop><x:color/></D:prop></D:remove></D:propertyupdate>";
const PROPPATCH: &str = "<D:propertyupdate xmlns:D='DAV:' xmlns:x='urn:x'><D:set><D:prop><x:color>red</x:color></D:prop></D:set></D:propertyupdate>";

impl Script {
    /// Runs a command. The change of the command counts as acknowledged from the first line of output on.
    fn cli_with(&mut self, arguments: &[&str], input: &str) -> Vec<Value> {
        let whole = ["--json", "--data", self.data.to_str().unwrap()];
        let whole: Vec<String> = whole.iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
        let from = self.recorder.len();
        let mut running = self.recorder.start(Path::new(BINARY), &whole, &[]);
        running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let mut said = String::new();
        running.stdout.read_to_string(&mut said).unwrap();
        assert_eq!(running.wait(), Some(0), "{arguments:?}: {said}{}", self.log());
        let at = self.recorder.sent_since(from, b"").unwrap_or(self.recorder.len());
        self.acknowledged.push((at, arguments.join(" ")));
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The standard error of all programs.
    fn log(&self) -> String {
        std::fs::read_to_string(self.data.parent().unwrap().with_extension("log")).unwrap_or_default()
    }

    fn cli(&mut self, arguments: &[&str]) -> Vec<Value> {
        self.cli_with(arguments, "")
    }

    /// Writes a file like an editor that syncs the new file and renames it.
    fn edit(&mut self, name: &str, text: &str) {
        let whole = format!(
            "umask 027; printf '%s' \"$1\" > .enfilade-new && sync .enfilade-new && mv .enfilade-new {name} && sync ."
        );
        let running = self.recorder.start(
            Path::new("sh"),
            &["-c", &format!("cd '{}'; {whole}", self.data.display()), "sh", text].map(str::to_owned),
            &[],
        );
        assert_eq!(running.wait(), Some(0));
        self.acknowledged.push((self.recorder.len(), format!("an edit of {name}")));
    }

    /// Sends a request, which must succeed. Returns the head and the body.
    fn ask(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> (String, String) {
        self.ask_while(method, path, headers, &[body], |_| {})
    }

    /// Like [`Script::ask`], with a body in several parts. Runs `meanwhile` after the first part.
    fn ask_while(
        &mut self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &[&[u8]],
        meanwhile: impl FnOnce(&mut Self),
    ) -> (String, String) {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--path-as-is",
            "--include",
            "--http1.1",
        ]);
        command.args(["--request", method, "--header", "Expect:"]);
        if !self.login.is_empty() && !path.starts_with("/v3") {
            command.args(["--user", &self.login]);
        }
        headers.iter().for_each(|header| _ = command.args(["--header", header]));
        match body {
            [b""] => {}
            [_] => _ = command.args(["--data-binary", "@-"]),
            // curl sends each part as soon as it reads the part.
            _ => _ = command.args(["--upload-file", "-"]),
        }
        let address = self.address.clone();
        command.arg(format!("http://{address}{path}"));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let from = self.recorder.len();
        let mut curl = command.spawn().expect("curl is needed");
        let mut to_curl = curl.stdin.take().unwrap();
        to_curl.write_all(body[0]).unwrap();
        if body.len() > 1 {
            meanwhile(self);
        }
        body[1..].iter().for_each(|part| to_curl.write_all(part).unwrap());
        drop(to_curl);
        let output = curl.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with("HTTP/1.1 2"), "{method} {path}: {said}");
        let at = self.recorder.sent_since(from, b"HTTP/1.1 2").expect("nothing was sent");
        self.acknowledged.push((at, format!("{method} {path}")));
        let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
        (head.to_owned(), body.to_owned())
    }

    fn header(head: &str, name: &str) -> String {
        let found = head.lines().find_map(|line| {
            let (this, value) = line.split_once(':')?;
            this.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("no {name} in {head}"))
    }

    fn serve(&mut self) -> Running {
        let whole = ["--json", "--data", self.data.to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"];
        let whole = whole.iter().chain(&["--ops-listen", "127.0.0.1:0"]).map(|&a| a.to_owned());
        let environment = [("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0")];
        let mut running = self.recorder.start(Path::new(BINARY), &whole.collect::<Vec<_>>(), &environment);
        let mut line = String::new();
        // Reads one byte at a time, because a buffer could lose output of the server.
        let mut out = BufReader::with_capacity(1, &mut running.stdout);
        out.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        self.address = told["plain_listen"].as_str().unwrap().to_owned();
        running
    }

    fn commands(&mut self) {
        for arguments in [
            &["user", "add", "ann@local"][..],
            &["user", "add", "bob@local"],
            &["group", "add", "staff"],
            &["group", "member", "add", "staff", "ann@local"],
            &["role", "assign", "--path", "/datastore/main", "--auth-id", "@staff", "DatastoreReader"],
            &["token", "create", "bob@local!first"],
            &["token", "regenerate", "bob@local!first"],
            &["user", "disable", "bob@local"],
            &["user", "remove", "bob@local"],
            &["keys", "rotate"],
            &["datastore", "maintenance", "main", "read-only"],
            &["datastore", "maintenance", "main", "none"],
        ] {
            self.cli(arguments);
        }
        let second = self.data.parent().unwrap().join("second");
        self.cli(&["datastore", "create", "second", "--path", second.to_str().unwrap()]);
        self.edit("user.cfg", "user: eve@pbs\n\ntoken: eve@pbs!old\n\n");
        self.edit("token.shadow", "{\"eve@pbs!old\":\"$5$old$x\"}");
        self.edit("acl.cfg", "acl:1:/datastore/main:eve@pbs:DatastoreReader\n");
        self.cli(&["user", "list"]);
        self.cli(&["user", "disable", "eve@pbs"]);
        self.cli(&["token", "create", "eve@pbs!new"]);
        self.cli(&["token", "delete", "eve@pbs!old"]);
        self.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs", "--recursive"]);
        let backup = self.data.with_file_name("backup");
        self.cli(&["facts", "backup", backup.to_str().unwrap()]);
        self.cli(&["facts", "compact"]);
    }

    fn files(&mut self) {
        let large = vec![b'x'; 1_200_000];
        let to = |path: &str| format!("Destination: http://{}/dav/main/{path}", self.address);
        let (moved, over, tree, copy) = (to("moved"), to("file"), to("trees"), to("copy"));
        let (up, up_tree, down, empty) = (to("up"), to("tree/deeper"), to("tree/deep/a"), to("empty"));
        self.ask("PUT", "/dav/main/file", &[], b"first");
        self.ask("PUT", "/dav/main/file", &[], b"second, and longer");
        self.ask("PUT", "/dav/main/large", &[], &large);
        self.ask("MKCOL", "/dav/main/tree", &[], b"");
        self.ask("MKCOL", "/dav/main/tree/deep", &[], b"");
        self.ask("PUT", "/dav/main/tree/deep/a", &[], b"a");
        // Moves files from one directory to another. One of them replaces an existing file.
        self.ask("PUT", "/dav/main/tree/deep/b", &[], b"b");
        self.ask("MOVE", "/dav/main/tree/deep/b", &[&up], b"");
        self.ask("MOVE", "/dav/main/up", &[&down], b"");
        self.ask("MKCOL", "/dav/main/tree/deep/below", &[], b"");
        self.ask("MOVE", "/dav/main/tree/deep/below", &[&up_tree], b"");
        self.ask("PUT", "/dav/main/other", &[], b"other");
        self.ask("PROPPATCH", "/dav/main/other", &[], PROPPATCH.as_bytes());
        let (head, _) = self.ask("LOCK", "/dav/main/other", &["Depth: 0"], LOCK.as_bytes());
        let token = Self::header(&head, "lock-token");
        let condition = format!("If: ({token})");
        self.ask("PUT", "/dav/main/other", &[&condition], b"locked");
        self.ask("UNLOCK", "/dav/main/other", &[&format!("Lock-Token: {token}")], b"");
        self.ask("PROPPATCH", "/dav/main/other", &[], UNPATCH.as_bytes());
        self.ask("PROPPATCH", "/dav/main/other", &[], PROPPATCH.as_bytes());
        self.ask("LOCK", "/dav/main/unborn", &["Depth: 0"], LOCK.as_bytes());
        self.ask("MOVE", "/dav/main/large", &[&moved], b"");
        self.ask("COPY", "/dav/main/moved", &[&over], b"");
        self.ask("COPY", "/dav/main/tree", &[&copy], b"");
        self.ask("COPY", "/dav/main/tree/deeper", &[&empty], b"");
        self.ask("MOVE", "/dav/main/tree", &[&tree], b"");
        self.ask("MOVE", "/dav/main/copy", &[&tree], b"");
        self.cli(&["acl", "set", "main", "/other", "allow authenticated read"]);
        // The ACL of a file is changed while the file is replaced. The new file gets the changed ACL.
        self.ask_while("PUT", "/dav/main/other", &[], &[&large, b"and more"], |script| {
            script.cli(&["acl", "set", "main", "/other", "allow authenticated full"]);
        });
        self.ask("DELETE", "/dav/main/moved", &[], b"");
        self.ask("DELETE", "/dav/main/trees", &[], b"");
    }

    fn sessions(&mut self, password: &str) {
        let user =
            serde_json::json!({ "name": "admin", "domain": { "name": "local" }, "password": password });
        let body = serde_json::json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } } } });
        let json = "Content-Type: application/json";
        let (head, _) = self.ask("POST", "/v3/auth/tokens", &[json], body.to_string().as_bytes());
        let token = Self::header(&head, "x-subject-token");
        let (own, subject) = (format!("X-Auth-Token: {token}"), format!("X-Subject-Token: {token}"));
        self.ask("DELETE", "/v3/auth/tokens", &[&own, &subject], b"");
        self.cli_with(&["user", "passwd", "ann@local", "--password-stdin"], "a new and long password\n");
        self.cli(&["revoke", "user", "ann@local"]);
        self.cli(&["token", "create", "ann@local!late"]);
    }
}

/// Runs the whole script below an empty directory, and returns the record.
pub(crate) fn record(root: &Path) -> Record {
    let mut script = Script {
        recorder: Recorder::new(root),
        data: root.join("data"),
        acknowledged: Vec::new(),
        address: String::new(),
        login: String::new(),
    };
    let made = script.cli(&["init"]);
    let password = made[0]["password"].as_str().unwrap().to_owned();
    script.commands();
    let made = script.cli(&["token", "create", "admin@local!test"]);
    script.login = format!("admin@local!test:{}", made[0]["value"].as_str().unwrap());
    let running = script.serve();
    script.files();
    script.sessions(&password);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(running.pid.cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    assert_eq!(running.wait(), Some(0), "the server did not end well");
    Record { events: script.recorder.events(), acknowledged: script.acknowledged }
}
