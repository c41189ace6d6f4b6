//! Locks and dead properties: who may take and leave them, and that the visitor's own locks are all that stand in nobody's way.

use crate::house::House;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{Ask, NodeKind, Wanted};
use enfilade_content::{
    Lock, LockAsk, LockToken, Locks, Node, Property, PropertyChange, Refusal as Content, Touches,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

use crate::verbs::{Found, present};

/// What somebody wants of a lock.
#[derive(Clone, Debug)]
pub struct LockTerms {
    /// Whether everything beneath is locked, too.
    pub is_deep: bool,
    /// Whether nobody else is to have one.
    pub is_exclusive: bool,
    /// What they say of themselves, as XML.
    pub said: String,
    /// For how long, in seconds.
    pub seconds: i64,
}

/// The state of a path, for conditions about it.
#[derive(Clone, Debug, Default)]
pub struct PathState {
    /// What is there, for entity tags: nothing where it is not there for the visitor.
    pub validator: Option<String>,
    /// When its content was written, in seconds since the epoch.
    pub modified: Option<i64>,
    /// The locks that cover it.
    pub tokens: Vec<LockToken>,
}

impl House {
    fn locks(&self) -> Locks<'_> {
        Locks::new(&*self.parts.locks, self.now().unix_seconds, self.limits())
    }
}

impl Stay {
    fn locks(&self) -> Locks<'_> {
        self.visit.house.locks()
    }

    /// Whether the locks on a path let the visitor do this, with the tokens that came.
    ///
    /// # Errors
    /// [`Content::Locked`], or when the locks cannot be read.
    pub fn unless_locked(
        &self,
        path: &StorePath,
        touches: Touches,
        tokens: &[LockToken],
    ) -> Result<(), Refusal> {
        let user = self.visit.principal().user;
        Ok(self.locks().let_pass(self.datastore.name(), path, touches, user, tokens)?)
    }

    /// The locks that cover a path the visitor may see.
    ///
    /// # Errors
    /// When the locks cannot be read.
    pub fn locks_on(&self, path: &StorePath) -> Result<Vec<Lock>, Refusal> {
        Ok(self.locks().covering(self.datastore.name(), path)?)
    }

    /// Whether any lock may cover what is in a directory.
    ///
    /// # Errors
    /// When the locks cannot be read.
    pub fn is_locked_anywhere(&self, path: &StorePath) -> Result<bool, Refusal> {
        let (locks, name) = (self.locks(), self.datastore.name());
        Ok(locks.any_beneath(name, path)? || !locks.covering(name, path)?.is_empty())
    }

    /// What conditions about a path are judged by.
    ///
    /// # Errors
    /// When the locks cannot be read, or an earlier door says no by now.
    pub fn state_of(&mut self, path: &StorePath) -> Result<PathState, Refusal> {
        let found = match self.find(path, AccessMask::NONE) {
            Ok(found) => Some((found.node.meta().validator(), found.node.meta().modified.0)),
            // Hidden is absent: of neither anything is known.
            Err(Refusal::Content(_) | Refusal::Access(_)) => None,
            Err(why) => return Err(why),
        };
        let tokens = self.locks_on(path)?.into_iter().map(|lock| lock.token).collect();
        let (validator, modified) = found.unzip();
        Ok(PathState { validator, modified, tokens })
    }

    /// Takes a lock, which makes an empty file where nothing is (RFC 4918 §7.3). Says whether it did.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn lock(
        mut self,
        path: &StorePath,
        terms: LockTerms,
        tokens: &[LockToken],
    ) -> Result<(Lock, bool), Refusal> {
        let existing = match path.is_root() {
            true => Some(self.find(path, AccessMask::NONE)?.node),
            false => {
                let (directory, name) = self.reach_parent(path)?;
                present(directory.child(name))?
            }
        };
        let is_new = existing.is_none();
        let is_directory = existing.as_ref().is_some_and(|node| node.kind() == NodeKind::Directory);
        match existing {
            Some(node) => self.may_lock(path, &node)?,
            None => {
                let (directory, _) = self.reach_parent(path)?;
                self.may_create(path, &directory, NodeKind::File)?;
                self.unless_locked(path, Touches::Entry, tokens)?;
            }
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
        let lock = self.locks().take(&ask)?;
        if is_new {
            let house = std::sync::Arc::clone(&self.visit.house);
            let made = self.upload(path.clone(), Some(0)).and_then(crate::verbs::Uploading::finish);
            if let Err(why) = made {
                let _ = house.locks().release((&ask.datastore, path), lock.token, ask.user);
                return Err(why);
            }
        }
        Ok((lock, is_new))
    }

    /// Whoever may write something may lock it. What may not be seen is refused like a create without the right.
    fn may_lock(&mut self, path: &StorePath, node: &Node) -> Result<(), Refusal> {
        let subject = node.subject();
        self.may(&Ask { path, target: &subject, wanted: Wanted::Overwrite }).map(drop)
    }

    /// Lets a lock of the visitor's last longer.
    ///
    /// # Errors
    /// [`Content::NoSuchLock`] where none of these is one of theirs that covers the path.
    pub fn refresh_lock(
        &self,
        path: &StorePath,
        tokens: &[LockToken],
        seconds: i64,
    ) -> Result<Lock, Refusal> {
        let user = self.visit.principal().user;
        for token in tokens {
            match self.locks().refresh((self.datastore.name(), path), *token, user, seconds) {
                Err(Content::NoSuchLock) => {}
                refreshed => return Ok(refreshed?),
            }
        }
        Err(Content::NoSuchLock.into())
    }

    /// Gives up a lock of the visitor's.
    ///
    /// # Errors
    /// [`Content::NoSuchLock`] where it is none of theirs that covers the path.
    pub fn unlock(&self, path: &StorePath, token: LockToken) -> Result<(), Refusal> {
        let user = self.visit.principal().user;
        Ok(self.locks().release((self.datastore.name(), path), token, user)?)
    }

    /// What was at a path, or beneath it, is there no more: nor are its locks.
    ///
    /// # Errors
    /// When the locks cannot be written.
    pub fn forget_locks(&self, path: &StorePath) -> Result<(), Refusal> {
        Ok(self.locks().forget(self.datastore.name(), path)?)
    }

    /// The dead properties of what was found; none where the visitor may not read such.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn properties(&self, found: &Found) -> Result<Vec<Property>, Refusal> {
        match found.granted().covers(AccessMask::READ_NAMED_ATTRIBUTES) {
            true => Ok(enfilade_content::properties(found.permit(), &found.node)?),
            false => Ok(Vec::new()),
        }
    }

    /// Changes dead properties, all of it or nothing.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn change_properties(
        &mut self,
        path: &StorePath,
        changes: &[PropertyChange],
        tokens: &[LockToken],
    ) -> Result<(), Refusal> {
        let found = self.find(path, AccessMask::WRITE_NAMED_ATTRIBUTES)?;
        self.unless_locked(path, Touches::Content, tokens)?;
        Ok(enfilade_content::change_properties(found.permit(), &found.node, changes)?)
    }
}
