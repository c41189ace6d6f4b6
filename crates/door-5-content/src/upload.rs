//! A file being uploaded: nobody sees it before it is whole, and the old content stays until then.

use crate::acl;
use crate::kept::Kept;
use crate::node::{Node, entry_name};
use crate::refuse::Refusal;
use crate::temporary::Temporary;
use enfilade_access::{AccessPermit, Inheritance, NodeKind};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::{FlockOperation, flock};
use rustix::io;

/// A file being uploaded. Dropped before [`Upload::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct Upload {
    temporary: Temporary,
    file: Node,
    name: String,
    bytes: u64,
    fate: Fate,
}

/// What becomes of it.
#[derive(Debug)]
enum Fate {
    New,
    Replaces { target: Node, kept: Box<Kept> },
}

impl Upload {
    /// Begins a new file of that name, with that ACL and owner.
    ///
    /// # Refuses
    /// [`Refusal::Exists`] when the name is taken, [`Refusal::AclNotWritable`] when the ACL cannot be kept.
    pub fn create(
        permit: &AccessPermit,
        directory: &Node,
        name: &str,
        from_start: &Inheritance,
    ) -> Result<Upload, Refusal> {
        directory.covered(permit, AccessMask::ADD_FILE)?;
        Self::begin_new(directory, name, from_start)
    }

    /// Begins new content for `target`, which has that name. The new file keeps the old one's ACL, mode, owner and
    /// `user.` attributes; where `target` has other names besides, they keep the old content.
    ///
    /// # Refuses
    /// [`Refusal::ChangedMeanwhile`] when the name is no longer `target`'s, [`Refusal::WrongKind`] for a directory.
    pub fn replace(
        permit: &AccessPermit,
        directory: &Node,
        name: &str,
        target: &Node,
    ) -> Result<Upload, Refusal> {
        target.covered(permit, AccessMask::WRITE_DATA)?;
        Self::begin_replacement(directory, name, target)
    }

    /// The work of [`Upload::create`].
    pub(crate) fn begin_new(
        directory: &Node,
        name: &str,
        from_start: &Inheritance,
    ) -> Result<Upload, Refusal> {
        directory.needs(NodeKind::Directory, "making a file")?;
        // Looked at again when it is finished; but nobody should send a gigabyte to be told then.
        if directory.entry(entry_name(name)?)?.is_some() {
            return Err(Refusal::Exists(name.to_owned()));
        }
        let (temporary, file) = Temporary::file(directory)?;
        acl::bestow(&file, from_start)?;
        Ok(Upload { temporary, file, name: name.to_owned(), bytes: 0, fate: Fate::New })
    }

    /// The work of [`Upload::replace`].
    pub(crate) fn begin_replacement(directory: &Node, name: &str, target: &Node) -> Result<Upload, Refusal> {
        directory.needs(NodeKind::Directory, "replacing a file")?;
        target.needs(NodeKind::File, "replacing content")?;
        directory.still_is(entry_name(name)?, target)?;
        let kept = Box::new(Kept::of(target)?);
        let (temporary, file) = Temporary::file(directory)?;
        kept.give(&file)?;
        let fate = Fate::Replaces { target: target.clone(), kept };
        Ok(Upload { temporary, file, name: name.to_owned(), bytes: 0, fate })
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

    /// How many bytes were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the file its name once every byte is on the disk; says what it is now.
    ///
    /// # Refuses
    /// [`Refusal::Exists`] when somebody was faster, [`Refusal::ChangedMeanwhile`] when what it replaces is no longer there.
    pub fn finish(self) -> Result<Node, Refusal> {
        let Upload { temporary, file, name, fate, .. } = self;
        file.sync()?;
        let directory = temporary.place().clone();
        match fate {
            Fate::New => {
                let _turn = directory.turn().take();
                temporary.become_new(&name)?;
            }
            Fate::Replaces { target, kept } => replace(temporary, &file, &name, &target, *kept)?,
        }
        directory.sync()?;
        let _ = flock(file.fd(), FlockOperation::Unlock);
        file.again()
    }
}

/// Takes the place of `target`. An ACL that was changed while the bytes came in must not be undone by the one that was
/// copied before: so it is compared just before the rename, and, for the sake of other processes, just after.
/// Whoever changes it later than that finds the old file without a name ([`acl::set_acl`]).
fn replace(
    temporary: Temporary,
    file: &Node,
    name: &str,
    target: &Node,
    mut kept: Kept,
) -> Result<(), Refusal> {
    let directory = temporary.place().clone();
    let mut renewed = false;
    let mut renew = || {
        let now = Kept::of(target)?;
        if now != kept {
            now.give(file)?;
            kept = now;
            renewed = true;
        }
        Ok(())
    };
    {
        let _turn = directory.turn().take();
        directory.still_is(name, target)?;
        renew()?;
        temporary.become_instead(name)?;
        renew()?;
    }
    if renewed { file.sync() } else { Ok(()) }
}
