//! Imports the records of a Keystone server, with their ids. Each record is imported only once. Existing records stay as they are, with two
//! exceptions: a user without a password can get the password of the source, and an application credential that was imported without a secret can get
//! its secret.

mod access_rules;
mod catalog;
mod delegated;
mod federation;
mod for_services;
mod once;
mod record;
mod spelled;
mod taken;
mod texts;
mod ways;

pub(crate) use self::once::keep_password_out;
pub use self::record::{
    CloudCredential, CloudRecord, CloudRecordId, CloudUser, FederationRecord, ServiceRecord,
};
use self::spelled::{Spell, names_of, spelled};
use self::taken::Plan;
pub use self::taken::taken_names;
use self::texts::without_refused_texts;
use self::ways::Ways;
use super::extra::{IMMUTABLE, put_extra};
use super::names::{check_name, check_role_name};
use super::roles::check_implied;
use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::import::{Imported, WHOLE, WITHOUT_PASSWORD, key_of_record, no_sid_left};
use crate::resolve::dangling;
use enfilade_facts::limits::DOMAIN_NAME_CHARS_MAX;
use enfilade_facts::tables::{
    AccessRule, AccessRuleKey, Domain, Extra, ExtraKey, Grant, GrantKey, GrantScope, Grantee, Group, Member,
    Membership, MembershipKey, Name, NameKey, NamedRole, Password, Profile, Project, ResourceKind, Reverse,
    ReverseKey, Row, SidSpace, SidSpaceKey, Trust, User,
};
use enfilade_facts::vocabulary::{
    DomainId, GroupId, GroupName, Id, IdBytes, ProjectId, Realm, RoleId, TrustId, UserId, Userid, to_rfc3339,
};
use enfilade_facts::{Change, Read, View};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// The maximum number of records of the source in one commit.
const AT_ONCE: usize = 200;

/// The options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloudTerms {
    /// Whether the import changes nothing, and only reports what it would import.
    pub pretend: bool,
    /// Whether to import a record again if an earlier import added the record, and the record was later deleted, removed or revoked here.
    pub restore_deleted: bool,
}

/// Imports the records in their order, and reports on each.
///
/// # Errors
/// When the facts cannot be read or changed.
pub fn import_cloud(
    ctx: &ChangeContext<'_>,
    things: &[CloudRecord],
    terms: CloudTerms,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Imported>, Error> {
    let CloudTerms { pretend, restore_deleted } = terms;
    // An imported record may have the id of a record that was deleted here. The dependents of the deleted record must not become valid again, so all
    // dependents of deleted records are deleted before the import.
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
    let plan = &Plan::of(ctx.facts, things, restore_deleted)?;
    let mut made = Made::default();
    for some in things.chunks(AT_ONCE) {
        let build = |view: &View<'_>, change: &mut Change, made: &mut Made| {
            let (domains, names, ways) = (&domains, &names, &ways);
            let mut taking = Taking { view, change, domains, names, ways, plan, restore_deleted, made };
            let mut report = Vec::with_capacity(some.len());
            for thing in some {
                let mut thing = thing.clone();
                let lost = without_refused_texts(&mut thing);
                let imported = taking.one(&thing)?;
                let secret = secret_with(&thing, &imported, ctx.now.unix_seconds);
                report.push(imported.and_but(lost));
                report.extend(secret);
            }
            taking.keep_space()?;
            Ok(report)
        };
        report.extend(match pretend {
            false => {
                ctx.commit("import keystone", |view, change| build(view, change, &mut Made::default()))?.0
            }
            // A dry run commits nothing, but later records refer to earlier records. So `made` contains the earlier records.
            true => {
                let mut change = Change::requested_by(ctx.requester, ctx.audit("import keystone"));
                ctx.facts.read(|view| build(view, &mut change, &mut made))??
            }
        });
        done += some.len();
        progress(done);
    }
    Ok(report)
}

/// The kind of the result for the secret of an application credential.
const SECRET: &str = "secret of application credential";

