//! Reads many files with io_uring: the kernel opens and reads the files, and reports each completion.
//!
//! Each file is handled separately. When the open of a file completes, its read is submitted. When its read completes, the next file is opened into
//! the same slot, which closes the previous file. No entries are linked, because a linked read waits in a worker thread of the kernel. No close is
//! submitted, because a late close would close the next file of the slot. Files are in slots of the ring instead of descriptors of the process, so
//! that no limit on descriptors applies. File attributes are not read here, because the kernel would use a worker thread for each `statx`.
//!
//! In a measurement with 25,000 files (`bench/runs/2026-11-22-certs.json`), the ring needed 58 ms if the files were in the page cache, and 221 ms if
//! they were read from the disk. Four threads without a ring needed 65 ms and 265 ms. With 1,000,000 files (`2026-11-22-certs-1000000.json`), the
//! ring needed 2.1 s and 11.2 s, and the threads needed 2.5 s and 12.7 s.

use super::{BYTES_MAX, Each, Engine, FLAGS, open_directory, too_large};
use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The greatest number of files that one ring opens or reads at the same time. Each of these files takes a slot. With more slots, reads from a disk
/// do not become faster, and the buffers of the slots do not fit into the cache of a core.
const SLOTS: usize = 128;
/// The size of a slot's first buffer, in bytes. Most files fit into it. For a larger file, a larger buffer is allocated before the next read.
const BUFFER_BYTES: usize = 8 * 1024;

/// Reads files with io_uring, with some threads that have one ring each.
#[derive(Clone, Debug)]
pub struct Ring {
    rings: usize,
    #[cfg(test)]
    fails: Option<(usize, Errno)>,
}

impl Ring {
    /// Checks whether the kernel provides the needed operations to this process.
    ///
    /// # Errors
    /// The reason why io_uring cannot be used.
    pub fn probe() -> Result<Self, String> {
        let refused = |why: io::Error| format!("io_uring is not available: {why}");
        let ring = IoUring::new(8).map_err(refused)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(refused)?;
        for (code, what) in [(opcode::OpenAt::CODE, "openat"), (opcode::Read::CODE, "read")] {
            if !probe.is_supported(code) {
                return Err(format!("io_uring does not support {what} on this kernel"));
            }
        }
        ring.submitter().register_files_sparse(8).map_err(refused)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Ring {
            rings: cores.min(2),
            #[cfg(test)]
            fails: None,
        })
    }

    /// An engine in which the completion with the number `nth` fails.
    #[cfg(test)]
    pub(super) fn failing(self, nth: usize, errno: Errno) -> Self {
        Ring { rings: 1, fails: Some((nth, errno)) }
    }
}

impl Engine for Ring {
    fn name(&self) -> String {
        format!("io_uring, {} rings", self.rings)
    }

    fn read(&self, directory: &Path, names: &[OsString], each: &Each<'_>) -> io::Result<()> {
        let directory = open_directory(directory)?;
        // All rings take the index of their next file from this counter. So a ring that gets less CPU time reads fewer files.
        let next = AtomicUsize::new(0);
        let run = || {
            let mut run = Run::new(&directory, names, &next, each)?;
            #[cfg(test)]
            {
                run.fails = self.fails;
            }
            run.run()
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..self.rings).map(|_| scope.spawn(run)).collect();
            let ended = running.into_iter().map(|one| {
                one.join().unwrap_or_else(|_| {
                    Err(io::Error::other("internal error: a thread that reads files with io_uring failed"))
                })
            });
            ended.fold(Ok(()), io::Result::and)
        })
    }
}

/// The progress of the file in a slot.
enum State {
    Opening,
    /// The number of bytes read so far.
    Reading(usize),
}

struct Slot {
    /// The index of the file in `names`.
    file: usize,
    path: CString,
    /// The buffer for a file that does not fit into the slot's part of the pool.
    grown: Vec<u8>,
    state: State,
}

struct Run<'r> {
    ring: IoUring,
    directory: &'r OwnedFd,
    names: &'r [OsString],
    each: &'r Each<'r>,
    /// The index of the next file, for all rings.
    next: &'r AtomicUsize,
    slots: Vec<Slot>,
    /// The buffers of all slots in one allocation, so that the whole memory is returned to the kernel at the end.
    pool: Vec<u8>,
    under_way: usize,
    #[cfg(test)]
    fails: Option<(usize, Errno)>,
    #[cfg(test)]
    completed: usize,
}

impl<'r> Run<'r> {
    fn new(
        directory: &'r OwnedFd,
        names: &'r [OsString],
        next: &'r AtomicUsize,
        each: &'r Each<'r>,
    ) -> io::Result<Self> {
        let slots = SLOTS.min(names.len()).max(1);
        let ring = IoUring::new(slots.next_power_of_two() as u32)?;
        ring.submitter().register_files_sparse(slots as u32)?;
        Ok(Run {
            ring,
            directory,
            names,
            each,
            next,
            slots: Vec::with_capacity(slots),
            pool: vec![0; slots * BUFFER_BYTES],
            under_way: 0,
            #[cfg(test)]
            fails: None,
            #[cfg(test)]
            completed: 0,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        while self.slots.len() < self.slots.capacity() && self.next.load(Ordering::Relaxed) < self.names.len()
        {
            let at = self.slots.len();
            self.slots.push(Slot {
                file: 0,
                path: CString::default(),
                grown: Vec::new(),
                state: State::Opening,
            });
            self.begin_next(at)?;
        }
        while self.under_way > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(why) if why.raw_os_error() == Some(Errno::INTR.raw_os_error()) => continue,
                Err(why) if why.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
                Err(why) => return Err(why),
            }
            let done: Vec<cqueue::Entry> = self.ring.completion().collect();
            for entry in done {
                self.under_way -= 1;
                let result = self.result(&entry);
                self.completed(entry.user_data() as usize, result)?;
            }
        }
        Ok(())
    }

