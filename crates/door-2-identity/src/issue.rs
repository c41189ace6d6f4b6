//! Issues sessions. A session is issued for a login, for a request that was signed with an EC2 key, for a request with an OAuth access token, or for
//! another session. If a session is exchanged for a new session, the new session does not expire later than the old session. Lent sessions and
//! sessions of EC2 keys cannot be exchanged.

use crate::account::AccountState;
use crate::context::Context;
use crate::fernet::payload::{Audit, AuditId};
use crate::judge::judge_claim;
use crate::login::{Login, Receipt};
use crate::oauth::{self, OAuthProof};
use crate::refuse::Refusal;
use crate::revocations;
use crate::session::{Claim, Lent, Scope, Session};
use crate::signature::{self, SignatureAsk};
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::limits::RECEIPT_SECONDS;
use enfilade_facts::vocabulary::TrustId;

/// The scope that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The client named no scope. For an application credential or an OAuth access token, the session is for the project of the credential or access
    /// token. Otherwise the session is for the user's default project, or it is unscoped if the user has no default project or this project is not
    /// available to the user.
    Usual,
    /// The client named this scope.
    Scope(Scope),
    /// The project of a trust, with the roles that the trust lends.
    Trust(TrustId),
}

/// The login or signed request for which a session is issued.
#[derive(Clone, Copy, Debug)]
pub enum Basis<'a> {
    /// A login, and the scope that the client wants.
    Login(&'a Login, Wanted),
    /// A login that needs further methods. The session is unscoped, lasts for a short time, and must be sealed as a receipt.
    Receipt(&'a Login),
    /// A request that the session's user signed with an EC2 key. The caller is a service that has the permission to ask about the signature.
    Signature(&'a SignatureAsk),
    /// A request that an OAuth consumer signed with an access token. The fields are the request, the receipt in the request, and the scope that the
    /// consumer wants.
    Access(&'a OAuthProof, Option<&'a Receipt>, Wanted),
}

/// Why no session was issued.
#[derive(Debug)]
pub enum Unissued {
    /// The door refuses.
    Refused(Refusal),
    /// The time at which the session would be issued, in seconds since the epoch. This time is later than the stored horizon, so a later horizon must
    /// be stored. After that, the session must be judged again, because a revocation that was committed between the two judgements can end the
    /// session.
    Beyond(i64),
}

impl<R: Into<Refusal>> From<R> for Unissued {
    fn from(refusal: R) -> Self {
        Unissued::Refused(refusal.into())
    }
}

/// Judges a new session for a login, for the user who signed a request, or for an OAuth consumer. The login or receipt must be valid at the revision
/// of this view ([`Login::again`], [`read_receipt`](crate::read_receipt)). The session lasts `lifetime` seconds at most. `own` is the audit id of the
/// session's token, which the caller chose at random. At this revision, only a timeless mark (`Revoked::is_timeless`) can end the session: the issue
/// time of the session is later than the last second that any other mark covers.
///
/// # Errors
/// [`Unissued`].
pub fn issue(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    basis: Basis<'_>,
    lifetime: i64,
    own: AuditId,
    context: &Context<'_>,
) -> Result<Session, Unissued> {
    let (view, revocations) = (&View::new(view), &context.sessions.revocations);
    let issuing = revocations::issuing(view.facts, revocations, now.unix_seconds)?;
    let judge = |issued_at| match basis {
        Basis::Login(login, wanted) => {
            let (first, second) = claims(view, now, issued_at, login, wanted, lifetime, own)?;
            match (judge_claim(view, now, &first, revocations), second) {
                // If the default project is not available to the user, an unscoped session is issued instead.
                (Err(Refusal::NoScope(_)), Some(second)) => judge_claim(view, now, &second, revocations),
                (judged, _) => judged,
            }
            .map(until_the_account_ends)
        }
        Basis::Receipt(login) => {
            let mut claim = claim_of(login, now, issued_at, RECEIPT_SECONDS, own);
            claim.expires_at = claim.expires_at.min(login.receipt_end());
            judge_claim(view, now, &claim, revocations).map(until_the_account_ends)
        }
        Basis::Signature(ask) => signature::judge(view, now, issued_at, ask, lifetime, own, revocations),
        // An access token is for one project. A request that names another scope is refused.
        Basis::Access(proof, receipt, wanted) => {
            match (oauth::judge(view, now, issued_at, (proof, receipt), lifetime, own, revocations)?, wanted)
            {
                (session, Wanted::Usual) => Ok(session),
                (session, Wanted::Scope(scope)) if scope == session.claim.scope => Ok(session),
                _ => Err(Refusal::Delegated(
                    "the requested scope is not the project of the OAuth access token",
                )),
            }
        }
    };
    let judged = match judge(issuing.first) {
        // `Revoked::is_timeless` is also true for a mark on the audit chain of an EC2 key, although this mark ends only the sessions that were issued
        // up to a given second. So the session is judged again, with an issue time after all marks.
        Err(Refusal::TokenRevoked { .. }) => judge(issuing.later),
        judged => judged,
    };
    match judged {
        Ok(session) if issuing.horizon.allows(session.claim.issued_at) => Ok(session),
        Ok(session) => Err(Unissued::Beyond(session.claim.issued_at)),
        Err(Refusal::TokenExpired { .. }) => {
            let seconds = issuing.purged.saturating_sub(now.unix_seconds);
            Err(Refusal::ClockBehind { seconds }.into())
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// Shortens the session, so that the session ends when its account expires.
fn until_the_account_ends((account, mut session): (AccountState, Session)) -> Session {
    session.claim.expires_at = session.claim.expires_at.min(account.last_second().saturating_add(1));
    session
}

/// The claim of an unscoped session for a login. No session lasts longer than the credential for which the session is issued.
fn claim_of(login: &Login, now: Clocks, issued_at: i64, lifetime: i64, own: AuditId) -> Claim {
    Claim {
        user: login.user(),
        methods: login.methods(),
        scope: Scope::Unscoped,
        lent: None,
        issued_at,
        expires_at: now.unix_seconds.saturating_add(lifetime).min(login.end().unwrap_or(i64::MAX)),
        audit: Audit { own, chain: None },
    }
}

/// Returns the claim of the new session. If the client did not name a scope and the user has a default project, the function also returns an unscoped
/// claim. The caller tries the unscoped claim if the claim for the project is refused.
fn claims(
    view: &View<'_>,
    now: Clocks,
    issued_at: i64,
    login: &Login,
    wanted: Wanted,
    lifetime: i64,
    own: AuditId,
) -> Result<(Claim, Option<Claim>), Refusal> {
    login.check_methods(view)?;
    let mut claim = claim_of(login, now, issued_at, lifetime, own);
    let user = claim.user;
    match (login.session(), login.token()) {
        (Some(before), _) => {
            may_exchange(&before.claim, &wanted)?;
            claim.expires_at = before.claim.expires_at;
            claim.audit.chain = Some(before.claim.chain());
        }
        (None, Some(credential)) => {
            let delegation = view.delegation(credential)?;
            let project = delegation
                .ok_or(Refusal::Delegated(
                    "the API token is bound to no project, so no session can be issued for the token; create a token for a project with `enfilade token create --project`",
                ))?
                .project;
            if !matches!(wanted, Wanted::Usual) && wanted != Wanted::Scope(Scope::Project(project)) {
                return Err(Refusal::Delegated(
                    "the requested scope is not the project of the application credential",
                ));
            }
            claim.scope = Scope::Project(project);
            claim.lent = Some(Lent::Credential(*credential));
            return Ok((claim, None));
        }
        (None, None) => {}
    }
    match wanted {
        Wanted::Scope(scope) => Ok((Claim { scope, ..claim }, None)),
        Wanted::Trust(id) => {
            let trust = view.trust(&id)?.ok_or(Refusal::NoScope("there is no such trust"))?;
            if trust.expires != 0 {
                claim.expires_at = claim.expires_at.min(trust.expires);
            }
            claim.scope = Scope::Project(trust.project);
            claim.lent = Some(Lent::Trust(id));
            Ok((claim, None))
        }
        Wanted::Usual => match view.default_project(&user)? {
            Some(project) => Ok((Claim { scope: Scope::Project(project), ..claim }, Some(claim))),
            None => Ok((claim, None)),
        },
    }
}

/// Refuses to exchange a lent session or a session of an EC2 key, and refuses to exchange a system-scoped session for a session with another scope.
/// Keystone allows the exchange of a system-scoped session for an unscoped session, and of the unscoped session for a session of any project.
fn may_exchange(before: &Claim, wanted: &Wanted) -> Result<(), Refusal> {
    let why = match before.lent {
        None if !before.methods.are_in_person() => {
            "a session of an EC2 key cannot be exchanged for another session"
        }
        None if before.scope == Scope::System && *wanted != Wanted::Scope(Scope::System) => {
            "a system-scoped session cannot be exchanged for a session with another scope"
        }
        None => return Ok(()),
        Some(Lent::Credential(_)) => {
            "a session of an application credential cannot be exchanged for another session"
        }
        Some(Lent::Trust(_)) => "a session of a trust cannot be exchanged for another session",
        Some(Lent::AccessToken(_)) => {
            "a session of an OAuth access token cannot be exchanged for another session"
        }
    };
    Err(Refusal::Delegated(why))
}