/// The result for the password that comes with a user, or the secret that comes with an application credential.
fn secret_with(thing: &CloudRecord, imported: &Imported, now: i64) -> Option<Imported> {
    let (kind, of, differs) = match thing {
        CloudRecord::User(_, user) if imported.kind == "user" => {
            ("password", "user", expiry(user.password.as_ref()?, now))
        }
        CloudRecord::Credential(_, row) if imported.kind != SECRET => {
            row.verifier.crypt()?;
            (SECRET, "credential", None)
        }
        _ => return None,
    };
    let left_out = imported.left_out.as_ref().map(|_| format!("the {of} was left out"));
    Some(Imported::of(kind, imported.name.clone(), left_out).but(differs))
}

/// What the report says about an imported password that has expired; `None` if the password has not expired.
fn expiry(password: &Password, now: i64) -> Option<String> {
    (password.until != 0 && password.until <= now).then(|| {
        format!(
            "the password expired at {}: the user can only use it to set a new password",
            to_rfc3339(password.until)
        )
    })
}

/// The change for one commit, which is being built.
struct Taking<'a, 'v> {
    view: &'a View<'v>,
    change: &'a mut Change,
    /// The names of the domains in the source.
    domains: &'a HashMap<DomainId, Realm>,
    /// The names of records in the source, for the report.
    names: &'a HashMap<IdBytes, String>,
    ways: &'a Ways,
    plan: &'a Plan,
    /// Whether to import records again that an earlier import added and that were deleted here.
    restore_deleted: bool,
    made: &'a mut Made,
}

