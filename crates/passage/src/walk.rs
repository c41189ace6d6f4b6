//! The walk of a request through the doors: read this file first, from top to bottom. The walk is the same in every mode (`modes.rs`), whether or not
//! the call may wait for the disk ([`Patience`]).
//!
//! ```text
//!  credential ──▶ Visit ──▶ Stay ──▶ Found ──▶ answer
//!           door 2    doors 3, 4   door 4    door 5
//! ```
//!
//! Door 1 judged at the TLS handshake (`enfilade/src/listen/connection.rs`). Door 5 acts on what doors 2 to 4 granted (`verbs.rs`, `listing.rs`,
//! `trees.rs`, `holding.rs`, `properties.rs`).
//!
//! Every view is used in one short synchronous block. A permit contains the revision at which it was granted. When a later view has another revision,
//! the earlier doors are asked again. Asking a door again takes some tens of nanoseconds, if the changed facts do not affect the decision of the
//! door.

use crate::credential::Credential;
use crate::door_times::DoorTimer;
use crate::house::House;
use crate::modes::{LedgerEntry, Mode};
use crate::reach::Inside;
use crate::refuse::Refusal;
use enfilade_access::{AccessPermit, Ask as AccessAsk, Creator, Subject, Wanted};
use enfilade_content::{Fill, LockToken, Node, Patience, Root};
use enfilade_datastore::{Ask as DatastoreAsk, DatastorePermit, OperationGuard, Phase, Record};
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, OperationKind, StorePath};
use enfilade_facts::{At, Clocks, Door, Read, View};
use enfilade_identity::{Closed, IdentityPermit, Principal};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

impl House {
    /// Asks door 2 which principal the credential proves. If the credential is a name with a secret, or a link with a password, the call can wait for
    /// a slow hash, or for the delay after a failure (`admission.rs`). With any other credential, the call does not wait. A client that sends the
    /// same bytes of a credential again on its connection is recognised before the bytes are parsed ([`House::recognise`]).
    ///
    /// # Errors
    /// The door's refusal.
    pub async fn admit(self: &Arc<Self>, credential: &Credential, from: IpAddr) -> Result<Visit, Refusal> {
        let identity = match credential {
            Credential::Secret(ask) => self.open_secret(ask, None, from).await?,
            Credential::NamedSecret(ask, named) => {
                let identity = self.open_secret(ask, Some(named), from).await?;
                self.parts.penalties.succeeded(|| named.clone(), self.now());
                identity
            }
            Credential::Link(ask) => self.open_link(ask, from).await?,
            Credential::Session(_)
            | Credential::Certificate(_)
            | Credential::Browser(_)
            | Credential::Ticket { .. } => self.identify(credential.ask()).map_err(Closed::refuse)?,
        };
        let visit = self.welcome(identity, from);
        if let Credential::Ticket { ticket, changes_something } = credential {
            self.check_ticket(&visit, ticket, *changes_something)?;
        }
        Ok(visit)
    }

    /// Makes the `Visit` of an admitted client. If the credential is not a session, also ends the delays of the client's name and reports the login.
    /// If an API token was used, also records its use, and asks for the replacement of a slow hash of the token by a fast hash. Many requests can use
    /// the same verdict of door 2: in each minute, only the first of these requests reports the login or the use of the token. For a session that was
    /// not issued for an API token there is nothing to record, so the clock is not read.
    pub(crate) fn welcome(self: &Arc<Self>, identity: IdentityPermit, from: IpAddr) -> Visit {
        let (is_session, token) = (identity.session().is_some(), identity.token());
        if !is_session || token.is_some() {
            let now = self.now();
            if !is_session {
                self.parts.penalties.succeeded(|| identity.principal().authid.to_word(), now);
            }
            let is_first_use = identity.is_first_use(now);
            // A guest of a link is not the maker of the link. So the use of a link does not count as a login of its maker.
            let is_guest = identity.principal().link.is_some();
            if !is_session && !is_guest && is_first_use {
                self.parts.accounts.logged_in(&identity.principal().user);
            }
            match token {
                Some(token) if is_first_use => self.parts.audit.used(token, from, now),
                Some(_) => {}
                None => self.parts.accounts.succeeded(&identity.principal().user),
            }
            if let Some(upgrade) = identity.upgrade() {
                let _ = self.parts.upgrades.try_send(upgrade.clone());
            }
        }
        Visit { house: Arc::clone(self), identity, timer: DoorTimer::default() }
    }
}

