//! Door 2 for each kind of credential.

use crate::gate::Asker;
use crate::house::House;
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_facts::MemoKey;
use enfilade_identity::{Ask, Closed, IdentityPermit, Outcome, SecretAsk};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

impl House {
    /// Door 2 for a name and a secret. When a slow hash is missing it is computed behind the gate, which only fills the memo; then the door is
    /// asked again, against fresh facts. A client that fails waits for the answer. An address that fails too often is refused for a while:
    /// every password, and every other secret that needs a slow hash.
    ///
    /// # Errors
    /// The door's refusal.
    pub(crate) async fn open_secret(
        &self,
        ask: &SecretAsk,
        named: &(impl Display + Sync),
        from: IpAddr,
    ) -> Result<IdentityPermit, Refusal> {
        let penalties = &self.parts.penalties;
        // A password is not even compared with a remembered one: an address that is barred would guess without a delay.
        if ask.authid.token.is_none() {
            self.unless_barred(from)?;
        }
        let refusal = match self.open_credential(Ask::Secret(ask), from).await {
            Ok(identity) => {
                penalties.succeeded(named, self.now());
                return Ok(identity);
            }
            Err(refusal) => refusal,
        };
        if let Refusal::Identity(identity) = &refusal
            && identity.is_failure()
        {
            self.unless_barred(from)?;
            let delay = penalties.failed(from, named, self.now());
            // Even the shortest sleep waits for the timer to tick.
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
        Err(refusal)
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
                if *key == brought && identity.validity().admits(at, keys, || self.now()) =>
            {
                Ok(self.welcome(identity.clone(), from))
            }
            _ => Err(brought),
        }
    }

    fn unless_barred(&self, from: IpAddr) -> Result<(), Refusal> {
        match self.parts.penalties.bar(from, self.now()) {
            Some(left) => Err(enfilade_identity::Refusal::Barred { seconds: left.as_secs().max(1) }.into()),
            None => Ok(()),
        }
    }

    /// Door 2 at the newest revision. It waits for nothing: a slow hash that is missing is named.
    ///
    /// # Errors
    /// The door's refusal, or the slow hash.
    pub fn identify(&self, ask: Ask<'_>) -> Result<IdentityPermit, Closed> {
        enfilade_identity::open(self.source(), || self.now(), ask, &self.identity_context())
    }

    /// Door 2, with the slow hashes that are missing. Only a secret ever waits for one.
    pub(crate) async fn open_credential(
        &self,
        ask: Ask<'_>,
        from: IpAddr,
    ) -> Result<IdentityPermit, Refusal> {
        let parts = &self.parts;
        // Twice is enough unless the stored hash changes between the work and the second look.
        for _ in 0..4 {
            let work = match self.identify(ask) {
                Ok(identity) => return Ok(identity),
                Err(Closed::Refused(refusal)) => return Err(refusal.into()),
                Err(Closed::NeedsWork(work)) => work,
            };
            self.unless_barred(from)?;
            let asker = Asker { from, failures: parts.penalties.failures(from, self.now()) };
            match parts.gate.run(work.clone(), asker).await? {
                Outcome::Matches(key) => parts.identity_memo.remember_match(key, self.now()),
                Outcome::Differs => return Err(work.refuse().into()),
            }
        }
        Err(enfilade_identity::Refusal::Busy.into())
    }
}

/// The last principal on a connection, under the digest of its credential.
///
/// Measured (`bench/runs/2026-11-23-passage.json`, goal `door`): a request with the same token on a connection costs 1.01 times the CPU of a
/// request that needs none; with another token each time, where this does not help, 1.15 times. The goal is 1.1.
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
