//! What commands show of the certificates. No server uses a crt-list that has lines which cannot be applied. But commands also show such a list, with
//! its other lines.

use super::listing::Listing;
use super::{BadCertificate, CertificateFiles, Looked};
use enfilade_tls::{Leaf, Rules};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl CertificateFiles {
    /// Calls `of` with the path and the leaf of every file. Returns the results in the order of the files. Lines of a crt-list that cannot be applied
    /// are at the end.
    ///
    /// # Errors
    /// When the directory or the list cannot be read.
    pub fn leaves<T: Send + Sync>(
        &self,
        of: impl Fn(&str, Leaf) -> T + Sync,
    ) -> io::Result<Vec<Result<T, BadCertificate>>> {
        let (listing, lines) = self.list_past()?;
        let leaves = self.leaves_of(&listing.base, &listing.files(), of)?;
        let leaves = leaves.into_iter().map(|leaf| leaf.map_err(|bad| listing.at_lines(bad)));
        Ok(leaves.chain(lines.into_iter().map(Err)).collect())
    }

    /// As [`Self::look`], even if lines of a crt-list cannot be applied. Such lines are among the unusable files, as `LIST:NUMBER`. The result shows
    /// which certificate a name has, but no server may use the result.
    ///
    /// # Errors
    /// When the directory or the list cannot be read.
    pub fn look_past(&self, rules: Rules, now: u64) -> io::Result<Looked> {
        self.looked.store(now, Ordering::Relaxed);
        let (listing, lines) = self.list_past()?;
        let mut looked = self.look_over(&listing, rules, None, now)?;
        looked.bad.extend(lines);
        *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = Some(listing);
        Ok(looked)
    }

    fn list_past(&self) -> io::Result<(Arc<Listing>, Vec<BadCertificate>)> {
        let (listing, mut lines) = Listing::read_past(&self.place, &self.terms)?;
        lines.sort_by_key(|(number, _)| *number);
        Ok((Arc::new(listing), lines.into_iter().map(|(_, bad)| bad).collect()))
    }
}
