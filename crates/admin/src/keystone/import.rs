//! Imports the records of a Keystone server once, with their ids. Existing records stay as they are.

mod federation;
mod for_services;
mod record;
mod spelled;
mod taken;
mod ways;

pub use self::record::{
    CloudCredential, CloudRecord, CloudRecordId, CloudUser, FederationRecord, ServiceRecord,
};
use self::spelled::{Spell, names_of, spelled};
pub use self::taken::taken_names;
use self::taken::{Plan, has_other};
use self::ways::Ways;
use super::extra::{IMMUTABLE, put_extra};
use super::names::{check_name, check_region_id, check_role_name};
use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::import::{Imported, no_sid_left};
use crate::resolve::dangling;
use enfilade_facts::limits::DOMAIN_NAME_CHARS_MAX;
use enfilade_facts::tables::{
    Blob, BlobId, Credential, Domain, Extra, ExtraKey, Grant, GrantKey, GrantScope, Grantee, Group, Member,
    Membership, MembershipKey, Name, NameKey, NamedRole, Password, Profile, Project, ResourceKind, Reverse,
    ReverseKey, Row, Service, SidSpace, SidSpaceKey, User, Verifier,
};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, GroupId, GroupName, ProjectId, Realm, RoleId, TokenName, UserId, Userid,
    to_rfc3339, word_of_id,
};
use enfilade_facts::{Change, Read, View};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// The number of records in one commit.
const AT_ONCE: usize = 200;

/// Imports the records in their order, and reports on each. With `pretend` nothing is changed.
///
/// # Errors
/// When the facts cannot be read or changed.
pub fn import_cloud(
    ctx: &ChangeContext<'_>,
    things: &[CloudRecord],
    pretend: bool,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Imported>, Error> {
    // If a record gets the id of a deleted record, the dependents of the deleted record must not become valid again. So they are deleted first.
    if !pretend {
        super::sweep_all(ctx)?;
    }
    let mut report = Vec::with_capacity(things.len());
    let domains = things.iter().filter_map(|thing| match thing {
        CloudRecord::Domain(id, row) => Some((*id, row.name.clone())),
        _ => None,
    });
    let domains: HashMap<DomainId, Realm> = domains.collect();
    let (names, ways, mut done) = (names_of(things, &domains), Ways::of(things), 0);
    let plan = &Plan::of(ctx.facts, things)?;
    // Later records refer to earlier records. So with `pretend`, all records are put into one change, and this change is not committed.
    let size = if pretend { things.len().max(1) } else { AT_ONCE };
    for some in things.chunks(size) {
        let build = |view: &View<'_>, change: &mut Change| {
            let (domains, names, ways) = (&domains, &names, &ways);
            let mut taking =
                Taking { view, change, domains, names, ways, plan, space: None, taken: HashSet::new() };
            let mut report = Vec::with_capacity(some.len());
            for thing in some {
                let imported = taking.one(thing)?;
                let password = password_with(thing, &imported, ctx.now.unix_seconds);
                report.push(imported);
                report.extend(password);
            }
            taking.keep_space()?;
            Ok(report)
        };
        report.extend(match pretend {
            false => ctx.commit("import keystone", build)?.0,
            true => {
                let mut change = Change::requested_by(ctx.requester, ctx.audit("import keystone"));
                ctx.facts.read(|view| build(view, &mut change))??
            }
        });
        done += some.len();
        progress(done);
    }
    Ok(report)
}

/// The result for the password that comes with a user.
fn password_with(thing: &CloudRecord, imported: &Imported, now: i64) -> Option<Imported> {
    let CloudRecord::User(_, user) = thing else { return None };
    let password = user.password.as_ref().filter(|_| imported.kind == "user")?;
    let left_out = imported.left_out.as_ref().map(|_| "the user was left out".to_owned());
    Some(Imported::of("password", imported.name.clone(), left_out).but(expiry(password, now)))
}

/// The difference to report for a password that has expired.
fn expiry(password: &Password, now: i64) -> Option<String> {
    (password.until != 0 && password.until <= now).then(|| {
        format!(
            "the password expired at {}: the user can only use it to set a new password",
            to_rfc3339(password.until)
        )
    })
}

