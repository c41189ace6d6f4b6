//! A whole certificate file: the chain and the key. A handshake reads the file if the memo does not contain it. The verification in the background
//! reads every file that is not verified yet.

use crate::issuers::Issuers;
use crate::leaf::{Leaf, issuer_and_subject, pem_fault};
use crate::ocsp;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A chain with its key, and the fields of its leaf.
pub struct Bundle {
    /// The fields of the leaf certificate.
    pub leaf: Leaf,
    /// A defect of the bundle or its `.ocsp` file. The bundle can be served nevertheless, but it is possible that some clients refuse it.
    pub amiss: Option<String>,
    /// The last second in which the stapled OCSP response is valid (in seconds since the epoch). `None` if no response is stapled, and `i64::MAX` if
    /// the response contains no end.
    pub stapled_until: Option<i64>,
    pub(crate) key: CertifiedKey,
}

/// The contents of the files of one certificate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'p> {
    /// The bundle file: the chain in PEM, and usually the private key.
    pub pem: &'p [u8],
    /// The `.key` file in the same directory.
    pub key: Option<&'p [u8]>,
    /// The `.ocsp` file in the same directory. An empty file counts as no file.
    pub ocsp: Option<&'p [u8]>,
}

impl Bundle {
    /// Reads a PEM file: the leaf, and after the leaf its intermediates. The private key is in the same file or in the `.key` file. If the file
    /// contains no intermediates, this function adds the known issuers. `now` is in seconds since the epoch.
    ///
    /// # Errors
    /// When the certificate or the key is missing or cannot be parsed, or the key does not belong to the certificate. A bad `.ocsp` file is not an
    /// error: [`Bundle::amiss`] describes the problem.
    pub fn read(parts: Parts<'_>, issuers: &Issuers, now: i64) -> Result<Self, String> {
        let Parts { pem, key, ocsp } = parts;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|why| format!("the PEM cannot be read: {}", unread(pem, &why, false)))?;
        let first = chain
            .first()
            .ok_or("the file contains no certificate in PEM; expected the server's certificate, and after it the certificates of its issuers; the key is in this file, or in a `.key` file next to it")?;
        let leaf = Leaf::of_der(first)?;
        let mut amiss = out_of_order(&chain);
        let key = match (PrivateKeyDer::from_pem_slice(pem), key) {
            (Ok(key), _) => key,
            (Err(_), Some(key)) => PrivateKeyDer::from_pem_slice(key).map_err(|why| match why {
                pem::Error::NoItemsFound if !is_encrypted(key) => {
                    "the `.key` file contains no private key".to_owned()
                }
                why => {
                    format!(
                        "the `.key` file contains no private key that can be read: {}",
                        unread(key, &why, true)
                    )
                }
            })?,
            (Err(pem::Error::NoItemsFound), None) if !is_encrypted(pem) => return Err(WITHOUT_KEY.to_owned()),
            (Err(why), None) => {
                return Err(format!(
                    "the file contains no private key that can be read: {}",
                    unread(pem, &why, false)
                ));
            }
        };
        let mut stapled_until = None;
        let staple =
            ocsp.filter(|ocsp| !ocsp.is_empty()).and_then(|ocsp| match ocsp::good_until(ocsp, first) {
                Ok(until) if now <= until => {
                    stapled_until = Some(until);
                    Some(ocsp.to_vec())
                }
                Ok(_) => {
                    amiss = Some(
                        "the OCSP response in the `.ocsp` file has expired, so it is not sent to clients"
                            .to_owned(),
                    );
                    None
                }
                Err(why) => {
                    amiss =
                        Some(format!("the OCSP response in the `.ocsp` file is not sent to clients: {why}"));
                    None
                }
            });
        let chain = issuers.share(issuers.complete(chain));
        let mut key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(unfit)?;
        key.ocsp = staple;
        Ok(Bundle { leaf, amiss, stapled_until, key })
    }
}

/// The reason why a bundle without a private key cannot be used.
pub const WITHOUT_KEY: &str = "the file contains no private key, and the directory has no file with the key: `NAME.pem.key` or `NAME.key`";

