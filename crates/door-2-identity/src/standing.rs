//! Checks whether the door would accept a credential now if its secret is correct. Commands use these functions to list the ways in which a
//! user can log in, and to report which of these ways a revocation ended. These functions grant no permit.

use crate::account::AccountState;
use crate::context::Context;
use crate::crypt;
use crate::fernet::payload::{Audit, AuditId};
use crate::grant::grant_session;
use crate::judge::{judge_claim, userid};
use crate::mfa;
use crate::passcode;
use crate::refuse::Refusal;
use crate::revocations;
use crate::session::{Claim, Lent, Methods, Scope};
use crate::signature::chain_of;
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::tables::BlobId;
use enfilade_facts::vocabulary::{AccessTokenId, Authid, CredentialId, TrustId, UserId};

/// Checks that a session with this claim is valid.
///
/// # Errors
/// The refusal that a request with the token of the session would get.
pub fn check_session(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    claim: &Claim,
    context: &Context<'_>,
) -> Result<(), Refusal> {
    grant_session(&View::new(view), now, claim, None, 0, 0, context).map(drop)
}

/// Checks that the user's password would be accepted. If `credential` is given, checks instead that this API token or link would be accepted with the
/// correct secret or certificate.
///
/// # Errors
/// The refusal of a login with the correct secret.
pub fn check_secret(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    user: UserId,
    credential: Option<CredentialId>,
) -> Result<(), Refusal> {
    let view = &View::new(view);
    let authid = authid_of(view, &user, credential.as_ref())?;
    let account = AccountState::of(view, &authid, user, credential)?.ok_or(Refusal::SubjectDeleted)?;
    account.check(view, now)?;
    account.check_lock(now)?;
    account.check_password(now)?;
    // A user in too many groups is refused.
    view.groups_of(&user)?;
    if let Some(link) = account.link() {
        return match link.uses {
            Some(0) => Err(Refusal::LinkUsedUp(authid)),
            _ => Ok(()),
        };
    }
    let mut verifiers = account.verifiers(now).peekable();
    if verifiers.peek().is_none() && credential.is_some() {
        return Err(Refusal::no_secret(authid));
    }
    let mut why = "the user has no password".to_owned();
    for (verifier, _) in verifiers {
        match verifier.crypt().map(crypt::check) {
            None | Some(Ok(())) => {
                return match credential {
                    Some(_) => Ok(()),
                    None => mfa::check(view, &authid, user, Methods::PASSWORD),
                };
            }
            Some(Err(refused)) => why = refused.to_string(),
        }
    }
    Err(Refusal::BadHash { authid, why: why.into() })
}

fn authid_of(view: &View<'_>, user: &UserId, credential: Option<&CredentialId>) -> Result<Authid, Refusal> {
    let gone = || Refusal::SubjectDeleted;
    let row = view.user(user)?.ok_or_else(gone)?;
    let realm = view.domain(&row.domain)?.ok_or_else(gone)?.name;
    let mut authid = Authid::from(userid(&row.name, &realm).ok_or_else(gone)?);
    if let Some(credential) = credential {
        authid.token = Some(view.credential(credential)?.ok_or_else(gone)?.name);
    }
    Ok(authid)
}

/// A record with which sessions for a project can be issued.
#[derive(Clone, Copy, Debug)]
pub enum Opener {
    /// An application credential.
    Credential(CredentialId),
    /// A trust, used by its trustee.
    Trust(TrustId),
    /// An EC2 key.
    Key(BlobId),
    /// An OAuth access token, used by its consumer.
    AccessToken(AccessTokenId),
}

/// Checks that a session can be issued with this record. `own` is the audit id that the session would have. The caller chooses this audit id at
/// random, as for an issued session, because a fixed id could have a mark.
///
/// # Errors
/// The refusal that the issue of the session would get.
pub fn check_opener(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    opener: Opener,
    own: AuditId,
    context: &Context<'_>,
) -> Result<(), Refusal> {
    let (view, revocations) = (&View::new(view), &context.sessions.revocations);
    let gone = Refusal::SubjectDeleted;
    let (user, project, lent, methods, chain) = match opener {
        Opener::Credential(id) => {
            let (row, delegation) = view.credential(&id)?.zip(view.delegation(&id)?).ok_or(gone)?;
            (row.owner, delegation.project, Some(Lent::Credential(id)), Methods::APPLICATION_CREDENTIAL, None)
        }
        Opener::Trust(id) => {
            let row = view.trust(&id)?.ok_or(gone)?;
            if row.uses == Some(0) {
                return Err(Refusal::NoScope("the trust has no remaining uses"));
            }
            (row.trustee, row.project, Some(Lent::Trust(id)), Methods::PASSWORD, None)
        }
        Opener::Key(id) => {
            let found = view.blob(&id)?.and_then(|row| Some((row.user, row.project?, row.ec2?)));
            let (user, project, key) = found.ok_or(gone)?;
            (user, project, key.by.map(Lent::Credential), Methods::EC2_KEY, Some(chain_of(&id)))
        }
        Opener::AccessToken(id) => {
            let row = view.access_token(&id)?.ok_or(gone)?;
            (row.user, row.project, Some(Lent::AccessToken(id)), Methods::OAUTH1, None)
        }
    };
    let issued_at = revocations::issuing(view.facts, revocations, now.unix_seconds)?.later;
    let claim = Claim {
        user,
        methods,
        scope: Scope::Project(project),
        lent,
        issued_at,
        expires_at: i64::MAX,
        audit: Audit { own, chain },
    };
    let (account, _) = judge_claim(view, now, &claim, revocations)?;
    match opener {
        // The user's rules for multi-factor authentication apply to a session that a consumer gets. These rules are not checked for an application
        // credential, because a client can also use an application credential without a session.
        Opener::AccessToken(_) if can_complete(view, &user, methods)? => Ok(()),
        Opener::AccessToken(_) => mfa::check(view, &account.authid, user, methods),
        Opener::Credential(_) | Opener::Trust(_) | Opener::Key(_) => Ok(()),
    }
}

/// Whether these methods, together with the methods of a receipt, satisfy the rules of the user. If a password, a passcode or both do not satisfy the
/// rules, the user can get a receipt for them.
fn can_complete(view: &View<'_>, user: &UserId, methods: Methods) -> Result<bool, Refusal> {
    let rules = mfa::rules_of(view, user)?;
    let has_password = view.user(user)?.is_some_and(|row| row.password.is_some());
    let has_passcode = passcode::has_secret(view, user)?;
    let receipts = [
        (Methods::PASSWORD, has_password),
        (Methods::TOTP, has_passcode),
        (Methods::PASSWORD.and(Methods::TOTP), has_password && has_passcode),
    ];
    Ok(receipts.into_iter().any(|(receipt, exists)| {
        exists && !mfa::suffice(&rules, receipt) && mfa::suffice(&rules, receipt.and(methods))
    }))
}
