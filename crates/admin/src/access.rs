//! Lists the roles of a user, and the user's ways in: the password, API tokens, links, application credentials, EC2 keys, trusts, OAuth access
//! tokens. The list also contains ways in that door 2 refuses, such as an expired token. [`Way::check`] asks door 2 whether a way in works.

use crate::change_context::random;
use crate::error::Error;
use crate::keystone::{grantees_of, name_of_scope, userid_of};
use crate::resolve::{dangling, domain_id, group_id, user_id};
use enfilade_facts::tables::{
    AccessToken, Assignment, Blob, BlobId, Credential, Delegation, Domain, Grant, GrantKey, GrantScope,
    Grantee, Group, Link, LinkPlace, LinkRights, Member, Membership, Name, NameKey, NameKind, NamedRole,
    Reverse, ReverseKey, Trust, User, Verifier, Who,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, Authid, CredentialId, DomainId, GroupId, GroupName, ProjectId, Realm, Role, RoleId,
    TrustId, Ugid, UserId, Userid, word_of_id,
};
use enfilade_facts::{Clocks, View};
use enfilade_identity::{Context, Opener, Refusal};
use std::collections::BTreeSet;

/// The kind of a [`Way`]: the kind of credential or delegation that the client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WayKind {
    /// The user's password.
    Password,
    /// An API token with a secret.
    ApiToken,
    /// An API token with a client certificate.
    ClientCertificate,
    /// An API token for one project.
    ApplicationCredential,
    /// A key with which the user signs requests to other services.
    Ec2Key,
    /// A trust by which another user lends roles to this user. To use the trust, the user needs a session that was not issued for a lent credential.
    TrustFromAnother,
    /// A trust by which this user lends roles to another user.
    TrustToAnother,
    /// An access token with which an OAuth consumer acts for the user.
    OAuthAccessToken,
    /// A link with which the user shares a file or folder.
    Link,
}

/// The stored record of a [`Way`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WayRecord {
    Password,
    Token(CredentialId, Authid),
    Key(BlobId),
    Trust(TrustId),
    AccessToken(AccessTokenId),
}

/// A way in: anything with which a user, or another person or program that acts for the user, can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The kind of the way in.
    pub kind: WayKind,
    /// The id of the user.
    pub user: UserId,
    /// The name of the way in, as commands show it.
    pub name: String,
    /// The rights that the way in gives, in words.
    pub gives: String,
    /// When the way in expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    pub(crate) record: WayRecord,
}

impl Way {
    /// Checks that the way in works: that the server would accept a client that has the right secret.
    ///
    /// # Errors
    /// The refusal that a client with the right secret would get.
    pub fn check(&self, view: &View<'_>, now: Clocks, context: &Context<'_>) -> Result<(), Refusal> {
        let opens = |opener| {
            let own = random().map_err(|_| Refusal::Busy)?;
            enfilade_identity::check_opener(view, now, opener, own, context)
        };
        match &self.record {
            WayRecord::Password => enfilade_identity::check_secret(view, now, self.user, None),
            WayRecord::Token(id, _) => {
                enfilade_identity::check_secret(view, now, self.user, Some(*id))?;
                match self.kind {
                    WayKind::ApplicationCredential => opens(Opener::Credential(*id)),
                    _ => Ok(()),
                }
            }
            WayRecord::Key(id) => opens(Opener::Key(*id)),
            WayRecord::Trust(id) => opens(Opener::Trust(*id)),
            WayRecord::AccessToken(id) => opens(Opener::AccessToken(*id)),
        }
    }
}

