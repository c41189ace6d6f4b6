//! While another process holds the write lock of the lock store, requests wait only for a limited time.

use crate::curl::{PROPFIND_0, curl};
use crate::server::Server;
use enfilade_facts::locks::LockStore as _;
use enfilade_sources::locks::LmdbLocks;
use std::ops::ControlFlow;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";

/// A thread that holds the write lock of the lock store until `end`, as another process could.
struct Held {
    go: Sender<()>,
    thread: JoinHandle<()>,
}

impl Held {
    fn begin(server: &Server) -> Self {
        let (go, until) = channel::<()>();
        let (tell, begun) = channel::<()>();
        let directory = server.data().join("locks");
        let thread = std::thread::spawn(move || {
            let locks = LmdbLocks::open(&directory, None).unwrap();
            let hold = &mut |_: &mut dyn enfilade_facts::locks::LockRowsMut| {
                tell.send(()).unwrap();
                let _ = until.recv();
                ControlFlow::Break(())
            };
            locks.write(hold).unwrap();
        });
        begun.recv().unwrap();
        Held { go, thread }
    }

    fn end(self) {
        self.go.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

#[test]
fn conditions_of_lock_and_proppatch_are_judged_again_after_a_wait() {
    let server = Server::start();
    let (alice, bob) =
        (server.add_user("alice", "DatastorePowerUser"), server.add_user("bob", "DatastorePowerUser"));
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs"]);
    let ask = |login: &str, name: &str, arguments: &[&str]| {
        curl(&server, login, &format!("/dav/main/{name}"), arguments)
    };
    for name in ["locked", "patched"] {
        assert_eq!(ask(&bob, name, &["--request", "PUT", "--data", "x"]).status, 201);
    }
    // The lock belongs to a disabled user. A conflicting request must write to the lock store to end the
    // lock.
    assert_eq!(ask(&bob, "patched", &["--request", "LOCK", "--data", LOCK]).status, 200);
    server.cli(&["user", "disable", "bob@local"]);
    let etag = |name: &str| {
        let answer = ask(&alice, name, &["--head"]);
        answer.head.iter().find_map(|line| line.strip_prefix("etag: ").map(str::to_owned)).unwrap()
    };
    const PATCH: &str = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a xmlns='urn:x'>1</a></D:prop></D:set></D:propertyupdate>";
    let acts = [("LOCK", "locked", LOCK, 200), ("PROPPATCH", "patched", PATCH, 207)];
    for changes in [true, false] {
        let held = Held::begin(&server);
        std::thread::scope(|scope| {
            let (ask, alice) = (&ask, &alice);
            let all: Vec<_> = acts
                .iter()
                .map(|(verb, name, body, _)| {
                    let condition = format!("If: ([{}])", etag(name));
                    scope.spawn(move || {
                        ask(alice, name, &["--request", verb, "--header", &condition, "--data", body]).status
                    })
                })
                .collect();
            // Waits until both requests wait for the lock store.
            std::thread::sleep(Duration::from_secs(1));
            if changes {
                let main = server.data().join("datastores/main");
                acts.iter().for_each(|(_, name, ..)| std::fs::write(main.join(name), "changed").unwrap());
            }
            held.end();
            let found: Vec<u16> = all.into_iter().map(|one| one.join().unwrap()).collect();
            let expected = acts.map(|(.., status)| if changes { 412 } else { status });
            assert_eq!(found, expected);
        });
    }
}

#[test]
fn a_lock_is_refused_after_some_seconds_while_another_process_writes_locks() {
    // The server has few threads. If calls waited without a limit, no thread would remain for other calls.
    let server = Server::start_with(&[("ENFILADE_LIMITS__THREADS", "8")]);
    let login = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["acl", "set", "main", "/", "allow authenticated full inherit=files,dirs"]);
    let put = |name: &str| {
        curl(&server, &login, &format!("/dav/main/{name}"), &["--request", "PUT", "--data", "x"])
    };
    assert_eq!(put("file").status, 201);
    let ask = |name: &str| {
        curl(&server, &login, &format!("/dav/main/{name}"), &["--request", "LOCK", "--data", LOCK])
    };
    assert_eq!(put("gone").status, 201);
    let locked = ask("gone");
    let token = locked.head.iter().find_map(|line| line.strip_prefix("lock-token: ")).unwrap().to_owned();
    let held = Held::begin(&server);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|n| scope.spawn(move || ask(&format!("file{n}")))).collect();
        // During this time, reading requests are answered.
        assert_eq!(curl(&server, &login, "/dav/main/file", &PROPFIND_0).status, 207);
        for one in all {
            let answer = one.join().unwrap();
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert!(answer.head.iter().any(|line| line.starts_with("retry-after: ")), "{:?}", answer.head);
        }
    });
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
    let own = format!("process {}", std::process::id());
    // The error names the lock store, not the facts.
    let told = |line: &&str| {
        line.contains("the locks of files cannot be used: ")
            && line.contains("writing to the store of WebDAV locks")
    };
    let said = || server.log().lines().filter(told).count();
    while said() < 12 {
        assert!(began.elapsed() < Duration::from_secs(100), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.log().contains(&own), "{}", server.log());
    // If the server cannot end the locks of a deleted file, the DELETE succeeds nevertheless.
    let condition = format!("If: ({token})");
    let deleted = curl(&server, &login, "/dav/main/gone", &["--request", "DELETE", "--header", &condition]);
    assert_eq!((deleted.status, curl(&server, &login, "/dav/main/gone", &PROPFIND_0).status), (204, 404));
    let is_told = || {
        server.log().contains("its locks could not be ended")
            && server.log().contains("datastore unlock main '/gone'")
    };
    while !is_told() {
        assert!(began.elapsed() < Duration::from_secs(150), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    held.end();
    assert_eq!(ask("file").status, 200);
}
