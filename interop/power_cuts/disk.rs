//! The possible states of a disk after a power cut: files and names as at the last sync, with any part of the later operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// The id of a file or directory. The recorded root directory has the id 0.
pub(crate) type Id = usize;

/// A disk writes a block of this many bytes completely or not at all.
const SECTOR: usize = 512;

/// A name in a directory, and the file or directory that has the name before and after an operation.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    pub(crate) directory: Id,
    pub(crate) name: String,
    pub(crate) before: Option<Id>,
    pub(crate) after: Option<Id>,
}

/// An operation of a program on files.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A file or directory is created. The next operation gives it a name.
    Make {
        id: Id,
        is_directory: bool,
        mode: u32,
    },
    /// Several names are set at the same time.
    Name(Vec<Naming>),
    Write {
        id: Id,
        at: usize,
        bytes: Arc<[u8]>,
    },
    Truncate {
        id: Id,
        length: usize,
    },
    Mode {
        id: Id,
        mode: u32,
    },
    Attribute {
        id: Id,
        name: String,
        value: Option<Vec<u8>>,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Op(Op),
    /// The last write to this file is on the disk (`O_DSYNC`).
    Flushed(Id),
    /// `fsync`, or `fdatasync`, which does not sync mode and attributes.
    Sync {
        id: Id,
        is_data_only: bool,
    },
    /// `sync` and `syncfs`.
    SyncAll,
    /// The first bytes that were sent to a client.
    Sent(Vec<u8>),
}

/// The guarantees of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// Only the guarantees of POSIX: a sync covers one file or directory, and names without a sync reach the disk in any order.
    Strict,
    /// Like ext4: names, modes, attributes and truncations keep their order, and any sync writes all of them. Only a sync of a file writes the bytes
    /// of the file.
    Ordered,
}

/// The bytes of a file, and their digest, which is computed at its first use.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    digest: OnceLock<[u8; 32]>,
}

impl Clone for Content {
    fn clone(&self) -> Self {
        Content { bytes: self.bytes.clone(), digest: OnceLock::new() }
    }
}

impl Content {
    pub(crate) fn digest(&self) -> [u8; 32] {
        *self.digest.get_or_init(|| digest(&self.bytes))
    }
}

pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().try_into().unwrap()
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) is_directory: bool,
    pub(crate) mode: u32,
    pub(crate) content: Arc<Content>,
    pub(crate) attributes: Arc<BTreeMap<String, Vec<u8>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) inodes: BTreeMap<Id, Inode>,
    pub(crate) names: BTreeMap<Id, BTreeMap<String, Id>>,
}

/// The part of an operation that reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Whole,
    Gone,
    /// Only the length of the file. New bytes are zeros.
    Long,
    /// Some of the sectors, chosen by this seed.
    Torn(u64),
}

impl Disk {
    pub(crate) fn new(root_mode: u32) -> Self {
        let mut disk = Disk { inodes: BTreeMap::new(), names: BTreeMap::new() };
        disk.apply(&Op::Make { id: 0, is_directory: true, mode: root_mode }, Kept::Whole);
        disk
    }

