//! Items that the server keeps for users: items of the trash (`trash.rs`), and unfinished uploads (`kept_upload.rs`). For each kind of item, the
//! server makes a directory in the root of a datastore. No request can contain the name of such a directory.
//!
//! ```text
//! .enfilade-KIND / USER / TIME and a random number / record   what the item is
//!                                                  / …        the object
//! ```
//!
//! The directory of an item gets its name when its record is on the disk. Until then, the directory has a reserved name. If the process ends before
//! the directory gets its name, the directory is removed as an abandoned object.

use crate::abandoned::remove_if_abandoned;
use crate::beneath::{NODE_FLAGS, open_beneath};
use crate::emptying::empty_while;
use crate::names::{each_entry, reopened, reserved};
use crate::node::Node;
use crate::patience::Blocking;
use crate::refuse::Refusal;
use crate::root::Root;
use crate::temporary::{Temporary, lock};
use enfilade_facts::limits::PATH_BYTES_MAX;
use enfilade_facts::vocabulary::{StorePath, UserId};
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, unlinkat};
use rustix::io::{self, Errno};
use std::fmt;
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::str::FromStr;

const RECORD: &str = "record";
/// The maximum size of a record, in bytes. This is enough for a path, the name of a user or token, and some numbers.
const RECORD_BYTES_MAX: u64 = PATH_BYTES_MAX as u64 + 1024;
/// The maximum number of items of one user that one run of [`expire`] removes. The leftovers of interrupted removals count, too. The ids and names of
/// this many items and leftovers take less than 1 MiB of memory.
const EXPIRED_AT_ONCE: usize = 10_000;

/// The id of an item. Ids are ordered by the second in which the items were made. Items that were made in the same second have no particular order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemId {
    /// When the item was made, in seconds since the epoch.
    pub seconds: u64,
    random: u64,
    /// The user who owns the item.
    pub user: UserId,
}

impl ItemId {
    /// The id without the user: the name of the item's directory in the directory of the user.
    pub fn name(self) -> String {
        format!("{:016x}{:016x}", self.seconds, self.random)
    }

    /// The id of the user's item with this name; `None` if the text is not the name of an item.
    pub fn of_name(user: UserId, name: &str) -> Option<Self> {
        let is_hex = name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let (seconds, random) = name.split_at_checked(16).filter(|_| is_hex)?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(ItemId { seconds: number(seconds)?, random: number(random)?, user })
    }

    fn new(user: UserId, seconds: i64) -> Result<Self, Refusal> {
        let random = getrandom::u64().map_err(|error| Refusal::Io {
            what: "asking for random bytes".to_owned(),
            errno: error.to_string(),
        })?;
        Ok(ItemId { seconds: u64::try_from(seconds).unwrap_or(0), random, user })
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.user, self.name())
    }
}

impl FromStr for ItemId {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (user, name) = text.split_once('-').ok_or(())?;
        ItemId::of_name(user.parse().map_err(|_| ())?, name).ok_or(())
    }
}

/// The directory of an item.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: ItemId,
    /// The directory of the user.
    of_user: Node,
    /// The directory of the item.
    pub(crate) directory: Node,
}

impl Place {
    /// Makes the directory of a new item, and writes the record of the item into this directory. Syncs the directory and the record. `top` is the
    /// name of the directory for items of this kind. `fill` adds further files before the directory gets its name.
    pub(crate) fn make(
        (root, top): (&Root, &str),
        (user, seconds): (UserId, i64),
        record: &[u8],
        fill: impl FnOnce(&Node) -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let all = ensure_directory(&root.find(&StorePath::root(), Blocking)?, top)?;
        let of_user = ensure_directory(&all, &user.to_string())?;
        let (mut temporary, directory) = Temporary::directory(&of_user)?;
        refuse_foreign((&all, top), &directory)?;
        let filled = write_record(&directory, record).and_then(|()| fill(&directory));
        if let Err(why) = filled.and_then(|()| directory.sync()) {
            // If the directory cannot be removed now, it is removed later as an abandoned object, because it has a reserved name.
            let _ = empty_while(directory.fd(), &|| true);
            return Err(why);
        }
        let id = ItemId::new(user, seconds)?;
        {
            let _turn = of_user.turn().take();
            temporary.become_new(&id.name())?;
        }
        of_user.sync()?;
        Ok(Place { id, of_user, directory })
    }

