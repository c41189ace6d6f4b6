//! The administrators: the users with the role Admin on `/`, and whether they can log in.

mod cloud;

pub use cloud::{cloud_administrators, takes_last_cloud_administrator};

use crate::access::{members_without, name_of_user};
use crate::error::Error;
use crate::keystone::{On, held_key};
use crate::resolve::{Target, domain_id, group_id, user_id, who};
use enfilade_facts::tables::{Assignment, AssignmentKey, Domain, GrantKey, Group, Member, User, Who};
use enfilade_facts::vocabulary::{
    CredentialId, DomainId, GroupId, GroupName, Realm, Role, Ugid, UserId, Userid,
};
use enfilade_facts::{Clocks, MirrorHealth, Read, Source, View};
use enfilade_identity::Refusal;
use std::collections::BTreeSet;

/// The usual administrators, in the order in which they are listed.
const USUAL_ADMINISTRATORS: [&str; 3] = ["admin@local", "root@pam", "admin@Default"];

/// A user with the role Admin on `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Administrator {
    /// The name of the user.
    pub name: Userid,
    /// Why the user cannot log in with all its roles. `None` if it can.
    pub refused: Option<Refusal>,
}

impl Administrator {
    /// Whether the user can log in with all its roles, with its password or an API token.
    pub fn can_log_in(&self) -> bool {
        self.refused.is_none()
    }
}

/// Every user who has the role Admin on `/`, directly or as a member of a group, and is enabled and not expired. The usual administrators come first.
///
/// # Errors
/// When the facts cannot be read.
pub fn administrators(source: &dyn Source, now: i64) -> Result<Vec<Administrator>, Error> {
    source.read(|view| administrators_without(view, now, &Without::default()))?
}