/// A client that door 2 admitted: the visitor.
#[derive(Clone)]
pub struct Visit {
    pub(crate) house: Arc<House>,
    pub(crate) identity: IdentityPermit,
    pub(crate) timer: DoorTimer,
}

impl Visit {
    /// From now on, `timer` measures how long the doors take for this request.
    pub fn time(&mut self, timer: DoorTimer) {
        self.timer = timer;
    }

    /// Asks doors 3 and 4 about a datastore. Then door 5 opens the directory of the datastore. With [`CachedOnly`](crate::CachedOnly) the call
    /// returns `WouldWait` if the directory is not open already.
    ///
    /// # Errors
    /// The refusal of door 3. The refusal of door 4 if no role makes the datastore visible. The refusal of door 2 if the credential was revoked
    /// meanwhile. The refusal of door 5 if the directory of the datastore cannot be opened.
    pub fn enter<P: Patience>(
        mut self,
        name: &DatastoreName,
        kind: OperationKind,
        patience: P,
    ) -> Result<P::Of<Stay>, Refusal> {
        let house = Arc::clone(&self.house);
        let (datastore, (guard, handle)) = house.enter(&mut Act(&mut self), name, kind)?;
        let root = self.timer.time(Door::Content, || house.root(&handle, &datastore, patience))?;
        P::and_then(root, |root| {
            let (fill, counted) = (handle.fill.clone(), Counted::default());
            Ok(P::ready(Stay { visit: self, datastore, root, fill, still: None, counted, guard }))
        })
    }
}

/// The mode of a request: the principal is the visitor that door 2 admitted. If the facts changed since then, door 2 is asked about the visitor
/// again.
struct Act<'v>(&'v mut Visit);

impl Mode for Act<'_> {
    type Operation = LedgerEntry;
    const HAS_PRINCIPAL: bool = true;

    fn count(house: &House, ask: &DatastoreAsk<'_>, now: Clocks) -> Result<Option<LedgerEntry>, Refusal> {
        house.count_in(ask, now, Arc::clone)
    }

    fn timer(&self) -> DoorTimer {
        self.0.timer.clone()
    }

    fn principal(&mut self, view: &View<'_>) -> Result<Option<&Principal>, Refusal> {
        self.0.ask_again(view)?;
        Ok(Some(self.0.identity.principal()))
    }
}

impl Visit {
    /// The member of the fleet that serves a datastore; `None` if this machine serves the datastore, or if the visitor has no role in it. A visitor
    /// without a role must not learn whether the datastore exists.
    pub fn home_elsewhere(&mut self, name: &DatastoreName) -> Option<String> {
        let house = Arc::clone(&self.house);
        // Most requests are for a datastore that this machine serves. The index contains this fact, so no view is needed.
        let is_here = |record: &Record| record.is_there() && record.elsewhere(house.place()).is_none();
        if house.newest_record(name).is_some_and(|record| is_here(&record)) {
            return None;
        }
        let found = house.parts.source.read(|view| {
            self.ask_again(view).ok()?;
            let record = house.stores.record(view, name).ok()?;
            let member = record.elsewhere(house.place()).map(Cow::into_owned);
            let (now, principal) = (house.now(), self.identity.principal());
            let admitted = enfilade_access::admits(view, now, principal, name, &house.parts.access_memo);
            // For an absent datastore, this function takes the same time as for a hidden datastore.
            admitted.is_ok().then_some(member).flatten()
        });
        found.ok().flatten()
    }

    /// The files member of the fleet, if this member is another machine.
    pub fn files_elsewhere(&self) -> Option<String> {
        self.house.datastores_at()
    }
}

