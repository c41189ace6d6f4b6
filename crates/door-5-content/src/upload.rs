//! A file during its upload. The new file is hidden until it is complete. If the new file replaces an old file, the old file keeps its content until
//! the new file is complete.

use crate::acl_write;
use crate::node::{Node, entry_name};
use crate::preserved::Preserved;
use crate::read::Reader;
use crate::refuse::Refusal;
use crate::temporary::{Temporary, unlock};
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::{
    FallocateFlags, Timespec, Timestamps, UTIME_OMIT, copy_file_range, fallocate, fstatvfs, futimens,
};
use rustix::io::{self, Errno};

/// The maximum number of bytes that are copied through memory in one step, if the kernel cannot copy the bytes itself.
const COPY_BYTES: usize = 1 << 20;

/// Disk space is reserved in advance only for uploads of at least this many bytes.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// A file during its upload. If an `Upload` is dropped before [`Upload::finish`], the uploaded bytes are removed.
#[derive(Debug)]
pub struct Upload {
    temporary: Temporary,
    file: Node,
    name: String,
    bytes: u64,
    fate: Fate,
}

/// The effect of finishing an upload.
#[derive(Debug)]
enum Fate {
    New { from_start: Inheritance },
    Replaces { target: Node, preserved: Box<Preserved> },
}

impl Upload {
    /// Starts the upload of a new file, which gets this name, ACL and owner.
    ///
    /// # Refuses
    /// [`Refusal::Exists`] when the name is taken, [`Refusal::AclNotWritable`] when the ACL cannot be stored.
    pub fn create(
        permit: &AccessPermit,
        directory: &Node,
        name: &str,
        from_start: &Inheritance,
    ) -> Result<Upload, Refusal> {
        directory.covered(permit, AccessMask::ADD_FILE)?;
        Self::begin_new(directory, name, from_start)
    }

    /// As [`Upload::create`], but the name can already belong to another object. [`Upload::finish_instead`] replaces that object.
    ///
    /// # Refuses
    /// [`Refusal::AclNotWritable`] when the ACL cannot be stored.
    pub fn create_instead(
        permit: &AccessPermit,
        directory: &Node,
        name: &str,
        from_start: &Inheritance,
    ) -> Result<Upload, Refusal> {
        directory.covered(permit, AccessMask::ADD_FILE)?;
        directory.needs(NodeKind::Directory, "making a file")?;
        Self::begin_hidden(directory, name, from_start)
    }

    /// Starts an upload that replaces the content of `target`, the file with this name. The new file gets the old file's ACL, mode and `user.`
    /// attributes, and also the old owner and group if this process may set them. If `target` has other names, these names keep the old content.
    ///
    /// # Refuses
    /// [`Refusal::ChangedMeanwhile`] when the name no longer belongs to `target`, [`Refusal::WrongKind`] for a directory.
    pub fn replace(
        permit: &AccessPermit,
        directory: &Node,
        name: &str,
        target: &Node,
    ) -> Result<Upload, Refusal> {
        target.covered(permit, AccessMask::WRITE_DATA)?;
        Self::begin_replacement(directory, name, target)
    }

    /// Does the same as [`Upload::create`], but does not check the permit.
    pub(crate) fn begin_new(
        directory: &Node,
        name: &str,
        from_start: &Inheritance,
    ) -> Result<Upload, Refusal> {
        directory.needs(NodeKind::Directory, "making a file")?;
        // This code checks whether the name is free, because otherwise a client could send a whole file before the upload is refused. The name is
        // checked again when the upload is finished.
        if directory.entry(entry_name(name)?)?.is_some() {
            return Err(Refusal::Exists(name.to_owned()));
        }
        Self::begin_hidden(directory, name, from_start)
    }

    fn begin_hidden(directory: &Node, name: &str, from_start: &Inheritance) -> Result<Upload, Refusal> {
        let (temporary, file) = Temporary::file(directory)?;
        acl_write::apply_initial_acl(&file, from_start)?;
        let fate = Fate::New { from_start: from_start.clone() };
        Ok(Upload { temporary, file, name: name.to_owned(), bytes: 0, fate })
    }

