//! Tests that the passage follows the rules of `docs/freshness.md`: a second actor acts between any two reads of the facts by the passage. Also tests
//! long requests, during which the doors are asked again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use enfilade_admin::{ChangeContext, DatastoreEdit, LimitModel, NewAcl, PasswordRules};
use enfilade_facts::source::Source;
use enfilade_facts::vocabulary::{Authid, DatastoreName, Maintenance, OperationKind, StorePath};
use enfilade_facts::{At, Change, CommitError, Requester, SourceError, View};
use enfilade_passage::{
    Blocking, CachedOnly, Ledger, Process, Refusal, ReservedPaths, Stay, Visit, ledger_words,
};
use enfilade_sources::files::file_set::FileSet;
use enfilade_testkit::{FixedClock, Remembering, TestHouse};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The second actor, which runs between two reads of the facts.
type Actor = Box<dyn FnMut() + Send>;
/// A number that is greater than the number of reads of the facts in one walk.
const STEPS: usize = 24;

/// The facts of a server. The actor runs each time before the facts return their revision, and each time after a view was used.
struct Watched {
    facts: Arc<dyn Source>,
    actor: Arc<Mutex<Option<Actor>>>,
}

impl Watched {
    fn act(&self) {
        // While the actor itself reads the facts, the actor is not called again.
        let actor = self.actor.lock().unwrap().take();
        if let Some(mut actor) = actor {
            actor();
            self.actor.lock().unwrap().get_or_insert(actor);
        }
    }
}

impl Source for Watched {
    fn at(&self) -> At {
        self.act();
        self.facts.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        let looked = self.facts.with_view(look);
        self.act();
        looked
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        self.facts.commit(change)
    }
}

struct World {
    house: TestHouse,
    actor: Arc<Mutex<Option<Actor>>>,
    ledger: Arc<Vec<AtomicU64>>,
    runtime: tokio::runtime::Runtime,
    main: DatastoreName,
    alice: Authid,
}

impl World {
    fn new() -> Self {
        let (actor, mut facts) = (Arc::new(Mutex::new(None)), None);
        let ledger: Arc<Vec<AtomicU64>> =
            Arc::new((0..ledger_words(64, 1)).map(|_| AtomicU64::new(0)).collect());
        let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
            facts = Some(Arc::clone(&parts.source));
            let watched = Watched { facts: Arc::clone(&parts.source), actor: Arc::clone(&actor) };
            parts.source = Arc::new(watched);
            parts.ledger = Ledger::new(Arc::clone(&ledger) as _, 1, 1, FixedClock::default().now());
        });
        let (main, alice): (DatastoreName, Authid) =
            ("main".parse().unwrap(), "alice@local".parse().unwrap());
        house.add_datastore(&main);
        house.add_user(&alice.user, None);
        house.assign("/datastore/main", &alice, "DatastorePowerUser");
        let everything = NewAcl::Lines(vec!["allow everyone full inherit=files,dirs".into()]);
        enfilade_admin::set_acl(&house.change_context(), &main, &StorePath::root(), &everything).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        World { house, actor, ledger, runtime, main, alice }
    }

    fn visit(&self) -> Visit {
        self.runtime.block_on(self.house.admit(&self.alice)).unwrap()
    }

    fn enter(&self, kind: OperationKind) -> Result<Stay, Refusal> {
        self.visit().enter(&self.main, kind, Blocking)
    }

    fn process(&self) -> Process {
        process(&self.ledger)
    }

    /// A function that closes the datastore, as another process would do.
    fn closing(&self) -> impl Fn() + Send + use<> {
        let (facts, clock, main) =
            (Arc::clone(&self.house.source), self.house.clock.clone(), self.main.clone());
        let files: FileSet = self.house.files.clone();
        move || {
            let reserved = ReservedPaths::default();
            let ctx = ChangeContext {
                facts: &*facts,
                files: &files,
                passwords: PasswordRules::NONE,
                limit_model: LimitModel::default(),
                reserved: &reserved,
                roots: None,
                keeps_administrators: false,
                request: None,
                who: "another process",
                requester: Requester::Administrator,
                now: clock.now(),
            };
            let offline = DatastoreEdit::Maintenance(Some(Maintenance::from_property("offline")));
            enfilade_admin::edit_datastore(&ctx, &main, &offline).unwrap();
        }
    }

    fn revoke(&self) {
        let name = "test".parse().unwrap();
        enfilade_admin::delete_token(&self.house.change_context(), &self.alice.user, &name).unwrap();
    }

    fn content(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.house.content(&self.main).join(name)).ok()
    }
}

