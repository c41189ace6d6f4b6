//! Access-based enumeration: a listing shows an entry if and only if the visitor may see this entry in a request for its path.
//!
//! For most entries, the server reads only the state of the entry. The memo contains the ACL that belongs to the state, and whether the visitor may
//! see an entry with this ACL. So each ACL is evaluated only once for all entries that have this ACL.

use crate::ask::{NodeKind, StoredAcl, Subject, Version};
use crate::memo::{AccessMemo, AclId, Question};
use crate::mode_bits;
use crate::open::AccessCheck;
use crate::refuse::Refusal;
use crate::roles::Resolved;
use crate::sight::Sight;
use crate::view::View;
use enfilade_datastore::DatastorePermit;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{AccessMask, RolePath, StorePath, check_entry_name};
use enfilade_identity::IdentityPermit;

/// For each child of a directory, whether the visitor may see the child. The results have the order of the children. A child that cannot be judged is
/// hidden.
///
/// # Errors
/// When the facts cannot be read.
pub fn see(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    directory: &StorePath,
    children: &[(&str, &Subject)],
    memo: &AccessMemo,
) -> Result<Vec<Sight>, Refusal> {
    let visible = datastore.access().visible;
    let (principal, datastore) = (identity.principal(), datastore.name());
    let check = AccessCheck { view: View(view), now, principal, datastore, visible, memo };
    check.see(directory, children)
}

/// Which children of a directory the roles make visible, and whether the roles skip the ACLs.
struct Shown {
    files: bool,
    directories: bool,
    skips_acl: bool,
}

impl Shown {
    fn by(roles: &Resolved, visible: AccessMask) -> Self {
        let shows = |kind| roles.rights(kind).covers(visible);
        let (files, directories) = (shows(NodeKind::File), shows(NodeKind::Directory));
        Shown { files, directories, skips_acl: roles.skips_acl() }
    }

    /// The fields of `Shown` as one number, for a memo key.
    fn number(&self) -> u64 {
        let Shown { files, directories, skips_acl } = *self;
        [files, directories, skips_acl].into_iter().fold(0, |number, is_so| number << 1 | u64::from(is_so))
    }

    fn kind(&self, kind: NodeKind) -> bool {
        match kind {
            NodeKind::File => self.files,
            NodeKind::Directory => self.directories,
        }
    }
}

/// The results for ACLs that were evaluated recently. Most entries of a directory have one of a few ACLs.
struct Lately([(u64, Sight); LATELY]);

const LATELY: usize = 64;

impl Lately {
    fn sight(&mut self, id: AclId, kind: NodeKind, judge: impl FnOnce() -> Sight) -> Sight {
        // No ACL has the id 0, so a place with the key 0 is empty.
        let key = id.0 << 1 | u64::from(kind == NodeKind::Directory);
        let Some(place) = self.0.get_mut(key as usize % LATELY) else { return judge() };
        if place.0 != key {
            match judge() {
                Sight::Unread => return Sight::Unread,
                sight => *place = (key, sight),
            }
        }
        place.1
    }
}