/// A change that takes rights away from users.
#[derive(Clone, Copy, Debug)]
pub enum Loss<'a> {
    /// The user is removed or disabled.
    User(&'a Userid),
    /// The role Admin on `/` is taken away from a user, token or group.
    Admin(&'a Target),
    /// The group is removed.
    Group(&'a GroupName),
    /// Users or groups are removed from a group.
    Members(&'a GroupName, &'a [Target]),
    /// The domain is disabled.
    Domain(&'a Realm),
    /// The role on a project, a domain or the system is taken away from a user or group.
    Grant(&'a Target, &'a On, &'a str),
}

/// Whether a user who can log in has the role Admin on `/` now, and no such user would have it after the change. False for a change of records that do
/// not exist: the change itself reports them.
///
/// # Errors
/// When the facts cannot be read.
pub fn takes_last_administrator(source: &dyn Source, loss: &Loss<'_>, now: i64) -> Result<bool, Error> {
    takes_last(source, loss, |view, without| {
        Ok(administrators_without(view, now, without)?.iter().any(Administrator::can_log_in))
    })
}

/// Whether `has_one` finds somebody now, and would find nobody after the change.
fn takes_last(
    source: &dyn Source,
    loss: &Loss<'_>,
    has_one: impl Fn(&View<'_>, &Without) -> Result<bool, Error>,
) -> Result<bool, Error> {
    source.read(|view| {
        let without = match Without::after(view, loss) {
            Err(Error::Missing { .. }) => return Ok(false),
            without => without?,
        };
        Ok(has_one(view, &Without::default())? && !has_one(view, &without)?)
    })?
}

/// What a change would remove, and a search for administrators leaves out.
#[derive(Default)]
struct Without {
    user: Option<UserId>,
    group: Option<GroupId>,
    members: Vec<(GroupId, Member)>,
    /// The grantee whose roles on `/` do not count.
    grantee: Option<Who>,
    domain: Option<DomainId>,
    grant: Option<GrantKey>,
}

impl Without {
    fn after(view: &View<'_>, loss: &Loss<'_>) -> Result<Self, Error> {
        Ok(match loss {
            Loss::User(user) => Without { user: Some(user_id(view, user)?), ..Without::default() },
            Loss::Group(group) => Without { group: Some(group_id(view, group)?), ..Without::default() },
            Loss::Members(group, members) => {
                let group = group_id(view, group)?;
                let member = |target: &Target| match who(view, target)? {
                    Who::User(id) => Ok(Some((group, Member::User(id)))),
                    Who::Group(id) => Ok(Some((group, Member::Group(id)))),
                    Who::Token(_) | Who::Named(_) => Ok::<_, Error>(None),
                };
                let members = members.iter().filter_map(|target| member(target).transpose());
                Without { members: members.collect::<Result<_, _>>()?, ..Without::default() }
            }
            Loss::Admin(target) => {
                // As in `role remove`: roles in the facts first, then those in `acl.cfg`.
                let key = AssignmentKey { path: "/".parse()?, who: who(view, target)? };
                let grantee = match view.get::<Assignment>(&key)? {
                    Some(_) => Some(key.who),
                    None => target.ugid().map(Who::Named),
                };
                Without { grantee, ..Without::default() }
            }
            Loss::Domain(realm) => Without { domain: Some(domain_id(view, realm)?), ..Without::default() },
            Loss::Grant(who, on, role) => {
                Without { grant: Some(held_key(view, who, on, role)?), ..Without::default() }
            }
        })
    }

    /// Whether the members of the group have the roles of the group: not if its domain is disabled.
    fn gives_roles(&self, view: &View<'_>, group: &GroupId) -> Result<bool, Error> {
        let Some(group) = view.get::<Group>(group)? else { return Ok(false) };
        let is_on = view.get::<Domain>(&group.domain)?.is_some_and(|domain| domain.enabled);
        Ok(is_on && self.domain != Some(group.domain))
    }

    /// Whether the change removes this membership.
    fn has_member(&self, group: GroupId, member: Member) -> bool {
        self.group.is_some_and(|gone| gone == group || member == Member::Group(gone))
            || self.members.contains(&(group, member))
    }
}

fn administrators_without(view: &View<'_>, now: i64, without: &Without) -> Result<Vec<Administrator>, Error> {
    // If no user has the name, the result is `None`.
    let named = |user: &Userid| match user_id(view, user) {
        Ok(id) => Ok(Some(id)),
        Err(Error::Missing { .. }) => Ok(None),
        Err(why) => Err(why),
    };
    let (mut users, mut groups): (BTreeSet<UserId>, Vec<GroupId>) = (BTreeSet::new(), Vec::new());
    users.extend(named(&Userid::root_pam())?);
    for (key, row) in view.list::<Assignment>(&AssignmentKey::node_prefix("/"))? {
        let is_admin = row.roles.iter().any(|(role, _)| *role == Role::Admin);
        if !is_admin || without.grantee.as_ref() == Some(&key.who) {
            continue;
        }
        match key.who {
            Who::User(id) => drop(users.insert(id)),
            Who::Named(Ugid::Authid(authid)) if authid.token.is_none() => {
                users.extend(named(&authid.user)?);
            }
            Who::Group(id) => groups.push(id),
            Who::Named(Ugid::Group(group)) => groups.extend(group_id(view, &group).ok()),
            Who::Token(_) | Who::Named(_) => {}
        }
    }
    let mut found = holders(view, now, without, users, groups)?;
    let usual = |name: &Userid| USUAL_ADMINISTRATORS.iter().position(|usual| *usual == name.to_string());
    found.sort_by_key(|found| (usual(&found.name).unwrap_or(usize::MAX), found.name.clone()));
    Ok(found)
}

/// The users and the members of the groups who are enabled and not expired after a change.
fn holders(
    view: &View<'_>,
    now: i64,
    without: &Without,
    mut users: BTreeSet<UserId>,
    groups: impl IntoIterator<Item = GroupId>,
) -> Result<Vec<Administrator>, Error> {
    for group in groups {
        if without.gives_roles(view, &group)? {
            users.extend(members_without(view, group, |group, member| without.has_member(group, member))?);
        }
    }
    let mut found = Vec::new();
    for id in users.into_iter().filter(|id| without.user != Some(*id)) {
        let Some(user) = view.get::<User>(&id)? else { continue };
        if is_live(user.enabled, user.expires, now)
            && without.domain != Some(user.domain)
            && let Some(name) = name_of_user(view, &id)?
        {
            found.push(Administrator { name, refused: refused(view, &id, None, now)? });
        }
    }
    Ok(found)
}

fn is_live(enabled: bool, expires: i64, now: i64) -> bool {
    enabled && (expires == 0 || now < expires)
}

/// Why nobody can log in as the user with all its roles; or, if `token` is given, with this API token of the user. `None` if it is possible.
pub(crate) fn refused(
    view: &View<'_>,
    user: &UserId,
    token: Option<CredentialId>,
    now: i64,
) -> Result<Option<Refusal>, Error> {
    // `enfilade doctor` reports files that are stale, so here only the wall clock counts.
    let now = Clocks { unix_seconds: now, tick_millis: 0, mirror: MirrorHealth::Current };
    let checked = match token {
        None => enfilade_identity::check_login(view, now, *user),
        Some(_) => enfilade_identity::check_secret(view, now, *user, token),
    };
    match checked {
        Err(Refusal::Facts(why)) => Err(why.into()),
        checked => Ok(checked.err()),
    }
}

/// Why nobody can log in as the user, with its password or an API token that has all its roles. `None` if it is possible.
///
/// # Errors
/// When the user does not exist, or the facts cannot be read.
pub fn why_no_login(source: &dyn Source, user: &Userid, now: i64) -> Result<Option<Refusal>, Error> {
    source.read(|view| refused(view, &user_id(view, user)?, None, now))?
}

/// Whether a user who can log in has the role Admin on `/`.
///
/// # Errors
/// When the facts cannot be read.
pub fn has_administrator(source: &dyn Source, now: i64) -> Result<bool, Error> {
    Ok(administrators(source, now)?.iter().any(Administrator::can_log_in))
}
