//! Real processes of etcd, which listen on loopback. Each process stands for one machine of an etcd cluster.

use crate::free_port;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A machine of etcd that a test starts and stops. Its data are deleted at the end.
pub struct Etcd {
    child: Child,
    arguments: Vec<String>,
    directory: PathBuf,
    /// The address for requests about the health of the machine: `127.0.0.1:<port>`.
    health: String,
    /// The arguments of `etcdctl` for TLS.
    control: Vec<String>,
    /// The URL for clients.
    pub address: String,
}

/// The files for mutual TLS with etcd, in PEM. The certificate of the machine is for 127.0.0.1.
pub struct TlsFiles<'a> {
    /// The certificate of the authority that signed the certificates of etcd and of its clients.
    pub ca: &'a Path,
    /// The certificate of the machine, which `etcdctl` uses, too.
    pub certificate: &'a Path,
    /// The private key of the machine.
    pub key: &'a Path,
}

/// The addresses of a machine.
struct Ports {
    name: String,
    client: String,
    peer: String,
    health: String,
}

impl Etcd {
    /// Starts an empty etcd of one machine, and waits until it answers.
    pub fn start() -> Self {
        Etcd::start_one(None)
    }

    /// Starts an empty etcd of one machine that forgets old versions of its keys every minute.
    pub fn start_compacting() -> Self {
        let every = ["--auto-compaction-mode=periodic", "--auto-compaction-retention=1m"];
        let ports = Ports::new(0);
        let etcd = Etcd::spawn(&ports, &ports.of_cluster(), None, &every);
        etcd.wait();
        etcd
    }

    /// Starts an empty etcd of one machine that accepts only clients with a certificate of its authority.
    pub fn start_with_tls(files: &TlsFiles<'_>) -> Self {
        Etcd::start_one(Some(files))
    }

    fn start_one(tls: Option<&TlsFiles<'_>>) -> Self {
        let ports = Ports::new(0);
        let etcd = Etcd::spawn(&ports, &ports.of_cluster(), tls, &[]);
        etcd.wait();
        etcd
    }

    /// Starts an empty etcd of several machines, and waits until all answer.
    pub fn start_machines(count: usize) -> Vec<Self> {
        let ports: Vec<Ports> = (0..count).map(Ports::new).collect();
        let cluster = ports.iter().map(Ports::of_cluster).collect::<Vec<_>>().join(",");
        let machines: Vec<Self> = ports.iter().map(|ports| Etcd::spawn(ports, &cluster, None, &[])).collect();
        machines.iter().for_each(Etcd::wait);
        machines
    }

    fn spawn(ports: &Ports, cluster: &str, tls: Option<&TlsFiles<'_>>, more: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("enfilade-etcd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", ports.client);
        let (peer, health) = (format!("http://{}", ports.peer), format!("http://{}", ports.health));
        let data = directory.join("data");
        let mut arguments: Vec<String> = [
            ("--name", ports.name.as_str()),
            ("--data-dir", data.to_str().unwrap()),
            ("--listen-client-urls", &address),
            ("--advertise-client-urls", &address),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--listen-metrics-urls", &health),
            ("--initial-cluster", cluster),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value.to_owned()])
        .collect();
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let mut control = Vec::new();
        if let Some(TlsFiles { ca, certificate, key }) = tls {
            let path = |path: &Path| path.to_str().unwrap().to_owned();
            for (of_server, of_client, file) in [
                ("--trusted-ca-file", "--cacert", ca),
                ("--cert-file", "--cert", certificate),
                ("--key-file", "--key", key),
            ] {
                arguments.extend([of_server.to_owned(), path(file)]);
                control.extend([of_client.to_owned(), path(file)]);
            }
            arguments.push("--client-cert-auth".to_owned());
        }
        let child = run(&arguments);
        Etcd { child, arguments, directory, health: ports.health.clone(), control, address }
    }

    #[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
    fn wait(&self) {
        for _ in 0..600 {
            if is_healthy(&self.health) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("etcd does not answer");
    }

    /// The version of the program, such as `etcd Version: 3.6.6`.
    pub fn version() -> String {
        let output = Command::new("etcd").arg("--version").output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    }

    /// Kills the machine.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the machine again with its data, after it was killed.
    pub fn start_again(&mut self) {
        self.child = run(&self.arguments);
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Runs `etcdctl` with these arguments. Returns what it printed.
    pub fn control(&self, arguments: &[&str]) -> String {
        let output = self.try_control(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `etcdctl` with these arguments. The command may fail.
    pub fn try_control(&self, arguments: &[&str]) -> Output {
        Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.address])
            .args(&self.control)
            .args(arguments)
            .output()
            .expect("etcdctl is needed (Debian: etcd-client)")
    }
}

impl Ports {
    fn new(nth: usize) -> Self {
        let [client, peer, health] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
        Ports { name: format!("etcd{nth}"), client, peer, health }
    }

    fn of_cluster(&self) -> String {
        format!("{}=http://{}", self.name, self.peer)
    }
}

/// Starts the program.
fn run(arguments: &[String]) -> Child {
    Command::new("etcd")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd is needed (Debian: etcd-server)")
}

fn is_healthy(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = Vec::new();
    let asked = stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .and_then(|()| stream.write_all(b"GET /health HTTP/1.0\r\n\r\n"))
        .and_then(|()| stream.read_to_end(&mut answer));
    asked.is_ok() && String::from_utf8_lossy(&answer).contains(r#""health":"true""#)
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