/// The change for one commit, while it is built.
struct Taking<'a, 'v> {
    view: &'a View<'v>,
    change: &'a mut Change,
    /// The names of the domains in the source.
    domains: &'a HashMap<DomainId, Realm>,
    /// The names of records in the source, for the report.
    names: &'a HashMap<[u8; 16], String>,
    ways: &'a Ways,
    plan: &'a Plan,
    space: Option<(SidSpace, SidSpace)>,
    /// The keys of the records that this change creates.
    taken: HashSet<Vec<u8>>,
}

type Left = Result<(), String>;

impl Taking<'_, '_> {
    fn one(&mut self, thing: &CloudRecord) -> Result<Imported, Error> {
        let (kind, name, left) = match thing {
            CloudRecord::Domain(id, row) => {
                let left = self.named(
                    id,
                    row,
                    &NameKey::domain(&row.name),
                    Name::new(*id.bytes(), row.name.as_str()),
                )?;
                ("domain", row.name.to_string(), left)
            }
            CloudRecord::Role(id, row) => return self.role(id, row),
            CloudRecord::Project(id, row) => {
                let full = self.full(Spell::Project, &row.name, &row.domain)?;
                ("project", full, self.project(id, row)?)
            }
            CloudRecord::Immutable(id) => {
                let (name, left) = self.immutable(id)?;
                ("option `immutable` of", name, left)
            }
            CloudRecord::User(id, user) => {
                return self.user_or_password(id, user);
            }
            CloudRecord::Group(id, domain, name, comment) => {
                let full = self.full(Spell::Group, name, domain)?;
                ("group", full, self.group(id, domain, name, comment.as_deref())?)
            }
            CloudRecord::Member(key) => {
                let group = self.called(key.group.bytes(), &key.group);
                let member = match &key.member {
                    Member::User(id) => self.called(id.bytes(), id),
                    Member::Group(id) => self.called(id.bytes(), id),
                };
                ("member of group", format!("{group}: {member}"), self.member(key)?)
            }
            CloudRecord::Grant(key) => ("role assignment", self.grant_in_words(key), self.grant(key)?),
            CloudRecord::Region(id, row) => {
                let left = match check_region_id(&id.0) {
                    Ok(()) => self.add(id, row)?,
                    Err(why) => Err(why.to_string()),
                };
                ("region", id.0.clone(), left)
            }
            CloudRecord::Service(id, row) => {
                let left = match has_other(self.view, row, &self.plan.services)? {
                    false => self.add(id, row)?,
                    true => Err("another service in this store has this type and name".to_owned()),
                };
                ("service", format!("{} {}", row.kind, row.name), left)
            }
            CloudRecord::Endpoint(id, row) => {
                let left = match self.has::<Service>(&row.service)? {
                    true => self.add(id, row)?,
                    false => Err(format!("service {} does not exist in this store", row.service)),
                };
                ("endpoint", row.url.clone(), left)
            }
            CloudRecord::ForServices(record) => return self.for_services(record),
            CloudRecord::Federation(record) => return self.federation(record),
            CloudRecord::Credential(id, row) => {
                let left = self.credential(id, row)?;
                let owner = self.called(row.owner.bytes(), &row.owner);
                let name = match (owner.parse(), row.name.parse()) {
                    (Ok(user), Ok(name)) => Authid { user, token: Some(name) }.to_string(),
                    _ => format!("{owner}!{}", word_of_id(row.name.as_str())),
                };
                let differs =
                    Some("without the credential's secret, which Keystone does not return".to_owned());
                return Ok(Imported::of("application credential", name, left.err()).but(differs));
            }
            CloudRecord::Totp(id, row) => {
                ("credential of type totp", self.called(row.user.bytes(), &row.user), self.totp(id, row)?)
            }
        };
        Ok(Imported::of(kind, name, left.err()))
    }

    /// The name of a record of the source, or its id if it has no name.
    fn called(&self, bytes: &[u8; 16], id: &impl Display) -> String {
        self.names.get(bytes).cloned().unwrap_or_else(|| id.to_string())
    }

    /// A role assignment in words, such as `reader of ann@d1 on domain d1, inherited`.
    fn grant_in_words(&self, GrantKey { who, scope, role }: &GrantKey) -> String {
        let who = match who {
            Grantee::User(id) => self.called(id.bytes(), id),
            Grantee::Group(id) => format!("group {}", self.called(id.bytes(), id)),
        };
        let on = match scope {
            GrantScope::System => "the system".to_owned(),
            GrantScope::Project(id) => format!("project {}", self.called(id.bytes(), id)),
            GrantScope::BelowProject(id) => format!("project {}, inherited", self.called(id.bytes(), id)),
            GrantScope::Domain(id) => format!("domain {}", self.called(id.bytes(), id)),
            GrantScope::BelowDomain(id) => format!("domain {}, inherited", self.called(id.bytes(), id)),
        };
        format!("{} of {who} on {on}", self.called(role.bytes(), role))
    }

