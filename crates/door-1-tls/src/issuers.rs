//! Certificates of authorities, found by their subject. A bundle that contains only a leaf is completed with these certificates, as with HAProxy's
//! `issuers-chain-path`.

use crate::leaf::{issuer_and_subject, pem_fault};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

/// The greatest number of certificates in a completed chain.
const CHAIN_MAX: usize = 8;

/// The maximum number of CA certificates in the table that all bundles share. When the table is full, a bundle stores its own copy of a CA
/// certificate that is not in the table.
const SHARED_MAX: usize = 1_024;

/// The certificates of authorities.
#[derive(Debug, Default)]
pub struct Issuers {
    /// The authorities that complete chains, by their subject as encoded.
    known: HashMap<Vec<u8>, CertificateDer<'static>>,
    /// The certificates that follow the leaf in each bundle. Nearly all bundles contain the same few certificates of authorities, so each of these
    /// certificates is stored only once. These certificates stay in memory until the process ends.
    shared: RwLock<HashSet<&'static [u8]>>,
}

impl Issuers {
    /// Adds the certificates of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be parsed, or contains no certificate.
    pub fn add(&mut self, pem: &[u8]) -> Result<(), String> {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|why| format!("the PEM cannot be read: {}", pem_fault(&why)))?;
            let (_, subject) =
                issuer_and_subject(&certificate).ok_or("a certificate in the file cannot be parsed")?;
            self.known.entry(subject.to_vec()).or_insert(certificate);
            count += 1;
        }
        match count {
            0 => Err("the file contains no certificate".into()),
            _ => Ok(()),
        }
    }

    /// Returns an equal chain that uses less memory. Every certificate after the leaf is a certificate of an authority, and its bytes are shared with
    /// other chains.
    pub(crate) fn share(&self, chain: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
        let mut chain = chain.into_iter();
        chain.next().into_iter().chain(chain.map(|authority| self.shared(authority))).collect()
    }

    fn shared(&self, authority: CertificateDer<'static>) -> CertificateDer<'static> {
        let known = self.shared.read().unwrap_or_else(PoisonError::into_inner).get(&*authority).copied();
        if let Some(known) = known {
            return CertificateDer::from(known);
        }
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if shared.len() >= SHARED_MAX {
            return authority;
        }
        let kept: &'static [u8] = Box::leak(authority.to_vec().into_boxed_slice());
        shared.insert(kept);
        CertificateDer::from(kept)
    }

    /// If the chain consists of a leaf only, adds the known certificates of its issuers. The self-signed root is left out, because clients have the
    /// root.
    pub(crate) fn complete(&self, chain: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
        if self.known.is_empty() || chain.len() != 1 {
            return chain;
        }
        let mut chain = chain;
        while chain.len() < CHAIN_MAX {
            let issuer = chain.last().and_then(|last| issuer_and_subject(last)).map(|(issuer, _)| issuer);
            let Some(next) = issuer.and_then(|issuer| self.known.get(issuer)) else { break };
            if issuer_and_subject(next).is_none_or(|(issuer, subject)| issuer == subject) {
                break;
            }
            let next = next.clone();
            chain.push(next);
        }
        chain
    }
}

/// Whether the issuer named in the first certificate of `pem` is the subject of the first certificate of `issuer`. If the first certificate of `pem`
/// is self-signed, the first certificate of `issuer` must be the same certificate. Signatures are not verified.
pub fn is_issued_by(pem: &[u8], issuer: &[u8]) -> bool {
    let first = |pem: &[u8]| CertificateDer::from_pem_slice(pem).ok();
    let (Some(one), Some(other)) = (first(pem), first(issuer)) else { return false };
    match (issuer_and_subject(&one), issuer_and_subject(&other)) {
        (Some((issuer, subject)), _) if issuer == subject => one == other,
        (Some((issuer, _)), Some((_, subject))) => issuer == subject,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    #[test]
    fn a_lone_leaf_gets_its_chain() {
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            (params, KeyPair::generate().unwrap())
        };
        let (root, root_key) = authority("root");
        let (middle, middle_key) = authority("middle");
        let mut issuers = Issuers::default();
        issuers.add(root.self_signed(&root_key).unwrap().pem().as_bytes()).unwrap();
        let middle_made = middle.signed_by(&middle_key, &Issuer::new(root, root_key)).unwrap();
        issuers.add(middle_made.pem().as_bytes()).unwrap();
        let leaf = CertificateParams::new(["a.example".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &Issuer::new(middle, middle_key)).unwrap();
        let leaf: CertificateDer<'static> = leaf.der().clone();
        let middle: CertificateDer<'static> = middle_made.der().clone();
        assert_eq!(issuers.complete(vec![leaf.clone()]), [leaf.clone(), middle.clone()]);
        // A chain with intermediates is not changed.
        let theirs = vec![leaf.clone(), leaf.clone()];
        assert_eq!(issuers.complete(theirs.clone()), theirs);
        assert_eq!(Issuers::default().complete(vec![leaf.clone()]), std::slice::from_ref(&leaf));
        // Certificates of authorities are shared, and leaves are not.
        let chain = |n: u8| vec![CertificateDer::from(vec![n; 9]), middle.clone(), leaf.clone()];
        let (one, other) = (issuers.share(chain(1)), issuers.share(chain(2)));
        assert_eq!((&one, &other), (&chain(1), &chain(2)));
        assert_eq!(one[1].as_ptr(), other[1].as_ptr());
        assert_eq!(issuers.shared.read().unwrap().len(), 2);
        (0..2 * SHARED_MAX as u32).for_each(|n| {
            drop(issuers.share(vec![leaf.clone(), CertificateDer::from(n.to_be_bytes().to_vec())]))
        });
        assert_eq!(issuers.shared.read().unwrap().len(), SHARED_MAX);
        assert!(issuers.add(b"nothing").is_err());
    }
}