/// Every way in that a user has, sorted by kind and name.
///
/// # Errors
/// When the facts cannot be read.
pub fn ways_of(view: &View<'_>, user: &UserId) -> Result<Vec<Way>, Error> {
    let mut ways = Vec::new();
    let password = view.get::<User>(user)?.and_then(|row| row.password);
    ways.extend(password.map(|password| Way {
        kind: WayKind::Password,
        user: *user,
        name: "password".to_owned(),
        gives: "all roles of the user".to_owned(),
        expires: password.until,
        record: WayRecord::Password,
    }));
    for (_, name) in view.list::<Name>(&NameKey::tokens_of(user))? {
        ways.extend(by_credential(view, &name.credential())?);
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::blobs_of(user))? {
        if let ReverseKey::Blob(_, id) = key
            && let Some(row) = view.get::<Blob>(&id)?
        {
            ways.extend(by_key(view, &id, &row)?);
        }
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::trusts_of(user))? {
        if let ReverseKey::Trusts(_, id) = key {
            ways.extend(by_trust(view, user, &id)?);
        }
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::access_of(user))? {
        if let ReverseKey::AccessOf(_, id) = key {
            ways.extend(by_access_token(view, &id)?);
        }
    }
    ways.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    Ok(ways)
}

/// Every application credential, EC2 key, trust and OAuth access token for a project.
///
/// # Errors
/// When the facts cannot be read.
pub fn ways_for(view: &View<'_>, project: &ProjectId) -> Result<Vec<Way>, Error> {
    let mut ways = Vec::new();
    for (key, _) in view.list::<Reverse>(&ReverseKey::credentials_for(project))? {
        if let ReverseKey::For(_, id) = key {
            ways.extend(by_credential(view, &id)?);
        }
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::trusts_for(project))? {
        if let ReverseKey::TrustFor(_, id) = key
            && let Some(trust) = view.get::<Trust>(&id)?
        {
            ways.extend(by_trust(view, &trust.trustee, &id)?);
        }
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::access_for(project))? {
        if let ReverseKey::AccessFor(_, id) = key {
            ways.extend(by_access_token(view, &id)?);
        }
    }
    // No index lists the EC2 keys of a project. So this code reads the records of all credentials that services store for users.
    for (id, row) in view.list::<Blob>(&[])?.into_iter().filter(|(_, row)| row.project == Some(*project)) {
        ways.extend(by_key(view, &id, &row)?);
    }
    Ok(ways)
}

fn by_credential(view: &View<'_>, id: &CredentialId) -> Result<Option<Way>, Error> {
    let Some(row) = view.get::<Credential>(id)? else { return Ok(None) };
    let Some(owner) = userid_of(view, &row.owner)? else { return Ok(None) };
    let authid = Authid { user: owner, token: Some(row.name) };
    let delegation = view.get::<Delegation>(id)?;
    let kind = match (&delegation, &row.verifier) {
        _ if row.link.is_some() => WayKind::Link,
        (Some(_), _) => WayKind::ApplicationCredential,
        (None, Verifier::Certificate(_)) => WayKind::ClientCertificate,
        (None, _) => WayKind::ApiToken,
    };
    let gives = match delegation {
        Some(delegation) => given_by(view, &row.owner, id, &delegation)?,
        None if row.link.is_some() => given_by_link(row.link.as_deref()),
        None if row.own_roles => "the token's own roles, limited by the roles of its owner".to_owned(),
        None => "all roles of its owner".to_owned(),
    };
    let (name, record) = (authid.to_string(), WayRecord::Token(*id, authid));
    Ok(Some(Way { kind, user: row.owner, name, gives, expires: row.expires, record }))
}

/// The text about the rights of a link.
fn given_by_link(link: Option<&Link>) -> String {
    let Some(Link { place: LinkPlace { datastore, path, rights, .. }, .. }) = link else {
        return String::new();
    };
    let does = match rights {
        LinkRights::Read => "reading",
        LinkRights::Drop => "uploads into",
    };
    format!("{does} {datastore}:{path}, limited by the rights of the user who made the link")
}

fn by_key(view: &View<'_>, id: &BlobId, row: &Blob) -> Result<Option<Way>, Error> {
    let (Some(key), Some(project)) = (&row.ec2, &row.project) else { return Ok(None) };
    let on = name_of_scope(view, &GrantScope::Project(*project))?;
    let gives = format!("the roles of its user on {on}{}", created_with(view, key.by)?);
    let (name, record) = (id.to_string(), WayRecord::Key(*id));
    Ok(Some(Way { kind: WayKind::Ec2Key, user: row.user, name, gives, expires: 0, record }))
}

