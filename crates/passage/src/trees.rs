//! What is done with whole trees: deleted, moved, copied. Every member is asked about, on the descriptor that is acted on; what may not be
//! seen is left out of a copy, and keeps what it is in from being deleted or moved. Everything here blocks.

use crate::refuse::Refusal;
use crate::verbs::present;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, Ask, Inheritance, NodeKind, StoredAcl, Subject, Wanted, propagated};
use enfilade_content::{
    At, Draft, Listing, LockToken, LookedAt, Node, Reader, Refusal as Content, Touches, Upload,
    copy_properties,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath, Word};
use std::collections::VecDeque;

/// How many names are taken from a directory at once.
const BATCH: usize = 1024;
/// How many bytes are copied before it is looked whether that is still wanted and allowed.
const PIECE_BYTES: u64 = 8 << 20;

/// A member with which it was not done.
#[derive(Clone, Debug)]
pub struct Left {
    /// Where it is.
    pub path: StorePath,
    /// Why.
    pub why: Refusal,
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
struct Work<'w> {
    is_wanted: &'w dyn Fn() -> bool,
    entries_left: u64,
    until: u64,
}

impl<'w> Work<'w> {
    fn begin(stay: &Stay, is_wanted: &'w dyn Fn() -> bool) -> Self {
        let limits = stay.visit.limits();
        let until = stay.visit.house.now().tick_millis.saturating_add(limits.tree_seconds * 1000);
        Work { is_wanted, entries_left: limits.tree_entries, until }
    }

    fn step(&mut self, stay: &Stay) -> Result<(), Refusal> {
        let too_many = Content::TooMuch("it has more entries than one request may touch");
        self.entries_left = self.entries_left.checked_sub(1).ok_or(too_many)?;
        self.go_on(stay)
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
    /// Something that cannot be asked for.
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
            let Ok(path) = self.path.join(&name) else { return Ok(Met::Other) };
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

/// What is deleted once it is empty.
struct Going {
    directory: Node,
    name: String,
    permit: AccessPermit,
    /// Something in it stays.
    keeps: bool,
}

/// Where something is to be put.
struct Room<'p> {
    path: &'p StorePath,
    directory: Node,
    name: &'p str,
    permit: AccessPermit,
    from_start: Inheritance,
    /// What is there, which may go, and how much content goes with it.
    replaced: Option<(AccessPermit, Node, u64)>,
}

fn is_hidden(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if access.looks_absent())
}

