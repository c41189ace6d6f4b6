//! Locks of WebDAV. A lock prevents a change unless the visitor took the lock and the request has the token of the lock. If there are several shared
//! locks, the token of one of these locks is enough.

use crate::house::House;
use crate::lock_owners::to_lock;
use crate::reach::Inside as _;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{Ask, NodeKind};
use enfilade_content::{
    Blocking, Lock, LockAsk, LockToken, Locks, Member, Met, Node, Refusal as Content, Touches,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use std::sync::Arc;

/// The terms of a lock that a client asks for.
#[derive(Clone, Debug)]
pub struct LockTerms {
    /// Whether everything beneath the path is locked, too.
    pub is_deep: bool,
    /// Whether the lock is exclusive. If it is not exclusive, the lock is shared.
    pub is_exclusive: bool,
    /// The client's text about the owner of the lock, as XML.
    pub said: String,
    /// The timeout, in seconds.
    pub seconds: i64,
}

/// A lock in the form in which it is shown to a visitor.
#[derive(Clone, Debug)]
pub struct ShownLock {
    /// The lock.
    pub lock: Lock,
    /// Whether the token of the lock is shown, too. Only the user who took the lock may see the token (RFC 4918 §6.5).
    pub shows_token: bool,
}

impl House {
    fn locks(&self) -> Locks<'_> {
        Locks::new(&*self.parts.locks, self.now().unix_seconds, self.limits())
    }
}

