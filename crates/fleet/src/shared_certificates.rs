//! The certificates that all members serve. These certificates are not facts, and are not in the log. A proof does not depend on the certificates: a
//! member that cannot use one of the certificates still grants requests, but does not serve this certificate. The certificates in etcd are encrypted,
//! and this crate does not decrypt them.
//!
//! ```text
//! certificates/id     the id of the newest set of certificates
//! certificates/set    this id, and the file name and version of each certificate
//! certificate/<name>  an encrypted certificate with its key; `<name>` is the file name
//! ```

use crate::etcd::{delete, exists, has_value, is_absent, put, read};
use crate::log::{Log, LogError, damaged};
use crate::orders::Order;
use crate::shared_keys::KeysId;
use enfilade_facts::codec::{Reader, Writer};
use std::collections::BTreeMap;

/// The greatest number of shared certificates.
pub const SHARED_CERTIFICATES_MAX: usize = 1_000;
/// The greatest size of a shared certificate with its chain and key, in bytes.
pub const SHARED_CERTIFICATE_BYTES_MAX: usize = 64 << 10;
/// The longest file name of a shared certificate, in bytes.
pub const SHARED_NAME_BYTES_MAX: usize = 200;
/// The greatest number of bytes by which encryption makes a certificate longer.
const SEAL_BYTES_MAX: usize = 64;

/// An identifier of a set of certificates: the number of changes of the set, and a random number. The version of a certificate is the identifier of
/// the first set that contained the certificate in its present form.
pub type SetId = KeysId;

/// The certificates that all members serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateSet {
    /// The identifier of the set; `None` if no certificate was ever shared.
    pub id: Option<SetId>,
    /// The file name of each certificate, and its version.
    pub certificates: BTreeMap<String, SetId>,
}

impl CertificateSet {
    /// Whether this set is older than the set with the identifier `other`.
    pub fn is_before(&self, other: SetId) -> bool {
        self.id.unwrap_or_default().is_before(other)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.fixed(&self.id.unwrap_or_default().bytes());
        to.u32(u32::try_from(self.certificates.len()).unwrap_or(u32::MAX));
        for (name, version) in &self.certificates {
            to.text(name).fixed(&version.bytes());
        }
        to.into_bytes()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (id, count) = (SetId::from_bytes(from.fixed()?), from.u32()?);
        let mut certificates = BTreeMap::new();
        for _ in 0..count {
            let name = from.text()?;
            certificates.insert(name, SetId::from_bytes(from.fixed()?));
        }
        let is_whole = from.is_empty() && certificates.len() <= SHARED_CERTIFICATES_MAX;
        is_whole.then_some(CertificateSet { id: Some(id), certificates })
    }
}

impl Log {
    pub(crate) fn set_id_key(&self) -> Vec<u8> {
        self.key("certificates", "id")
    }

    /// The newest set of certificates.
    ///
    /// # Errors
    /// When etcd does not answer, when the log belongs to another store, or when the set is damaged.
    pub async fn certificate_set(&self) -> Result<CertificateSet, LogError> {
        self.head().await?;
        let key = self.key("certificates", "set");
        let found = self.etcd().read(key, Vec::new(), 1).await?;
        let Some(found) = found.into_iter().next() else { return Ok(CertificateSet::default()) };
        CertificateSet::read(&found.value)
            .ok_or_else(|| damaged(&found.key, "it is not a list of certificates"))
    }

    /// An encrypted certificate; `None` if it is no longer shared.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn shared_certificate(&self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let found = self.etcd().read(self.key("certificate", name), Vec::new(), 1).await?;
        Ok(found.into_iter().next().map(|found| found.value))
    }

    /// Adds or replaces a certificate, or removes it (`None`), if `before` is still the newest set. `id` is the identifier of the set after the
    /// change. If an order is given, the call also records that the order succeeded, and stores the text that is given with the order. If this member
    /// no longer has the order, the call changes nothing. Returns whether the change was made.
    ///
    /// # Errors
    /// [`LogError::NotMember`], [`LogError::TooManyCertificates`], [`LogError::TooLarge`], or when etcd does not answer.
    pub async fn change_certificate(
        &self,
        (before, id): (&CertificateSet, SetId),
        (name, sealed): (&str, Option<Vec<u8>>),
        order: Option<(&Order, &str)>,
    ) -> Result<bool, LogError> {
        let mut after = before.clone();
        after.id = Some(id);
        match &sealed {
            Some(_) => after.certificates.insert(name.to_owned(), id),
            None => after.certificates.remove(name),
        };
        let bytes = sealed.as_ref().map_or(0, Vec::len);
        if bytes > SHARED_CERTIFICATE_BYTES_MAX + SEAL_BYTES_MAX || name.len() > SHARED_NAME_BYTES_MAX {
            return Err(LogError::TooLarge { bytes, limit: SHARED_CERTIFICATE_BYTES_MAX });
        }
        if after.certificates.len() > SHARED_CERTIFICATES_MAX {
            return Err(LogError::TooManyCertificates);
        }
        let set = self.key("certificates", "set");
        let mut conditions = vec![match before.id {
            Some(_) => has_value(set.clone(), before.bytes()),
            None => is_absent(set.clone()),
        }];
        // A machine that has left the fleet, or was expelled, must not change anything.
        conditions.extend(self.member().map(|member| exists(self.key("member", member))));
        let certificate = self.key("certificate", name);
        let mut operations = vec![put(self.set_id_key(), id.bytes().to_vec()), put(set, after.bytes())];
        operations.push(match sealed {
            Some(sealed) => put(certificate, sealed),
            None => delete(certificate, Vec::new()),
        });
        if let Some((order, about)) = order {
            conditions.push(self.is_held(order));
            operations.extend(self.succeeded(order, about));
        }
        let is_changed = self.etcd().transact(conditions, operations).await?.is_some();
        match self.member() {
            Some(name) if !is_changed && !self.is_member(name).await? => {
                Err(LogError::NotMember { name: name.to_owned() })
            }
            _ => Ok(is_changed),
        }
    }

    /// The id of the newest set of certificates, and the answers to challenges that all members give. Both were read at the same moment.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn certificate_news(&self) -> Result<(Option<SetId>, Vec<crate::orders::Answer>), LogError> {
        let reads = vec![read(self.set_id_key(), Vec::new()), self.read_answers()];
        let mut found = self.etcd().transact(Vec::new(), reads).await?.unwrap_or_default().into_iter();
        let id = found.next().unwrap_or_default().into_iter().next();
        let id = id.map(|row| {
            row.value
                .try_into()
                .map(SetId::from_bytes)
                .map_err(|_| damaged(&row.key, "it does not have 8 bytes"))
        });
        Ok((id.transpose()?, self.answers_of(found.next().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_as_it_was_written() {
        let id = |n| SetId::from_bytes([0, 0, 0, n, 1, 2, 3, 4]);
        let certificates = [("a.pem", id(1)), ("b.pem", id(2))].map(|(name, id)| (name.to_owned(), id));
        let set = CertificateSet { id: Some(id(2)), certificates: certificates.into() };
        let bytes = set.bytes();
        assert_eq!(CertificateSet::read(&bytes), Some(set.clone()));
        assert_eq!(CertificateSet::read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(CertificateSet::read(&[&bytes[..], &[0]].concat()), None);
        assert!(set.is_before(id(3)) && !set.is_before(id(2)) && CertificateSet::default().is_before(id(1)));
    }
}
