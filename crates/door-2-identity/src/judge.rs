//! Judges a session on the facts: its user, its scope, its roles, and the revocations.

use crate::account::AccountState;
use crate::principal::Reach;
use crate::refuse::Refusal;
use crate::revocations::{self, Revocations};
use crate::session::{Claim, HeldRole, Lent, Scope, Session, Trusted};
use crate::view::View;
use enfilade_facts::limits::{CREDENTIAL_CHAIN_MAX, REDELEGATIONS_MAX};
use enfilade_facts::tables::{AccessToken, Delegation, GrantScope, Revoked, Trust};
use enfilade_facts::vocabulary::{
    AccessTokenId, Authid, CredentialId, DomainId, ProjectId, Realm, TrustId, UserId, Userid,
};
use enfilade_facts::{Clocks, Index, Revision};
use std::collections::BTreeSet;

/// Whether a session that was valid at the earlier revision `judged` is certainly still valid at the revision of the view. The session is still valid
/// if only revocations were committed after `judged`, and no revocation ends the session. Otherwise the session must be judged anew.
pub(crate) fn is_still_valid(
    view: &View<'_>,
    session: &Session,
    judged: Revision,
    revocations: &Index<Revocations>,
) -> Result<bool, Refusal> {
    let Some(rests_on) = session.rests_on else { return Ok(false) };
    let look = revocations::look(view.facts, revocations, session, Some(judged))?;
    Ok(look.by.is_none() && look.over.is_none() && look.others == Some(rests_on))
}

/// The account and the session of a claim at the revision of the view. The caller checks the times of the claim.
pub(crate) fn judge_claim(
    view: &View<'_>,
    now: Clocks,
    claim: &Claim,
    revocations: &Index<Revocations>,
) -> Result<(AccountState, Session), Refusal> {
    let gone = || Refusal::SubjectDeleted;
    let view = &view.of_session(claim.issued_at, revocations);
    let user = view.user(&claim.user)?.ok_or_else(gone)?;
    let realm: Realm = view.domain(&user.domain)?.ok_or_else(gone)?.name;
    let mut authid = Authid::from(userid(&user.name, &realm).ok_or_else(gone)?);
    let credential = claim.credential();
    if let Some(credential) = &credential {
        authid.token = Some(view.credential(credential)?.ok_or_else(gone)?.name);
    }
    let account = AccountState::of(view, &authid, claim.user, credential)?.ok_or_else(gone)?;
    account.check(view, now)?;
    let user_domain = user.domain;
    let scope_domain = match claim.scope {
        Scope::Unscoped | Scope::System => None,
        Scope::Domain(domain) => Some(domain),
        Scope::Project(project) => {
            let row = view.project(&project)?.filter(|project| project.enabled);
            Some(row.ok_or(Refusal::NoScope(Refusal::PROJECT_CLOSED))?.domain)
        }
    };
    if let Some(domain) = scope_domain
        && !view.domain(&domain)?.is_some_and(|domain| domain.enabled)
    {
        return Err(Refusal::NoScope("the domain is deleted or disabled"));
    }
    let access = match claim.access_token() {
        Some(id) => Some(Box::new(accessed(view, now, &claim.user, claim.scope, &id)?)),
        None => None,
    };
    let trusted = match claim.lent {
        Some(Lent::Trust(id)) => Some(Box::new(trusted(view, now, &claim.user, claim.scope, &id)?)),
        _ => None,
    };
    // The roles are read before the revocations, so that a user without a role in the scope gets the refusal about the scope.
    let roles = match (&trusted, &access) {
        (Some(trusted), _) => lent_roles(view, &trusted.trust)?,
        (None, Some(access)) => accessed_roles(view, access)?,
        (None, None) => roles_on(view, &claim.user, claim.scope, credential.as_ref())?,
    };
    view.check_over(&authid)?;
    let delegation = account.delegation.clone();
    let mut session = Session {
        claim: *claim,
        roles,
        user_domain,
        scope_domain,
        delegation,
        trusted,
        access,
        audience: None,
        rests_on: None,
    };
    let look = revocations::look(view.facts, revocations, &session, None)?;
    if let Some(by) = look.by {
        return Err(Refusal::TokenRevoked { authid, by: revocations::what_by(&by) });
    }
    if let Some(seconds) = look.over {
        return Err(Refusal::TokenExpired { seconds });
    }
    session.rests_on = look.others;
    Ok((account, session))
}

