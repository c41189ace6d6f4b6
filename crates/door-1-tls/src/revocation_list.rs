//! Reads how long a certificate revocation list (RFC 5280 §5.1) is valid, and whether a trusted authority issued it. The server uses these fields to
//! warn of a list that is expired or useless. The TLS library checks everything else. The library also checks whether a list has expired, but only
//! when a client presents a certificate.

use crate::leaf::{Der, issuer_and_subject, tag, time};
use rustls::pki_types::CertificateDer;

/// The fields of a revocation list.
#[derive(Debug)]
pub(crate) struct RevocationList {
    /// The last second in which the list is valid (in seconds since the epoch); `None` if the list does not contain this time.
    until: Option<i64>,
    /// Whether none of the trusted authorities issued the list.
    is_foreign: bool,
}

impl RevocationList {
    /// Reads a list. `trusted` are the certificates of the authorities.
    pub(crate) fn read(der: &[u8], trusted: &[CertificateDer<'_>]) -> Option<Self> {
        let mut list = Der(Der(der).expect(tag::SEQUENCE)?);
        let mut fields = Der(list.expect(tag::SEQUENCE)?);
        fields.next_if(tag::INTEGER);
        fields.expect(tag::SEQUENCE)?;
        let issuer = fields.expect(tag::SEQUENCE)?;
        fields.next()?;
        let until = fields.next().filter(|(tag, _)| matches!(*tag, tag::UTC_TIME | tag::TIME)).and_then(time);
        let is_of = |authority: &CertificateDer<'_>| {
            issuer_and_subject(authority).is_some_and(|(_, subject)| subject == issuer)
        };
        Some(RevocationList { until, is_foreign: !trusted.iter().any(is_of) })
    }

    /// Whether the list has extensions, such as its number. Only a list of version 2 has extensions. The TLS library accepts only lists with
    /// extensions.
    pub(crate) fn has_extensions(der: &[u8]) -> bool {
        let fields = || {
            let mut list = Der(Der(der).expect(tag::SEQUENCE)?);
            let mut fields = Der(list.expect(tag::SEQUENCE)?);
            fields.expect(tag::INTEGER)?;
            let mut last = None;
            while let Some((tag, _)) = fields.next() {
                last = Some(tag);
            }
            last
        };
        // The extensions are the last field of a revocation list. Their tag is `[0]`; in a certificate, this is the tag of the version.
        fields() == Some(tag::VERSION)
    }

    /// The problem of the list at the time `now`, in seconds since the epoch; `None` if there is no problem.
    pub(crate) fn fault(&self, now: i64) -> Option<&'static str> {
        match self {
            RevocationList { is_foreign: true, .. } => Some(
                "the `crl-file` contains a revocation list of an authority that is not in the `ca-file` or `ca-verify-file`, so this list revokes no \
                 client certificate: install the list of an authority that is in these files",
            ),
            RevocationList { until: Some(until), .. } if *until < now => Some(
                "a list in the `crl-file` has expired, so every client certificate of its authority is refused: install the current list",
            ),
            RevocationList { .. } => None,
        }
    }
}
