//! Checks the pages of an LMDB file before LMDB maps it. LMDB follows the numbers in a page without a check: a damaged one can lead outside
//! of the map, where reading ends the process.
//!
//! A file that passes has no such number: each page is what the page above it expects, belongs to one tree, and each node lies in its page.
//! The content of records is not checked here; their checksums and tallies do that.
//!
//! The layout is that of LMDB's `mdb.c` on a machine with 64 bits, in the machine's order of bytes.

mod page;
mod tree;

use page::{META_BYTES, Meta};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tree::Trees;

/// A store that is shorter is checked completely each time that it is opened. That takes about 40 ms at this length.
const COMPLETE_BYTES_MAX: u64 = 64 << 20;
/// How often the file is read again because another process committed meanwhile.
const TRIES: u32 = 8;

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every page, or all but the leaves if the file is long.
    ByLength,
    /// Every page.
    Complete,
}

/// The damage of this LMDB file; `None` if its pages are sound. Processes that commit meanwhile do no harm.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn damage(path: &Path, depth: Depth) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    for _ in 0..TRIES {
        let before = heads(&file)?;
        let Err(why) = check(&file, depth, &before)? else { return Ok(None) };
        // LMDB changes no page of the newest commit before it has written another meta page.
        if heads(&file)? == before {
            return Ok(Some(why));
        }
    }
    // Other processes commit faster than the file is read: they use the store, so they found it sound.
    Ok(None)
}

type Heads = [Vec<u8>; 2];

/// The first bytes of both meta pages.
fn heads(file: &File) -> io::Result<Heads> {
    let first = read(file, 0)?;
    let page_bytes = Meta::read(&first, 0).map_or(0, |meta| meta.page_bytes);
    Ok([first, read(file, page_bytes)?])
}

/// What the file has from here on, at most the bytes of a meta page.
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
        return Ok(Err("its two meta pages give different lengths of a page".to_owned()));
    }
    let newest = if first.commit < second.commit { second } else { first };
    let file_bytes = file.metadata()?.len();
    let with_leaves = depth == Depth::Complete || file_bytes <= COMPLETE_BYTES_MAX;
    Trees::new(file, &newest, file_bytes, with_leaves).check()
}

#[cfg(test)]
mod tests;
