//! The tree walk, which visits every member of a directory tree. The server uses tree walks for COPY, MOVE, DELETE, locks on trees, the propagation
//! of ACLs, reviews and the count of the bytes for a quota.
//!
//! A tree walk yields each member of a directory once, and then the end of the directory. A tree walk enters a directory only if the caller passes
//! the permit to list the directory, or acts for the operator or for the server itself. A [`TreeBudget`] bounds the time, and ends the tree walk when
//! the client has disconnected. The caller counts the entries in the budget.
//!
//! Three other functions read directory trees without a tree walk. PROPFIND with `Depth: infinity` opens no member, judges the members in batches,
//! and keeps one directory open between two parts of its answer (`passage/src/listing.rs`). `emptying.rs` empties a temporary directory, and
//! `abandoned.rs` removes the temporary objects of killed processes. `emptying.rs` and `abandoned.rs` need names that no tree walk yields: reserved
//! names, and names that no path can contain.

use crate::list::{Listing, list, listing};
use crate::names::LookedAt;
use crate::node::Node;
use crate::refuse::Refusal;
use crate::tree_budget::TreeBudget;
use enfilade_access::{AccessPermit, NodeKind, PropagationPermit};
use enfilade_facts::vocabulary::{StorePath, Word};
use std::collections::VecDeque;
use std::fmt::Display;
use std::rc::Rc;

/// How many entries are read from a directory at once.
const BATCH: usize = 1024;

/// The type of the paths in a tree walk.
pub trait TreePath: Clone + Display {
    /// The path of an entry of this directory; `None` if the path exceeds the limit for paths.
    fn of_entry(&self, name: &str) -> Option<Self>;
}

impl TreePath for StorePath {
    fn of_entry(&self, name: &str) -> Option<Self> {
        self.join(name).ok()
    }
}

/// A path as text, for the operator of the machine. Such a path may be longer than the paths of requests.
impl TreePath for String {
    fn of_entry(&self, name: &str) -> Option<Self> {
        Some(if self.is_empty() { name.to_owned() } else { format!("{self}/{name}") })
    }
}

/// A directory that a tree walk entered.
#[derive(Debug)]
pub struct Directory<P, C> {
    /// The path.
    pub path: P,
    /// The open object.
    pub node: Node,
    /// The caller's value for this directory.
    pub carried: C,
}

/// A directory, and a result of the tree walk in this directory.
pub type In<P, C, M> = (Rc<Directory<P, C>>, M);

/// A file or directory in a directory.
#[derive(Debug)]
pub struct Member<P> {
    /// The path.
    pub path: P,
    /// The member's name in its directory.
    pub name: Word,
    /// The open object.
    pub node: Node,
}

/// A result that a tree walk yields for a directory.
#[derive(Debug)]
pub enum Met<P> {
    /// A file, or a directory that may be entered.
    Member(Member<P>),
    /// An entry with a path that exceeds the limit for paths.
    TooLong(Word),
    /// An entry that is never served: a link, a mount, a pipe, a socket or a device.
    Unserved,
    /// Something failed.
    Failed {
        /// The step that failed. The step determines how the tree walk goes on.
        what: Failed,
        /// The path of the entry or directory that failed.
        path: P,
        /// The reason.
        why: Refusal,
    },
    /// The end of the directory: the tree walk has yielded every entry. Entries with names that no path can contain were left out;
    /// [`Listing::each_unspelled`] visits these entries.
    Leave(Listing),
}

/// The step of a tree walk that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// An entry cannot be opened. The tree walk goes on with the next entry. Door 4 did not judge whether the caller may see the path of the entry.
    Entry,
    /// The directory cannot be read to its end. The tree walk goes on in the directory above.
    Directory,
    /// The budget is used up at this member. The tree walk ends.
    Budget,
}

/// A member of a directory; the member was not opened.
#[derive(Debug)]
pub struct Unopened {
    /// The name in the directory.
    pub name: Word,
    /// Whether the member is a file or a directory.
    pub kind: NodeKind,
    /// The size of a file.
    pub bytes: u64,
}

struct Level<P, C> {
    directory: Rc<Directory<P, C>>,
    listing: Listing,
    entries: VecDeque<Unopened>,
}

/// A tree walk. Each directory has a path, and a value `C` of the caller.
pub struct TreeWalk<'b, P, C> {
    levels: Vec<Level<P, C>>,
    budget: &'b TreeBudget<'b>,
}

impl<'b, P: TreePath, C> TreeWalk<'b, P, C> {
    /// A new tree walk, which has not entered any directory. The caller must enter a directory next ([`TreeWalk::enter`],
    /// [`TreeWalk::enter_as_operator`]).
    pub fn begin(budget: &'b TreeBudget<'b>) -> Self {
        TreeWalk { levels: Vec::new(), budget }
    }

    /// Enters a directory: the next results are its entries.
    ///
    /// # Refuses
    /// [`Refusal::NotCovered`] if the permit does not grant LIST on this directory, [`Refusal::WrongKind`] for a file.
    pub fn enter(&mut self, permit: &AccessPermit, path: P, node: Node, carried: C) -> Result<(), Refusal> {
        let listing = list(permit, &node)?;
        self.push(listing, path, node, carried);
        Ok(())
    }

