//! Administration: whether the visitor may see or change access rights. Roles on the paths of Proxmox (`/access/users`, `/access/acl`) decide, by the
//! privileges that they contain.

use crate::lending::{Lending, lends_administration};
use crate::permit::AdminPermit;
use crate::refuse::Refusal;
use crate::roles::{resolve, resolve_below};
use crate::view::View;
use enfilade_facts::vocabulary::{Privileges, RolePath, Userid};
use enfilade_facts::{Clocks, Requester};
use enfilade_identity::{IdentityPermit, Principal, Reach};

/// The path on which roles for all datastores are assigned.
const DATASTORES: &str = "/datastore";

/// The question to [`administer`].
#[derive(Clone, Copy, Debug)]
pub struct AdminAsk<'a> {
    /// The path on which the privileges are needed.
    pub path: &'a RolePath,
    /// All privileges that are needed on the path.
    pub needed: Privileges,
    /// The kind of call, which determines whether a lent credential may make the call.
    pub lending: Lending,
    /// The user, if the call is about the record of this user. This user needs no privileges for the call. An API token of the user needs the
    /// privileges, because a token may not administer its owner.
    pub own: Option<&'a Userid>,
}

/// Judges a call of the visitor, at the revision of `view`. This is the only place where an [`AdminPermit`] is made.
///
/// # Errors
/// [`Refusal::NoPrivilege`] if a privilege is missing, or [`Refusal::Facts`] if the stored facts cannot be read.
pub fn administer(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    identity: &IdentityPermit,
    ask: &AdminAsk<'_>,
) -> Result<AdminPermit, Refusal> {
    lends(identity, ask.lending)?;
    let principal = identity.principal();
    let authid = &principal.authid;
    // A session or token that is limited to a project has privileges only on datastores.
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

/// Checks that the visitor's credential may make a call of the kind `lending`. A lent credential may make only calls of certain kinds.
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

/// A principal's privileges on a path, and the privileges that also apply below the path.
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
