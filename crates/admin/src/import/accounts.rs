//! Imports accounts in one change: realms, users with passwords, tokens with hashes, and roles on paths.

use super::earlier::{Earlier, Stage, is_listed, listed};
use super::passwords::Passwords;
use super::role_rules::{files_of_namespace, gives_more, in_doubt, only_takes_away, reads_all, still_has};
use super::source::{ProxmoxFiles, ProxmoxTerms};
use super::stores::Stores;
use super::{HAS_PASSWORD, HERE, Imported, existed, no_sid_left, removed, removed_realm, revoked};
use crate::access::name_of_user;
use crate::change_context::random;
use crate::error::Error;
use crate::resolve::{Target, dangling, token_id, user_id, who};
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Credential, Domain, FileName, Name, NameKey, Password, Revocation, Revoked,
    SidSpace, SidSpaceKey, User, Verifier, Who,
};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, Realm, Role, RolePath, Ugid, UserId, Userid,
};
use enfilade_facts::{Change, View};
use enfilade_sources::files::acl_cfg::Roles;
use enfilade_sources::files::section_config::LineError;
use enfilade_sources::files::user_cfg::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

pub(super) struct Import<'c, 'v, 's> {
    view: &'v View<'s>,
    change: &'c mut Change,
    files: &'c ProxmoxFiles,
    /// The datastores of the source; `None` if the server already follows the files of the source. In this case, only passwords and realms are
    /// imported.
    stores: Option<&'c Stores>,
    passwords: Passwords<'c>,
    report: Vec<Imported>,
    /// The users of the source that are on this server: users that this change creates, and existing users that are certainly the same
    /// as in the source.
    users: BTreeMap<Userid, UserId>,
    domains: BTreeMap<Realm, DomainId>,
    /// The tokens of the source that are on this server: tokens that this change creates, and existing tokens that are certainly the same as in the
    /// source.
    tokens: BTreeMap<Authid, CredentialId>,
    /// Records of the source that are on this server, by their names in the list of imports ([`listed`]). The import also puts the records of
    /// `report` for which [`is_listed`] is true into this list.
    seen: BTreeSet<String>,
    space: Option<(SidSpace, SidSpace)>,
    now: i64,
}

impl<'c, 'v, 's> Import<'c, 'v, 's> {
    pub(super) fn new(
        view: &'v View<'s>,
        change: &'c mut Change,
        files: &'c ProxmoxFiles,
        stores: Option<&'c Stores>,
        terms: ProxmoxTerms,
        now: i64,
    ) -> Result<Self, Error> {
        let earlier = Earlier::read(view, files.earlier())?;
        Ok(Import {
            view,
            change,
            files,
            stores,
            passwords: Passwords { files, terms, earlier },
            report: Vec::new(),
            users: BTreeMap::new(),
            domains: BTreeMap::new(),
            tokens: BTreeMap::new(),
            seen: BTreeSet::new(),
            space: None,
            now,
        })
    }

    /// Adds the records to the change. Returns a result for each record of the files.
    pub(super) fn run(mut self) -> Result<Vec<Imported>, Error> {
        self.realms()?;
        match self.stores {
            None => self.passwords_of_followed()?,
            Some(stores) => {
                self.accounts()?;
                self.roles_on_paths(stores)?;
            }
        }
        self.report.extend(self.passwords.of_nobody());
        let factors = self.passwords.second_factors(&self.report);
        self.report.extend(factors);
        if let Some((before, after)) = self.space {
            self.change.expect_same(&SidSpaceKey, &before).put(&SidSpaceKey, &after);
        }
        let items = self.report.iter().filter(|item| is_listed(item));
        let items = items.map(|item| listed(item.kind, &item.name));
        let whole = self.seen.into_iter().chain(items).map(|name| (name, Stage::Whole));
        let stores = self.stores.into_iter().flat_map(Stores::names);
        self.passwords.earlier.add(self.change, whole.chain(stores));
        Ok(self.report)
    }

    fn realms(&mut self) -> Result<(), Error> {
        let files = self.files;
        for (realm, section) in &files.realms.realms {
            if self.is_removed_realm(realm)? {
                self.report.push(Imported::left("realm", realm.as_str(), removed("realm")));
                continue;
            }
            let before = self.view.get::<Name>(&NameKey::domain(realm))?.is_some();
            let row = Domain { description: section.comment.clone(), ..Domain::new(realm.clone()) };
            let id = self.domain(realm, row)?;
            // If the server follows the files, the realm may come from these files. Then the import only adds the comment of the realm.
            let is_followed = before && self.stores.is_none();
            let is_described = is_followed && self.describe(&id, section.comment.as_ref())?;
            let is_here = before && !is_described;
            let kind = section.kind.as_str();
            let differs = (kind != "pbs").then(|| format!("this server does not check logins with {kind}"));
            self.report
                .push(Imported::of("realm", realm.as_str(), is_here.then(|| HERE.to_owned())).but(differs));
        }
        for (id, error) in &files.realms.broken {
            let LineError { line, reason } = error;
            self.report.push(Imported::left("realm", id, format!("domains.cfg, line {line}: {reason}")));
        }
        Ok(())
    }

