//! Joins the files that belong to one certificate into a bundle. The certificate, its key and its chain may be in any order, in any number of files,
//! in PEM, DER or PKCS #12.

use crate::chain::{bundle, in_order, of_chain};
use crate::encrypted::Sealed;
use crate::leaf::{Der, Leaf, check_of_chain, public_key, tag};
use crate::pem_blocks::{Blocks, decode};
use crate::pkcs12;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

/// The certificates and private keys of some files.
#[derive(Default)]
pub struct Pieces {
    files: Vec<String>,
    certificates: Vec<(CertificateDer<'static>, String)>,
    keys: Vec<(PrivateKeyDer<'static>, String)>,
}

/// The reason why a file was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    /// The file is encrypted, and no passphrase was given.
    #[error("`{0}` is encrypted: give its passphrase")]
    NeedsPassphrase(String),
    /// The file is encrypted with another passphrase, or is damaged.
    #[error("the passphrase is wrong, or `{0}` is damaged")]
    WrongPassphrase(String),
    /// The file cannot be read or used. The text contains the reason, and in most cases the next step.
    #[error("{0}")]
    Unusable(String),
}

/// One certificate with its key and its chain.
pub struct Joined {
    /// The fields of the leaf certificate.
    pub leaf: Leaf,
    /// The name of the file that contained the leaf certificate.
    pub file: String,
    /// The bundle: the leaf, the certificates above it in their order, and the key.
    pub pem: Zeroizing<String>,
    /// Defects of the bundle that an operator should know. The bundle can be served nevertheless.
    pub warnings: Vec<String>,
}

impl Pieces {
    /// Adds the certificates and keys of a file. If any of them cannot be added, this function adds nothing.
    ///
    /// # Errors
    /// When the file is encrypted and the passphrase is missing or wrong, or when the file is in no known form.
    pub fn add(&mut self, file: &str, bytes: &[u8], passphrase: Option<&str>) -> Result<(), PieceError> {
        let mut new = Pieces::default();
        let is_pem = bytes.windows(BEGIN.len()).any(|window| window == BEGIN);
        match is_pem {
            true => new.add_pem(file, bytes, passphrase)?,
            false => new.add_der(file, bytes, passphrase)?,
        }
        self.files.push(file.to_owned());
        self.certificates.append(&mut new.certificates);
        self.keys.append(&mut new.keys);
        Ok(())
    }

    /// Whether a private key was added.
    pub fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    fn add_pem(&mut self, file: &str, pem: &[u8], passphrase: Option<&str>) -> Result<(), PieceError> {
        let unread =
            |why: &dyn std::fmt::Display| PieceError::Unusable(format!("`{file}` cannot be read: {why}"));
        let mut blocks = Blocks(pem);
        while let Some((label, inside)) = blocks.next().map_err(|why| unread(&why))? {
            let der = || {
                let mut der = Vec::new();
                decode(inside, &mut der).map(|()| der).map_err(|why| unread(&why))
            };
            match label {
                b"CERTIFICATE" | b"X509 CERTIFICATE" | b"TRUSTED CERTIFICATE" => {
                    self.add_certificate(file, &der()?)?
                }
                b"ENCRYPTED PRIVATE KEY" => self.add_encrypted_key(file, &der()?, passphrase)?,
                b"PKCS7" => return Err(is_pkcs7(file, "pem")),
                label
                    if label.ends_with(b"PRIVATE KEY")
                        && inside.trim_ascii_start().starts_with(OLD_ENCRYPTION) =>
                {
                    return Err(PieceError::Unusable(format!(
                        "the key in `{file}` is in OpenSSL's former encrypted form, which is not supported: run `openssl pkey -in {file} -out plain.key`, then give plain.key"
                    )));
                }
                _ => {}
            }
        }
        for key in PrivateKeyDer::pem_slice_iter(pem) {
            self.keys.push((key.map_err(|why| unread(&why))?, file.to_owned()));
        }
        Ok(())
    }

