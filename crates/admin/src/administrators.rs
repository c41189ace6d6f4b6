//! The administrators of the server and of the cloud, and whether they can log in.

mod cloud;

use crate::access::{members, name_of_user};
use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use crate::resolve::{group_id, user_id};
use enfilade_facts::tables::{Assignment, AssignmentKey, Grantee, User, Who};
use enfilade_facts::vocabulary::{CredentialId, Role, Ugid, UserId, Userid};
use enfilade_facts::{After, Change, Clocks, MemoSeed, MirrorHealth, Read, Source, View};
use enfilade_identity::{IdentityMemo, Principal, Refusal, who_would};
use std::collections::BTreeSet;

/// The usual administrators, in the order in which they are listed.
const USUAL_ADMINISTRATORS: [&str; 3] = ["admin@local", "root@pam", "admin@Default"];

/// The path on which the API of Proxmox checks rights before it changes roles.
const ROLES: &str = "/access/acl";

/// The size of the memo for one check of all administrators, in bytes.
const MEMO_BYTES: usize = 1 << 12;

/// What a user administers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Administers {
    /// The server: the user has the role Admin on `/`, and no other role takes the rights of Admin away on `/access/acl`.
    Server,
    /// The cloud: the user has the role `admin` on the system, on a domain or on a project.
    Cloud,
}

impl Administers {
    /// Both kinds of administrators.
    pub const ALL: [Self; 2] = [Self::Server, Self::Cloud];

    /// The role that makes a user an administrator of this kind.
    pub fn role(self) -> &'static str {
        match self {
            Self::Server => "the role Admin on / and /access",
            Self::Cloud => "the role admin on the system, a domain or a project",
        }
    }

    /// The commands that make a user an administrator of this kind.
    pub fn new_one(self) -> &'static str {
        match self {
            Self::Server => {
                "run `enfilade user add NAME@local --password`, then `enfilade role assign --path / --auth-id NAME@local Admin`"
            }
            Self::Cloud => "run `enfilade bootstrap --user NAME@DOMAIN`",
        }
    }

    /// The users and groups that have the role of these administrators. A user with this role is not an administrator if another role takes the
    /// rights away ([`Self::has`]).
    fn grantees(self, view: &View<'_>) -> Result<BTreeSet<Grantee>, Error> {
        match self {
            Self::Server => with_admin(view),
            Self::Cloud => cloud::with_admin(view),
        }
    }

    /// Whether the principal has the rights of an administrator, by the rules of the doors.
    fn has(
        self,
        view: &View<'_>,
        now: Clocks,
        principal: &Principal,
        grantees: &BTreeSet<Grantee>,
    ) -> Result<bool, Error> {
        match self {
            Self::Server => {
                let (has, _) = enfilade_access::privileges(view, now, principal, &ROLES.parse()?)?;
                Ok(has.covers(Role::Admin.privileges()))
            }
            Self::Cloud => Ok(grantees.iter().any(|grantee| match grantee {
                Grantee::User(user) => *user == principal.user,
                Grantee::Group(group) => principal.is_in(group),
            })),
        }
    }
}

/// An administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Administrator {
    /// The name of the user.
    pub name: Userid,
    /// Why the user cannot log in with all roles of the user. `None` if the user can do this, or if only a lock prevents the login for some time.
    pub refused: Option<Refusal>,
}

impl Administrator {
    /// Whether a login with the password, or with an API token, can give all roles of the user.
    pub fn can_log_in(&self) -> bool {
        self.refused.is_none()
    }
}

/// Every administrator who is enabled and not expired. The usual administrators come first.
///
/// # Errors
/// When the facts cannot be read.
pub fn administrators(source: &dyn Source, of: Administers, now: i64) -> Result<Vec<Administrator>, Error> {
    source.read(|view| found(view, of, now))?
}

/// Whether at least one administrator of this kind can log in.
///
/// # Errors
/// When the facts cannot be read.
pub fn has_administrator(source: &dyn Source, of: Administers, now: i64) -> Result<bool, Error> {
    source.read(|view| has_one(view, of, now))?
}

fn has_one(view: &View<'_>, of: Administers, now: i64) -> Result<bool, Error> {
    Ok(found(view, of, now)?.iter().any(Administrator::can_log_in))
}

