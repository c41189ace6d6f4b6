//! The delegations that users make in tests: trusts and application credentials without limits.

use enfilade_admin::keystone::{CloudCredential, NewApplicationCredential, NewTrust};
use enfilade_facts::tables::{Delegation, Trust, Verifier};
use enfilade_facts::vocabulary::{ProjectId, RoleId, UserId};

fn owned(roles: &[&str]) -> Vec<String> {
    roles.iter().map(|role| (*role).to_owned()).collect()
}

/// A trust that never expires and cannot be delegated again.
pub fn new_trust(trustor: UserId, trustee: UserId, project: ProjectId, roles: &[&str]) -> NewTrust {
    NewTrust {
        trustor,
        trustee,
        project,
        roles: owned(roles),
        impersonation: true,
        expires: 0,
        uses: None,
        redelegations: 0,
        parent: None,
        by: None,
    }
}

/// A restricted application credential that never expires.
pub fn new_application_credential(
    owner: UserId,
    name: &str,
    project: ProjectId,
    roles: &[&str],
) -> NewApplicationCredential {
    NewApplicationCredential {
        owner,
        name: name.parse().unwrap(),
        project,
        roles: owned(roles),
        unrestricted: false,
        rules: Vec::new(),
        expires_micros: 0,
        by: None,
        comment: None,
        secret: None,
    }
}

/// Like [`new_trust`], but returns the trust as a record of another cloud.
pub fn cloud_trust(trustor: UserId, trustee: UserId, project: ProjectId, roles: Vec<RoleId>) -> Trust {
    Trust {
        trustor,
        trustee,
        project,
        roles,
        impersonation: true,
        expires: 0,
        uses: None,
        redelegations: 0,
        parent: None,
        by: None,
    }
}

/// Like [`new_application_credential`], but returns the credential as a record of another cloud, without its secret.
pub fn cloud_credential(
    owner: UserId,
    name: &str,
    project: ProjectId,
    roles: Vec<RoleId>,
) -> CloudCredential {
    let (unrestricted, rules, by, expires_micros) = (false, Vec::new(), None, None);
    CloudCredential {
        owner,
        name: name.to_owned(),
        expires: 0,
        comment: None,
        delegation: Delegation { project, roles, unrestricted, rules, by, expires_micros },
        verifier: Verifier::Missing,
    }
}
