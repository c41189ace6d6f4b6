//! Credentials that services store for a user, for example EC2 keys. The blob is stored and returned unchanged.

use super::{REDACTED, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, Malformed, ProjectId, UserId, from_lower_hex, to_hex};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The id of a credential. The id of an EC2 key is the SHA-256 digest of its access key. Any other id consists of 32 random bytes. Exception: if the
/// credential is not an EC2 key and was imported from Keystone, its id consists of the 16 bytes of Keystone's id, twice in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobId(pub [u8; 32]);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BlobId {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed::new("credential id", text, "expected 64 lower-case hexadecimal digits");
        from_lower_hex(text).map(BlobId).ok_or_else(malformed)
    }
}

impl From<BlobId> for String {
    fn from(id: BlobId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for BlobId {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        text.parse()
    }
}

impl super::Key for BlobId {
    fn bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(BlobId)
    }
}

/// A credential of Identity v3's `/credentials`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The user that the credential belongs to.
    pub user: UserId,
    /// The project that the credential is for, if any.
    pub project: Option<ProjectId>,
    /// The kind, such as `ec2`, `totp` or `cert`.
    pub kind: String,
    /// The content as the client stored it.
    pub blob: String,
    /// The key in the blob, if the kind is `ec2`.
    pub ec2: Option<Ec2Key>,
}

/// The data for checking the signatures that clients make with an EC2 key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ec2Key {
    /// The secret key.
    pub secret: String,
    /// The application credential of the session that made the key. The key gives no more rights than this application credential.
    pub by: Option<CredentialId>,
}

impl fmt::Debug for Ec2Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ec2Key").field("by", &self.by).finish_non_exhaustive()
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob").field("user", &self.user).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Row for Blob {
    const TABLE: Table = Table::Blobs;
    type Key = BlobId;

    fn redact(&mut self) -> bool {
        REDACTED.clone_into(&mut self.blob);
        if let Some(key) = &mut self.ec2 {
            REDACTED.clone_into(&mut key.secret);
        }
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.user.bytes()).option(self.project.as_ref(), |to, project| {
            to.fixed(project.bytes());
        });
        to.text(&self.kind).text(&self.blob).option(self.ec2.as_ref(), |to, key| {
            to.text(&key.secret).option(key.by.as_ref(), |to, by| {
                to.fixed(by.bytes());
            });
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Blob {
            user: UserId::read(from)?,
            project: from.option(|from| from.fixed().map(ProjectId::from_bytes))?,
            kind: from.text()?,
            blob: from.text()?,
            ec2: from.option(|from| {
                let secret = from.text()?;
                Some(Ec2Key { secret, by: from.option(|from| from.fixed().map(CredentialId::from_bytes))? })
            })?,
        })
    }
}