impl House {
    /// Asks doors 3 and 4 about a datastore, in every mode. Only this function implements rule 5 of `docs/freshness.md`: the operation enters the
    /// ledger first, and the facts on which the datastore is judged are read after that.
    ///
    /// # Errors
    /// The refusal of door 3. The refusal of door 4 if no role makes the datastore visible. The refusal of door 2 if the credential was revoked
    /// meanwhile.
    pub(crate) fn enter<M: Mode>(
        &self,
        mode: &mut M,
        name: &DatastoreName,
        kind: OperationKind,
    ) -> Result<(DatastorePermit, M::Operation), Refusal> {
        let now = self.now();
        let ask = DatastoreAsk { name, kind, phase: Phase::Entering };
        let timer = mode.timer();
        // If the datastore is created after `count` returned and before door 3 decides, the next iteration finds the datastore.
        for _ in 0..4 {
            let operation =
                M::count(self, &ask, now).or_else(|why| self.hide_refusal(mode, name, now, why))?;
            let known = if M::HAS_PRINCIPAL { None } else { self.newest_record(name) };
            let permit = match known {
                Some(record) => self.judge(&record, now, &ask)?,
                None => self.parts.source.read(|view| {
                    let principal = mode.principal(view)?;
                    let record = self.stores.record(view, name)?;
                    let permit = timer.time(Door::Datastore, || self.judge(&record, now, &ask));
                    // A principal without a role on the datastore learns nothing about the datastore, not even its maintenance mode.
                    if let Some(principal) = principal {
                        let memo = &self.parts.access_memo;
                        let admits = || enfilade_access::admits(view, now, principal, name, memo);
                        timer
                            .time(Door::Access, admits)
                            .map_err(|why| with_note_of_absent_store(why, &permit))?;
                    }
                    Ok::<_, Refusal>(permit?)
                })??,
            };
            if let Some(operation) = operation {
                return Ok((permit, operation));
            }
        }
        Err(enfilade_datastore::Refusal::Unknown(name.clone()).into())
    }

    /// The refusal of an operation that the ledger cannot count. A principal without a role on the datastore gets the refusal of door 4 instead.
    /// Otherwise the principal would learn that the datastore exists, because the ledger refuses only operations in datastores that exist.
    #[cold]
    fn hide_refusal<M: Mode, T>(
        &self,
        mode: &mut M,
        name: &DatastoreName,
        now: Clocks,
        why: Refusal,
    ) -> Result<T, Refusal> {
        let timer = mode.timer();
        self.parts.source.read(|view| match mode.principal(view)? {
            Some(principal) => {
                let memo = &self.parts.access_memo;
                let admits = || enfilade_access::admits(view, now, principal, name, memo);
                Ok(timer.time(Door::Access, admits).map(drop)?)
            }
            None => Ok::<_, Refusal>(()),
        })??;
        Err(why)
    }
}

/// If door 4 refused because the principal has no role, and the datastore does not exist, adds a note for the operator to the refusal. The client's
/// answer is the same whether or not the datastore exists.
fn with_note_of_absent_store(
    why: enfilade_access::Refusal,
    permit: &Result<DatastorePermit, enfilade_datastore::Refusal>,
) -> enfilade_access::Refusal {
    match (why, permit) {
        (
            enfilade_access::Refusal::NoRole { datastore, .. },
            Err(enfilade_datastore::Refusal::Unknown(_)),
        ) => enfilade_access::Refusal::NoRole { datastore, note: ", and there is no such datastore" },
        (why, _) => why,
    }
}

/// A visitor inside a datastore. Doors 2, 3 and 4 admitted the visitor, and the ledger counts the operation until the `Stay` is dropped.
pub struct Stay {
    pub(crate) visit: Visit,
    pub(crate) datastore: DatastorePermit,
    pub(crate) root: Arc<Root>,
    pub(crate) fill: Fill,
    /// The condition of the request ([`Stay::only_if`]).
    pub(crate) still: Option<Still>,
    /// The locks that were checked. For each lock, whether the lock still has an effect (see `lock_owners.rs`).
    pub(crate) counted: Counted,
    #[expect(dead_code, reason = "held so that the ledger counts the operation")]
    guard: OperationGuard,
}

