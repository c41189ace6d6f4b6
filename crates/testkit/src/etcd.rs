//! A real etcd of one machine, on loopback.

use crate::free_port;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// An etcd that a test starts and stops. Its data are deleted at the end.
pub struct Etcd {
    child: Child,
    directory: PathBuf,
    /// The URL for clients.
    pub address: String,
}

impl Etcd {
    /// Starts an empty etcd, and waits until it answers.
    #[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
    pub fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("enfilade-etcd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let [client, peer] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let [address, peer] = [&client, &peer].map(|address| format!("http://{address}"));
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(directory.join("data"))
            .args(["--listen-client-urls", &address, "--advertise-client-urls", &address])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd is needed (Debian: etcd-server)");
        let etcd = Etcd { child, directory, address };
        for _ in 0..600 {
            if is_healthy(&client) {
                return etcd;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("etcd does not answer");
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Runs `etcdctl` with these arguments.
    pub fn control(&self, arguments: &[&str]) -> String {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.address])
            .args(arguments)
            .output()
            .expect("etcdctl is needed (Debian: etcd-client)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
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
