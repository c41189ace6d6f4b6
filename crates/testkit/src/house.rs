//! A server in the process of the test, with facts in memory and files in its own directory.

use crate::clock::FixedClock;
use crate::context::change_context;
use enfilade_access::AccessMemo;
use enfilade_admin::{ChangeContext, DatastoreEdit, NewUser, TokenTerms};
use enfilade_facts::tables::{Password, User};
use enfilade_facts::vocabulary::{Authid, DatastoreName, Secret, TokenName, UserId, Userid};
use enfilade_facts::{AuditRecord, Change, Clocks, LockStore, MemoSeed, Read, Source, StoreId};
use enfilade_identity::{HashKey, IdentityMemo, SecretAsk, SessionAsk};
use enfilade_passage::{
    Accounts, AllowIssue, Audit, Credential, Event, FleetPlace, HashGate, House, Parts, Penalties, Random,
    Refusal, ReservedPaths, SessionTerms, TrashTerms, Upgrade, Visit,
};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::locks::MemoryLocks;
use enfilade_sources::memory::Memory;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The hash of `pw`. It is cheap to compute, because tests log in often.
pub const CHEAP_HASH: &str = "$5$rounds=1000$salt$gdEupGonUIiJCMc1vfHpiFjFhRA3Jf3USQ7IYKjZitD";

/// The size of the memos of the doors. The answers of the doors must not depend on this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembering {
    /// Large memos, as on a server.
    AsServed,
    /// The smallest memos, with one set of entries each, so that nearly every result is computed again.
    Hardly,
}