    /// The directory of an item; `None` if there is no such item.
    pub(crate) fn find((root, top): (&Root, &str), id: ItemId) -> Result<Option<Self>, Refusal> {
        let Some(all) = directory_of(root, top)? else { return Ok(None) };
        let Some(of_user) = open_directory(&all, &id.user.to_string())? else { return Ok(None) };
        let found = open_directory(&of_user, &id.name())?;
        Ok(found.map(|directory| Place { id, of_user, directory }))
    }

    /// The bytes of the record; `None` if there is no record.
    pub(crate) fn record(&self) -> Result<Option<Vec<u8>>, Refusal> {
        let file = match open_beneath(self.directory.fd(), RECORD, NODE_FLAGS, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Refusal::io(errno, "reading the item's file", RECORD)),
        };
        let mut bytes = Vec::new();
        let read = std::fs::File::from(file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|why| {
            Refusal::io(Errno::from_io_error(&why).unwrap_or(Errno::IO), "reading the item's file", RECORD)
        })?;
        Ok(Some(bytes))
    }

    /// Refuses if the item was removed. The caller must hold the mutex for name changes.
    pub(crate) fn still_there(&self) -> Result<(), Refusal> {
        self.of_user.still_is(&self.id.name(), &self.directory)
    }

    /// Removes the record and the directory of an item. The object of the item must not be in the directory: the caller has already moved the object
    /// out, or has never moved it in.
    pub(crate) fn forget(&self) -> Result<(), Refusal> {
        let name = self.id.name();
        let refuse = |errno| Refusal::io(errno, "removing the item", &name);
        match io::retry_on_intr(|| unlinkat(self.directory.fd(), RECORD, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(refuse(errno)),
        }
        io::retry_on_intr(|| unlinkat(self.of_user.fd(), name.as_str(), AtFlags::REMOVEDIR))
            .map_err(refuse)?;
        self.of_user.sync()
    }

    /// Removes an item with everything in it. The item loses its name at once. The removal of its members stops when `keep_going` returns false. The
    /// remaining members are then in a directory with a reserved name, and are removed later. `keep_going` is called before each member.
    pub(crate) fn remove(&self, keep_going: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let name = self.id.name();
        lock(&self.directory);
        let mut temporary = {
            let _turn = self.of_user.turn().take();
            self.still_there()?;
            Temporary::take_over(&self.of_user, &name, &self.directory)?
        };
        self.of_user.sync()?;
        match empty_while(self.directory.fd(), keep_going) {
            Ok(()) => {}
            Err(Errno::CANCELED) => temporary.keep(),
            Err(errno) => {
                temporary.keep();
                return Err(Refusal::io(errno, "removing the item", &name));
            }
        }
        Ok(())
    }
}

fn write_record(directory: &Node, record: &[u8]) -> Result<(), Refusal> {
    let refuse = |errno| Refusal::io(errno, "writing the item's file", RECORD);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open_beneath(directory.fd(), RECORD, flags, Mode::RUSR | Mode::WUSR).map_err(refuse)?;
    let mut file = std::fs::File::from(file);
    let written = file.write_all(record).and_then(|()| file.sync_all());
    written.map_err(|why| refuse(Errno::from_io_error(&why).unwrap_or(Errno::IO)))
}

