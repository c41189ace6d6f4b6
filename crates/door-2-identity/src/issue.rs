//! Making sessions: of a password, of an application credential, or of another session, which it cannot outgrow.

use crate::context::Context;
use crate::fernet::payload::{Audit, AuditId};
use crate::judge::stand;
use crate::permit::IdentityPermit;
use crate::refuse::Refusal;
use crate::revocations;
use crate::session::{Claim, Lent, Methods, Scope, Session};
use crate::signature::{self, SignatureAsk};
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{DomainId, ProjectId, TrustId};

/// What a session is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Whatever is usual for whoever asks: the credential's project, the user's default project, else nothing.
    Usual,
    /// This.
    Scope(Scope),
    /// What somebody lends the user by a trust.
    Trust(TrustId),
}

/// What a session is issued for.
#[derive(Clone, Copy, Debug)]
pub enum Basis<'a> {
    /// The credential of the caller, and the scope that is wanted.
    Permit(Wanted),
    /// A request that the session's user signed with an EC2 key. The caller is a service that may ask about it.
    Signature(&'a SignatureAsk),
}

/// Why no session was issued.
#[derive(Debug)]
pub enum Unissued {
    /// The door refuses.
    Refused(Refusal),
    /// The session would be of this second, which is later than the facts allow. It is judged again when they allow it: what ends sessions until
    /// then has to be about it.
    Beyond(i64),
}

impl<R: Into<Refusal>> From<R> for Unissued {
    fn from(refusal: R) -> Self {
        Unissued::Refused(refusal.into())
    }
}

/// Judges what session the caller may have, or the user who signed. The permit of the caller holds at this view. The session lasts `lifetime`
/// seconds at most; `own` is its audit id, which is random. It is issued later than all marks of revocation, so that none of them is ever about it,
/// whatever it will rest on.
///
/// # Errors
/// [`Unissued`].
pub fn issue(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    caller: &IdentityPermit,
    basis: Basis<'_>,
    lifetime: i64,
    own: AuditId,
    context: &Context<'_>,
) -> Result<Session, Unissued> {
    let (view, revocations) = (&View::new(view), &context.sessions.revocations);
    let issuing = revocations::issuing(view.facts, revocations, now.unix_seconds)?;
    let judge = |issued_at| match basis {
        Basis::Permit(wanted) => {
            let (first, second) = claims(view, now, issued_at, caller, wanted, lifetime, own)?;
            match (stand(view, now, &first, revocations), second) {
                // A usual scope that is not available is no reason to issue nothing.
                (Err(Refusal::NoScope(_)), Some(second)) => stand(view, now, &second, revocations),
                (judged, _) => judged,
            }
            .map(|(_, session)| session)
        }
        Basis::Signature(ask) => signature::judge(view, now, issued_at, ask, lifetime, own, revocations),
    };
    let judged = match judge(issuing.first) {
        // A mark of a chain goes by time where the chain is that of a key.
        Err(Refusal::TokenRevoked { .. }) if issuing.first < issuing.later => judge(issuing.later),
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

/// What is claimed; and what instead, where the first was nobody's wish.
fn claims(
    view: &View<'_>,
    now: Clocks,
    issued_at: i64,
    parent: &IdentityPermit,
    wanted: Wanted,
    lifetime: i64,
    own: AuditId,
) -> Result<(Claim, Option<Claim>), Refusal> {
    let user = parent.principal().user;
    let mut claim = Claim {
        user,
        methods: Methods::PASSWORD,
        scope: Scope::Unscoped,
        lent: None,
        issued_at,
        expires_at: now.unix_seconds.saturating_add(lifetime),
        audit: Audit { own, chain: None },
    };
    // Nothing outlives what it comes of.
    if let Some(until) = parent.validity().last_second() {
        claim.expires_at = claim.expires_at.min(until.saturating_add(1));
    }
    match (parent.session(), parent.token()) {
        (Some(before), _) => {
            match before.claim.lent {
                None if before.claim.methods.are_in_person() => {}
                None => return Err(Refusal::Delegated("a session of an EC2 key is for nothing else")),
                Some(Lent::Credential(_)) => {
                    let why = "a session of an application credential is for nothing else";
                    return Err(Refusal::Delegated(why));
                }
                Some(Lent::Trust(_)) => {
                    return Err(Refusal::Delegated("a session by a trust is for nothing else"));
                }
            }
            // Keystone lets one for the system become one for nothing, which may become one for any project.
            if before.claim.scope == Scope::System && wanted != Wanted::Scope(Scope::System) {
                return Err(Refusal::Delegated(
                    "a system-scoped session cannot be exchanged for a session with another scope",
                ));
            }
            claim.methods = before.claim.methods.and(Methods::TOKEN);
            claim.expires_at = before.claim.expires_at;
            claim.audit.chain = Some(before.claim.chain());
        }
        (None, Some(credential)) => {
            let delegation = view.delegation(credential)?;
            let project = delegation.ok_or(Refusal::Delegated("the API token is for no project"))?.project;
            if !matches!(wanted, Wanted::Usual) && wanted != Wanted::Scope(Scope::Project(project)) {
                return Err(Refusal::Delegated("the application credential is for another project"));
            }
            claim.methods = Methods::APPLICATION_CREDENTIAL;
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

impl Scope {
    /// The project, where it is for one.
    pub fn project(self) -> Option<ProjectId> {
        match self {
            Scope::Project(project) => Some(project),
            _ => None,
        }
    }

    /// The domain, where it is for one.
    pub fn domain(self) -> Option<DomainId> {
        match self {
            Scope::Domain(domain) => Some(domain),
            _ => None,
        }
    }
}
