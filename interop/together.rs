//! Several processes open one store at the same moment. One process uses the store alone. Until it has finished, the other processes wait or are
//! refused.

use crate::command::{run, traced, why};
use crate::compact::churn;
use crate::curl::{PROPFIND_0, curl};
use crate::server::{Scratch, Server, serving};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Waits for a condition. Returns whether it became true within 60 seconds.
fn comes(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Whether every thread of a process has stopped. This takes a moment after the signal.
fn is_stopped(child: &Child) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
    let mut told = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    told.all(|status| status.contains("State:\tT"))
}

/// Sends a signal to a process: to stop it, or to continue it.
fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// The server that compacts the store is stopped during the compaction. This has the same effect as a long compaction.
#[test]
fn of_two_servers_that_start_together_one_compacts_and_both_serve() {
    let mut first = Server::start();
    let data = first.data();
    let alice = first.add_user("alice", "DatastoreReader");
    churn(&data, 100);
    let log = data.with_extension("log");
    let start = || {
        let log = std::fs::File::options().append(true).open(&log).unwrap();
        serving(&data, &[]).stdout(Stdio::piped()).stderr(log).spawn().unwrap()
    };
    let logged = |what: &str| std::fs::read_to_string(&log).unwrap().matches(what).count();
    let compacted = || logged("the facts were compacted");
    first.stop();
    let compacting = data.join("facts/compacting");
    // A compaction takes less than a second, so it may end before the signal. In this case, the test tries another compaction.
    let stopped = |_| {
        let before = compacted();
        let mut child = start();
        assert!(comes(|| compacting.exists() || compacted() > before), "{}", first.log());
        signal(&child, rustix::process::Signal::STOP);
        assert!(comes(|| is_stopped(&child)), "{}", first.log());
        if compacting.exists() {
            return Some((child, before));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        churn(&data, 100);
        None
    };
    let (mut one, before) = (0..10).find_map(stopped).expect("each compaction ended before it was stopped");
    let mut other = start();
    assert!(comes(|| logged("this server waits") == 1 || logged("rror") > 0), "{}", first.log());
    // A command does not wait for the compaction. It is refused.
    let refused = run(&data, &["user", "list"], None);
    assert!(
        !refused.status.success() && why(&refused).contains("restoring, upgrading or compacting"),
        "{refused:?}"
    );
    std::thread::sleep(Duration::from_secs(1));
    assert!(other.try_wait().unwrap().is_none(), "{}", first.log());
    assert_eq!(logged("this server waits, and tries again for 120 s"), 1);
    signal(&one, rustix::process::Signal::CONT);
    for child in [&mut one, &mut other] {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", first.log()));
        first.address = told["listen"].as_str().unwrap().to_owned();
        assert_eq!(curl(&first, &alice, "/dav/main/", &PROPFIND_0).status, 207);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(compacted(), before + 1, "{}", first.log());
    assert!(!compacting.exists());
}

#[test]
fn a_compaction_keeps_others_out_until_nothing_of_it_is_left() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    assert!(run(&data, &["init"], None).status.success());
    let file = data.join("facts/data.mdb");
    let inode = || std::fs::metadata(&file).map_or(0, |meta| meta.ino());
    let before = inode();
    let mut slow = traced(&data, &["facts", "compact"], "unlinkat:delay_enter=6000000", None)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(comes(|| inode() != before));
    // The new file has its final name, and its temporary directory still exists.
    std::thread::sleep(Duration::from_millis(300));
    assert!(data.join("facts/compacting").exists());
    let other = run(&data, &["facts", "compact"], None);
    assert!(!other.status.success() && why(&other).contains("run this command again"), "{other:?}");
    assert!(slow.wait().unwrap().success());
    assert!(!data.join("facts/compacting").exists());
    assert!(run(&data, &["facts", "compact"], None).status.success());
}

/// Only root can leave a file that the store's owner cannot open, so the test needs root.
#[test]
fn a_compaction_never_takes_the_store_from_its_owner() {
    if !rustix::process::geteuid().is_root() {
        return println!("not root: a file of another user cannot be made here");
    }
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    assert!(run(&data, &["init"], None).status.success());
    let file = data.join("facts/data.mdb");
    let is = || std::fs::metadata(&file).map(|meta| (meta.ino(), meta.uid(), meta.gid())).unwrap();
    std::os::unix::fs::chown(&file, Some(1234), Some(1234)).unwrap();
    let before = is();
    let refused = traced(&data, &["facts", "compact"], "fchown:error=EPERM", None).output().unwrap();
    let said = why(&refused);
    assert!(!refused.status.success() && said.contains("No facts were lost"), "{said}");
    assert!(said.contains("owner cannot be set to user 1234 and group 1234"), "{said}");
    assert_eq!(is(), before);
    assert!(!data.join("facts/compacting").exists());
    assert!(run(&data, &["facts", "compact"], None).status.success());
    assert_eq!((is().0 == before.0, is().1, is().2), (false, 1234, 1234));
    // If the file already has the user of the command as its owner, the command need not set the owner.
    std::os::unix::fs::chown(&file, Some(0), Some(1234)).unwrap();
    assert!(
        traced(&data, &["facts", "compact"], "fchown:error=EPERM", None).output().unwrap().status.success()
    );
}