    /// Whether a record exists, or is created by this change.
    fn has<R: Row>(&self, key: &R::Key) -> Result<bool, Error> {
        Ok(self.taken.contains(&mark::<R>(key)) || self.view.get::<R>(key)?.is_some())
    }

    fn add<R: Row>(&mut self, key: &R::Key, row: &R) -> Result<Left, Error> {
        if self.has::<R>(key)? {
            return Ok(Err("the record already exists in this store".to_owned()));
        }
        self.taken.insert(mark::<R>(key));
        self.change.expect_absent::<R>(key).put(key, row);
        Ok(Ok(()))
    }

    fn named<R: Row>(&mut self, key: &R::Key, row: &R, by_name: &NameKey, name: Name) -> Result<Left, Error> {
        if self.has::<R>(key)? {
            return Ok(Err("the record already exists in this store".to_owned()));
        }
        if self.has::<Name>(by_name)? {
            return Ok(Err("another record in this store has this name".to_owned()));
        }
        match self.add(by_name, &name)? {
            Ok(()) => self.add(key, row),
            left => Ok(left),
        }
    }

    /// Imports a role. An implied role that is neither in this store nor imported is removed from it: a later role must not be implied by accident.
    fn role(&mut self, id: &RoleId, row: &NamedRole) -> Result<Imported, Error> {
        let (mut row, mut lost) = (row.clone(), Vec::new());
        for implied in std::mem::take(&mut row.implies) {
            match self.plan.roles.contains(&implied) || self.has::<NamedRole>(&implied)? {
                true => row.implies.push(implied),
                false => lost.push(self.called(implied.bytes(), &implied)),
            }
        }
        let left = match (check_role_name(&row.name), &row.domain) {
            (Err(why), _) => Err(why.to_string()),
            (_, Some(domain)) if !self.has::<Domain>(domain)? => {
                Err(format!("domain {} does not exist in this store", domain.to_keystone()))
            }
            _ => {
                let name = NameKey::role_of(row.domain.as_ref(), &row.name);
                self.named(id, &row, &name, Name::new(*id.bytes(), row.name.as_str()))?
            }
        };
        let differs = (!lost.is_empty())
            .then(|| format!("without implied roles that are not in this store: {}", lost.join(", ")));
        Ok(Imported::of("role", row.name, left.err()).but(differs))
    }

    fn project(&mut self, id: &ProjectId, row: &Project) -> Result<Left, Error> {
        if let Err(why) = check_name("project", &row.name, DOMAIN_NAME_CHARS_MAX) {
            return Ok(Err(why.to_string()));
        }
        if !self.has::<Domain>(&row.domain)? {
            return Ok(Err(format!("domain {} does not exist in this store", row.domain.to_keystone())));
        }
        if let Some(parent) = &row.parent
            && !self.has::<Project>(parent)?
        {
            return Ok(Err(format!("the parent project {parent} does not exist in this store")));
        }
        let left = self.named(
            id,
            row,
            &NameKey::project(&row.domain, &row.name),
            Name::new(*id.bytes(), row.name.as_str()),
        )?;
        if let (Ok(()), Some(parent)) = (&left, row.parent) {
            self.change.put(&ReverseKey::Child(parent, *id), &Reverse);
        }
        Ok(left)
    }

    fn immutable(&mut self, id: &CloudRecordId) -> Result<(String, Left), Error> {
        let (what, is_here, key) = match id {
            CloudRecordId::Domain(id) => {
                let key = ExtraKey::of(ResourceKind::Domain, id);
                (format!("domain {}", self.called(id.bytes(), id)), self.has::<Domain>(id)?, key)
            }
            CloudRecordId::Role(id) => {
                let key = ExtraKey::of(ResourceKind::Role, id);
                (format!("role {}", self.called(id.bytes(), id)), self.has::<NamedRole>(id)?, key)
            }
            CloudRecordId::Project(id) => {
                let key = ExtraKey::of(ResourceKind::Project, id);
                (format!("project {}", self.called(id.bytes(), id)), self.has::<Project>(id)?, key)
            }
        };
        let left = match is_here {
            true => self.add(&key, &Extra(IMMUTABLE.to_owned()))?,
            false => Err(format!("{what} does not exist in this store")),
        };
        Ok((what, left))
    }

