//! The certificates of a directory, ready to serve with.

use crate::listen::Tls;
use anyhow::{Context, bail};
use enfilade_sources::files::certificates;
use enfilade_tls::{BadCertificate, Certificates};
use std::path::Path;
use std::sync::Arc;

/// Reads them; bad ones are left out and all named, and with none left there is nothing to serve with.
pub(crate) fn load(directory: &Path) -> anyhow::Result<(Tls, Vec<BadCertificate>)> {
    let files = certificates::read(directory)
        .with_context(|| format!("certificate directory `{}` cannot be read", directory.display()))?;
    let mut bad = Vec::new();
    let bundles = files.iter().filter_map(|file| {
        let name = file.path.display().to_string();
        match &file.content {
            Ok(pem) => Some((name, pem.as_slice())),
            Err(why) => {
                bad.push(BadCertificate { file: name, why: why.clone() });
                None
            }
        }
    });
    let (loaded, unusable) = Certificates::load(bundles);
    bad.extend(unusable);
    if loaded.is_empty() {
        let bad: Vec<String> = bad.iter().map(|bad| format!("; {bad}")).collect();
        bail!(
            "there is no usable certificate in `{}`: put a PEM bundle (certificate, intermediates, key) there{}",
            directory.display(),
            bad.concat()
        );
    }
    let certificates = Arc::new(loaded);
    let config = enfilade_tls::server_config(Arc::clone(&certificates)).map_err(anyhow::Error::msg)?;
    let count = files.len() - bad.len();
    Ok((Tls { certificates, config, count }, bad))
}
