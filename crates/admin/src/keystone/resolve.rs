//! Looks up users, credentials, projects and domains by the ids or names that clients of Keystone send. If a user or credential does not exist, the
//! result is an authid that no user or credential has. The login goes on with this authid, so it takes as long as a login with a wrong password.

use crate::error::Error;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::tables::{Credential, Domain, Name, NameKey, Project, User};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, ProjectId, UserId, Userid, Word, word_of_id,
};
use enfilade_facts::{MemoSeed, Read, Source, View};

/// A domain, as clients identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainRef {
    /// By id.
    Id(String),
    /// By name.
    Name(String),
}

/// A user or a project, as clients identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceRef {
    /// By id.
    Id(String),
    /// By name, in a domain.
    Named(String, DomainRef),
}

/// An application credential, as clients identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRef {
    /// By id.
    Id(String),
    /// By name, with the user who owns it.
    Named(String, ResourceRef),
}

impl ResourceRef {
    /// The word for the name or id that the client sent. Failed logins are counted under this word, and the log contains this word. If the client
    /// sent names, the word is the text form ([`Authid::to_word`]) of the authid with these names. So every kind of login has the same word for a
    /// user.
    pub fn word(&self) -> Word {
        self.word_with(None)
    }

    fn word_with(&self, token: Option<&str>) -> Word {
        match (self, token) {
            (ResourceRef::Named(name, DomainRef::Id(domain) | DomainRef::Name(domain)), token) => {
                Authid::word_of_parts(name, domain, token)
            }
            (ResourceRef::Id(id), None) => word_of_id(id),
            (ResourceRef::Id(id), Some(token)) => format!("{}!{}", word_of_id(id), word_of_id(token)).into(),
        }
    }
}

impl CredentialRef {
    /// The word for the id or the names that the client sent, as in [`ResourceRef::word`].
    pub fn word(&self) -> Word {
        match self {
            CredentialRef::Id(id) => word_of_id(id),
            CredentialRef::Named(name, user) => user.word_with(Some(name)),
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

/// An authid that no user or credential has. `said` is the reference that the client sent, as text. The same text always gives the same authid.
fn nobody(said: &str, is_credential: bool) -> Authid {
    let digest = KeyMaker::new(&MemoSeed(*b"enfilade nobody1"), "nobody").bytes(said.as_bytes()).key();
    let name = u128::from_be_bytes(digest.as_choice());
    let token = if is_credential { "!nothing" } else { "" };
    let authid = format!("nobody-{name:032x}@nowhere{token}").parse();
    authid.unwrap_or_else(|_| Userid::root_pam().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_word_of_its_authid_in_each_way_to_log_in() {
        let user = |name: &str, domain: &str| ResourceRef::Named(name.into(), DomainRef::Name(domain.into()));
        for (name, domain, word) in [
            ("alice", "local", "alice@local"),
            ("Jürgen Groß", "local", "J%C3%BCrgen%20Gro%C3%9F@%local"),
            ("@staff", "local", "%40staff@%local"),
            ("a", "lo\ncal", "a@%lo%0Acal"),
        ] {
            assert_eq!(user(name, domain).word(), word);
        }
        let credential = CredentialRef::Named("my laptop".into(), user("alice", "local"));
        assert_eq!(credential.word(), "alice@%local!my%20laptop");
        assert_eq!(ResourceRef::Id("alice@local".into()).word(), "alice%40local");
        let of_id = CredentialRef::Named("t".into(), ResourceRef::Id("7f".into()));
        assert_eq!(
            (of_id.word().as_str(), CredentialRef::Id("a b".into()).word().as_str()),
            ("7f!t", "a%20b")
        );
    }
}
