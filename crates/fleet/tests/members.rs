//! Members that have their own stores and share one log in a real etcd.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod etcd;

use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{At, Change, CommitError, Effect, Read, Requester, Revision, Source, SourceError, View};
use enfilade_fleet::{ASK_EVERY, LogError, ReplicaError, Server as Member, Writer};
use enfilade_sources::conformance;
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use etcd::counter::{STORE, add_one, boot_clock, change, number};
use etcd::{Server, digest_of, process, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A new member of the log `/house`. The member is current.
fn member(server: &Server, store: Arc<dyn Source>) -> Member {
    let member = member_of(server, "/house", store);
    wait_until("the member is current", || member.is_current());
    member
}

/// A new member. This function does not wait until the member is current.
fn member_of(server: &Server, prefix: &str, store: Arc<dyn Source>) -> Member {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // All names have the same length. So a list that is sorted by name is also sorted by number.
    let name = format!("m{:03}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let id = store.at().store;
    server.admit(prefix, id, &name);
    process(&name, store, server.log(prefix, id))
}

#[test]
fn a_fleet_of_one_is_a_source_as_every_other() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let number = AtomicU32::new(0);
    let begun = |store: Arc<dyn Source>| {
        let prefix = format!("/house/{}", number.fetch_add(1, Ordering::Relaxed));
        let log = server.log(&prefix, store.at().store);
        runtime.block_on(log.begin(store.at().revision, digest_of(&*store))).unwrap();
        let member = member_of(&server, &prefix, store);
        wait_until("the member is current", || member.is_current());
        Box::new(member) as Box<dyn Source>
    };
    conformance::all(|| begun(Arc::new(Memory::new(STORE))));
    let directory = std::env::temp_dir().join(format!("enfilade-fleet-{}", std::process::id()));
    conformance::all(|| {
        let path = directory.join(number.load(Ordering::Relaxed).to_string());
        begun(Arc::new(Lmdb::open(&path).unwrap()))
    });
    std::fs::remove_dir_all(directory).unwrap();
}

/// Three members add 1 to the same number many times at the same time. No addition is lost, and at the end all members have the same records.
#[test]
fn members_agree_and_no_change_is_lost() {
    const ADDITIONS: u32 = 30;
    let server = Server::start();
    server.begin();
    let stores: Vec<Arc<dyn Source>> =
        (0..3).map(|_| Arc::new(Memory::new(STORE)) as Arc<dyn Source>).collect();
    let members: Vec<Member> = stores.iter().map(|store| member(&server, Arc::clone(store))).collect();
    let conflicts = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for member in &members {
            scope.spawn(|| {
                let mut added = 0;
                while added < ADDITIONS {
                    match add_one(member) {
                        Ok(_) => added += 1,
                        Err(CommitError::Conflict { .. }) => {
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(why) => panic!("{why}"),
                    }
                }
            });
        }
    });
    assert!(conflicts.into_inner() > 0, "nobody changed the number at the same time");
    let total = u64::from(3 * ADDITIONS);
    wait_until("all members have all changes", || {
        stores.iter().all(|store| store.at().revision == Revision(total))
    });
    for store in &stores {
        assert_eq!((number(&**store).1, digest_of(&**store)), (total, digest_of(&*stores[0])));
    }
    let asked = boot_clock();
    wait_until("each member proves that it is current", || {
        members.iter().all(|member| member.proven() > asked)
    });
    assert!(members.iter().all(|member| member.why().is_none()));
}

#[test]
fn a_member_without_etcd_is_not_current_and_changes_nothing() {
    let server = Server::start();
    server.begin();
    let store = Arc::new(Memory::new(STORE));
    let member = member(&server, store.clone());
    add_one(&member).unwrap();
    wait_until("the member is current", || member.proven() > 0);
    server.signal("-STOP");
    // Answers to earlier questions may still arrive.
    wait_until("the member says why", || matches!(member.why(), Some(ReplicaError::Log(LogError::Etcd(_)))));
    let proven = member.proven();
    std::thread::sleep(3 * ASK_EVERY);
    assert_eq!(member.proven(), proven);
    let refused = add_one(&member);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    assert_eq!(number(&*store).1, 1);
    server.signal("-CONT");
    wait_until("the member is current again", || member.proven() > proven && member.why().is_none());
    add_one(&member).unwrap();
    assert_eq!(number(&*store).1, 2);
}

