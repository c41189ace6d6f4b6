//! Door 2 for each kind of credential.

use crate::gate::Asker;
use crate::house::House;
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_facts::{MemoKey, Read};
use enfilade_identity::{CertificateAsk, IdentityPermit, Outcome, SecretAsk, Verdict};
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
        let refusal = match self.ask_identity(ask, from).await {
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

    /// Door 2 for a certificate.
    ///
    /// # Errors
    /// The door's refusal.
    pub(crate) fn open_certificate(&self, ask: &CertificateAsk) -> Result<IdentityPermit, Refusal> {
        let (parts, now) = (&self.parts, self.now());
        let memo = &parts.identity_memo;
        Ok(parts.source.read(|view| enfilade_identity::open_certificate(view, now, ask, memo))??)
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

    fn unless_barred(&self, from: IpAddr) -> Result<(), Refusal> {
        match self.parts.penalties.bar(from, self.now()) {
            Some(left) => Err(enfilade_identity::Refusal::Barred { seconds: left.as_secs().max(1) }.into()),
            None => Ok(()),
        }
    }

    /// Door 2 for whoever was let in at this revision before: no view, no lock, nothing to wait for.
    pub fn knows(&self, ask: &SecretAsk) -> Option<IdentityPermit> {
        // The revision first: what is acknowledged after this is obeyed by the next request.
        let at = self.parts.source.at();
        enfilade_identity::remembered(at, || self.now(), ask, &self.parts.identity_memo)
    }

    async fn ask_identity(&self, ask: &SecretAsk, from: IpAddr) -> Result<IdentityPermit, Refusal> {
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
