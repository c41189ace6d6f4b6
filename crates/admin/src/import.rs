//! Imports the files of a Proxmox server, once. To keep editing the files, put them into the data directory instead.

use crate::change_context::{ChangeContext, random};
use crate::datastores::{overlap, roots};
use crate::error::Error;
use crate::resolve::Target;
use crate::resolve::{dangling, token_id, user_id, who};
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Credential, Domain, FileName, Name, NameKey, SidSpace, SidSpaceKey, User,
    Verifier, Who,
};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, Realm, Role, RolePath, Ugid, UserId, Userid,
};
use enfilade_facts::{At, Change, Read, View};
use enfilade_sources::files::acl_cfg::{AclCfg, Roles};
use enfilade_sources::files::datastore_cfg;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::section_config::{self, LineError, Section};
use enfilade_sources::files::token_shadow::{Hashes, TokenShadow};
use enfilade_sources::files::user_cfg::{self, Entry, UserCfg};
use std::collections::BTreeMap;
use std::path::Path;

/// The result for one record of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// A user, token, role or datastore, by name.
    pub what: String,
    /// Why it was left out; `None` if it was imported.
    pub left_out: Option<String>,
}

/// The parsed files.
struct Files {
    users: UserCfg,
    hashes: Hashes,
    acl: AclCfg,
    datastores: Vec<Section>,
}

/// Imports users, tokens with their hashes, roles and datastores from `user.cfg`, `token.shadow`, `acl.cfg` and `datastore.cfg` in a
/// directory. Existing records do not change. With `pretend` nothing changes.
///
/// # Errors
/// When a file cannot be read, `user.cfg` or `acl.cfg` is in use here, or the facts cannot be changed. Users, tokens and roles are imported
/// in one change, so all of them or none.
pub fn import_proxmox(
    ctx: &ChangeContext<'_>,
    from: &FileSet,
    pretend: bool,
) -> Result<(Vec<Imported>, At), Error> {
    for file in [FileName::Users, FileName::Acl] {
        if ctx.uses(file)? {
            return Err(Error::Invalid(format!(
                "{file} is in use here and the truth for its records; put the files themselves into `{}`",
                ctx.files.directory().display()
            )));
        }
    }
    let files = read(from)?;
    let what = format!("import proxmox {}", from.directory().display());
    let build = |view: &View<'_>, change: &mut Change| {
        let mut import = Import {
            view,
            change,
            report: Vec::new(),
            users: BTreeMap::new(),
            domains: BTreeMap::new(),
            tokens: BTreeMap::new(),
            space: None,
            now: ctx.now.unix_seconds,
        };
        import.run(&files)?;
        Ok(import.report)
    };
    let (mut report, mut at) = match pretend {
        false => ctx.commit(&what, build)?,
        true => {
            let mut change = Change::requested_by(ctx.requester, ctx.audit(&what));
            (ctx.facts.read(|view| build(view, &mut change))??, ctx.facts.at())
        }
    };
    let mut here = roots(ctx.facts)?;
    let mut taken = Vec::new();
    for section in &files.datastores {
        let what = format!("datastore {}", section.id);
        let left_out = match datastore_cfg::read(section) {
            Err(LineError { line, reason }) => Some(format!("datastore.cfg, line {line}: {reason}")),
            Ok((name, _)) if here.iter().any(|(store, _)| *store == name) => Some(HERE.to_owned()),
            Ok((name, row)) => {
                let root = row.root(&name);
                let own = ctx.reserved.overlap_of_path(Path::new(&root));
                let own = own.map(|own| {
                    format!(
                        "the path `{root}` overlaps with `{}`, which the server reserves for its own files",
                        own.display()
                    )
                });
                let overlap = own.or_else(|| overlap(Path::new(&root), here.clone()));
                if overlap.is_none() {
                    here.push((name, root));
                    taken.push(section.clone());
                }
                overlap
            }
        };
        report.push(Imported { what, left_out });
    }
    if !pretend && !taken.is_empty() {
        at = ctx.write_through(&what, &[FileName::Datastores], |files| {
            files.sections(FileName::Datastores, |sections| {
                let new = taken
                    .into_iter()
                    .map(|section| Section::new(&section.kind, &section.id, section.properties));
                sections.extend(new);
                Ok(())
            })
        })?;
    }
    Ok((report, at))
}

