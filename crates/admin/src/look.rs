//! From names to ids and back.

use crate::error::Error;
use enfilade_access::well_known;
use enfilade_facts::tables::{Domain, Group, Name, NameKey, User, Who};
use enfilade_facts::vocabulary::{DomainId, GroupId, GroupName, Realm, Sid, UserId, Userid};
use enfilade_facts::{SourceError, View};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Whom something is for, as people write it: `user@realm`, or `@group`, or `@group@realm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One user.
    User(Userid),
    /// Everybody in a group.
    Group(GroupName),
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(group) = text.strip_prefix('@') {
            return Ok(Target::Group(group.parse()?));
        }
        if text.rsplit_once('@').is_some_and(|(_, realm)| realm.contains('!')) {
            let owner = text.rsplit_once('!').map_or(text, |(owner, _)| owner);
            return Err(Error::Invalid(format!(
                "`{text}` is a token, and a token has its owner's rights: name `{owner}`"
            )));
        }
        Ok(Target::User(text.parse()?))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::User(user) => write!(f, "{user}"),
            Target::Group(group) => write!(f, "@{group}"),
        }
    }
}

pub(crate) fn domain_id(view: &View<'_>, realm: &Realm) -> Result<DomainId, Error> {
    let found = view.get::<Name>(&NameKey::domain(realm))?.map(Name::domain);
    found.ok_or_else(|| Error::Missing {
        what: "realm",
        name: realm.to_string(),
        hint: "the realm of this house is `local`",
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
        Target::Group(group) => Ok(Who::Group(group_id(view, group)?)),
    }
}

/// A record that a name or a membership speaks of and that is not there.
pub(crate) fn dangling(what: &'static str, id: impl fmt::Display) -> Error {
    Error::Invalid(format!("{what} {id} is spoken of but not there; the facts are damaged"))
}

/// The names of users and groups by id and SID, read once for printing.
#[derive(Debug, Default)]
pub struct Names {
    users: HashMap<UserId, String>,
    groups: HashMap<GroupId, String>,
    sids: HashMap<Sid, String>,
}

impl Names {
    /// Of everybody in the view.
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
            names.sids.insert(user.sid, name.clone());
            names.users.insert(id, name);
        }
        for (id, group) in view.list::<Group>(&[])? {
            let name = format!("@{}@{}", group.name, realm(&group.domain));
            names.sids.insert(group.sid, name.clone());
            names.groups.insert(id, name);
        }
        Ok(names)
    }

    /// A user's name, or the id where it is gone.
    pub fn user(&self, id: &UserId) -> String {
        self.users.get(id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// A group's name with `@` in front, or the id where it is gone.
    pub fn group(&self, id: &GroupId) -> String {
        self.groups.get(id).cloned().unwrap_or_else(|| format!("@{id}"))
    }

    /// Either's.
    pub fn who(&self, who: &Who) -> String {
        match who {
            Who::User(id) => self.user(id),
            Who::Group(id) => self.group(id),
        }
    }

    /// A text with every SID of a user or group here replaced by its name.
    pub fn naming(&self, text: &str) -> String {
        let mut known: Vec<(String, &String)> =
            self.sids.iter().map(|(sid, name)| (sid.to_string(), name)).collect();
        // The longest first: one SID may be how another begins.
        known.sort_by_key(|(sid, _)| std::cmp::Reverse(sid.len()));
        known.iter().fold(text.to_owned(), |text, (sid, name)| text.replace(sid, name))
    }

    /// What an ACL's SID is called here.
    pub fn sid(&self, sid: &Sid) -> Option<String> {
        self.sids.get(sid).cloned().or_else(|| well_known(sid).map(str::to_owned))
    }
}
