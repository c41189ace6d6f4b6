//! The way of a request through doors two to four. Door one stood at the handshake; door five acts on what is granted here.
//!
//! Every view is one short synchronous block (invariants F2 and E1). A permit carries the revision it was granted at;
//! when a later view has another, the earlier doors are asked again, which costs tens of nanoseconds when nothing changed
//! that concerns them.

use crate::gate::Asker;
use crate::house::House;
use crate::lock_owners::Counted;
use crate::modes::{Act, Mode};
use crate::refuse::Refusal;
use enfilade_access::{AccessPermit, Ask as AccessAsk};
use enfilade_content::{Fill, Patience, Root};
use enfilade_datastore::{Ask as DatastoreAsk, DatastorePermit, OperationGuard, Standing};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{MemoKey, Now, Read, Revision, View};
use enfilade_identity::{CertificateAsk, IdentityPermit, Outcome, Principal, Verdict};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

impl House {
    /// Door 2: who is this? When a slow hash is missing it is computed behind the gate, which only fills the memo;
    /// then the door is asked again, against fresh facts. Whoever fails waits for the answer; an address that fails too
    /// often is refused for a while: every password, and every other secret that needs a slow hash.
    ///
    /// # Errors
    /// The door's refusal.
    pub async fn admit(
        self: &Arc<Self>,
        ask: enfilade_identity::Ask,
        from: IpAddr,
    ) -> Result<Visit, Refusal> {
        let said = ask.authid.clone();
        self.admit_as(ask, &said, from).await
    }

    /// The same for whoever was named in other words, which failures are counted by: who they are is not to be learnt from a delay.
    ///
    /// # Errors
    /// The door's refusal.
    pub async fn admit_as(
        self: &Arc<Self>,
        ask: enfilade_identity::Ask,
        said: &impl std::fmt::Display,
        from: IpAddr,
    ) -> Result<Visit, Refusal> {
        let penalties = &self.parts.penalties;
        // A password is not even compared with a remembered one: an address that is barred would guess without a delay.
        if ask.authid.token.is_none() {
            self.unless_barred(from)?;
        }
        let refusal = match self.ask_identity(&ask, from).await {
            Ok(identity) => {
                penalties.succeeded(said, self.now());
                return Ok(self.welcome(identity, from));
            }
            Err(refusal) => refusal,
        };
        if let Refusal::Identity(identity) = &refusal
            && identity.is_failure()
        {
            self.unless_barred(from)?;
            let delay = penalties.failed(from, said, self.now());
            // Even the shortest sleep waits for the timer to tick.
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
        Err(refusal)
    }

    /// Door 2 for whoever showed a certificate in the TLS handshake.
    ///
    /// # Errors
    /// The door's refusal.
    pub fn admit_certificate(self: &Arc<Self>, ask: &CertificateAsk, from: IpAddr) -> Result<Visit, Refusal> {
        let (parts, now) = (&self.parts, self.now());
        let opened = parts
            .source
            .read(|view| enfilade_identity::open_certificate(view, now, ask, &parts.identity_memo))?;
        Ok(self.welcome(opened?, from))
    }

    /// Door 2 for whoever comes again on the connection they came on before, with the very same bytes: known without reading
    /// them, while nothing changed. For anybody else, the digest [`LastVisitor::is`] takes once they were read and admitted.
    ///
    /// # Errors
    /// That digest.
    pub fn recognise(
        self: &Arc<Self>,
        last: &LastVisitor,
        (name, value): (&[u8], &[u8]),
        from: IpAddr,
    ) -> Result<Visit, MemoKey> {
        // The revision first, as everywhere.
        let (at, keys) = (self.parts.source.at(), self.sessions.generation());
        let brought = self.parts.identity_memo.unread(name, value);
        let known = last.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((key, identity))
                if *key == brought && enfilade_identity::still_holds(at, || self.now(), identity, keys) =>
            {
                Ok(self.welcome(identity.clone(), from))
            }
            _ => Err(brought),
        }
    }

    pub(crate) fn welcome(self: &Arc<Self>, identity: IdentityPermit, from: IpAddr) -> Visit {
        let now = self.now();
        if identity.session().is_none() {
            self.parts.penalties.succeeded(&identity.principal().authid, now);
        }
        if let Some(token) = identity.token()
            && identity.is_first_use(now)
        {
            self.parts.audit.used(token, from, now);
        }
        if let Some(upgrade) = identity.upgrade() {
            let _ = self.parts.upgrades.try_send(upgrade.clone());
        }
        Visit { house: Arc::clone(self), identity }
    }

    fn unless_barred(&self, from: IpAddr) -> Result<(), Refusal> {
        match self.parts.penalties.bar(from, self.now()) {
            Some(left) => Err(enfilade_identity::Refusal::Barred { seconds: left.as_secs().max(1) }.into()),
            None => Ok(()),
        }
    }