/// Describes why the PEM of a bundle, or of the `.key` file next to the bundle, cannot be read. If the key is encrypted, the text says how to decrypt
/// the key.
fn unread(pem: &[u8], why: &pem::Error, is_key_file: bool) -> String {
    if is_encrypted(pem) && is_key_file {
        return "the key is encrypted: run `openssl pkey -in FILE -out FILE.new` with the `.key` file as FILE, which writes the key without its passphrase; \
                then replace FILE with FILE.new"
            .to_owned();
    }
    let has = |word: &[u8]| pem.windows(word.len()).any(|window| window == word);
    match is_encrypted(pem) {
        true if has(FORMER) => "the key is in OpenSSL's former encrypted form: run `openssl pkey -in NAME.pem -out NAME.pem.key`, which writes the \
                 key without its passphrase next to the bundle; then remove the key from the bundle"
            .to_owned(),
        true => "the key is encrypted: install the bundle in a certificate directory with `enfilade certs add`; for a crt-list, run `openssl pkey \
                 -in NAME.pem -out NAME.pem.key`, which writes the key without its passphrase next to the bundle"
            .to_owned(),
        false => pem_fault(why),
    }
}

fn is_encrypted(pem: &[u8]) -> bool {
    pem.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED)
}

/// This word is in the PEM label of an encrypted key. In OpenSSL's traditional form, the word is in the header `Proc-Type: 4,ENCRYPTED`.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// The header of a key that is encrypted in OpenSSL's traditional form. `enfilade certs add` does not read such a key.
const FORMER: &[u8] = b"Proc-Type:";

fn unfit(why: rustls::Error) -> String {
    match why {
        rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch) => {
            "the private key belongs to another certificate".to_owned()
        }
        why => format!("the private key cannot be used with the certificate: {why}"),
    }
}

/// Describes the first place in a chain where a certificate is not followed by the certificate of its issuer. RFC 5246 section 7.4.2 requires that
/// each issuer follows the certificate that it issued. RFC 8446 section 4.4.2 only recommends this order, but some clients need it.
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
        "certificate {next} of the chain is not the issuer of certificate {one}: put each issuer after the certificate that it issued"
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

    fn read(pem: &str, key: Option<&str>) -> Result<Bundle, String> {
        let parts = Parts { pem: pem.as_bytes(), key: key.map(str::as_bytes), ocsp: None };
        Bundle::read(parts, &Issuers::default(), 0)
    }

    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_chain_out_of_order_is_served_with_a_warning() {
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
        let amiss = |parts: &[&str]| read(&parts.concat(), None).unwrap().amiss;
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
    fn the_key_is_in_the_bundle_or_in_the_key_file() {
        let ((one, key), (_, other)) = (made("a.example"), made("b.example"));
        assert_eq!(read(&format!("{one}{key}"), None).unwrap().leaf.names[0], "a.example");
        assert!(read(&one, Some(&key)).is_ok());
        for (pem, key, why) in [
            ("nothing".to_owned(), None, "the file contains no certificate"),
            (
                one.clone(),
                None,
                "the file contains no private key, and the directory has no file with the key: `NAME.pem.key` or `NAME.key`",
            ),
            // A key that is encrypted in OpenSSL's traditional form. Its headers are not base64.
            (
                format!(
                    "{one}-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
                ),
                None,
                "the key is in OpenSSL's former encrypted form",
            ),
            (one.replace("-----END", ""), None, "a PEM block has no end"),
            (one.clone(), Some("nothing"), "the `.key` file"),
            (format!("{one}{other}"), None, "the private key belongs to another certificate"),
            (one.clone(), Some(other.as_str()), "the private key belongs to another certificate"),
            (
                one.clone(),
                Some("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
                "openssl pkey -in FILE -out FILE.new",
            ),
        ] {
            let said = read(&pem, key).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn an_ocsp_response_is_stapled_while_it_is_valid() {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        let serial = crate::leaf::serial(made.cert.der()).unwrap();
        let good = crate::ocsp::tests::answer(serial, 0x80, b"20300101000000Z");
        let of = |ocsp: &[u8], now| {
            let parts = Parts { pem: pem.as_bytes(), key: None, ocsp: Some(ocsp) };
            let bundle = Bundle::read(parts, &Issuers::default(), now).unwrap();
            (bundle.key.ocsp.is_some(), bundle.stapled_until, bundle.amiss.is_some())
        };
        assert_eq!(of(&good, 1_893_456_000), (true, Some(1_893_456_000), false));
        assert_eq!(of(&good, 1_893_456_001), (false, None, true));
        assert_eq!(of(b"nonsense", 0), (false, None, true));
        assert_eq!(of(b"", 0), (false, None, false));
    }
}
