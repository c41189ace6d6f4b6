//! Starts the binary with a separate data directory and separate ports, and stops it by its process id.

use crate::fleet::on_fleet;
pub(crate) use enfilade_testkit::{Scratch, free_port};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_enfilade");

/// Switches off penalties, because they would delay refusals.
pub(crate) const WITHOUT_PENALTIES: (&str, &str) = ("ENFILADE_IDENTITY__PENALTIES", "false");

/// Permits short passwords, which most tests use, unless the configuration file of the data directory contains the key `characters_min`.
pub(crate) fn short_passwords(data: &Path) -> Option<(&'static str, &'static str)> {
    let file = std::fs::read_to_string(data.join("enfilade.toml")).unwrap_or_default();
    let is_ruled = file.lines().any(|line| line.starts_with("characters_min"));
    (!is_ruled).then_some(("ENFILADE_PASSWORDS__CHARACTERS_MIN", "0"))
}

/// Permits datastores and other files in the whole directory for temporary files, because tests create them there while the server runs. If the
/// configuration file of the data directory names roots, these roots apply.
fn open_to_tests(data: &Path) -> Option<(&'static str, PathBuf)> {
    let file = std::fs::read_to_string(data.join("enfilade.toml")).unwrap_or_default();
    let has_roots = file.lines().any(|line| line.starts_with("roots"));
    (!has_roots).then(|| ("ENFILADE_DATASTORES__ROOTS", std::env::temp_dir()))
}

/// Over HTTP, datastores can be created only below the default roots.
pub(crate) const CLOSED: (&str, &str) = ("ENFILADE_DATASTORES__ROOTS", "");

pub(crate) struct Server {
    child: Child,
    pub(crate) scratch: Scratch,
    /// `127.0.0.1:<port>` of HTTPS.
    pub(crate) address: String,
    /// `127.0.0.1:<port>` of the operations listener.
    pub(crate) operations: String,
    /// `127.0.0.1:<port>` of the listener that redirects to HTTPS, if it is on.
    pub(crate) http: String,
    /// `127.0.0.1:<port>` without TLS.
    pub(crate) plain: String,
    /// The administrator's password.
    pub(crate) password: String,
    /// The other members, if the test runs on a fleet.
    others: on_fleet::Others,
}

/// Waits for a condition. Fails if the condition is not true within this time.
pub(crate) fn wait_until(within: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < within, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a condition for up to a minute, because a busy machine is slow. Fails with the log of the server.
pub(crate) fn until(what: &str, server: &Server, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: {}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with settings in the environment.
    pub(crate) fn start_with(environment: &[(&str, &str)]) -> Self {
        Self::start_on(|_| {}, environment)
    }

    /// Starts a server on a data directory that `prepare` has filled.
    pub(crate) fn start_on(prepare: impl FnOnce(&Path), environment: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let data = scratch.path().join("data");
        prepare(&data);
        let password = on_fleet::init(&data);
        let (child, told) = spawn(&data, environment);
        let mut server = Self::told(scratch, child, &told);
        if let Some(password) = password {
            server.password = password;
            server.others = on_fleet::others(&data);
        }
        server
    }

    /// Starts a server with the data directory `data` in this directory.
    pub(crate) fn start_in(scratch: Scratch, environment: &[(&str, &str)]) -> Self {
        let (child, told) = spawn(&scratch.path().join("data"), environment);
        Self::told(scratch, child, &told)
    }

    /// Starts another program as a server. Its data directory is `data` in this directory.
    pub(crate) fn start_program(program: &str, scratch: Scratch, environment: &[(&str, &str)]) -> Self {
        let of_binary = serving(&scratch.path().join("data"), environment);
        let mut command = Command::new(program);
        command.args(of_binary.get_args());
        command.envs(of_binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (child, told) = answering(&mut command, &scratch.path().join("data"));
        Self::told(scratch, child, &told)
    }

    /// Starts a server with this standard error instead of the log file.
    pub(crate) fn start_logging_to(stderr: impl Into<Stdio>, environment: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let mut command = serving(&scratch.path().join("data"), environment);
        let (child, line) = first_line(command.stderr(stderr));
        let told = serde_json::from_str(&line).unwrap_or_else(|_| panic!("did not start: {line}"));
        Self::told(scratch, child, &told)
    }

    fn told(scratch: Scratch, child: Child, told: &Value) -> Self {
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        Server {
            child,
            scratch,
            plain: text("plain_listen"),
            http: text("http_listen"),
            address: text("listen"),
            operations: text("ops_listen"),
            password: text("password"),
            others: on_fleet::Others::default(),
        }
    }

    /// Replaces `enfilade.toml`. If tests run on a fleet, the server stays a member.
    pub(crate) fn configure(&self, config: &str) {
        std::fs::write(self.data().join("enfilade.toml"), config).unwrap();
        on_fleet::keep(&self.data());
    }

    /// Starts another server with the same data directory.
    pub(crate) fn another(&self, environment: &[(&str, &str)]) -> Child {
        spawn(&self.data(), environment).0
    }

    /// Like [`Server::another`]. Also returns the address for HTTPS.
    pub(crate) fn another_with_address(&self, environment: &[(&str, &str)]) -> (Child, String) {
        let (child, told) = spawn(&self.data(), environment);
        (child, told["listen"].as_str().unwrap_or_default().to_owned())
    }

    /// Kills the server and starts it again on the same data directory, with other ports.
    pub(crate) fn kill_and_restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Starts a server that has ended, with other ports.
    pub(crate) fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// Like [`Server::start_again`], with settings in the environment.
    pub(crate) fn start_again_with(&mut self, environment: &[(&str, &str)]) {
        let (child, told) = spawn(&self.data(), environment);
        self.child = child;
        for (address, key) in [
            (&mut self.address, "listen"),
            (&mut self.operations, "ops_listen"),
            (&mut self.plain, "plain_listen"),
        ] {
            told[key].as_str().unwrap_or_default().clone_into(address);
        }
    }

    /// Kills the server.
    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server ends by itself.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.data().join("tls/localhost.crt")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data().with_extension("log")).unwrap_or_default()
    }

    /// Runs a command on the data directory. Returns the JSON values that it printed.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.cli_output(arguments, "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "enfilade {arguments:?}: {errors}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn cli_output(&self, arguments: &[&str], input: &str) -> Output {
        self.cli_output_with(&[], arguments, input)
    }

    /// Like [`Server::cli_output`], with variables in the environment.
    pub(crate) fn cli_output_with(
        &self,
        environment: &[(&str, &str)],
        arguments: &[&str],
        input: &str,
    ) -> Output {
        let mut child = Command::new(BINARY)
            .envs(short_passwords(&self.data()))
            .envs(environment.iter().copied())
            .args(["--json", "--data"])
            .arg(self.data())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses its arguments can end before it reads its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Creates a user with a token and a role on `main`. Returns the login as `user@realm!token:secret`.
    pub(crate) fn add_user(&self, name: &str, role: &str) -> String {
        let user = format!("{name}@local");
        self.cli(&["user", "add", &user]);
        self.cli(&["role", "assign", "--path", "/datastore/main", "--auth-id", &user, role]);
        self.add_token(&format!("{user}!test"))
    }

    pub(crate) fn add_token(&self, token: &str) -> String {
        let made = self.cli(&["token", "create", token]);
        format!("{}:{}", made[0]["tokenid"].as_str().unwrap(), made[0]["value"].as_str().unwrap())
    }
}