    /// The name of the domain, if the domain exists or is created by this change.
    fn realm(&self, domain: &DomainId) -> Result<Option<Realm>, Error> {
        match self.view.get::<Domain>(domain)? {
            Some(row) => Ok(Some(row.name)),
            None if self.has::<Domain>(domain)? => Ok(self.domains.get(domain).cloned()),
            None => Ok(None),
        }
    }

    /// The name with the name of its domain, for the report.
    fn full(&self, spell: Spell, name: &str, domain: &DomainId) -> Result<String, Error> {
        let realm = self.realm(domain)?.or_else(|| self.domains.get(domain).cloned());
        Ok(spelled(spell, name, realm.as_ref()))
    }

    /// Imports a user. An existing user without a password gets the password of the source.
    fn user_or_password(&mut self, id: &UserId, user: &CloudUser) -> Result<Imported, Error> {
        let name = self.full(Spell::User, &user.name, &user.domain)?;
        let known = self.view.get::<User>(id)?.filter(|known| known.password.is_none());
        if let (Some(known), Some(password)) = (known, &user.password) {
            // The password alone must not be enough here if it is not enough in the source.
            let rules = self.view.get::<Profile>(id)?.unwrap_or_default().mfa_rules;
            if rules != user.profile.mfa_rules {
                let why =
                    "the user already exists in this store, with other rules for multi-factor authentication";
                return Ok(Imported::left("password", name, why));
            }
            let with = User { password: Some(password.clone()), ..known.clone() };
            self.change.expect_same(id, &known).put(id, &with);
            let now = self.change.audit().unix_seconds;
            return Ok(Imported::taken("password", name).but(expiry(password, now)));
        }
        let without = user.password.is_none().then(|| "without a password".to_owned());
        Ok(Imported::of("user", name, self.user(id, user)?.err()).but(without))
    }

    fn user(&mut self, id: &UserId, user: &CloudUser) -> Result<Left, Error> {
        match self.realm(&user.domain)? {
            Some(realm) => {
                if let Err(why) = Userid::new(&user.name, realm) {
                    return Ok(Err(why.to_string()));
                }
            }
            None => {
                return Ok(Err(format!("domain {} does not exist in this store", user.domain.to_keystone())));
            }
        }
        let name = NameKey::user(&user.domain, &user.name);
        if self.has::<User>(id)? || self.has::<Name>(&name)? {
            return Ok(
                Err("the user already exists in this store, or another user has this name".to_owned()),
            );
        }
        let row = User {
            domain: user.domain,
            name: user.name.clone(),
            sid: self.sid()?,
            also: Vec::new(),
            uid: None,
            gid: None,
            enabled: user.enabled,
            expires: 0,
            password: user.password.clone(),
            comment: user.comment.clone(),
            mirrored: None,
        };
        if user.profile != Profile::default() {
            self.change.put(id, &user.profile);
        }
        put_extra(self.change, ResourceKind::User, id, &user.extra)?;
        self.named(id, &row, &name, Name::new(*id.bytes(), row.name.as_str()))
    }

    fn group(
        &mut self,
        id: &GroupId,
        domain: &DomainId,
        name: &str,
        comment: Option<&str>,
    ) -> Result<Left, Error> {
        match self.realm(domain)? {
            Some(realm) => {
                if let Err(why) = GroupName::new(name, realm) {
                    return Ok(Err(why.to_string()));
                }
            }
            None => return Ok(Err(format!("domain {} does not exist in this store", domain.to_keystone()))),
        }
        let key = NameKey::group(domain, name);
        if self.has::<Group>(id)? || self.has::<Name>(&key)? {
            return Ok(Err(
                "the group already exists in this store, or another group has this name".to_owned()
            ));
        }
        let (sid, comment) = (self.sid()?, comment.map(str::to_owned));
        let row = Group { domain: *domain, name: name.to_owned(), sid, also: Vec::new(), gid: None, comment };
        self.named(id, &row, &key, Name::new(*id.bytes(), name))
    }

