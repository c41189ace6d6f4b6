//! Converts the claim in the token of a session into the record of the session, and the record into the claim. The record contains the whole claim.

use enfilade_facts::vocabulary::{AccessTokenId, CredentialId, DomainId, ProjectId, TrustId};
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Lent, Methods, Scope};
use enfilade_sources::files::issued::{IssuedBy, IssuedFor, IssuedSession};

/// The record of the session with this claim.
pub(crate) fn record_of(claim: &Claim) -> IssuedSession {
    let scope = match claim.scope {
        Scope::Unscoped => IssuedFor::Nothing,
        Scope::Project(id) => IssuedFor::Project(*id.bytes()),
        Scope::Domain(id) => IssuedFor::Domain(*id.bytes()),
        Scope::System => IssuedFor::System,
    };
    let lent = match claim.lent {
        None => IssuedBy::Nothing,
        Some(Lent::Credential(id)) => IssuedBy::Credential(*id.bytes()),
        Some(Lent::Trust(id)) => IssuedBy::Trust(*id.bytes()),
        Some(Lent::AccessToken(id)) => IssuedBy::AccessToken(*id.bytes()),
    };
    let Claim { user, methods: Methods(methods), issued_at, expires_at, .. } = *claim;
    let (own, chain) = (claim.audit.own, claim.chain());
    IssuedSession { own, chain, user, scope, lent, methods, issued_at, expires_at }
}

/// The claim of the session with this record.
pub(crate) fn claim_of(session: &IssuedSession) -> Claim {
    let IssuedSession { own, chain, user, scope, lent, methods, issued_at, expires_at } = *session;
    let scope = match scope {
        IssuedFor::Nothing => Scope::Unscoped,
        IssuedFor::Project(id) => Scope::Project(ProjectId::from_bytes(id)),
        IssuedFor::Domain(id) => Scope::Domain(DomainId::from_bytes(id)),
        IssuedFor::System => Scope::System,
    };
    let lent = match lent {
        IssuedBy::Nothing => None,
        IssuedBy::Credential(id) => Some(Lent::Credential(CredentialId::from_bytes(id))),
        IssuedBy::Trust(id) => Some(Lent::Trust(TrustId::from_bytes(id))),
        IssuedBy::AccessToken(id) => Some(Lent::AccessToken(AccessTokenId::from_bytes(id))),
    };
    let audit = Audit { own, chain: Some(chain).filter(|chain| *chain != own) };
    Claim { user, methods: Methods(methods), scope, lent, issued_at, expires_at, audit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::vocabulary::UserId;

    #[test]
    fn a_record_has_everything_that_the_session_was_judged_by() {
        let (credential, trust) = (CredentialId::from_bytes([1; 16]), TrustId::from_bytes([2; 16]));
        let project = Scope::Project(ProjectId::from_bytes([3; 16]));
        for (scope, lent, chain) in [
            (Scope::Unscoped, None, None),
            (Scope::System, None, Some([9; 16])),
            (Scope::Domain(DomainId::from_bytes([4; 16])), None, None),
            (project, Some(Lent::Credential(credential)), None),
            (project, Some(Lent::Trust(trust)), Some([9; 16])),
            (project, Some(Lent::AccessToken(AccessTokenId::from_bytes([6; 16]))), None),
        ] {
            let claim = Claim {
                user: UserId::from_bytes([5; 16]),
                methods: Methods::PASSWORD.and(Methods::TOKEN),
                scope,
                lent,
                issued_at: 1_000,
                expires_at: 2_000,
                audit: Audit { own: [8; 16], chain },
            };
            assert_eq!(claim_of(&record_of(&claim)), claim);
        }
    }
}
