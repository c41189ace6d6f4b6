//! The state of a running server: everything that a walk needs, in named fields. The server has no global variables for this state.

use crate::accounts::Accounts;
use crate::audit::Audit;
use crate::gate::HashGate;
use crate::handles::HouseStores;
use crate::passcodes::Passcodes;
use crate::penalties::Penalties;
use crate::per_minute::PerMinute;
use crate::shares::Shares;
use enfilade_access::AccessMemo;
use enfilade_content::{NamesMemo, ReservedPaths, Watch};
use enfilade_datastore::{FleetPlace, Ledger};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, Clocks, CommitError, LockStore, MemoSeed, Mounts, Source, WordMemo};
use enfilade_identity::{Context, HashKey, IdentityMemo, SessionState, Upgrade};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicI64;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError, RwLock};

/// Reads the clocks. Only the binary passes a function that reads the real clocks.
pub type Clock = Arc<dyn Fn() -> Clocks + Send + Sync>;

/// Returns how often the wall clock was set before the call. Only the binary passes a function that returns the real number.
pub type ClockSets = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// The lifetime of a token, in seconds.
    pub token_seconds: i64,
    /// For how many seconds after the expiry of a token a service can still validate the token.
    pub expired_seconds: i64,
    /// For how many previous time steps the server still accepts the passcodes. The passcode of the present time step is always accepted.
    pub passcode_steps: u64,
}

impl Default for SessionTerms {
    /// Keystone's defaults.
    fn default() -> Self {
        SessionTerms { token_seconds: 3_600, expired_seconds: 172_800, passcode_steps: 1 }
    }
}

/// The settings of the trash: in which datastores the console moves deleted files to the trash, and how long the files stay there.
#[derive(Clone, Debug, Default)]
pub struct TrashTerms {
    /// The number of days after which the server removes an item of the trash. With 0, nothing is moved to the trash, and the server removes nothing
    /// from it.
    pub days: u64,
    /// The datastores without a trash.
    pub without: BTreeSet<DatastoreName>,
}

/// Fills a buffer with random bytes; returns whether that succeeded. Only the binary passes a real source of random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) -> bool + Send + Sync>;

/// Moves the horizon, the last second in which sessions may be issued, to a given second, and commits the change. Only the crate `admin` changes
/// facts, so the creator of a [`House`] passes this function.
pub type AllowIssue = Arc<dyn Fn(Clocks, i64) -> Result<At, CommitError> + Send + Sync>;

/// The parts of a [`House`], the state of a running server.
pub struct Parts {
    /// The source of the facts.
    pub source: Arc<dyn Source>,
    /// The clocks.
    pub clock: Clock,
    /// A function that returns how often the wall clock was set.
    pub clock_sets: ClockSets,
    /// The place of this machine in its fleet. It determines which datastores this machine serves.
    pub place: FleetPlace,
    /// The reserved paths. No datastore may contain a reserved path or lie in one.
    pub reserved: Arc<ReservedPaths>,
    /// The watch for changes of files, if the kernel reports such changes.
    pub watch: Option<Watch>,
    /// The key of the fast hash of generated secrets.
    pub hash_key: HashKey,
    /// The memo of door 2.
    pub identity_memo: IdentityMemo,
    /// How long sessions last.
    pub session_terms: SessionTerms,
    /// Moves the horizon. Afterwards, sessions may also be issued in later seconds.
    pub allow_issue: AllowIssue,
    /// The settings of the trash.
    pub trash: TrashTerms,
    /// The limits.
    pub limits: Limits,
    /// The source of audit ids and other random bytes.
    pub random: Random,
    /// The memo of door 4.
    pub access_memo: AccessMemo,
    /// The gate of slow hashes.
    pub gate: HashGate,
    /// The delays and blocks after failed logins.
    pub penalties: Penalties,
    /// The failed logins of users, and the rules that lock users or make them inactive.
    pub accounts: Arc<Accounts>,
    /// The ledger of operations.
    pub ledger: Ledger,
    /// The locks of files.
    pub locks: Arc<dyn LockStore>,
    /// The queue of tokens with a slow hash that is to be replaced by a fast hash. If the queue is full, a token is not added. The next request with
    /// this token tries again to add it.
    pub upgrades: SyncSender<Upgrade>,
    /// Records the event of every request.
    pub audit: Arc<dyn Audit>,
}