#[test]
fn a_member_with_other_records_applies_nothing() {
    let server = Server::start();
    server.begin();
    let (good, bad) = (Arc::new(Memory::new(STORE)), Arc::new(Memory::new(STORE)));
    let first = member(&server, good.clone());
    let second = member_of(&server, "/house", bad.clone());
    add_one(&first).unwrap();
    wait_until("the second member has the change", || bad.at().revision == Revision(1));
    // The test changes the second store directly, and not through the log. So the records of the two stores differ, although the revisions are equal
    // afterwards.
    drop(second);
    bad.commit(change().put(&DomainId::from_bytes([9; 16]), &Domain::new("other".parse().unwrap()))).unwrap();
    add_one(&first).unwrap();
    let second = member_of(&server, "/house", bad.clone());
    let differs = || second.why() == Some(ReplicaError::Differs { change: Revision(3) });
    wait_until("the second member finds the difference", differs);
    let refused = add_one(&second);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    add_one(&first).unwrap();
    std::thread::sleep(3 * ASK_EVERY);
    assert_eq!((bad.at().revision, second.proven()), (Revision(2), 0));
    assert!(differs());
}

#[test]
fn a_member_behind_the_log_and_a_log_behind_a_member_are_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let log = server.log("/house", STORE);
    server.begin();
    let store = Arc::new(Memory::new(STORE));
    let writer = member(&server, store.clone());
    for _ in 0..3 {
        add_one(&writer).unwrap();
    }
    let head = runtime.block_on(log.head()).unwrap();
    assert!(runtime.block_on(log.trim(head, Revision(2))).unwrap());
    let late = member_of(&server, "/house", Arc::new(Memory::new(STORE)));
    let trimmed = ReplicaError::Log(LogError::Trimmed { after: Revision(0) });
    wait_until("the late member finds no next change", || late.why() == Some(trimmed.clone()));
    assert_eq!(late.proven(), 0);
    // Simulates that etcd has lost changes: the log `/old` ends before the newest change of the store.
    drop(writer);
    let old = server.log("/old", STORE);
    runtime.block_on(old.begin(Revision(1), 0)).unwrap();
    let ahead = member_of(&server, "/old", store.clone());
    let older = ReplicaError::Log(LogError::Older { log: Revision(1), store: Revision(3) });
    wait_until("the member is ahead of the log", || ahead.why() == Some(older.clone()));
    assert_eq!(ahead.proven(), 0);
    let refused = add_one(&ahead);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    drop(ahead);
    // Simulates that etcd has also lost the table of members (`/bare`), or everything (`/none`). The error must not say that the member is the cause.
    let bare = server.log("/bare", STORE);
    runtime.block_on(bare.begin(Revision(3), digest_of(&*store))).unwrap();
    let lost = ReplicaError::Log(LogError::NotMember { name: "lost".to_owned() });
    for (prefix, expected) in [("/old", Some(older)), ("/bare", Some(lost)), ("/none", None)] {
        let member = process("lost", store.clone(), server.log(prefix, STORE));
        wait_until("the member says why", || member.why().is_some());
        let why = member.why().unwrap();
        assert_eq!(why, expected.unwrap_or_else(|| why.clone()), "{prefix}");
        assert_eq!(prefix == "/none", why.to_string().contains("there is no log"), "{why}");
    }
}

/// A store for tests. It can refuse changes, as a store on a full disk does. It can also write wrong records.
struct Full {
    store: Memory,
    is_full: AtomicBool,
    is_wrong: AtomicBool,
}

impl Full {
    fn new() -> Arc<Self> {
        Arc::new(Full {
            store: Memory::new(STORE),
            is_full: AtomicBool::new(false),
            is_wrong: AtomicBool::new(false),
        })
    }
}