    /// If an existing domain has no description, the comment of its realm becomes the description. Returns whether this changed the domain.
    fn describe(&mut self, id: &DomainId, comment: Option<&String>) -> Result<bool, Error> {
        let before = self.view.get::<Domain>(id)?.ok_or_else(|| dangling("domain", id))?;
        let Some(comment) = comment.filter(|_| before.description.is_none()) else { return Ok(false) };
        let after = Domain { description: Some(comment.clone()), ..before.clone() };
        self.change.expect_same(id, &before).put(id, &after);
        Ok(true)
    }

    fn accounts(&mut self) -> Result<(), Error> {
        let users = &self.files.users;
        for (authid, entry) in &users.entries {
            match &authid.token {
                None => self.user(&authid.user, entry)?,
                Some(_) => {
                    let left_out = self.token(authid, entry)?;
                    self.report.push(Imported::of("token", authid.to_string(), left_out));
                }
            }
        }
        let root = Userid::root_pam();
        if !users.entries.is_empty() && !users.entries.contains_key(&root.clone().into()) {
            // The administrator root@pam exists even without a section in `user.cfg`.
            self.user(&root, &Entry::default())?;
        }
        for (authid, (error, _)) in &users.broken {
            let kind = if authid.token.is_some() { "token" } else { "user" };
            self.report.push(Imported::left(kind, authid.to_string(), at_line(FileName::Users, error)));
        }
        self.report.extend(users.problems.iter().map(|error| in_line("section", FileName::Users, error)));
        // Only a new root@pam gets the role Admin, because an existing root@pam may have lost this role here.
        if let (Some(root), Ok(everywhere)) = (self.users.get(&root), "/".parse())
            && self.view.get::<User>(root)?.is_none()
        {
            let key = AssignmentKey { path: everywhere, who: Who::User(*root) };
            self.change.put(&key, &Assignment { roles: vec![(Role::Admin, true)], fault: None });
        }
        Ok(())
    }

    fn roles_on_paths(&mut self, stores: &Stores) -> Result<(), Error> {
        const KIND: &str = "roles";
        let acl = &self.files.acl;
        let others = self.other_user()?;
        // A line that cannot be read may take away rights that another line gives. So if a user, token or group has such a line, only roles that take
        // rights away are imported for this user, token or group.
        let unread: BTreeSet<&Ugid> = acl.broken.keys().map(|(_, ugid)| ugid).collect();
        for ((path, ugid), roles) in &acl.entries {
            let there = files_of_namespace(path);
            let name = format!("{ugid} on {path}");
            let more = gives_more((stores, self.passwords.terms.same_source), others.as_ref(), path);
            let more = more.or_else(|| unread.contains(ugid).then(in_doubt));
            let was_added = self.passwords.earlier.has(KIND, &name);
            let more = more.or_else(|| was_added.then(|| removed(KIND)));
            let more = more.filter(|_| !only_takes_away(roles));
            let left_out = self.roles(there.as_ref().unwrap_or(path), ugid, roles, more)?;
            let moved = there.map(|there| format!("on this server the files of this namespace are in {there}, so the roles are assigned on that path"));
            let differs = moved.into_iter().chain(reads_all(roles)).collect::<Vec<_>>().join("; ");
            let differs = (!differs.is_empty()).then_some(differs);
            let item = Imported::of(KIND, name, left_out).but(differs);
            if item.exists_here() && self.holder(ugid).is_some() {
                self.seen.insert(listed(KIND, &item.name));
            }
            self.report.push(item);
        }
        for ((path, ugid), error) in &acl.broken {
            self.report.push(Imported::left(
                KIND,
                format!("{ugid} on {path}"),
                at_line(FileName::Acl, error),
            ));
        }
        self.report.extend(acl.problems.iter().map(|error| in_line(KIND, FileName::Acl, error)));
        Ok(())
    }

