//! Reads the fields of a certificate that are needed before the first handshake: its names, its validity and its kind of key. Only the first
//! certificate of the PEM is decoded, and only these fields are parsed. The first handshake reads everything else.
//!
//! Tests compare these fields with the fields that a full parser finds (`x509-parser`). If a DER value is longer than the value that contains it, the
//! certificate cannot be read.

use crate::pem_blocks::{Blocks, decode};
use core::net::IpAddr;
use enfilade_facts::vocabulary::days_of;
use rustls::pki_types::pem;

/// The fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The names of the certificate, in lower case, each once. They are the DNS names and IP addresses in its alternative names, and the common names
    /// that can be server names.
    pub names: Vec<String>,
    /// The first second in which the certificate is valid (in seconds since the epoch).
    pub not_before: i64,
    /// The last second in which the certificate is valid (in seconds since the epoch).
    pub not_after: i64,
    /// The kind of the certificate's key.
    pub algorithm: Algorithm,
    /// Whether the file also contains a private key; always `false` in the result of [`Leaf::of_der`], which reads only the certificate.
    pub has_key: bool,
}

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA.
    Rsa,
    /// ECDSA on any curve.
    Ecdsa,
    /// Anything else.
    Other,
}

impl Algorithm {
    /// The name that commands and pages show.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rsa => "RSA",
            Algorithm::Ecdsa => "ECDSA",
            Algorithm::Other => "other",
        }
    }
}

/// A buffer for the DER of a certificate. The buffer can be used again for the next certificate.
#[derive(Default)]
pub struct Room(Vec<u8>);

impl Leaf {
    /// Reads the first certificate of a PEM bundle.
    ///
    /// # Errors
    /// The reason why the certificate cannot be read.
    pub fn read(pem: &[u8], room: &mut Room) -> Result<Leaf, &'static str> {
        let mut blocks = Blocks(pem);
        let mut has_key = false;
        let mut base64 = None;
        while let Some((label, inside)) = blocks.next()? {
            match label {
                b"CERTIFICATE" | b"X509 CERTIFICATE" | b"TRUSTED CERTIFICATE" => {
                    base64.get_or_insert(inside);
                }
                label if label.ends_with(b"PRIVATE KEY") => has_key = true,
                _ => {}
            }
            if has_key && base64.is_some() {
                break;
            }
        }
        let base64 = base64
            .ok_or("the file contains no certificate in PEM; expected the server's certificate, and after it the certificates of its issuers; the key is in this file, or in a `.key` file next to it")?;
        decode(base64, &mut room.0)?;
        Ok(Leaf { has_key, ..Self::of_der(&room.0)? })
    }

    /// Reads a certificate's DER.
    ///
    /// # Errors
    /// The reason why the certificate cannot be read.
    pub fn of_der(der: &[u8]) -> Result<Leaf, &'static str> {
        match walk(der).ok_or(UNPARSED)? {
            (leaf, true) => Ok(leaf),
            (_, false) => Err(
                "the certificate has X.509 version 1 or 2, which TLS libraries refuse: make it again with version 3, with its host names as \
                 subjectAltName (`openssl req -x509 -addext subjectAltName=DNS:NAME`, `openssl x509 -req -extfile FILE`)",
            ),
        }
    }
}

const UNPARSED: &str = "the certificate cannot be parsed";

/// Checks that a certificate of a chain can be parsed. Every X.509 version is accepted, because old root certificates have version 1.
pub(crate) fn check_of_chain(der: &[u8]) -> Result<(), &'static str> {
    walk(der).map(drop).ok_or(UNPARSED)
}

pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const OCTETS: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const TIME: u8 = 0x18;
    pub(crate) const VERSION: u8 = 0xa0;
    pub(crate) const EXTENSIONS: u8 = 0xa3;
    pub(crate) const DNS_NAME: u8 = 0x82;
    pub(crate) const ADDRESS: u8 = 0x87;
    /// UTF8String, PrintableString, IA5String.
    pub(crate) const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// A cursor over the content of a DER value: the bytes that were not read yet.
#[derive(Clone, Copy)]
pub(crate) struct Der<'d>(pub(crate) &'d [u8]);

