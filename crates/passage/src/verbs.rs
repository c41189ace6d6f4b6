//! The verbs that read files, upload files, and make directories. Each function checks on an open descriptor whether the visitor has the right that
//! the verb needs. Then the function acts on the same descriptor. All functions here block on the file system: do not call them on an async worker.

use crate::reach::{Inside as _, present};
use crate::refuse::Refusal;
use crate::shares::Share;
use crate::walk::{Found, Stay};
use enfilade_access::{AccessPermit, Ask, NodeKind, SecurityDescriptor, Wanted};
use enfilade_content::{
    Blocking, Cached, KeptUpload, LockToken, Meta, Node, Patience, Pipe, QuotaReservation, Reader,
    Refusal as Content, Touches, Upload,
};
use enfilade_facts::Door;
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{AccessMask, StorePath};

impl Stay {
    /// Opens the entry `name` of a directory. For an absent entry, this function does the same work as for a hidden entry. So the time of the answer
    /// does not tell a client whether the entry exists.
    pub(crate) fn child_or_alike(
        &mut self,
        path: &StorePath,
        directory: &Node,
        name: &str,
    ) -> Result<Node, Refusal> {
        directory.child(name).map_err(|why| {
            // DELETE and MOVE of a hidden entry are also judged on the ACL of its directory, so this ACL is read here, too.
            let _judged_too = directory.subject();
            self.refuse_alike(path);
            why.into()
        })
    }

    /// Does the work that the refusal of a hidden object needs. Callers use this function if an object is absent. So the refusal of an absent object
    /// takes as long as the refusal of a hidden object.
    pub(crate) fn refuse_alike(&mut self, path: &StorePath) {
        // Before door 4 refuses a hidden object, the object is opened. An absent object cannot be opened, so the root is opened instead.
        let Ok(root) = self.root.find(&StorePath::root(), Blocking) else { return };
        let subject = root.subject();
        let refused = self.on_view(|stay, view| {
            let house = &stay.visit.house;
            let (identity, memo) = (&stay.visit.identity, &house.parts.access_memo);
            let (now, datastore) = (house.now(), &stay.datastore);
            let refuse =
                || enfilade_access::refuse_alike(view, now, identity, datastore, (path, &subject), memo);
            stay.visit.timer.time(Door::Access, refuse);
            Ok(())
        });
        // An error here must not replace the refusal that the caller returns.
        drop(refused);
    }

    /// Opens a file to read its bytes. With [`CachedOnly`](crate::CachedOnly) the call does not wait for the disk.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, or of door 2 or 3 if that door no longer admits the visitor.
    pub fn read<P: Patience>(mut self, path: &StorePath, patience: P) -> Result<P::Of<Reading>, Refusal> {
        P::and_then(self.find(path, AccessMask::READ_DATA, patience)?, |Found { node, permit, .. }| {
            let reader = enfilade_content::read(&permit, &node)?;
            let checked = self.visit.house.now().tick_millis;
            Ok(P::ready(Reading { stay: self, path: path.clone(), node, reader, checked }))
        })
    }

    /// Begins to write a file: a new file, or a file that replaces an existing file. `expected` is the size in bytes, if the client announced it.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, or of door 2 or 3 if that door no longer admits the visitor.
    pub fn upload(mut self, path: StorePath, expected: Option<u64>) -> Result<Uploading, Refusal> {
        let (directory, name) = self.reach_parent(&path).map_err(Refusal::of_parent(&path))?;
        let target = self.present_or_taken(&path, &directory, name, NodeKind::File)?;
        let upload = match &target {
            Some(target) => {
                let permit = self.may_overwrite(&path, &directory, target)?;
                Upload::replace(&permit, &directory, name, target)?
            }
            None => {
                let made = self.may_create(&path, &directory, NodeKind::File);
                let (permit, from_start) = made.map_err(Refusal::of_parent(&path))?;
                Upload::create(&permit, &directory, name, &from_start)?
            }
        };
        // The quota is checked after the doors, because only a client that may write may learn how full the datastore is. The announced size is only
        // checked: no space is reserved for it.
        let reservation =
            self.datastore.quota().map(|quota| self.fill.take(&self.root, quota, 0)).transpose()?;
        let bytes_max = self.principal().link.as_ref().and_then(|link| link.upload_bytes);
        if let Some(bytes) = expected {
            fits_link(bytes_max, bytes)?;
            // The announced size of a guest is not compared with the free space. Otherwise a guest could find out the free space without sending a
            // file. For a guest, the server compares only the number of received bytes with the free space.
            if self.principal().link.is_none() {
                reservation.iter().try_for_each(|reservation| reservation.fits(bytes))?;
                upload.fits(bytes)?;
            }
        }
        Ok(Uploading {
            stay: self,
            path,
            directory,
            target,
            upload,
            reservation,
            tokens: Vec::new(),
            expected,
            bytes_max,
            ready: 0,
            counted: 0,
        })
    }