impl AccessCheck<'_> {
    pub(crate) fn see(
        &self,
        directory: &StorePath,
        children: &[(&str, &Subject)],
    ) -> Result<Vec<Sight>, Refusal> {
        let here = RolePath::of(self.datastore, directory);
        // All children without a role assignment of their own have the same roles.
        let roles = self.role_check();
        let effective_node = roles.effective_node(&here);
        let same = Shown::by(&*roles.remember(Question::Below, effective_node.node)?, self.visible);
        let subjects = || children.iter().map(|(_, subject)| *subject);
        let mut sights = if effective_node.goes_on_below {
            self.see_each(directory, children, |name| self.shown_alone(directory, name), &same)?
        } else if subjects().any(|subject| subject.acl != StoredAcl::Unread) {
            self.see_each(directory, children, |_| Ok(None), &same)?
        } else {
            let shown = [same.number(), self.visible.0.into()];
            self.memo.sights(self.principal, shown, subjects(), || {
                self.see_each(directory, children, |_| Ok(None), &same)
            })?
        };
        // If no request can contain the name of an entry, the entry is hidden.
        let bytes_max = directory.entry_bytes_max();
        let seen = sights.iter_mut().zip(children).filter(|(sight, _)| **sight == Sight::Seen);
        let beyond = seen.filter(|(_, (name, _))| name.len() > bytes_max || check_entry_name(name).is_err());
        beyond.for_each(|(sight, _)| *sight = Sight::Hidden);
        Ok(sights)
    }

    fn see_each(
        &self,
        directory: &StorePath,
        children: &[(&str, &Subject)],
        shown_alone: impl Fn(&str) -> Result<Option<Shown>, Refusal>,
        same: &Shown,
    ) -> Result<Vec<Sight>, Refusal> {
        let mut lately = Lately([(0, Sight::Hidden); LATELY]);
        let acls = self.memo.acls_of(children.iter().map(|(_, subject)| *subject));
        let mut read = Vec::new();
        let each = children.iter().zip(acls).map(|((name, subject), known)| {
            let own = shown_alone(name)?;
            let shown = own.as_ref().unwrap_or(same);
            // The ACL of the entry does not matter in two cases: the roles do not make the entry visible, or the roles skip the ACL.
            if !shown.kind(subject.kind) {
                return Ok(Sight::Hidden);
            }
            if shown.skips_acl {
                return Ok(Sight::Seen);
            }
            if subject.acl == StoredAcl::Unread {
                return Ok(self.sight_of_known(subject, known, &mut lately));
            }
            let id = self.memo.id_of(subject);
            read.extend(number_in(subject, id).map(|id| (*subject, id)));
            Ok(self.sight_of_read(directory, subject, id, &mut lately))
        });
        let sights = each.collect();
        self.memo.remember_acls(&read);
        sights
    }

    /// Which kinds of objects the roles make visible at the path of one child. `None` if this child has no role assignment: then the child has the
    /// same roles as the other children.
    fn shown_alone(&self, directory: &StorePath, name: &str) -> Result<Option<Shown>, Refusal> {
        let Ok(path) = directory.join(name) else { return Ok(None) };
        let child = RolePath::of(self.datastore, &path);
        match self.view.is_assigned(child.as_str())? {
            true => Ok(Some(Shown::by(&*self.roles(&child)?, self.visible))),
            false => Ok(None),
        }
    }

    fn sight_of_known(&self, subject: &Subject, known: Option<AclId>, lately: &mut Lately) -> Sight {
        match known {
            None => Sight::Unread,
            Some(AclId::NONE) => self.sight(mode_bits::granted(subject, self.principal)),
            Some(id) => lately.sight(id, subject.kind, || {
                self.granted_by_acl(id).map_or(Sight::Unread, |granted| self.sight(granted))
            }),
        }
    }

    fn sight_of_read(
        &self,
        directory: &StorePath,
        subject: &Subject,
        id: Option<AclId>,
        lately: &mut Lately,
    ) -> Sight {
        // An entry that cannot be judged is hidden.
        let judge =
            || self.acl_of(directory, subject, id).map_or(Sight::Hidden, |granted| self.sight(granted));
        match id {
            Some(id) => lately.sight(id, subject.kind, judge),
            None => judge(),
        }
    }

    fn sight(&self, granted: AccessMask) -> Sight {
        if granted.covers(self.visible) { Sight::Seen } else { Sight::Hidden }
    }
}

/// The id of an object's ACL, if the memo may remember the id for the object's state. `None` if the ACL can change while the state stays the same.
fn number_in(subject: &Subject, id: Option<AclId>) -> Option<AclId> {
    match subject.acl {
        // The mode bits decide, but the state `Version::Watched` does not contain the mode bits.
        StoredAcl::Absent if matches!(subject.version, Some(Version::Watched { .. })) => None,
        StoredAcl::Absent => Some(AclId::NONE),
        // Nothing is remembered for an ACL that cannot be read (`id` is `None`), because the ACL can become readable while the state of the object
        // stays the same.
        _ => id,
    }
}