    /// Applies an event completely, as the page cache shows it.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Event::Op(op) = event {
            self.apply(op, Kept::Whole);
        }
    }

    fn apply(&mut self, op: &Op, kept: Kept) {
        if kept == Kept::Gone {
            return;
        }
        match op {
            Op::Make { id, is_directory, mode } => {
                let inode = Inode {
                    is_directory: *is_directory,
                    mode: *mode,
                    content: Arc::default(),
                    attributes: Arc::default(),
                };
                self.inodes.insert(*id, inode);
            }
            Op::Name(namings) => {
                for Naming { directory, name, after, .. } in namings {
                    let names = self.names.entry(*directory).or_default();
                    match after {
                        Some(id) => drop(names.insert(name.clone(), *id)),
                        None => drop(names.remove(name)),
                    }
                }
            }
            Op::Write { id, at, bytes } => {
                let content = &mut Arc::make_mut(&mut self.inodes.get_mut(id).unwrap().content);
                content.digest = OnceLock::new();
                write(&mut content.bytes, *at, bytes, kept);
            }
            Op::Truncate { id, length } => {
                let content = &mut Arc::make_mut(&mut self.inodes.get_mut(id).unwrap().content);
                content.digest = OnceLock::new();
                content.bytes.resize(*length, 0);
            }
            Op::Mode { id, mode } => self.inodes.get_mut(id).unwrap().mode = *mode,
            Op::Attribute { id, name, value } => {
                let attributes = Arc::make_mut(&mut self.inodes.get_mut(id).unwrap().attributes);
                match value {
                    Some(value) => drop(attributes.insert(name.clone(), value.clone())),
                    None => drop(attributes.remove(name)),
                }
            }
        }
    }

    /// Every path, with the id of its file or directory.
    pub(crate) fn paths(&self) -> BTreeMap<String, Id> {
        let (mut paths, mut left) = (BTreeMap::new(), vec![(String::new(), 0)]);
        while let Some((path, id)) = left.pop() {
            for (name, id) in self.names.get(&id).into_iter().flatten() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                // After a power cut, a directory may have two names. It is listed under both names. The limit of the depth prevents an endless loop.
                if self.inodes[id].is_directory && path.matches('/').count() < 30 {
                    left.push((path.clone(), *id));
                }
                paths.insert(path, *id);
            }
        }
        paths
    }
}

/// Writes the part of a write that reached the disk.
fn write(into: &mut Vec<u8>, at: usize, bytes: &[u8], kept: Kept) {
    let end = at + bytes.len();
    match kept {
        Kept::Gone => {}
        Kept::Long => into.resize(into.len().max(end), 0),
        Kept::Whole => {
            into.resize(into.len().max(end), 0);
            into[at..end].copy_from_slice(bytes);
        }
        Kept::Torn(seed) => {
            let mut dice = Dice(seed | 1);
            let mut from = at;
            while from < end {
                let to = ((from / SECTOR + 1) * SECTOR).min(end);
                if dice.below(2) == 0 {
                    into.resize(into.len().max(to), 0);
                    into[from..to].copy_from_slice(&bytes[from - at..to - at]);
                }
                from = to;
            }
        }
    }
}

/// Pseudo-random numbers.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.next() >> 11) as usize % most.max(1)
    }
}

/// A key for the order of operations. If two operations have the same key, the later operation is applied after the earlier operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Data(Id),
    Meta(Id),
    Name(Id, String),
}

impl Op {
    fn keys(&self) -> Vec<Key> {
        match self {
            Op::Make { .. } => Vec::new(),
            Op::Name(namings) => namings.iter().map(|n| Key::Name(n.directory, n.name.clone())).collect(),
            Op::Write { id, .. } | Op::Truncate { id, .. } => vec![Key::Data(*id)],
            Op::Mode { id, .. } | Op::Attribute { id, .. } => vec![Key::Meta(*id)],
        }
    }

    fn is_write(&self) -> bool {
        matches!(self, Op::Write { .. })
    }

    fn is_in_directory(&self, id: Id) -> bool {
        matches!(self, Op::Name(namings) if namings.iter().any(|naming| naming.directory == id))
    }

    /// The file or directory that loses a name by this operation, if the operation sets no new name. (A directory can be removed only when it is
    /// empty.)
    fn removed(&self) -> Option<Id> {
        match self {
            Op::Name(namings) if namings.iter().all(|naming| naming.after.is_none()) => {
                namings.iter().find_map(|naming| naming.before)
            }
            _ => None,
        }
    }