fn process(ledger: &Arc<Vec<AtomicU64>>) -> Process {
    Process::read(ledger.len(), |at| ledger[at].load(Ordering::SeqCst)).unwrap()
}

fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

/// Rule 5: an operation is counted before it is judged. If a process closes the datastore and then finds no active operation, no operation begins
/// later.
#[test]
fn nobody_enters_a_store_after_it_was_closed_and_nobody_was_counted() {
    for is_warm in [false, true] {
        let mut closed_at = Vec::new();
        for step in 0..STEPS {
            let world = World::new();
            if is_warm {
                world.enter(OperationKind::Write).map(drop).unwrap();
            }
            let visit = world.visit();
            let (close, ledger) = (world.closing(), Arc::clone(&world.ledger));
            let (mut steps, is_closed) = (0, Arc::new(AtomicBool::new(false)));
            let is_reached = Arc::new(AtomicBool::new(false));
            let (said, reached) = (Arc::clone(&is_closed), Arc::clone(&is_reached));
            *world.actor.lock().unwrap() = Some(Box::new(move || {
                reached.fetch_or(steps == step, Ordering::SeqCst);
                if steps == step && process(&ledger).inside.is_empty() {
                    close();
                    said.store(process(&ledger).inside.is_empty(), Ordering::SeqCst);
                }
                steps += 1;
            }));
            let entered = visit.enter(&world.main, OperationKind::Write, Blocking);
            *world.actor.lock().unwrap() = None;
            let is_closed = is_closed.load(Ordering::SeqCst);
            assert!(
                !(is_closed && entered.is_ok()),
                "an operation began after the datastore was closed; step {step}, warm {is_warm}"
            );
            closed_at.extend(is_closed.then_some(step));
            if !is_reached.load(Ordering::SeqCst) {
                break;
            }
        }
        assert!(!closed_at.is_empty(), "the datastore was never closed");
    }
}

/// Rule 6: the root directory of a datastore is not kept open if the facts changed since the permit with which it was opened.
#[test]
fn a_root_is_not_kept_across_a_revision() {
    let is_kept = |world: &World| {
        let stay = world.visit().enter(&world.main, OperationKind::Read, CachedOnly).unwrap();
        stay.ready().is_some()
    };
    let world = World::new();
    world.enter(OperationKind::Read).map(drop).unwrap();
    assert!(is_kept(&world), "the root is not kept although nothing changed");
    let mut at_last_steps = 0;
    for step in 0..STEPS {
        let world = World::new();
        let visit = world.visit();
        let (close, mut steps) = (world.closing(), 0);
        let done = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&done);
        *world.actor.lock().unwrap() = Some(Box::new(move || {
            if steps == step {
                close();
                said.store(true, Ordering::SeqCst);
            }
            steps += 1;
        }));
        let entered = visit.enter(&world.main, OperationKind::Read, Blocking);
        *world.actor.lock().unwrap() = None;
        if !done.load(Ordering::SeqCst) {
            break;
        }
        if entered.is_err() {
            continue;
        }
        // The datastore was closed after the permit. The process that closes it waits for active operations, and then for open handles.
        at_last_steps += 1;
        drop(entered);
        assert_eq!(world.process().inside, []);
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let root = world.house.content(&world.main);
        let held = open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == root)).count();
        assert_eq!(held, 0, "the root is open after the datastore was closed, step {step}");
    }
    assert!(at_last_steps > 0, "the datastore was never closed after the permit");
}

