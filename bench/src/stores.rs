//! Stores with many tokens, and a [`House`] for each.

use crate::Failure;
use crate::clock;
use crate::stopwatch::now;
use enfilade_access::AccessMemo;
use enfilade_facts::tables::{
    Credential, Domain, Name, NameKey, Project, SidSpace, SidSpaceKey, User, Verifier,
};
use enfilade_facts::vocabulary::{Authid, CredentialId, DomainId, Secret, Sid, UserId};
use enfilade_facts::{AuditRecord, Change, Clocks, MemoSeed, MirrorHealth, Source};
use enfilade_identity::{HashKey, IdentityMemo};
use enfilade_passage::{
    Accounts, Audit, Event, HashGate, House, Ledger, Parts, Penalties, SecretAsk as Ask, Visit, ledger_words,
};
use enfilade_peers::token_shadow::Tokenid;
use enfilade_sources::lmdb::Lmdb;
use std::future::Future;
use std::net::Ipv4Addr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use yescrypt::{PasswordHasher, Yescrypt};

/// The number of tokens of every user.
pub(crate) const TOKENS_EACH: u64 = 10;
pub(crate) const LOCAL: DomainId = DomainId::from_bytes([7; 16]);

/// A pseudo-random sequence, the same in every run.
pub(crate) struct Sequence(pub(crate) u64);

impl Sequence {
    pub(crate) fn next(&mut self) -> u64 {
        // The algorithm is SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A pseudo-random id, which is the same in every run.
pub(crate) fn id(kind: u64, n: u64) -> [u8; 16] {
    let mut sequence = Sequence(kind << 56 | n);
    (u128::from(sequence.next()) << 64 | u128::from(sequence.next())).to_be_bytes()
}

/// The secret of a token, as long as a UUID.
pub(crate) fn secret_of(n: u64) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(id(3, n)));
    let parts = [hex.get(..8), hex.get(8..12), hex.get(12..16), hex.get(16..20), hex.get(20..)];
    parts.map(Option::unwrap_or_default).join("-")
}

pub(crate) fn tokenid_of(n: u64) -> Tokenid {
    Tokenid::new(&format!("user{}", n / TOKENS_EACH), "local", &format!("t{}", n % TOKENS_EACH))
}

/// The secrets of the first `count` tokens, and for each a `$y$` hash of cost 5.
pub(crate) fn hashed(count: u64) -> Result<Vec<(String, String)>, Failure> {
    let began = now();
    let hash = |n| {
        let secret = secret_of(n);
        let hash = Yescrypt::default().hash_password(secret.as_bytes());
        Ok((secret, hash.map_err(|why| format!("yescrypt: {why}"))?.to_string()))
    };
    let hashed = (0..count).map(hash).collect();
    eprintln!("{count} hashes made in {:.1} s", began.elapsed().as_secs_f64());
    hashed
}

/// A store with users and tokens.
pub(crate) struct Store {
    pub(crate) lmdb: Arc<Lmdb>,
    pub(crate) tokens: u64,
}

const HASH_KEY: [u8; 32] = [42; 32];

pub(crate) fn hash_key() -> HashKey {
    HashKey::new(&HASH_KEY)
}

pub(crate) fn audit(what: &str) -> AuditRecord {
    AuditRecord { who: "bench".into(), what: what.into(), unix_seconds: 1_800_000_000, request: None }
}

impl Store {
    /// A store with tokens that have generated secrets, so that the hashes of the secrets are fast.
    pub(crate) fn generated(place: &Path, tokens: u64) -> Result<Self, Failure> {
        Self::of(place, tokens, keyed())
    }

    /// A store with the crypt(3) hashes of another system.
    pub(crate) fn hashed(place: &Path, known: &[(String, String)]) -> Result<Self, Failure> {
        Self::of(place, known.len() as u64, |n, _| {
            let hash = known.get(n as usize).map(|(_, hash)| hash.clone());
            hash.map_or(Verifier::Missing, Verifier::Crypt)
        })
    }

    /// A store with `tokens` tokens. `verifier` makes the verifier of each token.
    pub(crate) fn of(
        place: &Path,
        tokens: u64,
        verifier: impl Fn(u64, &CredentialId) -> Verifier,
    ) -> Result<Self, Failure> {
        let lmdb = Lmdb::open(place)?;
        fill(&lmdb, tokens, verifier)?;
        Ok(Store { lmdb: Arc::new(lmdb), tokens })
    }

