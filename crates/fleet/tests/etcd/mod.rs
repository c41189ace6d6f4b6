//! A real etcd, which a test starts and stops.

#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod counter;

use counter::boot_clock;
use enfilade_facts::{Source, StoreId};
use enfilade_fleet::{About, Etcd, Log, LogError, Server as Member};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// An etcd of one machine, on loopback.
pub(crate) struct Server {
    child: Child,
    directory: PathBuf,
    pub(crate) address: String,
}

impl Server {
    pub(crate) async fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("enfilade-etcd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let [address, peer] = [free_address(), free_address()];
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
        let server = Server { child, directory, address };
        for _ in 0..600 {
            match server.log("/ready", StoreId(0)).head().await {
                Err(LogError::Etcd(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                _ => return server,
            }
        }
        panic!("etcd does not answer");
    }

    pub(crate) fn log(&self, prefix: &str, store: StoreId) -> Log {
        Log::new(Etcd::at(std::slice::from_ref(&self.address), None).unwrap(), prefix, store)
    }

    /// Makes a machine of this name a member of a log.
    pub(crate) fn admit(&self, prefix: &str, store: StoreId, name: &str) {
        // A connection belongs to the runtime of its first call.
        let log = self.log(prefix, store);
        let admitted = async {
            let invitation = log.invite(name).await?;
            log.accept(&invitation, name, 7).await
        };
        tokio::runtime::Runtime::new().unwrap().block_on(admitted).unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Writes a key as somebody else would.
    pub(crate) fn put(&self, key: &str, value: &str) {
        let status = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.address, "put", key, value])
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("etcdctl is needed (Debian: etcd-client)").success());
    }
}

/// A process of a member.
pub(crate) fn process(name: &str, store: Arc<dyn Source>, log: Log) -> Member {
    let about = About { version: "0".to_owned(), host: "test".to_owned(), pid: std::process::id() };
    Member::start(name, about, store, log, boot_clock).unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn free_address() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}
