//! COPY. A copy is invisible until it is complete. The answer lists every member that was not copied, except members that the visitor may not see.

use super::copy_record::CopyRecord;
use super::transfer::Destination;
use super::{FailedMember, Placed, Placing, is_hidden, is_within};
use crate::reach::Inside as _;
use crate::refuse::{Refusal, Stands};
use crate::walk::{Found, Stay};
use enfilade_access::{Ask, Inheritance, NodeKind, StoredAcl, Subject, Wanted};
use enfilade_content::{
    Blocking, Draft, Member, Met, Node, QuotaReservation, Reader, Refusal as Content, Relocated, TreeBudget,
    TreeWalk, Upload, copy_properties,
};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

/// The copy of a directory, and its path at the destination.
struct Goal {
    directory: Node,
    path: StorePath,
}

/// A running copy of a tree.
struct Copying<'c> {
    walk: TreeWalk<'c, StorePath, Goal>,
    record: CopyRecord,
    budget: &'c TreeBudget<'c>,
    taken: &'c mut Taken,
}

/// The quota that the copy reserves. The reservation is released if the copy fails.
struct Taken {
    reservation: Option<QuotaReservation>,
    /// The bytes that were copied until now.
    bytes: u64,
}

impl Taken {
    /// Reserves quota for the bytes that were copied until now, and for `bytes` further bytes.
    fn room_for(&mut self, bytes: u64) -> Result<(), Content> {
        self.reservation
            .as_mut()
            .map_or(Ok(()), |reservation| reservation.grow_to(self.bytes.saturating_add(bytes)))
    }
}

impl Stay {
    /// Copies a file or a tree. The copy gets the owner and ACL of a new object in its directory. With `copy_keeps`, the copy of an object with an
    /// ACL keeps the owner and ACL of the source. The copy is invisible until it is complete.
    ///
    /// # Errors
    /// The refusal of door 4 or 5. After a refusal there is no copy, unless the copy could not be undone ([`Content::NotTakenBack`],
    /// [`Content::Io`]).
    pub fn copy(
        &mut self,
        from: &StorePath,
        to: &StorePath,
        placing: Placing<'_>,
    ) -> Result<Placed, Refusal> {
        if from == to || is_within(from, to) {
            return Err(Content::WithinItself.into());
        }
        let found =
            self.find(from, AccessMask::READ_DATA, Blocking).map_err(|why| why.about(Stands::Source))?;
        let kind = found.kind();
        if kind == NodeKind::Directory && is_within(to, from) && placing.is_deep {
            return Err(Content::WithinItself.into());
        }
        let budget = self.tree_budget(placing.keep_going);
        let mut destination = self.claim_destination(to, kind, placing, &budget)?;
        destination.from_start = self.of_copy(destination.from_start, &found.node.subject());
        let quota = self.datastore.quota();
        let reservation = quota.map(|quota| self.fill.take(&self.root, quota, 0)).transpose()?;
        let mut taken = Taken { reservation, bytes: 0 };
        let (made, failed) = match kind {
            NodeKind::File => {
                (self.copy_one(from, &found, &destination, placing, &budget, &mut taken)?, Vec::new())
            }
            NodeKind::Directory => {
                self.copy_tree(from, &found, &destination, placing, &budget, &mut taken)?
            }
        };
        let freed = match made {
            Some(made) => {
                let judged = made.still_there().map_err(Refusal::from);
                let judged = judged.and_then(|()| self.judge_replaced(&destination, &budget));
                self.complete_or_take_back(made, &destination, judged)?
            }
            // The destination did not exist before, so no object was replaced.
            None => 0,
        };
        match taken.reservation {
            Some(reservation) => reservation.keep(taken.bytes, freed),
            None => self.fill.freed(freed),
        }
        Ok(Placed { replaced: destination.replaced.is_some(), failed })
    }

    /// The owner and ACL with which a copy is created. With `copy_keeps`, the copy gets the owner and ACL of the source, if the source has an ACL.
    fn of_copy(&self, from_start: Inheritance, source: &Subject) -> Inheritance {
        match &source.acl {
            StoredAcl::Ntacl(acl) | StoredAcl::Nfs4(acl) if self.datastore.access().copy_keeps => {
                // If the ACL refers to the owner of the file (nfs4), the copy also gets the owner and group of the source.
                let owner = from_start.owner.map(|_| source.owner());
                Inheritance { acl: acl.clone(), owner }
            }
            _ => from_start,
        }
    }

    /// Copies a file to its destination.
    fn copy_one(
        &mut self,
        from: &StorePath,
        found: &Found,
        destination: &Destination<'_>,
        placing: Placing<'_>,
        budget: &TreeBudget<'_>,
        taken: &mut Taken,
    ) -> Result<Option<Relocated>, Refusal> {
        let reader = enfilade_content::read(found.permit(), &found.node)?;
        let Destination { path, directory, name, permit, from_start, replaced } = destination;
        let mut upload = match replaced {
            Some(_) => Upload::create_instead(permit, directory, name, from_start)?,
            None => Upload::create(permit, directory, name, from_start)?,
        };
        self.fill_copy(from, &reader, &mut upload, budget, taken)?;
        let still_there = self.still_there(path, directory);
        let settle = || self.settle(path, directory, destination.touches(), placing.tokens).map(drop);
        match destination.replaced() {
            Some(replaced) => upload.finish_instead(replaced, settle, still_there).map(Some),
            None => upload.finish_if(settle, still_there).map(|_| None),
        }
    }

