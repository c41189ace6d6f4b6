//! Another process has the store of locks and does not let go: nobody waits for ever.

use crate::curl::{PROPFIND_0, curl};
use crate::server::Server;
use enfilade_facts::locks::LockStore as _;
use enfilade_sources::locks::LmdbLocks;
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";

#[test]
fn a_lock_is_refused_after_some_seconds_while_another_process_writes_locks() {
    // Few threads, so that calls that wait for ever would leave none to others.
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
    let (go, until) = channel::<()>();
    let (tell, begun) = channel::<()>();
    let directory = server.data().join("locks");
    let other = std::thread::spawn(move || {
        let locks = LmdbLocks::open(&directory).unwrap();
        let hold = &mut |_: &mut dyn enfilade_facts::locks::LockRowsMut| {
            tell.send(()).unwrap();
            let _ = until.recv();
            ControlFlow::Break(())
        };
        locks.write(hold).unwrap();
    });
    begun.recv().unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|n| scope.spawn(move || ask(&format!("file{n}")))).collect();
        // Reading goes on meanwhile.
        assert_eq!(curl(&server, &login, "/dav/main/file", &PROPFIND_0).status, 207);
        for one in all {
            let answer = one.join().unwrap();
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert!(answer.head.iter().any(|line| line.starts_with("retry-after: ")), "{:?}", answer.head);
        }
    });
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
    let own = format!("process {}", std::process::id());
    let said = || server.log().lines().filter(|line| line.contains("writing locks of files")).count();
    while said() < 12 {
        assert!(began.elapsed() < Duration::from_secs(100), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.log().contains(&own), "{}", server.log());
    // A lock that cannot be ended does not make a deletion one that failed.
    let condition = format!("If: ({token})");
    let deleted = curl(&server, &login, "/dav/main/gone", &["--request", "DELETE", "--header", &condition]);
    assert_eq!((deleted.status, curl(&server, &login, "/dav/main/gone", &PROPFIND_0).status), (204, 404));
    let is_told = || {
        server.log().contains("its locks could not be ended")
            && server.log().contains("datastore unlock main /gone")
    };
    while !is_told() {
        assert!(began.elapsed() < Duration::from_secs(150), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    go.send(()).unwrap();
    other.join().unwrap();
    assert_eq!(ask("file").status, 200);
}
