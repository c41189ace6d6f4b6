//! Administration: may they look at or change who may do what? Roles on the paths of Proxmox (`/access/users`, `/access/acl`)
//! decide, by the privileges they hold.

use crate::lending::{Lending, lends_administration};
use crate::permit::AdminPermit;
use crate::refuse::Refusal;
use crate::roles::{resolve, resolve_below};
use crate::view::View;
use enfilade_facts::vocabulary::{Privileges, RolePath, Userid};
use enfilade_facts::{Clocks, Requester};
use enfilade_identity::{IdentityPermit, Principal, Reach};

/// Where roles on datastores are.
const DATASTORES: &str = "/datastore";

/// What administration is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AdminAsk<'a> {
    /// Where.
    pub path: &'a RolePath,
    /// All of these have to be held there.
    pub needed: Privileges,
    /// What it is to what was lent.
    pub lending: Lending,
    /// Whose own it is: this user needs none of them, come with a password. A token does not administer its owner.
    pub own: Option<&'a Userid>,
}

/// May the visitor, at this revision? The one place an [`AdminPermit`] is made (invariant D2).
///
/// # Errors
/// [`Refusal::NoPrivilege`], or when the facts cannot be read.
pub fn administer(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    identity: &IdentityPermit,
    ask: &AdminAsk<'_>,
) -> Result<AdminPermit, Refusal> {
    lends(identity, ask.lending)?;
    let principal = identity.principal();
    let authid = &principal.authid;
    // A session for a project is for the datastores that are bound to it.
    if principal.reach != Reach::Everything && !ask.path.as_str().starts_with(DATASTORES) {
        let missing = "a session or token that is not limited to a project".to_owned();
        return Err(Refusal::NoPrivilege { path: ask.path.to_string(), missing });
    }
    let is_own =
        principal.reach == Reach::Everything && authid.token.is_none() && ask.own == Some(&authid.user);
    let (here, _) = privileges(view, now, principal, ask.path)?;
    if is_own || here.covers(ask.needed) {
        let by_role = here.covers(ask.needed) && ask.needed != Privileges::NONE;
        let requester = if by_role { Requester::Administrator } else { Requester::User };
        return Ok(AdminPermit { who: authid.clone(), requester });
    }
    let missing = ask.needed.names().collect::<Vec<_>>().join(", ");
    Err(Refusal::NoPrivilege { path: ask.path.to_string(), missing })
}

/// May the visitor make such a call at all, with what was lent, if anything was?
///
/// # Errors
/// [`Refusal::NoPrivilege`].
pub fn lends(identity: &IdentityPermit, lending: Lending) -> Result<(), Refusal> {
    if lends_administration(identity, lending) {
        return Ok(());
    }
    let missing = "the user's own login, or an API token that has all roles of its owner".to_owned();
    Err(Refusal::NoPrivilege { path: "this call".to_owned(), missing })
}

/// A principal's privileges on a path, and those that also hold below it.
///
/// # Errors
/// When the facts cannot be read.
pub fn privileges(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    path: &RolePath,
) -> Result<(Privileges, Privileges), Refusal> {
    let view = View(view);
    let here = resolve(&view, now, principal, path.as_str())?.privileges();
    Ok((here, resolve_below(&view, now, principal, path.as_str())?.privileges()))
}
