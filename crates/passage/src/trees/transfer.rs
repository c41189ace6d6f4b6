//! COPY and MOVE: what they make has its name only once it is whole, and what they replace is gone only once all of it was judged under a name
//! nobody can ask for.

use super::{Left, Level, Met, Placed, Placing, Tree, Work, is_hidden, is_within};
use crate::refuse::{Refusal, Stands};
use crate::verbs::{Found, present};
use crate::walk::Stay;
use enfilade_access::{AccessPermit, Ask, Inheritance, NodeKind, StoredAcl, Subject, Wanted};
use enfilade_content::{
    At, Draft, Node, Reader, Refusal as Content, Relocated, Room as Quota, Touches, Upload, copy_properties,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

/// Where something is to be put.
struct Room<'p> {
    path: &'p StorePath,
    directory: Node,
    name: &'p str,
    permit: AccessPermit,
    from_start: Inheritance,
    /// What is there, which may go.
    replaced: Option<Replaced>,
}

/// What is at a destination and may go.
struct Replaced {
    permit: AccessPermit,
    node: Node,
    /// How much content goes with it.
    bytes: u64,
}

impl Room<'_> {
    fn replaced(&self) -> Option<(&AccessPermit, &Node)> {
        self.replaced.as_ref().map(|replaced| (&replaced.permit, &replaced.node))
    }

    fn touches(&self) -> Touches {
        if self.replaced.is_some() { Touches::Tree } else { Touches::Entry }
    }
}

/// A member of a tree, and where its copy is to be.
struct Member<'m> {
    path: &'m StorePath,
    node: &'m Node,
    /// The directory of the copy, and where that will be.
    directory: &'m Node,
    goal: &'m StorePath,
    name: &'m str,
}

/// What is taken of the quota by what is copied: given back unless the copy gets its name.
struct Taken {
    room: Option<Quota>,
    /// How much was copied.
    bytes: u64,
}

impl Taken {
    /// Takes room for so many bytes more than were copied.
    fn room_for(&mut self, bytes: u64) -> Result<(), Content> {
        self.room.as_mut().map_or(Ok(()), |room| room.grow_to(self.bytes.saturating_add(bytes)))
    }
}

