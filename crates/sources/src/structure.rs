//! Checks the pages of an LMDB file before LMDB maps it. LMDB does not check the page numbers and offsets in a page before it uses them. If one of
//! these numbers or offsets is damaged, LMDB may read outside the map, which ends the process.
//!
//! A file passes this check if each page has the expected kind and belongs to only one tree, and if each node is inside its page. The content of
//! records is not checked here, because the records have checksums and tallies.
//!
//! LMDB's `mdb.c` defines the layout. The file has the layout of a 64-bit machine, in the byte order of the machine.

mod page;
mod tree;

use page::{META_BYTES, Meta};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tree::Trees;

/// A file up to this length is checked completely each time that it is opened. The leaves of a longer file are not checked then, because their check
/// would take too long.
const COMPLETE_BYTES_MAX: u64 = 64 << 20;
/// The greatest number of attempts, if other processes commit during the check.
const TRIES: u32 = 8;

/// The pages that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every page, or all pages except the leaves if the file is longer than [`COMPLETE_BYTES_MAX`].
    ByLength,
    /// Every page.
    Complete,
}

/// Describes the damage of this LMDB file; `None` if its pages are sound. Other processes may commit during the check.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn damage(path: &Path, depth: Depth) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    for _ in 0..TRIES {
        let before = heads(&file)?;
        let Err(why) = check(&file, depth, &before)? else { return Ok(None) };
        // LMDB changes a page of the newest commit only after it has written the meta page of a later commit. So if the meta pages are unchanged, the
        // damage is real.
        if heads(&file)? == before {
            return Ok(Some(why));
        }
    }
    // Other processes commit faster than the file can be checked. The check ends without a result. These processes checked the pages when they opened
    // the store, and found them sound.
    Ok(None)
}

type Heads = [Vec<u8>; 2];

/// The first bytes of both meta pages.
fn heads(file: &File) -> io::Result<Heads> {
    let first = read(file, 0)?;
    let page_bytes = Meta::read(&first, 0).map_or(0, |meta| meta.page_bytes);
    Ok([first, read(file, page_bytes)?])
}

/// The bytes of the file from `offset` on, at most the length of a meta page.
fn read(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; META_BYTES];
    let mut filled = 0;
    while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
        match file.read_at(room, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn check(file: &File, depth: Depth, heads: &Heads) -> io::Result<Result<(), String>> {
    let [first, second] = heads;
    let metas = Meta::read(first, 0).and_then(|first| Ok([first, Meta::read(second, 1)?]));
    let [first, second] = match metas {
        Ok(metas) => metas,
        Err(why) => return Ok(Err(why)),
    };
    if first.page_bytes != second.page_bytes {
        return Ok(Err("the two meta pages contain different page sizes".to_owned()));
    }
    let newest = if first.commit < second.commit { second } else { first };
    let file_bytes = file.metadata()?.len();
    let with_leaves = depth == Depth::Complete || file_bytes <= COMPLETE_BYTES_MAX;
    Trees::new(file, &newest, file_bytes, with_leaves).check()
}

#[cfg(test)]
mod tests;