/// Rule 6: before all handles of a server are closed, the server does not record in the ledger that they are closed. So it does not record this while
/// a request is opening a root.
#[test]
fn the_ledger_is_not_stamped_while_a_root_is_being_opened() {
    let mut was_busy = 0;
    for step in 0..STEPS {
        let world = World::new();
        // From here on the server knows the datastore, and has not kept its root open.
        world.enter(OperationKind::Read).map(drop).unwrap();
        let domain = "later".parse().unwrap();
        enfilade_admin::keystone::add_domain(&world.house.change_context(), &domain, None).unwrap();
        let at = world.house.house.close_idle_roots();
        assert_eq!(world.process().closed, at.revision);
        let visit = world.visit();
        let close = world.closing();
        let (house, ledger, mut steps) = (Arc::clone(&world.house.house), Arc::clone(&world.ledger), 0);
        let root = world.house.content(&world.main);
        let found = Arc::new(Mutex::new(None));
        let said = Arc::clone(&found);
        *world.actor.lock().unwrap() = Some(Box::new(move || {
            if steps == step {
                close();
                let at = house.close_idle_roots();
                let stamped = process(&ledger).closed == at.revision;
                let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
                let is_open =
                    open.into_iter().any(|e| std::fs::read_link(e.path()).is_ok_and(|to| to == root));
                *said.lock().unwrap() = Some((stamped, is_open));
            }
            steps += 1;
        }));
        let entered = visit.enter(&world.main, OperationKind::Read, Blocking);
        *world.actor.lock().unwrap() = None;
        drop(entered);
        let Some((stamped, is_open)) = *found.lock().unwrap() else { break };
        assert!(!(stamped && is_open), "the handles count as closed while the root is open, step {step}");
        was_busy += u32::from(is_open);
    }
    assert!(was_busy > 0, "no root was being opened at any step");
}

/// If the wall clock is set during a listing, the time stamps of files cannot be compared. So entries that are remembered by their time stamps are
/// not used.
#[test]
fn a_listing_during_which_the_clock_is_set_is_not_answered_from_memory() {
    let is_setting = Arc::new(AtomicBool::new(false));
    let (sets, setting) = (AtomicU64::new(0), Arc::clone(&is_setting));
    let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
        parts.clock_sets =
            Arc::new(move || sets.fetch_add(setting.load(Ordering::SeqCst).into(), Ordering::SeqCst));
    });
    // By this clock, files that are created now are old, so their state would be remembered.
    house.clock.set_wall(10_000_000_000);
    let (main, alice): (DatastoreName, Authid) = ("main".parse().unwrap(), "alice@local".parse().unwrap());
    house.add_datastore(&main);
    house.add_user(&alice.user, None);
    house.assign("/datastore/main", &alice, "DatastoreReader");
    let everything = NewAcl::Lines(vec!["allow everyone full inherit=files,dirs".into()]);
    enfilade_admin::set_acl(&house.change_context(), &main, &StorePath::root(), &everything).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let listing = || {
        let visit = runtime.block_on(house.admit(&alice)).unwrap();
        visit.enter(&main, OperationKind::Read, Blocking).unwrap().list(StorePath::root()).unwrap()
    };
    let file = house.content(&main).join("file");
    std::fs::write(&file, "x").unwrap();
    enfilade_admin::set_acl(&house.change_context(), &main, &path("file"), &everything).unwrap();
    // The first listing reads the entry, and the server remembers it. The second listing is answered from memory.
    assert_eq!(listing().next_batch(16).unwrap().unwrap().len(), 1);
    assert!(
        listing().all_cached(16).unwrap().ready().is_some_and(|entries| entries.len() == 1),
        "the entry is not remembered"
    );
    is_setting.store(true, Ordering::SeqCst);
    assert!(
        listing().all_cached(16).unwrap().ready().is_none(),
        "answered from memory while the clock was set"
    );
    assert_eq!(listing().next_batch(16).unwrap().unwrap().len(), 1);
}

