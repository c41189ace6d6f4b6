//! Finds the ids for names, and the names for ids.

use crate::error::Error;
use enfilade_access::well_known;
use enfilade_facts::tables::{Credential, Domain, Group, Name, NameKey, NamedRole, User, Who};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, GroupId, GroupName, Realm, RoleId, Sid, TokenName, Ugid, UserId, Userid,
};
use enfilade_facts::{Read, Source, SourceError, View};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// A user, token or group by name: `user@realm`, `user@realm!token`, `@group`, or `@group@realm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One user.
    User(Userid),
    /// One token.
    Token(Userid, TokenName),
    /// All members of a group.
    Group(GroupName),
}

impl Target {
    /// The name of the target in `acl.cfg`; `None` if that file cannot name it.
    pub(crate) fn ugid(&self) -> Option<Ugid> {
        self.to_string().parse().ok().or_else(|| match self {
            Target::Group(group) => Some(Ugid::Group(group.clone())),
            _ => None,
        })
    }
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(group) = text.strip_prefix('@') {
            return Ok(Target::Group(group.parse()?));
        }
        let Authid { user, token } = text.parse()?;
        Ok(token.map_or(Target::User(user.clone()), |token| Target::Token(user, token)))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::User(user) => write!(f, "{user}"),
            Target::Token(user, token) => write!(f, "{user}!{token}"),
            Target::Group(group) => write!(f, "@{group}"),
        }
    }
}

pub(crate) fn domain_id(view: &View<'_>, realm: &Realm) -> Result<DomainId, Error> {
    let found = view.get::<Name>(&NameKey::domain(realm))?.map(Name::domain);
    found.ok_or_else(|| Error::Missing {
        what: "realm",
        name: realm.to_string(),
        hint: "see `enfilade domain list`; the built-in realm is `local`, and `enfilade domain add` creates another one",
    })
}

pub(crate) fn user_id(view: &View<'_>, user: &Userid) -> Result<UserId, Error> {
    let domain = domain_id(view, user.realm())?;
    let found = view.get::<Name>(&NameKey::user(&domain, user.name()))?.map(Name::user);
    found.ok_or_else(|| Error::Missing {
        what: "user",
        name: user.to_string(),
        hint: "see `enfilade user list`",
    })
}

pub(crate) fn group_id(view: &View<'_>, group: &GroupName) -> Result<GroupId, Error> {
    let domain = domain_id(view, group.realm())?;
    let found = view.get::<Name>(&NameKey::group(&domain, group.name()))?.map(Name::group);
    found.ok_or_else(|| Error::Missing {
        what: "group",
        name: group.to_string(),
        hint: "see `enfilade group list`",
    })
}

pub(crate) fn who(view: &View<'_>, target: &Target) -> Result<Who, Error> {
    match target {
        Target::User(user) => Ok(Who::User(user_id(view, user)?)),
        Target::Token(user, token) => Ok(Who::Token(token_id(view, user, token)?)),
        Target::Group(group) => Ok(Who::Group(group_id(view, group)?)),
    }
}

pub(crate) fn role_id(view: &View<'_>, name: &str) -> Result<RoleId, Error> {
    if let Ok(id) = name.parse::<RoleId>()
        && view.get::<NamedRole>(&id)?.is_some()
    {
        return Ok(id);
    }
    let found = view.get::<Name>(&NameKey::role(name))?.map(Name::role);
    let hint = "see `enfilade role list --named`, or create the role with `enfilade role define`";
    found.ok_or_else(|| Error::Missing { what: "role", name: name.to_owned(), hint })
}

pub(crate) fn token_id(view: &View<'_>, owner: &Userid, name: &TokenName) -> Result<CredentialId, Error> {
    let found = view.get::<Name>(&NameKey::token(&user_id(view, owner)?, name))?.map(Name::credential);
    found.ok_or_else(|| Error::Missing {
        what: "token",
        name: format!("{owner}!{name}"),
        hint: "see `enfilade token list`",
    })
}