    /// Does the same as [`Upload::replace`], but does not check the permit.
    pub(crate) fn begin_replacement(directory: &Node, name: &str, target: &Node) -> Result<Upload, Refusal> {
        directory.needs(NodeKind::Directory, "replacing a file")?;
        target.needs(NodeKind::File, "replacing content")?;
        directory.still_is(entry_name(name)?, target)?;
        let preserved = Box::new(Preserved::of(target)?);
        let (temporary, file) = Temporary::file(directory)?;
        preserved.give(&file)?;
        let fate = Fate::Replaces { target: target.clone(), preserved };
        Ok(Upload { temporary, file, name: name.to_owned(), bytes: 0, fate })
    }

    /// Checks that `bytes` bytes fit on the file system now. So a client that announces more bytes than fit is refused at once. This method reserves
    /// no space.
    ///
    /// # Refuses
    /// [`Refusal::NoSpace`] when the file system does not have enough space.
    pub fn fits(&self, bytes: u64) -> Result<(), Refusal> {
        // If `fstatvfs` fails, the server notices a full disk only when bytes are written.
        let free = io::retry_on_intr(|| fstatvfs(self.file.fd()))
            .map_or(u64::MAX, |found| found.f_bfree.saturating_mul(found.f_frsize));
        if bytes <= free { Ok(()) } else { Err(Refusal::io(Errno::NOSPC, "making room for", &self.name)) }
    }

    /// Asks the file system to reserve space for the first `bytes` bytes of the file, if the file system can do this. `bytes` includes the bytes that
    /// were already written.
    ///
    /// # Refuses
    /// [`Refusal::NoSpace`] when the file system does not have enough space.
    pub fn make_room(&self, bytes: u64) -> Result<(), Refusal> {
        if bytes < ROOM_BYTES_MIN {
            return Ok(());
        }
        let more = bytes.saturating_sub(self.bytes).max(1);
        match io::retry_on_intr(|| fallocate(self.file.fd(), FallocateFlags::KEEP_SIZE, self.bytes, more)) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                Err(Refusal::io(errno, "making room for", &self.name))
            }
            // A reservation is optional. If another error has a lasting cause, the later write of the bytes fails, too.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Appends bytes.
    ///
    /// # Refuses
    /// [`Refusal::NoSpace`] when the disk or a quota is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut left = bytes;
        while !left.is_empty() {
            let written = io::retry_on_intr(|| io::write(self.file.fd(), left));
            let written = written.map_err(|errno| Refusal::io(errno, "writing", &self.name))?;
            left = left.get(written..).unwrap_or_default();
            self.bytes += written as u64;
        }
        Ok(())
    }

    /// Appends at most `at_most` bytes of a file, from `offset` on, and returns how many bytes were appended. If possible, the kernel copies the
    /// bytes without passing them through this process, or the file system lets both files share the same blocks.
    ///
    /// # Refuses
    /// [`Refusal::NoSpace`] when the disk is full, [`Refusal::Io`] when the file cannot be read.
    pub fn copy_from(&mut self, reader: &Reader, offset: u64, at_most: u64) -> Result<u64, Refusal> {
        let (mut from, count) = (offset, usize::try_from(at_most).unwrap_or(usize::MAX));
        let copied = io::retry_on_intr(|| {
            copy_file_range(reader.node().fd(), Some(&mut from), self.file.fd(), None, count)
        });
        match copied {
            Ok(copied) => {
                self.bytes += copied as u64;
                Ok(copied as u64)
            }
            // The kernel cannot copy between these two file systems, or the file system does not support the copy.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let mut buffer = vec![0; count.min(COPY_BYTES)];
                let read = reader.read_at(offset, &mut buffer)?;
                self.write(buffer.get(..read).unwrap_or_default())?;
                Ok(read as u64)
            }
            Err(errno) => Err(Refusal::io(errno, "copying to", &self.name)),
        }
    }

    /// Sets the time at which the content was last modified, in seconds since the epoch.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the file system refuses the change.
    pub fn set_modified(&self, unix_seconds: i64) -> Result<(), Refusal> {
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps {
            last_access: omitted,
            last_modification: Timespec { tv_sec: unix_seconds, tv_nsec: 0 },
        };
        io::retry_on_intr(|| futimens(self.file.fd(), &times))
            .map_err(|errno| Refusal::io(errno, "setting the time of", &self.name))
    }

    /// Gives another file the ACL, the owner and the attributes of this upload.
    pub(crate) fn prepare(&self, file: &Node) -> Result<(), Refusal> {
        match &self.fate {
            Fate::New { from_start } => acl_write::apply_initial_acl(file, from_start),
            Fate::Replaces { preserved, .. } => preserved.give(file),
        }
    }

    /// Puts another file with `bytes` bytes in the place of the uploaded file. The caller must hold the mutex for name changes.
    pub(crate) fn take_in(&mut self, from: (&Node, &str), file: Node, bytes: u64) -> Result<(), Refusal> {
        let taken = self.temporary.take_in(from.0, from.1);
        taken.map_err(|errno| Refusal::io(errno, "moving", from.1))?;
        (self.file, self.bytes) = (file, bytes);
        Ok(())
    }

    pub(crate) fn file(&self) -> &Node {
        &self.file
    }

    /// How many bytes were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the file its name after every byte was written to the disk. Returns the file.
    ///
    /// # Refuses
    /// [`Refusal::Exists`] when the name was taken meanwhile, [`Refusal::ChangedMeanwhile`] when the object to replace no longer has the name.
    pub fn finish(self) -> Result<Node, Refusal> {
        self.finish_if(|| Ok(()), || Ok(()))
    }

    /// As [`Upload::finish`], unless `judge` or `still_there` refuses. `judge` is the caller's last check. `judge` runs under the mutex for name
    /// changes, before the file gets its name. `still_there` is called under the same mutex, after a new file got its name. If `still_there` refuses,
    /// the file loses the name again, because another process may have begun to remove the directory meanwhile. For a replacement, `still_there` is
    /// not called, because the new file has the ACL of the old file: a user who may remove the old file may also remove the new file. So the
    /// replacement stays, even if the directory is moved meanwhile.
    ///
    /// # Refuses
    /// The refusals of [`Upload::finish`], `judge` and `still_there`. After a refusal nothing has changed. Exception: if the disk fails after the
    /// rename, the file has its name.
    pub fn finish_if<E: From<Refusal>>(
        self,
        judge: impl FnOnce() -> Result<(), E>,
        still_there: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Node, E> {
        let Upload { mut temporary, file, name, fate, .. } = self;
        file.sync()?;
        let directory = temporary.place().clone();
        match fate {
            Fate::New { .. } => {
                let turn = directory.turn().take();
                judge()?;
                turn.may_change(&directory, &name)?;
                temporary.become_new_if(&name, &file, still_there)?;
            }
            Fate::Replaces { target, preserved } => {
                replace(temporary, &file, &name, (&target, *preserved), judge)?
            }
        }
        directory.sync()?;
        unlock(&file);
        Ok(file.again()?)
    }

    /// The parts of the upload, for a caller that itself moves the file to its final name.
    pub(crate) fn into_parts(self) -> (Temporary, Node, String) {
        (self.temporary, self.file, self.name)
    }
}