impl Stay {
    /// Gives something another name, with everything in it; its ACLs stay as they are, or are inherited anew where the datastore says so.
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
        let mut work = Work::begin(self, placing.is_wanted);
        let source = self.source_to_move(from, placing, &mut work);
        let (directory, name, target, permit, tree) = source.map_err(|why| why.about(Stands::Source))?;
        self.fits(from, to, tree)?;
        let room = self.make_room(to, target.kind(), placing, &mut work)?;
        let (at, goal) =
            (At { directory: &directory, name }, At { directory: &room.directory, name: room.name });
        let mut own = Vec::new();
        let moved = enfilade_content::rename(
            (&permit, &target, at),
            (&room.permit, goal),
            room.replaced(),
            || -> Result<(), Refusal> {
                self.settle(from, &directory, Touches::Tree, placing.tokens)?;
                self.settle(to, &room.directory, room.touches(), placing.tokens)?;
                own = self.locks_at_or_beneath(from)?;
                Ok(())
            },
        )?;
        // Another process may have moved one of the directories just before; and somebody may have put something into what was moved or
        // replaced since it was looked through.
        let judged = self
            .unmoved(to, &room.directory)
            .and_then(|()| self.judge_again(from, &target, &mut work))
            .and_then(|_| self.judge_replaced(&room, &mut work));
        let freed = self.complete_or_take_back(moved, &room, judged)?;
        self.fill.freed(freed);
        let left = match self.datastore.access().moved_inherits {
            true => self.inherit_anew(&room.directory, room.path, &target, &mut work),
            false => Vec::new(),
        };
        self.end_locks(&own)?;
        Ok(Placed { replaced: room.replaced.is_some(), left })
    }

    /// What is to be moved, when all of it may be.
    fn source_to_move<'p>(
        &mut self,
        from: &'p StorePath,
        placing: Placing<'_>,
        work: &mut Work<'_>,
    ) -> Result<(Node, &'p str, Node, AccessPermit, Tree), Refusal> {
        let (directory, name) = self.reach_parent(from)?;
        let target = self.child_or_alike(from, &directory, name)?;
        let permit = self.may_delete(from, &directory, &target)?;
        self.unless_locked(from, Touches::Entry, placing.tokens)?;
        let tree = match target.kind() {
            NodeKind::Directory => self.may_go(from, &target, Some(placing.tokens), work)?,
            NodeKind::File => Tree::default(),
        };
        Ok((directory, name, target, permit, tree))
    }

    /// Whether every member can still be asked for under its new path.
    fn fits(&self, from: &StorePath, to: &StorePath, tree: Tree) -> Result<(), Refusal> {
        let limits = self.visit.limits();
        let bytes = (tree.longest + to.as_str().len()).saturating_sub(from.as_str().len());
        let names = (tree.deepest + to.names().count()).saturating_sub(from.names().count());
        match bytes as u64 > limits.path_bytes || names as u64 > limits.path_parts {
            true => Err(Content::TooLong(to.to_string()).into()),
            false => Ok(()),
        }
    }

    /// The look through a tree once more, when nothing else can be put into it.
    fn judge_again(&mut self, path: &StorePath, node: &Node, work: &mut Work<'_>) -> Result<u64, Refusal> {
        match node.kind() {
            NodeKind::File => Ok(node.content_bytes()),
            NodeKind::Directory => {
                work.again(self);
                Ok(self.may_go(path, node, None, work)?.bytes)
            }
        }
    }

    fn judge_replaced(&mut self, room: &Room<'_>, work: &mut Work<'_>) -> Result<u64, Refusal> {
        match &room.replaced {
            Some(replaced) if replaced.node.kind() == NodeKind::Directory => {
                self.judge_again(room.path, &replaced.node, work)
            }
            Some(replaced) => Ok(replaced.bytes),
            None => Ok(0),
        }
    }

    /// What was replaced is gone, where it was judged so, and how much content went with it; else everything is as it was before, or is told to
    /// be otherwise.
    fn complete_or_take_back(
        &mut self,
        relocated: Relocated,
        room: &Room<'_>,
        judged: Result<u64, Refusal>,
    ) -> Result<u64, Refusal> {
        let why = match judged {
            Ok(bytes) => {
                relocated.complete();
                return Ok(bytes);
            }
            Err(why) => why,
        };
        let taken_back = relocated.take_back();
        if matches!(taken_back, Ok(None)) {
            return Err(why);
        }
        self.fill.count_anew();
        // What was replaced could not go back to its name: it has another one there.
        let beside = |name: String| room.path.split().and_then(|(parent, _)| parent.join(&name).ok());
        let beside = taken_back?.and_then(beside).unwrap_or_default();
        Err(Content::ChangedMeanwhile(beside.to_string()).into())
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
        let found = self.find(from, AccessMask::READ_DATA).map_err(|why| why.about(Stands::Source))?;
        let kind = found.kind();
        if kind == NodeKind::Directory && is_within(to, from) && placing.is_deep {
            return Err(Content::WithinItself.into());
        }
        let mut work = Work::begin(self, placing.is_wanted);
        let mut room = self.make_room(to, kind, placing, &mut work)?;
        room.from_start = self.of_copy(room.from_start, &found.node.subject());
        let quota = self.datastore.quota();
        let room_taken = quota.map(|quota| self.fill.take(&self.root, quota, 0)).transpose()?;
        let mut taken = Taken { room: room_taken, bytes: 0 };
        let (made, left) = match kind {
            NodeKind::File => (self.copy_one(from, &found, &room, placing, &work, &mut taken)?, Vec::new()),
            NodeKind::Directory => self.copy_tree(from, &found, &room, placing, &mut work, &mut taken)?,
        };
        let judged = self.unmoved(to, &room.directory).and_then(|()| self.judge_replaced(&room, &mut work));
        let freed = match made {
            Some(made) => self.complete_or_take_back(made, &room, judged)?,
            // It has its name, wherever its directory is now.
            None => judged.inspect_err(|_| self.fill.count_anew())?,
        };
        match taken.room {
            Some(room) => room.keep(taken.bytes, freed),
            None => self.fill.freed(freed),
        }
        Ok(Placed { replaced: room.replaced.is_some(), left })
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

    /// Copies a file to where it is to be.
    fn copy_one(
        &mut self,
        from: &StorePath,
        found: &Found,
        room: &Room<'_>,
        placing: Placing<'_>,
        work: &Work<'_>,
        taken: &mut Taken,
    ) -> Result<Option<Relocated>, Refusal> {
        let reader = enfilade_content::read(found.permit(), &found.node)?;
        let Room { path, directory, name, permit, from_start, replaced } = room;
        let mut upload = match replaced {
            Some(_) => Upload::create_instead(permit, directory, name, from_start)?,
            None => Upload::create(permit, directory, name, from_start)?,
        };
        self.fill_copy(from, &reader, &mut upload, work, taken)?;
        let settle = || self.settle(path, directory, room.touches(), placing.tokens).map(drop);
        match room.replaced() {
            Some(replaced) => upload.finish_instead(replaced, settle).map(Some),
            None => upload.finish_if(settle).map(|_| None),
        }
    }

    /// Fills the copy of a file.
    fn fill_copy(
        &mut self,
        from: &StorePath,
        reader: &Reader,
        upload: &mut Upload,
        work: &Work<'_>,
        taken: &mut Taken,
    ) -> Result<(), Refusal> {
        let mut offset = 0;
        // What does not fit is known before it is copied.
        taken.room_for(reader.bytes())?;
        loop {
            match upload.copy_from(reader, offset, super::PIECE_BYTES)? {
                0 => break,
                copied => offset += copied,
            }
            work.go_on(self)?;
            taken.room_for(offset)?;
            if !self.unchanged() {
                self.find(from, AccessMask::READ_DATA)?;
            }
        }
        taken.bytes = taken.bytes.saturating_add(offset);
        Ok(upload.copy_properties(reader)?)
    }

    /// Builds a copy of a directory, and gives it its name.
    fn copy_tree(
        &mut self,
        from: &StorePath,
        source: &Found,
        room: &Room<'_>,
        placing: Placing<'_>,
        work: &mut Work<'_>,
        taken: &mut Taken,
    ) -> Result<(Option<Relocated>, Vec<Left>), Refusal> {
        let draft = Draft::begin(&room.permit, &room.directory, &room.from_start)?;
        copy_properties(source.permit(), &source.node, draft.node())?;
        let (mut left, mut levels) = (Vec::new(), Vec::new());
        if placing.is_deep {
            let goal = (draft.node().clone(), room.path.clone());
            levels.push(Level::begin(self, from.clone(), source.node.clone(), goal)?);
        }
        while let Some(level) = levels.last_mut() {
            let (path, name, node) = match level.next()? {
                Met::Member { path, name, node } => (path, name, node),
                Met::TooDeep(name) => {
                    // It has no path to be named by.
                    left.push(Left {
                        path: level.path.clone(),
                        why: Content::TooLong(name.to_string()).into(),
                    });
                    continue;
                }
                Met::Other => continue,
                Met::End => {
                    let _ = levels.pop();
                    continue;
                }
            };
            work.step(self)?;
            let (directory, goal) = level.carried.clone();
            let member = Member { path: &path, node: &node, directory: &directory, goal: &goal, name: &name };
            match self.copy_member(&member, work, taken) {
                Ok(None) => {}
                Ok(Some(below)) => levels.push(below),
                // What stops one stops all.
                Err(why @ Refusal::Content(Content::TooMuch(_) | Content::OverQuota { .. })) => {
                    return Err(why);
                }
                Err(why) => left.push(Left { path, why }),
            }
        }
        let settle = || self.settle(room.path, &room.directory, room.touches(), placing.tokens).map(drop);
        let made = draft.finish(room.name, room.replaced(), settle)?;
        Ok((Some(made), left))
    }

    /// Copies a file, or begins with a directory. Only that a member may not be seen where it is leaves it out without a word: whatever else is
    /// refused is told.
    fn copy_member(
        &mut self,
        member: &Member<'_>,
        work: &Work<'_>,
        taken: &mut Taken,
    ) -> Result<Option<Level<(Node, StorePath)>>, Refusal> {
        let Member { path, node, directory, goal, name } = *member;
        let subject = node.subject();
        let wanted = Wanted::On(AccessMask::READ_DATA);
        let reading = match self.may(&Ask { path, target: &subject, wanted }) {
            Ok(reading) => reading,
            Err(why) if is_hidden(&why) => return Ok(None),
            Err(why) => return Err(why),
        };
        let goal = goal.join(name).map_err(|_| Content::TooLong(name.to_owned()))?;
        goal.keeps_to(&self.visit.limits()).map_err(|_| Content::TooLong(name.to_owned()))?;
        let (permit, from_start) = self.may_create(&goal, directory, node.kind())?;
        let from_start = self.of_copy(from_start, &subject);
        match node.kind() {
            NodeKind::File => {
                let reader = enfilade_content::read(&reading, node)?;
                let mut upload = Upload::create(&permit, directory, name, &from_start)?;
                self.fill_copy(path, &reader, &mut upload, work, taken)?;
                upload.finish()?;
                Ok(None)
            }
            NodeKind::Directory => {
                let made = enfilade_content::make_collection(&permit, directory, name, &from_start, || {
                    Ok::<_, Refusal>(())
                })?;
                copy_properties(&reading, node, &made)?;
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
        let of_parent = |why: Refusal| why.about(Stands::Parent);
        let (directory, name) = self.reach_parent(path).map_err(of_parent)?;
        let (permit, from_start) = self.may_create(path, &directory, kind).map_err(of_parent)?;
        let mut replaced = None;
        if let Some(existing) = present(directory.child(name))? {
            self.refuse_hidden(path, &existing)?;
            if !placing.overwrite {
                return Err(Content::Exists(name.to_owned()).into());
            }
            let permit = self.may_delete(path, &directory, &existing)?;
            self.unless_locked(path, Touches::Entry, placing.tokens)?;
            let bytes = match existing.kind() {
                NodeKind::File => existing.content_bytes(),
                NodeKind::Directory => self.may_go(path, &existing, Some(placing.tokens), work)?.bytes,
            };
            replaced = Some(Replaced { permit, node: existing, bytes });
        } else {
            self.unless_locked(path, Touches::Entry, placing.tokens)?;
        }
        Ok(Room { path, directory, name, permit, from_start, replaced })
    }
}
