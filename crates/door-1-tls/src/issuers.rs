//! The certificates of authorities, by whom they are of: what completes a bundle that holds only its leaf, as HAProxy's
//! `issuers-chain-path` does.

use crate::leaf::issuer_and_subject;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::HashMap;

/// A chain longer than this leads nowhere.
const CHAIN_MAX: usize = 8;

/// Authorities, each by its subject as it is written.
#[derive(Clone, Debug, Default)]
pub struct Issuers(HashMap<Vec<u8>, CertificateDer<'static>>);

impl Issuers {
    /// Those of a PEM file, too.
    ///
    /// # Errors
    /// When it cannot be read, or holds none.
    pub fn add(&mut self, pem: &[u8]) -> Result<(), String> {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| format!("the PEM cannot be read: {why}"))?;
            let (_, subject) =
                issuer_and_subject(&certificate).ok_or("a certificate in it cannot be read")?;
            self.0.entry(subject.to_vec()).or_insert(certificate);
            count += 1;
        }
        match count {
            0 => Err("it holds no certificate".into()),
            _ => Ok(()),
        }
    }

    /// A chain of a leaf alone with the authorities above it. The last one, who vouches for itself, is left out: clients know it.
    pub(crate) fn complete(&self, chain: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
        if self.0.is_empty() || chain.len() != 1 {
            return chain;
        }
        let mut chain = chain;
        while chain.len() < CHAIN_MAX {
            let issuer = chain.last().and_then(|last| issuer_and_subject(last)).map(|(issuer, _)| issuer);
            let Some(next) = issuer.and_then(|issuer| self.0.get(issuer)) else { break };
            if issuer_and_subject(next).is_none_or(|(issuer, subject)| issuer == subject) {
                break;
            }
            let next = next.clone();
            chain.push(next);
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    #[test]
    fn a_leaf_alone_is_given_its_chain() {
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
        // A chain that is there is as its owner wants it.
        let theirs = vec![leaf.clone(), leaf.clone()];
        assert_eq!(issuers.complete(theirs.clone()), theirs);
        assert_eq!(Issuers::default().complete(vec![leaf.clone()]), [leaf]);
        assert!(issuers.add(b"nothing").is_err());
    }
}