impl Stay {
    /// Opens a target, if the visitor has the rights `wanted` on it. A hidden target looks absent. With [`CachedOnly`](crate::CachedOnly) the call
    /// does not wait for the disk.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, or of door 2 or 3 if that door no longer admits the visitor.
    pub fn find<P: Patience>(
        &mut self,
        path: &StorePath,
        wanted: AccessMask,
        patience: P,
    ) -> Result<P::Of<Found>, Refusal> {
        match self.reach(path, patience) {
            Ok(node) => P::and_then(node, |node| self.judge(path, node, wanted).map(P::ready)),
            Err(why) => {
                if why.is_absent() {
                    self.refuse_alike(path);
                }
                Err(why)
            }
        }
    }

    fn judge(&mut self, path: &StorePath, node: Node, wanted: AccessMask) -> Result<Found, Refusal> {
        let subject = node.subject();
        let permit = self.may(&AccessAsk { path, target: &subject, wanted: Wanted::On(wanted) })?;
        Ok(Found { node, subject, permit })
    }

    /// Asks door 4, on a fresh view, about a target. The caller has just read the ACL of the target from its descriptor.
    ///
    /// # Errors
    /// The refusal of door 4. The refusal of door 2 or 3 if that door no longer admits the visitor.
    pub fn may(&mut self, ask: &AccessAsk<'_>) -> Result<AccessPermit, Refusal> {
        self.on_view(|stay, view| {
            let house = &stay.visit.house;
            let memo = &house.parts.access_memo;
            let (now, identity) = (house.now(), &stay.visit.identity);
            let judge = || enfilade_access::open(view, now, identity, &stay.datastore, ask, memo);
            Ok(stay.visit.timer.time(Door::Access, judge)?)
        })
    }

    /// Runs `look` on a fresh view. If the permit of door 2 or 3 is no longer valid, for example because the facts changed, this door is asked again
    /// first.
    pub(crate) fn on_view<R>(
        &mut self,
        look: impl FnOnce(&Self, &View<'_>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let house = Arc::clone(&self.visit.house);
        house.parts.source.read(|view| {
            self.visit.ask_again(view)?;
            let now = house.now();
            if !self.datastore.holds(view.at(), now) || self.datastore.is_elsewhere(house.place()) {
                let (name, kind) = (self.datastore.name().clone(), self.datastore.kind());
                let ask = DatastoreAsk { name: &name, kind, phase: Phase::Inside };
                let record = house.stores.record(view, &name)?;
                let judge = || house.judge(&record, now, &ask);
                self.datastore = self.visit.timer.time(Door::Datastore, judge)?;
            }
            look(self, view)
        })?
    }
}

/// A file or directory that the visitor may see.
pub struct Found {
    /// The open descriptor.
    pub node: Node,
    pub(crate) subject: Subject,
    pub(crate) permit: AccessPermit,
}

impl Visit {
    /// Asks door 2 again if its permit is no longer valid: the facts changed, or the time is no longer in the range of the permit.
    pub(crate) fn ask_again(&mut self, view: &View<'_>) -> Result<(), Refusal> {
        let now = self.house.now();
        if !self.identity.validity().holds(view.at(), now) {
            let context = self.house.identity_context();
            let reopen = || enfilade_identity::reopen(view, now, &self.identity, &context);
            self.identity = self.timer.time(Door::Identity, reopen)?;
        }
        Ok(())
    }
}

impl Inside for Stay {
    type Granted = AccessPermit;

    fn root(&self) -> &Root {
        &self.root
    }

    fn rules(&self) -> &AccessRules {
        self.datastore.access()
    }

    fn ask(&mut self, ask: &AccessAsk<'_>) -> Result<AccessPermit, Refusal> {
        self.may(ask)
    }

    fn creator(&self, permit: &AccessPermit) -> Creator {
        permit.creator()
    }
}

/// A condition of a request. The condition is checked when the request makes its first change.
pub type Still = Box<dyn FnMut(&mut Stay) -> Result<(), Refusal> + Send>;

/// Remembers for each checked lock whether the lock still has an effect (see `lock_owners.rs`). All files and directories of a locked tree have the
/// same lock, so a listing of the tree judges this lock only once. The results are used only for one response. They are forgotten when the facts
/// change, and after a second.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) asked: Option<(At, u64)>,
    pub(crate) known: BTreeMap<LockToken, bool>,
}
