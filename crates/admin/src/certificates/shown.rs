//! The certificates in the form in which commands show them. A server does not use a crt-list if one of its lines cannot be applied. But commands
//! show the other lines of such a list nevertheless.

use super::listing::Listing;
use super::terms::CertificateTerms;
use super::{BadCertificate, CertificateFiles, CertificatePlace, Looked};
use enfilade_tls::{Leaf, Line, Policy, Rules, Tickets, Verify};
use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A line of a crt-list: its number, and its policy. If the options of the line cannot be used, the reason takes the place of the policy.
pub type LinePolicy = (u32, Result<Arc<Policy>, String>);

impl CertificatePlace {
    /// The lines of a crt-list that have a policy that asks clients for certificates. Of lines with the same options, only the first line is
    /// returned. A directory has no lines.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn lines_that_ask(&self) -> io::Result<Vec<LinePolicy>> {
        let CertificatePlace::List(_) = self else { return Ok(Vec::new()) };
        let terms = CertificateTerms::new(Tickets::default(), None).map_err(io::Error::other)?;
        let (listing, bad) = Listing::read_past(self, &terms, None)?;
        let mut lines: Vec<_> = listing.lines().collect();
        lines.sort_by_key(|(line, _)| line.number);
        let mut seen = HashSet::new();
        lines.retain(|(line, _)| line.options.verify != Verify::None && seen.insert(&line.options));
        let why = |number| bad.iter().find(|(at, _)| *at == number).map(|(_, bad)| bad.why.clone());
        let of = |(line, policy): &(Line, Arc<Policy>)| {
            (line.number, why(line.number).map_or_else(|| Ok(Arc::clone(policy)), Err))
        };
        Ok(lines.into_iter().map(of).collect())
    }
}

impl CertificateFiles {
    /// Calls `of` with the path and the leaf of every file. Returns the results in the order of the files. The errors of crt-list lines that cannot
    /// be applied are at the end.
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

    /// Like [`Self::look`], but also succeeds if lines of a crt-list cannot be applied. Such lines are among the unusable files, as `LIST:NUMBER`.
    /// The result shows which certificate a name has, but no server may use the result.
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
        let (listing, mut lines) = Listing::read_past(&self.place, &self.terms, None)?;
        lines.sort_by_key(|(number, _)| *number);
        Ok((Arc::new(listing), lines.into_iter().map(|(_, bad)| bad).collect()))
    }
}