fn is_within(path: &StorePath, above: &StorePath) -> bool {
    let rest = path.as_str().strip_prefix(above.as_str());
    above.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Stay {
    /// Deletes a file, or a directory with everything in it, member by member; says what is left.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, for what was named itself; nothing is deleted then.
    pub fn delete(
        &mut self,
        path: &StorePath,
        tokens: &[LockToken],
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<Left>, Refusal> {
        let (directory, name) = self.reach_parent(path)?;
        let target = directory.child(name)?;
        let permit = self.may_delete(path, &directory, &target)?;
        self.unless_locked(path, Touches::Tree, tokens)?;
        let left = self.delete_found(path, (directory, name, target, permit), is_wanted)?;
        if left.is_empty() {
            self.forget_locks(path)?;
        }
        Ok(left)
    }

    fn delete_found(
        &mut self,
        path: &StorePath,
        (directory, name, target, permit): (Node, &str, Node, AccessPermit),
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<Left>, Refusal> {
        if target.kind() == NodeKind::File {
            enfilade_content::delete(&permit, &directory, name, &target)?;
            self.fill.freed(target.content_bytes());
            return Ok(Vec::new());
        }
        let going = Going { directory, name: name.to_owned(), permit, keeps: false };
        let mut work = Work::begin(self, is_wanted);
        let mut left = Vec::new();
        let mut levels = match Level::begin(self, path.clone(), target.clone(), ()) {
            Ok(level) => vec![(level, going)],
            // What may not be listed may be deleted where it is empty.
            Err(refusal) if is_listing_refused(&refusal) => {
                enfilade_content::delete(&going.permit, &going.directory, name, &target)?;
                return Ok(left);
            }
            Err(refusal) => return Err(refusal),
        };
        while let Some((level, going)) = levels.last_mut() {
            let (path, name, node) = match level.next()? {
                Met::Member { path, name, node } => (path, name, node),
                Met::Other => {
                    going.keeps = true;
                    continue;
                }
                Met::End => {
                    if let Some((level, going)) = levels.pop() {
                        let stays = finish_deletion(&level, &going, &mut left);
                        levels.last_mut().into_iter().for_each(|(_, above)| above.keeps |= stays);
                    }
                    continue;
                }
            };
            if let Err(why) = work.step(self) {
                left.push(Left { path, why });
                break;
            }
            let deleted = self.may_delete(&path, &level.node, &node).and_then(|permit| match node.kind() {
                NodeKind::File => {
                    enfilade_content::delete(&permit, &level.node, &name, &node)?;
                    self.fill.freed(node.content_bytes());
                    Ok(None)
                }
                NodeKind::Directory => {
                    let below = Level::begin(self, path.clone(), node.clone(), ())?;
                    Ok(Some((below, Going { directory: level.node.clone(), name, permit, keeps: false })))
                }
            });
            match deleted {
                Ok(None) => {}
                Ok(Some(below)) => levels.push(below),
                Err(why) => {
                    going.keeps = true;
                    if !is_hidden(&why) {
                        left.push(Left { path, why });
                    }
                }
            }
        }
        Ok(left)
    }

    /// Gives something another name, with everything in it; its ACLs stay as they are.
    ///
    /// # Errors
    /// The refusal of door 4 or 5; nothing is moved then.
    pub fn relocate(
        &mut self,
        from: &StorePath,
        to: &StorePath,
        placing: Placing<'_>,
    ) -> Result<Placed, Refusal> {
        if is_within(to, from) || is_within(from, to) {
            return Err(Content::WithinItself.into());
        }
        let (directory, name) = self.reach_parent(from)?;
        let target = directory.child(name)?;
        let permit = self.may_delete(from, &directory, &target)?;
        let mut work = Work::begin(self, placing.is_wanted);
        if target.kind() == NodeKind::Directory {
            self.may_go(from, &target, &mut work)?;
        }
        let room = self.make_room(to, target.kind(), placing, &mut work)?;
        self.unless_locked(from, Touches::Tree, placing.tokens)?;
        let (at, goal) =
            (At { directory: &directory, name }, At { directory: &room.directory, name: room.name });
        let replaced = room.replaced.as_ref().map(|(permit, node, _)| (permit, node));
        enfilade_content::rename((&permit, &target, at), (&room.permit, goal), replaced)?;
        let left = match self.datastore.access().moved_inherits {
            true => hand_on(&room.directory, room.path, &target),
            false => Vec::new(),
        };
        self.forget_locks(from)?;
        let freed = room.replaced.as_ref().map(|(.., bytes)| *bytes);
        freed.into_iter().for_each(|bytes| self.fill.freed(bytes));
        Ok(Placed { replaced: freed.is_some(), left })
    }

    /// Makes a copy, which has what its new directory gives it and its maker for an owner. Nothing of it is seen before it is whole.
    ///
    /// # Errors
    /// The refusal of door 4 or 5; there is no copy then.
    pub fn copy(
        &mut self,
        from: &StorePath,
        to: &StorePath,
        placing: Placing<'_>,
    ) -> Result<Placed, Refusal> {
        if from == to || is_within(from, to) {
            return Err(Content::WithinItself.into());
        }
        let found = self.find(from, AccessMask::READ_DATA)?;
        let kind = found.kind();
        if kind == NodeKind::Directory && is_within(to, from) && placing.is_deep {
            return Err(Content::WithinItself.into());
        }
        let mut work = Work::begin(self, placing.is_wanted);
        let mut room = self.make_room(to, kind, placing, &mut work)?;
        room.from_start = self.of_copy(room.from_start, &found.node.subject());
        let replaced = room.replaced.is_some();
        let left = match kind {
            NodeKind::File => {
                let reader = enfilade_content::read(found.permit(), &found.node)?;
                self.copy_file(from, &reader, room, &work)?;
                Vec::new()
            }
            NodeKind::Directory => self.copy_tree(from, &found.node, to, room, placing.is_deep, work)?,
        };
        Ok(Placed { replaced, left })
    }

    /// What a copy has from the start, where something is copied that has an ACL of its own.
    fn of_copy(&self, from_start: Inheritance, source: &Subject) -> Inheritance {
        match &source.acl {
            StoredAcl::Ntacl(acl) | StoredAcl::Nfs4(acl) if self.datastore.access().copy_keeps => {
                // Whose file it is belongs to such an ACL.
                let owner = from_start.owner.map(|_| source.owner());
                Inheritance { acl: acl.clone(), owner }
            }
            _ => from_start,
        }
    }

    fn copy_file(
        &mut self,
        from: &StorePath,
        reader: &Reader,
        room: Room<'_>,
        work: &Work<'_>,
    ) -> Result<(), Refusal> {
        let Room { directory, name, permit, from_start, replaced, .. } = room;
        let mut upload = match &replaced {
            Some(_) => Upload::create_instead(&permit, &directory, name, &from_start)?,
            None => Upload::create(&permit, &directory, name, &from_start)?,
        };
        let quota = self.datastore.quota();
        let mut taken = quota.map(|quota| self.fill.take(&self.root, quota, reader.bytes())).transpose()?;
        let mut offset = 0;
        loop {
            match upload.copy_from(reader, offset, PIECE_BYTES)? {
                0 => break,
                copied => offset += copied,
            }
            work.go_on(self)?;
            if let Some(taken) = &mut taken {
                taken.grow_to(offset)?;
            }
            if !self.unchanged() {
                self.find(from, AccessMask::READ_DATA)?;
            }
        }
        upload.copy_properties(reader)?;
        let freed = replaced.as_ref().map_or(0, |(.., bytes)| *bytes);
        match &replaced {
            Some((permit, node, _)) => upload.finish_instead((permit, node))?,
            None => drop(upload.finish()?),
        }
        match taken {
            Some(taken) => taken.keep(offset, freed),
            None => self.fill.freed(freed),
        }
        Ok(())
    }

    fn copy_tree(
        &mut self,
        from: &StorePath,
        source: &Node,
        to: &StorePath,
        room: Room<'_>,
        is_deep: bool,
        mut work: Work<'_>,
    ) -> Result<Vec<Left>, Refusal> {
        let draft = Draft::begin(&room.permit, &room.directory, &room.from_start)?;
        copy_properties(source, draft.node())?;
        let mut left = Vec::new();
        let mut levels = Vec::new();
        if is_deep {
            let goal = (draft.node().clone(), to.clone());
            levels.push(Level::begin(self, from.clone(), source.clone(), goal)?);
        }
        while let Some(level) = levels.last_mut() {
            let (path, name, node) = match level.next()? {
                Met::Member { path, name, node } => (path, name, node),
                Met::Other => continue,
                Met::End => {
                    let _ = levels.pop();
                    continue;
                }
            };
            work.step(self)?;
            let (directory, goal) = level.carried.clone();
            match self.copy_member(&path, &node, (&directory, &goal, &name), &work) {
                Ok(None) => {}
                Ok(Some(below)) => levels.push(below),
                // What stops one stops all.
                Err(why @ Refusal::Content(Content::TooMuch(_) | Content::OverQuota { .. })) => {
                    return Err(why);
                }
                Err(why) if is_hidden(&why) => {}
                Err(why) => left.push(Left { path, why }),
            }
        }
        let replaced = room.replaced.as_ref().map(|(permit, node, _)| (permit, node));
        draft.finish(room.name, replaced)?;
        room.replaced.iter().for_each(|(.., bytes)| self.fill.freed(*bytes));
        Ok(left)
    }

    fn copy_member(
        &mut self,
        path: &StorePath,
        node: &Node,
        (directory, goal, name): (&Node, &StorePath, &str),
        work: &Work<'_>,
    ) -> Result<Option<Level<(Node, StorePath)>>, Refusal> {
        let subject = node.subject();
        let wanted = Wanted::On(AccessMask::READ_DATA);
        let reading = self.may(&Ask { path, target: &subject, wanted })?;
        let goal = goal.join(name).map_err(|_| Content::TooLong(name.to_owned()))?;
        let (permit, from_start) = self.may_create(&goal, directory, node.kind())?;
        let from_start = self.of_copy(from_start, &subject);
        match node.kind() {
            NodeKind::File => {
                let reader = enfilade_content::read(&reading, node)?;
                let directory = directory.clone();
                let room = Room { path: &goal, directory, name, permit, from_start, replaced: None };
                self.copy_file(path, &reader, room, work)?;
                Ok(None)
            }
            NodeKind::Directory => {
                let made = enfilade_content::make_collection(&permit, directory, name, &from_start)?;
                copy_properties(node, &made)?;
                Level::begin(self, path.clone(), node.clone(), (made, goal)).map(Some)
            }
        }
    }

    /// The right to put something at a path, and to let go what is there.
    fn make_room<'p>(
        &mut self,
        path: &'p StorePath,
        kind: NodeKind,
        placing: Placing<'_>,
        work: &mut Work<'_>,
    ) -> Result<Room<'p>, Refusal> {
        let (directory, name) = self.reach_parent(path)?;
        let (permit, from_start) = self.may_create(path, &directory, kind)?;
        let mut replaced = None;
        if let Some(existing) = present(directory.child(name))? {
            self.refuse_hidden(path, &existing)?;
            if !placing.overwrite {
                return Err(Content::Exists(name.to_owned()).into());
            }
            let permit = self.may_delete(path, &directory, &existing)?;
            let bytes = match existing.kind() {
                NodeKind::File => existing.content_bytes(),
                NodeKind::Directory => self.may_go(path, &existing, work)?,
            };
            replaced = Some((permit, existing, bytes));
        }
        let touches = if replaced.is_some() { Touches::Tree } else { Touches::Entry };
        self.unless_locked(path, touches, placing.tokens)?;
        Ok(Room { path, directory, name, permit, from_start, replaced })
    }

    /// Whether everything in a directory may be deleted; says how much content that is.
    fn may_go(&mut self, path: &StorePath, directory: &Node, work: &mut Work<'_>) -> Result<u64, Refusal> {
        let not_all = |path: &StorePath| Refusal::from(Content::NotEmpty(path.to_string()));
        let mut bytes = 0_u64;
        let mut levels = vec![Level::begin(self, path.clone(), directory.clone(), ())?];
        while let Some(level) = levels.last_mut() {
            let (path, node) = match level.next()? {
                Met::Member { path, node, .. } => (path, node),
                Met::Other => return Err(not_all(&level.path)),
                Met::End => {
                    // Links, sockets and the like are not listed.
                    if enfilade_content::holds_others(&level.node)? {
                        return Err(not_all(&level.path));
                    }
                    let _ = levels.pop();
                    continue;
                }
            };
            work.step(self)?;
            self.may_delete(&path, &level.node, &node).map_err(|why| match is_hidden(&why) {
                true => not_all(&level.path),
                false => why,
            })?;
            match node.kind() {
                NodeKind::File => bytes = bytes.saturating_add(node.content_bytes()),
                NodeKind::Directory => {
                    let below = Level::begin(self, path, node, ())?;
                    levels.push(below);
                }
            }
        }
        Ok(bytes)
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

/// Gives what was moved, and everything in it, the entries its directory hands on; its own it keeps. Says where that could not be done.
fn hand_on(directory: &Node, path: &StorePath, target: &Node) -> Vec<Left> {
    let mut left = Vec::new();
    let mut levels = vec![(directory.subject().descriptor().ok().flatten(), path.clone(), target.clone())];
    while let Some((above, path, node)) = levels.pop() {
        let subject = node.subject();
        let done = (|| -> Result<_, Refusal> {
            let bad = |why| Refusal::from(enfilade_access::Refusal::AclDamaged { path: path.clone(), why });
            let before = subject.descriptor().map_err(|why| bad(why.to_string()))?;
            let Some(above) = above else { return Ok(before) };
            let Some(after) = propagated(&above, before.as_ref(), subject.kind) else { return Ok(None) };
            if before.as_ref() != Some(&after) {
                let blob = after.written(node.acls(), subject.owner()).map_err(|why| bad(why.to_string()))?;
                enfilade_content::set_acl_as_operator(&node, &blob)?;
            }
            Ok(Some(after))
        })();
        match done {
            // Protected, with everything beneath it.
            Ok(None) => {}
            Ok(own) if node.kind() == NodeKind::Directory => {
                let members = enfilade_content::list_as_operator(&node).and_then(|mut listing| {
                    let mut members = Vec::new();
                    loop {
                        let batch = listing.next_open(BATCH)?;
                        if batch.is_empty() {
                            return Ok(members);
                        }
                        members.extend(batch.into_iter().map(|entry| (entry.name, entry.node)));
                    }
                });
                match members {
                    Ok(members) => levels.extend(
                        members
                            .into_iter()
                            .filter_map(|(name, node)| Some((own.clone(), path.join(&name).ok()?, node))),
                    ),
                    Err(why) => left.push(Left { path, why: why.into() }),
                }
            }
            Ok(_) => {}
            Err(why) => left.push(Left { path, why }),
        }
    }
    left
}

fn is_listing_refused(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if !access.looks_absent())
}

/// Deletes a directory whose members are gone; says whether it stays.
fn finish_deletion(level: &Level<()>, going: &Going, left: &mut Vec<Left>) -> bool {
    if !going.keeps {
        match enfilade_content::delete(&going.permit, &going.directory, &going.name, &level.node) {
            Ok(()) | Err(Content::ChangedMeanwhile(_)) => return false,
            Err(why) => left.push(Left { path: level.path.clone(), why: why.into() }),
        }
        return true;
    }
    // Members that stay are named; where none may be named, what they are in is.
    let is_told = left.iter().any(|left| is_within(&left.path, &level.path));
    if !is_told {
        let why = Content::NotEmpty(level.path.to_string());
        left.push(Left { path: level.path.clone(), why: why.into() });
    }
    true
}
