//! OAuth 1.0a (RFC 5849, Keystone's `OS-OAUTH1`). A consumer is a program of another party. A user approves a request token of the consumer. The
//! consumer exchanges the request token for an access token. With the access token, the consumer acts for the user, and has the approved roles on one
//! project.

use super::{Ends, REDACTED, Revoked, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{
    AccessTokenId, ConsumerId, Malformed, ProjectId, RequestTokenId, RoleId, UserId, from_lower_hex, to_hex,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A secret that server and client share, because both compute signatures with it. Its text is 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SharedSecret(Option<[u8; 16]>);

impl SharedSecret {
    /// A secret of random bytes.
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        SharedSecret(Some(bytes))
    }

    /// The text of the secret; `None` if this record comes from a dump that does not contain the secret. If there is no secret, no signature is
    /// accepted.
    pub fn text(&self) -> Option<String> {
        self.0.map(|bytes| to_hex(&bytes))
    }

    fn encode(&self, to: &mut Writer) {
        to.option(self.0.as_ref(), |to, bytes| {
            to.fixed(bytes);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        from.option(Reader::fixed).map(SharedSecret)
    }
}

impl From<SharedSecret> for String {
    fn from(secret: SharedSecret) -> Self {
        secret.text().unwrap_or_else(|| REDACTED.to_owned())
    }
}

impl TryFrom<String> for SharedSecret {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        if text == REDACTED {
            return Ok(SharedSecret(None));
        }
        let malformed = || {
            Malformed::new(
                "shared secret",
                "",
                "expected 32 lower-case hexadecimal digits; the refused text is not shown",
            )
        };
        from_lower_hex(&text).map(SharedSecret::from_random).ok_or_else(malformed)
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret")
    }
}

fn role_ids(to: &mut Writer, roles: &[RoleId]) {
    to.list(roles, |to, role| {
        to.fixed(role.bytes());
    });
}

fn read_role_ids(from: &mut Reader<'_>) -> Option<Vec<RoleId>> {
    from.list(|from| from.fixed().map(RoleId::from_bytes))
}

/// A consumer. The record alone gives no right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// A description of the consumer.
    pub description: Option<String>,
    /// The secret with which the consumer signs its requests.
    pub secret: SharedSecret,
}

impl Row for Consumer {
    const TABLE: Table = Table::Consumers;
    type Key = ConsumerId;

    fn redact(&mut self) -> bool {
        self.secret = SharedSecret(None);
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.optional_text(self.description.as_deref());
        self.secret.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Consumer { description: from.option(Reader::text)?, secret: SharedSecret::decode(from)? })
    }
}

impl Ends for Consumer {
    fn when_deleted(key: &ConsumerId) -> Vec<Revoked> {
        vec![Revoked::Consumer(*key)]
    }

    fn when_replaced(_: &ConsumerId, _: &Self, _: &Self, _: i64) -> Vec<Revoked> {
        Vec::new()
    }
}

/// A consumer's request for roles on a project. A user can approve the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestToken {
    /// The consumer.
    pub consumer: ConsumerId,
    /// The secret with which the consumer signs the exchange for an access token.
    pub secret: SharedSecret,
    /// The project.
    pub project: ProjectId,
    /// When the request token expires, in seconds since the epoch.
    pub expires: i64,
    /// The approval of a user.
    pub approval: Option<Approval>,
}

/// The approval of a request token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The user who delegates roles.
    pub user: UserId,
    /// The roles.
    pub roles: Vec<RoleId>,
    /// A secret that only this user gets with the approval (`oauth_verifier`). The user passes the secret to the consumer, which needs the secret for
    /// the exchange.
    pub verifier: SharedSecret,
}

impl Row for RequestToken {
    const TABLE: Table = Table::RequestTokens;
    type Key = RequestTokenId;