impl Source for Full {
    fn at(&self) -> At {
        self.store.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.store.with_view(look)
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(SourceError::Unavailable("the disk is full".to_owned()).into());
        }
        let mut change = change.clone();
        if self.is_wrong.load(Ordering::Relaxed) {
            change.put(&DomainId::from_bytes([9; 16]), &Domain::new("wrong".parse().unwrap()));
        }
        self.store.commit(&change)
    }

    fn has_room_for(&self, requester: Requester, effect: Effect, bytes: u64) -> Result<(), CommitError> {
        self.store.has_room_for(requester, effect, bytes)
    }
}

#[test]
fn a_member_that_cannot_apply_a_change_is_not_waited_for_and_comes_back() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let log = server.log("/house", STORE);
    server.begin();
    let first = member(&server, Arc::new(Memory::new(STORE)));
    let full = Full::new();
    let second = member(&server, full.clone());
    add_one(&first).unwrap();
    full.is_full.store(true, Ordering::Relaxed);
    add_one(&first).unwrap();
    wait_until("the second says why", || matches!(second.why(), Some(ReplicaError::NotApplied { .. })));
    assert_eq!(second.proven(), 0);
    let (_, members) = runtime.block_on(log.status()).unwrap();
    assert_eq!(members.iter().map(|one| one.processes.len()).collect::<Vec<_>>(), [1, 0]);
    full.is_full.store(false, Ordering::Relaxed);
    wait_until("the second is current again", || second.is_current());
    assert_eq!((number(&second).1, second.why()), (2, None));
}

/// A server and commands on one machine share a store, and each of them applies changes of the log.
#[test]
fn processes_of_one_machine_share_a_store() {
    const ADDITIONS: u64 = 20;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let directory = std::env::temp_dir().join(format!("enfilade-fleet-shared-{}", std::process::id()));
    let store: Arc<dyn Source> = Arc::new(Lmdb::open(&directory).unwrap());
    let id = store.at().store;
    let log = || server.log("/house", id);
    runtime.block_on(log().begin(Revision(0), digest_of(&*store))).unwrap();
    let servers = [(); 2].map(|()| member_of(&server, "/house", Arc::clone(&store)));
    servers.iter().for_each(|one| wait_until("each server is current", || one.is_current()));
    let writers = [(); 2].map(|()| Writer::new(Arc::clone(&store), log()).unwrap());
    let all: Vec<&dyn Source> =
        servers.iter().map(|one| one as &dyn Source).chain(writers.iter().map(|one| one as _)).collect();
    std::thread::scope(|scope| {
        for source in &all {
            scope.spawn(|| {
                let mut added = 0;
                while added < ADDITIONS {
                    match add_one(*source) {
                        Ok(_) => added += 1,
                        Err(CommitError::Conflict { .. }) => {}
                        Err(why) => panic!("{why}"),
                    }
                }
            });
        }
    });
    assert_eq!((number(&*store).1, store.at().revision.0), (4 * ADDITIONS, 4 * ADDITIONS));
    writers.iter().for_each(|writer| writer.catch_up().unwrap());
    wait_until("both are current", || servers.iter().all(Member::is_current));
    drop((servers, writers));
    std::fs::remove_dir_all(directory).unwrap();
}

/// If two commands move the files at the same time, one of them fails. Its error must not say that the machine is not a member.
#[test]
fn two_commands_that_move_the_files_at_once_are_told_apart() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    server.begin();
    let log = server.log("/house", STORE);
    runtime.block_on(async {
        log.admit_first("a", 7).await.unwrap();
        log.accept(&log.invite("b").await.unwrap(), "b", 7).await.unwrap();
        assert_eq!(log.move_files(Some("b"), None).await, Err(LogError::FilesMoved));
        assert_eq!(log.move_files(Some("a"), None).await, Ok(()));
        assert_eq!(log.move_files(Some("a"), Some("b")).await, Err(LogError::FilesMoved));
        let nobody = LogError::NotMember { name: "c".to_owned() };
        assert_eq!(log.move_files(None, Some("c")).await, Err(nobody));
        assert_eq!(log.move_files(None, Some("b")).await, Ok(()));
        assert_eq!(log.files_member().await.unwrap().as_deref(), Some("b"));
    });
}

