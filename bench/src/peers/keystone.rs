//! Runs the real Keystone with MariaDB and memcached. Keystone has two processes of uWSGI, issues Fernet tokens, and uses its cache. `cargo xtask
//! bench keystone --install` installs it.

use crate::Failure;
use crate::machine::said;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Https;
use crate::stopwatch::{Child, children, cpu_nanos, cpu_nanos_of_ended_children, now};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A running Keystone.
pub(crate) struct Keystone {
    address: SocketAddr,
    certificate: PathBuf,
    web: Child,
    database: Child,
    memory: Child,
    memory_port: u16,
    configuration: String,
}

/// How to get the missing programs.
pub(crate) fn how_to_install(missing: &[&str]) -> String {
    format!("{} missing: `cargo xtask bench keystone --install` installs it", missing.join(", "))
}

/// The missing programs; empty if Keystone can be started.
pub(crate) fn missing() -> Vec<&'static str> {
    let programs = [("mariadbd", "mariadb-server"), ("memcached", "memcached"), ("openssl", "openssl")];
    let mut missing: Vec<_> = programs
        .into_iter()
        .filter(|(program, _)| in_path(program).is_none())
        .map(|(_, name)| name)
        .collect();
    if !python().join("bin/uwsgi").is_file() {
        missing.push("keystone");
    }
    missing
}

/// Installs missing programs.
pub(crate) fn install() -> Result<(), Failure> {
    let missing = missing();
    let packages: Vec<_> = missing.iter().filter(|name| **name != "keystone").copied().collect();
    if !packages.is_empty() {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "-y", "--no-install-recommends"]).args(&packages);
        done(apt.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null()))?;
    }
    if missing.contains(&"keystone") {
        let mut pip = Command::new("pip3");
        // Debian's Python was built with profile-guided optimization, and is about twice as fast as a Python that was built without it.
        pip.args([
            "--python",
            PYTHON,
            "install",
            "--no-cache-dir",
            "--quiet",
            "--disable-pip-version-check",
            "--upgrade",
            "--target",
        ]);
        done(pip.arg(python()).arg("--requirement").arg(here().join("keystone.txt")))?;
    }
    Ok(())
}

impl Keystone {
    /// Starts Keystone with a new database.
    pub(crate) fn start(scratch: &Scratch) -> Result<Self, Failure> {
        let place = scratch.path().join("keystone");
        let (data, socket) = (place.join("mariadb"), place.join("mariadb.sock"));
        std::fs::create_dir_all(&place)?;
        let mut install = Command::new("mariadb-install-db");
        install.args([
            "--no-defaults",
            "--skip-test-db",
            "--user=root",
            "--auth-root-authentication-method=normal",
        ]);
        done(
            install.arg(format!("--datadir={}", data.display())).stdout(Stdio::null()).stderr(Stdio::null()),
        )?;
        let ports = [free_port()?, free_port()?, free_port()?];
        let [database_port, memory_port, web_port] = ports;
        let log = |name: &str| std::fs::File::create(place.join(name));
        let mut mariadb = Command::new("mariadbd");
        mariadb.args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-networking=0"]);
        mariadb.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
        mariadb.arg(format!("--port={database_port}")).stdout(Stdio::null()).stderr(log("mariadb.log")?);
        let database = Child::start(&mut mariadb)?;
        let mut memcached = Command::new("memcached");
        memcached.args(["-l", "127.0.0.1", "-u", "root", "-m", "64", "-p", &memory_port.to_string()]);
        let memory = Child::start(memcached.stderr(log("memcached.log")?))?;
        listens(database_port)?;
        listens(memory_port)?;
        let sql = "CREATE DATABASE keystone CHARACTER SET utf8mb3; \
                   CREATE USER keystone@'127.0.0.1' IDENTIFIED BY 'keystone'; \
                   GRANT ALL ON keystone.* TO keystone@'127.0.0.1';";
        let mut client = Command::new("mariadb");
        client.arg("--no-defaults").arg(format!("--socket={}", socket.display()));
        done(client.args(["--user=root", "--execute", sql]))?;
        let config = place.join("keystone.conf");
        std::fs::write(&config, configuration(&place, database_port, memory_port))?;
        let manage = |words: &[&str]| -> Result<(), Failure> {
            let mut manage = Command::new(PYTHON);
            manage.args(["-c", "from keystone.cmd.manage import main; main()", "--config-file"]);
            manage.arg(&config).args(words).env("PYTHONPATH", python());
            done(manage.stdout(log("manage.log")?).stderr(log("manage.err")?))
        };
        for directory in ["fernet", "credentials"] {
            std::fs::DirBuilder::new().mode(0o700).create(place.join(directory))?;
        }
        let owner = ["--keystone-user", "root", "--keystone-group", "root"];
        manage(&["db_sync"])?;
        manage(&[&["fernet_setup"], owner.as_slice()].concat())?;
        manage(&[&["credential_setup"], owner.as_slice()].concat())?;
        let url = format!("https://127.0.0.1:{web_port}/v3");
        let urls = ["--bootstrap-public-url", &url, "--bootstrap-region-id", "RegionOne"];
        manage(&[&["bootstrap", "--bootstrap-password", PASSWORD], urls.as_slice()].concat())?;
        let web = serve(&place, &config, web_port)?;
        Ok(Keystone {
            address: (Ipv4Addr::LOCALHOST, web_port).into(),
            certificate: place.join("localhost.crt"),
            web,
            database,
            memory,
            memory_port,
            configuration: std::fs::read_to_string(&config)?.replace(&place.display().to_string(), "SCRATCH"),
        })
    }