/// Returns the OAuth access token of a session. Checks that the access token exists for this user and this project, and that its consumer exists.
fn accessed(
    view: &View<'_>,
    now: Clocks,
    user: &UserId,
    scope: Scope,
    id: &AccessTokenId,
) -> Result<AccessToken, Refusal> {
    let is_meant = |row: &AccessToken| row.user == *user && scope == Scope::Project(row.project);
    let row = view.access_token(id)?.filter(|row| is_meant(row) && now.unix_seconds < row.expires);
    let row = row.ok_or(Refusal::NoScope(
        "the OAuth access token is deleted, expired, or for another user or project",
    ))?;
    match view.consumer(&row.consumer)? {
        Some(_) => Ok(row),
        None => Err(Refusal::NoScope("the OAuth consumer is deleted")),
    }
}

/// The roles of an OAuth access token, including implied roles. The result contains only roles that the user of the access token still has on the
/// project (Keystone's rule).
fn accessed_roles(view: &View<'_>, access: &AccessToken) -> Result<Vec<HeldRole>, Refusal> {
    let mut held = roles_on(view, &access.user, Scope::Project(access.project), None)?;
    let given = view.with_implied(access.roles.iter().copied().collect())?;
    held.retain(|role| given.contains(role));
    match held.is_empty() {
        true => Err(Refusal::NoScope("the user no longer has any role of the OAuth access token")),
        false => Ok(held),
    }
}

/// Returns the trust of a session. Checks that the trust exists for this user and this project. Checks that every user who lends roles through the
/// trust is enabled.
pub(crate) fn trusted(
    view: &View<'_>,
    now: Clocks,
    user: &UserId,
    scope: Scope,
    id: &TrustId,
) -> Result<Trusted, Refusal> {
    let is_meant = |trust: &Trust| trust.trustee == *user && scope == Scope::Project(trust.project);
    let is_in_time = |trust: &Trust| trust.expires == 0 || now.unix_seconds < trust.expires;
    let trust = view.trust(id)?.filter(|trust| is_meant(trust) && is_in_time(trust));
    let trust =
        trust.ok_or(Refusal::NoScope("the trust is deleted, expired, or for another user or project"))?;
    let end = if trust.expires == 0 { i64::MAX } else { trust.expires - 1 };
    // A trust that was made with an application credential is valid only while the credential is valid.
    let (domain, last_second) = lender(view, now, &trust.trustor, trust.by)?;
    let mut trusted =
        Trusted { lenders: vec![(trust.trustor, domain)], last_second: last_second.min(end), trust };
    // A redelegated trust depends on each trust from which it was redelegated, and on each user who redelegated such a trust.
    let mut above = trusted.trust.parent;
    while let Some(id) = above {
        let is_near = trusted.lenders.len() <= usize::from(REDELEGATIONS_MAX);
        let parent = view.trust(&id)?.filter(|parent| is_in_time(parent) && is_near);
        let parent = parent
            .ok_or(Refusal::NoScope("a trust from which this trust was redelegated is deleted or expired"))?;
        let (domain, last_second) = lender(view, now, &parent.trustee, None)?;
        trusted.lenders.push((parent.trustee, domain));
        trusted.last_second = trusted.last_second.min(last_second);
        above = parent.parent;
    }
    Ok(trusted)
}

/// The domain of a user who lends roles by a trust, and the last second in which the user is valid. If the trust was made with an application
/// credential (`by`), the returned second is the last second in which both the user and the credential are valid.
fn lender(
    view: &View<'_>,
    now: Clocks,
    id: &UserId,
    by: Option<CredentialId>,
) -> Result<(DomainId, i64), Refusal> {
    let gone = || {
        Refusal::NoScope(
            "a user who delegated roles by the trust, or the application credential with which the trust was created, is deleted",
        )
    };
    let user = view.user(id)?.ok_or_else(gone)?;
    let realm: Realm = view.domain(&user.domain)?.ok_or_else(gone)?.name;
    let authid = Authid::from(userid(&user.name, &realm).ok_or_else(gone)?);
    let account = AccountState::of(view, &authid, *id, by)?.ok_or_else(gone)?;
    account.check(view, now).map_err(|refusal| match refusal {
        Refusal::Disabled { .. } | Refusal::Expired { .. } => {
            Refusal::NoScope("a user who delegated roles by the trust, or the application credential with which the trust was created, is disabled or expired")
        }
        other => other,
    })?;
    Ok((user.domain, account.last_second()))
}

