//! The decision of door 4: granted = (rights that the roles on the path grant) ∩ (rights that the file's ACL grants). Roles that administer the
//! datastore skip the ACL. If the visitor may not see a target, the target looks absent, even if the visitor has other rights on the target.

use crate::acl_inheritance::Creator;
use crate::ask::{Ask, NodeKind, StoredAcl, Subject, Wanted};
use crate::evaluate;
use crate::memo::{AccessMemo, AclId, Question};
use crate::mode_bits;
use crate::permit::AccessPermit;
use crate::refuse::Refusal;
use crate::role_check::RoleCheck;
use crate::roles::{Resolved, is_admitted_below, is_unknown};
use crate::steps;
use crate::view::View;
use enfilade_datastore::DatastorePermit;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, ProjectId, RolePath, StorePath};
use enfilade_facts::{Clocks, Held, SourceError};
use enfilade_identity::{IdentityPermit, Principal};

/// Judges whether the visitor may do what the visitor wants with a target, at the revision of `view`.
///
/// # Errors
/// A [`Refusal`], which names the role or entry that decided.
pub fn open(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    ask: &Ask<'_>,
    memo: &AccessMemo,
) -> Result<AccessPermit, Refusal> {
    let principal = identity.principal();
    let granted = would(view, now, principal, (datastore.name(), datastore.access()), ask, memo)?;
    let creator = Creator { sid: principal.sid, uid: principal.uid };
    Ok(AccessPermit { object: ask.target.object, granted, creator, at: view.at() })
}

/// Decides like [`open`] whether a principal may act on a target, but needs no credential of the principal. Returns all rights that the principal has
/// on the target. The result is not a permit.
///
/// # Errors
/// As [`open`].
pub fn would(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    ask: &Ask<'_>,
    memo: &AccessMemo,
) -> Result<AccessMask, Refusal> {
    let visible = rules.visible;
    AccessCheck { view: View(view), now, principal, datastore, visible, memo }.decide(ask)
}

/// For a path that leads to no object, does the same work as for a hidden object. So a client cannot tell from the time of a refusal whether there is
/// an object at the path. `near` is any object that exists; the rights on `near` do not matter.
pub fn refuse_alike(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    (path, near): (&StorePath, &Subject),
    memo: &AccessMemo,
) {
    let visible = datastore.access().visible;
    let (principal, datastore) = (identity.principal(), datastore.name());
    let check = AccessCheck { view: View(view), now, principal, datastore, visible, memo };
    let ask = Ask { path, target: near, wanted: Wanted::On(AccessMask::NONE) };
    if check.granted(path, near).is_ok() {
        std::hint::black_box(check.refuse(&ask, AccessMask::NONE, AccessMask::NONE));
    }
}

/// Checks that the principal has at least one role in the datastore. If the principal has no role, the datastore looks absent in every request.
///
/// # Errors
/// [`Refusal::NoRole`] if the principal has no role, or [`Refusal::Facts`] if the stored facts cannot be read.
pub fn admits(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    datastore: &DatastoreName,
    memo: &AccessMemo,
) -> Result<(), Refusal> {
    let visible = AccessMask::VISIBLE;
    let check = AccessCheck { view: View(view), now, principal, datastore, visible, memo };
    match check.is_admitted()? {
        true => Ok(()),
        false => Err(Refusal::NoRole { datastore: datastore.to_string(), note: "" }),
    }
}

/// The project that a datastore is bound to. Sessions for this project have roles in the datastore.
///
/// # Errors
/// When the facts cannot be read.
pub fn bound_to(
    view: &enfilade_facts::View<'_>,
    datastore: &DatastoreName,
) -> Result<Option<ProjectId>, SourceError> {
    View(view).project_of(datastore)
}

