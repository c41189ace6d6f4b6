//! Lists a directory in batches. The memory that a listing uses does not grow with the size of the directory.

use crate::acl_read::stored_by_name;
use crate::attributes::USUAL_BYTES;
use crate::beneath::{NODE_FLAGS, open_beneath};
use crate::kinds::is_served;
use crate::names::{LookedAt, Named, Names, Reading, can_be_shown, each_entry, reopened};
use crate::node::{Meta, Node, stat_entry};
use crate::order::{FirstNames, Rank};
use crate::patience::{Cached, Patience};
use crate::refuse::{Refusal, is_absent, is_special};
use crate::watch::Watch;
use enfilade_access::{AccessPermit, NodeKind, ObjectId, StoredAcl, Subject, Version};
use enfilade_facts::Held;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Word};
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, FileType, Mode, Statx, StatxAttributes};
use rustix::io::Errno;
use std::ops::ControlFlow;

/// A directory being listed.
#[derive(Debug)]
pub struct Listing {
    directory: Node,
    /// The mount, if the kernel reports changes in it. The outer `None` means that the kernel was not yet asked to report changes. The inner `None`
    /// means that the kernel does not report changes in this mount.
    watched: Option<Option<u64>>,
    reading: Reading,
    names: Held<Names>,
    /// How many of `names` were examined already.
    given: usize,
    /// The number of the last event that the watch had received before the names were read.
    last_event: u64,
    unreadable: u64,
    /// How many names were left out because no path can contain them.
    unspelled: u64,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the entry in the directory.
    pub name: Word,
    /// The metadata of the entry from the kernel; `None` if only the directory was read, and not the entry itself.
    pub meta: Option<Meta>,
    /// The description of the entry for door 4. With this description, door 4 judges whether the entry may be shown.
    pub subject: Subject,
}

/// Begins to list a directory.
///
/// # Refuses
/// [`Refusal::WrongKind`] for a file.
pub fn list(permit: &AccessPermit, node: &Node) -> Result<Listing, Refusal> {
    node.covered(permit, AccessMask::LIST)?;
    listing(node)
}

/// Does the same as [`list`], but does not check the permit.
pub(crate) fn listing(node: &Node) -> Result<Listing, Refusal> {
    node.needs(NodeKind::Directory, "listing")?;
    Ok(Listing {
        directory: node.clone(),
        watched: None,
        reading: Reading::begin(),
        names: Held::new(Names::default()),
        given: 0,
        last_event: 0,
        unreadable: 0,
        unspelled: 0,
    })
}