/// The roles that a user has on a project now, including implied roles. If an application credential is given, the result contains only the roles
/// that the credential also has.
///
/// # Errors
/// When the facts cannot be read, or the user is in more groups than the limit.
pub fn roles_of(
    view: &enfilade_facts::View<'_>,
    user: &UserId,
    project: &ProjectId,
    credential: Option<&CredentialId>,
) -> Result<Vec<HeldRole>, Refusal> {
    match roles_on(&View::new(view), user, Scope::Project(*project), credential) {
        Err(Refusal::NoScope(_)) => Ok(Vec::new()),
        judged => judged,
    }
}

/// The roles of a trust, including implied roles. If the trustor no longer has all these roles, the trust lends no role (Keystone's rule).
pub(crate) fn lent_roles(view: &View<'_>, trust: &Trust) -> Result<Vec<HeldRole>, Refusal> {
    let held = roles_on(view, &trust.trustor, Scope::Project(trust.project), trust.by.as_ref())?;
    let lent = view.with_implied(trust.roles.iter().copied().collect())?;
    let is_whole = !lent.is_empty() && lent.iter().all(|role| held.contains(role));
    match is_whole {
        true => Ok(lent.into_iter().collect()),
        false => Err(Refusal::NoScope("the trustor no longer has all roles of the trust")),
    }
}

pub(crate) fn userid(name: &str, realm: &Realm) -> Option<Userid> {
    Userid::new(name, realm.clone()).ok()
}

/// The reach of a client that presents the secret of an application credential. A session that is issued for the application credential has the same
/// reach.
pub(crate) fn reach_of(
    view: &View<'_>,
    user: &UserId,
    credential: &CredentialId,
    delegation: &Delegation,
) -> Result<Reach, Refusal> {
    if !delegation.rules.is_empty() {
        return Ok(Reach::Nothing);
    }
    let project = delegation.project;
    let roles = match is_open(view, &project)? {
        true => roles_on(view, user, Scope::Project(project), Some(credential)),
        false => Err(Refusal::NoScope(Refusal::PROJECT_CLOSED)),
    };
    match roles {
        Ok(roles) => Ok(Reach::Project { project, roles: roles.into_iter().map(|role| role.name).collect() }),
        Err(Refusal::NoScope(_)) => Ok(Reach::Nothing),
        Err(refusal) => Err(refusal),
    }
}

/// Whether a project can be a scope: the project and its domain exist and are enabled.
pub(crate) fn is_open(view: &View<'_>, project: &ProjectId) -> Result<bool, Refusal> {
    match view.project(project)?.filter(|project| project.enabled) {
        Some(row) => Ok(view.domain(&row.domain)?.is_some_and(|domain| domain.enabled)),
        None => Ok(false),
    }
}

/// The roles that a user has in a scope now. If an application credential is given, the result contains only the roles that the credential also has.
/// A scope in which no role remains is refused (Keystone's rule).
pub(crate) fn roles_on(
    view: &View<'_>,
    user: &UserId,
    scope: Scope,
    credential: Option<&CredentialId>,
) -> Result<Vec<HeldRole>, Refusal> {
    let on = match scope {
        Scope::Unscoped => return Ok(Vec::new()),
        Scope::Project(id) => GrantScope::Project(id),
        Scope::Domain(id) => GrantScope::Domain(id),
        Scope::System => GrantScope::System,
    };
    let mut held = view.with_implied(view.granted(user, &on)?)?;
    // The loop reads the credential, then the credential that created it, and so on. [`AccountState::of`] checked that all of them exist.
    let mut next = credential.copied();
    for _ in 0..=CREDENTIAL_CHAIN_MAX {
        let Some(id) = next else { break };
        view.rests_on(&Revoked::Credential(id))?;
        let delegation = view.delegation(&id)?;
        let is_of = |project| scope == Scope::Project(project);
        let delegation = delegation
            .filter(|delegation| is_of(delegation.project))
            .ok_or(Refusal::NoScope(Refusal::OF_OTHER_PROJECT))?;
        let given: BTreeSet<_> = view.with_implied(delegation.roles.into_iter().collect())?;
        held.retain(|role| given.contains(role));
        next = delegation.by;
    }
    match held.is_empty() {
        true => Err(Refusal::NoScope(
            "the user has no role in the scope, or none that the application credential delegates",
        )),
        false => Ok(held.into_iter().collect()),
    }
}
