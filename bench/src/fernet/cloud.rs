//! A cloud for the benchmarks: users, a project, roles, a catalog, and revocations.

use crate::Failure;
use crate::clock;
use crate::stores::{self, audit, counting, hash_key, id, plain_project, plain_user};
use enfilade_access::AccessMemo;
use enfilade_facts::tables::{
    Domain, Endpoint, Grant, GrantKey, GrantScope, Grantee, Interface, Name, NameKey, NamedRole, Revoked,
    Service, SidSpace, SidSpaceKey,
};
use enfilade_facts::vocabulary::{DomainId, EndpointId, ProjectId, RoleId, Secret, ServiceId, Sid, UserId};
use enfilade_facts::{Change, MemoSeed, Source};
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::fernet::{KeyRing, frame};
use enfilade_identity::{Claim, IdentityMemo, Methods, Scope, SessionAsk};
use enfilade_passage::{Accounts, Credential, HashGate, House, Parts, Penalties, SessionTerms};
use enfilade_sources::lmdb::Lmdb;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};

pub(crate) const PROJECT: ProjectId = ProjectId::from_bytes([9; 16]);
const ROLES: [&str; 5] = ["admin", "manager", "member", "reader", "service"];
/// The number of services; each has three endpoints.
pub(crate) const SERVICES: u64 = 10;

/// A store with a cloud in it.
pub(crate) struct Cloud {
    lmdb: Arc<Lmdb>,
}

pub(crate) fn role(n: usize) -> RoleId {
    RoleId::from_bytes(id(11, n as u64))
}

pub(crate) fn user(n: u64) -> UserId {
    UserId::from_bytes(id(1, n))
}

/// The key of a revocation. Even numbers revoke a token, and odd numbers revoke a chain.
pub(crate) fn mark(n: u64) -> Revoked {
    if n.is_multiple_of(2) { Revoked::Token(id(12, n)) } else { Revoked::Chain(id(12, n)) }
}

impl Cloud {
    /// A cloud with this many users, services and revocations. The first hundred users have a role.
    pub(crate) fn build(place: &Path, users: u64, services: u64, revocations: u64) -> Result<Self, Failure> {
        let lmdb = Arc::new(Lmdb::open(place)?);
        let mut change = Change::new(audit("a cloud"));
        let words = [1, 2, 3];
        change.put(&SidSpaceKey, &SidSpace { words, next_rid: u32::MAX / 2, token_key: None });
        change.put(&DomainId::DEFAULT, &Domain::new("Default".parse()?));
        change.put(&NameKey::domain(&"Default".parse()?), &Name::new(DomainId::DEFAULT.stored(), "Default"));
        change.put(&PROJECT, &plain_project("p".into()));
        for (n, name) in ROLES.iter().enumerate() {
            let implies = if n < 3 { vec![role(n + 1)] } else { Vec::new() };
            change
                .put(&role(n), &NamedRole { name: (*name).into(), domain: None, description: None, implies });
        }
        for n in 0..services {
            let service = ServiceId::from_bytes(id(13, n));
            let row = Service {
                kind: format!("type-{n}"),
                name: format!("service-{n}"),
                enabled: true,
                description: None,
            };
            change.put(&service, &row);
            for interface in Interface::ALL {
                let endpoint = EndpointId::from_bytes(id(14, n * 3 + interface as u64));
                let url = format!("https://service-{n}.example.org:8774/v2.1/$(project_id)s");
                let region = Some("RegionOne".into());
                change.put(&endpoint, &Endpoint { service, interface, region, url, enabled: true });
            }
        }
        lmdb.commit(&change)?;
        let mut change = Change::new(audit("users"));
        for n in 0..users {
            let sid = Sid::of_store(words, 1000 + u32::try_from(n)?);
            let row = plain_user(DomainId::DEFAULT, format!("user{n}"), sid);
            change.put(&user(n), &row).put(
                &NameKey::user(&DomainId::DEFAULT, &row.name),
                &Name::new(user(n).stored(), row.name.as_str()),
            );
            if n < 100 {
                let key = GrantKey {
                    who: Grantee::User(user(n)),
                    scope: GrantScope::Project(PROJECT),
                    role: role(0),
                };
                change.put(&key, &Grant);
            }
            change = committed(&lmdb, change, n, users, "users")?;
        }
        for n in 0..revocations {
            change.end(mark(n));
            change = committed(&lmdb, change, n, revocations, "revocations")?;
        }
        Ok(Cloud { lmdb })
    }

