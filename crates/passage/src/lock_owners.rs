//! Decides whether a lock still counts. A lock counts as long as its owner may change the locked resource. The server ends a lock that does not
//! count. The reason: an owner who no longer has the account, the role or the trust cannot release the lock. The server makes this check only when
//! the lock prevents a change or another lock, or when the lock is to be released or shown. If a lock is only to be shown, the server does not end
//! the lock.

use crate::audit::Event;
use crate::reach::{Inside as _, Onlooker};
use crate::refuse::Refusal;
use crate::walk::{Counted, Stay};
use enfilade_access::{Ask, NodeKind, Refusal as Access, Wanted};
use enfilade_content::{Blocking, Lock, Refusal as Content};
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use enfilade_facts::{At, Read as _};
use enfilade_identity::Principal;
use std::collections::BTreeMap;

const ASK_EVERY_MILLIS: u64 = 1000;

/// The rights that a user needs to lock a resource: to change the content of a file, or the entries of a directory.
pub(crate) fn to_lock(kind: NodeKind) -> &'static [Wanted<'static>] {
    const OF_DIRECTORY: [Wanted<'static>; 2] =
        [Wanted::Overwrite, Wanted::On(AccessMask::ADD_FILE.and(AccessMask::ADD_SUBDIRECTORY))];
    match kind {
        NodeKind::File => &[Wanted::Overwrite],
        NodeKind::Directory => &OF_DIRECTORY,
    }
}

impl Stay {
    /// Whether a lock is shown. Only a lock that counts is shown. This function never ends a lock, because a request that shows locks must not change
    /// any lock.
    pub(crate) fn is_shown(&mut self, lock: &Lock) -> bool {
        let house = &self.visit.house;
        let (at, tick) = (house.parts.source.at(), house.now().tick_millis);
        let is_fresh =
            |(then, when): &(At, u64)| *then == at && tick.saturating_sub(*when) < ASK_EVERY_MILLIS;
        if !self.counted.asked.as_ref().is_some_and(is_fresh) {
            self.counted = Counted { asked: Some((at, tick)), known: BTreeMap::new() };
        }
        if let Some(counts) = self.counted.known.get(&lock.token) {
            return *counts;
        }
        let counts = self.owner_may_change(lock);
        self.counted.known.insert(lock.token, counts);
        counts
    }

    /// Refuses if a lock counts (its owner may still change the locked resource); otherwise ends the lock.
    ///
    /// # Errors
    /// [`Content::Locked`] if the lock counts. An error if the locks cannot be written.
    pub(crate) fn unless_counts(&self, lock: &Lock) -> Result<(), Refusal> {
        match self.counts(lock)? {
            true => Err(Content::Locked(lock.path.to_string()).into()),
            false => Ok(()),
        }
    }

    /// Whether a lock counts. A lock that does not count is ended, and the request log gets a line about it.
    ///
    /// # Errors
    /// When the locks cannot be written.
    pub(crate) fn counts(&self, lock: &Lock) -> Result<bool, Refusal> {
        if self.owner_may_change(lock) {
            return Ok(true);
        }
        self.locks().end(&[lock.token])?;
        let why = format!(
            "the lock was ended, because its owner (user {}) may no longer change the locked resource",
            lock.user
        );
        self.record_end_of_lock(&lock.path, "permit", why);
        Ok(false)
    }

    /// Writes a line to the request log about locks that the server ended or failed to end. No client asked the server to end these locks.
    pub(crate) fn record_end_of_lock(&self, path: &StorePath, verdict: &'static str, reason: String) {
        let visit = &self.visit;
        visit.house.audit().record(Event {
            face: "passage",
            verb: "end lock".into(),
            authid: visit.principal().authid.to_word(),
            datastore: self.datastore.name().to_string(),
            path: path.to_string(),
            verdict,
            reason,
            revision: self.revision().0,
            ..Event::default()
        });
    }

    /// Whether any session of a lock's owner may change the locked resource. Also true if this cannot be determined, because the lock must count in
    /// that case.
    fn owner_may_change(&self, lock: &Lock) -> bool {
        let house = &self.visit.house;
        let (now, memo) = (house.now(), &house.parts.identity_memo);
        let owners = house.parts.source.read(|view| {
            if !enfilade_access::knows_roles(view, now, &lock.datastore, &lock.path)? {
                return Ok(None);
            }
            let project = enfilade_access::bound_to(view, &lock.datastore)?;
            Ok::<_, Refusal>(Some(enfilade_identity::reaches(view, now, lock.user, project.as_ref(), memo)?))
        });
        let Ok(Ok(Some(owners))) = owners else { return true };
        let is_lost = |why: Refusal| {
            let Refusal::Access(why) = why else { return false };
            matches!(
                why,
                Access::NoRole { .. }
                    | Access::Hidden { .. }
                    | Access::NotGranted { .. }
                    | Access::CreateOntoHidden { .. }
            )
        };
        !owners.iter().all(|owner| self.would_lock(owner, &lock.path).is_err_and(is_lost))
    }

    /// Checks that a principal could lock the object at a path. If there is no object, checks that the principal could create a file at the path.
    fn would_lock(&self, principal: &Principal, path: &StorePath) -> Result<(), Refusal> {
        let mut owner = Onlooker::new(&self.visit.house, principal, (&self.datastore, &self.root));
        match owner.reach(path, Blocking) {
            Ok(node) => {
                let target = &node.subject();
                let mut needed = to_lock(node.kind()).iter();
                needed.try_for_each(|wanted| owner.ask(&Ask { path, target, wanted: *wanted }))
            }
            Err(Refusal::Content(Content::Absent(_))) => {
                let (directory, _) = owner.reach_parent(path)?;
                let above = path.split().map(|(above, _)| above).unwrap_or_default();
                let (target, wanted) = (&directory.subject(), Wanted::Create(NodeKind::File));
                owner.ask(&Ask { path: &above, target, wanted })
            }
            Err(why) => Err(why),
        }
    }
}
