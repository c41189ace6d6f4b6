//! The connections of members to etcd stop and continue at random. No member may grant a request on facts that are older than an acknowledged change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

mod etcd;

use enfilade_facts::journal::digest;
use enfilade_facts::tables::Domain;
use enfilade_facts::{After, CommitError, Read as _, Revision, Source as _};
use enfilade_fleet::{Etcd, Log, Server as Member};
use enfilade_sources::memory::Memory;
use enfilade_testkit::Relay;
use etcd::Server;
use etcd::counter::{STORE, add_one, boot_clock, change, granted, id, number};
use etcd::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MEMBERS: usize = 3;

/// The log, which is reached through a relay.
fn log_through(relay: &Relay) -> Log {
    Log::new(Etcd::at(&[format!("http://{}", relay.address)], None).unwrap(), "/house", STORE)
}

fn relay_to(server: &Server) -> Relay {
    Relay::to(server.address().trim_start_matches("http://"))
}

/// A new member that joins through its own connection to etcd, and then follows the log through the connection of `log`.
fn admit(server: &Server, name: &str, store: Arc<Memory>, log: Log) -> Member {
    server.admit("/house", STORE, name);
    process(name, store, log)
}

/// The random number generator Xorshift (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn no_member_grants_on_facts_older_than_an_acknowledged_change() {
    let seconds = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let seed = std::env::var("ENFILADE_CAMPAIGN_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let empty = Memory::new(STORE);
    let empty = empty.read(digest).unwrap().unwrap();
    runtime.block_on(server.log("/house", STORE).begin(Revision(0), empty)).unwrap();
    let relays: Vec<Relay> = (0..MEMBERS).map(|_| relay_to(&server)).collect();
    let stores: Vec<Arc<Memory>> = (0..MEMBERS).map(|_| Arc::new(Memory::new(STORE))).collect();
    let start =
        |nth: usize| admit(&server, &format!("m{nth}"), stores[nth].clone(), log_through(&relays[nth]));
    let members: Vec<Member> = (0..MEMBERS).map(start).collect();
    let ends = Instant::now() + Duration::from_secs(seconds);
    let is_over = || Instant::now() >= ends;
    // The greatest value of the number in the facts that was acknowledged.
    let acknowledged = AtomicU64::new(0);
    let [grants, prevented, changes, unknown] = [const { AtomicU64::new(0) }; 4];
    std::thread::scope(|scope| {
        for (member, store) in members.iter().zip(&stores) {
            // This thread makes requests.
            scope.spawn(|| {
                while !is_over() {
                    let known = acknowledged.load(Ordering::SeqCst);
                    match granted(member) {
                        Ok((_, number)) => {
                            assert!(number >= known, "{number} was granted after {known} was acknowledged");
                            grants.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) => {
                            let is_stale = number(&**store).1 < known;
                            prevented.fetch_add(u64::from(is_stale), Ordering::Relaxed);
                        }
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            // This thread makes changes.
            scope.spawn(|| {
                while !is_over() {
                    match add_one(member) {
                        Ok(number) => {
                            acknowledged.fetch_max(number, Ordering::SeqCst);
                            changes.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(CommitError::Unknown(_)) => drop(unknown.fetch_add(1, Ordering::Relaxed)),
                        Err(_) => {}
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        // This thread stops one or two connections for up to four seconds, in one direction or in both. Some connections continue only for a moment
        // before they stop again.
        scope.spawn(|| {
            let mut random = Random(seed);
            let mut first = 0;
            while !is_over() {
                // Often the same member is chosen again, because two stops with a short time between them are the hardest case.
                if random.below(2) == 0 {
                    first = random.below(MEMBERS as u64) as usize;
                }
                let both = [first, (first + random.below(2) as usize) % MEMBERS];
                let directions = [&[0, 1][..], &[0], &[1]][random.below(3) as usize];
                let hold = |holds: bool| {
                    for (nth, direction) in
                        both.iter().flat_map(|nth| directions.iter().map(move |it| (*nth, *it)))
                    {
                        relays[nth].both()[direction].hold(holds);
                    }
                };
                hold(true);
                let most = [900, 4_000][random.below(2) as usize];
                std::thread::sleep(Duration::from_millis(random.below(most)));
                hold(false);
                let most = [50, 1_500][random.below(2) as usize];
                std::thread::sleep(Duration::from_millis(random.below(most)));
            }
        });
    });
    // At the end, all members become current again and have the same records, and no acknowledged change is lost.
    let same = || {
        let first = stores[0].at();
        stores.iter().all(|store| store.at() == first) && members.iter().all(Member::is_current)
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !same() {
        let why: Vec<_> = members.iter().map(Member::why).collect();
        assert!(Instant::now() < until, "the members do not become current: {why:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let digests: Vec<u128> = stores.iter().map(|store| store.read(digest).unwrap().unwrap()).collect();
    assert!(digests.iter().all(|one| *one == digests[0]), "{digests:?}");
    let (grants, prevented) = (grants.into_inner(), prevented.into_inner());
    let (changes, acknowledged) = (changes.into_inner(), acknowledged.into_inner());
    let number = number(&*stores[0]).1;
    println!(
        "fleet: {grants} requests granted, 0 of them on stale facts; {prevented} requests on stale facts refused; {changes} changes acknowledged, \
         0 of them lost; {} changes with an unknown outcome; 0 members with other records at the end",
        unknown.into_inner()
    );
    assert!(number >= acknowledged && number >= changes, "{number}, {acknowledged}, {changes}");
    assert!(grants > 0 && prevented > 0 && changes > 0);
}

/// Rule 2 of docs/fleet-protocol.md: a proof counts from the time of the question, even if the answer was delayed for a long time.
#[test]
fn a_late_answer_proves_nothing_later_than_its_question() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let store = Arc::new(Memory::new(STORE));
    let empty = store.read(digest).unwrap().unwrap();
    runtime.block_on(server.log("/house", STORE).begin(Revision(0), empty)).unwrap();
    let relay = relay_to(&server);
    let member = admit(&server, "late", store, log_through(&relay));
    let [questions, answers] = relay.both();
    let mut late = 0;
    for _ in 0..40 {
        while !member.is_current() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let held_at = boot_clock();
        answers.hold(true);
        // During this pause, the member asks a question, and the relay holds back the answer. Then the relay holds back all later questions, so that
        // they get no answer.
        std::thread::sleep(Duration::from_millis(700));
        questions.hold(true);
        answers.hold(false);
        std::thread::sleep(Duration::from_millis(60));
        let proven = member.proven();
        questions.hold(false);
        // The member asks every 200 ms. So it may have asked one more question after `held_at`, and the bound allows for this question.
        assert!(proven < held_at + 500, "the proof counts from {} ms after `held_at`", proven - held_at);
        late += u32::from(proven > held_at);
        if late == 3 {
            return;
        }
    }
    panic!("no answer was late");
}

/// If an author repeats a change that is already in the log, the acknowledgement still waits for the members that lack the change.
#[test]
fn a_repeated_change_waits_for_the_members_that_lack_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let stores = [Arc::new(Memory::new(STORE)), Arc::new(Memory::new(STORE))];
    let empty = stores[0].read(digest).unwrap().unwrap();
    let log = server.log("/house", STORE);
    runtime.block_on(log.begin(Revision(0), empty)).unwrap();
    let relay = relay_to(&server);
    let through = log_through(&relay);
    let direct = server.log("/house", STORE);
    let author = admit(&server, "author", stores[0].clone(), direct);
    let cut_off = admit(&server, "cut-off", stores[1].clone(), through);
    while !(author.is_current() && cut_off.is_current()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    add_one(&author).unwrap();
    let mut change = change();
    change.delete::<Domain>(&id());
    relay.both().iter().for_each(|direction| direction.hold(true));
    // Simulates that the author has added the change to the log, and has not learned that it was added.
    let after = stores[0].read(|view| digest(&After::of(view, &change).unwrap().view()));
    let head = runtime.block_on(log.head()).unwrap();
    runtime.block_on(log.append(head, std::slice::from_ref(&change), after.unwrap().unwrap())).unwrap();
    while stores[0].at().revision != Revision(2) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(author.commit(&change).unwrap().revision, Revision(2), "it writes nothing");
    assert!(!cut_off.is_current() || stores[1].at().revision == Revision(2));
    relay.both().iter().for_each(|direction| direction.hold(false));
}