    fn result(&mut self, entry: &cqueue::Entry) -> i32 {
        #[cfg(test)]
        {
            self.completed += 1;
            if let Some((nth, errno)) = self.fails
                && nth + 1 == self.completed
            {
                return -errno.raw_os_error();
            }
        }
        entry.result()
    }

    /// Opens the next file into a slot, after the previous file of the slot has been read or has failed.
    fn begin_next(&mut self, at: usize) -> io::Result<()> {
        loop {
            let file = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = self.names.get(file) else { return Ok(()) };
            let Ok(path) = CString::new(name.as_bytes()) else {
                (self.each)(file, Err("its name contains a NUL byte".to_owned()));
                continue;
            };
            let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
            (slot.file, slot.path, slot.state) = (file, path, State::Opening);
            slot.grown = Vec::new();
            return self.open(at);
        }
    }

    fn open(&mut self, at: usize) -> io::Result<()> {
        let Some(slot) = self.slots.get(at) else { return Ok(()) };
        let target = DestinationSlot::try_from_slot_target(at as u32).map_err(|_| {
            io::Error::other("internal error: the number of a file slot is too large for io_uring")
        })?;
        let open = opcode::OpenAt::new(Fd(self.directory.as_raw_fd()), slot.path.as_ptr())
            .file_index(Some(target))
            .flags(FLAGS.bits() as i32)
            .build();
        self.submit(at, open)
    }

    fn read_more(&mut self, at: usize, from: usize) -> io::Result<()> {
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        slot.state = State::Reading(from);
        let buffer = match slot.grown.is_empty() {
            true => self.pool.get_mut(at * BUFFER_BYTES..(at + 1) * BUFFER_BYTES).unwrap_or_default(),
            false => &mut slot.grown,
        };
        let room = buffer.get_mut(from..).unwrap_or_default();
        let read = opcode::Read::new(Fixed(at as u32), room.as_mut_ptr(), room.len() as u32)
            .offset(from as u64)
            .build();
        self.submit(at, read)
    }

    #[expect(unsafe_code, reason = "the kernel accesses memory through the pointers in the entry")]
    fn submit(&mut self, at: usize, entry: squeue::Entry) -> io::Result<()> {
        let entry = entry.user_data(at as u64);
        loop {
            // SAFETY: the entry points to a slot's path or to the free end of a slot's buffer. Both are on the heap. Each slot has at most one
            // pending entry. Until its entry has completed, the slot's path and buffer are not moved, resized or freed. If the run ends early, slots
            // with a pending entry are never freed.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.under_way += 1;
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn completed(&mut self, at: usize, result: i32) -> io::Result<()> {
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let file = slot.file;
        let count = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => {
                let errno = Errno::from_raw_os_error(-result);
                if matches!(errno, Errno::INTR | Errno::AGAIN) && matches!(slot.state, State::Opening) {
                    return self.open(at);
                }
                (self.each)(file, Err(io::Error::from(errno).to_string()));
                return self.begin_next(at);
            }
        };
        let had = match slot.state {
            State::Opening => return self.read_more(at, 0),
            State::Reading(had) => had,
        };
        let have = had + count;
        if have as u64 > BYTES_MAX {
            (self.each)(file, Err(too_large()));
            return self.begin_next(at);
        }
        let buffer = match slot.grown.is_empty() {
            true => self.pool.get(at * BUFFER_BYTES..(at + 1) * BUFFER_BYTES).unwrap_or_default(),
            false => &slot.grown,
        };
        let bytes = buffer.get(..have).unwrap_or_default();
        if have == buffer.len() {
            // The buffer is full, so the file may be longer. The next read uses a larger buffer.
            let mut grown = bytes.to_vec();
            grown.resize(have * 2, 0);
            slot.grown = grown;
            return self.read_more(at, have);
        }
        if count > 0 && !is_whole(bytes) {
            // The read returned less than the buffer can hold, and the bytes do not end like a PEM file. So the end of the file may be missing, and
            // the file is read further, until a read returns nothing or the bytes end like a PEM file.
            return self.read_more(at, have);
        }
        (self.each)(file, Ok(bytes));
        self.begin_next(at)
    }
}

impl Drop for Run<'_> {
    /// If the run ends early (also if `each` panics), the kernel can still write into the buffers. So the buffers are never freed.
    fn drop(&mut self) {
        if self.under_way > 0 {
            std::mem::forget((std::mem::take(&mut self.slots), std::mem::take(&mut self.pool)));
        }
    }
}

/// Whether the bytes end as a PEM file ends.
fn is_whole(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().ends_with(b"-----")
}