/// Removes roles between two batches of a listing of ways: of the names that lead to paths on which the user has a role. The test reads the listing
/// as PROPFIND does: batch after batch, until the listing ends.
#[test]
fn a_listing_of_ways_ends_when_the_roles_on_its_last_names_are_taken() {
    for left in [&[0][..], &[0, 7], &[0, 8], &[0, 8, 19]] {
        let mut house = TestHouse::new(Remembering::AsServed);
        let (main, alice): (DatastoreName, Authid) =
            ("main".parse().unwrap(), "alice@local".parse().unwrap());
        house.add_datastore(&main);
        house.add_user(&alice.user, None);
        let everything = NewAcl::Lines(vec!["allow everyone full inherit=files,dirs".into()]);
        for n in 0..20 {
            let name = format!("d{n:02}");
            std::fs::create_dir(house.content(&main).join(&name)).unwrap();
            enfilade_admin::set_acl(&house.change_context(), &main, &path(&name), &everything).unwrap();
            house.assign(&format!("/datastore/main/{name}"), &alice, "DatastoreReader");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let visit = runtime.block_on(house.admit(&alice)).unwrap();
        let stay = visit.enter(&main, OperationKind::Read, Blocking).unwrap();
        let mut listing = stay.list_ways(StorePath::root());
        let mut names: Vec<String> = Vec::new();
        let mut batches = 0;
        loop {
            let batch = listing.next_batch(8).unwrap().unwrap_or_default();
            names.extend(batch.iter().map(|entry| entry.name.to_string()));
            if batches == 0 {
                assert!(names.len() == 8 && !listing.is_over().unwrap(), "{names:?}");
                for n in (0..20).filter(|n| !left.contains(n)) {
                    let (on, who) = (format!("/datastore/main/d{n:02}"), alice.to_string());
                    let (on, who, role) = (on.parse().unwrap(), who.parse().unwrap(), "DatastoreReader");
                    let ctx = house.change_context();
                    enfilade_admin::remove_role(&ctx, &on, &who, role.parse().unwrap()).unwrap();
                }
            }
            batches += 1;
            if listing.is_over().unwrap() {
                break;
            }
            assert!(batches < 5, "the listing does not end: {left:?}");
        }
        let later: Vec<String> = left.iter().filter(|n| **n > 7).map(|n| format!("d{n:02}")).collect();
        assert_eq!(names[8..], later, "{left:?}");
    }
}

/// Deletes the token with which the upload was authenticated, either between two pieces of the body or after the last piece.
#[test]
fn an_upload_is_refused_at_its_next_piece_and_at_its_end() {
    for (name, is_there) in [("new", false), ("old", true)] {
        for pieces in [1, 2] {
            let world = World::new();
            if is_there {
                std::fs::write(world.house.content(&world.main).join(name), "before").unwrap();
                let everything = NewAcl::Lines(vec!["allow everyone full".into()]);
                enfilade_admin::set_acl(&world.house.change_context(), &world.main, &path(name), &everything)
                    .unwrap();
            }
            let before = world.content(name);
            let mut upload = world.enter(OperationKind::Write).unwrap().upload(path(name), None).unwrap();
            upload.write(b"a").unwrap();
            if pieces == 2 {
                world.revoke();
                assert!(upload.write(b"b").is_err(), "{name}: a piece after the token was deleted");
            } else {
                upload.write(b"b").unwrap();
                world.revoke();
            }
            assert!(upload.finish().is_err(), "{name}: finished after the token was deleted");
            assert_eq!(world.content(name), before, "{name}");
        }
    }
}

/// Door 3 is also asked again. An unknown maintenance mode also ends running operations.
#[test]
fn an_upload_is_refused_when_its_store_says_what_is_not_known() {
    for (mode, goes_on) in [("read-only", true), ("offlin", false)] {
        let world = World::new();
        let mut upload = world.enter(OperationKind::Write).unwrap().upload(path("new"), None).unwrap();
        upload.write(b"a").unwrap();
        let edit = DatastoreEdit::Maintenance(Some(Maintenance::from_property(mode)));
        enfilade_admin::edit_datastore(&world.house.change_context(), &world.main, &edit).unwrap();
        assert_eq!(upload.write(b"b").is_ok(), goes_on, "{mode}");
        assert_eq!(upload.finish().is_ok(), goes_on, "{mode}");
        assert_eq!(world.content("new").is_some(), goes_on, "{mode}");
    }
}

/// An ACL is stored with its file and not in the facts. So a running download reads the ACL again each second.
#[test]
fn a_download_ends_within_a_second_when_the_acl_no_longer_grants_it() {
    let world = World::new();
    std::fs::write(world.house.content(&world.main).join("file"), "content").unwrap();
    let set = |line: &str| {
        let lines = NewAcl::Lines(vec![line.to_owned()]);
        enfilade_admin::set_acl(&world.house.change_context(), &world.main, &path("file"), &lines).unwrap();
    };
    set("allow everyone full");
    let mut reading = world.enter(OperationKind::Read).unwrap().read(&path("file"), Blocking).unwrap();
    let mut read = || {
        let mut buffer = Vec::with_capacity(4);
        reading.read_at(0, &mut buffer).is_ok()
    };
    assert!(read());
    world.house.clock.advance_seconds(1);
    assert!(read(), "refused although nothing changed");
    set("deny alice@local full");
    world.house.clock.advance_seconds(1);
    assert!(!read(), "read a second after the ACL was changed");
}
