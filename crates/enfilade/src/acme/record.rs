//! The record of the last certificate and of the last failure at the ACME authority. `enfilade doctor` shows the record.

use super::challenge::Challenge;
use super::place;
use crate::{output, self_made};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The last certificate that a server of this data directory obtained, or that it got from its fleet, and the last failure.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The URL of the directory of the authority that issued the certificate.
    pub(crate) directory: Option<String>,
    pub(crate) names: Vec<String>,
    /// The time at which the certificate was obtained, in seconds since the epoch.
    pub(crate) obtained: Option<i64>,
    /// The time at which the certificate expires, in seconds since the epoch.
    pub(crate) valid_until: Option<i64>,
    /// The kind of challenge with which the authority validated the names.
    pub(super) challenge: Option<Challenge>,
    /// The last failure after the certificate was obtained: the time in seconds since the epoch, and the reason.
    pub(crate) failed: Option<(i64, String)>,
}

impl Record {
    fn path(data: &Path) -> PathBuf {
        place(data).join("record.json")
    }

    /// Reads the record. The record is empty if the file does not exist or cannot be read.
    pub(crate) fn read(data: &Path) -> Self {
        let bytes = std::fs::read(Self::path(data)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(super) fn write(&self, data: &Path) -> anyhow::Result<()> {
        self_made::write_for_owner(data, &Self::path(data), &serde_json::to_vec_pretty(self)?, 0o600)
    }

    pub(super) fn failed(data: &Path, why: &str, now: i64) {
        let record = Record { failed: Some((now, why.to_owned())), ..Record::read(data) };
        if let Err(why) = record.write(data) {
            output::note(&format!("warning: {why:#}"));
        }
    }
}