fn by_trust(view: &View<'_>, user: &UserId, id: &TrustId) -> Result<Option<Way>, Error> {
    let Some(trust) = view.get::<Trust>(id)? else { return Ok(None) };
    let name =
        |id| Ok::<_, Error>(userid_of(view, id)?.map_or_else(|| id.to_string(), |name| name.to_string()));
    let (roles, made) = (roles_on(view, &trust.roles, &trust.project)?, created_with(view, trust.by)?);
    let (kind, gives) = match trust.trustee == *user {
        true => (WayKind::TrustFromAnother, format!("{roles}, delegated by {}{made}", name(&trust.trustor)?)),
        false => (WayKind::TrustToAnother, format!("{roles}, delegated to {}{made}", name(&trust.trustee)?)),
    };
    let (name, record) = (id.to_string(), WayRecord::Trust(*id));
    Ok(Some(Way { kind, user: *user, name, gives, expires: trust.expires, record }))
}

fn by_access_token(view: &View<'_>, id: &AccessTokenId) -> Result<Option<Way>, Error> {
    let Some(access) = view.get::<AccessToken>(id)? else { return Ok(None) };
    let roles = roles_on(view, &access.roles, &access.project)?;
    let (gives, name) = (format!("{roles}, delegated to OAuth consumer {}", access.consumer), id.to_string());
    let (kind, record) = (WayKind::OAuthAccessToken, WayRecord::AccessToken(*id));
    Ok(Some(Way { kind, user: access.user, name, gives, expires: access.expires, record }))
}

/// The text about the rights of an application credential. The text lists only roles that the owner still has. If the credential has access rules,
/// the text says that the credential gives no access to files. If door 2 refuses the owner, the text is only a list of all roles of the credential.
fn given_by(
    view: &View<'_>,
    owner: &UserId,
    id: &CredentialId,
    delegation: &Delegation,
) -> Result<String, Error> {
    let held = match enfilade_identity::roles_of(view, owner, &delegation.project, Some(id)) {
        Ok(held) => held,
        Err(Refusal::Facts(why)) => return Err(why.into()),
        // Door 2 refuses the owner, so the credential does not work at all.
        Err(_) => return roles_on(view, &delegation.roles, &delegation.project),
    };
    let has = |role: &RoleId| held.iter().any(|held| held.id == *role);
    let (kept, lost): (Vec<RoleId>, Vec<RoleId>) = delegation.roles.iter().copied().partition(has);
    // If the owner lost a role, the credential may still give roles that this role implies. So the text lists all roles that the credential gives.
    let kept = if lost.is_empty() { kept } else { held.iter().map(|held| held.id).collect() };
    let mut gives = match kept.is_empty() {
        true => format!("no role on {}", name_of_scope(view, &GrantScope::Project(delegation.project))?),
        false => roles_on(view, &kept, &delegation.project)?,
    };
    if !lost.is_empty() {
        let these = if lost.len() == 1 { "this role" } else { "these roles" };
        gives +=
            &format!("; without {}: the owner no longer has {these} on the project", names_of(view, &lost)?);
    }
    if !delegation.rules.is_empty() {
        gives += "; no access to files, because the credential has access rules";
    }
    if delegation.unrestricted && delegation.rules.is_empty() {
        gives += "; unrestricted: it can create credentials and trusts";
    }
    Ok(gives + &created_with(view, delegation.by)?)
}

/// The end of the text about a record: it says with which application credential the record was created. Empty if the user created the record in
/// person.
fn created_with(view: &View<'_>, by: Option<CredentialId>) -> Result<String, Error> {
    Ok(maker_of(view, by)?.map(|maker| format!("; created with {maker}")).unwrap_or_default())
}

