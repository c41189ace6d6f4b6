//! What is done with whole trees: deleted, moved, copied. Every member is asked about, on the descriptor that is acted on; what may not be
//! seen is left out of a copy, and keeps what it is in from being deleted or moved. Everything here blocks.
//!
//! Others change the tree meanwhile. So each member is deleted for itself, and where a whole tree goes at once it is hidden first, all of it is
//! judged once more, and where something may not go it gets its name back. Whatever gets a name is judged in the same turn: its directory is
//! still where it was found, and no lock stands in the way.

mod copying;
mod inheriting;
mod removal;
mod transfer;
mod walked;

use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, Ask, NodeKind, Wanted};
use enfilade_content::{Listing, LockToken, LookedAt, Node, Refusal as Content, Touches};
use enfilade_facts::vocabulary::{AccessMask, StorePath, Word};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many names are taken from a directory at once.
const BATCH: usize = 1024;
/// How many bytes are copied before it is looked whether that is still wanted and allowed.
const PIECE_BYTES: u64 = 8 << 20;

/// A member with which it was not done.
#[derive(Clone, Debug)]
pub struct Left {
    /// Where it is; of one whose name no path spells, the directory.
    pub path: StorePath,
    /// The name no path spells.
    pub unspelled: Option<Box<[u8]>>,
    /// Why.
    pub why: Refusal,
}

impl Left {
    fn at(path: StorePath, why: impl Into<Refusal>) -> Self {
        Left { path, unspelled: None, why: why.into() }
    }
}

/// What came of putting something somewhere.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Whether something was there before.
    pub replaced: bool,
    /// Members that were left out.
    pub left: Vec<Left>,
}

/// How something is put somewhere.
#[derive(Clone, Copy)]
pub struct Placing<'p> {
    /// Whether what is there may go.
    pub overwrite: bool,
    /// Whether with everything that is in it.
    pub is_deep: bool,
    /// The tokens of locks that came with the request.
    pub tokens: &'p [LockToken],
    /// Whether anybody still waits for it.
    pub is_wanted: &'p dyn Fn() -> bool,
}

/// How much of a tree one request may work through.
pub(crate) struct Work<'w> {
    is_wanted: &'w dyn Fn() -> bool,
    entries_left: u64,
    until: u64,
}

impl<'w> Work<'w> {
    pub(crate) fn begin(stay: &Stay, is_wanted: &'w dyn Fn() -> bool) -> Self {
        let limits = stay.visit.limits();
        let until = stay.visit.house.now().tick_millis.saturating_add(limits.tree_seconds * 1000);
        Work { is_wanted, entries_left: limits.tree_entries, until }
    }

    /// For one more look at the same members, within the same time.
    fn again(&mut self, stay: &Stay) {
        self.entries_left = stay.visit.limits().tree_entries;
    }

    /// Counts a member the visitor may see. Of what is hidden nothing is told, also not by a limit: time alone bounds how much of that is
    /// looked at.
    fn count(&mut self) -> Result<(), Refusal> {
        let too_many = Content::TooMuch("it has more entries than one request may touch");
        self.entries_left = self.entries_left.checked_sub(1).ok_or(too_many)?;
        Ok(())
    }

    fn go_on(&self, stay: &Stay) -> Result<(), Refusal> {
        if !(self.is_wanted)() {
            return Err(Content::TooMuch("whoever asked for it went away").into());
        }
        if stay.visit.house.now().tick_millis > self.until {
            return Err(Content::TooMuch("it takes longer than one request may").into());
        }
        Ok(())
    }
}

/// A directory on the way down.
struct Level<C> {
    path: StorePath,
    node: Node,
    listing: Listing,
    names: VecDeque<Word>,
    carried: C,
}

/// What is met next on the way through a tree.
enum Met {
    Member {
        path: StorePath,
        name: String,
        node: Node,
    },
    /// Something whose path would be too long to be asked for.
    TooDeep(Word),
    /// Something that is never served.
    Other,
    /// The directory has no more.
    End,
}

impl<C> Level<C> {
    fn begin(stay: &mut Stay, path: StorePath, node: Node, carried: C) -> Result<Self, Refusal> {
        let subject = node.subject();
        let wanted = Wanted::On(AccessMask::LIST);
        let permit = stay.may(&Ask { path: &path, target: &subject, wanted })?;
        let listing = enfilade_content::list(&permit, &node)?;
        Ok(Level { path, node, listing, names: VecDeque::new(), carried })
    }

    fn next(&mut self) -> Result<Met, Refusal> {
        loop {
            let Some(name) = self.names.pop_front() else {
                // Of no use to anybody here: nothing is known of a state.
                let at = LookedAt::default();
                let batch = self.listing.next_batch(BATCH, at)?;
                if batch.is_empty() {
                    // What could not be looked at must not be missing from a copy without a word.
                    return match self.listing.unreadable() {
                        0 => Ok(Met::End),
                        count => Err(Content::unlisted(&self.path, count).into()),
                    };
                }
                self.names.extend(batch.into_iter().map(|entry| entry.name));
                continue;
            };
            let Ok(path) = self.path.join(&name) else { return Ok(Met::TooDeep(name)) };
            match self.node.child(&name) {
                Ok(node) => return Ok(Met::Member { path, name: name.to_string(), node }),
                // It went meanwhile.
                Err(Content::Absent(_)) => {}
                Err(Content::Special(_)) => return Ok(Met::Other),
                Err(why) => return Err(why.into()),
            }
        }
    }
}