    /// Creates a service with three endpoints for each number in `services`. Returns two tokens: one to authenticate with, and one to be validated.
    pub(crate) fn furnish(&self, services: Range<u64>) -> Result<[String; 2], Failure> {
        let mut setup = Command::new(PYTHON);
        setup.arg(here().join("keystone_setup.py")).arg(format!("https://{}", self.address)).arg(PASSWORD);
        let told = setup.args([services.start.to_string(), services.end.to_string()]).output()?;
        let told: serde_json::Value = serde_json::from_slice(&told.stdout)
            .map_err(|_| format!("keystone: {}", String::from_utf8_lossy(&told.stderr)))?;
        Ok(["asker", "subject"]
            .map(|key| told.get(key).and_then(|token| token.as_str()).unwrap_or_default().to_owned()))
    }

    /// The CPU that was used so far, in seconds: by Keystone's own processes, and by its database and memcached.
    pub(crate) fn cpu(&self) -> Result<(f64, f64), Failure> {
        let web = self.web.0.id();
        let mut own = cpu_nanos(web)? + cpu_nanos_of_ended_children(web)?;
        for child in children(web) {
            own += cpu_nanos(child)?;
        }
        let behind = cpu_nanos(self.database.0.id())? + cpu_nanos(self.memory.0.id())?;
        Ok((own / 1e9, behind / 1e9))
    }

    /// The number of lookups so far in which Keystone found an entry in memcached, and the number in which it found none.
    pub(crate) fn cache(&self) -> Result<(u64, u64), Failure> {
        let mut memcached = BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, self.memory_port))?);
        memcached.get_mut().write_all(b"stats\r\n")?;
        let (mut hits, mut misses, mut line) = (None, None, String::new());
        while memcached.read_line(&mut line)? > 0 && line.trim() != "END" {
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["STAT", "get_hits", count] => hits = Some(count.parse()?),
                ["STAT", "get_misses", count] => misses = Some(count.parse()?),
                _ => {}
            }
            line.clear();
        }
        hits.zip(misses).ok_or_else(|| "memcached tells no `get_hits` and `get_misses`".into())
    }

    /// A client of this Keystone. uWSGI sends a response in parts, so the client acknowledges at once.
    pub(crate) fn https(&self) -> Result<Https, Failure> {
        Ok(Https::new(self.address, &self.certificate)?.acknowledging_at_once())
    }

    /// Adds the versions and the configuration to the report.
    pub(crate) fn tell(&self, report: &mut Report) {
        let pinned = std::fs::read_to_string(here().join("keystone.txt")).unwrap_or_default();
        let line = pinned.lines().find(|line| line.starts_with("keystone=="));
        report.peer(
            "Keystone",
            line.unwrap_or("unknown"),
            format!("{}{}", self.configuration, UWSGI.join(" ")),
        );
        let version = |program: &str| said(Command::new(program).arg("--version")).unwrap_or_default();
        report.peer("MariaDB", version("mariadbd"), "the built-in configuration");
        report.peer("memcached", version("memcached"), "-m 64");
        report.peer("Python", version(PYTHON), "");
    }
}

impl Drop for Keystone {
    fn drop(&mut self) {
        // On SIGINT, the first process ends its child processes. After SIGKILL, the child processes would continue to run.
        let first = rustix::process::Pid::from_raw(i32::try_from(self.web.0.id()).unwrap_or(0));
        let _ = first.map(|first| rustix::process::kill_process(first, rustix::process::Signal::INT));
        let _ = self.web.0.wait();
    }
}

const PYTHON: &str = "/usr/bin/python3";
const PASSWORD: &str = "keystone";
/// The options of the web server.
const UWSGI: [&str; 17] = [
    "--http-keepalive",
    "--tcp-nodelay",
    "--http-auto-chunked",
    "--add-header",
    "Connection: Keep-Alive",
    "--master",
    "--processes",
    "2",
    "--threads",
    "1",
    "--lazy-apps",
    "--need-app",
    "--disable-logging",
    "--module",
    "keystone.wsgi.api:application",
    "--buffer-size",
    "65535",
];

fn configuration(place: &Path, database: u16, memory: u16) -> String {
    let place = place.display();
    format!(
        "[DEFAULT]\nlog_file = {place}/keystone.log\n\
         [database]\nconnection = mysql+pymysql://keystone:keystone@127.0.0.1:{database}/keystone\n\
         [token]\nprovider = fernet\n[fernet_tokens]\nkey_repository = {place}/fernet\n\
         [credential]\nkey_repository = {place}/credentials\n\
         [cache]\nenabled = true\nbackend = oslo_cache.memcache_pool\nmemcache_servers = 127.0.0.1:{memory}\n"
    )
}

fn serve(place: &Path, config: &Path, port: u16) -> Result<Child, Failure> {
    let (key, certificate) = (place.join("localhost.key"), place.join("localhost.crt"));
    super::self_signed(&key, &certificate)?;
    let mut uwsgi = Command::new(python().join("bin/uwsgi"));
    uwsgi.arg("--https").arg(format!("127.0.0.1:{port},{},{}", certificate.display(), key.display()));
    uwsgi.args(UWSGI);
    uwsgi.env("PYTHONPATH", python()).env("OS_KEYSTONE_CONFIG_FILES", config);
    let log = std::fs::File::create(place.join("uwsgi.log"))?;
    let web = Child::start(uwsgi.stdout(log.try_clone()?).stderr(log))?;
    listens(port)?;
    Ok(web)
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-keystone")
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(program)).find(|path| path.is_file())
}

fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn listens(port: u16) -> Result<(), Failure> {
    let began = now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(format!("nothing listens on port {port} after a minute").into());
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

fn done(command: &mut Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", command.get_program().display()).into()),
        Err(why) => Err(format!("{}: {why}", command.get_program().display()).into()),
    }
}
