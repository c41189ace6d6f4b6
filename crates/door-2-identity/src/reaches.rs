//! Determines the principal of a user or token. No credential is needed for this. Such principals are needed to explain or review access, and to
//! judge the file locks of users who make no request at present. This module grants no permit.

use crate::account::{self, AccountState};
use crate::grant::principal;
use crate::judge;
use crate::memo::IdentityMemo;
use crate::mfa;
use crate::passcode;
use crate::principal::{Principal, Reach};
use crate::refuse::Refusal;
use crate::session::{HeldRole, Methods, Scope};
use crate::standing;
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{Authid, ProjectId, UserId};

/// The principal of a client that logged in as `authid` with the correct secret: for explanations and reviews. If `project` is given, returns the
/// principal of a session for the project that is issued for this login.
///
/// # Errors
/// The refusals of a login with the correct secret, and of a session for the project. Whether a secret exists is not checked ([`lacks_secret`]).
pub fn who_would(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    authid: &Authid,
    project: Option<&ProjectId>,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let view = View::new(view);
    let account = account_of(&view, now, authid)?;
    let principal = principal(&view, &account, memo)?;
    let Some(project) = project else { return Ok(principal) };
    if !judge::is_open(&view, project)? {
        return Err(Refusal::NoScope(Refusal::PROJECT_CLOSED));
    }
    let credential = account.credential.as_ref().map(|(id, _)| id);
    let roles = judge::roles_on(&view, &account.id, Scope::Project(*project), credential)?;
    let reach = match principal.reach {
        Reach::Nothing => Reach::Nothing,
        _ => Reach::Project { project: *project, roles: roles.into_iter().map(|role| role.name).collect() },
    };
    Ok(Principal { reach, ..principal })
}

/// If no login as `authid` can succeed, returns the refusal of such a login. For a user, this is the refusal of [`check_login`], and for a token, the
/// refusal of [`crate::check_secret`]. If a login can succeed, returns `None`. If `with_password` is set and the user needs further methods in
/// addition to the password, the result is [`Refusal::MoreMethods`], even if the user has another way to log in.
///
/// # Errors
/// The refusals of [`who_would`], if the user or token is not valid at all.
pub fn lacks_secret(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    authid: &Authid,
    with_password: bool,
) -> Result<Option<Refusal>, Refusal> {
    let account = account_of(&View::new(view), now, authid)?;
    let checked = match &account.credential {
        None => match standing::check_secret(view, now, account.id, None) {
            Err(why @ Refusal::MoreMethods { .. }) if with_password => Err(why),
            _ => check_login(view, now, account.id),
        },
        Some((id, _)) => standing::check_secret(view, now, account.id, Some(*id)),
    };
    match checked {
        Ok(()) => Ok(None),
        Err(why @ Refusal::Facts(_)) => Err(why),
        Err(_) if account.credential.is_some() && account.verifiers(now).next().is_none() => {
            Ok(Some(Refusal::no_secret(authid.clone())))
        }
        Err(why) => Ok(Some(why)),
    }
}

/// Checks that there is a login that gives the user all rights of the user. This can be a login with the password alone, with the password and a
/// passcode (for a session), or with an API token. A token that has roles of its own, or that is for one project, does not count, because it does not
/// have all rights of its user.
///
/// # Errors
/// [`Refusal::NoPassword`] if the user has no password, otherwise the refusal of a login with the correct password.
pub fn check_login(view: &enfilade_facts::View<'_>, now: Clocks, user: UserId) -> Result<(), Refusal> {
    let own = View::new(view);
    let why = match standing::check_secret(view, now, user, None) {
        Ok(()) => return Ok(()),
        Err(why @ Refusal::Facts(_)) => return Err(why),
        Err(Refusal::MoreMethods { .. })
            if mfa::suffice(&mfa::rules_of(&own, &user)?, Methods::PASSWORD.and(Methods::TOTP))
                && passcode::has_secret(&own, &user)? =>
        {
            return Ok(());
        }
        Err(Refusal::BadHash { authid, .. })
            if own.user(&user)?.is_some_and(|row| row.password.is_none()) =>
        {
            Refusal::NoPassword(authid)
        }
        Err(why) => why,
    };
    for id in own.tokens_of(&user)? {
        let is_like_user = own.credential(&id)?.is_some_and(|token| !token.own_roles && token.link.is_none())
            && own.delegation(&id)?.is_none();
        if is_like_user && standing::check_secret(view, now, user, Some(id)).is_ok() {
            return Ok(());
        }
    }
    Err(why)
}

fn account_of(view: &View<'_>, now: Clocks, authid: &Authid) -> Result<AccountState, Refusal> {
    let unknown = || Refusal::Unknown(authid.clone());
    let (user, token) = account::ids_of(view, authid)?.ok_or_else(unknown)?;
    let account = AccountState::of(view, authid, user, token)?.ok_or_else(unknown)?;
    account.check(view, now)?;
    Ok(account)
}

/// The principals that sessions of this user can have now. The first principal is for a session of the user in person. If `project` is given, the
/// principals of sessions for the project follow: one for the user in person, and one for each trust. Credentials that the user made give no further
/// rights. Empty for a user who is deleted, disabled or expired.
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