/// Whether all role assignments on a path are known. While the content of `acl.cfg` is not known, its roles grant no rights. But the caller must not
/// treat these roles as removed.
///
/// # Errors
/// When the facts cannot be read.
pub fn knows_roles(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<bool, SourceError> {
    let view = View(view);
    let knows_acl_cfg = view.knows_acl_cfg(now)?;
    let mut knows = knows_acl_cfg || !view.keeps_acl_cfg()?;
    for node in RolePath::of(datastore, path).nodes() {
        view.assignments(node, |key, row| knows &= !is_unknown(&key, &row, knows_acl_cfg))?;
    }
    Ok(knows)
}

/// Checks the rights of one principal in one datastore, at one revision and time.
pub(crate) struct AccessCheck<'c> {
    pub(crate) view: View<'c>,
    pub(crate) now: Clocks,
    pub(crate) principal: &'c Principal,
    pub(crate) datastore: &'c DatastoreName,
    /// The rights that a principal must have on an object to see it.
    pub(crate) visible: AccessMask,
    pub(crate) memo: &'c AccessMemo,
}

impl AccessCheck<'_> {
    /// All rights that are granted on the target of `ask`. Refuses if a wanted right is not among them.
    pub(crate) fn decide(&self, ask: &Ask<'_>) -> Result<AccessMask, Refusal> {
        let granted = match self.granted(ask.path, ask.target) {
            Err(damaged @ Refusal::AclDamaged { .. }) => {
                // For a damaged target, the function does the same work as for a hidden target. So both refusals take the same time.
                std::hint::black_box(self.refuse(ask, AccessMask::NONE, AccessMask::NONE));
                return Err(damaged);
            }
            granted => granted?,
        };
        let wanted = match ask.wanted {
            Wanted::On(mask) => mask,
            Wanted::Delete { .. } => AccessMask::DELETE,
            Wanted::Create(NodeKind::File) => AccessMask::ADD_FILE,
            Wanted::Create(NodeKind::Directory) => AccessMask::ADD_SUBDIRECTORY,
            Wanted::Overwrite => AccessMask::WRITE_DATA,
            Wanted::Passing => AccessMask::TRAVERSE,
        };
        let visible = granted.covers(self.visible);
        // A visitor who may not see a directory can have the right to add entries to the directory or to traverse the directory. So a directory can
        // be a drop box.
        let in_sight = visible || matches!(ask.wanted, Wanted::Create(_) | Wanted::Passing);
        if in_sight && granted.covers(wanted) {
            return Ok(granted);
        }
        if let (true, Wanted::Delete { parent }) = (visible, ask.wanted)
            && self.directory_lets_delete(ask, parent)?
        {
            return Ok(granted | AccessMask::DELETE);
        }
        Err(self.refuse(ask, granted, wanted))
    }

    /// Whether the roles and the ACL of the directory grant DELETE_CHILD, so that the ACL of the target need not grant DELETE (RFC 8881 §6.2.1.3.2).
    /// The roles on the target's own path still have to grant DELETE. If the directory has no ACL and its mode has the sticky bit, the principal also
    /// has to own the target or the directory (POSIX.1-2024, `unlink` and `rename`), unless the roles on the directory skip ACLs.
    pub(crate) fn directory_lets_delete(&self, ask: &Ask<'_>, parent: &Subject) -> Result<bool, Refusal> {
        let Some((directory, _)) = ask.path.split() else { return Ok(false) };
        let roles = self.roles(&RolePath::of(self.datastore, ask.path))?;
        if !roles.rights(ask.target.kind).covers(AccessMask::DELETE) {
            return Ok(false);
        }
        let of_directory = self.roles(&RolePath::of(self.datastore, &directory))?;
        if !of_directory.skips_acl() && mode_bits::sticky_keeps(parent, ask.target, self.principal) {
            return Ok(false);
        }
        match self.granted_by(&of_directory, &directory, parent) {
            Ok(granted) => Ok(granted.covers(AccessMask::DELETE_CHILD)),
            Err(Refusal::AclDamaged { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn refuse(&self, ask: &Ask<'_>, granted: AccessMask, wanted: AccessMask) -> Refusal {
        let path = ask.path.clone();
        let visible = granted.covers(self.visible);
        let missing = if visible { wanted } else { self.visible } & !granted;
        let decided_by = match self.roles(&RolePath::of(self.datastore, ask.path)) {
            Ok(roles) => {
                steps::decided_by(&steps::walk(&self.view, self.principal, &roles, ask.target), missing)
            }
            Err(refusal) => return refusal,
        };
        match (visible, ask.wanted) {
            (true, Wanted::Delete { .. }) => {
                let decided_by = format!(
                    "{decided_by}; the parent directory does not permit the deletion either: the user does not have delete-child on the parent directory, or the sticky bit of the parent directory forbids the deletion, or the roles on the file or directory do not grant delete"
                );
                Refusal::NotGranted { path, missing, decided_by }
            }
            (true, _) => Refusal::NotGranted { path, missing, decided_by },
            (false, Wanted::Overwrite) => Refusal::CreateOntoHidden { path, decided_by },
            (false, _) => Refusal::Hidden { path, decided_by },
        }
    }

    /// Everything granted on a target.
    pub(crate) fn granted(&self, path: &StorePath, target: &Subject) -> Result<AccessMask, Refusal> {
        let roles = self.roles(&RolePath::of(self.datastore, path))?;
        self.granted_by(&roles, path, target)
    }

    /// All rights on a target that a principal with these roles has.
    pub(crate) fn granted_by(
        &self,
        roles: &Resolved,
        path: &StorePath,
        target: &Subject,
    ) -> Result<AccessMask, Refusal> {
        let rights = roles.rights(target.kind);
        if roles.skips_acl() || rights.is_empty() {
            return Ok(rights);
        }
        Ok(rights & self.acl(path, target)?)
    }

    /// The roles that apply on a path.
    pub(crate) fn roles(&self, path: &RolePath) -> Result<Held<Resolved>, Refusal> {
        self.role_check().roles(path)
    }

    /// The roles that apply on a node, or on paths below the node.
    pub(crate) fn remember(&self, question: Question, node: &str) -> Result<Held<Resolved>, Refusal> {
        self.role_check().remember(question, node)
    }

    /// Returns the check that judges only the principal's roles.
    pub(crate) fn role_check(&self) -> RoleCheck<'_> {
        RoleCheck { view: View(self.view.0), now: self.now, principal: self.principal, memo: self.memo }
    }

    /// Whether the principal has a role on the datastore or anywhere in it.
    pub(crate) fn is_admitted(&self) -> Result<bool, Refusal> {
        let root = RolePath::of(self.datastore, &StorePath::root());
        let root = root.as_str();
        let key = self.memo.admitted_key((self.view.at(), self.now), self.principal, root);
        if let Some(admitted) = self.memo.admitted.get(key) {
            return Ok(admitted);
        }
        let admitted = self.remember(Question::On, root)?.lets_in()
            || self.remember(Question::Below, root)?.lets_in()
            || is_admitted_below(&self.view, self.now, self.principal, root)?;
        self.memo.admitted.put(key, admitted);
        Ok(admitted)
    }

    /// All rights that the target's own ACL grants. If the target has no ACL, all rights that its mode bits grant.
    pub(crate) fn acl(&self, path: &StorePath, target: &Subject) -> Result<AccessMask, Refusal> {
        self.acl_of(path, target, self.memo.id_of(target))
    }

    /// Like `acl`, but the caller passes the id of the ACL, if the id is known.
    pub(crate) fn acl_of(
        &self,
        path: &StorePath,
        target: &Subject,
        id: Option<AclId>,
    ) -> Result<AccessMask, Refusal> {
        let damaged = |why: String| Refusal::AclDamaged { path: path.clone(), why };
        if target.acl == StoredAcl::Absent {
            return Ok(mode_bits::granted(target, self.principal));
        }
        if let Some(granted) = id.and_then(|id| self.granted_by_acl(id)) {
            return Ok(granted);
        }
        let descriptor = target.descriptor().map_err(|why| damaged(why.to_string()))?;
        let (Some(id), Some(descriptor)) = (id, descriptor) else { return Ok(AccessMask::NONE) };
        let descriptor = self.memo.put_acl(id, descriptor);
        let granted = evaluate::granted(&descriptor, self.principal);
        Ok(self.memo.granted(id, self.principal, || Some(granted)).unwrap_or(granted))
    }

    /// Everything that the ACL with this id grants; `None` if the memo contains neither the result nor the ACL.
    pub(crate) fn granted_by_acl(&self, id: AclId) -> Option<AccessMask> {
        let evaluate = || self.memo.acl(id).map(|acl| evaluate::granted(&acl, self.principal));
        self.memo.granted(id, self.principal, evaluate)
    }
}