    fn add_der(&mut self, file: &str, der: &[u8], passphrase: Option<&str>) -> Result<(), PieceError> {
        if pkcs12::is_pkcs12(der) {
            return self.add_pkcs12(file, der, passphrase);
        }
        match first_tags(der) {
            Some((tag::INTEGER, _)) => {
                let key = PrivateKeyDer::try_from(der.to_vec());
                let key = key
                    .map_err(|why| PieceError::Unusable(format!("`{file}` contains no usable key: {why}")))?;
                self.keys.push((key, file.to_owned()));
                Ok(())
            }
            Some((tag::SEQUENCE, Some(tag::OID))) => self.add_encrypted_key(file, der, passphrase),
            Some((tag::SEQUENCE, _)) => self.add_certificate(file, der),
            Some((tag::OID, _)) => Err(is_pkcs7(file, "der")),
            _ => Err(PieceError::Unusable(format!(
                "`{file}` contains no certificate and no key; expected PEM, DER or PKCS #12"
            ))),
        }
    }

    fn add_certificate(&mut self, file: &str, der: &[u8]) -> Result<(), PieceError> {
        // OpenSSL's "trusted certificate" has further bytes after the certificate.
        let mut rest = Der(der);
        let _ = rest.next();
        let der = der.get(..der.len() - rest.0.len()).unwrap_or_default();
        check_of_chain(der).map_err(|why| PieceError::Unusable(format!("`{file}`: {why}")))?;
        self.certificates.push((CertificateDer::from(der.to_vec()), file.to_owned()));
        Ok(())
    }

    fn add_key(&mut self, file: &str, pkcs8: &[u8]) {
        self.keys.push((PrivatePkcs8KeyDer::from(pkcs8.to_vec()).into(), file.to_owned()));
    }

    fn add_encrypted_key(
        &mut self,
        file: &str,
        der: &[u8],
        passphrase: Option<&str>,
    ) -> Result<(), PieceError> {
        let passphrase = passphrase.ok_or_else(|| PieceError::NeedsPassphrase(file.to_owned()))?;
        let key = pkcs12::decrypt_key(der, passphrase).map_err(|why| {
            not_opened(
                file,
                &why,
                &format!("run `openssl pkey -in {file} -out plain.key`, then give plain.key"),
            )
        })?;
        self.add_key(file, &key);
        Ok(())
    }

    fn add_pkcs12(&mut self, file: &str, der: &[u8], passphrase: Option<&str>) -> Result<(), PieceError> {
        // Many PKCS #12 files have an empty passphrase, so the empty passphrase is tried if no passphrase is given.
        let read =
            pkcs12::read(der, passphrase.unwrap_or_default()).map_err(|why| match (why, passphrase) {
                (Sealed::Wrong, None) => PieceError::NeedsPassphrase(file.to_owned()),
                (why, _) => not_opened(
                    file,
                    &why,
                    &format!("run `openssl pkcs12 -in {file} -nodes -out plain.pem`, then give plain.pem"),
                ),
            })?;
        for certificate in &read.certificates {
            self.add_certificate(file, certificate)?;
        }
        read.keys.iter().for_each(|key| self.add_key(file, key));
        Ok(())
    }

