//! The whole of a file: the chain and the key, ready to answer with. For the first handshake that needs it, and for whoever verifies.

use crate::leaf::{Leaf, issuer_and_subject};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A chain with its key, and what its leaf says.
pub struct Bundle {
    /// Its leaf.
    pub leaf: Leaf,
    /// What clients may stumble over, though it can be served.
    pub amiss: Option<String>,
    pub(crate) key: CertifiedKey,
}

impl Bundle {
    /// From a PEM file: the leaf first, then its intermediates, and its private key there or in a file beside it.
    ///
    /// # Errors
    /// What is wrong, in words: a part is missing or cannot be read, the key is not the certificate's, or the chain is out of order.
    pub fn read(pem: &[u8], key: Option<&[u8]>) -> Result<Self, String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|why| format!("the PEM cannot be read: {why}"))?;
        let leaf =
            chain.first().ok_or("it holds no certificate; expected a leaf, its intermediates and its key")?;
        let leaf = Leaf::of_der(leaf)?;
        let amiss = out_of_order(&chain);
        let key = match (PrivateKeyDer::from_pem_slice(pem), key) {
            (Ok(key), _) => key,
            (Err(_), Some(beside)) => PrivateKeyDer::from_pem_slice(beside).map_err(|why| {
                format!("the `.key` file beside it holds no private key that can be read: {why}")
            })?,
            (Err(why), None) => return Err(format!("it holds no private key that can be read: {why}")),
        };
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|why| format!("the private key cannot be used with the certificate: {why}"))?;
        Ok(Bundle { leaf, amiss, key })
    }
}

/// Each certificate is followed by its issuer's (RFC 5246 §7.4.2; RFC 8446 §4.4.2 only asks for it, and some clients need it).
fn out_of_order(chain: &[CertificateDer<'_>]) -> Option<String> {
    let place = chain.windows(2).position(|pair| match pair {
        [one, next] => match (issuer_and_subject(one), issuer_and_subject(next)) {
            (Some((issuer, _)), Some((_, subject))) => issuer != subject,
            _ => true,
        },
        _ => false,
    })?;
    let (one, next) = (place + 1, place + 2);
    Some(format!(
        "certificate {next} of the chain is not the issuer of certificate {one}: put each after the one it issued"
    ))
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").field("leaf", &self.leaf).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_chain_out_of_order_is_served_and_told() {
        use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            (params, KeyPair::generate().unwrap())
        };
        let (root, root_key) = authority("root");
        let (middle, middle_key) = authority("middle");
        let root_pem = root.self_signed(&root_key).unwrap().pem();
        let middle_pem = middle.signed_by(&middle_key, &Issuer::new(root, root_key)).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["a.example".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &Issuer::new(middle, middle_key)).unwrap().pem();
        let key = key.serialize_pem();
        let amiss = |parts: &[&str]| Bundle::read(parts.concat().as_bytes(), None).unwrap().amiss;
        for chain in
            [vec![&leaf, &key], vec![&leaf, &middle_pem, &key], vec![&leaf, &middle_pem, &root_pem, &key]]
        {
            assert_eq!(amiss(&chain.into_iter().map(String::as_str).collect::<Vec<_>>()), None);
        }
        assert!(
            amiss(&[&leaf, &root_pem, &middle_pem, &key]).unwrap().contains("certificate 2 of the chain")
        );
        assert!(amiss(&[&leaf, &middle_pem, &leaf, &key]).unwrap().contains("certificate 3 of the chain"));
    }

    #[test]
    fn a_chain_with_its_key_there_or_beside_it() {
        let ((one, key), (_, other)) = (made("a.example"), made("b.example"));
        assert_eq!(Bundle::read(format!("{one}{key}").as_bytes(), None).unwrap().leaf.names[0], "a.example");
        assert!(Bundle::read(one.as_bytes(), Some(key.as_bytes())).is_ok());
        for (pem, beside, why) in [
            ("nothing".to_owned(), None, "it holds no certificate"),
            (one.clone(), None, "it holds no private key"),
            (one.clone(), Some("nothing"), "the `.key` file beside it"),
            (format!("{one}{other}"), None, "cannot be used with the certificate"),
            (one.clone(), Some(other.as_str()), "cannot be used with the certificate"),
        ] {
            let said = Bundle::read(pem.as_bytes(), beside.map(str::as_bytes)).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