impl ChangeContext<'_> {
    /// Refuses the change if no administrator of a kind (server or cloud) could log in after the change, although one can log in now, by the facts of
    /// the view.
    pub(crate) fn keep_administrators(&self, view: &View<'_>, change: &Change) -> Result<(), Error> {
        let now = self.now.unix_seconds;
        let after = After::of(view, change)?;
        for of in Administers::ALL {
            if has_one(view, of, now)? && !has_one(&after.view(), of, now)? {
                return Err(Error::Refused(format!(
                    "nothing was changed: no user who can log in would have {} after this change, so nobody could administer the {} over HTTP. First make \
                     another administrator ({}), or add --force",
                    of.role(),
                    if of == Administers::Server { "server" } else { "cloud" },
                    of.new_one()
                )));
            }
        }
        Ok(())
    }
}

fn found(view: &View<'_>, of: Administers, now: i64) -> Result<Vec<Administrator>, Error> {
    let grantees = of.grantees(view)?;
    let mut users = BTreeSet::new();
    for grantee in &grantees {
        match grantee {
            Grantee::User(id) => drop(users.insert(*id)),
            Grantee::Group(id) => users.extend(members(view, *id)?),
        }
    }
    let (memo, clocks) = (IdentityMemo::new(MemoSeed(random()?), MEMO_BYTES), at(now));
    let mut found = Vec::new();
    for id in users {
        let is_live = |user: &User| user.enabled && (user.expires == 0 || now < user.expires);
        if !view.get::<User>(&id)?.is_some_and(|user| is_live(&user)) {
            continue;
        }
        let Some(name) = name_of_user(view, &id)? else { continue };
        let refused = match who_would(view, clocks, &name.clone().into(), None, &memo) {
            Ok(principal) if !of.has(view, clocks, &principal, &grantees)? => continue,
            Ok(_) => refused(view, &id, None, now)?,
            Err(Refusal::Facts(why)) => return Err(why.into()),
            Err(why) => Some(why),
        };
        found.push(Administrator { name, refused });
    }
    let usual = |name: &Userid| USUAL_ADMINISTRATORS.iter().position(|usual| *usual == name.to_string());
    found.sort_by_key(|found| (usual(&found.name).unwrap_or(usize::MAX), found.name.clone()));
    Ok(found)
}

/// The users and groups with the role Admin on `/`.
fn with_admin(view: &View<'_>) -> Result<BTreeSet<Grantee>, Error> {
    let mut found = BTreeSet::new();
    for (key, row) in view.list::<Assignment>(&AssignmentKey::node_prefix("/"))? {
        if row.roles.iter().all(|(role, _)| *role != Role::Admin) {
            continue;
        }
        let grantee = match key.who {
            Who::User(id) => Ok(Grantee::User(id)),
            Who::Group(id) => Ok(Grantee::Group(id)),
            Who::Named(Ugid::Authid(authid)) if authid.token.is_none() => {
                user_id(view, &authid.user).map(Grantee::User)
            }
            Who::Named(Ugid::Group(group)) => group_id(view, &group).map(Grantee::Group),
            Who::Token(_) | Who::Named(_) => continue,
        };
        match grantee {
            // `acl.cfg` can contain users and groups that do not exist.
            Err(Error::Missing { .. }) => {}
            grantee => drop(found.insert(grantee?)),
        }
    }
    Ok(found)
}

/// The clocks for the check whether an administrator can log in. This check assumes that the server has read the newest version of the files that
/// people edit, because `enfilade doctor` reports stale files separately.
fn at(now: i64) -> Clocks {
    Clocks { unix_seconds: now, tick_millis: 0, mirror: MirrorHealth::Current }
}

/// Why the user cannot log in with all roles of the user. If `token` is given: why no client can log in with this API token of the user. `None` if
/// the login is possible, or if only a lock prevents the login.
pub(crate) fn refused(
    view: &View<'_>,
    user: &UserId,
    token: Option<CredentialId>,
    now: i64,
) -> Result<Option<Refusal>, Error> {
    let checked = match token {
        None => enfilade_identity::check_login(view, at(now), *user),
        Some(_) => enfilade_identity::check_secret(view, at(now), *user, token),
    };
    match checked {
        Err(Refusal::Facts(why)) => Err(why.into()),
        // A locked user counts as able to log in, because the lock ends by itself after some time.
        Err(Refusal::Locked(_)) => Ok(None),
        checked => Ok(checked.err()),
    }
}

/// Why neither the user's password nor an API token gives a login with all roles of the user. `None` if one of them gives such a login, or if only a
/// lock prevents the login, because the lock ends by itself after some time.
///
/// # Errors
/// When the user does not exist, or the facts cannot be read.
pub fn why_no_login(source: &dyn Source, user: &Userid, now: i64) -> Result<Option<Refusal>, Error> {
    source.read(|view| refused(view, &user_id(view, user)?, None, now))?
}
