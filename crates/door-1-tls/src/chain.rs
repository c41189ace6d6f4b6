//! The chain of a bundle: its order, a warning if it is incomplete, and its text in PEM.

use crate::leaf::issuer_and_subject;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

pub(crate) type Chain<'c> = Vec<&'c CertificateDer<'static>>;

/// Returns the chain: the leaf, and then each issuer after the certificate that it issued. Also returns, for each certificate that is not in the
/// chain, the name of its file.
pub(crate) fn in_order<'c>(
    certificates: &'c [(CertificateDer<'static>, String)],
    leaf: usize,
) -> (Chain<'c>, Vec<&'c str>) {
    let mut rest: Vec<&(CertificateDer<'static>, String)> = certificates.iter().collect();
    let first = rest.remove(leaf);
    let mut chain = vec![&first.0];
    // It is possible that two of the files contain the same certificate, so all copies of the last certificate are removed from `rest`.
    while let Some(last) = chain.last().copied() {
        rest.retain(|(der, _)| der != last);
        let issuer =
            issuer_and_subject(last).filter(|(issuer, subject)| issuer != subject).map(|(issuer, _)| issuer);
        let next = rest.iter().position(|(der, _)| {
            issuer.is_some() && issuer_and_subject(der).map(|(_, subject)| subject) == issuer
        });
        let Some(next) = next else { break };
        chain.push(&rest.remove(next).0);
    }
    (chain, rest.iter().map(|(_, file)| file.as_str()).collect())
}

/// A warning if the chain consists of the leaf alone, and the leaf is not self-signed.
pub(crate) fn of_chain(chain: &[&CertificateDer<'static>]) -> Option<String> {
    let (issuer, subject) = chain.first().and_then(|leaf| issuer_and_subject(leaf))?;
    (chain.len() == 1 && issuer != subject).then(|| {
        "the certificate of the authority that issued the server's certificate is missing in these files: clients that do not have it refuse the server's certificate. If the authority gave you a chain file, name that file in the command, too"
            .to_owned()
    })
}

/// The certificates of the chain and the key of the leaf, in PEM.
pub(crate) fn bundle(chain: &[&CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> Zeroizing<String> {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    let mut text: String = chain.iter().map(|der| pem("CERTIFICATE", der)).collect();
    text.push_str(&pem(label, key.secret_der()));
    Zeroizing::new(text)
}

fn pem(label: &str, der: &[u8]) -> String {
    let base64 = Zeroizing::new(BASE64_STANDARD.encode(der));
    let mut text = format!("-----BEGIN {label}-----\n");
    for (at, letter) in base64.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push_str(&format!("\n-----END {label}-----\n"));
    text
}
