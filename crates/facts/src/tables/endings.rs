//! The records on which sessions depend, and the sessions that end when such a record is deleted or gives fewer rights.
//!
//! Each request checks its session against the current facts. So a session is refused after a record on which the session depends is deleted or
//! disabled. But the same right can be given again later, and an ended session must stay ended. So the commit that takes the right away also sets a
//! mark ([`Revoked`]) on a record on which the session depends. A session has ended if it depends on a record with a mark, and was issued no later
//! than the last second that the mark covers. For a timeless mark ([`Revoked::is_timeless`]), the issue time does not matter. [`ENDINGS`] lists the
//! changes that end sessions.
//!
//! A session depends on its token and audit chain, on its scope, on the record for which it was issued (such as an application credential or trust),
//! on its user, on the groups of the user, and on the domains of scope, user and groups. The session depends on the grants to the user and to these
//! groups, if the grants are on the scope of the session or above it. For each grant, the session depends on the role of the grant and on all roles
//! that this role implies. The set of these groups, grants and roles is computed from the present facts, so a record can leave the set. But an ended
//! session must stay ended. So when a record leaves the set, another record that remains in the set gets a mark:
//! - When a user or group is removed from a group, the mark is on the removed user or group.
//! - When a group is deleted, each member gets a mark.
//! - When a role is taken from a user or group, the mark is on the pair of this user or group and the scope.
//! - When a role no longer implies another role, the mark is on the role that implied it.
//! - When a role is deleted, each grantee that had it and each role that implied it gets a mark.
//!
//! A record with a mark can leave the set later. Then another record that remains in the set gets a mark.

use super::{
    Credential, Domain, Grant, GrantKey, Group, Member, Membership, MembershipKey, NamedRole, Project,
    Revoked, Row, Trust, User, Verifier,
};
use crate::vocabulary::{CredentialId, DomainId, GroupId, ProjectId, RoleId, TrustId, UserId};