    /// The two halves of a rename from one directory into another: the new name, and the removal of the old name. Each half is synced with its own
    /// directory. After a power cut, the new name may exist while the old name still exists. But the old name is never missing without the new name.
    fn halves(&self) -> Option<[Op; 2]> {
        let Op::Name(namings) = self else { return None };
        let [one, other] = namings.as_slice() else { return None };
        let halves = |new: &Naming, old: &Naming| [new, old].map(|naming| Op::Name(vec![naming.clone()]));
        match (one.after, other.after) {
            _ if one.directory == other.directory => None,
            (Some(_), None) => Some(halves(one, other)),
            (None, Some(_)) => Some(halves(other, one)),
            _ => None,
        }
    }

    /// Whether this operation cannot be on the disk without the earlier operation.
    fn needs(&self, earlier: &Op) -> bool {
        let Op::Name(namings) = self else { return false };
        let has_same = |directory, name: &str| match earlier {
            Op::Name(others) => others.iter().any(|other| other.directory == directory && other.name == name),
            _ => false,
        };
        namings.iter().any(|naming| has_same(naming.directory, &naming.name))
            || self.removed().is_some_and(|id| earlier.is_in_directory(id))
    }
}

#[derive(Clone, Debug)]
struct Pending {
    op: Op,
    is_durable: bool,
    /// The number of the rename between two directories, if this operation is one half of it.
    rename: Option<usize>,
}

/// A moment at which the power may fail: the disk at this moment, and the operations that are not synced.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    model: Model,
    base: Disk,
    pending: Vec<Pending>,
    renames: usize,
}

/// Chooses one of the possible states at a moment: the operations that reached the disk although they are not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Everything,
    Nothing,
    /// All operations on names, but no other operation.
    Names,
    /// All operations except writes.
    NamesOnly,
    /// All operations, but a write sets only the new length of the file.
    NamesAndLengths,
    /// All writes, but no other operation.
    BytesOnly,
    Random(u64),
}

pub(crate) const FIXED: [Choice; 6] = [
    Choice::Nothing,
    Choice::Names,
    Choice::NamesOnly,
    Choice::NamesAndLengths,
    Choice::BytesOnly,
    Choice::Everything,
];