fn is_hidden(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if access.looks_absent())
}

fn is_within(path: &StorePath, above: &StorePath) -> bool {
    let rest = path.as_str().strip_prefix(above.as_str());
    above.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is met in a look through a tree.
pub(crate) enum Sight<'s> {
    /// A member.
    Member {
        path: &'s StorePath,
        /// The directory it is in: its path and its descriptor.
        directory: &'s StorePath,
        within: &'s Node,
        node: &'s Node,
    },
    /// Something in this directory that is never served.
    Unserved { directory: &'s StorePath },
    /// The directory has no more.
    End { path: &'s StorePath, directory: &'s Node },
}

/// What a look through a tree says of it.
#[derive(Clone, Copy, Debug, Default)]
struct Tree {
    /// How much content is in it.
    bytes: u64,
    /// How long the longest path of a member is, in bytes, and how many names the deepest has.
    longest: usize,
    deepest: usize,
}

impl Stay {
    /// What has to hold in the turn in which a name changes: its directory is still where it was found, no lock stands in the way, and where it is
    /// the first name, the conditions of the request hold. Says which locks are on what has the name.
    pub(crate) fn settle(
        &mut self,
        path: &StorePath,
        directory: &Node,
        touches: Touches,
        tokens: &[LockToken],
    ) -> Result<Vec<LockToken>, Refusal> {
        self.unmoved(path, directory)?;
        self.unless_locked(path, touches, tokens)?;
        self.if_still()?;
        Ok(self
            .locks_on(path)?
            .into_iter()
            .filter(|lock| lock.path == *path)
            .map(|lock| lock.token)
            .collect())
    }

    /// Whether the directory a path is in is still the one that was found.
    pub(crate) fn unmoved(&self, path: &StorePath, directory: &Node) -> Result<(), Refusal> {
        Ok(self.still_there(path, directory)()?)
    }

    /// The same, to be asked once more in the turn in which a name was given: another process may have begun to remove the directory just
    /// before, and what it did not see there is not acknowledged. Asked any later, it would tell only what became true afterwards.
    pub(crate) fn still_there(
        &self,
        path: &StorePath,
        directory: &Node,
    ) -> impl FnOnce() -> Result<(), Content> + use<> {
        let parent = path.split().map(|(parent, _)| parent).unwrap_or_default();
        let (root, directory) = (Arc::clone(&self.root), directory.clone());
        move || root.still_leads_to(&parent, &directory)
    }

    /// Shows each member of a tree, and each directory when all that is in it was shown; it is over with the first that is refused.
    pub(crate) fn each_member(
        &mut self,
        path: &StorePath,
        directory: &Node,
        work: &mut Work<'_>,
        mut see: impl FnMut(&mut Self, Sight<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut levels = vec![Level::begin(self, path.clone(), directory.clone(), ())?];
        while let Some(level) = levels.last_mut() {
            let (path, node) = match level.next()? {
                Met::Member { path, node, .. } => (path, node),
                Met::Other | Met::TooDeep(_) => {
                    see(self, Sight::Unserved { directory: &level.path })?;
                    continue;
                }
                Met::End => {
                    see(self, Sight::End { path: &level.path, directory: &level.node })?;
                    let _ = levels.pop();
                    continue;
                }
            };
            work.go_on(self)?;
            see(
                self,
                Sight::Member { path: &path, directory: &level.path, within: &level.node, node: &node },
            )?;
            work.count()?;
            if node.kind() == NodeKind::Directory {
                let below = Level::begin(self, path, node, ())?;
                levels.push(below);
            }
        }
        Ok(())
    }

    /// Whether everything in a directory may be deleted, also in spite of locks where tokens are given; says what is in it.
    fn may_go(
        &mut self,
        path: &StorePath,
        directory: &Node,
        tokens: Option<&[LockToken]>,
        work: &mut Work<'_>,
    ) -> Result<Tree, Refusal> {
        let not_all = |path: &StorePath| Refusal::from(Content::NotEmpty(path.to_string()));
        let mut tree = Tree::default();
        self.each_member(path, directory, work, |stay, sight| match sight {
            Sight::Unserved { directory } => Err(not_all(directory)),
            // Links, sockets and the like are not listed.
            Sight::End { path, directory } => Ok(enfilade_content::unless_others(directory, path)?),
            Sight::Member { path, directory, within, node } => {
                stay.may_delete(path, within, node).map_err(|why| match is_hidden(&why) {
                    true => not_all(directory),
                    false => why,
                })?;
                // After the right: a lock on what may not be seen is not seen either.
                tokens.map(|tokens| stay.unless_locked(path, Touches::Entry, tokens)).transpose()?;
                tree.longest = tree.longest.max(path.as_str().len());
                tree.deepest = tree.deepest.max(path.names().count());
                if node.kind() == NodeKind::File {
                    tree.bytes = tree.bytes.saturating_add(node.content_bytes());
                }
                Ok(())
            }
        })?;
        Ok(tree)
    }

    fn may_delete(
        &mut self,
        path: &StorePath,
        directory: &Node,
        target: &Node,
    ) -> Result<AccessPermit, Refusal> {
        let (parent, subject) = (directory.subject(), target.subject());
        self.may(&Ask { path, target: &subject, wanted: Wanted::Delete { parent: &parent } })
    }
}