#[test]
fn an_expelled_member_shows_nothing_and_cannot_come_back_without_an_invitation() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let log = server.log("/house", STORE);
    server.begin();
    server.admit("/house", STORE, "good");
    server.admit("/house", STORE, "bad");
    let store = || Arc::new(Memory::new(STORE));
    let [good, bad] = ["good", "bad"].map(|name| process(name, store(), server.log("/house", STORE)));
    wait_until("both are current", || good.is_current() && bad.is_current());
    let (_, members) = runtime.block_on(log.status()).unwrap();
    let seen: Vec<_> = members.iter().map(|one| (one.name.as_str(), one.processes.len())).collect();
    assert_eq!(seen, [("bad", 1), ("good", 1)]);
    runtime.block_on(log.expel("bad")).unwrap();
    let not_member = ReplicaError::Log(LogError::NotMember { name: "bad".to_owned() });
    wait_until("`bad` is no member", || bad.why() == Some(not_member.clone()));
    wait_until("the proof of `bad` has ended", || !bad.is_current());
    let refused = bad.read(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("`bad` is not a member of this fleet"), "{refused}");
    assert_eq!(bad.at().revision, Revision(0));
    add_one(&good).unwrap();
    // An invitation can be used only once.
    let invitation = runtime.block_on(log.invite("bad")).unwrap();
    let accept = |name: &str| runtime.block_on(log.accept(&invitation, name, 7));
    assert_eq!(accept("other"), Err(LogError::InvitationUsed));
    assert_eq!(accept("bad"), Ok(()));
    assert_eq!(accept("bad"), Err(LogError::InvitationUsed));
    wait_until("`bad` is a member again", || bad.is_current());
    assert_eq!(number(&bad).1, 1);
}

/// No acknowledgement waits for a server that has ended.
#[test]
fn a_server_that_ends_shows_nothing_and_is_not_waited_for() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let log = server.log("/house", STORE);
    server.begin();
    let first = member(&server, Arc::new(Memory::new(STORE)));
    let second = member(&server, Arc::new(Memory::new(STORE)));
    first.follow_files(true);
    wait_until("the files are followed", || second.files_followed_ago().is_some());
    first.end();
    assert!(!first.is_current());
    assert!(matches!(add_one(&first), Err(CommitError::Source(_))));
    let (_, members) = runtime.block_on(log.status()).unwrap();
    assert_eq!(members.iter().map(|one| one.processes.len()).collect::<Vec<_>>(), [0, 1]);
    wait_until("the files are not followed", || second.files_followed_ago().is_some_and(|ago| ago > 3_000));
    add_one(&second).unwrap();
    assert_eq!(second.numbers().acknowledged, 1);
}

/// The second member writes a wrong record. If it then added a change, the records of the other members would differ from the digest in the log. Then
/// the other members would refuse requests.
#[test]
fn a_member_that_made_a_change_wrongly_adds_none() {
    let server = Server::start();
    server.begin();
    let first = member(&server, Arc::new(Memory::new(STORE)));
    let wrong = Full::new();
    let second = member(&server, wrong.clone());
    add_one(&first).unwrap();
    wait_until("the second member has the change", || wrong.at().revision == Revision(1));
    wrong.is_wrong.store(true, Ordering::Relaxed);
    add_one(&first).unwrap();
    wait_until("the second member has the change", || wrong.at().revision == Revision(2));
    let refused = add_one(&second);
    assert!(matches!(refused, Err(CommitError::Source(_))), "{refused:?}");
    let differs = Some(ReplicaError::Differs { change: Revision(3) });
    wait_until("the second member finds the difference", || second.why() == differs);
    assert_eq!(second.proven(), 0);
    add_one(&first).unwrap();
    assert!(first.is_current());
}
