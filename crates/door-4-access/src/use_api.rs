//! Keystone's API: may they do this? The roles of the session decide, by Keystone's default rules (oslo.policy of release 30).

use crate::permit::ApiPermit;
use crate::policy::{About, Rule};
use crate::refuse::Refusal;
use enfilade_facts::tables::Trust;
use enfilade_facts::vocabulary::UserId;
use enfilade_identity::{IdentityPermit, Scope, Session};
use std::borrow::Cow;

/// What is asked for; each is one of Keystone's rules.
#[derive(Clone, Copy, Debug)]
pub enum ApiAsk<'a> {
    /// To be told what somebody's token stands for.
    ValidateToken(&'a Session),
    /// To be told whether somebody's token is good.
    CheckToken(&'a Session),
    /// To end somebody's token.
    RevokeToken(&'a Session),
    /// To see what was revoked.
    ListRevocations,
    /// To see somebody's application credentials.
    SeeApplicationCredentials(&'a UserId),
    /// To make one for somebody.
    CreateApplicationCredential(&'a UserId),
    /// To delete one of somebody.
    DeleteApplicationCredential(&'a UserId),
    /// To see what certain users let others do, or are let do.
    ListTrusts {
        /// Who trusts; anybody where nobody is named.
        trustor: Option<&'a UserId>,
        /// Who is trusted; likewise.
        trustee: Option<&'a UserId>,
    },
    /// To see one of those trusts.
    SeeTrust(&'a Trust),
    /// To let somebody do something on somebody's behalf.
    CreateTrust(&'a UserId),
    /// To lend on what the session's own trust lends.
    RedelegateTrust,
    /// To end that.
    DeleteTrust(&'a Trust),
    /// What a rule of the table is for.
    Rule(&'static Rule, About<'a>),
}

impl ApiAsk<'_> {
    /// What Keystone calls it.
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            ApiAsk::Rule(rule, _) => return Cow::Owned(format!("identity:{}", rule.name)),
            ApiAsk::ValidateToken(_) => "identity:validate_token",
            ApiAsk::CheckToken(_) => "identity:check_token",
            ApiAsk::RevokeToken(_) => "identity:revoke_token",
            ApiAsk::ListRevocations => "identity:list_revoke_events",
            ApiAsk::SeeApplicationCredentials(_) => "identity:list_application_credentials",
            ApiAsk::CreateApplicationCredential(_) => "identity:create_application_credential",
            ApiAsk::DeleteApplicationCredential(_) => "identity:delete_application_credential",
            ApiAsk::ListTrusts { .. } => "identity:list_trusts",
            ApiAsk::SeeTrust(_) => "identity:get_trust",
            ApiAsk::CreateTrust(_) | ApiAsk::RedelegateTrust => "identity:create_trust",
            ApiAsk::DeleteTrust(_) => "identity:delete_trust",
        })
    }
}

/// May the visitor? The one place an [`ApiPermit`] is made (invariant D2). The identity holds at this moment.
///
/// # Errors
/// [`Refusal::NoPrivilege`].
pub fn use_api(identity: &IdentityPermit, ask: &ApiAsk<'_>) -> Result<ApiPermit, Refusal> {
    let principal = identity.principal();
    let session = identity.session();
    let has = |role: &str| session.is_some_and(|session| session.has(role));
    let is_admin = has("admin");
    let reads_system = has("reader") && session.is_some_and(|session| session.claim.scope == Scope::System);
    let is_subject = |subject: &Session| subject.claim.user == principal.user;
    let is_owner = |user: &UserId| *user == principal.user;
    // An application credential makes and unmakes others only where it was made for that, and one that is for certain
    // requests is for none of these. What is done by a trust hands nothing on.
    let is_free = session.is_some_and(|session| !session.is_lent() && !session.has_rules());
    let is_bound = session.is_none_or(Session::has_rules);
    let may = match ask {
        ApiAsk::ValidateToken(subject) => {
            is_subject(subject) || !is_bound && (is_admin || reads_system || has("service"))
        }
        ApiAsk::CheckToken(subject) => is_subject(subject) || !is_bound && (is_admin || reads_system),
        ApiAsk::RevokeToken(subject) => is_subject(subject) || !is_bound && is_admin,
        ApiAsk::ListRevocations => !is_bound && (is_admin || has("service")),
        ApiAsk::SeeApplicationCredentials(user) => !is_bound && (is_owner(user) || is_admin || reads_system),
        ApiAsk::CreateApplicationCredential(user) => is_free && is_owner(user),
        ApiAsk::DeleteApplicationCredential(user) => is_free && (is_owner(user) || is_admin),
        ApiAsk::ListTrusts { trustor, trustee } => {
            let is_own = [*trustor, *trustee].into_iter().flatten().any(is_owner);
            !is_bound && (is_own || is_admin || reads_system)
        }
        ApiAsk::SeeTrust(trust) => {
            let is_own = is_owner(&trust.trustor) || is_owner(&trust.trustee);
            !is_bound && (is_own || is_admin || reads_system)
        }
        // Not even an administrator lends what is another's.
        ApiAsk::CreateTrust(trustor) => is_free && is_owner(trustor),
        ApiAsk::RedelegateTrust => session
            .and_then(|session| session.trusted.as_ref())
            .is_some_and(|trusted| trusted.trust.redelegations > 0),
        ApiAsk::DeleteTrust(trust) => is_free && (is_owner(&trust.trustor) || is_admin),
        ApiAsk::Rule(rule, about) => rule.lets(principal, session, about),
    };
    match may {
        true => {
            let only_domain = match (ask, session) {
                (ApiAsk::Rule(rule, _), Some(session)) => rule.only_domain(session),
                _ => None,
            };
            Ok(ApiPermit { who: principal.authid.clone(), only_domain })
        }
        false => {
            Err(Refusal::NoPrivilege { path: ask.name().into_owned(), missing: "a role that may".to_owned() })
        }
    }
}