/// Every change that ends sessions: the change, the sessions that end in the same commit, and the behaviour of Keystone 30. An ended session does not
/// become valid again when a right is given again or a record is enabled again. `cargo xtask pages` writes `docs/endings.md` from this table, and
/// `testkit/tests/endings.rs` makes each change.
pub const ENDINGS: [(&str, &str, &str); 30] = [
    ("a user is disabled", "the sessions that depend on the user", "the same"),
    ("a user is deleted", "the sessions that depend on the user", "the same"),
    ("a user gets another password", "the sessions that depend on the user", "the same"),
    (
        "a user confirms a second factor in the console",
        "the sessions that depend on the user",
        "no user can do this",
    ),
    (
        "an expired user gets a later expiry date",
        "the sessions that depend on the user and were issued before the change",
        "users have no expiry date",
    ),
    ("a user is removed from a group", "the sessions that depend on the user", "the same"),
    (
        "a group is removed from another group",
        "the sessions that depend on a member of the removed group",
        "a group cannot contain other groups",
    ),
    (
        "a group is deleted",
        "the sessions that depend on a member of the group",
        "the same, but only if the group had a role",
    ),
    (
        "a role is taken from a user",
        "the sessions that depend on the user, for the scope of the role; if the role was inherited, also for the projects below",
        "the sessions are valid again when the role is given again",
    ),
    (
        "a role is taken from a group",
        "the sessions that depend on a member of the group, for the scope of the role; if the role was inherited, also for the projects below",
        "the sessions are valid again when the role is given again",
    ),
    (
        "an implied role is removed from a role",
        "the sessions that depend on a user or group with the role, for the scopes on which the user or group has the role",
        "the sessions are valid again when the implied role is added again",
    ),
    (
        "a role is deleted",
        "the sessions that depend on a user or group that had the role, for the scopes on which the user or group had the role",
        "the sessions stay valid, without this role",
    ),
    (
        "a project is disabled",
        "the sessions for the project",
        "the sessions are valid again when the project is enabled",
    ),
    ("a project is deleted", "the sessions for the project", "the same"),
    (
        "a domain is disabled",
        "the sessions for the domain and for its projects, and those that depend on its users, groups or roles",
        "the sessions are valid again when the domain is enabled; while the domain is disabled, its groups still grant roles",
    ),
    (
        "a domain is deleted",
        "the sessions for the domain and for its projects, and those that depend on its users, groups or roles",
        "the same",
    ),
    (
        "the secret of an application credential is replaced",
        "the sessions that were issued for the application credential; EC2 keys, application credentials and trusts that were created with it are deleted",
        "the secret cannot be replaced",
    ),
    (
        "the grace period of the old secret of an application credential ends",
        "the sessions that were issued for the credential",
        "the secret cannot be replaced",
    ),
    (
        "an application credential is disabled",
        "the sessions that were issued for the credential",
        "application credentials cannot be disabled",
    ),
    (
        "an application credential is deleted",
        "the sessions that were issued for the application credential; EC2 keys, application credentials and trusts that were created with it are deleted",
        "the same",
    ),
    (
        "a trust is deleted",
        "the sessions that were issued for the trust, and for the trusts that were delegated from the trust",
        "the same",
    ),
    (
        "an EC2 key is deleted, or gets another secret",
        "the sessions that were issued for the key",
        "the sessions last until the token expires",
    ),
    ("an OAuth access token is deleted", "the sessions that were issued for the access token", "the same"),
    (
        "an OAuth consumer is deleted",
        "the sessions that were issued for access tokens of the consumer",
        "the same",
    ),
    (
        "a token is revoked (`revoke session`)",
        "the session of the token. With `--chain`: all sessions of the login. In the API, a DELETE of the first token of a login also ends the sessions of the tokens that were later issued in exchange for it, unless the request has `cascade=false`",
        "the same",
    ),
    (
        "the sessions of a user are revoked (`revoke user`)",
        "the sessions that depend on the user",
        "no API call revokes all sessions of a user",
    ),
    (
        "the sessions of a group are revoked (`revoke group`)",
        "the sessions that depend on a member of the group",
        "no API call revokes the sessions of a group",
    ),
    (
        "the sessions for a project or domain are revoked (`revoke project`, `revoke domain`)",
        "all sessions for the project or domain; for a domain also the sessions for its projects, and those that depend on its users",
        "no API call revokes the sessions for a project or domain",
    ),
    (
        "all sessions and credentials of a user are revoked (`revoke user --everything`)",
        "the sessions that depend on the user; password, API tokens, EC2 keys, trusts and OAuth access tokens are deleted",
        "no API call revokes everything of a user",
    ),
    (
        "all sessions and lent credentials for a project are revoked (`revoke project --everything`)",
        "the sessions for the project; application credentials, EC2 keys, trusts and OAuth access tokens for it are deleted",
        "no API call revokes everything for a project",
    ),
];

/// A record on which sessions depend. Delete it with [`Change::remove`](crate::Change::remove) and replace it with
/// [`Change::replace`](crate::Change::replace), because these functions set the marks.
pub trait Ends: Row {
    /// The marks that are set when the record is deleted.
    fn when_deleted(key: &Self::Key) -> Vec<Revoked>;

    /// The marks that are set when the record is replaced. `now` is the time of the replacement, in seconds since the epoch.
    fn when_replaced(key: &Self::Key, before: &Self, after: &Self, now: i64) -> Vec<Revoked>;
}

/// Whether the expiry date `before` has passed, and the expiry date `after` has not passed. The date 0 never passes.
fn is_revived(before: i64, after: i64, now: i64) -> bool {
    let is_over = |expires: i64| expires != 0 && expires <= now;
    is_over(before) && !is_over(after)
}

fn list(is_so: bool, mark: Revoked) -> Vec<Revoked> {
    is_so.then_some(mark).into_iter().collect()
}

impl Ends for Domain {
    fn when_deleted(key: &DomainId) -> Vec<Revoked> {
        vec![Revoked::Domain(*key), Revoked::groups_of(key)]
    }

