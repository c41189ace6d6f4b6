//! Reads the certificates and keys in PKCS #12 (RFC 7292), the form of `.p12` and `.pfx` files. The MAC over the whole file is not checked, because
//! [`crate::Pieces::join`] checks anyway that the key belongs to the certificate.

use crate::encrypted::{Sealed, decrypt};
use crate::leaf::{Der, tag};
use zeroize::Zeroizing;

/// The content of a PKCS #12 file, in DER.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) certificates: Vec<Vec<u8>>,
    /// The private keys, as PKCS #8.
    pub(crate) keys: Vec<Zeroizing<Vec<u8>>>,
}

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
const KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x01];
const ENCRYPTED_KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02];
const CERTIFICATE_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03];
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
/// The tag of an explicit `[0]`, and the tag of an implicit `[0]` OCTET STRING.
const FIRST: u8 = 0xa0;
const FIRST_OCTETS: u8 = 0x80;

const UNPARSED: Sealed = Sealed::Unsupported("the file cannot be parsed as PKCS #12");

/// Whether the bytes look like a PKCS #12 file: a sequence that begins with the version 3.
pub(crate) fn is_pkcs12(der: &[u8]) -> bool {
    let begin = || {
        let mut file = Der(Der(der).expect(tag::SEQUENCE)?);
        let version = file.expect(tag::INTEGER)?;
        Some(version == [3] && Der(file.expect(tag::SEQUENCE)?).expect(tag::OID).is_some())
    };
    begin().unwrap_or(false)
}

/// Reads a PKCS #12 file.
pub(crate) fn read(der: &[u8], passphrase: &str) -> Result<Content, Sealed> {
    let safes = safes(der).ok_or(UNPARSED)?;
    let (mut content, mut safes) = (Content::default(), Der(safes));
    while !safes.0.is_empty() {
        let mut safe = Der(safes.expect(tag::SEQUENCE).ok_or(UNPARSED)?);
        let kind = safe.expect(tag::OID).ok_or(UNPARSED)?;
        let inside = safe.expect(FIRST).ok_or(UNPARSED)?;
        match kind {
            DATA => bags(Der(inside).expect(tag::OCTETS).ok_or(UNPARSED)?, passphrase, &mut content)?,
            ENCRYPTED_DATA => {
                let (algorithm, sealed) = encrypted_data(inside).ok_or(UNPARSED)?;
                // With about one in 256 wrong passphrases, the padding is valid. So content that cannot be parsed also counts as a wrong passphrase.
                bags(&decrypt(algorithm, sealed, passphrase)?, passphrase, &mut content)
                    .map_err(|why| if why == UNPARSED { Sealed::Wrong } else { why })?;
            }
            _ => {
                return Err(Sealed::Unsupported(
                    "the file is encrypted with a recipient's public key, not with a passphrase",
                ));
            }
        }
    }
    Ok(content)
}

fn safes(der: &[u8]) -> Option<&[u8]> {
    let mut file = Der(Der(der).expect(tag::SEQUENCE)?);
    file.expect(tag::INTEGER)?;
    let mut content = Der(file.expect(tag::SEQUENCE)?);
    content.expect(tag::OID).filter(|kind| *kind == DATA)?;
    let octets = Der(content.expect(FIRST)?).expect(tag::OCTETS)?;
    Der(octets).expect(tag::SEQUENCE)
}

fn encrypted_data(inside: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut data = Der(Der(inside).expect(tag::SEQUENCE)?);
    data.expect(tag::INTEGER)?;
    let mut content = Der(data.expect(tag::SEQUENCE)?);
    content.expect(tag::OID)?;
    Some((content.expect(tag::SEQUENCE)?, content.expect(FIRST_OCTETS)?))
}

/// Reads the keys and certificates in a SafeContents (RFC 7292 §4.2). Other kinds of bags, such as revocation lists, are skipped.
fn bags(safe: &[u8], passphrase: &str, content: &mut Content) -> Result<(), Sealed> {
    let mut bags = Der(Der(safe).expect(tag::SEQUENCE).ok_or(UNPARSED)?);
    while !bags.0.is_empty() {
        let mut bag = Der(bags.expect(tag::SEQUENCE).ok_or(UNPARSED)?);
        let kind = bag.expect(tag::OID).ok_or(UNPARSED)?;
        let value = bag.expect(FIRST).ok_or(UNPARSED)?;
        match kind {
            KEY_BAG => content.keys.push(Zeroizing::new(value.to_vec())),
            ENCRYPTED_KEY_BAG => content.keys.push(decrypt_key(value, passphrase)?),
            CERTIFICATE_BAG => content.certificates.extend(certificate(value).ok_or(UNPARSED)?),
            _ => {}
        }
    }
    Ok(())
}

/// The certificate of a bag; `Some(None)` if the certificate is not X.509, and `None` if the bag cannot be parsed.
fn certificate(value: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut certificate = Der(Der(value).expect(tag::SEQUENCE)?);
    let is_x509 = certificate.expect(tag::OID)? == X509;
    let der = Der(certificate.expect(FIRST)?).expect(tag::OCTETS)?;
    Some(is_x509.then(|| der.to_vec()))
}

/// Decrypts an EncryptedPrivateKeyInfo (RFC 5958 §3). The result is a key in the form of PKCS #8.
pub(crate) fn decrypt_key(der: &[u8], passphrase: &str) -> Result<Zeroizing<Vec<u8>>, Sealed> {
    let parts = |der| {
        let mut info = Der(Der(der).expect(tag::SEQUENCE)?);
        Some((info.expect(tag::SEQUENCE)?, info.expect(tag::OCTETS)?))
    };
    let (algorithm, sealed) = parts(der).ok_or(Sealed::Unsupported("the encrypted key cannot be parsed"))?;
    let key = decrypt(algorithm, sealed, passphrase)?;
    // With about one in 256 wrong passphrases, the padding is valid. So content that cannot be parsed also counts as a wrong passphrase.
    let mut whole = Der(&key);
    let is_key = whole.expect(tag::SEQUENCE).is_some_and(|key| Der(key).expect(tag::INTEGER).is_some());
    match is_key && whole.0.is_empty() {
        true => Ok(key),
        false => Err(Sealed::Wrong),
    }
}