    /// Joins the added files into a bundle. The leaf is the certificate to which the key belongs. Each certificate in the bundle is followed by the
    /// certificate of its issuer. `now` is in seconds since the epoch.
    ///
    /// # Errors
    /// When the files cannot be joined, for example because the key is missing or belongs to another certificate. The text contains the reason and
    /// the next step.
    pub fn join(self, now: i64) -> Result<Joined, String> {
        let Pieces { files, certificates, keys } = self;
        if certificates.is_empty() {
            return Err(format!("no certificate in {}: give the certificate file too", listed(&files)));
        }
        let (mut fitting, mut other) = (Vec::new(), Vec::new());
        for (key, file) in &keys {
            let public =
                any_supported_type(key).ok().and_then(|key| Some(key.public_key()?.as_ref().to_vec()));
            let public = public
                .ok_or_else(|| format!("the private key in `{file}` is of a kind that cannot be used; expected RSA, ECDSA or Ed25519"))?;
            match certificates.iter().position(|(der, _)| public_key(der) == Some(&*public)) {
                // Two of the files may contain the same key.
                Some(leaf) if fitting.iter().all(|(known, _)| *known != leaf) => fitting.push((leaf, key)),
                Some(_) => {}
                None => other.push(file),
            }
        }
        let (leaf, key) = match (fitting.as_slice(), keys.first()) {
            ([one], _) => *one,
            ([], None) => return Err(without_key(&files)),
            ([], Some((_, file))) => {
                let all: Vec<String> = certificates.iter().map(|(_, file)| file.clone()).collect();
                return Err(format!(
                    "this key belongs to another certificate: `{file}` is not the key of a certificate in {}",
                    listed(&all)
                ));
            }
            _ => {
                return Err(format!(
                    "the files {} contain the private keys of several certificates: add one certificate with its key at a time",
                    listed(&files)
                ));
            }
        };
        let (chain, unused) = in_order(&certificates, leaf);
        let (der, file) = certificates.get(leaf).ok_or("the leaf certificate cannot be found")?;
        let says = Leaf::of_der(der).map_err(|why| format!("`{file}`: {why}"))?;
        let mut warnings: Vec<String> = other
            .iter()
            .map(|file| format!("the key in `{file}` belongs to another certificate, and is left out"))
            .collect();
        warnings.extend(unused.iter().map(|file| {
            format!("a certificate in `{file}` is not an issuer of the leaf certificate, and is left out")
        }));
        warnings.extend(of_validity(&says, now));
        warnings.extend(of_chain(&chain));
        Ok(Joined { leaf: says, file: file.clone(), pem: bundle(&chain, key), warnings })
    }
}

const BEGIN: &[u8] = b"-----BEGIN ";
/// The first line in the PEM block of a key that is encrypted in OpenSSL's traditional form (RFC 1421). This form was OpenSSL's default before
/// version 1.0.
const OLD_ENCRYPTION: &[u8] = b"Proc-Type: 4,ENCRYPTED";
const DAY: i64 = 24 * 3600;
/// If a certificate expires within this number of days, the operator is warned.
const SOON_DAYS: i64 = 14;

fn is_pkcs7(file: &str, form: &str) -> PieceError {
    PieceError::Unusable(format!(
        "`{file}` is PKCS #7, which is not supported: run `openssl pkcs7 -inform {form} -in {file} -print_certs -out chain.pem`, then give chain.pem"
    ))
}

fn not_opened(file: &str, why: &Sealed, instead: &str) -> PieceError {
    match why {
        Sealed::Wrong => PieceError::WrongPassphrase(file.to_owned()),
        Sealed::Unsupported(what) => PieceError::Unusable(format!("`{file}`: {what}; {instead}")),
    }
}

fn without_key(files: &[String]) -> String {
    let names = files.join(" ");
    let first = files.first().map(String::as_str).unwrap_or_default();
    let stem = first.rsplit_once('.').filter(|(_, end)| !end.contains('/')).map_or(first, |(stem, _)| stem);
    format!(
        "no private key in {}: give the key file too, for example `enfilade certs add {names} {stem}.key`",
        files.join(", ")
    )
}

/// The names of files, for a message. Equal names in a row are listed once.
fn listed(files: &[String]) -> String {
    let mut names: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
    names.dedup();
    names.join(", ")
}

/// The tag of the first value in a DER sequence, and the tag of the first value inside that value, if there is one.
fn first_tags(der: &[u8]) -> Option<(u8, Option<u8>)> {
    let (tag, inside) = Der(Der(der).expect(tag::SEQUENCE)?).next()?;
    Some((tag, Der(inside).next().map(|(tag, _)| tag)))
}

fn of_validity(leaf: &Leaf, now: i64) -> Option<String> {
    match leaf.not_after - now {
        left if left < 0 => Some("the certificate has expired: clients refuse it".to_owned()),
        _ if leaf.not_before > now => Some(
            "the certificate is not valid yet, so clients refuse it; check the clock of this machine"
                .to_owned(),
        ),
        left if left < SOON_DAYS * DAY => Some(match left / DAY {
            0 => "the certificate expires within 24 hours: renew it".to_owned(),
            1 => "the certificate expires in 1 day: renew it".to_owned(),
            days => format!("the certificate expires in {days} days: renew it"),
        }),
        _ => None,
    }
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces").field("files", &self.files).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("leaf", &self.leaf).field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