/// Writes an ACL directly to the file, like other programs. Returns the name of the attribute: Samba's attribute, or the user attribute if this
/// process may not write Samba's attribute.
pub(crate) fn write_acl(path: &Path, acl: &[u8]) -> &'static str {
    let set = |name: &'static str| setxattr(path, name, acl, XattrFlags::empty()).map(|()| name);
    set("security.NTACL")
        .or_else(|_| set("user.NTACL"))
        .expect("a file system with extended attributes is needed")
}

/// The bytes of an ACL attribute.
pub(crate) fn read_acl(path: &Path) -> Vec<u8> {
    let mut room = [0; 4096];
    let count =
        getxattr(path, "security.NTACL", &mut room).or_else(|_| getxattr(path, "user.NTACL", &mut room));
    room[..count.expect("it has an ACL")].to_vec()
}

fn spawn(data: &Path, environment: &[(&str, &str)]) -> (Child, Value) {
    answering(&mut serving(data, environment), data)
}

/// Starts a server with this command, and waits until it serves. Its log is next to its data directory.
fn answering(command: &mut Command, data: &Path) -> (Child, Value) {
    let log = std::fs::File::options().create(true).append(true).open(data.with_extension("log")).unwrap();
    let (child, line) = first_line(command.stderr(log));
    let log = || std::fs::read_to_string(data.with_extension("log")).unwrap_or_default();
    let told = serde_json::from_str(&line).unwrap_or_else(|_| panic!("did not start: {}", log()));
    (child, told)
}

/// The command that serves a data directory on free ports, or on the ports in the environment.
pub(crate) fn serving(data: &Path, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(BINARY);
    let listen = |key: &str| {
        let set = environment.iter().find(|(name, _)| *name == key).map(|(_, address)| *address);
        set.unwrap_or("127.0.0.1:0")
    };
    command
        .args(["--json", "--data"])
        .arg(data)
        .args(["serve", "--listen", listen("ENFILADE_TLS__LISTEN")])
        .args(["--ops-listen", listen("ENFILADE_OPERATIONS__LISTEN")])
        .env("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0")
        .envs(short_passwords(data))
        .envs(open_to_tests(data))
        .envs(environment.iter().copied());
    if environment.contains(&CLOSED) {
        command.env_remove(CLOSED.0);
    }
    command
}

/// Starts a command, and waits for the first line that it prints.
pub(crate) fn first_line(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