const HERE: &str = "it already exists in this store";

fn read(from: &FileSet) -> Result<Files, Error> {
    let bytes = |file: FileName| {
        let read =
            from.read(file).map_err(|why| Error::File(format!("`{}`: {why}", from.path(file).display())))?;
        Ok::<_, Error>(read)
    };
    let found = FileName::ALL.into_iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
    let [datastores, users, acl, secrets] = found.as_slice() else {
        return Err(Error::Invalid("expected four files".into()));
    };
    if found.iter().all(Option::is_none) {
        return Err(Error::Invalid(format!(
            "none of datastore.cfg, user.cfg, acl.cfg and token.shadow exists in `{}`",
            from.directory().display()
        )));
    }
    let secrets = match secrets {
        None => TokenShadow::default(),
        Some(bytes) => TokenShadow::parse(bytes).map_err(|why| {
            let path = from.path(FileName::Secrets);
            Error::File(format!("`{}`: line {}: {}", path.display(), why.line, why.reason))
        })?,
    };
    let sections = |bytes: &Option<Vec<u8>>| section_config::parse(bytes.as_deref().unwrap_or_default());
    Ok(Files {
        users: user_cfg::read(&sections(users)),
        hashes: secrets.hashes(),
        acl: AclCfg::parse(acl.as_deref().unwrap_or_default()),
        datastores: sections(datastores).sections,
    })
}

struct Import<'c, 'v, 's> {
    view: &'v View<'s>,
    change: &'c mut Change,
    report: Vec<Imported>,
    users: BTreeMap<Userid, UserId>,
    domains: BTreeMap<Realm, DomainId>,
    tokens: BTreeMap<Authid, CredentialId>,
    space: Option<(SidSpace, SidSpace)>,
    now: i64,
}