    /// The store with the cloud, as LMDB.
    pub(crate) fn lmdb(&self) -> &Lmdb {
        &self.lmdb
    }

    /// Revokes an unused id.
    pub(crate) fn revoke(&self, n: u64) -> Result<(), Failure> {
        let mut change = Change::new(audit("revoke"));
        change.end(mark(n));
        self.lmdb.commit(&change)?;
        Ok(())
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::Project(PROJECT)
    }

    /// The store with the cloud, as a source.
    pub(crate) fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.lmdb) as Arc<dyn Source>
    }

    /// A [`House`] on the store, with the staged key and `keys` other keys.
    pub(crate) fn house(&self, memo_bytes: usize, keys: u32) -> Result<Arc<House>, Failure> {
        self.house_on(self.source(), memo_bytes, keys)
    }

    /// A [`House`] that reads the store through `source`.
    pub(crate) fn house_on(
        &self,
        source: Arc<dyn Source>,
        memo_bytes: usize,
        keys: u32,
    ) -> Result<Arc<House>, Failure> {
        let tick = clock::now().tick_millis;
        self.lmdb.mirror_leader().looked(tick, tick);
        let house = House::new(Parts {
            allow_issue: enfilade_testkit::allow_issue(Arc::clone(&source)),
            source,
            clock: clock::of_server(Arc::clone(&self.lmdb), 86_400),
            clock_sets: clock::sets(),
            place: enfilade_passage::FleetPlace::Alone,
            reserved: Arc::default(),
            watch: None,
            hash_key: hash_key(),
            identity_memo: IdentityMemo::new(MemoSeed([1; 16]), memo_bytes),
            trash: enfilade_passage::TrashTerms::default(),
            limits: enfilade_facts::limits::Limits::default(),
            session_terms: SessionTerms::default(),
            random: counting(),
            access_memo: AccessMemo::new(MemoSeed([2; 16]), 1 << 20),
            gate: HashGate::new(1),
            penalties: Penalties::none(MemoSeed([3; 16])),
            accounts: Arc::new(Accounts::free()),
            locks: Arc::new(enfilade_sources::locks::MemoryLocks::default()),
            ledger: enfilade_passage::Ledger::private(1_024, clock::now()),
            upgrades: sync_channel(1).0,
            audit: Arc::new(stores::Nowhere),
        });
        house.set_keys(Some(ring(keys)?));
        Ok(house)
    }

    /// A session of a user, signed with the oldest key, so that a check tries all keys.
    pub(crate) fn session(&self, house: &House, n: u64) -> Result<Credential, Failure> {
        // Makes a pseudo-random id from the counter in `house`, because ids of real tokens are random, too.
        let counted = house.random().ok_or("no random bytes")?;
        let own = stores::id(16, u128::from_be_bytes(counted) as u64);
        let token = token(n, own)?;
        Ok(Credential::Session(SessionAsk { token: Secret::new(token.as_bytes()).ok_or("no token")? }))
    }
}

/// A token of a user, signed with key 1.
pub(crate) fn token(n: u64, own: [u8; 16]) -> Result<String, Failure> {
    let issued_at = clock::now().unix_seconds;
    let claim = Claim {
        user: user(n),
        methods: Methods::PASSWORD,
        scope: Scope::Project(PROJECT),
        lent: None,
        issued_at,
        expires_at: issued_at + 36_000,
        audit: Audit { own, chain: None },
    };
    let ring = ring(1)?;
    Ok(frame::seal(&ring, u64::try_from(issued_at)?, own, &claim.to_payload())?)
}

pub(crate) fn key(n: u32) -> [u8; 32] {
    std::array::from_fn(|at| (n as usize * 7 + at) as u8)
}

fn ring(keys: u32) -> Result<KeyRing, Failure> {
    let bytes: Vec<(u32, [u8; 32])> = (0..=keys).map(|n| (n, key(n))).collect();
    Ok(KeyRing::new(&bytes.iter().map(|(n, bytes)| (*n, bytes)).collect::<Vec<_>>())?)
}

pub(crate) fn committed(lmdb: &Lmdb, change: Change, n: u64, of: u64, what: &str) -> Result<Change, Failure> {
    if n % 20_000 != 19_999 && n + 1 != of {
        return Ok(change);
    }
    lmdb.commit(&change)?;
    if n % 200_000 == 199_999 {
        eprintln!("building a cloud: {} of {of} {what}", n + 1);
    }
    Ok(Change::new(audit("more")))
}

/// The output of a future if the future is ready at once, otherwise `None`.
pub(crate) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