/// The name of the application credential with which a record was created; `None` if the user created the record in person.
pub(crate) fn maker_of(view: &View<'_>, by: Option<CredentialId>) -> Result<Option<String>, Error> {
    let Some(by) = by else { return Ok(None) };
    let Some(row) = view.get::<Credential>(&by)? else { return Ok(Some(by.to_string())) };
    Ok(Some(match userid_of(view, &row.owner)? {
        Some(user) => Authid { user, token: Some(row.name) }.to_string(),
        None => format!("{}!{}", row.owner, word_of_id(row.name.as_str())),
    }))
}

/// The names of roles on a project, such as `member, reader on project work@Default`.
pub(crate) fn roles_on(view: &View<'_>, roles: &[RoleId], project: &ProjectId) -> Result<String, Error> {
    let on = name_of_scope(view, &GrantScope::Project(*project))?;
    Ok(format!("{} on {on}", names_of(view, roles)?))
}

fn names_of(view: &View<'_>, roles: &[RoleId]) -> Result<String, Error> {
    let mut names = Vec::new();
    for id in roles {
        names.push(view.get::<NamedRole>(id)?.map_or_else(|| id.to_string(), |role| role.name));
    }
    Ok(names.join(", "))
}

/// A role that a user has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldRole {
    /// Where the role is assigned: a path, `project NAME@DOMAIN`, `domain NAME` or `system`. The text ends with `, inherited` if projects inherit the
    /// role.
    pub on: String,
    /// The name of the role.
    pub role: String,
    /// The user or group to which the role is assigned.
    pub assigned_to: String,
}

/// A user, with all roles of the user and all the user's ways in.
#[derive(Clone, Debug)]
pub struct UserAccess {
    /// The id of the user.
    pub id: UserId,
    /// Whether the user is enabled.
    pub enabled: bool,
    /// Whether the domain of the user is enabled.
    pub domain_enabled: bool,
    /// When the user expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// All ways in, including ways in that do not work.
    pub ways: Vec<Way>,
    /// Every role that is assigned to the user, or to a group of which the user is a member, directly or through other groups.
    pub roles: Vec<HeldRole>,
    /// The groups of the user that give no roles now, because their domain is disabled.
    pub groups_off: Vec<GroupName>,
}

/// All roles that a user has, and all the user's ways in.
///
/// # Errors
/// When the user does not exist, or the facts cannot be read.
pub fn user_access(view: &View<'_>, user: &Userid) -> Result<UserAccess, Error> {
    let id = user_id(view, user)?;
    let row = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
    let domain = view.get::<Domain>(&row.domain)?.ok_or_else(|| dangling("domain", row.domain))?;
    let (ways, roles, groups_off) = (ways_of(view, &id)?, roles_of(view, &id)?, groups_off(view, &id)?);
    let (enabled, domain_enabled, expires) = (row.enabled, domain.enabled, row.expires);
    Ok(UserAccess { id, enabled, domain_enabled, expires, ways, roles, groups_off })
}

/// The groups of a user, direct and nested, that are in a disabled domain.
fn groups_off(view: &View<'_>, user: &UserId) -> Result<Vec<GroupName>, Error> {
    let (mut off, mut seen, mut edge) = (Vec::new(), BTreeSet::new(), vec![Member::User(*user)]);
    while let Some(member) = edge.pop() {
        for (key, _) in view.list::<Membership>(&member.prefix())? {
            let Some(group) = view.get::<Group>(&key.group)?.filter(|_| seen.insert(key.group)) else {
                continue;
            };
            let Some(domain) = view.get::<Domain>(&group.domain)? else { continue };
            if !domain.enabled {
                off.extend(GroupName::new(&group.name, domain.name).ok());
            }
            edge.push(Member::Group(key.group));
        }
    }
    off.sort();
    Ok(off)
}

