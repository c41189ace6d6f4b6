//! The decision in words: for `explain`, for reviews, and for the reason in the log line of a refusal.

use crate::ask::{Ask, NodeKind, Subject, Wanted};
use crate::memo::AccessMemo;
use crate::open::AccessCheck;
use crate::refuse::Refusal;
use crate::roles::{self, GivenRoles};
use crate::steps::{Step, walk};
use crate::view::View;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Authid, DatastoreName, RolePath, Sid, StorePath};
use enfilade_facts::{Clocks, SourceError};
use enfilade_identity::Principal;

/// The whole judgement on one target, for `explain` and reviews. The judgement is not a permit.
///
/// # Errors
/// When the ACL is damaged or the facts cannot be read.
pub fn judge(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    path: &StorePath,
    target: &Subject,
    memo: &AccessMemo,
) -> Result<Judgement, Refusal> {
    let visible = rules.visible;
    let check = AccessCheck { view: View(view), now, principal, datastore, visible, memo };
    let roles = check.roles(&RolePath::of(datastore, path))?;
    let (rights, skips_acl) = (roles.rights(target.kind), roles.skips_acl());
    let acl = match skips_acl {
        true => AccessMask::ALL,
        // If no role grants anything, a damaged ACL does not change the result.
        false if rights.is_empty() => check.acl(path, target).unwrap_or(AccessMask::NONE),
        false => check.acl(path, target)?,
    };
    Ok(Judgement {
        roles: roles.given(&check.view, principal),
        rights,
        skips_acl,
        acl,
        granted: rights & acl,
        walk: walk(&check.view, principal, &roles, target),
    })
}

/// Every right that a request would be granted on a target, for reviews of many targets. The mask contains a right if and only if
/// [`would`](fn@crate::would) grants a request for only this right. Exception: a principal that may not traverse a directory (if the datastore checks
/// this), or that has no uid (in the nfs4 dialect), cannot add entries to the directory. So the mask does not contain the rights to add entries.
/// `parent` is the directory of the target. If `parent` is `None`, DELETE_CHILD on the directory does not count. This function does not check whether
/// the directories above the target can be traversed. The mask is not a permit.
///
/// # Errors
/// As for [`judge`].
pub fn rights(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    (path, target, parent): (&StorePath, &Subject, Option<&Subject>),
    memo: &AccessMemo,
) -> Result<AccessMask, Refusal> {
    let visible = rules.visible;
    let check = AccessCheck { view: View(view), now, principal, datastore, visible, memo };
    let mut granted = check.granted(path, target)?;
    let making = AccessMask::ADD_FILE | AccessMask::ADD_SUBDIRECTORY;
    let is_kept_out = rules.checks_traverse && !granted.covers(AccessMask::TRAVERSE);
    let has_no_number = rules.acls == AclDialect::Nfs4 && principal.uid.is_none();
    if target.kind == NodeKind::Directory && (is_kept_out || has_no_number) {
        granted = granted & !making;
    }
    if !granted.covers(visible) {
        // A principal that may not see a directory can still have the rights to add entries to the directory and to traverse the directory.
        return Ok(if target.kind == NodeKind::Directory {
            granted & (making | AccessMask::TRAVERSE)
        } else {
            AccessMask::NONE
        });
    }
    if let Some(parent) = parent.filter(|_| !granted.covers(AccessMask::DELETE)) {
        let ask = Ask { path, target, wanted: Wanted::Delete { parent } };
        if check.directory_lets_delete(&ask, parent)? {
            return Ok(granted | AccessMask::DELETE);
        }
    }
    Ok(granted)
}

/// The names to which NoAccess is assigned on exactly this path: the name of the principal's user, of the principal's token, or both. Other roles on
/// this path give no rights to such a user or token.
///
/// # Errors
/// When the facts cannot be read.
pub fn barred(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<Vec<Authid>, SourceError> {
    roles::barred(&View(view), now, principal, RolePath::of(datastore, path).as_str())
}

/// The names that a principal knows for the SIDs in an ACL: the name of the principal's user, and the names of the principal's groups.
///
/// # Errors
/// When the facts cannot be read.
pub fn known_names(
    view: &enfilade_facts::View<'_>,
    principal: &Principal,
) -> Result<Vec<(Sid, String)>, SourceError> {
    let view = View(view);
    let mut names = vec![(principal.sid, principal.authid.user.to_string())];
    for id in &principal.groups {
        names.extend(view.group(id)?.map(|group| (group.sid, view.group_name(id))));
    }
    Ok(names)
}

/// The rights that are granted on a target, and the reasons.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The roles that decided, their grantees, and the path on which they are assigned.
    pub roles: GivenRoles,
    /// The rights that the roles grant.
    pub rights: AccessMask,
    /// Whether the roles skip the ACL.
    pub skips_acl: bool,
    /// The rights that the ACL grants; all rights if the ACL is skipped.
    pub acl: AccessMask,
    /// The rights that both the roles and the ACL grant.
    pub granted: AccessMask,
    /// The roles and entries in the order in which they were checked.
    pub walk: Vec<Step>,
}
