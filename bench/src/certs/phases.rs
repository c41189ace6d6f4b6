//! Another way to read files by io_uring, only for comparison. All files of a group are opened, then all sizes are read, then all contents. At last
//! all files are closed.

use enfilade_sources::files::certificates::{Each, Engine};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The number of files in a group, which is the depth of the queue.
const GROUP: usize = 4_096;
/// The maximum number of bytes that are read of a file. The certificate files are smaller.
const BYTES: usize = 64 * 1024;

pub(super) struct Phases;

impl Engine for Phases {
    fn name(&self) -> String {
        "io_uring, phase by phase".to_owned()
    }

    fn read(&self, directory: &Path, names: &[OsString], each: &Each<'_>) -> io::Result<()> {
        let mut ring = IoUring::new(GROUP as u32)?;
        let directory = std::fs::File::open(directory)?;
        let mut first = 0;
        for group in names.chunks(GROUP) {
            let paths: Vec<CString> =
                group.iter().map(|name| CString::new(name.as_bytes())).collect::<Result<_, _>>()?;
            let at = Fd(directory.as_raw_fd());
            let opened =
                phase(&mut ring, paths.iter().map(|path| opcode::OpenAt::new(at, path.as_ptr()).build()))?;
            // SAFETY: the kernel has just created these descriptors for this process, and nothing else owns them.
            #[expect(unsafe_code, reason = "descriptors the ring made")]
            let files: Vec<OwnedFd> = opened
                .into_iter()
                .filter(|fd| *fd >= 0)
                .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
                .collect();
            if files.len() != group.len() {
                return Err(io::Error::other("a file could not be opened"));
            }
            let sizes: Vec<usize> = files
                .iter()
                .map(|file| Ok(rustix::fs::fstat(file)?.st_size as usize))
                .collect::<io::Result<_>>()?;
            let mut buffers: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; (*size).min(BYTES)]).collect();
            let reads = files.iter().zip(&mut buffers).map(|(file, buffer)| {
                opcode::Read::new(Fd(file.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32).build()
            });
            let entries: Vec<_> = reads.collect();
            let read = phase(&mut ring, entries.into_iter())?;
            for (n, (buffer, count)) in buffers.iter().zip(read).enumerate() {
                let bytes = usize::try_from(count).ok().and_then(|count| buffer.get(..count));
                each(first + n, bytes.ok_or_else(|| "the file could not be read".to_owned()));
            }
            let closes: Vec<_> =
                files.iter().map(|file| opcode::Close::new(Fd(file.as_raw_fd())).build()).collect();
            // The ring closes the files.
            files.into_iter().for_each(std::mem::forget);
            phase(&mut ring, closes.into_iter())?;
            first += group.len();
        }
        Ok(())
    }
}

/// Submits all entries of one phase. Returns their results.
fn phase(ring: &mut IoUring, entries: impl ExactSizeIterator<Item = squeue::Entry>) -> io::Result<Vec<i32>> {
    let count = entries.len();
    let mut results = vec![0; count];
    for (n, entry) in entries.enumerate() {
        let entry = entry.user_data(n as u64);
        // SAFETY: paths, descriptors and buffers outlive the phase, which ends only when every entry is done.
        #[expect(unsafe_code, reason = "the kernel is given pointers")]
        unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
    }
    let mut done = 0;
    while done < count {
        ring.submit_and_wait(1)?;
        for entry in ring.completion() {
            if let Some(result) = results.get_mut(entry.user_data() as usize) {
                *result = entry.result();
            }
            done += 1;
        }
    }
    Ok(results)
}
