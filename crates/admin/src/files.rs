//! The state of the files that people edit.

use crate::error::Error;
use enfilade_facts::tables::{FileName, MirroredFile};
use enfilade_facts::{Read, Revision, Source};

/// A file that is in use, for listing.
#[derive(Clone, Debug)]
pub struct FileSummary {
    /// The file.
    pub file: FileName,
    /// The newest revision of the facts at which the file had no problem.
    pub good: Option<Revision>,
    /// When the problems of the file began, in seconds since the epoch.
    pub since: Option<i64>,
    /// Whether every request that needs a record of the file is refused.
    pub refuses: bool,
    /// The first problems of the file.
    pub problems: Vec<String>,
    /// The number of all problems of the file.
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