    /// A [`House`] that uses the store.
    pub(crate) fn house(&self, memo_bytes: usize) -> Arc<House> {
        // Records a look at the mirrored files once; for the whole benchmark this look counts as recent.
        let tick = clock::now().tick_millis;
        self.lmdb.mirror_leader().looked(tick, tick);
        let clock = clock::of_server(Arc::clone(&self.lmdb), 86_400);
        house_of(Arc::clone(&self.lmdb) as Arc<dyn Source>, clock, ledger(clock::now()), memo_bytes)
    }

    /// The credential of a token.
    pub(crate) fn ask(&self, n: u64) -> Result<Ask, Failure> {
        ask(n)
    }
}

/// A [`House`] whose clock does not advance, because callgrind does not support the memory page from which the kernel's time is read.
pub(crate) fn still_house(source: Arc<dyn Source>) -> Arc<House> {
    let now = Clocks { unix_seconds: 1_800_000_000, tick_millis: 1, mirror: MirrorHealth::Current };
    house_of(source, Arc::new(move || now), ledger(now), 1 << 20)
}

fn house_of(
    source: Arc<dyn Source>,
    clock: enfilade_passage::Clock,
    ledger: Ledger,
    memo_bytes: usize,
) -> Arc<House> {
    House::new(Parts {
        allow_issue: enfilade_testkit::allow_issue(Arc::clone(&source)),
        source,
        clock,
        clock_sets: Arc::new(|| 0),
        place: enfilade_passage::FleetPlace::Alone,
        reserved: Arc::default(),
        watch: None,
        hash_key: hash_key(),
        identity_memo: IdentityMemo::new(MemoSeed([1; 16]), memo_bytes),
        trash: enfilade_passage::TrashTerms::default(),
        limits: enfilade_facts::limits::Limits::default(),
        session_terms: enfilade_passage::SessionTerms::default(),
        random: counting(),
        access_memo: AccessMemo::new(MemoSeed([2; 16]), 32 << 20),
        gate: HashGate::new(1),
        penalties: Penalties::none(MemoSeed([3; 16])),
        accounts: Arc::new(Accounts::free()),
        locks: Arc::new(enfilade_sources::locks::MemoryLocks::default()),
        ledger,
        upgrades: sync_channel(1).0,
        audit: Arc::new(Nowhere),
    })
}

/// A ledger of the same size as in a server, in the memory of this process.
fn ledger(began: Clocks) -> Ledger {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let words: Vec<_> = (0..ledger_words(131_072, threads)).map(|_| AtomicU64::new(0)).collect();
    Ledger::new(Arc::new(words), std::process::id(), threads, began)
}

/// The credential of a token.
pub(crate) fn ask(n: u64) -> Result<Ask, Failure> {
    let authid: Authid = format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH).parse()?;
    let secret = Secret::new(secret_of(n).as_bytes()).ok_or("no secret")?;
    Ok(Ask { authid, secret })
}

/// Creates users with tokens.
pub(crate) fn fill(
    source: &dyn Source,
    tokens: u64,
    verifier: impl Fn(u64, &CredentialId) -> Verifier,
) -> Result<(), Failure> {
    let mut change = Change::new(audit("begin"));
    let words = [1, 2, 3];
    change.put(&SidSpaceKey, &SidSpace { words, next_rid: u32::MAX / 2, token_key: None });
    change.put(&LOCAL, &Domain::new("local".parse()?));
    change.put(&NameKey::domain(&"local".parse()?), &Name::new(LOCAL.stored(), "local"));
    let mut shown = now();
    for n in 0..tokens {
        if n % TOKENS_EACH == 0 {
            let (key, user) = user(n / TOKENS_EACH, words)?;
            change
                .put(&NameKey::user(&LOCAL, &user.name), &Name::new(key.stored(), user.name.as_str()))
                .put(&key, &user);
        }
        let (key, row) = token(n, verifier(n, &CredentialId::from_bytes(id(2, n))));
        change
            .put(&NameKey::token(&row.owner, &row.name), &Name::new(key.stored(), row.name.as_str()))
            .put(&key, &row);
        if n % 20_000 == 19_999 || n + 1 == tokens {
            source.commit(&change)?;
            change = Change::new(audit("more"));
            if shown.elapsed() > Duration::from_secs(2) {
                eprintln!("building a store: {n} of {tokens} tokens");
                shown = now();
            }
        }
    }
    Ok(())
}

