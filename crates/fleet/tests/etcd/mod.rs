//! A real etcd, which a test can start and stop.

#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod counter;

use counter::{STORE, boot_clock};
use enfilade_facts::journal::digest;
use enfilade_facts::{Read as _, Revision, Source, StoreId};
use enfilade_fleet::{About, Etcd, Log, Server as Member};
use enfilade_sources::memory::Memory;
use std::sync::Arc;
use std::time::Duration;

/// An etcd for logs.
pub(crate) struct Server(enfilade_testkit::Etcd);

impl Server {
    pub(crate) fn start() -> Self {
        Server(enfilade_testkit::Etcd::start())
    }

    pub(crate) fn address(&self) -> &str {
        &self.0.address
    }

    pub(crate) fn etcd(&self) -> Etcd {
        Etcd::at(std::slice::from_ref(&self.0.address), None).unwrap()
    }

    pub(crate) fn log(&self, prefix: &str, store: StoreId) -> Log {
        Log::new(self.etcd(), prefix, store)
    }

    /// Begins the log `/house` of an empty store.
    pub(crate) fn begin(&self) {
        let begun =
            async { self.log("/house", STORE).begin(Revision(0), digest_of(&Memory::new(STORE))).await };
        tokio::runtime::Runtime::new().unwrap().block_on(begun).unwrap();
    }

    /// Makes the machine with this name a member of a log.
    pub(crate) fn admit(&self, prefix: &str, store: StoreId, name: &str) {
        // A connection belongs to the runtime of its first call, so each runtime needs its own connection.
        let log = self.log(prefix, store);
        let admitted = async {
            let invitation = log.invite(name).await?;
            log.accept(&invitation, name, 7).await
        };
        tokio::runtime::Runtime::new().unwrap().block_on(admitted).unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.0.signal(signal);
    }

    /// Runs `etcdctl`. Returns what it printed.
    pub(crate) fn control(&self, arguments: &[&str]) -> String {
        self.0.control(arguments)
    }

    /// Writes a key with `etcdctl`, without the log.
    pub(crate) fn put(&self, key: &str, value: &str) {
        self.0.control(&["put", key, value]);
    }

    /// Deletes a key with `etcdctl`, without the log.
    pub(crate) fn delete(&self, key: &str) {
        self.0.control(&["del", key]);
    }

    /// The keys that begin with this text.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let text = self.0.control(&["get", "--prefix", "--keys-only", prefix]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The keys that begin with this text, and their values, in the form in which `etcdctl` prints them.
    pub(crate) fn values(&self, prefix: &str) -> Vec<String> {
        self.0.control(&["get", "--prefix", "--hex", prefix]).lines().map(str::to_owned).collect()
    }
}

/// Starts a process of the member with this name.
pub(crate) fn process(name: &str, store: Arc<dyn Source>, log: Log) -> Member {
    let about =
        About { version: "0".to_owned(), host: "test".to_owned(), pid: std::process::id(), reach: None };
    Member::start(name, about, store, log, boot_clock).unwrap()
}

/// The digest of all records.
pub(crate) fn digest_of(source: &dyn Source) -> u128 {
    source.read(digest).unwrap().unwrap()
}

/// Waits until the condition is true, for at most a minute.
#[expect(clippy::disallowed_methods, reason = "it waits for real processes")]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within a minute: {what}");
}
