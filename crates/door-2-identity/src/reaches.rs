//! Principals that presented no credential: for explanations, reviews, and locks whose owner is absent. A principal that this module returns gets no
//! permit.

use crate::account::{self, AccountState};
use crate::grant::principal;
use crate::judge;
use crate::memo::IdentityMemo;
use crate::principal::{Principal, Reach};
use crate::refuse::Refusal;
use crate::session::{HeldRole, Scope};
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{Authid, ProjectId, UserId};

/// The principal that `authid` has after a login with the correct secret: for explanations and reviews.
///
/// # Errors
/// The refusals of a login with the correct secret.
pub fn who_would(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    authid: &Authid,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let view = View::new(view);
    let unknown = || Refusal::Unknown(authid.clone());
    let (user, token) = account::ids_of(&view, authid)?.ok_or_else(unknown)?;
    let account = AccountState::of(&view, authid, user, token)?.ok_or_else(unknown)?;
    account.check(&view, now)?;
    principal(&view, &account, memo)
}

/// The principals that sessions of this user can have now. The first is the user in person. If `project` is given, the principals of sessions for the
/// project follow: the user in person, and the user through each trust. Credentials that the user made give no further rights. Empty for a user who
/// is deleted, disabled or expired.
///
/// # Errors
/// When the facts cannot be read, or a file that defines the user is stale or invalid.
pub fn reaches(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    user: UserId,
    project: Option<&ProjectId>,
    memo: &IdentityMemo,
) -> Result<Vec<Principal>, Refusal> {
    let view = &View::new(view);
    let Some(row) = view.user(&user)? else { return Ok(Vec::new()) };
    let Some(realm) = view.domain(&row.domain)?.map(|domain| domain.name) else { return Ok(Vec::new()) };
    let Some(userid) = judge::userid(&row.name, &realm) else { return Ok(Vec::new()) };
    let Some(account) = AccountState::of(view, &Authid::from(userid), user, None)? else {
        return Ok(Vec::new());
    };
    match account.check(view, now) {
        Err(Refusal::Disabled { .. } | Refusal::Expired { .. }) => return Ok(Vec::new()),
        checked => checked?,
    }
    let mut found = vec![principal(view, &account, memo)?];
    let Some(project) = project else { return Ok(found) };
    if !judge::is_open(view, project)? {
        return Ok(found);
    }
    let scope = Scope::Project(*project);
    let mut sets = vec![judge::roles_on(view, &user, scope, None)];
    for id in view.trusts_for(&user)? {
        let trusted = judge::trusted(view, now, &user, scope, &id);
        sets.push(trusted.and_then(|trusted| judge::lent_roles(view, &trusted.trust)));
    }
    for set in sets {
        let roles: Vec<HeldRole> = match set {
            Err(Refusal::NoScope(_)) => continue,
            set => set?,
        };
        let roles = roles.into_iter().map(|role| role.name).collect();
        let reach = Reach::Project { project: *project, roles };
        found.extend(found.first().cloned().map(|in_person| Principal { reach, ..in_person }));
    }
    Ok(found)
}