    /// Imports only passwords, because the server already follows the file with the users. The report also says which roles and passwords differ on
    /// this server.
    fn passwords_of_followed(&mut self) -> Result<(), Error> {
        let files = self.files;
        for ((path, ugid), roles) in &files.acl.entries {
            let moved = files_of_namespace(path)
                .map(|there| format!("on this server the files of this namespace are in {there}, so assign the roles on that path"));
            for differs in moved.into_iter().chain(reads_all(roles)) {
                self.report.push(Imported::remark("roles", format!("{ugid} on {path}"), differs));
            }
        }
        // The administrator root@pam exists even without a section in `user.cfg`.
        let root = Userid::root_pam();
        let users = files.users.entries.keys().filter(|authid| authid.token.is_none());
        let mut users: BTreeSet<&Userid> = users.map(|authid| &authid.user).collect();
        users.insert(&root);
        for userid in users {
            match user_id(self.view, userid) {
                Ok(id) => self.password(userid, &id)?,
                Err(Error::Missing { .. }) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// If an existing user has no password, the user gets the password in `shadow.json`, but only if the user is certainly the user of this name in
    /// the source. Otherwise a stranger could log in as the user.
    fn password(&mut self, userid: &Userid, id: &UserId) -> Result<(), Error> {
        let user = self.view.get::<User>(id)?.ok_or_else(|| dangling("user", id))?;
        let usable = match self.taken_away(userid, id)? {
            Some(why) => self.passwords.usable(userid).and(Err(why)),
            None => self.passwords.usable(userid),
        };
        let offered = usable.clone().and_then(|hash| self.passwords.alone(userid).map(|()| hash));
        if let (None, None, Err(why)) = (self.stores, &user.password, &offered) {
            let why = format!("without a password: {why}");
            self.report.push(Imported::remark("user", userid.to_string(), why));
        }
        if !self.passwords.has(userid) {
            return Ok(());
        }
        let is_same = self.stores.is_none() || self.users.contains_key(userid);
        let left_out = match (usable, offered) {
            _ if user.password.is_some() => Some(HAS_PASSWORD.to_owned()),
            (Err(why), _) => Some(why),
            _ if !is_same => Some(existed("the user")),
            (_, Err(why)) => Some(why),
            (_, Ok(hash)) => {
                let with = User { password: Some(Password::of(hash.to_owned())), ..user.clone() };
                self.change.expect_same(id, &user).put(id, &with);
                None
            }
        };
        self.report.push(Imported::of("password", userid.to_string(), left_out));
        Ok(())
    }

    /// Why the import gives no password to a user who has no password here: all sessions of the user were revoked on this server, or an earlier
    /// import gave the user a password and the password was removed later. `None` if neither happened. If one of them happened, no option can make
    /// the import give a password to the user. The mark of such a revocation is purged later. So the password is added to the list of imports: after
    /// the purge, later imports leave the password out because it is in this list.
    fn taken_away(&mut self, userid: &Userid, id: &UserId) -> Result<Option<String>, Error> {
        if self.view.get::<Revocation>(&Revoked::User(*id))?.is_some() {
            if self.passwords.has(userid) {
                self.seen.insert(listed("password", &userid.to_string()));
            }
            return Ok(Some(revoked(&userid.to_string())));
        }
        Ok(self.passwords.was_given(userid).then(|| removed("password")))
    }

    fn user(&mut self, userid: &Userid, entry: &Entry) -> Result<(), Error> {
        match user_id(self.view, userid) {
            Ok(id) => {
                if self.is_same(userid, &id)? {
                    self.users.insert(userid.clone(), id);
                    self.seen.insert(listed("user", &userid.to_string()));
                }
                self.report.push(Imported::left("user", userid.to_string(), HERE));
                return self.password(userid, &id);
            }
            Err(Error::Missing { .. }) => {}
            Err(why) => return Err(why),
        }
        let was_removed = match self.passwords.earlier.has("user", &userid.to_string()) {
            true => Some(removed("user")),
            false => self.is_removed_realm(userid.realm())?.then(|| removed_realm(userid.realm())),
        };
        if let Some(why) = was_removed {
            self.report.push(Imported::left("user", userid.to_string(), why));
            if self.passwords.has(userid) {
                let why = format!("there is no user `{userid}`");
                self.report.push(Imported::left("password", userid.to_string(), why));
            }
            return Ok(());
        }
        let password = self.passwords.offered(userid);
        self.new_user(userid, entry, password.as_ref().ok().map(|hash| Password::of((*hash).to_owned())))?;
        let differs = password.as_ref().err().map(|why| format!("without a password: {why}"));
        self.report.push(Imported::taken("user", userid.to_string()).but(differs));
        if self.passwords.has(userid) {
            self.report.push(Imported::of("password", userid.to_string(), password.err()));
        }
        Ok(())
    }

    fn new_user(&mut self, userid: &Userid, entry: &Entry, password: Option<Password>) -> Result<(), Error> {
        let domain = self.domain(userid.realm(), Domain::new(userid.realm().clone()))?;
        let space = match self.space {
            Some((_, space)) => space,
            None => {
                let space = self.view.get::<SidSpace>(&SidSpaceKey)?;
                let space = space.ok_or_else(|| dangling("the record of free SIDs", "sid-space"))?;
                self.space = Some((space, space));
                space
            }
        };
        let (sid, rest) = space.take(self.view.at().store).ok_or_else(no_sid_left)?;
        self.space = self.space.map(|(before, _)| (before, rest));
        let id = random()?;
        let Entry { enabled, expires, comment } = entry.clone();
        let user = User {
            domain,
            name: userid.name().to_owned(),
            sid,
            also: Vec::new(),
            uid: None,
            gid: None,
            enabled,
            expires,
            password,
            comment,
            mirrored: None,
        };
        let by_name = NameKey::user(&domain, userid.name());
        self.change.expect_absent::<Name>(&by_name).put(&by_name, &Name::new(id, userid.name()));
        self.change.put(&UserId::from_bytes(id), &user);
        self.users.insert(userid.clone(), UserId::from_bytes(id));
        Ok(())
    }

    /// The domain of a realm; creates it if it does not exist.
    fn domain(&mut self, realm: &Realm, new: Domain) -> Result<DomainId, Error> {
        if let Some(id) = self.domains.get(realm) {
            return Ok(*id);
        }
        self.seen.insert(listed("realm", realm.as_str()));
        let name = NameKey::domain(realm);
        let id = match self.view.get::<Name>(&name)? {
            Some(found) => found.domain(),
            None => {
                let id = DomainId::from_bytes(random()?);
                self.change.expect_absent::<Name>(&name).put(&name, &Name::new(id.stored(), realm.as_str()));
                self.change.put(&id, &new);
                id
            }
        };
        self.domains.insert(realm.clone(), id);
        Ok(id)
    }

    /// Whether the realm was removed since an earlier import added it or found it on this server.
    fn is_removed_realm(&self, realm: &Realm) -> Result<bool, Error> {
        let was_here = self.passwords.earlier.has("realm", realm.as_str());
        Ok(was_here
            && !self.domains.contains_key(realm)
            && self.view.get::<Name>(&NameKey::domain(realm))?.is_none())
    }

    /// Whether an existing user is certainly the user of this name in the source. This is certain if the operator says so, or if the user has the
    /// same salted hash of a password or of a token's secret as in the source.
    fn is_same(&self, userid: &Userid, id: &UserId) -> Result<bool, Error> {
        if self.passwords.terms.same_source {
            return Ok(true);
        }
        let user = self.view.get::<User>(id)?.ok_or_else(|| dangling("user", id))?;
        if user.password.is_some_and(|password| self.passwords.is(userid, &password.hash)) {
            return Ok(true);
        }
        let first = Authid::from(userid.clone());
        let theirs = self.files.users.entries.range(first..).take_while(|(authid, _)| authid.user == *userid);
        for (authid, _) in theirs {
            if let Some(name) = &authid.token
                && let Ok(id) = token_id(self.view, userid, name)
                && self.is_same_token(authid, &id)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_same_token(&self, authid: &Authid, id: &CredentialId) -> Result<bool, Error> {
        if self.passwords.terms.same_source {
            return Ok(true);
        }
        let token = self.view.get::<Credential>(id)?.ok_or_else(|| dangling("token", id))?;
        let (Verifier::Crypt(here) | Verifier::Upgrading(here)) = token.verifier else { return Ok(false) };
        Ok(self.files.hashes.hashes.get(&authid.to_proxmox()) == Some(&here))
    }

    /// A user of this server that is not certainly the same as in the source; `None` if there is none. `root@pam` is ignored.
    fn other_user(&self) -> Result<Option<Userid>, Error> {
        let same: BTreeSet<&UserId> = self.users.values().collect();
        let (mut other, root) = (Ok(None), Userid::root_pam());
        self.view.page::<User>(&[], None, |id, _| {
            if !same.contains(&id) {
                other = name_of_user(self.view, &id).map(|name| name.filter(|name| *name != root));
            }
            match other {
                Ok(None) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })?;
        other
    }

    fn token(&mut self, authid: &Authid, entry: &Entry) -> Result<Option<String>, Error> {
        let Some(name) = &authid.token else { return Ok(None) };
        if let Ok(id) = token_id(self.view, &authid.user, name) {
            if self.is_same_token(authid, &id)? {
                self.tokens.insert(authid.clone(), id);
                self.seen.insert(listed("token", &authid.to_string()));
            }
            return Ok(Some(HERE.to_owned()));
        }
        let Some(owner) = self.users.get(&authid.user).copied() else {
            return Ok(Some(match user_id(self.view, &authid.user) {
                Ok(_) => existed(&format!("the user `{}`", authid.user)),
                Err(Error::Missing { .. }) => format!("there is no user `{}`", authid.user),
                Err(why) => return Err(why),
            }));
        };
        if self.passwords.earlier.has("token", &authid.to_string()) {
            return Ok(Some(removed("token")));
        }
        let Some(hash) = self.files.hashes.hashes.get(&authid.to_proxmox()) else {
            return Ok(Some("token.shadow has no hash of the token's secret".to_owned()));
        };
        if let Err(why) = enfilade_identity::check_hash(hash) {
            return Ok(Some(format!("the hash of the token's secret cannot be used: {why}")));
        }
        let id = CredentialId::from_bytes(random()?);
        let Entry { enabled, expires, comment } = entry.clone();
        let token = Credential {
            owner,
            name: name.clone(),
            verifier: Verifier::Crypt(hash.to_owned()),
            previous: None,
            enabled,
            expires,
            created: self.now,
            comment,
            own_roles: true,
            mirrored: None,
            link: None,
        };
        let by_name = NameKey::token(&owner, name);
        self.change
            .expect_absent::<Name>(&by_name)
            .put(&by_name, &Name::new(id.stored(), name.as_str()))
            .put(&id, &token);
        self.tokens.insert(authid.clone(), id);
        Ok(None)
    }

    /// The user or token on this server that is certainly the same as `ugid` in the source; `None` if there is none.
    fn holder(&self, ugid: &Ugid) -> Option<Who> {
        match ugid {
            Ugid::Authid(authid) => match &authid.token {
                None => self.users.get(&authid.user).map(|id| Who::User(*id)),
                Some(_) => self.tokens.get(authid).map(|id| Who::Token(*id)),
            },
            Ugid::Group(_) => None,
        }
    }

    /// Imports roles, or returns why they are left out. `more` is a reason to leave out roles that are not on this server yet, for example that they
    /// could give more rights here than in the source.
    fn roles(
        &mut self,
        path: &RolePath,
        ugid: &Ugid,
        roles: &Roles,
        more: Option<String>,
    ) -> Result<Option<String>, Error> {
        let same = self.holder(ugid);
        // If `same` is `None`, a user, token or group with this name may exist here, but is possibly not the same as in the source.
        let is_same = same.is_some();
        let here = match same {
            Some(who) => Some(who),
            None => match who(self.view, &Target::from(ugid.clone())) {
                Ok(who) => Some(who),
                Err(Error::Missing { .. }) => None,
                Err(why) => return Err(why),
            },
        };
        let named = match ugid {
            Ugid::Authid(id) if id.token.is_some() => format!("token `{id}`"),
            Ugid::Authid(id) => format!("user `{id}`"),
            Ugid::Group(group) => format!("group `{group}`"),
        };
        let Some(here) = here else { return Ok(Some(format!("there is no {named}"))) };
        let key = AssignmentKey { path: path.clone(), who: here };
        if let Some(before) = self.view.get::<Assignment>(&key)? {
            let takes_away = is_same
                && only_takes_away(roles)
                && before.roles.iter().any(|(role, _)| *role != Role::NoAccess);
            return Ok(Some(match takes_away {
                true => still_has(&named, path, &before),
                false => HERE.to_owned(),
            }));
        }
        if !is_same {
            return Ok(Some(match ugid {
                Ugid::Authid(_) => existed(&format!("the {named}")),
                Ugid::Group(_) => {
                    format!("the source has no groups, so the {named} on this server is a different group")
                }
            }));
        }
        if more.is_some() {
            return Ok(more);
        }
        let roles = roles.iter().map(|(role, propagate)| (*role, *propagate)).collect();
        self.change.expect_absent::<Assignment>(&key).put(&key, &Assignment { roles, fault: None });
        Ok(None)
    }
}

fn at_line(file: FileName, error: &LineError) -> String {
    format!("{file}, line {}: {}", error.line, error.reason)
}

/// The result for a line with a record that has no readable name.
fn in_line(kind: &'static str, file: FileName, error: &LineError) -> Imported {
    Imported::left(kind, format!("in line {} of {file}", error.line), at_line(file, error))
}