    /// Fills the copy of a file.
    fn fill_copy(
        &mut self,
        from: &StorePath,
        reader: &Reader,
        upload: &mut Upload,
        budget: &TreeBudget<'_>,
        taken: &mut Taken,
    ) -> Result<(), Refusal> {
        let mut offset = 0;
        // A file that does not fit into the quota is refused before it is copied.
        taken.room_for(reader.bytes())?;
        loop {
            match upload.copy_from(reader, offset, super::PIECE_BYTES)? {
                0 => break,
                copied => offset += copied,
            }
            budget.check()?;
            taken.room_for(offset)?;
            if !self.unchanged() {
                self.find(from, AccessMask::READ_DATA, Blocking)?;
            }
        }
        taken.bytes = taken.bytes.saturating_add(offset);
        Ok(upload.copy_properties(reader)?)
    }

    /// Builds a copy of a directory under a reserved name, and then renames the copy to its final name.
    fn copy_tree(
        &mut self,
        from: &StorePath,
        source: &Found,
        destination: &Destination<'_>,
        placing: Placing<'_>,
        budget: &TreeBudget<'_>,
        taken: &mut Taken,
    ) -> Result<(Option<Relocated>, Vec<FailedMember>), Refusal> {
        let draft = Draft::begin(&destination.permit, &destination.directory, &destination.from_start)?;
        copy_properties(source.permit(), &source.node, draft.node())?;
        let (mut failed, walk) = (Vec::new(), TreeWalk::begin(budget));
        let mut copying = Copying { walk, record: CopyRecord::begin(draft.node()), budget, taken };
        if placing.is_deep {
            let goal = Goal { directory: draft.node().clone(), path: destination.path.clone() };
            self.enter(&mut copying.walk, from, &source.node, goal)?;
            copying.record.enter(from, &source.node);
        }
        while let Some((directory, met)) = copying.walk.next() {
            let member = match met {
                Met::Member(member) => member,
                Met::TooLong(name) => {
                    // The path of the member would be too long, so the answer contains the path of its directory.
                    failed.push(FailedMember::at(directory.path.clone(), Content::TooLong(name.to_string())));
                    continue;
                }
                Met::Unserved | Met::Leave(_) => continue,
                Met::Failed { why, .. } => return Err(why.into()),
            };
            copying.record.meet(&directory.node, &member.name, &member.node);
            match self.copy_member(&member, &directory.carried, &mut copying) {
                Ok(()) => {}
                // If the request has reached its limits or the quota, no further member can be copied. So the copy ends.
                Err(why @ Refusal::Content(Content::TooMuch(_) | Content::OverQuota { .. })) => {
                    return Err(why);
                }
                Err(why) => failed.push(FailedMember::at(member.path, why)),
            }
        }
        self.name_missed(&copying.record, budget, &mut failed)?;
        let still_there = self.still_there(destination.path, &destination.directory);
        let settle = || {
            self.settle(destination.path, &destination.directory, destination.touches(), placing.tokens)
                .map(drop)
        };
        let made = draft.finish(destination.name, destination.replaced(), settle, still_there)?;
        Ok((Some(made), failed))
    }

    /// Copies a file, or creates the copy of a directory and enters the source directory. A hidden member is left out without an error. Every other
    /// refusal is returned.
    fn copy_member(
        &mut self,
        member: &Member<StorePath>,
        goal: &Goal,
        copying: &mut Copying<'_>,
    ) -> Result<(), Refusal> {
        let Member { path, name, node } = member;
        let subject = node.subject();
        let wanted = Wanted::On(AccessMask::READ_DATA);
        let reading = match self.may(&Ask { path, target: &subject, wanted }) {
            Ok(reading) => reading,
            Err(why) if is_hidden(&why) => return Ok(()),
            Err(why) => return Err(why),
        };
        copying.budget.count()?;
        copying.record.copy(path, node)?;
        let too_long = |_| Content::TooLong(name.to_string());
        let (directory, goal) = (&goal.directory, goal.path.join(name).map_err(too_long)?);
        goal.keeps_to(&self.visit.limits()).map_err(too_long)?;
        let (permit, from_start) = self.may_create(&goal, directory, node.kind())?;
        let from_start = self.of_copy(from_start, &subject);
        match node.kind() {
            NodeKind::File => {
                let reader = enfilade_content::read(&reading, node)?;
                let mut upload = Upload::create(&permit, directory, name, &from_start)?;
                self.fill_copy(path, &reader, &mut upload, copying.budget, copying.taken)?;
                upload.finish()?;
            }
            NodeKind::Directory => {
                let (judge, still_there) = (|| Ok::<_, Refusal>(()), || Ok(()));
                let made = enfilade_content::make_collection(
                    &permit,
                    directory,
                    name,
                    &from_start,
                    judge,
                    still_there,
                )?;
                copy_properties(&reading, node, &made)?;
                self.enter(&mut copying.walk, path, node, Goal { directory: made, path: goal })?;
                copying.record.enter(path, node);
            }
        }
        Ok(())
    }
}