impl Listing {
    /// The next entries, at least one and at most `at_most`. The result is empty at the end. From Linux 5.8 on, no entry is opened, and no ACL is
    /// read, because the memo of door 4 may already contain the rights for the entry's `Version`. Links, special files, mounts and names that no
    /// request can contain are left out. Entries that were removed after their names were read are left out, too. Exception: if an entry is returned
    /// without metadata, it may be a mount, or it may have been removed. In both cases, [`Listing::describe`] returns false.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the rest of the directory cannot be read, or the process has no descriptors left.
    pub fn next_batch(&mut self, at_most: usize, at: LookedAt<'_>) -> Result<Vec<Entry>, Refusal> {
        self.batch(at_most, at, |listing, named, batch| {
            if let Some(subject) = listing.watched(named, at) {
                batch.push(Entry { name: Word::new(named.name), meta: None, subject });
                return Ok(());
            }
            match stat_entry(listing.directory.fd(), named.name) {
                // A kernel before 5.8 does not report whether the entry is a mount. In this case a mount is detected when the entry is opened.
                Ok(found) if !found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
                    batch.extend(listing.look(Word::new(named.name), at)?);
                }
                Ok(found) => {
                    if let Some(meta) = served(&found) {
                        let subject = meta.subject(listing.version(&meta, at), StoredAcl::Unread);
                        batch.push(Entry { name: Word::new(named.name), meta: Some(meta), subject });
                    }
                }
                Err(errno) => listing.unreadable += u64::from(!is_absent(errno)),
            }
            Ok(())
        })
    }

    /// Reads all names, and keeps the first `at_most` names that come after `after` in the order of [`Rank`]. The next batches contain only the kept
    /// names, in their order. Returns the place of the last kept name if further names follow. The entries of the names that are not kept are not
    /// examined.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory cannot be read.
    pub fn in_order(
        &mut self,
        at_most: usize,
        after: Option<&Rank>,
        at: LookedAt<'_>,
    ) -> Result<Option<Rank>, Refusal> {
        self.reading = Reading::begin();
        // All names are read after this point. So if the kernel reports a change of an entry after this point, the listing notices the change.
        self.note_events(at);
        let mut first = FirstNames::new(at_most, after);
        while !self.reading.is_over() {
            let names = self.reading.go_on(&self.directory, at)?;
            names.some(0..names.len()).for_each(|named| first.push(self.with_kind(named)));
        }
        let (names, last) = first.finish();
        (self.names, self.given) = (Held::new(names), 0);
        Ok(last)
    }

    /// The entry with its kind. Some file systems do not report the kind in a listing, so the kind is read from the entry.
    fn with_kind<'n>(&self, named: Named<'n>) -> Named<'n> {
        let kind = match named.kind {
            FileType::Unknown => stat_entry(self.directory.fd(), named.name)
                .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.stx_mode.into())),
            kind => kind,
        };
        Named { kind, ..named }
    }

    /// All entries of a listing that has just begun. Returns the entries only if there are at most `at_most` entries, and if the kernel need not wait
    /// for the disk. Otherwise the caller must call [`Listing::next_batch`].
    pub fn all_cached(&mut self, at_most: usize, at: LookedAt<'_>) -> Cached<Vec<Entry>> {
        self.note_events(at);
        let Some(names) = self.reading.all_known(&self.directory, at_most, at) else {
            return Cached::WouldWait;
        };
        at.watch.into_iter().for_each(Watch::drain);
        let each = names.some(0..names.len()).map(|named| match self.watched(named, at) {
            Some(subject) => Some(Entry { name: Word::new(named.name), meta: None, subject }),
            None => self.entry_cached(named.name, at),
        });
        each.collect::<Option<_>>().into()
    }

    /// An entry, if the kernel has it in memory.
    fn entry_cached(&self, name: &str, at: LookedAt<'_>) -> Option<Entry> {
        let meta = self.directory.stat_cached(name)?;
        let subject = meta.subject(self.version(&meta, at), StoredAcl::Unread);
        Some(Entry { name: Word::new(name), meta: Some(meta), subject })
    }

    /// The description of an entry for door 4. `None` if the kernel does not report changes, if the entry may have changed since the names were read,
    /// or if the kind of the entry is not known.
    fn watched(&self, named: Named<'_>, at: LookedAt<'_>) -> Option<Subject> {
        let watch = at.watch?;
        if !watch.is_quiet(named.inode, self.last_event) {
            // The name may belong to another object now.
            return None;
        }
        let kind = match named.kind {
            FileType::RegularFile => NodeKind::File,
            FileType::Directory => NodeKind::Directory,
            _ => return None,
        };
        let version = watch.version(self.directory.acls(), self.watched??, named.inode);
        let object = ObjectId { inode: named.inode, ..self.directory.object() };
        // Door 4 does not use owner, group and mode of a subject with `Version::Watched`.
        let (uid, gid, mode) = (u32::MAX, u32::MAX, 0);
        Some(Subject { object, kind, uid, gid, mode, version: Some(version), acl: StoredAcl::Unread })
    }

    /// Reads ACLs by name, for entries without metadata. Opening the entries would take twice as long as reading the ACLs by name. If no change of an
    /// entry was reported, its name still leads to the object that was listed. If a change was reported, the ACL of the entry stays unread. An entry
    /// without an ACL stays unread, too, because its mode is not known.
    pub fn read_by_name<'e>(&self, entries: impl Iterator<Item = &'e mut Entry>, at: LookedAt<'_>) {
        let (Some(watch), Some(Some(file_system))) = (at.watch, self.watched) else { return };
        let acls = self.directory.acls();
        // Door 4 judges an nfs4 ACL together with the owner of the file, and the owner was not read.
        if acls != AclDialect::Ntacl || !watch.reports_mounts() {
            return;
        }
        let mut read = Vec::new();
        let mut room = [0; USUAL_BYTES];
        for entry in entries.filter(|entry| entry.meta.is_none() && entry.subject.acl == StoredAcl::Unread) {
            match stored_by_name(self.directory.fd(), &entry.name, &mut room) {
                Ok(Some(blob)) => {
                    entry.subject.acl = StoredAcl::Ntacl(blob);
                    read.push(entry);
                }
                Ok(None) => {}
                // The system call `getxattrat` does not exist before Linux 6.13.
                Err(Errno::NOSYS) => break,
                Err(_) => {}
            }
        }
        watch.drain();
        for entry in read {
            if Some(watch.version(acls, file_system, entry.subject.object.inode)) != entry.subject.version {
                entry.subject.acl = StoredAcl::Unread;
            }
        }
    }

    /// Reads the metadata of an entry, if only its directory was read so far. Returns whether the entry still is the object that door 4 judged. With
    /// [`CachedOnly`](crate::CachedOnly) the result is also false if the kernel would have to wait for a disk.
    pub fn describe<P: Patience>(&self, entry: &mut Entry, _: P) -> bool {
        if entry.meta.is_none() {
            let found = match P::MAY_WAIT {
                true => stat_entry(self.directory.fd(), &entry.name).ok().and_then(|found| served(&found)),
                false => self.directory.stat_cached(&entry.name),
            };
            entry.meta = found.filter(|meta| is_the_same(meta, &entry.subject));
        }
        entry.meta.is_some()
    }

    /// The present metadata of the entry, and its ACL. Both are read from one descriptor. `None` if the name no longer leads to a file or directory
    /// that can be served, or if the entry cannot be opened.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the process has no descriptors left.
    pub fn look(&mut self, name: Word, at: LookedAt<'_>) -> Result<Option<Entry>, Refusal> {
        let Some(node) = self.open(&name)? else { return Ok(None) };
        let meta = node.meta().clone();
        // The object's version is read before its ACL. If the ACL changes between the two reads, the object has another version afterwards.
        let version = self.version(&meta, at);
        let subject = Subject { version, ..node.subject() };
        Ok(Some(Entry { name, meta: Some(meta), subject }))
    }

    /// As [`Listing::next_batch`], but if the metadata of an entry has to be read, the entry is opened with [`Listing::look`], which also reads the
    /// ACL of the entry.
    ///
    /// # Refuses
    /// As [`Listing::next_batch`].
    pub fn next_looked(&mut self, at_most: usize, at: LookedAt<'_>) -> Result<Vec<Entry>, Refusal> {
        self.batch(at_most, at, |listing, named, batch| {
            let name = Word::new(named.name);
            match listing.watched(named, at) {
                Some(subject) => batch.push(Entry { name, meta: None, subject }),
                None => batch.extend(listing.look(name, at)?),
            }
            Ok(())
        })
    }

    /// Calls `look` for `at_most` names at a time until at least one entry is found. An empty result means the end of the directory.
    fn batch<E>(
        &mut self,
        at_most: usize,
        at: LookedAt<'_>,
        mut look: impl FnMut(&mut Self, Named<'_>, &mut Vec<E>) -> Result<(), Refusal>,
    ) -> Result<Vec<E>, Refusal> {
        let mut batch = Vec::new();
        while batch.is_empty() && !self.is_over(at)? {
            // The events are read after the names. If an inode number was reused before the names were read, the events now include this change.
            at.watch.into_iter().for_each(Watch::drain);
            let names = self.names.clone();
            let places = self.given..names.len().min(self.given.saturating_add(at_most.max(1)));
            self.given = places.end;
            batch.reserve(places.len());
            names.some(places).try_for_each(|named| look(self, named, &mut batch))?;
        }
        Ok(batch)
    }

    /// The version of an entry. As long as the version stays the same, the ACL stays the same. `None` if a change of the ACL might not change the
    /// version.
    fn version(&self, meta: &Meta, at: LookedAt<'_>) -> Option<Version> {
        if let (Some(watch), Some(Some(file_system))) = (at.watch, self.watched) {
            return Some(watch.version(self.directory.acls(), file_system, meta.object.inode));
        }
        let file_system = self.directory.stamping()?;
        let acls = self.directory.acls();
        at.can_tell_from_later(meta.changed).then_some(Version::Stamped {
            acls,
            file_system,
            clock: at.clock,
            changed: meta.changed,
        })
    }

    /// Whether no further names follow. If names follow, it is possible that all their entries are left out.
    ///
    /// # Refuses
    /// As [`Listing::next_batch`].
    pub fn is_over(&mut self, at: LookedAt<'_>) -> Result<bool, Refusal> {
        while self.given == self.names.len() && !self.reading.is_over() {
            self.note_events(at);
            self.names = self.reading.go_on(&self.directory, at)?;
            self.unspelled += self.names.not_shown();
            self.given = 0;
        }
        Ok(self.given == self.names.len())
    }

    /// Notes the number of the last event. The caller reads the names afterwards.
    fn note_events(&mut self, at: LookedAt<'_>) {
        let Some(watch) = at.watch else { return };
        let follow = || self.directory.mount().filter(|mount| watch.follow(*mount, self.directory.fd()));
        self.watched = Some(self.watched.unwrap_or_else(follow));
        watch.drain();
        self.last_event = watch.last_event();
    }

    /// How many entries were left out because they could not be examined or opened.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Calls `see` for each file and directory that was left out because no path can contain its name. `see` gets the name, and the description for
    /// door 4.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory or one of these objects cannot be read, and the refusals of `see`.
    pub fn each_unspelled<E: From<Refusal>>(
        &self,
        mut see: impl FnMut(&[u8], &Subject) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.unspelled == 0 {
            return Ok(());
        }
        let mut seen = Ok(());
        any_entry(&self.directory, |name, _| {
            if !can_be_shown(name) {
                let opened = self.open_unspelled(name).map_err(E::from);
                seen = opened.and_then(|node| node.map_or(Ok(()), |node| see(name, &node.subject())));
            }
            seen.is_err()
        })?;
        seen
    }

    fn open_unspelled(&self, name: &[u8]) -> Result<Option<Node>, Refusal> {
        let (directory, said) = (self.directory.fd(), String::from_utf8_lossy(name));
        let checked = is_served(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT);
        let opened = checked.and_then(|()| open_beneath(directory, name, NODE_FLAGS, Mode::empty()));
        match opened {
            Ok(file) => self.directory.describe_beneath(file, &said).map(Some),
            Err(errno) if is_absent(errno) || is_special(errno) => Ok(None),
            Err(errno) => Err(Refusal::io(errno, "opening", &said)),
        }
    }

    fn open(&mut self, name: &str) -> Result<Option<Node>, Refusal> {
        let file = match open_beneath(self.directory.fd(), name, NODE_FLAGS, Mode::empty()) {
            Ok(file) => file,
            Err(errno) if is_absent(errno) || is_special(errno) => return Ok(None),
            // The entry did not cause this error. The process or the machine has no resources left, so the next entries would fail as well.
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                return Err(Refusal::io(errno, "opening", name));
            }
            Err(_) => {
                self.unreadable += 1;
                return Ok(None);
            }
        };
        match self.directory.describe_beneath(file, name) {
            Ok(node) => Ok(Some(node)),
            Err(Refusal::Special(_)) => Ok(None),
            Err(_) => {
                self.unreadable += 1;
                Ok(None)
            }
        }
    }
}

