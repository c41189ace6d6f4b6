//! Metrics about the certificate of an ACME authority.

use super::{ACME_FAILED, ACME_NEXT, ACME_OBTAINED, Metrics, alone};
use std::sync::PoisonError;

/// The state of the certificate that an ACME authority issues. Times are in seconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcmeState {
    /// The time at which the certificate was last obtained.
    pub obtained: Option<i64>,
    /// Whether the certificate has to be obtained or renewed, and the last attempt failed.
    pub has_failed: bool,
    /// The time of the next attempt after a failure.
    pub next: Option<i64>,
}

impl Metrics {
    /// Sets the state of the certificate that an ACME authority issues.
    pub fn set_acme(&self, state: AcmeState) {
        *self.acme.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    pub(super) fn render_acme(&self, text: &mut String) {
        let acme = *self.acme.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |time: Option<i64>| time.and_then(|time| u64::try_from(time).ok()).map(alone);
        ACME_OBTAINED.write(text, at(acme.and_then(|acme| acme.obtained)));
        ACME_FAILED.write(text, acme.map(|acme| alone(u64::from(acme.has_failed))));
        ACME_NEXT.write(text, at(acme.and_then(|acme| acme.next)));
    }
}