impl Cut {
    pub(crate) fn new(model: Model, root_mode: u32) -> Self {
        Cut { model, base: Disk::new(root_mode), pending: Vec::new(), renames: 0 }
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn advance(&mut self, event: &Event) {
        match event {
            // A file without a name cannot be found, so its creation can be applied at once.
            Event::Op(op @ Op::Make { .. }) => self.base.apply(op, Kept::Whole),
            Event::Op(op) => self.add(op),
            Event::Flushed(id) => {
                let is_it =
                    |pending: &&mut Pending| matches!(&pending.op, Op::Write { id: of, .. } if of == id);
                if let Some(pending) = self.pending.iter_mut().rev().find(is_it) {
                    pending.is_durable = true;
                }
                self.fold();
            }
            Event::Sync { id, is_data_only } => {
                for pending in &mut self.pending {
                    let is_of_it = match &pending.op {
                        Op::Write { id: of, .. } | Op::Truncate { id: of, .. } => of == id,
                        Op::Mode { id: of, .. } | Op::Attribute { id: of, .. } => of == id && !is_data_only,
                        op => op.is_in_directory(*id),
                    };
                    pending.is_durable |= is_of_it || self.model == Model::Ordered && !pending.op.is_write();
                }
                self.fold();
            }
            Event::SyncAll => {
                self.pending.iter_mut().for_each(|pending| pending.is_durable = true);
                self.fold();
            }
            Event::Sent(_) => {}
        }
    }

    fn add(&mut self, op: &Op) {
        let whole = |op| Pending { op, is_durable: false, rename: None };
        match op.halves().filter(|_| self.model == Model::Strict) {
            Some(halves) => {
                self.renames += 1;
                let rename = Some(self.renames);
                self.pending.extend(halves.map(|op| Pending { rename, ..whole(op) }));
            }
            None => self.pending.push(whole(op.clone())),
        }
    }

    /// Moves synced operations, and the operations that they need, from the list of pending operations to the disk.
    fn fold(&mut self) {
        let mut durable: Vec<bool> = self.pending.iter().map(|pending| pending.is_durable).collect();
        self.close(&mut durable);
        // An operation stays in the list if an earlier operation with the same key is still pending.
        let mut open = BTreeSet::new();
        let base = &mut self.base;
        let mut at = 0;
        self.pending.retain_mut(|pending| {
            pending.is_durable = durable[at];
            at += 1;
            let keys = pending.op.keys();
            let is_done = pending.is_durable && !keys.iter().any(|key| open.contains(key));
            if is_done {
                base.apply(&pending.op, Kept::Whole);
            } else {
                open.extend(keys);
            }
            !is_done
        });
    }

    /// Also marks the earlier operations that the marked operations need.
    fn close(&self, marked: &mut [bool]) {
        for at in (0..self.pending.len()).rev() {
            if marked[at] && matches!(self.pending[at].op, Op::Name(_)) {
                for (mark, earlier) in marked.iter_mut().zip(&self.pending).take(at) {
                    let is_half = earlier.rename.is_some() && earlier.rename == self.pending[at].rename;
                    *mark |= is_half || self.pending[at].op.needs(&earlier.op);
                }
            }
        }
    }

    fn choose(&self, choice: Choice) -> Vec<Kept> {
        let each = |keep: &mut dyn FnMut(usize, &Op) -> Kept| -> Vec<Kept> {
            let all = self.pending.iter().enumerate();
            all.map(|(at, pending)| if pending.is_durable { Kept::Whole } else { keep(at, &pending.op) })
                .collect()
        };
        let only_if = |is_kept: bool| if is_kept { Kept::Whole } else { Kept::Gone };
        match choice {
            Choice::Everything => each(&mut |_, _| Kept::Whole),
            Choice::Nothing => each(&mut |_, _| Kept::Gone),
            Choice::Names => each(&mut |_, op| only_if(matches!(op, Op::Name(_)))),
            Choice::NamesOnly => each(&mut |_, op| only_if(!op.is_write())),
            Choice::NamesAndLengths => {
                each(&mut |_, op| if op.is_write() { Kept::Long } else { Kept::Whole })
            }
            Choice::BytesOnly => each(&mut |_, op| only_if(op.is_write())),
            Choice::Random(seed) => {
                let mut dice = Dice(seed | 1);
                (0..4).for_each(|_| _ = dice.next());
                let tenths = [1, 5, 9][dice.below(3)];
                let mut marked: Vec<bool> = self
                    .pending
                    .iter()
                    .map(|pending| pending.is_durable || dice.below(10) < tenths)
                    .collect();
                match self.model {
                    Model::Strict => self.close(&mut marked),
                    Model::Ordered => {
                        let orderly = self.pending.iter().filter(|pending| !pending.op.is_write()).count();
                        let mut left = dice.below(orderly + 1);
                        for (marked, pending) in marked.iter_mut().zip(&self.pending) {
                            if !pending.op.is_write() {
                                *marked = pending.is_durable || left > 0;
                                left = left.saturating_sub(1);
                            }
                        }
                    }
                }
                each(&mut |at, op| match (marked[at], op.is_write(), dice.below(3)) {
                    (true, true, 0) => Kept::Torn(dice.next()),
                    (true, ..) => Kept::Whole,
                    (false, true, 0) => Kept::Long,
                    (false, ..) => Kept::Gone,
                })
            }
        }
    }

    /// One of the disks that may exist after a power cut at this moment.
    pub(crate) fn disk(&self, choice: Choice) -> Disk {
        let mut disk = self.base.clone();
        for (pending, kept) in self.pending.iter().zip(self.choose(choice)) {
            disk.apply(&pending.op, kept);
        }
        disk
    }
}