/// The state of a running server, as the doors see it.
pub struct House {
    pub(crate) parts: Parts,
    pub(crate) stores: HouseStores,
    /// The keys of session tokens, the index of revocations, and the nonces of OAuth requests.
    pub(crate) sessions: SessionState,
    /// Sessions may be issued up to this second. This process has waited until all members of the fleet know the change that moved the horizon to
    /// this second.
    pub(crate) issues_until: AtomicI64,
    /// A memo of the states of files and directories that have no dead properties.
    pub(crate) bare: WordMemo<bool>,
    /// A memo of the names in directories: each list is remembered for one state of its directory.
    pub(crate) names: NamesMemo,
    /// The wrong passcodes of users.
    pub(crate) passcodes: Passcodes,
    /// The counts of the requests of which only a limited number is allowed in each minute.
    pub(crate) per_minute: PerMinute,
    /// The users' shares of the threads.
    pub(crate) shares: Arc<Shares>,
    mounts: RwLock<Arc<Mounts>>,
}

/// The size of the memo `bare`, in bytes. This is enough for about 300,000 files.
const BARE_BYTES: usize = 8 << 20;
/// The size of the memo `names`, in bytes. This is enough for about 350,000 names.
const NAMES_BYTES: usize = 16 << 20;

impl House {
    /// The member of the fleet that serves the datastores without a home, if this member is another machine.
    pub fn datastores_at(&self) -> Option<String> {
        self.parts.place.elsewhere(None).map(Cow::into_owned)
    }

    /// The place of this machine in its fleet. It determines which datastores this machine serves.
    pub fn place(&self) -> &FleetPlace {
        &self.parts.place
    }

    /// Makes a [`House`] from its parts. Until [`House::set_mounts`] is called, the house has no mount points. Until [`House::set_keys`] is called,
    /// every session's token is refused.
    pub fn new(parts: Parts) -> Arc<Self> {
        let (stores, sessions) = (HouseStores::default(), SessionState::default());
        let mut seed = MemoSeed([0; 16]);
        // If the system returns no random bytes, these memos remember nothing.
        let is_random = (parts.random)(&mut seed.0);
        let room = |bytes| if is_random { bytes } else { 0 };
        let bare = WordMemo::new(seed, room(BARE_BYTES));
        let names = NamesMemo::new(seed, room(NAMES_BYTES));
        let (shares, mounts) = (Arc::default(), RwLock::default());
        let (passcodes, per_minute) = (Passcodes::default(), PerMinute::default());
        let issues_until = AtomicI64::new(i64::MIN);
        Arc::new(House {
            parts,
            stores,
            sessions,
            issues_until,
            bare,
            names,
            passcodes,
            per_minute,
            shares,
            mounts,
        })
    }

    /// The key of the fast hash of generated secrets.
    pub fn hash_key(&self) -> &HashKey {
        &self.parts.hash_key
    }

    /// The input of door 2, except the facts.
    pub(crate) fn identity_context(&self) -> Context<'_> {
        let Parts { hash_key, identity_memo: memo, .. } = &self.parts;
        Context { hash_key, sessions: &self.sessions, memo }
    }

    /// Replaces the table of mounts. The server calls this function whenever the kernel reports a change.
    pub fn set_mounts(&self, mounts: Mounts) {
        *self.mounts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(mounts);
    }

    pub(crate) fn mounts(&self) -> Arc<Mounts> {
        Arc::clone(&self.mounts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The time.
    pub fn now(&self) -> Clocks {
        (self.parts.clock)()
    }

    /// Reads all events of the kernel about changed files. The server calls this function regularly, because the kernel's queue of events has a
    /// limit. If the queue overflows, the server forgets everything that it remembers about directories.
    pub fn drain_events(&self) {
        self.parts.watch.iter().for_each(Watch::drain);
    }

    pub(crate) fn clock_sets(&self) -> u64 {
        (self.parts.clock_sets)()
    }

    /// Whether the console moves deleted files of a datastore to the trash.
    pub fn has_trash(&self, datastore: &DatastoreName) -> bool {
        self.parts.trash.days > 0 && !self.parts.trash.without.contains(datastore)
    }

    /// The number of days after which the server removes an item of the trash. With 0, the server removes no items.
    pub fn trash_days(&self) -> u64 {
        self.parts.trash.days
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.parts.limits
    }

    /// The reserved paths. No datastore may contain a reserved path or lie in one.
    pub fn reserved(&self) -> &ReservedPaths {
        &self.parts.reserved
    }

    /// The number of names that were read and could not be shown to clients, because no URL can contain them. A name counts again each time that it
    /// is read.
    pub fn names_not_shown(&self) -> u64 {
        self.names.not_shown()
    }

    /// The facts.
    pub fn source(&self) -> &dyn Source {
        &*self.parts.source
    }

    /// The recorder of events.
    pub fn audit(&self) -> &Arc<dyn Audit> {
        &self.parts.audit
    }

    /// The hash gate, for metrics and for changes of the number of slots.
    pub fn gate(&self) -> &HashGate {
        &self.parts.gate
    }

    /// The failed logins, for metrics and for the commands that list and clear penalties.
    pub fn penalties(&self) -> &Penalties {
        &self.parts.penalties
    }
}
