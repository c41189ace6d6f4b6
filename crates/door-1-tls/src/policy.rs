//! TLS policies: protocol versions, ciphers, and whether clients present certificates. Lines of a crt-list with equal options share a
//! policy. Lines without options, and certificates of a directory, have the usual policy ([`Policy::usual`]).

use crate::bundle::Bundle;
use crate::client_verifier::verifier;
use crate::crt_list::{Options, Verify};
use crate::ready::{Nothing, Ready};
use crate::revocation_list::RevocationList;
use crate::tickets::Tickets;
use aws_lc_rs::digest;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, Error, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::Arc;
use std::time::Duration;

/// The TLS policy of some names.
pub struct Policy {
    /// A digest of the options and of the contents of the files that the options refer to. All processes with the same options and files have the
    /// same digest.
    epoch: [u8; 32],
    config: ServerConfig,
    /// Checks the certificates of clients. `None` if clients are not asked for certificates.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// The revocation lists in the `crl-file`.
    revoked: Vec<RevocationList>,
}

/// OpenSSL's names for the ciphers of TLS 1.2.
const CIPHERS: [(&str, &SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", &provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", &provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", &provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", &provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", &provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-CHACHA20-POLY1305", &provider::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

const CIPHERSUITES: [(&str, &SupportedCipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", &provider::cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", &provider::cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", &provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
];

const CURVES: [(&str, &dyn SupportedKxGroup); 8] = [
    ("X25519MLKEM768", provider::kx_group::X25519MLKEM768),
    ("X25519", provider::kx_group::X25519),
    ("P-256", provider::kx_group::SECP256R1),
    ("prime256v1", provider::kx_group::SECP256R1),
    ("secp256r1", provider::kx_group::SECP256R1),
    ("P-384", provider::kx_group::SECP384R1),
    ("secp384r1", provider::kx_group::SECP384R1),
    ("x25519", provider::kx_group::X25519),
];

/// The known values of `ssl-min-ver` and `ssl-max-ver`. The server supports no version below 1.2, so a lower `ssl-min-ver` has no effect.
const VERSIONS: [(&str, u8); 5] =
    [("SSLv3", 0), ("TLSv1.0", 10), ("TLSv1.1", 11), ("TLSv1.2", 12), ("TLSv1.3", 13)];

/// The protocols that the server supports over TLS, preferred first.
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

impl Policy {
    /// The usual policy: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, tickets, no certificates of clients, no early data.
    ///
    /// # Errors
    /// When the TLS library rejects its own defaults.
    pub fn usual(tickets: &Tickets) -> Result<Self, String> {
        Self::new(&Options::default(), tickets, |path| {
            Err(format!(
                "the file `{path}` is not read: the TLS policy of certificates without crt-list options uses no files"
            ))
        })
    }

    /// The policy of a line of a crt-list. `read` reads the files that the options refer to.
    ///
    /// # Errors
    /// When an option cannot be applied. The text names the option.
    pub fn new(
        options: &Options,
        tickets: &Tickets,
        mut read: impl FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Self, String> {
        let mut epoch = digest::Context::new(&digest::SHA256);
        // The digest depends on the contents of the files, not on their paths.
        let plain = Options { ca_file: None, ca_verify_file: None, crl_file: None, ..options.clone() };
        epoch.update(format!("{plain:?}").as_bytes());
        let mut content = |name: &str, path: &Option<String>| -> Result<Vec<u8>, String> {
            let Some(path) = path else { return Ok(Vec::new()) };
            let bytes = read(path).map_err(|why| format!("`{name} {path}`: {why}"))?;
            epoch.update(name.as_bytes());
            epoch.update(&(bytes.len() as u64).to_be_bytes());
            epoch.update(&bytes);
            Ok(bytes)
        };
        let named = content("ca-file", &options.ca_file)?;
        let silent = content("ca-verify-file", &options.ca_verify_file)?;
        let revoked = content("crl-file", &options.crl_file)?;
        let provider = Arc::new(provider_of(options)?);
        // The provider is named explicitly: another library in the process may install a default provider of its own.
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(options)?)
            .map_err(|why| format!("the options exclude every protocol version or every cipher: {why}"))?;
        let (mut lists, mut clients) = (Vec::new(), None);
        let builder = match options.verify {
            Verify::None => builder.with_no_client_auth(),
            asked => {
                let is_required = asked == Verify::Required;
                let names = !options.no_ca_names;
                let revoked = options.crl_file.as_deref().map(|path| (path, revoked.as_slice()));
                let (verifier, of_file) =
                    verifier(&provider, [&named, &silent], revoked, is_required, names)?;
                lists = of_file;
                clients = Some(Arc::clone(&verifier));
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Nothing));
        config.alpn_protocols = match &options.alpn {
            None => PROTOCOLS.map(|name| name.as_bytes().to_vec()).to_vec(),
            Some(wanted) => {
                let spoken = wanted.iter().filter(|name| PROTOCOLS.contains(&name.as_str()));
                let spoken: Vec<_> = spoken.map(|name| name.as_bytes().to_vec()).collect();
                if spoken.is_empty() && !wanted.is_empty() {
                    return Err(format!(
                        "`alpn {}`: this server supports only h2 and http/1.1",
                        wanted.join(",")
                    ));
                }
                spoken
            }
        };
        config.max_early_data_size = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let epoch: [u8; 32] = epoch.finish().as_ref().try_into().unwrap_or_default();
        // If clients may present certificates, no tickets are issued. So each connection needs a full handshake, which checks the client's
        // certificate again: the certificate may have expired or been revoked since the last handshake.
        match options.verify {
            Verify::None => config.ticketer = tickets.under(epoch),
            _ => config.send_tls13_tickets = 0,
        }
        Ok(Policy { epoch, config, clients, revoked: lists })
    }

    /// The problems of this policy's revocation lists at the time `now`, in seconds since the epoch. Each problem is returned once, even if several
    /// lists have it.
    pub fn faults(&self, now: i64) -> Vec<&'static str> {
        let mut faults: Vec<_> = self.revoked.iter().filter_map(|list| list.fault(now)).collect();
        faults.sort_unstable();
        faults.dedup();
        faults
    }

    /// Whether a handshake under this policy would accept the client certificate in `pem` at the time `now`, in seconds since the epoch. The client
    /// certificate is the first certificate in `pem`, and the other certificates are its chain. The error is the reason why the handshake would fail.
    /// `None` if clients are not asked for certificates.
    pub fn accepts(&self, pem: &[u8], now: i64) -> Option<Result<(), String>> {
        let verifier = self.clients.as_ref()?;
        let mut chain = CertificateDer::pem_slice_iter(pem).flatten();
        let Some(leaf) = chain.next() else { return Some(Err("there is no certificate".to_owned())) };
        let others: Vec<CertificateDer<'_>> = chain.collect();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
        Some(verifier.verify_client_cert(&leaf, &others, now).map(drop).map_err(|why| match why {
            Error::InvalidCertificate(CertificateError::Revoked) => {
                "the certificate is revoked in the `crl-file`".to_owned()
            }
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                "no authority in the `ca-file` or `ca-verify-file` issued the certificate".to_owned()
            }
            other => other.to_string(),
        }))
    }

    /// Makes the TLS configuration of connections that get this bundle under this policy.
    pub fn ready(&self, bundle: Result<Bundle, String>) -> Ready {
        Ready::with(&self.config, bundle)
    }

    /// A digest of the policy's options and of the contents of the files that the options refer to. Equal policies have the same digest in every
    /// process.
    pub fn epoch(&self) -> &[u8; 32] {
        &self.epoch
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Policy")
    }
}

fn pick<T: Copy>(what: &str, wanted: &[String], known: &[(&str, T)]) -> Result<Vec<T>, String> {
    let one = |name: &String| {
        let found = known.iter().find(|(known, _)| *known == name.as_str());
        found.map(|(_, found)| *found).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            format!("`{what}`: `{name}` is not supported; the supported values are {}", known.join(", "))
        })
    };
    wanted.iter().filter(|name| !name.is_empty()).map(one).collect()
}

