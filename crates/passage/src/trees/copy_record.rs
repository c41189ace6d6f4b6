//! The record of the members that a copy found in its source. Other clients can rename members while the copy runs. If a member moves from a
//! directory that is not yet read to a directory that is already read, the copy misses the member. If a member moves from a directory that is already
//! read to a directory that is not yet read, the copy finds the member twice. So each directory is read a second time at the end. The answer lists
//! the members that this second reading finds and that were not copied.

use super::{FailedMember, is_hidden};
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{Ask, NodeKind, ObjectId, Subject, Wanted};
use enfilade_content::{
    Blocking, Failed, Listing, Member, Met, Node, Refusal as Content, TreeBudget, TreeWalk,
};
use enfilade_facts::vocabulary::{AccessMask, PathRefused, StorePath};
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

pub(super) struct CopyRecord {
    hasher: RandomState,
    /// A hash for every entry that was found. The hash is computed from the directory, the name and the object.
    met: HashSet<u64>,
    copied: HashSet<ObjectId>,
    directories: Vec<(StorePath, ObjectId)>,
    /// The time at which the copy began, by the clock of its file system, in seconds and nanoseconds.
    began: Option<(i64, u32)>,
}

impl CopyRecord {
    pub(super) fn begin(draft: &Node) -> Self {
        CopyRecord {
            hasher: RandomState::new(),
            met: HashSet::new(),
            copied: HashSet::new(),
            directories: Vec::new(),
            began: draft.meta().born,
        }
    }

    /// Records a directory that is to be copied together with its entries.
    pub(super) fn enter(&mut self, path: &StorePath, directory: &Node) {
        self.directories.push((path.clone(), directory.object()));
    }

    fn entry(&self, directory: &Node, name: &str, node: &Node) -> u64 {
        self.hasher.hash_one((directory.object(), name, node.object()))
    }

    pub(super) fn meet(&mut self, directory: &Node, name: &str, node: &Node) {
        let entry = self.entry(directory, name, node);
        self.met.insert(entry);
    }

    /// Records a member that is to be copied.
    ///
    /// # Refuses
    /// [`Content::ChangedMeanwhile`] if the object was copied already, under an earlier name. A file with several hard links may be copied several
    /// times.
    pub(super) fn copy(&mut self, path: &StorePath, node: &Node) -> Result<(), Content> {
        let has_many_names = node.kind() == NodeKind::File && node.meta().links > 1;
        match self.copied.insert(node.object()) || has_many_names {
            true => Ok(()),
            false => Err(Content::ChangedMeanwhile(path.to_string())),
        }
    }

    /// Whether an entry is missing from the copy. An entry is missing if all of these are true: the entry is not newer than the copy, was not found
    /// under this name, and was not copied under another name.
    fn misses(&self, directory: &Node, name: &str, node: &Node) -> bool {
        let is_younger = self.began.zip(node.meta().born).is_some_and(|(began, born)| born > began);
        !is_younger
            && !self.met.contains(&self.entry(directory, name, node))
            && !self.copied.contains(&node.object())
    }
}

impl Stay {
    /// Adds to `failed` the members of the source that were not copied, and the entries with names that no path can contain. Members and entries that
    /// the visitor may not see are left out.
    ///
    /// # Errors
    /// When the budget is used up, or door 2 or 3 no longer admits the visitor.
    pub(super) fn name_missed(
        &mut self,
        record: &CopyRecord,
        budget: &TreeBudget<'_>,
        failed: &mut Vec<FailedMember>,
    ) -> Result<(), Refusal> {
        for (path, object) in &record.directories {
            budget.check()?;
            let mut walk = TreeWalk::begin(budget);
            let entered = self.root.find(path, Blocking).map_err(Refusal::from).and_then(|node| {
                match node.object() == *object {
                    true => self.enter(&mut walk, path, &node, ()),
                    false => Err(Content::ChangedMeanwhile(path.to_string()).into()),
                }
            });
            // The answer does not contain the reason why the directory cannot be read, because the path may lead to another directory now.
            if entered.is_err() {
                failed.push(FailedMember::at(path.clone(), Content::ChangedMeanwhile(path.to_string())));
            }
            while let Some((directory, met)) = walk.next() {
                match met {
                    Met::Member(Member { path, name, node }) => {
                        if record.misses(&directory.node, &name, &node)
                            && self.is_seen(&path, &node.subject())?
                        {
                            let why = Content::ChangedMeanwhile(path.to_string());
                            failed.push(FailedMember::at(path, why));
                        }
                    }
                    Met::TooLong(_) | Met::Unserved => {}
                    Met::Failed { what: Failed::Budget, why, .. } => return Err(why.into()),
                    // Door 4 was not asked whether the visitor may know the entry. So the answer contains the path of the directory, and not the path
                    // of the entry.
                    Met::Failed { why, .. } => failed.push(FailedMember::at(directory.path.clone(), why)),
                    Met::Leave(listing) => self.name_unspelled(&listing, path, budget, failed)?,
                }
            }
        }
        Ok(())
    }

    /// Adds to `failed` every entry of `listing` that the visitor may see and that has a name which no path can contain, for example a name that is
    /// not UTF-8.
    fn name_unspelled(
        &mut self,
        listing: &Listing,
        path: &StorePath,
        budget: &TreeBudget<'_>,
        failed: &mut Vec<FailedMember>,
    ) -> Result<(), Refusal> {
        listing.each_unspelled(|name, subject| {
            budget.check()?;
            // No role can be assigned on a name that no path can contain. So door 4 judges the entry under a substitute name, on which no role is
            // assigned.
            let Ok(stand_in) = path.join(&"\u{fffd}".repeat(3)) else { return Ok(()) };
            if self.is_seen(&stand_in, subject)? {
                budget.count()?;
                let said = String::from_utf8_lossy(name).into_owned();
                let why = Content::BadName { name: said, why: PathRefused::Character };
                failed.push(FailedMember {
                    path: path.clone(),
                    unspelled: Some(name.into()),
                    why: why.into(),
                });
            }
            Ok(())
        })
    }

    fn is_seen(&mut self, path: &StorePath, target: &Subject) -> Result<bool, Refusal> {
        match self.may(&Ask { path, target, wanted: Wanted::On(AccessMask::READ_DATA) }) {
            Err(why) if is_hidden(&why) => Ok(false),
            Ok(_) | Err(Refusal::Access(_)) => Ok(true),
            Err(why) => Err(why),
        }
    }
}
