//! What a walk needs: every stateful thing is here by name, none is a global.

use crate::audit::Audit;
use crate::gate::HashGate;
use crate::handles::HouseStores;
use crate::penalties::Penalties;
use crate::shares::Shares;
use enfilade_access::AccessMemo;
use enfilade_content::{NamesMemo, ReservedPaths, Watch};
use enfilade_datastore::Ledger;
use enfilade_facts::limits::Limits;
use enfilade_facts::{At, Clocks, CommitError, LockStore, MemoSeed, Mounts, Source, WordMemo};
use enfilade_identity::{Context, HashKey, IdentityMemo, SessionState, Upgrade};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError, RwLock};

/// Reads the clocks. Only the binary has a real one.
pub type Clock = Arc<dyn Fn() -> Clocks + Send + Sync>;

/// How often somebody had set the wall clock, exact whenever it is asked. Only the binary really knows.
pub type ClockSets = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// How long a token is good, in seconds.
    pub token_seconds: i64,
    /// How long after that services may still have it validated, in seconds.
    pub expired_seconds: i64,
}

impl Default for SessionTerms {
    /// Keystone's.
    fn default() -> Self {
        SessionTerms { token_seconds: 3_600, expired_seconds: 172_800 }
    }
}

/// Fills with random bytes; says whether it could. Only the binary has a real one.
pub type Random = Arc<dyn Fn(&mut [u8]) -> bool + Send + Sync>;

/// Lets sessions be issued up to a second, at a time. Only `admin` changes facts, so the house is built with this.
pub type AllowIssue = Arc<dyn Fn(Clocks, i64) -> Result<At, CommitError> + Send + Sync>;

/// What a house is built from.
pub struct Parts {
    /// Where the facts are.
    pub source: Arc<dyn Source>,
    /// The clocks.
    pub clock: Clock,
    /// How often somebody had set the wall clock by now.
    pub clock_sets: ClockSets,
    /// What no datastore may reach.
    pub reserved: Arc<ReservedPaths>,
    /// Hears of changes of files, where the kernel tells of them.
    pub watch: Option<Watch>,
    /// The key of the fast hash of generated secrets.
    pub hash_key: HashKey,
    /// What door 2 remembers.
    pub identity_memo: IdentityMemo,
    /// How long sessions last.
    pub session_terms: SessionTerms,
    /// Lets sessions be issued later than the facts say by now.
    pub allow_issue: AllowIssue,
    /// What is too much.
    pub limits: Limits,
    /// Where audit ids and the like come from.
    pub random: Random,
    /// What door 4 remembers.
    pub access_memo: AccessMemo,
    /// Where slow hashes are computed.
    pub gate: HashGate,
    /// Who failed to come in lately.
    pub penalties: Penalties,
    /// Who is inside which store.
    pub ledger: Ledger,
    /// Who has locked what.
    pub locks: Arc<dyn LockStore>,
    /// Takes tokens whose slow hash is to give way to a fast one; what does not fit comes with their next request.
    pub upgrades: SyncSender<Upgrade>,
    /// Where the event of every request goes.
    pub audit: Arc<dyn Audit>,
}

/// A running Enfilade, as the doors see it.
pub struct House {
    pub(crate) parts: Parts,
    pub(crate) stores: HouseStores,
    /// The keys of sessions, and what was revoked.
    pub(crate) sessions: SessionState,
    /// Which files have no properties, by the state they are in.
    pub(crate) bare: WordMemo<bool>,
    /// What directories said is in them, by the state they were in.
    pub(crate) names: NamesMemo,
    /// Who works on how many threads.
    pub(crate) shares: Arc<Shares>,
    mounts: RwLock<Arc<Mounts>>,
}

/// Room for the states of some 300,000 files, in bytes.
const BARE_BYTES: usize = 8 << 20;
/// Room for some 350,000 names, in bytes.
const NAMES_BYTES: usize = 16 << 20;

impl House {
    /// From its parts; nothing is mounted until [`House::set_mounts`] says so, and no token is read before [`House::set_keys`].
    pub fn new(parts: Parts) -> Arc<Self> {
        let (stores, sessions) = (HouseStores::default(), SessionState::default());
        let mut seed = MemoSeed([0; 16]);
        // Without random numbers nothing is remembered.
        let is_random = (parts.random)(&mut seed.0);
        let room = |bytes| if is_random { bytes } else { 0 };
        let bare = WordMemo::new(seed, room(BARE_BYTES));
        let names = NamesMemo::new(seed, room(NAMES_BYTES));
        let (shares, mounts) = (Arc::default(), RwLock::default());
        Arc::new(House { parts, stores, sessions, bare, names, shares, mounts })
    }

    /// The key of the fast hash of generated secrets.
    pub fn hash_key(&self) -> &HashKey {
        &self.parts.hash_key
    }

    /// What door 2 judges by in addition to the facts.
    pub(crate) fn identity_context(&self) -> Context<'_> {
        let Parts { hash_key, identity_memo: memo, .. } = &self.parts;
        Context { hash_key, sessions: &self.sessions, memo }
    }

    /// What is mounted, whenever the kernel says it changed.
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

    /// Reads all events of the kernel about changed files. If nothing reads them for long, the queue of the kernel overflows.
    pub fn drain_events(&self) {
        self.parts.watch.iter().for_each(Watch::heed);
    }

    pub(crate) fn clock_sets(&self) -> u64 {
        (self.parts.clock_sets)()
    }

    /// What is too much.
    pub fn limits(&self) -> Limits {
        self.parts.limits
    }

    /// What no datastore may reach.
    pub fn reserved(&self) -> &ReservedPaths {
        &self.parts.reserved
    }

    /// How many names were read in listings that no client can be shown.
    pub fn names_not_shown(&self) -> u64 {
        self.names.not_shown()
    }

    /// The facts.
    pub fn source(&self) -> &dyn Source {
        &*self.parts.source
    }

    /// Where events go.
    pub fn audit(&self) -> &Arc<dyn Audit> {
        &self.parts.audit
    }

    /// The hash gate, for metrics.
    pub fn gate(&self) -> &HashGate {
        &self.parts.gate
    }

    /// Who failed to come in, for metrics.
    pub fn penalties(&self) -> &Penalties {
        &self.parts.penalties
    }
}