/// The ids of the items of a user, or of all users. At most `most` ids are returned, in the order from the newest to the oldest; the second returned
/// value says whether there are more items. If there are more items, the returned ids are those that the file system listed first, and not the newest
/// ids.
pub(crate) fn ids(
    (root, top): (&Root, &str),
    user: Option<UserId>,
    most: usize,
) -> Result<(Vec<ItemId>, bool), Refusal> {
    let Some(all) = directory_of(root, top)? else { return Ok((Vec::new(), false)) };
    let users = match user {
        Some(user) => vec![user],
        None => users(&all)?,
    };
    let (mut ids, mut is_cut) = (Vec::new(), false);
    for user in users {
        let Some(of_user) = open_directory(&all, &user.to_string())? else { continue };
        each_name(&of_user, |name| {
            ids.extend(ItemId::of_name(user, name));
            is_cut = ids.len() > most;
            if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if is_cut {
            break;
        }
    }
    ids.truncate(most);
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok((ids, is_cut))
}

/// Removes the items that were made before `before` (seconds since the epoch), and the leftovers of interrupted removals. `now` is the present time
/// in seconds. Stops when `keep_going` returns false; `keep_going` is called before each removal. Returns the number of removed items.
pub(crate) fn expire(
    (root, top): (&Root, &str),
    (before, now): (u64, i64),
    keep_going: &dyn Fn() -> bool,
) -> Result<u64, Refusal> {
    let Some(all) = directory_of(root, top)? else { return Ok(0) };
    let mut removed = 0;
    for user in users(&all)? {
        let Some(of_user) = open_directory(&all, &user.to_string())? else { continue };
        let (mut old, mut rests) = (Vec::new(), Vec::new());
        each_name(&of_user, |name| {
            match ItemId::of_name(user, name) {
                Some(id) if id.seconds < before => old.push(id),
                None if reserved(name) => rests.push(name.to_owned()),
                Some(_) | None => {}
            }
            // If a directory is large, at most `EXPIRED_AT_ONCE` of its names are kept in memory. The next run removes further items.
            let is_enough = old.len() + rests.len() >= EXPIRED_AT_ONCE;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        for name in rests.iter().take_while(|_| keep_going()) {
            // An error means that the object was removed already, or that a member cannot be removed. The next run tries again.
            let _ = remove_if_abandoned(of_user.fd(), name, now, keep_going);
        }
        for id in old {
            if !keep_going() {
                return Ok(removed);
            }
            let Some(directory) = open_directory(&of_user, &id.name())? else { continue };
            let place = Place { id, of_user: of_user.clone(), directory };
            removed += u64::from(place.remove(keep_going).is_ok());
        }
    }
    Ok(removed)
}

fn directory_of(root: &Root, top: &str) -> Result<Option<Node>, Refusal> {
    open_directory(&root.find(&StorePath::root(), Blocking)?, top)
}

/// Opens a directory; `None` if it does not exist.
fn open_directory(above: &Node, name: &str) -> Result<Option<Node>, Refusal> {
    match open_beneath(above.fd(), name, NODE_FLAGS | OFlags::DIRECTORY, Mode::empty()) {
        Ok(opened) => above.describe_beneath(opened, name).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Refusal::io(errno, "opening the server's directory", name)),
    }
}

/// Opens a directory. If the directory does not exist, this function makes a directory that only the user of this process can enter.
fn ensure_directory(above: &Node, name: &str) -> Result<Node, Refusal> {
    if let Some(found) = open_directory(above, name)? {
        return Ok(found);
    }
    match io::retry_on_intr(|| mkdirat(above.fd(), name, Mode::RWXU)) {
        Ok(()) | Err(Errno::EXIST) => above.sync()?,
        Err(errno) => return Err(Refusal::io(errno, "making the server's directory", name)),
    }
    open_directory(above, name)?.ok_or_else(|| Refusal::ChangedMeanwhile(name.to_owned()))
}

/// Refuses the directory `top` if the server did not make it: another user of this machine may have made `top` earlier. `own` is a directory that the
/// server has just made; the owner of `top` must be the owner of `own`, and only the owner may have rights on `top`.
fn refuse_foreign((all, top): (&Node, &str), own: &Node) -> Result<(), Refusal> {
    let is_own = all.meta().uid == own.meta().uid && all.meta().mode & 0o077 == 0;
    is_own.then_some(()).ok_or_else(|| Refusal::Io {
        what: format!("using the directory `{top}` in the root of the datastore"),
        errno: "the directory belongs to another Linux user, or other Linux users may enter it; expected a directory that only the Linux user that runs the server may enter. If only the server wrote into the directory, correct its owner and mode (`chown`, `chmod 700`); otherwise move the directory away"
            .to_owned(),
    })
}

/// The users who have a directory in `all`.
fn users(all: &Node) -> Result<Vec<UserId>, Refusal> {
    let mut users: Vec<UserId> = Vec::new();
    each_name(all, |name| {
        users.extend(name.parse::<UserId>());
        ControlFlow::Continue(())
    })?;
    Ok(users)
}

fn each_name(directory: &Node, mut see: impl FnMut(&str) -> ControlFlow<()>) -> Result<(), Refusal> {
    let cursor = reopened(directory)?;
    let read = each_entry(cursor.as_fd(), |name, _| match name.to_str() {
        Ok(name) => see(name),
        Err(_) => ControlFlow::Continue(()),
    });
    read.map_err(|errno| Refusal::io(errno, "listing", &directory.label()))
}