    /// Checks that the visitor may create files in a directory. The right to see the directory is not needed.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, or of door 2 or 3 if that door no longer admits the visitor.
    pub fn may_add_files(&mut self, directory: &StorePath) -> Result<(), Refusal> {
        let node = self.reach(directory, Blocking)?;
        let made = self.may_create_in(directory, &node, NodeKind::File).map(drop);
        match node.kind() {
            NodeKind::Directory => made,
            NodeKind::File => made.and(Err(Content::ParentAbsent(directory.to_string()).into())),
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, or of door 2 or 3 if that door no longer admits the visitor.
    pub fn make_collection(&mut self, path: &StorePath, tokens: &[LockToken]) -> Result<(), Refusal> {
        let (directory, name) = self.reach_parent(path).map_err(Refusal::of_parent(path))?;
        let made = self.may_create(path, &directory, NodeKind::Directory);
        let (permit, from_start) = made.map_err(Refusal::of_parent(path))?;
        if let Some(existing) = present(directory.child(name))? {
            self.refuse_hidden(path, &existing)?;
        }
        self.unless_locked(path, Touches::Entry, tokens)?;
        let still_there = self.still_there(path, &directory);
        let settle = || self.settle(path, &directory, Touches::Entry, tokens).map(drop);
        enfilade_content::make_collection(&permit, &directory, name, &from_start, settle, still_there)?;
        Ok(())
    }

    /// Refuses to create an object under the name of a hidden object. The refusal is the same as for a visitor who does not have the right to create
    /// the object.
    pub(crate) fn refuse_hidden(&mut self, path: &StorePath, existing: &Node) -> Result<(), Refusal> {
        let subject = existing.subject();
        if self.may(&Ask { path, target: &subject, wanted: Wanted::On(AccessMask::NONE) }).is_err() {
            self.may(&Ask { path, target: &subject, wanted: Wanted::Overwrite })?;
        }
        Ok(())
    }
}

impl Found {
    /// The kind of the object.
    pub fn kind(&self) -> NodeKind {
        self.subject.kind
    }

    pub(crate) fn permit(&self) -> &AccessPermit {
        &self.permit
    }

    /// The visitor's rights on the object.
    pub fn granted(&self) -> AccessMask {
        self.permit.granted()
    }

    /// The owner and ACL of the object; `None` if the visitor may not read the ACL, if the mode bits decide, or if the ACL is damaged.
    pub fn descriptor(&self) -> Option<SecurityDescriptor> {
        let may = self.granted().covers(AccessMask::READ_ACL);
        may.then(|| self.subject.descriptor().ok().flatten()).flatten()
    }
}

/// A file that a client reads. The doors are asked again when the facts changed, and at least once a second. So a running download ends when the
/// client's token is revoked, or when the client loses the right to read the file.
pub struct Reading {
    stay: Stay,
    path: StorePath,
    node: Node,
    reader: Reader,
    checked: u64,
}

const CHECK_EVERY_MILLIS: u64 = 1000;

impl Reading {
    /// The visitor's share of the threads.
    pub fn share(&self) -> Share {
        self.stay.share()
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        self.path.name()
    }

    /// A random text of 32 hexadecimal digits, which cannot be guessed.
    pub fn random(&self) -> Option<String> {
        let bytes: [u8; 16] = self.stay.visit.house.random()?;
        Some(format!("{:032x}", u128::from_ne_bytes(bytes)))
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.stay.visit.limits()
    }

    /// The size, times and validator of the file.
    pub fn meta(&self) -> &Meta {
        self.node.meta()
    }

    /// Appends bytes of the file, starting at `offset`, to `buffer`, until the capacity of `buffer` is used or the file ends.
    ///
    /// # Errors
    /// When the file cannot be read, or the visitor may no longer read it.
    pub fn read_at(&mut self, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Refusal> {
        self.check()?;
        Ok(self.reader.fill_from(offset, buffer)?)
    }

    /// Puts at most `at_most` bytes of the file, starting at `offset`, into an empty pipe. Returns the number of bytes, which is 0 at the end of the
    /// file.
    ///
    /// # Errors
    /// When the file cannot be read, or the visitor may no longer read it.
    pub fn fill_pipe(&mut self, offset: u64, at_most: u64, pipe: &Pipe) -> Result<u64, Refusal> {
        self.check()?;
        Ok(self.reader.fill_pipe(offset, at_most, pipe)?)
    }

    /// Reads bytes of the file into `room`, starting at `offset`, without waiting for the disk. Returns the number of bytes, or `WouldWait` if not
    /// all bytes are in memory.
    ///
    /// # Errors
    /// When the visitor may no longer read the file.
    pub fn read_cached(&mut self, offset: u64, room: &mut [u8]) -> Result<Cached<usize>, Refusal> {
        self.check()?;
        Ok(self.reader.fill_cached(offset, room))
    }

    /// Checks that the visitor may still read the file. Door 4 is asked again if the facts changed, and once a second because the file's ACL may have
    /// changed.
    ///
    /// # Errors
    /// The refusal of door 2, 3 or 4, if the visitor may no longer read the file.
    pub fn check(&mut self) -> Result<(), Refusal> {
        let tick = self.stay.visit.house.now().tick_millis;
        if self.stay.unchanged() && tick.saturating_sub(self.checked) < CHECK_EVERY_MILLIS {
            return Ok(());
        }
        let subject = self.node.subject();
        let wanted = Wanted::On(AccessMask::READ_DATA);
        self.stay.may(&Ask { path: &self.path, target: &subject, wanted })?;
        self.checked = tick;
        Ok(())
    }

    /// The revision of the facts on which the doors judged last.
    pub fn revision(&self) -> u64 {
        self.stay.revision().0
    }
}

/// Checks that a file is not larger than the link of a guest allows.
fn fits_link(bytes_max: Option<u64>, bytes: u64) -> Result<(), Content> {
    match bytes_max {
        Some(quota) if bytes > quota => Err(Content::OverQuota { quota, used: 0 }),
        _ => Ok(()),
    }
}

/// A file that a client writes. No part of the file is visible until [`Uploading::finish`].
pub struct Uploading {
    stay: Stay,
    path: StorePath,
    directory: Node,
    target: Option<Node>,
    upload: Upload,
    /// The reserved quota, in a datastore with a quota.
    reservation: Option<QuotaReservation>,
    /// The lock tokens of the request.
    tokens: Vec<LockToken>,
    /// The size in bytes that the client announced; `None` if the client announced no size.
    expected: Option<u64>,
    /// The largest size that the link of a guest allows, in bytes.
    bytes_max: Option<u64>,
    /// The number of bytes for which space is reserved.
    ready: u64,
    /// The number of bytes that are already counted in the quota, because they came from an unfinished upload.
    counted: u64,
}

/// The minimum and the maximum number of bytes that are reserved in addition to the received bytes. Between these bounds, the number of additional
/// bytes equals the number of received bytes. So the server reserves little space for a client that sends little.
const AHEAD_BYTES: (u64, u64) = (1 << 20, 64 << 20);

impl Uploading {
    /// The visitor's share of the threads.
    pub fn share(&self) -> Share {
        self.stay.share()
    }

    /// The file that the upload will replace, if there is one.
    pub fn existing(&self) -> Option<&Meta> {
        self.target.as_ref().map(Node::meta)
    }

    /// Checks that no lock prevents the upload if the request has these lock tokens. The locks are checked again when the file gets its name.
    ///
    /// # Errors
    /// [`Content::Locked`] if a lock prevents the upload. An error if the locks cannot be read.
    pub fn unless_locked(&mut self, tokens: Vec<LockToken>) -> Result<(), Refusal> {
        self.tokens = tokens;
        self.stay.unless_locked(&self.path, self.touches(), &self.tokens)
    }

    /// Takes the bytes of an unfinished upload.
    pub(crate) fn set_from(&mut self, kept: KeptUpload) -> Result<(), Refusal> {
        self.counted = kept.received();
        Ok(self.upload.adopt(kept)?)
    }

    fn touches(&self) -> Touches {
        if self.target.is_some() { Touches::Content } else { Touches::Entry }
    }

    /// Sets the modification time that the client gives, in seconds since the epoch.
    ///
    /// # Errors
    /// When the file system refuses the change.
    pub fn set_modified(&self, unix_seconds: i64) -> Result<(), Refusal> {
        Ok(self.upload.set_modified(unix_seconds)?)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the bytes cannot be written, or the visitor may no longer write the file.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if !self.stay.unchanged() {
            self.ask_again()?;
        }
        let all = self.upload.bytes().saturating_add(bytes.len() as u64);
        fits_link(self.bytes_max, all)?;
        self.make_room(all)?;
        Ok(self.upload.write(bytes)?)
    }

    /// Reserves space for the first `bytes` bytes of the file. If the client announced the size, also reserves space for some further bytes
    /// ([`AHEAD_BYTES`]).
    fn make_room(&mut self, bytes: u64) -> Result<(), Refusal> {
        if bytes <= self.ready {
            return Ok(());
        }
        let ahead = bytes.saturating_add(bytes.clamp(AHEAD_BYTES.0, AHEAD_BYTES.1));
        let ready = self.expected.map_or(bytes, |expected| ahead.min(expected).max(bytes));
        if let Some(reservation) = &mut self.reservation {
            reservation.grow_to(ready)?;
        }
        if self.expected.is_some() {
            self.upload.make_room(ready)?;
        }
        self.ready = ready;
        Ok(())
    }

    /// Asks the doors once more, makes the file durable, and then makes it visible in one step.
    ///
    /// # Errors
    /// The errors of [`Uploading::write`]. An error if another client meanwhile created an object at the path, or locked the path.
    pub fn finish(self) -> Result<Meta, Refusal> {
        self.finish_if(|_| Ok(()))
    }

    /// Like [`Uploading::finish`], but `still` checks a condition of the request. This function calls `still`, checks the locks, and makes the file
    /// visible, all in one turn (see `trees.rs`).
    ///
    /// # Errors
    /// The errors of [`Uploading::finish`], and the refusal that `still` returns.
    pub fn finish_if<E>(mut self, still: impl FnOnce(&mut Stay) -> Result<(), E>) -> Result<Meta, E>
    where
        E: From<Refusal> + From<Content>,
    {
        self.ask_again()?;
        let (counted, fill) = (self.counted, self.stay.fill.clone());
        let bytes = self.upload.bytes().saturating_sub(counted);
        let replaced = self.target.as_ref().map_or(0, Node::content_bytes);
        let touches = self.touches();
        let Uploading { mut stay, path, directory, upload, reservation, tokens, .. } = self;
        let still_there = stay.still_there(&path, &directory);
        let judge = || {
            still(&mut stay)?;
            Ok::<_, E>(stay.settle(&path, &directory, touches, &tokens).map(drop)?)
        };
        // A refused upload changes nothing. If the upload succeeds, the file is in the directory that door 4 judged. Another client can move this
        // directory later.
        let made = upload.finish_if(judge, still_there).inspect_err(|_| {
            // After a refusal, the bytes of the unfinished upload are removed together with the upload. So they no longer count in the quota.
            fill.freed(counted);
        })?;
        reservation.into_iter().for_each(|reservation| reservation.keep(bytes, replaced));
        Ok(made.meta().clone())
    }

    fn ask_again(&mut self) -> Result<(), Refusal> {
        match &self.target {
            Some(target) => self.stay.may_overwrite(&self.path, &self.directory, target).map(drop),
            None => {
                let made = self.stay.may_create(&self.path, &self.directory, NodeKind::File);
                made.map(drop).map_err(Refusal::of_parent(&self.path))
            }
        }
    }

    /// The revision of the facts on which the doors judged last.
    pub fn revision(&self) -> u64 {
        self.stay.revision().0
    }
}
