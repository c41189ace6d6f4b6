//! Buffers for the first pieces of files. Each thread keeps a few free buffers, and reuses them. A new buffer for each file would be filled with
//! zeros twice: before the file is read, and by the allocator when the buffer is freed.

use bytes::Bytes;
use enfilade_faces::UNCOUNTED_BYTES;
use std::cell::RefCell;

/// The number of free buffers of each size that a thread keeps.
const KEPT: usize = 8;

thread_local! {
    /// Small and large buffers are separate. So if a client does not read the response with a small file, no large buffer stays in use.
    static FREE: RefCell<[Vec<Vec<u8>>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

fn free_of(free: &mut [Vec<Vec<u8>>; 2], bytes: usize) -> &mut Vec<Vec<u8>> {
    let [small, large] = free;
    if bytes > UNCOUNTED_BYTES { large } else { small }
}

/// A buffer that is kept for reuse when it is dropped.
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl ReadBuffer {
    /// A buffer for at least this many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        let mut buffer = FREE.with_borrow_mut(|free| free_of(free, bytes).pop()).unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        ReadBuffer { bytes: buffer, filled: 0 }
    }

    /// A slice of the first `bytes` bytes. The slice may still contain data of an earlier use of the buffer.
    pub(super) fn get(&mut self, bytes: usize) -> &mut [u8] {
        self.bytes.get_mut(..bytes).unwrap_or_default()
    }

    /// The bytes that were read into the buffer.
    pub(super) fn filled(mut self, filled: usize) -> Bytes {
        self.filled = filled;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // While a thread ends, `try_with` fails, and the buffer is freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            let free = free_of(&mut free, bytes.len());
            if free.len() < KEPT {
                free.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_content_is_not_sent() {
        let mut buffer = ReadBuffer::of(10);
        buffer.get(10).copy_from_slice(b"0123456789");
        drop(buffer.filled(10));
        let mut buffer = ReadBuffer::of(4);
        assert_eq!(buffer.get(4), b"0123", "the buffer must be reused");
        buffer.get(4)[..2].copy_from_slice(b"ab");
        assert_eq!(buffer.filled(2), "ab");
        assert_eq!(ReadBuffer::of(20).get(20).len(), 20);
    }
}
