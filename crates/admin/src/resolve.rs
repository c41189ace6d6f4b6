//! Finds the ids for names, and the names for ids.

use crate::error::Error;
use enfilade_access::well_known;
use enfilade_facts::tables::{Credential, Domain, Group, Name, NameKey, NamedRole, User, Who};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, GroupId, GroupName, Realm, RoleId, Sid, TokenName, Ugid, UserId, Userid,
    word_of_id,
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
    /// The name of the target in `acl.cfg`; `None` if that file cannot contain the name.
    pub(crate) fn ugid(&self) -> Option<Ugid> {
        let ugid = match self {
            Target::Group(group) => Ugid::Group(group.clone()),
            Target::User(user) => Ugid::Authid(user.clone().into()),
            Target::Token(user, token) => {
                Ugid::Authid(Authid { user: user.clone(), token: Some(token.clone()) })
            }
        };
        (ugid.to_string().parse().as_ref() == Ok(&ugid)).then_some(ugid)
    }
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(group) = text.strip_prefix('@') {
            return Ok(Target::Group(group.parse()?));
        }
        Ok(Ugid::Authid(text.parse()?).into())
    }
}

impl From<Ugid> for Target {
    fn from(ugid: Ugid) -> Self {
        match ugid {
            Ugid::Group(group) => Target::Group(group),
            Ugid::Authid(Authid { user, token: None }) => Target::User(user),
            Ugid::Authid(Authid { user, token: Some(token) }) => Target::Token(user, token),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::User(user) => write!(f, "{user}"),
            Target::Token(user, token) => {
                write!(f, "{}", Authid { user: user.clone(), token: Some(token.clone()) })
            }
            Target::Group(group) => write!(f, "@{group}"),
        }
    }
}

pub(crate) fn domain_id(view: &View<'_>, realm: &Realm) -> Result<DomainId, Error> {
    let found = view.get::<Name>(&NameKey::domain(realm))?.map(|name| name.domain());
    found.ok_or_else(|| Error::Missing {
        what: "realm",
        name: realm.to_string(),
        hint: "see `enfilade domain list`; the built-in realm is `local`, and `enfilade domain add` creates another one",
    })
}

pub(crate) fn user_id(view: &View<'_>, user: &Userid) -> Result<UserId, Error> {
    let domain = domain_id(view, user.realm())?;
    let found = view.get::<Name>(&NameKey::user(&domain, user.name()))?.map(|name| name.user());
    found.ok_or_else(|| Error::Missing {
        what: "user",
        name: user.to_string(),
        hint: "see `enfilade user list`",
    })
}

pub(crate) fn group_id(view: &View<'_>, group: &GroupName) -> Result<GroupId, Error> {
    let domain = domain_id(view, group.realm())?;
    let found = view.get::<Name>(&NameKey::group(&domain, group.name()))?.map(|name| name.group());
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
    let found = view.get::<Name>(&NameKey::role(name))?.map(|name| name.role());
    let hint = "see `enfilade role list --named`, or create the role with `enfilade role define`";
    found.ok_or_else(|| Error::Missing { what: "role", name: name.to_owned(), hint })
}

pub(crate) fn token_id(view: &View<'_>, owner: &Userid, name: &TokenName) -> Result<CredentialId, Error> {
    let found =
        view.get::<Name>(&NameKey::token(&user_id(view, owner)?, name))?.map(|name| name.credential());
    found.ok_or_else(|| Error::Missing {
        what: "token",
        name: Authid { user: owner.clone(), token: Some(name.clone()) }.to_string(),
        hint: "see `enfilade token list`",
    })
}

/// The error for a record that does not exist, although another record refers to it.
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
    users: HashMap<UserId, Userid>,
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
        let mut names = Names::default();
        for (id, user) in view.list::<User>(&[])? {
            let realm = realms.get(&user.domain).cloned();
            // A user of a deleted domain has no name.
            if let Some(userid) = realm.and_then(|realm| Userid::new(&user.name, realm).ok()) {
                names.called(&user.sid, &user.also, &userid.to_string());
                names.users.insert(id, userid);
            }
        }
        for (id, group) in view.list::<Group>(&[])? {
            let realm = realms.get(&group.domain).cloned();
            let name = realm.and_then(|realm| GroupName::new(&group.name, realm).ok());
            let name = name.map_or_else(|| format!("@{id}"), |group| format!("@{group}"));
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
                self.tokens.insert(id, self.token(&token.owner, &token.name));
            }
        }
        Ok(self)
    }

    /// A user's name, or the id if the user does not exist.
    pub fn user(&self, id: &UserId) -> String {
        self.users.get(id).map_or_else(|| id.to_string(), ToString::to_string)
    }

    /// A token's name. If the owner does not exist, the name begins with the id of the owner.
    pub(crate) fn token(&self, owner: &UserId, name: &TokenName) -> String {
        match self.users.get(owner) {
            Some(user) => Authid { user: user.clone(), token: Some(name.clone()) }.to_string(),
            None => format!("{owner}!{}", word_of_id(name.as_str())),
        }
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

    /// Replaces every SID of a user or group of this store in a text by the name of the user or group.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_written_in_a_way_of_its_own() {
        let user = |name: &str| Userid::new(name, Realm::local()).unwrap();
        let group = |name: &str| GroupName::new(name, Realm::local()).unwrap();
        for (target, text, in_file) in [
            (Target::User(user("staff")), "staff@local", Some("staff@local")),
            (Target::User(user("@staff")), "%40staff@%local", None),
            (Target::Token(user("@staff"), "t".parse().unwrap()), "%40staff@%local!t", None),
            (Target::Group(group("staff")), "@staff@local", Some("@staff")),
            (Target::Group(group("@staff")), "@%40staff@%local", None),
            (Target::User(user("a b")), "a%20b@%local", None),
        ] {
            assert_eq!(target.to_string(), text);
            assert_eq!(text.parse::<Target>().unwrap(), target);
            let ugid = target.ugid();
            assert_eq!(ugid.as_ref().map(ToString::to_string).as_deref(), in_file, "{text}");
            assert!(ugid.is_none_or(|ugid| Target::from(ugid) == target));
        }
    }
}