impl<'d> Der<'d> {
    pub(crate) fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            // Four bytes are enough for the length of every value in a certificate or key file.
            long @ 0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (inside, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, inside))
    }

    pub(crate) fn expect(&mut self, wanted: u8) -> Option<&'d [u8]> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, inside)| inside)
    }

    pub(crate) fn next_if(&mut self, wanted: u8) -> Option<&'d [u8]> {
        let mut after = *self;
        let inside = after.expect(wanted)?;
        *self = after;
        Some(inside)
    }
}

/// A readable text for an error of the PEM library. The text of the library itself shows the bytes of a damaged line as numbers.
pub(crate) fn pem_fault(why: &pem::Error) -> String {
    match why {
        pem::Error::MissingSectionEnd { .. } => "a PEM block has no end; is the file truncated?".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "the first line of a PEM block is damaged".to_owned(),
        why => why.to_string(),
    }
}

/// The encoded issuer and the encoded subject of a certificate. In a chain, the issuer of a certificate is the subject of the next certificate.
pub(crate) fn issuer_and_subject(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut certificate = Der(Der(der).expect(tag::SEQUENCE)?);
    let mut fields = Der(certificate.expect(tag::SEQUENCE)?);
    fields.next_if(tag::VERSION);
    fields.expect(tag::INTEGER)?;
    fields.expect(tag::SEQUENCE)?;
    let issuer = fields.expect(tag::SEQUENCE)?;
    fields.expect(tag::SEQUENCE)?;
    Some((issuer, fields.expect(tag::SEQUENCE)?))
}

/// The encoded public key of a certificate (SubjectPublicKeyInfo).
pub(crate) fn public_key(der: &[u8]) -> Option<&[u8]> {
    let mut certificate = Der(Der(der).expect(tag::SEQUENCE)?);
    let mut fields = Der(certificate.expect(tag::SEQUENCE)?);
    fields.next_if(tag::VERSION);
    fields.expect(tag::INTEGER)?;
    for _ in ["algorithm", "issuer", "validity", "subject"] {
        fields.expect(tag::SEQUENCE)?;
    }
    let whole = fields.0;
    fields.expect(tag::SEQUENCE)?;
    whole.get(..whole.len() - fields.0.len())
}

/// The serial number of a certificate.
pub(crate) fn serial(der: &[u8]) -> Option<&[u8]> {
    let mut certificate = Der(Der(der).expect(tag::SEQUENCE)?);
    let mut fields = Der(certificate.expect(tag::SEQUENCE)?);
    fields.next_if(tag::VERSION);
    fields.expect(tag::INTEGER)
}

/// Reads the fields of a [`Leaf`] from a certificate (RFC 5280 §4.1), and whether the certificate has X.509 version 3. `None` if the DER cannot be
/// parsed.
fn walk(der: &[u8]) -> Option<(Leaf, bool)> {
    let mut certificate = Der(Der(der).expect(tag::SEQUENCE)?);
    let mut fields = Der(certificate.expect(tag::SEQUENCE)?);
    let version = fields.next_if(tag::VERSION);
    // In the certificate, version 3 has the number 2. A certificate without a version number has version 1.
    let is_version_3 = version.and_then(|version| Der(version).expect(tag::INTEGER)) == Some(&[2]);
    fields.expect(tag::INTEGER)?;
    fields.expect(tag::SEQUENCE)?;
    fields.expect(tag::SEQUENCE)?;
    let mut validity = Der(fields.expect(tag::SEQUENCE)?);
    let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
    let mut names = common_names(fields.expect(tag::SEQUENCE)?)?;
    let mut key = Der(fields.expect(tag::SEQUENCE)?);
    let algorithm = match Der(key.expect(tag::SEQUENCE)?).expect(tag::OID)? {
        RSA => Algorithm::Rsa,
        EC => Algorithm::Ecdsa,
        _ => Algorithm::Other,
    };
    let mut rest = fields;
    while !rest.0.is_empty() {
        match rest.next()? {
            (tag::EXTENSIONS, inside) => alternative_names(inside, &mut names)?,
            // These fields are unique ids of the issuer and the subject. The server does not use them.
            (0x81 | 0x82, _) => {}
            _ => return None,
        }
    }
    names.sort_unstable();
    names.dedup();
    Some((Leaf { names, not_before, not_after, algorithm, has_key: false }, is_version_3))
}