    /// Door 2 for whoever was let in at this revision before: no view, no lock, nothing to wait for.
    pub fn knows(&self, ask: &enfilade_identity::Ask) -> Option<IdentityPermit> {
        // The revision first: what is acknowledged after this is obeyed by the next request.
        let at = self.parts.source.at();
        enfilade_identity::remembered(at, || self.now(), ask, &self.parts.identity_memo)
    }

    async fn ask_identity(
        &self,
        ask: &enfilade_identity::Ask,
        from: IpAddr,
    ) -> Result<IdentityPermit, Refusal> {
        if let Some(identity) = self.knows(ask) {
            return Ok(identity);
        }
        let parts = &self.parts;
        // Twice is enough unless the stored hash changes between the work and the second look.
        for _ in 0..4 {
            let now = self.now();
            let verdict = parts.source.read(|view| {
                enfilade_identity::open(view, now, ask, &parts.hash_key, &parts.identity_memo)
            })?;
            match verdict {
                Verdict::Permit(identity) => return Ok(identity),
                Verdict::Refusal(refusal) => return Err(refusal.into()),
                Verdict::NeedsWork(work) => {
                    self.unless_barred(from)?;
                    let asker = Asker { from, failures: parts.penalties.failures(from, now) };
                    match parts.gate.run(work.clone(), asker).await? {
                        Outcome::Matches(key) => parts.identity_memo.remember_match(key, self.now()),
                        Outcome::Differs => return Err(work.refuse().into()),
                    }
                }
            }
        }
        Err(enfilade_identity::Refusal::Busy.into())
    }
}

/// Who came last on a connection, under the digest of what they brought.
#[derive(Default)]
pub struct LastVisitor(Mutex<Option<(MemoKey, IdentityPermit)>>);

impl LastVisitor {
    /// From now on it is this one.
    pub fn is(&self, brought: MemoKey, visit: &Visit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((brought, visit.identity.clone()));
    }
}

impl std::fmt::Debug for LastVisitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LastVisitor")
    }
}

/// Somebody who passed door 2.
#[derive(Clone)]
pub struct Visit {
    pub(crate) house: Arc<House>,
    pub(crate) identity: IdentityPermit,
}

impl Visit {
    /// Who.
    pub fn principal(&self) -> &Principal {
        self.identity.principal()
    }

    /// What is too much here.
    pub fn limits(&self) -> Limits {
        self.house.limits()
    }

    /// The permit.
    pub fn identity(&self) -> &IdentityPermit {
        &self.identity
    }

    /// Doors 3 and 4 of a datastore; then door 5 opens its directory. With [`CachedOnly`](crate::CachedOnly) only a directory that is open.
    ///
    /// # Errors
    /// The refusal of door 3; of door 4 when no role makes the datastore visible; of door 2 when the credential was withdrawn meanwhile;
    /// of door 5 when the directory of the datastore cannot be opened.
    pub fn enter<P: Patience>(
        mut self,
        name: &DatastoreName,
        kind: OperationKind,
        patience: P,
    ) -> Result<P::Of<Stay>, Refusal> {
        let house = Arc::clone(&self.house);
        let (datastore, (guard, handle)) = house.enter(&mut Act(&mut self), name, kind)?;
        P::and_then(house.root(&handle, &datastore, patience)?, |root| {
            let (fill, counted) = (handle.fill.clone(), Counted::default());
            Ok(P::ready(Stay { visit: self, datastore, root, fill, still: None, counted, guard }))
        })
    }

    /// The datastores that are not absent for the visitor, by name.
    ///
    /// # Errors
    /// When the facts cannot be read, or door 2 says no by now.
    pub fn stores(mut self) -> Result<Vec<DatastoreName>, Refusal> {
        let house = Arc::clone(&self.house);
        let names = house.datastores().into_iter().map(|state| state.name);
        house.parts.source.read(|view| {
            self.ask_again(view)?;
            let (now, memo) = (house.now(), &house.parts.access_memo);
            let principal = self.identity.principal();
            let is_there =
                |name: &DatastoreName| enfilade_access::admits(view, now, principal, name, memo).is_ok();
            Ok(names.filter(is_there).collect())
        })?
    }

    /// Door 2 again, if the facts changed since it was passed.
    pub(crate) fn ask_again(&mut self, view: &View<'_>) -> Result<(), Refusal> {
        let house = &self.house;
        let now = house.now();
        if !self.identity.holds(view.at(), now) {
            let memo = &house.parts.identity_memo;
            self.identity = house
                .sessions
                .with(|tokens| enfilade_identity::reopen(view, now, &self.identity, tokens, memo))?;
        }
        Ok(())
    }
}