impl Stay {
    pub(crate) fn locks(&self) -> Locks<'_> {
        self.visit.house.locks()
    }

    /// Checks that no lock prevents the visitor from making this change on a path. `tokens` are the lock tokens of the request.
    ///
    /// # Errors
    /// [`Content::Locked`] if a lock prevents the change. An error if the locks cannot be read.
    pub fn unless_locked(
        &self,
        path: &StorePath,
        touches: Touches,
        tokens: &[LockToken],
    ) -> Result<(), Refusal> {
        let user = self.visit.principal().user;
        let name = self.datastore.name();
        // If the owner of the lock may no longer change the resource, the iteration ends the lock. Otherwise the function returns an error.
        while let Some(lock) = self.locks().in_the_way(name, path, touches, user, tokens)? {
            self.unless_counts(&lock)?;
        }
        Ok(())
    }

    pub(crate) fn locks_on(&self, path: &StorePath) -> Result<Vec<Lock>, Refusal> {
        Ok(self.locks().covering(self.datastore.name(), path)?)
    }

    /// The locks that cover a path, except locks of owners who may no longer change the resource (see `lock_owners.rs`). The visitor must be allowed
    /// to see the path.
    ///
    /// # Errors
    /// When the locks cannot be read.
    pub fn shown_locks(&mut self, path: &StorePath) -> Result<Vec<ShownLock>, Refusal> {
        let user = self.visit.principal().user;
        let mut locks = self.locks_on(path)?;
        locks.retain(|lock| self.is_shown(lock));
        Ok(locks.into_iter().map(|lock| ShownLock { shows_token: lock.user == user, lock }).collect())
    }

    /// The tokens of the locks on a path and on everything beneath it.
    pub(crate) fn locks_at_or_beneath(&self, path: &StorePath) -> Result<Vec<LockToken>, Refusal> {
        Ok(self.locks().at_or_beneath(self.datastore.name(), path)?)
    }

    /// Ends the locks of a resource that was deleted or renamed. The change of the resource is already done, so an error goes to the log and not to
    /// the client.
    pub(crate) fn end_locks(&self, path: &StorePath, tokens: &[LockToken]) {
        let Err(why) = self.locks().end(tokens) else { return };
        let name = self.datastore.name();
        self.record_end_of_lock(path, "refuse", format!(
            "the resource was deleted or renamed, but its locks could not be ended: {why}; these locks end at their timeout; to end them now, run \
                `enfilade datastore unlock {name} '{path}'`"
        ));
    }

    /// Whether a lock possibly covers a directory or something in it.
    ///
    /// # Errors
    /// When the locks cannot be read.
    pub fn is_locked_anywhere(&self, path: &StorePath) -> Result<bool, Refusal> {
        let (locks, name) = (self.locks(), self.datastore.name());
        Ok(locks.any_beneath(name, path)? || !locks.covering(name, path)?.is_empty())
    }

    /// Takes a lock. If the path leads to no object, creates an empty file (RFC 4918 §7.3). Also returns whether a file was created.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn lock(
        mut self,
        path: &StorePath,
        terms: LockTerms,
        tokens: &[LockToken],
    ) -> Result<(Lock, bool), Refusal> {
        let (directory, existing) = match path.is_root() {
            true => (None, Some(self.find(path, AccessMask::NONE, Blocking)?.node)),
            false => {
                let (directory, name) = self.reach_parent(path).map_err(Refusal::of_parent(path))?;
                let existing = self.present_or_taken(path, &directory, name, NodeKind::File)?;
                (Some(directory), existing)
            }
        };
        let is_directory = existing.as_ref().is_some_and(|node| node.kind() == NodeKind::Directory);
        match (&directory, &existing) {
            (directory, Some(node)) => {
                if let Some(directory) = directory {
                    self.may_overwrite(path, directory, node)?;
                }
                self.may_lock(path, node)?;
                if is_directory && terms.is_deep {
                    self.may_change_all(path, node)?;
                }
            }
            (Some(directory), None) => {
                self.may_create(path, directory, NodeKind::File).map_err(Refusal::of_parent(path))?;
                self.unless_locked(path, Touches::Entry, tokens)?;
            }
            (None, None) => return Err(Content::IsRoot.into()),
        }
        let ask = LockAsk {
            datastore: self.datastore.name().clone(),
            path: path.clone(),
            is_directory,
            is_deep: terms.is_deep,
            is_exclusive: terms.is_exclusive,
            user: self.visit.principal().user,
            said: terms.said,
            seconds: terms.seconds,
        };
        let lock = self.take_lock(&ask)?;
        let house = Arc::clone(&self.visit.house);
        let is_new = existing.is_none();
        let settled = match existing {
            // It is possible that another request checked the locks before the new lock was created, and is still changing a name. So this code waits
            // until no other request can change a name. Then this code checks that the path still leads to the object that door 4 judged. It also
            // checks the conditions of this request. The new lock makes none of them false: when the client wrote the conditions, it did not know the
            // token of the new lock.
            Some(node) => Arc::clone(&self.root).in_turn(|| {
                self.if_still()?;
                Ok(self.root.still_leads_to(path, &node)?)
            }),
            None => {
                let tokens = [tokens, &[lock.token]].concat();
                self.upload(path.clone(), Some(0)).and_then(|mut made| {
                    made.unless_locked(tokens)?;
                    made.finish().map(drop)
                })
            }
        };
        if let Err(why) = settled {
            let _ = house.locks().release((&ask.datastore, path), lock.token, ask.user);
            return Err(why);
        }
        Ok((lock, is_new))
    }

    fn take_lock(&self, ask: &LockAsk) -> Result<Lock, Refusal> {
        loop {
            match self.locks().take(ask) {
                Err(Content::Locked(_)) => {
                    self.locks().against(ask)?.iter().try_for_each(|lock| self.unless_counts(lock))?;
                }
                taken => return Ok(taken?),
            }
        }
    }

    /// Checks that the visitor may lock an object. A lock needs the right to change the content of a file, or the entries of a directory. For a
    /// hidden object, the visitor gets the same refusal as a visitor who may not create an object at the path.
    fn may_lock(&mut self, path: &StorePath, node: &Node) -> Result<(), Refusal> {
        let subject = node.subject();
        let mut each = to_lock(node.kind()).iter();
        each.try_for_each(|wanted| self.may(&Ask { path, target: &subject, wanted: *wanted }).map(drop))
    }

    /// Checks that the visitor may change every member of a tree. A lock on a whole tree prevents other users from changing any member, so only a
    /// visitor with these rights may take the lock.
    fn may_change_all(&mut self, path: &StorePath, directory: &Node) -> Result<(), Refusal> {
        let not_all = || Refusal::from(Content::NotAll(path.to_string()));
        let budget = self.tree_budget(&|| true);
        self.each_member(path, directory, &budget, |stay, _, met| match met {
            Met::Member(Member { path, node, .. }) => match stay.may_lock(path, node) {
                Err(Refusal::Access(access)) if access.is_of_hidden() => Err(not_all()),
                may => may,
            },
            Met::Unserved | Met::TooLong(_) | Met::Leave(_) => Ok(()),
            Met::Failed { why, .. } => Err(why.clone().into()),
        })
    }

    /// The visitor's lock with this token, if the lock covers the path.
    fn own_lock(&mut self, path: &StorePath, token: LockToken) -> Result<Lock, Refusal> {
        let user = self.visit.principal().user;
        let locks = self.locks_on(path)?;
        let own = locks.into_iter().find(|lock| lock.token == token && lock.user == user);
        Ok(own.ok_or(Content::NoSuchLock)?)
    }

    /// Checks that the visitor may still change the locked resource. If the resource is hidden or absent, the lock looks absent.
    fn still_may_lock(&mut self, lock: &Lock) -> Result<(), Refusal> {
        let node = match self.find(&lock.path, AccessMask::NONE, Blocking) {
            Ok(found) => found.node,
            Err(Refusal::Content(_) | Refusal::Access(_)) => return Err(Content::NoSuchLock.into()),
            Err(why) => return Err(why),
        };
        self.may_lock(&lock.path, &node)?;
        match lock.is_deep && node.kind() == NodeKind::Directory {
            true => self.may_change_all(&lock.path, &node),
            false => Ok(()),
        }
    }

    /// Gives a lock of the visitor a new timeout, if the visitor may still take the lock.
    ///
    /// # Errors
    /// [`Content::NoSuchLock`] if no token belongs to a lock of the visitor that covers the path. Other errors as for [`Stay::lock`].
    pub fn refresh_lock(
        &mut self,
        path: &StorePath,
        tokens: &[LockToken],
        seconds: i64,
    ) -> Result<Lock, Refusal> {
        let user = self.visit.principal().user;
        for token in tokens {
            let lock = match self.own_lock(path, *token) {
                Err(Refusal::Content(Content::NoSuchLock)) => continue,
                lock => lock?,
            };
            self.still_may_lock(&lock)?;
            self.if_still()?;
            return Ok(self.locks().refresh((self.datastore.name(), path), *token, user, seconds)?);
        }
        Err(Content::NoSuchLock.into())
    }

    /// Releases a lock of the visitor. The visitor must have the right to change the locked resource: a credential with fewer rights must not release
    /// the lock of another credential of the same user. If no credential of the user has that right any more, the lock ends.
    ///
    /// # Errors
    /// [`Content::NoSuchLock`] if the visitor has no lock with this token that covers the path, or may not see the locked resource. The refusal of
    /// door 4 if the visitor may not change the locked resource.
    pub fn unlock(&mut self, path: &StorePath, token: LockToken) -> Result<(), Refusal> {
        let user = self.visit.principal().user;
        let lock = self.own_lock(path, token)?;
        let node = match self.find(&lock.path, AccessMask::NONE, Blocking) {
            Ok(found) => found.node,
            // The client gets the same answer as for a lock that ended with its resource.
            Err(Refusal::Content(_) | Refusal::Access(_)) => {
                self.counts(&lock)?;
                return Err(Content::NoSuchLock.into());
            }
            Err(why) => return Err(why),
        };
        match self.may_lock(&lock.path, &node) {
            Ok(()) => Ok(self.locks().release((self.datastore.name(), path), token, user)?),
            Err(_) if !self.counts(&lock)? => Ok(()),
            Err(why) => Err(why),
        }
    }
}
