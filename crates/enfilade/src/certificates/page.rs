//! What the console shows about the served certificates.

use super::Served;
use enfilade_faces::{SentCertificate, ServedCertificate, ServedCertificates, SomeCertificates};
use enfilade_tls::{Ask, CertificateFile};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

impl ServedCertificates for Served {
    fn some(&self, skipped: usize, count: usize) -> SomeCertificates {
        let now = self.now();
        let mut files: Vec<&Arc<CertificateFile>> = now.certificates.files().collect();
        let (total, end) = (files.len(), skipped.saturating_add(count));
        let order = |one: &&Arc<CertificateFile>, other: &&Arc<CertificateFile>| {
            (one.not_after, &one.path).cmp(&(other.not_after, &other.path))
        };
        // There may be a million certificates, but a page shows only a few of them. So only the certificates up to the end of the page are sorted.
        if skipped >= total {
            files.clear();
        }
        if end < files.len() {
            files.select_nth_unstable_by(end, order);
            files.truncate(end);
        }
        files.sort_unstable_by(order);
        let shown: Vec<_> = files.into_iter().skip(skipped).map(Arc::as_ref).collect();
        let certificates = self.described(&shown);
        let (faults, fault_count) = self.bad(count);
        SomeCertificates { certificates, total, faults, fault_count }
    }

    fn sent_for(&self, name: &str) -> Result<SentCertificate, String> {
        let now = self.now();
        // A client that connects to an IP address sends no server name.
        let ask = match name.parse() {
            Ok(address) => Ask::new(None).at(address),
            Err(_) => Ask::new(Some(name)),
        };
        let permit = enfilade_tls::open(&now.certificates, &ask).map_err(|refused| refused.to_string())?;
        let file = now.certificates.at_path(permit.certificate(), |_| true);
        let file = file.ok_or_else(|| "the certificate was removed in the meantime".to_owned())?;
        let described = self.described(&[file]).pop();
        let certificate =
            described.ok_or_else(|| "the certificate was removed in the meantime".to_owned())?;
        Ok(SentCertificate { certificate, is_default: permit.is_default(), line: permit.line() })
    }
}

impl Served {
    /// Reads the names of these certificates from their files. The process has only digests of the names in memory.
    fn described(&self, files: &[&CertificateFile]) -> Vec<ServedCertificate> {
        let paths: Vec<OsString> = files.iter().map(|file| OsString::from(&*file.path)).collect();
        let read = self.now().keeper.files.leaves_of(Path::new("/"), &paths, |_, leaf| leaf.names);
        let read = read.map_err(|why| why.to_string());
        let names = |at: usize| match &read {
            Ok(found) => match found.get(at) {
                Some(Ok(names)) => Ok(names.clone()),
                Some(Err(bad)) => Err(bad.why.clone()),
                None => Err("the file was not read".to_owned()),
            },
            Err(why) => Err(why.clone()),
        };
        let described = |(at, file): (usize, &&CertificateFile)| ServedCertificate {
            file: file.path.to_string(),
            not_after: file.not_after,
            key: file.algorithm.name(),
            names: names(at),
        };
        files.iter().enumerate().map(described).collect()
    }
}
