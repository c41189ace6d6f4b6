//! Access-based enumeration: a listing shows exactly what the visitor would be let see, asked one by one.
//!
//! Of most entries nothing but their state is known, and that says which ACL they have. What an ACL shows the visitor is worked out once,
//! however many entries have it.

use crate::ask::{NodeKind, StoredAcl, Subject};
use crate::memo::{AccessMemo, AclId};
use crate::mode;
use crate::open::Case;
use crate::refuse::Refusal;
use crate::roles::Resolved;
use crate::view::View;
use enfilade_datastore::DatastorePermit;
use enfilade_facts::Now;
use enfilade_facts::vocabulary::{AccessMask, RolePath, StorePath, check_entry_name};
use enfilade_identity::IdentityPermit;

/// What became of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The visitor may see it.
    Seen,
    /// It is not there for the visitor.
    Hidden,
    /// Its ACL has to be read first.
    Unread,
}

/// Which of the children of a directory the visitor may see, in their order. What cannot be judged is not seen.
///
/// # Errors
/// When the facts cannot be read.
pub fn see(
    view: &enfilade_facts::View<'_>,
    now: Now,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    directory: &StorePath,
    children: &[(&str, &Subject)],
    memo: &AccessMemo,
) -> Result<Vec<Sight>, Refusal> {
    let visible = datastore.access().visible;
    let (principal, datastore) = (identity.principal(), datastore.name());
    let case = Case { view: View(view), now, principal, datastore, visible, memo };
    case.see(directory, children)
}

/// What roles say of the children of a directory.
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

    fn kind(&self, kind: NodeKind) -> bool {
        match kind {
            NodeKind::File => self.files,
            NodeKind::Directory => self.directories,
        }
    }
}

/// What the ACLs that came lately show: entries side by side mostly have one of a few.
struct Lately([(u64, Sight); LATELY]);

const LATELY: usize = 64;

impl Lately {
    fn sight(&mut self, id: AclId, kind: NodeKind, judge: impl FnOnce() -> Sight) -> Sight {
        // No ACL has the number 0.
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

impl Case<'_> {
    pub(crate) fn see(
        &self,
        directory: &StorePath,
        children: &[(&str, &Subject)],
    ) -> Result<Vec<Sight>, Refusal> {
        let here = RolePath::of(self.datastore, directory);
        // Children on whom nobody has a role of their own all have the same roles.
        let same = Shown::by(&*self.roles_below(&here)?, self.visible);
        let some_differ = self.view.is_assigned_below(here.as_str())?;
        let mut lately = Lately([(0, Sight::Hidden); LATELY]);
        let mut seen = Vec::with_capacity(children.len());
        let bytes_max = directory.entry_bytes_max();
        let acls = self.memo.acls_of(children.iter().map(|(_, subject)| *subject));
        for ((name, subject), acl) in children.iter().zip(acls) {
            // What cannot be asked for is not there.
            if name.len() > bytes_max || check_entry_name(name).is_err() {
                seen.push(Sight::Hidden);
                continue;
            }
            let own = if some_differ { self.shown_alone(directory, name)? } else { None };
            seen.push(self.sight(own.as_ref().unwrap_or(&same), directory, subject, acl, &mut lately)?);
        }
        Ok(seen)
    }

    /// What roles say of one child, where somebody has one on it alone.
    fn shown_alone(&self, directory: &StorePath, name: &str) -> Result<Option<Shown>, Refusal> {
        let Ok(path) = directory.join(name) else { return Ok(None) };
        let child = RolePath::of(self.datastore, &path);
        match self.view.is_assigned(child.as_str())? {
            true => Ok(Some(Shown::by(&*self.roles(&child)?, self.visible))),
            false => Ok(None),
        }
    }

    fn sight(
        &self,
        shown: &Shown,
        directory: &StorePath,
        subject: &Subject,
        known: Option<AclId>,
        lately: &mut Lately,
    ) -> Result<Sight, Refusal> {
        // Without a role that shows it the ACL need not be looked at, and with some it does not count.
        if !shown.kind(subject.kind) {
            return Ok(Sight::Hidden);
        }
        if shown.skips_acl {
            return Ok(Sight::Seen);
        }
        let of = |granted: AccessMask| match granted.covers(self.visible) {
            true => Sight::Seen,
            false => Sight::Hidden,
        };
        if subject.acl == StoredAcl::Unread {
            return Ok(match known {
                None => Sight::Unread,
                Some(AclId::NONE) => of(mode::granted(subject, self.principal)),
                Some(id) => {
                    lately.sight(id, subject.kind, || self.granted_by_acl(id).map_or(Sight::Unread, of))
                }
            });
        }
        self.memo.remember_acl(subject);
        match self.acl(directory, subject) {
            Ok(granted) => Ok(of(granted)),
            Err(Refusal::AclDamaged { .. }) => Ok(Sight::Hidden),
            Err(other) => Err(other),
        }
    }
}