    /// Enters a directory without a permit: for the operator of the machine, and for the server's own tasks. The kernel checks the rights of the
    /// operator's process.
    ///
    /// # Refuses
    /// [`Refusal::WrongKind`] for a file.
    pub fn enter_as_operator(&mut self, path: P, node: Node, carried: C) -> Result<(), Refusal> {
        let listing = listing(&node)?;
        self.push(listing, path, node, carried);
        Ok(())
    }

    /// Enters a directory to change the ACLs of its members.
    pub(crate) fn enter_to_propagate(
        &mut self,
        permit: &PropagationPermit,
        path: P,
        node: Node,
        carried: C,
    ) -> Result<(), Refusal> {
        node.covered_to_propagate(permit)?;
        self.enter_as_operator(path, node, carried)
    }

    fn push(&mut self, listing: Listing, path: P, node: Node, carried: C) {
        let directory = Rc::new(Directory { path, node, carried });
        self.levels.push(Level { directory, listing, entries: VecDeque::new() });
    }

    /// The directory to which the next result belongs.
    pub fn directory(&self) -> Option<&Directory<P, C>> {
        self.levels.last().map(|level| &*level.directory)
    }

    /// Sorts the entries of the directory that was entered last: the tree walk yields these entries in the order of their names. To sort them, the
    /// tree walk reads all names of that directory into memory.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory cannot be read.
    pub fn sort(&mut self) -> Result<(), Refusal> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        while level.read_on()? {}
        level.entries.make_contiguous().sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// The next result of the tree walk, and the directory of this result. `None` at the end of the tree walk.
    #[expect(clippy::should_implement_trait, reason = "an `Iterator` has no method to enter a directory")]
    pub fn next(&mut self) -> Option<In<P, C, Met<P>>> {
        loop {
            let level = self.levels.last_mut()?;
            let directory = Rc::clone(&level.directory);
            let entry = match level.next_or_unlisted() {
                Ok(Some(entry)) => entry,
                Ok(None) => return self.levels.pop().map(|level| (directory, Met::Leave(level.listing))),
                Err(why) => {
                    self.levels.pop();
                    let path = directory.path.clone();
                    return Some((directory, Met::Failed { what: Failed::Directory, path, why }));
                }
            };
            let name = entry.name;
            let Some(path) = directory.path.of_entry(&name) else {
                return Some((directory, Met::TooLong(name)));
            };
            let met = match directory.node.child(&name) {
                Ok(node) => match self.budget.check() {
                    Ok(()) => Met::Member(Member { path, name, node }),
                    Err(why) => {
                        self.levels.clear();
                        Met::Failed { what: Failed::Budget, path, why }
                    }
                },
                // The entry was removed after its name was read.
                Err(Refusal::Absent(_)) => continue,
                Err(Refusal::Special(_)) => Met::Unserved,
                Err(why) => Met::Failed { what: Failed::Entry, path, why },
            };
            return Some((directory, met));
        }
    }

    /// The next entry and its directory; `None` at the end of the tree walk. The entry is not opened. This method returns only kinds and sizes, and
    /// makes one system call for each file. [`TreeWalk::next`] makes four system calls for each file. The budget does not limit this method.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when a directory cannot be read; the next call goes on in the same directory.
    pub fn next_unopened(&mut self) -> Result<Option<In<P, C, Unopened>>, Refusal> {
        while let Some(level) = self.levels.last_mut() {
            if let Some(entry) = level.next()? {
                return Ok(Some((Rc::clone(&level.directory), entry)));
            }
            self.levels.pop();
        }
        Ok(None)
    }

    /// Enters a directory that the tree walk did not open, for the operator or the server's own tasks. Does nothing if the directory is gone, or if
    /// its path exceeds the limit for paths.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory cannot be opened.
    pub fn enter_unopened(
        &mut self,
        directory: &Directory<P, C>,
        entry: &Unopened,
        carried: C,
    ) -> Result<(), Refusal> {
        let Some(path) = directory.path.of_entry(&entry.name) else { return Ok(()) };
        match directory.node.child(&entry.name) {
            Ok(node) if node.kind() == NodeKind::Directory => self.enter_as_operator(path, node, carried),
            Ok(_) | Err(Refusal::Absent(_) | Refusal::Special(_)) => Ok(()),
            Err(why) => Err(why),
        }
    }
}

impl<P: TreePath, C> Level<P, C> {
    /// Reads more entries; returns whether there were any.
    fn read_on(&mut self) -> Result<bool, Refusal> {
        // The default `LookedAt` has no watch, so each entry is returned with its metadata.
        let batch = self.listing.next_batch(BATCH, LookedAt::default())?;
        let is_over = batch.is_empty();
        let unopened = batch.into_iter().filter_map(|entry| {
            let meta = entry.meta?;
            Some(Unopened { name: entry.name, kind: meta.kind, bytes: meta.bytes })
        });
        self.entries.extend(unopened);
        Ok(!is_over)
    }

    fn next(&mut self) -> Result<Option<Unopened>, Refusal> {
        loop {
            match self.entries.pop_front() {
                None if self.read_on()? => {}
                entry => return Ok(entry),
            }
        }
    }

    /// The next entry. At the end of a directory, this method fails if some entries of the directory could not be examined, because a copy must not
    /// omit such entries without an error.
    fn next_or_unlisted(&mut self) -> Result<Option<Unopened>, Refusal> {
        match (self.next()?, self.listing.unreadable()) {
            (None, count @ 1..) => Err(Refusal::unlisted(&self.directory.path, count)),
            (entry, _) => Ok(entry),
        }
    }
}
