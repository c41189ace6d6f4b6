//! Keystone's API: whether a session may make a call. The roles of the session decide, by Keystone's default rules (oslo.policy of release 30). A
//! credential with delegated rights (a lent credential) may do no more than [`crate::Lending`] permits.

use crate::about::About;
use crate::bounds::beyond;
use crate::lending::only_made_by;
use crate::permit::ApiPermit;
use crate::policy::{Rule, Who};
use crate::refuse::Refusal;
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_identity::IdentityPermit;

/// Decides whether the visitor may make an API call. This is the only place where an [`ApiPermit`] is made. The identity permit must be valid at this
/// moment. A rule that [is bounded](Rule::is_bounded) needs `facts` and `about.changes`: without them, such a rule refuses every manager.
///
/// # Errors
/// [`Refusal::NoPrivilege`], [`Refusal::HoldsMore`], or when the facts cannot be read.
pub fn use_api(
    facts: Option<(&enfilade_facts::View<'_>, Clocks)>,
    identity: &IdentityPermit,
    rule: &'static Rule,
    about: &About<'_>,
) -> Result<ApiPermit, Refusal> {
    let principal = identity.principal();
    let path = || format!("identity:{}", rule.name);
    let let_in =
        identity.session().and_then(|session| Some((session, rule.lets(principal, session, about)?)));
    let no_privilege = || Refusal::NoPrivilege {
        path: path(),
        missing: "a role and a kind of credential that permit this call (docs/identity-v3.md lists them)"
            .to_owned(),
    };
    let (session, who) = let_in.ok_or_else(no_privilege)?;
    if who == Who::BoundedManager {
        let (Some((view, now)), Some(domain), [_, ..]) = (facts, about.domain, about.changes) else {
            return Err(no_privilege());
        };
        for party in about.changes {
            if let Some(holds) = beyond(&View(view), now, domain, *party)? {
                return Err(Refusal::HoldsMore { path: path(), holds });
            }
        }
    }
    Ok(ApiPermit {
        who: principal.authid.clone(),
        only_domain: rule.only_domain(who, session),
        only_made_by: only_made_by(session, rule.lending),
        by: who,
        user: principal.user,
        rule,
        domain: about.domain.copied(),
        project: about.project.copied(),
        other: about.user.copied(),
    })
}

/// Judges a long call again while the call runs: the same alternative of the rule must still permit the call, within the same limits.
///
/// # Errors
/// As [`use_api`].
pub fn may_go_on(identity: &IdentityPermit, permit: &ApiPermit) -> Result<(), Refusal> {
    let ApiPermit { rule, domain, project, other, .. } = permit;
    let (domain, project, user) = (domain.as_ref(), project.as_ref(), other.as_ref());
    let again = use_api(None, identity, rule, &About { domain, project, user, ..About::default() })?;
    let bounds = |permit: &ApiPermit| (permit.by, permit.only_domain, permit.only_made_by);
    if bounds(&again) == bounds(permit) {
        return Ok(());
    }
    let path = format!("identity:{}", rule.name);
    Err(Refusal::NoPrivilege {
        path,
        missing: "the role with which the call started; the roles changed during the call".to_owned(),
    })
}