    fn member(&mut self, key: &MembershipKey) -> Result<Left, Error> {
        let is_there = match &key.member {
            Member::User(id) => self.has::<User>(id)?,
            Member::Group(id) => self.has::<Group>(id)?,
        };
        if !is_there || !self.has::<Group>(&key.group)? {
            return Ok(Err("the member or the group does not exist in this store".to_owned()));
        }
        self.add(key, &Membership)
    }

    fn grant(&mut self, key: &GrantKey) -> Result<Left, Error> {
        let who = match &key.who {
            Grantee::User(id) => self.has::<User>(id)?,
            Grantee::Group(id) => self.has::<Group>(id)?,
        };
        let scope = match &key.scope {
            GrantScope::System => true,
            GrantScope::Project(id) | GrantScope::BelowProject(id) => self.has::<Project>(id)?,
            GrantScope::Domain(id) | GrantScope::BelowDomain(id) => self.has::<Domain>(id)?,
        };
        let lacking = match (who, scope, self.has::<NamedRole>(&key.role)?) {
            (true, true, true) => return self.add(key, &Grant),
            (false, ..) => "user or group",
            (_, false, _) => "project or domain",
            (.., false) => "role",
        };
        Ok(Err(format!(
            "the {lacking} of the role assignment does not exist in this store: the record was left out, or is not in the source"
        )))
    }

    /// Whether an assignment of the source that gives the user a role on the project is in this store.
    fn has_role(&self, user: &UserId, project: ProjectId) -> Result<bool, Error> {
        let ways = self.ways;
        let mut grantees = vec![Grantee::User(*user)];
        for group in ways.groups_of(user) {
            if self.has::<Membership>(&MembershipKey { member: Member::User(*user), group: *group })? {
                grantees.push(Grantee::Group(*group));
            }
        }
        for who in grantees {
            for key in ways.grants(who, project) {
                if self.has::<Grant>(key)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn credential(&mut self, id: &CredentialId, row: &CloudCredential) -> Result<Left, Error> {
        let name: TokenName = match row.name.parse() {
            Ok(name) => name,
            Err(why) => return Ok(Err(format!("{why}"))),
        };
        if !self.has::<User>(&row.owner)? || !self.has::<Project>(&row.delegation.project)? {
            return Ok(Err("the credential's user or project does not exist in this store".to_owned()));
        }
        if !self.has_role(&row.owner, row.delegation.project)? {
            return Ok(Err("the credential's user has no role on its project in this store".to_owned()));
        }
        let key = NameKey::token(&row.owner, &name);
        let credential = Credential {
            owner: row.owner,
            name,
            verifier: Verifier::Missing,
            previous: None,
            enabled: true,
            expires: row.expires,
            created: 0,
            comment: row.comment.clone(),
            own_roles: false,
            mirrored: None,
        };
        let left = self.named(id, &credential, &key, Name::new(*id.bytes(), credential.name.as_str()))?;
        if left.is_ok() {
            self.change.put(id, &row.delegation);
            self.change.put(&ReverseKey::For(row.delegation.project, *id), &Reverse);
        }
        Ok(left)
    }

    fn totp(&mut self, id: &BlobId, row: &Blob) -> Result<Left, Error> {
        if !self.has::<User>(&row.user)? {
            return Ok(Err("the credential's user does not exist in this store".to_owned()));
        }
        let left = self.add(id, row)?;
        if left.is_ok() {
            self.change.put(&ReverseKey::Blob(row.user, *id), &Reverse);
        }
        Ok(left)
    }

    fn sid(&mut self) -> Result<enfilade_facts::vocabulary::Sid, Error> {
        let (before, now) = match self.space {
            Some(spaces) => spaces,
            None => {
                let space = self.view.get::<SidSpace>(&SidSpaceKey)?;
                let space = space.ok_or_else(|| dangling("the record of free SIDs", "sid-space"))?;
                (space, space)
            }
        };
        let (sid, rest) = now.take(self.view.at().store).ok_or_else(no_sid_left)?;
        self.space = Some((before, rest));
        Ok(sid)
    }

    fn keep_space(&mut self) -> Result<(), Error> {
        if let Some((before, now)) = self.space {
            self.change.expect_same(&SidSpaceKey, &before).put(&SidSpaceKey, &now);
        }
        Ok(())
    }
}

/// The key of a record in `Taking::taken`: the number of its table, and its key in the table.
fn mark<R: Row>(key: &R::Key) -> Vec<u8> {
    let mut mark = vec![R::TABLE as u8];
    mark.extend(enfilade_facts::tables::Key::bytes(key));
    mark
}