    fn when_replaced(key: &DomainId, before: &Self, after: &Self, _: i64) -> Vec<Revoked> {
        let is_less = before.enabled && !after.enabled;
        if is_less { Self::when_deleted(key) } else { Vec::new() }
    }
}

impl Ends for User {
    fn when_deleted(key: &UserId) -> Vec<Revoked> {
        vec![Revoked::User(*key)]
    }

    fn when_replaced(key: &UserId, before: &Self, after: &Self, now: i64) -> Vec<Revoked> {
        let hash = |user: &Self| user.password.as_ref().map(|password| password.hash.clone());
        let is_less = before.enabled && !after.enabled
            || hash(before) != hash(after)
            || is_revived(before.expires, after.expires, now);
        list(is_less, Revoked::User(*key))
    }
}

impl Ends for Group {
    fn when_deleted(key: &GroupId) -> Vec<Revoked> {
        vec![Revoked::Group(*key)]
    }

    fn when_replaced(_: &GroupId, _: &Self, _: &Self, _: i64) -> Vec<Revoked> {
        Vec::new()
    }
}

impl Ends for Membership {
    /// Removing a user from a group ends the sessions that depend on the user, as in Keystone. Removing a group from a group ends the sessions that
    /// depend on the members of the removed group.
    fn when_deleted(key: &MembershipKey) -> Vec<Revoked> {
        vec![match key.member {
            Member::User(user) => Revoked::User(user),
            Member::Group(group) => Revoked::Group(group),
        }]
    }

    fn when_replaced(_: &MembershipKey, _: &Self, _: &Self, _: i64) -> Vec<Revoked> {
        Vec::new()
    }
}

impl Ends for Project {
    fn when_deleted(key: &ProjectId) -> Vec<Revoked> {
        vec![Revoked::Project(*key)]
    }

    fn when_replaced(key: &ProjectId, before: &Self, after: &Self, _: i64) -> Vec<Revoked> {
        list(before.enabled && !after.enabled, Revoked::Project(*key))
    }
}

impl Ends for Grant {
    fn when_deleted(key: &GrantKey) -> Vec<Revoked> {
        vec![Revoked::roles_on(&key.who, &key.scope)]
    }

    fn when_replaced(_: &GrantKey, _: &Self, _: &Self, _: i64) -> Vec<Revoked> {
        Vec::new()
    }
}

impl Ends for NamedRole {
    fn when_deleted(key: &RoleId) -> Vec<Revoked> {
        vec![Revoked::Role(*key)]
    }

    fn when_replaced(key: &RoleId, before: &Self, after: &Self, _: i64) -> Vec<Revoked> {
        let is_less = before.implies.iter().any(|implied| !after.implies.contains(implied));
        list(is_less, Revoked::Role(*key))
    }
}

impl Ends for Credential {
    fn when_deleted(key: &CredentialId) -> Vec<Revoked> {
        vec![Revoked::Credential(*key)]
    }

    /// A change from [`Verifier::Crypt`] to [`Verifier::Upgrading`] with the same hash does not change the secret, so no session ends.
    fn when_replaced(key: &CredentialId, before: &Self, after: &Self, now: i64) -> Vec<Revoked> {
        let is_marked = matches!((&before.verifier, &after.verifier), (Verifier::Crypt(old), Verifier::Upgrading(new)) if old == new);
        let is_less = before.enabled && !after.enabled
            || before.verifier != after.verifier && !is_marked
            || before.previous.is_some() && before.previous != after.previous
            || is_revived(before.expires, after.expires, now);
        list(is_less, Revoked::Credential(*key))
    }
}

impl Ends for Trust {
    fn when_deleted(key: &TrustId) -> Vec<Revoked> {
        vec![Revoked::Trust(*key)]
    }

    fn when_replaced(_: &TrustId, _: &Self, _: &Self, _: i64) -> Vec<Revoked> {
        Vec::new()
    }
}