/// What the import has added to changes but not committed. A dry run never commits, so in a dry run the value contains the additions of the whole
/// import.
#[derive(Default)]
struct Made {
    /// The record of free SIDs, as it is in the store and as it will be after this change.
    space: Option<(SidSpace, SidSpace)>,
    /// The keys of the records.
    taken: HashSet<Vec<u8>>,
    /// The trusts.
    trusts: HashMap<TrustId, Trust>,
    /// The access rules.
    rules: HashMap<AccessRuleKey, AccessRule>,
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
                    Name::new(id.stored(), row.name.as_str()),
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
                let group = self.called(&key.group);
                let member = match &key.member {
                    Member::User(id) => self.called(id),
                    Member::Group(id) => self.called(id),
                };
                ("member of group", format!("{group}: {member}"), self.member(key)?)
            }
            CloudRecord::Grant(key) => ("role assignment", self.grant_in_words(key), self.grant(key)?),
            CloudRecord::Region(id, row) => ("region", id.0.clone(), self.region(id, row)?),
            CloudRecord::Service(id, row) => {
                ("service", format!("{} {}", row.kind, row.name), self.service(id, row)?)
            }
            CloudRecord::Endpoint(id, row) => ("endpoint", row.url.clone(), self.endpoint(id, row)?),
            CloudRecord::ForServices(record) => return self.for_services(record),
            CloudRecord::Federation(record) => return self.federation(record),
            CloudRecord::Credential(id, row) => return self.application_credential(id, row),
            CloudRecord::Blob(id, row) => return self.blob(id, row),
            CloudRecord::Trust(id, row) => return self.trust(id, row),
            CloudRecord::Consumer(id, row) => {
                let name = row.description.clone().unwrap_or_else(|| id.to_string());
                ("OAuth consumer", name, self.add(id, row)?)
            }
            CloudRecord::AccessToken(id, row) => return self.access_token(id, row),
            CloudRecord::Configuration(id, row) => {
                let left = match self.has::<Domain>(id)? {
                    true => self.add(id, row)?,
                    false => Err("the domain does not exist in this store".to_owned()),
                };
                let has_secret = row.options.iter().any(|option| option.sensitive);
                let without = (!has_secret).then(|| {
                    "without secret options (such as a password). If the domain has secret options in Keystone, import from a dump of the database: only a dump contains them".to_owned()
                });
                let name = self.called(id);
                return Ok(Imported::of("configuration of domain", name, left.err()).but(without));
            }
        };
        Ok(Imported::of(kind, name, left.err()))
    }

    /// The name of a record of the source, or its id if it has no name.
    fn called(&self, id: &(impl Id + Display)) -> String {
        self.names.get(&id.stored()).cloned().unwrap_or_else(|| id.to_string())
    }

    /// A role assignment in words, such as `reader of ann@d1 on domain d1, inherited`.
    fn grant_in_words(&self, GrantKey { who, scope, role }: &GrantKey) -> String {
        let who = match who {
            Grantee::User(id) => self.called(id),
            Grantee::Group(id) => format!("group {}", self.called(id)),
        };
        let on = match scope {
            GrantScope::System => "the system".to_owned(),
            GrantScope::Project(id) => format!("project {}", self.called(id)),
            GrantScope::BelowProject(id) => format!("project {}, inherited", self.called(id)),
            GrantScope::Domain(id) => format!("domain {}", self.called(id)),
            GrantScope::BelowDomain(id) => format!("domain {}, inherited", self.called(id)),
        };
        format!("{} of {who} on {on}", self.called(role))
    }

    /// Whether a record exists, or is created by this change.
    fn has<R: Row>(&self, key: &R::Key) -> Result<bool, Error> {
        Ok(self.made.taken.contains(&mark::<R>(key)) || self.view.get::<R>(key)?.is_some())
    }

    /// Adds a record. If the record exists in this store, it is left out. The record is also left out if an earlier import added it, and it was later
    /// deleted here, unless this import restores deleted records.
    fn add<R: Row>(&mut self, key: &R::Key, row: &R) -> Result<Left, Error> {
        let left = self.once::<R>(key)?;
        if left.is_ok() {
            self.put_new(key, row);
            let in_list = key_of_record::<R>(key);
            // Before this change is committed, another import may add the record, and the record may then be deleted. In this case, the list of
            // imports differs, and this change is built again.
            let listed = self.view.get::<Extra>(&in_list)?;
            self.change.expect_unchanged(&in_list, listed.as_ref());
            self.list(&in_list, WHOLE);
        }
        Ok(left)
    }

    fn put_new<R: Row>(&mut self, key: &R::Key, row: &R) {
        self.made.taken.insert(mark::<R>(key));
        self.change.expect_absent::<R>(key).put(key, row);
    }

    fn named<R: Row>(&mut self, key: &R::Key, row: &R, by_name: &NameKey, name: Name) -> Result<Left, Error> {
        if let Err(why) = self.once::<R>(key)? {
            return Ok(Err(why));
        }
        if self.has::<Name>(by_name)? {
            return Ok(Err("another record in this store has this name".to_owned()));
        }
        self.put_new(by_name, &name);
        self.add(key, row)
    }

    /// Imports a role. An implication is left out if the implied role is neither in this store nor imported, because a role that is created later
    /// must not be implied by accident. An implication that is not allowed is left out, too.
    fn role(&mut self, id: &RoleId, row: &NamedRole) -> Result<Imported, Error> {
        let (mut row, mut lost) = (row.clone(), Vec::new());
        for implied in std::mem::take(&mut row.implies) {
            let known = self.view.get::<NamedRole>(&implied)?;
            match known.as_ref().or_else(|| self.plan.roles.get(&implied)) {
                Some(other) if check_implied((id, &row), (&implied, other)).is_ok() => {
                    row.implies.push(implied);
                    if known.is_some() {
                        self.change.expect_present::<NamedRole>(&implied);
                    }
                }
                _ => lost.push(self.called(&implied)),
            }
        }
        let left = match (check_role_name(&row.name), &row.domain) {
            (Err(why), _) => Err(why.to_string()),
            (_, Some(domain)) if !self.has::<Domain>(domain)? => {
                Err(format!("domain {} does not exist in this store", domain.to_keystone()))
            }
            _ => {
                let name = NameKey::role_of(row.domain.as_ref(), &row.name);
                self.named(id, &row, &name, Name::new(id.stored(), row.name.as_str()))?
            }
        };
        let differs = (!lost.is_empty()).then(|| {
            format!(
                "without the implied roles that are not in this store or that this role may not imply: {}",
                lost.join(", ")
            )
        });
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
            Name::new(id.stored(), row.name.as_str()),
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
                (format!("domain {}", self.called(id)), self.has::<Domain>(id)?, key)
            }
            CloudRecordId::Role(id) => {
                let key = ExtraKey::of(ResourceKind::Role, id);
                (format!("role {}", self.called(id)), self.has::<NamedRole>(id)?, key)
            }
            CloudRecordId::Project(id) => {
                let key = ExtraKey::of(ResourceKind::Project, id);
                (format!("project {}", self.called(id)), self.has::<Project>(id)?, key)
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
            // This call adds the user to the list of imports.
            let _ = self.once::<User>(id)?;
            // If the password alone is not enough to log in to the source, it must not be enough to log in here.
            let rules = self.view.get::<Profile>(id)?.unwrap_or_default().mfa_rules;
            if rules != user.profile.mfa_rules {
                let why =
                    "the user already exists in this store, with other rules for multi-factor authentication";
                return Ok(Imported::left("password", name, why));
            }
            let left = self.add_password(id, &known, password)?;
            let differs = expiry(password, self.change.audit().unix_seconds).filter(|_| left.is_ok());
            return Ok(Imported::of("password", name, left.err()).but(differs));
        }
        let without = user.password.is_none().then(|| WITHOUT_PASSWORD.to_owned());
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
        if let Err(why) = self.once::<User>(id)? {
            if self.view.get::<User>(id)?.is_some_and(|known| known.password.is_some()) {
                self.list_password(id);
            }
            return Ok(Err(why));
        }
        if self.has::<Name>(&name)? {
            return Ok(Err("another user in this store has this name".to_owned()));
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
        if let Err(why) = put_extra(self.change, ResourceKind::User, id, &user.extra) {
            return Ok(Err(why.to_string()));
        }
        if user.profile != Profile::default() {
            self.change.put(id, &user.profile);
        }
        if user.password.is_some() {
            self.list_password(id);
        }
        self.named(id, &row, &name, Name::new(id.stored(), row.name.as_str()))
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
        if let Err(why) = self.once::<Group>(id)? {
            return Ok(Err(why));
        }
        if self.has::<Name>(&key)? {
            return Ok(Err("another group in this store has this name".to_owned()));
        }
        let (sid, comment) = (self.sid()?, comment.map(str::to_owned));
        let row = Group { domain: *domain, name: name.to_owned(), sid, also: Vec::new(), gid: None, comment };
        self.named(id, &row, &key, Name::new(id.stored(), name))
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
            "the {lacking} of the role assignment does not exist in this store: the import left it out, or it is not in the source"
        )))
    }

    fn sid(&mut self) -> Result<enfilade_facts::vocabulary::Sid, Error> {
        let (before, now) = match self.made.space {
            Some(spaces) => spaces,
            None => {
                let space = self.view.get::<SidSpace>(&SidSpaceKey)?;
                let space = space.ok_or_else(|| dangling("the record of free SIDs", "sid-space"))?;
                (space, space)
            }
        };
        let (sid, rest) = now.take(self.view.at().store).ok_or_else(no_sid_left)?;
        self.made.space = Some((before, rest));
        Ok(sid)
    }

    fn keep_space(&mut self) -> Result<(), Error> {
        if let Some((before, now)) = self.made.space {
            self.change.expect_same(&SidSpaceKey, &before).put(&SidSpaceKey, &now);
        }
        Ok(())
    }
}

/// The key of a record in `Made::taken`: the number of its table, and its key in the table.
fn mark<R: Row>(key: &R::Key) -> Vec<u8> {
    let mut mark = vec![R::TABLE as u8];
    mark.extend(enfilade_facts::tables::Key::bytes(key));
    mark
}