fn provider_of(options: &Options) -> Result<CryptoProvider, String> {
    let mut provider = provider::default_provider();
    if options.ciphers.is_some() || options.ciphersuites.is_some() {
        // `ciphersuites` sets the ciphers of TLS 1.3, and `ciphers` sets the ciphers of TLS 1.2. If one of the two options is missing, its protocol
        // version keeps the default ciphers.
        let (mut newer, mut older): (Vec<_>, Vec<_>) =
            provider.cipher_suites.into_iter().partition(|suite| suite.tls13().is_some());
        if let Some(wanted) = &options.ciphersuites {
            newer = pick("ciphersuites", wanted, &CIPHERSUITES)?.into_iter().copied().collect();
        }
        if let Some(wanted) = &options.ciphers {
            older = pick("ciphers", wanted, &CIPHERS)?.into_iter().copied().collect();
        }
        newer.append(&mut older);
        provider.cipher_suites = newer;
    }
    if let Some(wanted) = &options.curves {
        provider.kx_groups = pick("curves", wanted, &CURVES)?;
    }
    Ok(provider)
}

fn versions(options: &Options) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let number = |what: &str, text: &Option<String>, default: u8| match text {
        None => Ok(default),
        Some(text) => pick(what, std::slice::from_ref(text), &VERSIONS)
            .map(|found| found.first().copied().unwrap_or(default)),
    };
    let (min, max) =
        (number("ssl-min-ver", &options.min_version, 12)?, number("ssl-max-ver", &options.max_version, 13)?);
    let spoken = [(13, &TLS13), (12, &TLS12)].into_iter().filter(|(number, _)| (min..=max).contains(number));
    let spoken: Vec<_> = spoken.map(|(_, version)| version).collect();
    match spoken.is_empty() {
        true => Err(
            "no version is left between `ssl-min-ver` and `ssl-max-ver`; this server supports TLSv1.2 and TLSv1.3"
                .into(),
        ),
        false => Ok(spoken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crt_list::CrtList;

    fn authority() -> Vec<u8> {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem().into_bytes()
    }

    fn policy(options: &str, ca: &[u8]) -> Result<Policy, String> {
        let line = CrtList::parse(&format!("a.pem [{options}]")).lines.remove(0);
        Policy::new(&line.options, &Tickets::default(), |path| match path {
            "/ca" => Ok(ca.to_vec()),
            _ => Err("No such file".into()),
        })
    }

    #[test]
    fn a_policy_is_what_the_line_asks_for() {
        let ca = authority();
        let usual = Policy::usual(&Tickets::default()).unwrap();
        assert_eq!(usual.epoch(), policy("", &ca).unwrap().epoch());
        assert_eq!(usual.config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert!(policy("no-alpn", &ca).unwrap().config.alpn_protocols.is_empty());
        assert_eq!(
            policy("alpn http/1.1,spdy/3", &ca).unwrap().config.alpn_protocols,
            [b"http/1.1".to_vec()]
        );
        let suites =
            |options: &str| policy(options, &ca).unwrap().config.crypto_provider().cipher_suites.len();
        assert_eq!((suites(""), suites("ciphers ECDHE-RSA-AES128-GCM-SHA256")), (9, 4));
        assert_eq!(suites("ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"), 8);
        assert_eq!(policy("curves X25519:P-256", &ca).unwrap().config.crypto_provider().kx_groups.len(), 2);
        let asking = policy("verify required ca-file /ca", &ca).unwrap();
        assert_eq!(asking.config.send_tls13_tickets, 0);
        for (options, why) in [
            ("ciphers HIGH", "the supported values are ECDHE"),
            ("curves brainpool", "`brainpool` is not supported"),
            ("ssl-max-ver TLSv1.1", "no version is left"),
            ("ssl-min-ver TLSv1.9", "is not supported"),
            ("alpn spdy/3", "only h2 and http/1.1"),
            ("ssl-max-ver TLSv1.2 ciphers :", "exclude every protocol version or every cipher"),
            ("verify required ca-file /gone", "`ca-file /gone`: No such file"),
        ] {
            let said = policy(options, &ca).unwrap_err();
            assert!(said.contains(why), "{options}: {said}");
        }
        assert!(policy("verify optional ca-file /ca", b"nothing").unwrap_err().contains("no certificate"));
        // The certificate of the authority is not a revocation list.
        let said = policy("verify required ca-file /ca crl-file /ca", &ca).unwrap_err();
        assert!(said.contains("contains no revocation list in PEM form"), "{said}");
    }

    /// A revocation list as `openssl ca -gencrl` makes it if the configuration of `openssl` contains no `crlnumber`.
    const OF_VERSION_1: &str = "-----BEGIN X509 CRL-----\n\
        MIGWMD4wCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHY2xpZW50cxcNMjYxMTI2MDMx\n\
        NDQ2WhcNMjYxMjI2MDMxNDQ2WjAKBggqhkjOPQQDAgNIADBFAiA2Ux3rXxn2J+d8\n\
        mYER24wfcLXWPFTTYqut37MqU5DbNQIhAJtrHOVq5RbYmNwkoCnIYADWqZc4wBt2\n\
        94cKcUsgdb2d\n-----END X509 CRL-----\n";

    #[test]
    fn a_revocation_list_of_version_1_is_refused_with_file_cause_and_next_step() {
        let ca = authority();
        let line = CrtList::parse("a.pem [verify required ca-file /ca crl-file crl.pem]").lines.remove(0);
        let said = |list: &str| {
            let read = |path: &str| Ok(if path == "/ca" { ca.as_slice() } else { list.as_bytes() }.to_vec());
            Policy::new(&line.options, &Tickets::default(), read).unwrap_err()
        };
        let of_version_1 = said(OF_VERSION_1);
        assert!(
            of_version_1.starts_with("`crl-file crl.pem`: a revocation list in the file has X.509 version 1"),
            "{of_version_1}"
        );
        assert!(of_version_1.contains("set `crlnumber` in the `openssl` configuration"), "{of_version_1}");
        // This list is SEQUENCE { SEQUENCE { version 2, [0] {} } }. All other fields are missing.
        let damaged = said("-----BEGIN X509 CRL-----\nMAcwBQIBAaAA\n-----END X509 CRL-----\n");
        assert!(damaged.contains("crl.pem`: a revocation list in the file cannot be parsed"), "{damaged}");
    }

    #[test]
    fn an_expired_or_foreign_revocation_list_is_a_fault() {
        use rcgen::{
            BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
            KeyIdMethod, KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
        };
        let of = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            let ca = params.self_signed(&key).unwrap().pem();
            let list = CertificateRevocationListParams {
                this_update: date_time_ymd(2030, 1, 1),
                next_update: date_time_ymd(2030, 2, 1),
                crl_number: SerialNumber::from(1),
                issuing_distribution_point: None,
                revoked_certs: Vec::new(),
                key_identifier_method: KeyIdMethod::Sha256,
            };
            (ca, list.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap())
        };
        let ((ca, own), (_, foreign)) = (of("own"), of("foreign"));
        let line = CrtList::parse("a.pem [verify required ca-file /ca crl-file /crl]").lines.remove(0);
        let faults = |list: &str, now: i64| {
            let read = |path: &str| Ok(if path == "/ca" { &ca } else { list }.as_bytes().to_vec());
            Policy::new(&line.options, &Tickets::default(), read).unwrap().faults(now)
        };
        let until = 1_896_134_400;
        assert!(faults(&own, until).is_empty());
        assert!(faults(&own, until + 1)[0].contains("has expired"));
        assert!(faults(&foreign, 0)[0].contains("of an authority that is not in the `ca-file`"));
        assert_eq!(faults(&[own, foreign].concat(), until + 1).len(), 2);
    }

    #[test]
    fn the_certificate_of_a_client_is_judged_as_in_a_handshake() {
        use rcgen::{
            BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
            ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
            SerialNumber, date_time_ymd,
        };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "clients");
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let give = |serial: u64| {
            let mut params = CertificateParams::new(vec!["laptop".to_owned()]).unwrap();
            params.serial_number = Some(SerialNumber::from(serial));
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().pem()
        };
        let foreign = rcgen::generate_simple_self_signed(vec!["laptop".to_owned()]).unwrap().cert.pem();
        let (kept, revoked) = (give(7), give(8));
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2030, 1, 1),
            next_update: date_time_ymd(2030, 2, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(8),
                revocation_time: date_time_ymd(2030, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&issuer).unwrap().pem().unwrap();
        let accepts = |options: &str, pem: &str| {
            let line = CrtList::parse(&format!("a.pem [{options}]")).lines.remove(0);
            let read = |path: &str| Ok(if path == "/ca" { &ca } else { &list }.as_bytes().to_vec());
            let policy = Policy::new(&line.options, &Tickets::default(), read).unwrap();
            policy.accepts(pem.as_bytes(), 1_894_000_000)
        };
        let asks = "verify required ca-file /ca crl-file /crl";
        assert_eq!(accepts("verify none", &kept), None);
        assert_eq!(accepts(asks, &kept), Some(Ok(())));
        for (pem, why) in [
            (&revoked, "the certificate is revoked in the `crl-file`"),
            (&foreign, "no authority in the `ca-file`"),
            (&String::new(), "there is no certificate"),
        ] {
            let said = accepts(asks, pem).unwrap().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        assert_eq!(accepts("verify optional ca-file /ca", &revoked), Some(Ok(())));
    }

    #[test]
    fn a_policy_is_another_one_when_anything_in_it_changes() {
        let (one, other) = (authority(), authority());
        let epoch = |options: &str, ca: &[u8]| *policy(options, ca).unwrap().epoch();
        let all = [
            epoch("", &one),
            epoch("ssl-min-ver TLSv1.3", &one),
            epoch("verify required ca-file /ca", &one),
            epoch("verify required ca-file /ca", &other),
            epoch("verify required ca-verify-file /ca", &one),
            epoch("verify optional ca-file /ca", &one),
            epoch("verify optional ca-file /ca no-ca-names", &one),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(epoch("verify required ca-file /ca", &one), all[2]);
    }
}
