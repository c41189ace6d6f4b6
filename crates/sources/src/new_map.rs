//! Creates a new LMDB file under a temporary name, and gives the file its final name when the file is complete and synced. LMDB itself would write
//! the first two pages under the final name, and sync them only in the first commit. After a power cut before that commit, the file may contain
//! zeros, and cannot be opened.

use crate::files::atomic::sync_directory;
use heed::{Env, WithTls};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

const DATA: &str = "data.mdb";

/// Makes an empty environment in a directory that has none. The environment is made in a temporary directory, where `open` opens it.
///
/// # Errors
/// When the environment cannot be made.
pub(crate) fn make_where_missing(
    directory: &Path,
    open: impl FnOnce(&Path) -> heed::Result<Env<WithTls>>,
) -> heed::Result<()> {
    let data = directory.join(DATA);
    if data.exists() {
        return Ok(());
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|why| heed::Error::Io(io::Error::other(why.to_string())))?;
    let place = directory.join(format!(".enfilade-{:016x}", u64::from_be_bytes(random)));
    let made = make(&place, &data, open);
    let _ = std::fs::remove_dir_all(&place);
    made
}

fn make(
    place: &Path,
    data: &Path,
    open: impl FnOnce(&Path) -> heed::Result<Env<WithTls>>,
) -> heed::Result<()> {
    DirBuilder::new().mode(0o700).create(place).map_err(heed::Error::Io)?;
    open(place)?.prepare_for_closing().wait();
    let name = || {
        let whole = place.join(DATA);
        File::open(&whole)?.sync_all()?;
        match std::fs::hard_link(&whole, data) {
            // Another process has created the file in the meantime. That file is used.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        sync_directory(data)
    };
    name().map_err(heed::Error::Io)
}