/// The error for a record that another record refers to and that does not exist.
pub(crate) fn dangling(what: &'static str, id: impl fmt::Display) -> Error {
    Error::Invalid(format!(
        "a record refers to {what} {id}, which does not exist; the facts are damaged: run `enfilade facts check`"
    ))
}

/// Every realm.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_realms(source: &dyn Source) -> Result<Vec<String>, Error> {
    let domains = source.read(|view| view.list::<Domain>(&[]))??;
    Ok(domains.into_iter().map(|(_, domain)| domain.name.to_string()).collect())
}

/// The names of users and groups by id and SID, read once for printing.
#[derive(Debug, Default)]
pub struct Names {
    users: HashMap<UserId, String>,
    groups: HashMap<GroupId, String>,
    tokens: HashMap<CredentialId, String>,
    sids: HashMap<Sid, String>,
}

impl Names {
    /// Reads all names in the view.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn read(view: &View<'_>) -> Result<Self, SourceError> {
        let realms: HashMap<DomainId, Realm> =
            view.list::<Domain>(&[])?.into_iter().map(|(id, domain)| (id, domain.name)).collect();
        let realm = |id: &DomainId| realms.get(id).map_or("?", Realm::as_str).to_owned();
        let mut names = Names::default();
        for (id, user) in view.list::<User>(&[])? {
            let name = format!("{}@{}", user.name, realm(&user.domain));
            names.called(&user.sid, &user.also, &name);
            names.users.insert(id, name);
        }
        for (id, group) in view.list::<Group>(&[])? {
            let name = format!("@{}@{}", group.name, realm(&group.domain));
            names.called(&group.sid, &group.also, &name);
            names.groups.insert(id, name);
        }
        Ok(names)
    }

    fn called(&mut self, sid: &Sid, also: &[Sid], name: &str) {
        self.sids.extend(also.iter().chain([sid]).map(|sid| (*sid, name.to_owned())));
    }

    /// Adds the names of these tokens.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub(crate) fn with_tokens(
        mut self,
        view: &View<'_>,
        ids: impl Iterator<Item = CredentialId>,
    ) -> Result<Self, SourceError> {
        for id in ids {
            if let Some(token) = view.get::<Credential>(&id)? {
                self.tokens.insert(id, format!("{}!{}", self.user(&token.owner), token.name));
            }
        }
        Ok(self)
    }

    /// A user's name, or the id if the user does not exist.
    pub fn user(&self, id: &UserId) -> String {
        self.users.get(id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// A group's name, or the id if the group does not exist; with `@` in front.
    pub fn group(&self, id: &GroupId) -> String {
        self.groups.get(id).cloned().unwrap_or_else(|| format!("@{id}"))
    }

    /// The name of a user, group or token, or the id if the record does not exist.
    pub fn who(&self, who: &Who) -> String {
        match who {
            Who::User(id) => self.user(id),
            Who::Group(id) => self.group(id),
            Who::Token(id) => self.tokens.get(id).cloned().unwrap_or_else(|| id.to_string()),
            Who::Named(ugid) => ugid.to_string(),
        }
    }

    /// Replaces every SID of a user or group of this store in a text by the name.
    pub fn naming(&self, text: &str) -> String {
        let mut known: Vec<(String, &String)> =
            self.sids.iter().map(|(sid, name)| (sid.to_string(), name)).collect();
        // The longest SID is replaced first, because one SID may be a prefix of another.
        known.sort_by_key(|(sid, _)| std::cmp::Reverse(sid.len()));
        known.iter().fold(text.to_owned(), |text, (sid, name)| text.replace(sid, name))
    }

    /// The name of the user or group with this SID, or of a well-known SID.
    pub fn sid(&self, sid: &Sid) -> Option<String> {
        self.sids.get(sid).cloned().or_else(|| well_known(sid).map(str::to_owned))
    }
}