fn common_names(subject: &[u8]) -> Option<Vec<String>> {
    let (mut names, mut sets) = (Vec::new(), Der(subject));
    while !sets.0.is_empty() {
        let mut set = Der(sets.expect(tag::SET)?);
        while !set.0.is_empty() {
            let mut pair = Der(set.expect(tag::SEQUENCE)?);
            let (kind, (tag, text)) = (pair.expect(tag::OID)?, pair.next()?);
            if kind == COMMON_NAME && tag::TEXTS.contains(&tag) {
                names.extend(name(text));
            }
        }
    }
    Some(names)
}

fn alternative_names(extensions: &[u8], names: &mut Vec<String>) -> Option<()> {
    let mut list = Der(Der(extensions).expect(tag::SEQUENCE)?);
    while !list.0.is_empty() {
        let mut extension = Der(list.expect(tag::SEQUENCE)?);
        let kind = extension.expect(tag::OID)?;
        extension.next_if(tag::BOOLEAN);
        let value = extension.expect(tag::OCTETS)?;
        if kind == ALTERNATIVE_NAMES {
            let mut all = Der(Der(value).expect(tag::SEQUENCE)?);
            while !all.0.is_empty() {
                match all.next()? {
                    (tag::DNS_NAME, text) => names.extend(name(text)),
                    (tag::ADDRESS, bytes) => names.extend(address(bytes)),
                    _ => {}
                }
            }
        }
    }
    Some(())
}

/// The greatest length of a DNS name, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// The text as a server name, in lower case; `None` for a text that is not a name, such as "Some Company".
fn name(text: &[u8]) -> Option<String> {
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'*');
    let text = text.strip_suffix(b".").unwrap_or(text);
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.iter().all(is_fit);
    fits.then(|| text.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

/// The bytes of an address (RFC 5280 §4.2.1.6) as text.
fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(|address| address.to_string())
}

