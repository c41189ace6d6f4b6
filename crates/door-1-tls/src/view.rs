//! The certificates this door chooses from: one immutable snapshot.

use crate::certificate::{BadCertificate, Certificate};
use std::collections::HashMap;
use std::sync::Arc;

/// Names to certificates, and the one that answers every other name.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    by_name: HashMap<String, Arc<Certificate>>,
    default: Option<Arc<Certificate>>,
}

impl Certificates {
    /// From PEM bundles in the order HAProxy reads a directory: by file name. The first good one is the default;
    /// where two have the same name the first one keeps it. Bad ones are left out and reported, all of them.
    pub fn load<'p>(bundles: impl IntoIterator<Item = (String, &'p [u8])>) -> (Self, Vec<BadCertificate>) {
        let mut certificates = Certificates::default();
        let mut bad = Vec::new();
        for (file, pem) in bundles {
            match Certificate::from_pem(file, pem) {
                Ok(certificate) => certificates.add(Arc::new(certificate)),
                Err(why) => bad.push(why),
            }
        }
        (certificates, bad)
    }

    fn add(&mut self, certificate: Arc<Certificate>) {
        self.default.get_or_insert_with(|| Arc::clone(&certificate));
        for name in certificate.names() {
            self.by_name.entry(name.clone()).or_insert_with(|| Arc::clone(&certificate));
        }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Certificate>> {
        self.by_name.get(name)
    }

    pub(crate) fn fallback(&self) -> Option<&Arc<Certificate>> {
        self.default.as_ref()
    }

    /// How many names are answered by their own certificate.
    pub fn names(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no certificate at all.
    pub fn is_empty(&self) -> bool {
        self.default.is_none()
    }
}
