//! The users and groups that a manager of a domain may change. The manager must be allowed to grant every right of such a user or group. The reason:
//! a manager can set the password of a user, or put a user into a group, and can then use the rights of that user or group. Keystone's default policy
//! does not check the rights of the user or group.

use crate::view::View;
use enfilade_facts::tables::{GrantScope, Member, NamedRole};
use enfilade_facts::vocabulary::{DomainId, GroupId, GroupName, Realm, Ugid, UserId, Userid};
use enfilade_facts::{Clocks, SourceError};
use std::collections::BTreeSet;

/// A user or group that a call creates, changes or removes.
#[derive(Clone, Copy, Debug)]
pub enum Party<'a> {
    /// A user.
    User(&'a UserId),
    /// A group.
    Group(&'a GroupId),
    /// A user who will get this name. `acl.cfg` assigns roles to names, even to names that no user has yet.
    UserNamed(&'a str),
    /// A group that will get this name.
    GroupNamed(&'a str),
}

/// The roles that a manager of a domain may give on the domain and on its projects (Keystone's `domain_managed_target_role`).
const GIVEN: [&str; 3] = ["manager", "member", "reader"];

/// Whether a manager of a domain may give this role on the domain and on its projects.
pub fn manager_gives(role: &NamedRole) -> bool {
    role.domain.is_none() && GIVEN.contains(&role.name.as_str())
}

/// Describes a right of the user or group that a manager of the domain may not grant. `None` if the manager may grant all rights of the user or
/// group.
///
/// # Errors
/// When the facts cannot be read.
pub(crate) fn beyond(
    view: &View<'_>,
    now: Clocks,
    domain: &DomainId,
    party: Party<'_>,
) -> Result<Option<String>, SourceError> {
    let first = match party {
        Party::UserNamed(name) => return in_acl_cfg(view, now, domain, Named::User(name)),
        Party::GroupNamed(name) => return in_acl_cfg(view, now, domain, Named::Group(name)),
        Party::User(user) => Member::User(*user),
        Party::Group(group) => Member::Group(*group),
    };
    let (mut seen, mut edge) = (BTreeSet::from([first]), vec![first]);
    while let Some(member) = edge.pop() {
        if let Some(found) = held(view, now, domain, &member)? {
            return Ok(Some(found));
        }
        edge.extend(
            view.groups_with(&member)?.into_iter().map(Member::Group).filter(|group| seen.insert(*group)),
        );
    }
    Ok(None)
}

/// Like `beyond`, but does not check the rights of the groups that contain the user or group.
fn held(
    view: &View<'_>,
    now: Clocks,
    domain: &DomainId,
    member: &Member,
) -> Result<Option<String>, SourceError> {
    let row = match member {
        Member::User(user) => view.user(user)?.map(|row| (row.domain, row.name)),
        Member::Group(group) => view.group(group)?.map(|row| (row.domain, row.name)),
    };
    let Some((of, name)) = row else { return Ok(None) };
    if of != *domain {
        return Ok(Some("membership in a group of another domain".to_owned()));
    }
    for (scope, role) in view.grants_of(member)? {
        // A role or project that was removed gives no rights.
        let Some(row) = view.role(&role)? else { continue };
        let on = match scope {
            GrantScope::System => None,
            GrantScope::Domain(id) | GrantScope::BelowDomain(id) => Some(id),
            GrantScope::Project(id) | GrantScope::BelowProject(id) => match view.domain_of_project(&id)? {
                Some(domain) => Some(domain),
                None => continue,
            },
        };
        if on != Some(*domain) {
            return Ok(Some(format!(
                "role {} on the system, on another domain or on a project of another domain",
                row.name
            )));
        }
        if !manager_gives(&row) {
            return Ok(Some(format!("role {}", row.name)));
        }
    }
    if let Some(path) = view.first_path_of(member)? {
        return Ok(Some(format!("a role on {path}")));
    }
    if let Member::User(user) = member
        && let Some(found) = lent(view, now, domain, user)?
    {
        return Ok(Some(found));
    }
    let named = match member {
        Member::User(_) => Named::User(&name),
        Member::Group(_) => Named::Group(&name),
    };
    in_acl_cfg(view, now, domain, named)
}

/// Describes a trust that lends the user rights which a manager of the domain may not give. In a session for a trust, services treat the user as the
/// trustor, and the trustor can belong to another domain.
fn lent(
    view: &View<'_>,
    now: Clocks,
    domain: &DomainId,
    user: &UserId,
) -> Result<Option<String>, SourceError> {
    for (id, trust) in view.trusts_for(user)? {
        if trust.expires != 0 && trust.expires <= now.unix_seconds {
            continue;
        }
        let trustor = view.user(&trust.trustor)?.map(|row| row.domain);
        let is_inside = view.domain_of_project(&trust.project)? == Some(*domain) && trustor == Some(*domain);
        let mut may_all_be_given = true;
        for role in &trust.roles {
            may_all_be_given &= view.role(role)?.is_none_or(|row| manager_gives(&row));
        }
        if !is_inside || !may_all_be_given {
            return Ok(Some(format!("trust {id}")));
        }
    }
    Ok(None)
}

/// A name in a domain.
enum Named<'a> {
    User(&'a str),
    Group(&'a str),
}

/// Describes a role that `acl.cfg` assigns to a name. While the content of the file is not known, every name that `acl.cfg` can contain counts as
/// having a role.
fn in_acl_cfg(
    view: &View<'_>,
    now: Clocks,
    domain: &DomainId,
    named: Named<'_>,
) -> Result<Option<String>, SourceError> {
    if !view.keeps_acl_cfg()? {
        return Ok(None);
    }
    let Some(realm) = view.domain(domain)?.map(|row| row.name) else { return Ok(None) };
    let ugid = match named {
        Named::User(name) => Userid::new(name, realm).map(|userid| Ugid::Authid(userid.into())),
        Named::Group(name) if realm == Realm::local() => GroupName::new(name, realm).map(Ugid::Group),
        // The file `acl.cfg` can contain only groups of the local realm.
        Named::Group(_) => return Ok(None),
    };
    // `acl.cfg` cannot assign a role to a name that is not valid in `acl.cfg`.
    let Ok(ugid): Result<Ugid, _> = ugid else { return Ok(None) };
    if !view.knows_acl_cfg(now)? {
        return Ok(Some("perhaps roles in acl.cfg, which cannot be read now".to_owned()));
    }
    Ok(view.path_given_to(&ugid)?.map(|path| format!("a role on {path} in acl.cfg")))
}
