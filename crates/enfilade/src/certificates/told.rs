//! The texts of messages about the directory or crt-list of the certificates, and about certificates with problems. Some certificates cannot be used,
//! and others may not work for all clients.

use crate::config::Tls as TlsConfig;
use crate::{output, self_made};
use enfilade_admin::{BadCertificate, CertificatePlace};
use std::path::Path;

/// The maximum number of bad files that are logged. `enfilade certs check` shows all bad files.
pub(super) const TOLD_MAX: usize = 100;

/// A description of the directory or crt-list of the certificates, for messages.
pub(crate) fn described(place: &CertificatePlace) -> String {
    match place {
        CertificatePlace::Directory(path) => format!("certificate directory `{}`", path.display()),
        CertificatePlace::List(path) => format!("crt-list `{}`", path.display()),
    }
}

/// Says how an operator adds a certificate. `certs add` does not change a crt-list, because people write a crt-list by hand.
pub(crate) fn how_to_add(place: &CertificatePlace) -> &'static str {
    match place {
        CertificatePlace::Directory(_) => {
            "add one with `enfilade certs add FILE`, or make one with `enfilade certs self-signed NAME`"
        }
        CertificatePlace::List(_) => {
            "write a PEM file with certificate, intermediates and key, and add a line with the path of this file to the crt-list"
        }
    }
}

/// A warning if the server makes no certificate for the names in `[tls] names`. The server makes a certificate only when it creates the directory of
/// certificates, and later renews only a certificate that it made itself.
pub(crate) fn unused_names(tls: &TlsConfig, data: &Path) -> Option<String> {
    let names: Vec<String> = tls.names().iter().map(|name| output::word(name)).collect();
    let names = Some(names.join(" ")).filter(|names| !names.is_empty())?;
    match tls.place(data) {
        CertificatePlace::List(_) => Some(
            "`tls.names` has no effect, because the certificates come from `tls.crt_list`: remove one of the two"
                .to_owned(),
        ),
        CertificatePlace::Directory(directory) => {
            let place = directory.join(self_made::OWN);
            let is_own = || std::fs::read(&place).is_ok_and(|pem| self_made::is_self_made(&place, &pem));
            (directory.exists() && !is_own()).then(|| {
                format!(
                    "`tls.names` has no effect: the server renews only certificates that Enfilade made, and `{}` does not exist or was not made by \
                     Enfilade. Run `enfilade certs self-signed {names}`, or remove the setting",
                    place.display()
                )
            })
        }
    }
}

/// The beginning of an error message: the directory or crt-list of the certificates cannot be used.
pub(super) fn unusable(place: &CertificatePlace) -> String {
    format!("{} cannot be used", described(place))
}

pub(super) fn listed(bad: &[BadCertificate]) -> String {
    let mut text: String = bad.iter().take(TOLD_MAX).map(|bad| format!("; {bad}")).collect();
    if bad.len() > TOLD_MAX {
        text.push_str(&format!("; and {} more, see `enfilade certs check`", bad.len() - TOLD_MAX));
    }
    text
}

/// Logs certificates that are served but may not work for all clients, at most [`TOLD_MAX`] of them.
pub(super) fn warn(warnings: &[BadCertificate]) {
    for BadCertificate { file, why } in warnings.iter().take(TOLD_MAX) {
        output::note(&format!("warning: certificate `{file}` is served, but {why}"));
    }
}
