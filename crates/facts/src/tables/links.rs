//! Links with which people share a file or folder. A link is an API token that works without a login: each client that presents the URL acts for the
//! maker of the link. The rights of a link are those of its maker, limited to one place and to reading or uploading.

use super::{REDACTED, SecretDigest};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DatastoreName, StorePath};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The rights of a guest at the place of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkRights {
    /// The guest may read the file, or the folder and everything below it.
    Read,
    /// The guest may upload new files into the folder, and sees nothing in it.
    Drop,
}

impl LinkRights {
    /// The rights as one word.
    pub fn name(self) -> &'static str {
        match self {
            LinkRights::Read => "read",
            LinkRights::Drop => "drop",
        }
    }
}

/// The place that a link shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlace {
    /// The datastore.
    pub datastore: DatastoreName,
    /// The file or folder.
    #[serde(with = "plain")]
    pub path: StorePath,
    /// The rights of a guest at this place.
    pub rights: LinkRights,
    /// The largest size of one uploaded file, in bytes; `None` if only the quota limits it.
    pub upload_bytes: Option<u64>,
}

/// The part of an API token that makes it a link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The digest of the secret in the URL.
    pub secret: SecretDigest,
    /// The shared place.
    pub place: LinkPlace,
    /// The slow hash of the password that a guest has to know; `None` if the URL is enough.
    pub password: Option<String>,
    /// How many downloads or uploads are left; `None` if the number is not limited.
    pub uses: Option<u32>,
}

/// The text for debugging contains neither the digest of the secret nor the hash of the password.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("place", &self.place).field("uses", &self.uses).finish_non_exhaustive()
    }
}

impl Link {
    /// Replaces the digest of the secret and the hash of the password with values that no secret and no password matches.
    pub(super) fn redact(&mut self) {
        self.secret = SecretDigest::NONE;
        if let Some(password) = &mut self.password {
            REDACTED.clone_into(password);
        }
    }

    pub(super) fn encode(&self, to: &mut Writer) {
        let Link { secret, place, password, uses } = self;
        to.fixed(&secret.0).text(place.datastore.as_str()).text(place.path.as_str());
        to.u8(match place.rights {
            LinkRights::Read => 1,
            LinkRights::Drop => 2,
        });
        to.option(place.upload_bytes, |to, bytes| {
            to.u64(bytes);
        });
        to.optional_text(password.as_deref());
        to.option(*uses, |to, uses| {
            to.u32(uses);
        });
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Link {
            secret: SecretDigest(from.fixed()?),
            place: LinkPlace {
                datastore: from.text()?.parse().ok()?,
                path: StorePath::from_plain(&from.text()?).ok()?,
                rights: match from.u8()? {
                    1 => LinkRights::Read,
                    2 => LinkRights::Drop,
                    _ => return None,
                },
                upload_bytes: from.option(Reader::u64)?,
            },
            password: from.option(Reader::text)?,
            uses: from.option(Reader::u32)?,
        })
    }
}

/// In a dump, a path has the same text form as on the command line.
mod plain {
    use crate::vocabulary::StorePath;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &StorePath, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(path)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StorePath, D::Error> {
        StorePath::from_plain(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_and_dumps_have_no_secret() {
        for (rights, password, uses, upload_bytes) in [
            (LinkRights::Read, None, None, None),
            (LinkRights::Drop, Some("$argon2id$x".to_owned()), Some(3), Some(7)),
        ] {
            let path = StorePath::from_plain("a/b <c>").unwrap();
            let place = LinkPlace { datastore: "tank".parse().unwrap(), path, rights, upload_bytes };
            let link = Link { secret: SecretDigest([1; 32]), place, password, uses };
            let written = |link: &Link| {
                let mut to = Writer::default();
                link.encode(&mut to);
                to.into_bytes()
            };
            assert!(!format!("{link:?}").contains("argon2"), "{link:?}");
            let bytes = written(&link);
            let mut from = Reader::new(&bytes);
            assert_eq!((Link::decode(&mut from).as_ref(), from.is_empty()), (Some(&link), true));
            let mut redacted = link.clone();
            redacted.redact();
            let redacted = String::from_utf8_lossy(&written(&redacted)).into_owned();
            assert!(!redacted.contains("argon2") && !redacted.contains("\u{1}\u{1}"), "{redacted:?}");
        }
    }
}
