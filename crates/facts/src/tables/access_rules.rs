//! Access rules of users. An access rule is a kind of request that an application credential may make. When the last application credential that
//! contains an access rule is deleted, the rule stays.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{AccessRuleId, UserId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The number of bytes of the digest of a request.
const DIGEST_BYTES: usize = 20;

/// The key of an access rule: its user, and a digest of the service, method and path. So a user has at most one rule for each combination of these
/// three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessRuleKey {
    user: UserId,
    /// The digest. A dump does not contain it, because it can be computed from the record.
    #[serde(skip)]
    digest: [u8; DIGEST_BYTES],
}

impl AccessRuleKey {
    /// The key of a rule of this user.
    pub fn of(user: UserId, rule: &AccessRule) -> Self {
        let mut request = Writer::default();
        request.text(&rule.service).text(&rule.method).text(&rule.path);
        let mut digest = [0; DIGEST_BYTES];
        digest.iter_mut().zip(Sha256::digest(request.into_bytes())).for_each(|(to, from)| *to = from);
        AccessRuleKey { user, digest }
    }

    /// The prefix of the keys of all rules of a user.
    pub fn all_of(user: &UserId) -> Vec<u8> {
        user.bytes().to_vec()
    }
}

impl Key for AccessRuleKey {
    fn bytes(&self) -> Vec<u8> {
        [self.user.bytes(), &self.digest].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let key = AccessRuleKey { user: UserId::read(&mut from)?, digest: from.fixed()? };
        from.is_empty().then_some(key)
    }
}

/// A kind of request that an application credential may make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRule {
    /// The id of the rule.
    pub id: AccessRuleId,
    /// The kind of service.
    pub service: String,
    /// The HTTP method.
    pub method: String,
    /// The path, with the wildcards `*`, `**` and `{name}`.
    pub path: String,
}

impl Row for AccessRule {
    const TABLE: Table = Table::AccessRules;
    type Key = AccessRuleKey;

    fn complete(&self, key: AccessRuleKey) -> AccessRuleKey {
        AccessRuleKey::of(key.user, self)
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.id.bytes()).text(&self.service).text(&self.method).text(&self.path);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(AccessRule {
            id: AccessRuleId::from_bytes(from.fixed()?),
            service: from.text()?,
            method: from.text()?,
            path: from.text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_by_user_service_method_and_path() {
        let [ann, bea] = [1, 2].map(|n| UserId::from_bytes([n; 16]));
        let rule = |n, service: &str, method: &str, path: &str| AccessRule {
            id: AccessRuleId::from_bytes([n; 16]),
            service: service.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
        };
        let key = AccessRuleKey::of(ann, &rule(1, "compute", "GET", "/a"));
        assert_eq!(key, AccessRuleKey::of(ann, &rule(2, "compute", "GET", "/a")));
        assert_eq!(AccessRuleKey::from_bytes(&key.bytes()), Some(key));
        assert!(key.bytes().starts_with(&AccessRuleKey::all_of(&ann)));
        let others = [
            AccessRuleKey::of(bea, &rule(1, "compute", "GET", "/a")),
            AccessRuleKey::of(ann, &rule(1, "network", "GET", "/a")),
            AccessRuleKey::of(ann, &rule(1, "compute", "PUT", "/a")),
            AccessRuleKey::of(ann, &rule(1, "compute", "GET", "/b")),
            // The same bytes, but the border between the fields is at another place.
            AccessRuleKey::of(ann, &rule(1, "computeG", "ET", "/a")),
        ];
        assert!(others.iter().all(|other| *other != key));
    }

    /// A dump does not contain the digest of a key.
    #[test]
    fn the_key_from_a_dump_is_completed() {
        let id = AccessRuleId::from_bytes([7; 16]);
        let rule = AccessRule { id, service: "s".into(), method: "GET".into(), path: "/".into() };
        let key = AccessRuleKey::of(UserId::from_bytes([1; 16]), &rule);
        assert_eq!(rule.complete(AccessRuleKey { digest: [0; DIGEST_BYTES], ..key }), key);
    }
}