/// Keyed verifiers, as Enfilade stores them for secrets that it generated.
pub(crate) fn keyed() -> impl Fn(u64, &CredentialId) -> Verifier {
    let key = hash_key();
    move |n, id| Verifier::Keyed(key.digest(id, secret_of(n).as_bytes()))
}

/// Makes a data directory with the key for the hashes of tokens, and moves the directory `facts` into it.
pub(crate) fn data_directory(data: &Path, facts: &Path) -> Result<(), Failure> {
    let private = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::create_dir_all(data.join("keys"))?;
    std::fs::set_permissions(data, private(0o700))?;
    std::fs::write(data.join("keys/token-hash.key"), HASH_KEY)?;
    std::fs::set_permissions(data.join("keys/token-hash.key"), private(0o600))?;
    Ok(std::fs::rename(facts, data.join("facts"))?)
}

/// The record of a token.
pub(crate) fn token(n: u64, verifier: Verifier) -> (CredentialId, Credential) {
    let row = Credential {
        owner: UserId::from_bytes(id(1, n / TOKENS_EACH)),
        name: format!("t{}", n % TOKENS_EACH)
            .parse()
            .unwrap_or_else(|_| unreachable!("a letter and a digit")),
        verifier,
        previous: None,
        enabled: true,
        expires: 0,
        created: 1_800_000_000,
        comment: None,
        own_roles: false,
        mirrored: None,
        link: None,
    };
    (CredentialId::from_bytes(id(2, n)), row)
}

fn user(number: u64, words: [u32; 3]) -> Result<(UserId, User), Failure> {
    let sid = Sid::of_store(words, 1000 + u32::try_from(number)?);
    Ok((UserId::from_bytes(id(1, number)), plain_user(LOCAL, format!("user{number}"), sid)))
}

/// A user with only these attributes.
pub(crate) fn plain_user(domain: DomainId, name: String, sid: Sid) -> User {
    User {
        domain,
        name,
        sid,
        also: Vec::new(),
        uid: None,
        gid: None,
        enabled: true,
        expires: 0,
        password: None,
        comment: None,
        mirrored: None,
    }
}

/// A project of the default domain.
pub(crate) fn plain_project(name: String) -> Project {
    Project {
        domain: DomainId::DEFAULT,
        parent: None,
        name,
        enabled: true,
        description: None,
        tags: Vec::new(),
    }
}

/// An audit log that discards every event.
pub(crate) struct Nowhere;

impl Audit for Nowhere {
    fn record(&self, _: Event) {}
}

/// Asks door 2 about a secret, without waiting.
pub(crate) fn visit(house: &Arc<House>, ask: &Ask) -> Result<Visit, Failure> {
    come_in(house, &enfilade_passage::Credential::Secret(ask.clone()))
}

/// Asks door 2 about any credential, without waiting. It is an error if door 2 has to wait for a slow hash.
pub(crate) fn come_in(
    house: &Arc<House>,
    credential: &enfilade_passage::Credential,
) -> Result<Visit, Failure> {
    let walk = pin!(house.admit(credential, Ipv4Addr::LOCALHOST.into()));
    match walk.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(visit) => visit.map_err(|refusal| format!("refused: {refusal}").into()),
        Poll::Pending => Err("door 2 waits for a slow hash".into()),
    }
}

/// Checks that door 2 admits a secret.
pub(crate) fn admit(house: &Arc<House>, ask: &Ask) -> Result<(), Failure> {
    visit(house, ask).map(drop)
}

/// A counter in place of random bytes: its values never repeat.
pub(crate) fn counting() -> enfilade_passage::Random {
    let next = AtomicU64::new(1);
    Arc::new(move |bytes: &mut [u8]| {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(n.iter().cycle()).for_each(|(byte, n)| *byte = *n);
        true
    })
}