impl House {
    /// Doors 3 and 4 of a datastore, in every mode. This is the one place of rule 5 (`docs/freshness.md`): the operation enters the ledger first.
    /// The facts that the datastore is judged on are read after that.
    ///
    /// # Errors
    /// The refusal of door 3; of door 4 when no role makes the store visible; of door 2 when the credential was withdrawn meanwhile.
    pub(crate) fn enter<M: Mode>(
        &self,
        mode: &mut M,
        name: &DatastoreName,
        kind: OperationKind,
    ) -> Result<(DatastorePermit, M::Operation), Refusal> {
        let now = self.now();
        let ask = DatastoreAsk { name, kind, standing: Standing::Entering };
        // A datastore that is made between the two steps is found by the next turn.
        for _ in 0..4 {
            let operation = M::count(self, &ask, now)?;
            let known = if M::HAS_PRINCIPAL { None } else { self.newest_record(name) };
            let permit = match known {
                Some(record) => self.judge(&record, now, &ask)?,
                None => self.parts.source.read(|view| {
                    let principal = mode.principal(view)?;
                    let record = self.stores.record(view, name)?;
                    let permit = self.judge(&record, now, &ask);
                    // A principal without a role here is told nothing about the datastore, not even that it is in maintenance.
                    if let Some(principal) = principal {
                        enfilade_access::admits(view, now, principal, name, &self.parts.access_memo)?;
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
}

/// A condition of a request, asked where the request takes place.
pub type Still = Box<dyn FnMut(&mut Stay) -> Result<(), Refusal> + Send>;

/// Somebody inside a datastore: doors 2 and 3 passed, the operation counted until this is dropped.
pub struct Stay {
    pub(crate) visit: Visit,
    pub(crate) datastore: DatastorePermit,
    pub(crate) root: Arc<Root>,
    pub(crate) fill: Fill,
    /// What is judged once more where the request takes place.
    pub(crate) still: Option<Still>,
    /// Which locks count.
    pub(crate) counted: Counted,
    #[expect(dead_code, reason = "held so that the ledger counts the operation")]
    guard: OperationGuard,
}

impl Stay {
    /// Door 4, on a fresh view, about a target whose ACL was just read from its descriptor.
    ///
    /// # Errors
    /// The refusal of door 4, or of an earlier door that was asked again.
    pub fn may(&mut self, ask: &AccessAsk<'_>) -> Result<AccessPermit, Refusal> {
        self.on_view(|stay, view| {
            let house = &stay.visit.house;
            let memo = &house.parts.access_memo;
            Ok(enfilade_access::open(view, house.now(), &stay.visit.identity, &stay.datastore, ask, memo)?)
        })
    }

    /// Makes a request depend on `still` where it takes place, too: in the turn in which the first name changes, or properties change, or a lock
    /// is taken. After that it is not asked again, because the request itself changed what it is about.
    pub fn only_if(&mut self, still: impl FnMut(&mut Stay) -> Result<(), Refusal> + Send + 'static) {
        self.still = Some(Box::new(still));
    }

    /// Asks what [`Stay::only_if`] was given, unless it was asked before and held.
    ///
    /// # Errors
    /// What it refuses; nothing may be changed then, and it is asked again.
    pub(crate) fn if_still(&mut self) -> Result<(), Refusal> {
        let Some(mut still) = self.still.take() else { return Ok(()) };
        let holds = still(self);
        self.still = holds.is_err().then_some(still);
        holds
    }

    /// Whether everything this stay rests on is what it was when it was granted. A few nanoseconds.
    pub(crate) fn unchanged(&self) -> bool {
        let house = &self.visit.house;
        self.visit.identity.holds(house.parts.source.at(), house.now())
    }

    /// Runs `look` on a fresh view, doors 2 and 3 asked again first when the facts changed.
    pub(crate) fn on_view<R>(
        &mut self,
        look: impl FnOnce(&Self, &View<'_>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let house = Arc::clone(&self.visit.house);
        house.parts.source.read(|view| {
            self.visit.ask_again(view)?;
            let now = house.now();
            if !self.datastore.holds(view.at(), now) {
                let (name, kind) = (self.datastore.name().clone(), self.datastore.kind());
                let ask = DatastoreAsk { name: &name, kind, standing: Standing::Inside };
                let record = house.stores.record(view, &name)?;
                self.datastore = house.judge(&record, now, &ask)?;
            }
            look(self, view)
        })?
    }

    /// The revision the doors last judged on.
    pub fn revision(&self) -> Revision {
        self.datastore.at().revision
    }

    /// Who it is.
    pub fn principal(&self) -> &Principal {
        self.visit.principal()
    }

    /// The time.
    pub fn now(&self) -> Now {
        self.visit.house.now()
    }

    /// How much may still come, and how much is there, in bytes.
    ///
    /// # Errors
    /// When the file system does not say.
    pub fn quota(&self) -> Result<(u64, u64), Refusal> {
        let disk = self.root.usage()?;
        Ok(match self.datastore.quota() {
            None => (disk.available, disk.used),
            Some(quota) => {
                let used = self.fill.used(&self.root)?;
                (disk.available.min(quota.saturating_sub(used)), used)
            }
        })
    }
}