fn roles_of(view: &View<'_>, user: &UserId) -> Result<Vec<HeldRole>, Error> {
    let mut grantees = Vec::new();
    for grantee in grantees_of(view, user)? {
        grantees.extend(ugid_of(view, &grantee)?.map(|ugid| (grantee, ugid)));
    }
    let mut held = Vec::new();
    for (grantee, ugid) in &grantees {
        for (key, _) in view.list::<Grant>(&GrantKey::of(grantee))? {
            let role = view.get::<NamedRole>(&key.role)?.map_or_else(|| key.role.to_string(), |row| row.name);
            held.push(HeldRole { on: name_of_scope(view, &key.scope)?, role, assigned_to: full_name(ugid) });
        }
    }
    for (key, assignment) in view.list::<Assignment>(&[])? {
        let is_theirs = |(grantee, ugid): &&(Grantee, Ugid)| match &key.who {
            Who::User(id) => *grantee == Grantee::User(*id),
            Who::Group(id) => *grantee == Grantee::Group(*id),
            Who::Token(_) => false,
            // `Who::Named` is the grantee in a line of `acl.cfg`.
            Who::Named(named) => named == ugid,
        };
        let Some((_, ugid)) = grantees.iter().find(is_theirs) else { continue };
        let role = |(role, _): (Role, bool)| HeldRole {
            on: key.path.to_string(),
            role: role.to_string(),
            assigned_to: full_name(ugid),
        };
        held.extend(assignment.roles.into_iter().map(role));
    }
    held.sort();
    Ok(held)
}

/// The name of a user or group with its realm.
fn full_name(ugid: &Ugid) -> String {
    match ugid {
        Ugid::Group(group) => format!("@{group}"),
        Ugid::Authid(authid) => authid.to_string(),
    }
}

/// The name of a user or group in the form in which role assignments name it; `None` if the user or group does not exist.
fn ugid_of(view: &View<'_>, grantee: &Grantee) -> Result<Option<Ugid>, Error> {
    let id = match grantee {
        Grantee::User(id) => return Ok(userid_of(view, id)?.map(|user| Ugid::Authid(user.into()))),
        Grantee::Group(id) => id,
    };
    let Some(group) = view.get::<Group>(id)? else { return Ok(None) };
    let Some(domain) = view.get::<Domain>(&group.domain)? else { return Ok(None) };
    Ok(GroupName::new(&group.name, domain.name).ok().map(Ugid::Group))
}

/// The name of a user, if the user exists.
///
/// # Errors
/// When the facts cannot be read.
pub fn name_of_user(view: &View<'_>, user: &UserId) -> Result<Option<Userid>, Error> {
    userid_of(view, user)
}

/// The users in a group, directly or through groups that are members of the group.
///
/// # Errors
/// When the group does not exist, or the facts cannot be read.
pub fn users_in_group(view: &View<'_>, group: &GroupName) -> Result<(GroupId, Vec<UserId>), Error> {
    let id = group_id(view, group)?;
    Ok((id, members(view, id)?))
}

/// Like [`users_in_group`], but the caller gives the id of the group instead of its name.
pub(crate) fn members(view: &View<'_>, id: GroupId) -> Result<Vec<UserId>, Error> {
    let (mut users, mut seen, mut edge) = (BTreeSet::new(), BTreeSet::from([id]), vec![id]);
    while let Some(group) = edge.pop() {
        for (key, _) in view.list::<Reverse>(&ReverseKey::members_of(&group))? {
            match key {
                ReverseKey::Member(_, Member::User(user)) => {
                    users.insert(user);
                }
                ReverseKey::Member(_, Member::Group(inner)) if seen.insert(inner) => {
                    edge.push(inner);
                }
                _ => {}
            }
        }
    }
    Ok(users.into_iter().collect())
}

/// The users and projects of a domain.
///
/// # Errors
/// When the domain does not exist, or the facts cannot be read.
pub fn contents_of_domain(
    view: &View<'_>,
    domain: &Realm,
) -> Result<(DomainId, Vec<UserId>, Vec<ProjectId>), Error> {
    let id = domain_id(view, domain)?;
    let all = |kind| view.list::<Name>(&NameKey::all_of(kind, &id));
    let users = all(NameKind::User)?.into_iter().map(|(_, name)| name.user()).collect();
    let projects = all(NameKind::Project)?.into_iter().map(|(_, name)| name.project()).collect();
    Ok((id, users, projects))
}
