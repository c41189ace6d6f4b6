//! Reads a file at any offset, through the descriptor that door 4 judged.

use crate::node::{Meta, Node};
use crate::patience::Cached;
use crate::refuse::Refusal;
use enfilade_access::{AccessPermit, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, fadvise};
use rustix::io::{self, IoSliceMut, ReadWriteFlags, preadv2};

/// How many bytes the kernel reads ahead by default (`read_ahead_kb`).
const USUAL_READAHEAD_BYTES: u64 = 128 * 1024;

/// A file that may be read.
#[derive(Clone, Debug)]
pub struct Reader {
    node: Node,
    reads_properties: bool,
}

/// Makes a [`Reader`] for a file. No bytes are read yet.
///
/// # Refuses
/// [`Refusal::WrongKind`] for a directory.
pub fn read(permit: &AccessPermit, node: &Node) -> Result<Reader, Refusal> {
    node.covered(permit, AccessMask::READ_DATA)?;
    let reads_properties = permit.covers(node.object(), AccessMask::READ_NAMED_ATTRIBUTES);
    Ok(Reader { reads_properties, ..reader(node)? })
}

/// Does the same as [`read`], but does not check the permit.
pub(crate) fn reader(node: &Node) -> Result<Reader, Refusal> {
    node.needs(NodeKind::File, "reading")?;
    // `fadvise` is only advice, so an error does not matter: a file system may ignore the advice. A small file needs no advice: the kernel reads the
    // whole file ahead anyway.
    if node.meta().bytes > USUAL_READAHEAD_BYTES {
        let _ = fadvise(node.fd(), 0, None, Advice::Sequential);
    }
    Ok(Reader { node: node.clone(), reads_properties: true })
}

impl Reader {
    /// Size of the file when it was opened, in bytes.
    pub fn bytes(&self) -> u64 {
        self.node.meta().bytes
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Whether the caller may also read the dead properties of the file.
    pub(crate) fn reads_properties(&self) -> bool {
        self.reads_properties
    }

    /// The metadata of the file at the time when it was opened.
    pub fn meta(&self) -> &Meta {
        self.node.meta()
    }

    /// Appends the bytes of the file from `offset` on to `buffer`, until `buffer` has reached its capacity, or the file ends.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the file cannot be read.
    pub fn fill_from(&self, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Refusal> {
        let from = buffer.len();
        while buffer.len() < buffer.capacity() {
            let at = offset + (buffer.len() - from) as u64;
            let read = io::retry_on_intr(|| io::pread(self.node.fd(), spare_capacity(buffer), at));
            if read.map_err(|errno| Refusal::io(errno, "reading", &self.node.label()))? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads from `offset` on until `room` is full or the file ends, if all these bytes are in memory. Returns the number of bytes.
    pub fn fill_cached(&self, offset: u64, room: &mut [u8]) -> Cached<usize> {
        let mut filled = 0;
        while let Some(spare) = room.get_mut(filled..).filter(|spare| !spare.is_empty()) {
            let at = offset + filled as u64;
            if at >= self.bytes() {
                break;
            }
            match preadv2(self.node.fd(), &mut [IoSliceMut::new(spare)], at, ReadWriteFlags::NOWAIT) {
                Ok(count @ 1..) => filled += count,
                _ => return Cached::WouldWait,
            }
        }
        Cached::Ready(filled)
    }

    /// Reads into `buffer` from `offset` on. Returns the number of bytes, and 0 at the end of the file.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the file cannot be read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Refusal> {
        io::retry_on_intr(|| io::pread(self.node.fd(), &mut *buffer, offset))
            .map_err(|errno| Refusal::io(errno, "reading", &self.node.label()))
    }
}