impl Import<'_, '_, '_> {
    fn run(&mut self, files: &Files) -> Result<(), Error> {
        let wrong = |file: FileName| {
            move |LineError { line, reason }: &LineError| format!("{file}, line {line}: {reason}")
        };
        for (authid, entry) in &files.users.entries {
            let left_out = match &authid.token {
                None => self.user(&authid.user, entry)?,
                Some(_) => self.token(authid, entry, &files.hashes)?,
            };
            self.tell(if authid.token.is_some() { "token" } else { "user" }, authid.to_string(), left_out);
        }
        if !files.users.entries.is_empty() && !files.users.entries.contains_key(&Userid::root_pam().into()) {
            // The administrator root@pam exists without a section.
            let left_out = self.user(&Userid::root_pam(), &Entry::default())?;
            self.tell("user", Userid::root_pam().to_string(), left_out);
        }
        for (authid, (error, _)) in &files.users.broken {
            self.tell("section", authid.to_string(), Some(wrong(FileName::Users)(error)));
        }
        for error in &files.users.problems {
            self.tell("section", String::new(), Some(wrong(FileName::Users)(error)));
        }
        if let (Some(root), Ok(everywhere)) = (self.users.get(&Userid::root_pam()), "/".parse()) {
            let key = AssignmentKey { path: everywhere, who: Who::User(*root) };
            self.change.put(&key, &Assignment { roles: vec![(Role::Admin, true)], fault: None });
        }
        for ((path, ugid), roles) in &files.acl.entries {
            let left_out = self.roles(path, ugid, roles)?;
            self.tell("roles", format!("{ugid} on {path}"), left_out);
        }
        for ((path, ugid), error) in &files.acl.broken {
            self.tell("roles", format!("{ugid} on {path}"), Some(wrong(FileName::Acl)(error)));
        }
        for error in &files.acl.problems {
            self.tell("roles", String::new(), Some(wrong(FileName::Acl)(error)));
        }
        if let Some((before, after)) = self.space {
            self.change.expect_same(&SidSpaceKey, &before).put(&SidSpaceKey, &after);
        }
        Ok(())
    }

    fn tell(&mut self, kind: &str, name: String, left_out: Option<String>) {
        self.report.push(Imported { what: format!("{kind} {name}").trim_end().to_owned(), left_out });
    }

    fn user(&mut self, userid: &Userid, entry: &Entry) -> Result<Option<String>, Error> {
        match user_id(self.view, userid) {
            Ok(id) => {
                self.users.insert(userid.clone(), id);
                return Ok(Some(HERE.to_owned()));
            }
            Err(Error::Missing { .. }) => {}
            Err(why) => return Err(why),
        }
        let domain = self.domain(userid.realm())?;
        let space = match self.space {
            Some((_, space)) => space,
            None => {
                let space = self.view.get::<SidSpace>(&SidSpaceKey)?;
                let space = space.ok_or_else(|| dangling("the space of SIDs", "sid-space"))?;
                self.space = Some((space, space));
                space
            }
        };
        let full = || Error::Invalid("no SID is left in this store".into());
        let (sid, rest) = space.take().ok_or_else(full)?;
        self.space = self.space.map(|(before, _)| (before, rest));
        let id = random()?;
        let Entry { enabled, expires, comment } = entry.clone();
        let (name, uid, gid, password) = (userid.name().to_owned(), None, None, None);
        let user = User {
            domain,
            name,
            sid,
            also: Vec::new(),
            uid,
            gid,
            enabled,
            expires,
            password,
            comment,
            mirrored: None,
        };
        let by_name = NameKey::user(&domain, userid.name());
        self.change.expect_absent::<Name>(&by_name).put(&by_name, &Name(id));
        self.change.put(&UserId::from_bytes(id), &user);
        self.users.insert(userid.clone(), UserId::from_bytes(id));
        Ok(None)
    }

    fn domain(&mut self, realm: &Realm) -> Result<DomainId, Error> {
        if let Some(id) = self.domains.get(realm) {
            return Ok(*id);
        }
        let name = NameKey::domain(realm);
        let id = match self.view.get::<Name>(&name)? {
            Some(found) => found.domain(),
            None => {
                let id = DomainId::from_bytes(random()?);
                self.change.expect_absent::<Name>(&name).put(&name, &Name(*id.bytes()));
                self.change.put(&id, &Domain::new(realm.clone()));
                id
            }
        };
        self.domains.insert(realm.clone(), id);
        Ok(id)
    }

    fn token(&mut self, authid: &Authid, entry: &Entry, hashes: &Hashes) -> Result<Option<String>, Error> {
        let Some(name) = &authid.token else { return Ok(None) };
        let owner = match self.users.get(&authid.user) {
            Some(owner) => *owner,
            None => match user_id(self.view, &authid.user) {
                Ok(owner) => owner,
                Err(Error::Missing { .. }) => return Ok(Some(format!("there is no user `{}`", authid.user))),
                Err(why) => return Err(why),
            },
        };
        if let Ok(id) = token_id(self.view, &authid.user, name) {
            self.tokens.insert(authid.clone(), id);
            return Ok(Some(HERE.to_owned()));
        }
        let Some(hash) = hashes.hashes.get(&authid.to_string()) else {
            return Ok(Some("token.shadow has no hash of its secret".to_owned()));
        };
        if let Err(why) = enfilade_identity::check_hash(hash) {
            return Ok(Some(format!("the hash of its secret cannot be used: {why}")));
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
        };
        let by_name = NameKey::token(&owner, name);
        self.change.expect_absent::<Name>(&by_name).put(&by_name, &Name(*id.bytes())).put(&id, &token);
        self.tokens.insert(authid.clone(), id);
        Ok(None)
    }

    fn roles(&mut self, path: &RolePath, ugid: &Ugid, roles: &Roles) -> Result<Option<String>, Error> {
        let found = match ugid {
            Ugid::Authid(authid) => match &authid.token {
                None => self.users.get(&authid.user).map(|id| Who::User(*id)),
                Some(_) => self.tokens.get(authid).map(|id| Who::Token(*id)),
            },
            Ugid::Group(_) => None,
        };
        let who = match found {
            Some(who) => who,
            None => match ugid.to_string().parse::<Target>().and_then(|target| who(self.view, &target)) {
                Ok(who) => who,
                Err(Error::Missing { what, name, .. }) => {
                    return Ok(Some(format!("there is no {what} `{name}`")));
                }
                Err(why) => return Err(why),
            },
        };
        let key = AssignmentKey { path: path.clone(), who };
        if self.view.get::<Assignment>(&key)?.is_some() {
            return Ok(Some(HERE.to_owned()));
        }
        let roles = roles.iter().map(|(role, propagate)| (*role, *propagate)).collect();
        self.change.expect_absent::<Assignment>(&key).put(&key, &Assignment { roles, fault: None });
        Ok(None)
    }
}