/// Converts a time `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` to seconds since the epoch.
pub(crate) fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let text = text.strip_suffix(b"Z")?;
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i32::from(byte - b'0'));
    let mut digits = text.iter().copied().map(digit);
    let mut number = |count: usize| (0..count).try_fold(0, |n, _| Some(n * 10 + digits.next()??));
    let year = match tag {
        // Two digits mean a year from 1950 to 2049 (RFC 5280 §4.1.2.5.1).
        tag::UTC_TIME if text.len() == 12 => match number(2)? {
            year @ 0..50 => 2000 + year,
            year => 1900 + year,
        },
        tag::TIME if text.len() == 14 => number(4)?,
        _ => return None,
    };
    let (month, day, hour) = (number(2)?, number(2)?, number(2)?);
    let (minute, second) = (number(2)?, number(2)?);
    let fits = (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let days = days_of(year, u8::try_from(month).ok()?, u8::try_from(day).ok()?).filter(|_| fits)?;
    Some(days * 86_400 + i64::from(hour * 3_600 + minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

    /// The fields of a certificate, read by a full parser (`x509-parser`).
    fn by_another(der: &[u8]) -> Option<Leaf> {
        let (_, x509) = X509Certificate::from_der(der).ok()?;
        let alternative = x509.subject_alternative_name().ok()?;
        let all = alternative.iter().flat_map(|extension| &extension.value.general_names);
        let mut names: Vec<String> = all
            .filter_map(|found| match found {
                GeneralName::DNSName(text) => name(text.as_bytes()),
                GeneralName::IPAddress(bytes) => address(bytes),
                _ => None,
            })
            .collect();
        let texts = x509
            .subject()
            .iter_common_name()
            .filter(|found| tag::TEXTS.iter().any(|tag| u32::from(*tag) == found.attr_value().tag().0));
        names.extend(texts.filter_map(|found| name(found.as_slice())));
        names.sort_unstable();
        names.dedup();
        let algorithm = match x509.public_key().algorithm.algorithm.as_bytes() {
            RSA => Algorithm::Rsa,
            EC => Algorithm::Ecdsa,
            _ => Algorithm::Other,
        };
        let (from, to) = (x509.validity().not_before.timestamp(), x509.validity().not_after.timestamp());
        Some(Leaf { names, not_before: from, not_after: to, algorithm, has_key: false })
    }

    fn made(names: &[&str], common: &str, years: (i32, i32)) -> (Vec<u8>, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.not_before = rcgen::date_time_ymd(years.0, 3, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 2, 28);
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        (made.der().to_vec(), format!("{}{}", made.pem(), key.serialize_pem()))
    }

    #[test]
    fn names_dates_and_kinds_are_those_of_a_full_parser() {
        for (names, common, years) in [
            (vec!["a.example", "*.MiXeD.example"], "CN.example", (1999, 2049)),
            (vec!["a.example.", "192.0.2.7", "2001:db8::7"], "Some Company", (2024, 2050)),
            (vec![], "*.only.example", (1950, 2100)),
            (vec!["xn--bcher-kva.example", "_sip.example"], "xn--bcher-kva.example", (2000, 2400)),
        ] {
            let (der, pem) = made(&names, common, years);
            let leaf = Leaf::of_der(&der).unwrap();
            assert_eq!(Some(&leaf), by_another(&der).as_ref(), "{names:?}");
            assert_eq!(leaf.algorithm, Algorithm::Ecdsa);
            let read = Leaf::read(pem.as_bytes(), &mut Room::default()).unwrap();
            assert_eq!(read, Leaf { has_key: true, ..leaf });
        }
    }

    /// TLS libraries refuse a leaf certificate of another version than 3. A root certificate at the end of a chain may have version 1.
    #[test]
    fn only_version_3_is_accepted_for_a_leaf() {
        let der = made(&["a.example"], "a", (2020, 2030)).0;
        let version = [tag::VERSION, 3, tag::INTEGER, 1, 2];
        let at = der.windows(version.len()).position(|window| window == version).unwrap() + 4;
        for other in [0, 1] {
            let mut old = der.clone();
            old[at] = other;
            assert!(Leaf::of_der(&old).unwrap_err().contains("X.509 version 1 or 2"));
            assert_eq!(check_of_chain(&old), Ok(()));
        }
    }

    #[test]
    fn pem_in_every_form_that_is_in_use() {
        let (der, pem) = made(&["a.example"], "a", (2020, 2030));
        let leaf = Leaf { has_key: true, ..Leaf::of_der(&der).unwrap() };
        let read = |text: &str| Leaf::read(text.as_bytes(), &mut Room::default());
        let base64: String = pem.lines().skip(1).take_while(|line| !line.starts_with('-')).collect();
        let key = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
        for text in [
            pem.replace('\n', "\r\n"),
            format!("subject=a - b\n\n{pem}"),
            format!("{key}{pem}"),
            format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n{key}"),
            format!("-----BEGIN X509 CERTIFICATE-----{base64}-----END X509 CERTIFICATE-----{key}"),
            pem.lines()
                .map(|line| if line.starts_with('-') { format!("{line}\n") } else { format!(" {line} \n") })
                .collect(),
        ] {
            assert_eq!(read(&text), Ok(leaf.clone()), "{text}");
        }
        assert!(
            !read(&format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----"))
                .unwrap()
                .has_key
        );
        for (text, why) in [
            ("", "the file contains no certificate"),
            (key, "the file contains no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "has no end"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END X-----", "different labels"),
            ("-----BEGIN CERTIFICATE-----\nA*AA\n-----END CERTIFICATE-----", "not base64"),
            ("-----BEGIN CERTIFICATE-----\nAAA=A\n-----END CERTIFICATE-----", "not base64"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "cannot be parsed"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    /// Random bits of a certificate are flipped, and random bytes are removed and inserted. The parser does not panic. If a full parser also accepts
    /// the certificate, this parser finds only names that the full parser finds.
    #[test]
    fn damaged_certificates_are_read_as_a_full_parser_reads_them_or_not_at_all() {
        let n: u64 = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
        let whole = made(&["a.example", "*.b.example", "c.example"], "d.example", (2020, 2051)).0;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut roll = |sides: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % sides
        };
        let mut both = 0;
        for _ in 0..n {
            let mut der = whole.clone();
            for _ in 0..=roll(2) {
                let at = roll(der.len());
                match roll(3) {
                    0 => der[at] ^= 1 << roll(8),
                    1 => drop(der.drain(at..(at + roll(4)).min(der.len()))),
                    _ => der.insert(at, roll(256) as u8),
                }
            }
            if let (Ok(leaf), Some(other)) = (Leaf::of_der(&der), by_another(&der)) {
                both += 1;
                // The full parser accepts more tags for names. Every name in `leaf` must also be found by the full parser.
                assert!(leaf.names.iter().all(|name| other.names.contains(name)), "{leaf:?} {other:?}");
                assert_eq!(Leaf { names: Vec::new(), ..leaf }, Leaf { names: Vec::new(), ..other });
            }
        }
        assert!(both * 10 > n, "both parsers read {both} of {n} damaged certificates");
    }
}
