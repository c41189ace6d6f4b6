//! The state of the mirrored files.

use crate::error::Error;
use enfilade_facts::tables::{FileName, MirroredFile};
use enfilade_facts::{Read, Revision, Source};

/// A file that is in use, for listing.
#[derive(Clone, Debug)]
pub struct FileSummary {
    /// Which file.
    pub file: FileName,
    /// The newest revision of the facts at which it had no problem.
    pub good: Option<Revision>,
    /// Since when it has problems, seconds since the epoch.
    pub since: Option<i64>,
    /// Whether all its records refuse.
    pub refuses: bool,
    /// Its first problems.
    pub problems: Vec<String>,
    /// The number of all its problems.
    pub problem_count: u32,
}

/// Every file that is in use.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_files(source: &dyn Source) -> Result<Vec<FileSummary>, Error> {
    source.read(|view| {
        let summary = |(file, row): (FileName, MirroredFile)| {
            let good = match row.problem_count {
                0 => view.revision_of::<MirroredFile>(&file)?,
                _ => row.good,
            };
            Ok(FileSummary {
                file,
                good,
                since: row.since,
                refuses: row.fault.is_some_and(|fault| fault.refuses),
                problems: row.problems,
                problem_count: row.problem_count,
            })
        };
        view.list::<MirroredFile>(&[])?.into_iter().map(summary).collect()
    })?
}