    fn redact(&mut self) -> bool {
        self.secret = SharedSecret(None);
        if let Some(approval) = &mut self.approval {
            approval.verifier = SharedSecret(None);
        }
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.consumer.bytes());
        self.secret.encode(to);
        to.fixed(self.project.bytes()).i64(self.expires).option(self.approval.as_ref(), |to, approval| {
            to.fixed(approval.user.bytes());
            role_ids(to, &approval.roles);
            approval.verifier.encode(to);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(RequestToken {
            consumer: ConsumerId::from_bytes(from.fixed()?),
            secret: SharedSecret::decode(from)?,
            project: ProjectId::from_bytes(from.fixed()?),
            expires: from.i64()?,
            approval: from.option(|from| {
                Some(Approval {
                    user: UserId::read(from)?,
                    roles: read_role_ids(from)?,
                    verifier: SharedSecret::decode(from)?,
                })
            })?,
        })
    }
}

/// A delegation to a consumer. After it is created, it does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// The consumer that acts for the user. A session that was issued for this access token is valid only while the consumer exists.
    pub consumer: ConsumerId,
    /// The secret with which the consumer signs its logins.
    pub secret: SharedSecret,
    /// The user who delegated the roles. A session that was issued for this access token has no more rights than this user has.
    pub user: UserId,
    /// The project.
    pub project: ProjectId,
    /// The delegated roles.
    pub roles: Vec<RoleId>,
    /// When the access token expires, in seconds since the epoch.
    pub expires: i64,
}

impl Row for AccessToken {
    const TABLE: Table = Table::AccessTokens;
    type Key = AccessTokenId;

    fn redact(&mut self) -> bool {
        self.secret = SharedSecret(None);
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.consumer.bytes());
        self.secret.encode(to);
        to.fixed(self.user.bytes()).fixed(self.project.bytes());
        role_ids(to, &self.roles);
        to.i64(self.expires);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(AccessToken {
            consumer: ConsumerId::from_bytes(from.fixed()?),
            secret: SharedSecret::decode(from)?,
            user: UserId::read(from)?,
            project: ProjectId::from_bytes(from.fixed()?),
            roles: read_role_ids(from)?,
            expires: from.i64()?,
        })
    }
}

impl Ends for AccessToken {
    fn when_deleted(key: &AccessTokenId) -> Vec<Revoked> {
        vec![Revoked::AccessToken(*key)]
    }

    fn when_replaced(_: &AccessTokenId, _: &Self, _: &Self, _: i64) -> Vec<Revoked> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(row: &impl Row) -> Vec<u8> {
        let mut to = Writer::default();
        row.encode(&mut to);
        to.into_bytes()
    }

    fn read_back<R: Row + PartialEq + fmt::Debug>(row: &R, mut redacted: R) {
        let bytes = written(row);
        let mut from = Reader::new(&bytes);
        assert_eq!((R::decode(&mut from).as_ref(), from.is_empty()), (Some(row), true));
        assert!(redacted.redact());
        let has_secret = |bytes: &[u8]| bytes.windows(16).any(|some| some == [1; 16]);
        assert_eq!((has_secret(&bytes), has_secret(&written(&redacted))), (true, false));
        assert!(!format!("{row:?}").contains("0101"), "{row:?}");
    }

    #[test]
    fn records_are_read_back_and_dumps_have_no_secrets() {
        let secret = SharedSecret::from_random([1; 16]);
        let (consumer, project) = (ConsumerId::from_bytes([2; 16]), ProjectId::from_bytes([3; 16]));
        let (user, roles) = (UserId::from_bytes([4; 16]), vec![RoleId::from_bytes([5; 16])]);
        let row = Consumer { description: Some("words".into()), secret: secret.clone() };
        read_back(&row, row.clone());
        let approval = Some(Approval { user, roles: roles.clone(), verifier: secret.clone() });
        let row = RequestToken { consumer, secret: secret.clone(), project, expires: 7, approval };
        read_back(&row, row.clone());
        read_back(&RequestToken { approval: None, ..row.clone() }, row);
        let row = AccessToken { consumer, secret, user, project, roles, expires: 7 };
        read_back(&row, row.clone());
    }

    #[test]
    fn a_redacted_secret_has_no_text() {
        let read = |text: &str| SharedSecret::try_from(text.to_owned());
        assert_eq!(read(REDACTED).unwrap().text(), None);
        let text = "01".repeat(16);
        assert_eq!(read(&text).unwrap().text(), Some(text));
        assert!(read("01").is_err() && read("").is_err());
    }
}
