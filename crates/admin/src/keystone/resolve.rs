//! Looks up users, credentials, projects and domains by the ids or names that clients of Keystone send. If a user does not exist, the result is an
//! authid that no user has. So the login takes as long as a login with a wrong password.

use crate::error::Error;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::tables::{Credential, Domain, Name, NameKey, Project, User};
use enfilade_facts::vocabulary::{Authid, CredentialId, DomainId, ProjectId, UserId, Userid};
use enfilade_facts::{MemoSeed, Read, Source, View};
use std::fmt;

/// A domain, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainRef {
    /// By id.
    Id(String),
    /// By name.
    Name(String),
}

/// A user or a project, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceRef {
    /// By id.
    Id(String),
    /// By name, in a domain.
    Named(String, DomainRef),
}

/// An application credential, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRef {
    /// By id.
    Id(String),
    /// By name, with the user who owns it.
    Named(String, ResourceRef),
}

impl fmt::Display for DomainRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainRef::Id(text) | DomainRef::Name(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceRef::Id(id) => f.write_str(id),
            ResourceRef::Named(name, domain) => write!(f, "{name}@{domain}"),
        }
    }
}

impl fmt::Display for CredentialRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialRef::Id(id) => f.write_str(id),
            CredentialRef::Named(name, user) => write!(f, "{user}!{name}"),
        }
    }
}

/// The authid of the user. The same lookups are made for a user that does not exist, so that the response time does not reveal whether the user
/// exists.
///
/// # Errors
/// When the facts cannot be read.
pub fn authid_of_user(source: &dyn Source, user: &ResourceRef) -> Result<Authid, Error> {
    let nobody = nobody(&format!("{user:?}"), false);
    let found = source.read(|view| match user_of(view, user)? {
        Some(id) if view.get::<User>(&id)?.is_some() => authid(view, &id),
        _ => {
            // Another user is looked up and not used, so that the call takes as long as for an existing user. An error of that lookup is ignored.
            let other = view.any_near::<User>(&UserId::from_bytes([0x80; 16])).ok().flatten();
            let _ = other.map(|(id, _)| authid(view, &id));
            Ok(None)
        }
    })?;
    found.map(|found| found.unwrap_or(nobody))
}

/// The authid of the credential. The same lookups are made for a credential that does not exist, so that the response time does not reveal whether
/// the credential exists.
///
/// # Errors
/// When the facts cannot be read.
pub fn authid_of_credential(source: &dyn Source, credential: &CredentialRef) -> Result<Authid, Error> {
    let nobody = nobody(&format!("{credential:?}"), true);
    let found: Result<Option<Authid>, Error> = source.read(|view| {
        let id = match credential {
            CredentialRef::Id(id) => id.parse::<CredentialId>().ok(),
            CredentialRef::Named(name, user) => {
                let user = user_of(view, user)?.unwrap_or(UserId::from_bytes(NONE));
                let name = name.parse().map(|name| view.get::<Name>(&NameKey::token(&user, &name)));
                name.ok().transpose()?.flatten().map(|name| name.credential())
            }
        };
        let row = view.get::<Credential>(&id.unwrap_or(CredentialId::from_bytes(NONE)))?;
        let is_there = row.is_some();
        let row = match row {
            Some(row) => Some(row),
            None => {
                let other = view.any_near::<Credential>(&CredentialId::from_bytes([0x80; 16]));
                other.ok().flatten().map(|(_, row)| row)
            }
        };
        let Some(row) = row else { return Ok(None) };
        let owner = authid(view, &row.owner);
        let owner = if is_there { owner? } else { None };
        Ok(owner.map(|owner| Authid { token: Some(row.name), ..owner }))
    })?;
    found.map(|found| found.unwrap_or(nobody))
}

/// An id that no record has, for lookups of records that do not exist.
const NONE: [u8; 16] = [0; 16];

/// The project, if it exists.
///
/// # Errors
/// When the facts cannot be read.
pub fn project_of(source: &dyn Source, project: &ResourceRef) -> Result<Option<ProjectId>, Error> {
    source.read(|view| match project {
        ResourceRef::Id(id) => match id.parse::<ProjectId>() {
            Ok(id) => Ok(view.get::<Project>(&id)?.map(|_| id)),
            Err(_) => Ok(None),
        },
        ResourceRef::Named(name, domain) => match domain_in(view, domain)? {
            Some(domain) => {
                Ok(view.get::<Name>(&NameKey::project(&domain, name))?.map(|name| name.project()))
            }
            None => Ok(None),
        },
    })?
}

/// The domain, if it exists.
///
/// # Errors
/// When the facts cannot be read.
pub fn domain_of(source: &dyn Source, domain: &DomainRef) -> Result<Option<DomainId>, Error> {
    source.read(|view| domain_in(view, domain))?
}

fn domain_in(view: &View<'_>, domain: &DomainRef) -> Result<Option<DomainId>, Error> {
    match domain {
        DomainRef::Id(id) => match DomainId::from_keystone(id) {
            Ok(id) => Ok(view.get::<Domain>(&id)?.map(|_| id)),
            Err(_) => Ok(None),
        },
        DomainRef::Name(name) => match name.parse() {
            Ok(realm) => Ok(view.get::<Name>(&NameKey::domain(&realm))?.map(|name| name.domain())),
            Err(_) => Ok(None),
        },
    }
}

fn user_of(view: &View<'_>, user: &ResourceRef) -> Result<Option<UserId>, Error> {
    match user {
        ResourceRef::Id(id) => Ok(id.parse::<UserId>().ok()),
        ResourceRef::Named(name, domain) => {
            let domain = domain_in(view, domain)?.unwrap_or(DomainId::from_bytes(NONE));
            Ok(view.get::<Name>(&NameKey::user(&domain, name))?.map(|name| name.user()))
        }
    }
}

fn authid(view: &View<'_>, user: &UserId) -> Result<Option<Authid>, Error> {
    Ok(userid_of(view, user)?.map(Authid::from))
}

/// The name of a user, if the user exists.
pub(crate) fn userid_of(view: &View<'_>, user: &UserId) -> Result<Option<Userid>, Error> {
    let Some(user) = view.get::<User>(user)? else { return Ok(None) };
    let Some(domain) = view.get::<Domain>(&user.domain)? else { return Ok(None) };
    Ok(Userid::new(&user.name, domain.name).ok())
}

/// A name that no user has, always the same for the same request.
fn nobody(said: &str, is_credential: bool) -> Authid {
    let digest = KeyMaker::new(&MemoSeed(*b"enfilade nobody1"), "nobody").bytes(said.as_bytes()).key();
    let name = u128::from_be_bytes(digest.as_choice());
    let token = if is_credential { "!nothing" } else { "" };
    let authid = format!("nobody-{name:032x}@nowhere{token}").parse();
    authid.unwrap_or_else(|_| Userid::root_pam().into())
}