/// The maximum number of times that the ACL of the old file is copied again before the rename, if the ACL keeps changing.
const RENEWALS_MAX: usize = 4;

/// Puts the new file in the place of the old file, `target`. When the upload began, the ACL of the old file was copied to the new file. If a client
/// changed the ACL of the old file during the upload, the new file must get the changed ACL. So the ACL of `target` is compared with the copied ACL
/// just before the rename. The ACL is compared once more just after the rename, because another process may have changed the ACL between the
/// comparison and the rename. A later change is refused, because the old file has no name any more ([`acl_write::set_acl`]).
fn replace<E: From<Refusal>>(
    mut temporary: Temporary,
    file: &Node,
    name: &str,
    (target, mut preserved): (&Node, Preserved),
    judge: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let directory = temporary.place().clone();
    // The file is synced before the rename. Without this sync, the new file could have the old ACL after a power cut, although the server has already
    // acknowledged a change of the ACL.
    let mut renew = || {
        let now = Preserved::of(target)?;
        let differs = now != preserved;
        if differs {
            now.give(file)?;
            preserved = now;
            file.sync()?;
        }
        Ok::<bool, Refusal>(differs)
    };
    let turn = directory.turn().take();
    judge()?;
    turn.may_change(&directory, name)?;
    directory.still_is(name, target)?;
    // The ACL may change again during the sync. So the ACL is compared again.
    for _ in 0..RENEWALS_MAX {
        if !renew()? {
            break;
        }
    }
    temporary.become_instead(name)?;
    renew()?;
    Ok(())
}