/// Whether this metadata belongs to the object that door 4 judged.
fn is_the_same(meta: &Meta, judged: &Subject) -> bool {
    (meta.object, meta.kind) == (judged.object, judged.kind)
}

/// Converts the metadata of an entry from the kernel; `None` for a mount, and for a kind that is never served.
fn served(found: &Statx) -> Option<Meta> {
    let is_mount = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Meta::of(found).filter(|_| !is_mount)
}

/// Whether no name was read from the kernel so far.
#[cfg(test)]
pub(crate) fn is_from_memory(listing: &Listing) -> bool {
    listing.reading.is_at_its_beginning()
}

/// How many names the listing holds in memory now.
#[cfg(test)]
pub(crate) fn names_held(listing: &Listing) -> usize {
    listing.names.len()
}

/// Whether a directory has any entry except `lost+found`. Entries that are never served count, too.
pub(crate) fn anything_in(node: &Node) -> Result<bool, Refusal> {
    any_entry(node, |name, _| name != b"lost+found")
}

/// Whether `is_one` returns true for at least one entry of a directory.
pub(crate) fn any_entry(
    node: &Node,
    mut is_one: impl FnMut(&[u8], FileType) -> bool,
) -> Result<bool, Refusal> {
    let (cursor, mut found) = (reopened(node)?, false);
    let read = each_entry(cursor.as_fd(), |name, kind| {
        found = is_one(name.to_bytes(), kind);
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.map(|()| found).map_err(|errno| Refusal::io(errno, "listing", &node.label()))
}