/// A temporary directory, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates the directory.
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("enfilade-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An audit log that keeps the events for tests.
#[derive(Default)]
struct Kept(Mutex<Vec<Event>>);

impl Audit for Kept {
    fn record(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A server and the parts around it that tests use.
pub struct TestHouse {
    /// The server.
    pub house: Arc<House>,
    /// The facts of the server.
    pub source: Arc<Memory>,
    /// The clock of the server.
    pub clock: FixedClock,
    /// The files that people edit, such as `user.cfg`.
    pub files: FileSet,
    /// Receives the tokens with a slow hash that must be replaced by a fast hash.
    pub upgrades: Receiver<Upgrade>,
    scratch: Scratch,
    events: Arc<Kept>,
    secrets: HashMap<String, String>,
}

/// The key of the fast hash in tests.
pub fn hash_key() -> HashKey {
    HashKey::new(&[42; 32])
}

/// An audit log that drops every event.
struct NoLog;

impl Audit for NoLog {
    fn record(&self, _: Event) {}
}

/// The parts of a server at a fixed time. The server has no keys for sessions, no penalties and no audit log.
pub fn parts_at(source: Arc<dyn Source>, now: Clocks) -> Parts {
    Parts {
        allow_issue: allow_issue(Arc::clone(&source)),
        source,
        clock: Arc::new(move || now),
        clock_sets: Arc::new(|| 0),
        place: FleetPlace::Alone,
        reserved: Arc::default(),
        watch: None,
        hash_key: hash_key(),
        identity_memo: IdentityMemo::new(MemoSeed([1; 16]), 1 << 16),
        session_terms: SessionTerms::default(),
        random: Arc::new(|_: &mut [u8]| false),
        access_memo: AccessMemo::new(MemoSeed([1; 16]), 1 << 16),
        gate: HashGate::new(1),
        penalties: Penalties::none(MemoSeed([1; 16])),
        accounts: Arc::new(Accounts::free()),
        trash: TrashTerms::default(),
        limits: enfilade_facts::limits::Limits::default(),
        locks: Arc::new(MemoryLocks::default()),
        ledger: enfilade_passage::Ledger::private(1_024, now),
        upgrades: sync_channel(1).0,
        audit: Arc::new(NoLog),
    }
}

impl TestHouse {
    /// An empty server.
    pub fn new(remembering: Remembering) -> Self {
        Self::with_locks(remembering, Arc::new(MemoryLocks::default()))
    }

    /// An empty server with this lock store.
    pub fn with_locks(remembering: Remembering, locks: Arc<dyn LockStore>) -> Self {
        Self::changed(remembering, |parts| parts.locks = locks)
    }

    /// An empty server. Before the server is made, `change` can replace its parts.
    pub fn changed(remembering: Remembering, change: impl FnOnce(&mut Parts)) -> Self {
        let source = Arc::new(Memory::new(StoreId(7)));
        let clock = FixedClock::default();
        let scratch = Scratch::new();
        let files = FileSet::new(scratch.path());
        let reserved = ReservedPaths::default();
        let ctx = change_context(&*source, &files, &reserved, clock.now());
        enfilade_admin::ensure_local_realm(&ctx, None).unwrap();
        let events = Arc::new(Kept::default());
        let bytes = match remembering {
            Remembering::AsServed => 1 << 20,
            Remembering::Hardly => 1,
        };
        let (upgrades, upgraded) = sync_channel(16);
        let mut parts = Parts {
            clock: clock.as_clock(),
            identity_memo: IdentityMemo::new(MemoSeed([1; 16]), bytes),
            random: counting(),
            access_memo: AccessMemo::new(MemoSeed([2; 16]), bytes),
            penalties: Penalties::none(MemoSeed([3; 16])),
            upgrades,
            audit: Arc::clone(&events) as Arc<dyn Audit>,
            ..parts_at(Arc::clone(&source) as Arc<dyn Source>, clock.now())
        };
        change(&mut parts);
        let house = House::new(parts);
        TestHouse {
            upgrades: upgraded,
            house,
            source,
            files,
            clock,
            scratch,
            events,
            secrets: HashMap::new(),
        }
    }

    /// The facts of the server.
    pub fn facts(&self) -> &dyn Source {
        &*self.source
    }

    /// The context in which a test changes the facts of the server, at the present time of the server's clock.
    pub fn change_context(&self) -> ChangeContext<'_> {
        change_context(self.facts(), &self.files, self.house.reserved(), self.clock.now())
    }

    /// The events so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.0.lock().unwrap().clone()
    }

    /// The directory of a datastore's content.
    pub fn content(&self, datastore: &DatastoreName) -> PathBuf {
        self.scratch.path().join(datastore.as_str())
    }

    /// Makes a datastore.
    pub fn add_datastore(&self, name: &DatastoreName) {
        let path = self.content(name).to_str().unwrap().to_owned();
        let edit = DatastoreEdit::Create { path, properties: Vec::new() };
        enfilade_admin::edit_datastore(&self.change_context(), name, &edit).unwrap();
    }

    /// Assigns a role.
    pub fn assign(&self, path: &str, who: &Authid, role: &str) {
        let (path, role) = (path.parse().unwrap(), role.parse().unwrap());
        let who = who.to_string().parse().unwrap();
        enfilade_admin::assign_role(&self.change_context(), &path, &who, role, true).unwrap();
    }

    /// Creates a user with a token `test`, which [`TestHouse::admit`] uses.
    pub fn add_user(&mut self, userid: &Userid, uid: Option<u32>) {
        let new = NewUser { uid, ..NewUser::named(userid.clone()) };
        enfilade_admin::add_user(&self.change_context(), &new).unwrap();
        let name: TokenName = "test".parse().unwrap();
        let made = enfilade_admin::create_token(
            &self.change_context(),
            &hash_key(),
            userid,
            &name,
            &TokenTerms::default(),
        )
        .unwrap();
        self.secrets.insert(made.tokenid.to_string(), made.value);
    }

    /// Creates the user NAME@Default with the password `pw`.
    pub fn add_login(&self, name: &str) -> UserId {
        let userid: Userid = format!("{name}@Default").parse().unwrap();
        let id = enfilade_admin::add_user(&self.change_context(), &NewUser::named(userid)).unwrap().0;
        self.give_cheap_password(&id);
        id
    }

    /// Gives a user the password `pw`.
    pub fn give_cheap_password(&self, id: &UserId) {
        let row = self.facts().read(|view| view.get::<User>(id)).unwrap().unwrap().unwrap();
        let what = "a cheap password".to_owned();
        let mut change =
            Change::new(AuditRecord { who: "a test".into(), what, unix_seconds: 0, request: None });
        change.put(id, &User { password: Some(Password::of(CHEAP_HASH.into())), ..row });
        self.facts().commit(&change).unwrap();
    }

    /// Authenticates with a credential, from the loopback address.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn come_in(&self, ask: SecretAsk) -> Result<Visit, Refusal> {
        self.house.admit(&Credential::Secret(ask), Ipv4Addr::LOCALHOST.into()).await
    }

    /// Authenticates with the token of a session. Panics if door 2 would have to wait.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub fn come_in_by(&self, token: &[u8]) -> Result<Visit, Refusal> {
        let credential = Credential::Session(SessionAsk { token: Secret::new(token).unwrap() });
        let admitted = pin!(self.house.admit(&credential, Ipv4Addr::LOCALHOST.into()));
        match admitted.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(admitted) => admitted,
            Poll::Pending => panic!("door 2 waits for something"),
        }
    }

    /// Authenticates a user with the user's token `test`, or a token with the secret from its creation. For any other name, the secret is wrong.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn admit(&self, who: &Authid) -> Result<Visit, Refusal> {
        let mut authid = who.clone();
        authid.token.get_or_insert_with(|| "test".parse().unwrap());
        let secret = self.secrets.get(&authid.to_string()).map_or("wrong", String::as_str);
        self.come_in(SecretAsk { authid, secret: Secret::new(secret.as_bytes()).unwrap() }).await
    }
}

/// Returns a function that writes a record to these facts: the second up to which sessions may be issued.
pub fn allow_issue(facts: Arc<dyn Source>) -> AllowIssue {
    Arc::new(move |now, second| enfilade_admin::keystone::allow_issue(&*facts, now, second))
}

/// Bytes that are not random, but never repeat.
fn counting() -> Random {
    let next = std::sync::atomic::AtomicU64::new(1);
    Arc::new(move |bytes: &mut [u8]| {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        bytes.iter_mut().zip(n.to_be_bytes().iter().cycle()).for_each(|(byte, n)| *byte = *n);
        true
    })
}
