//! How far the sessions of a user can reach, with the right secrets: asked when the rights of somebody count who did not come.

use crate::grant::principal;
use crate::judge;
use crate::memo::IdentityMemo;
use crate::principal::{Principal, Reach};
use crate::refuse::Refusal;
use crate::session::{HeldRole, Scope};
use crate::standing::{self, Standing};
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{Authid, ProjectId, UserId};

/// Who `authid` would be if the secret were right: for `explain` and reviews. No permit comes of it.
///
/// # Errors
/// As for a visitor with the right secret.
pub fn who_would(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    authid: &Authid,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let view = View::new(view);
    let unknown = || Refusal::Unknown(authid.clone());
    let (user, token) = standing::named(&view, authid)?.ok_or_else(unknown)?;
    let standing = Standing::of(&view, authid, user, token)?.ok_or_else(unknown)?;
    standing.check(&view, now)?;
    principal(&view, &standing, memo)
}

/// Each reach that a session of this user can have now: of the user in person, and where a project is named, of sessions for this project, in
/// person and by each trust. Credentials that the user has made reach no further. Empty for a user who is deleted, disabled or expired.
/// No permit comes of it.
///
/// # Errors
/// When the facts do not say: they cannot be read, or what a file says of the user is not known.
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
    let Some(standing) = Standing::of(view, &Authid::from(userid), user, None)? else {
        return Ok(Vec::new());
    };
    match standing.check(view, now) {
        Err(Refusal::Disabled { .. } | Refusal::Expired { .. }) => return Ok(Vec::new()),
        checked => checked?,
    }
    let mut found = vec![principal(view, &standing, memo)?];
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
