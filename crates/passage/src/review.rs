//! Reviews: the rights of many principals on all objects of a tree. A review goes through the doors like a request (`walk.rs`, `reach.rs`) for each
//! principal, and asks door 4 about each object. Door 4 grants no permit for a review.

use crate::house::House;
use crate::modes::Review;
use crate::reach::{Inside as _, Onlooker};
use crate::refuse::Refusal;
use enfilade_access::{Ask, NodeKind, Subject, Wanted};
use enfilade_content::{Blocking, Failed, Member, Met, Root, TreeBudget, TreeWalk};
use enfilade_datastore::DatastorePermit;
use enfilade_facts::Read as _;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, OperationKind, StorePath};
use enfilade_identity::{Principal, Refusal as IdentityRefusal};
use std::ops::ControlFlow;

/// One object, and the rights of each principal on it.
#[derive(Debug)]
pub struct Reviewed<'r> {
    /// The path of the object.
    pub path: &'r StorePath,
    /// The kind of the object.
    pub kind: NodeKind,
    /// For each principal, in the order of `people`, the rights on the object. A right is included if a request for only this right would be granted.
    /// There are no rights if the principal may not traverse a directory above the object. If the object is hidden from the principal, the rights of
    /// the principal are at most the rights to add entries to a directory and to traverse it.
    pub rights: &'r [AccessMask],
    /// The reason why the rights could not be determined, for example damage in the ACL of the object; `None` if there was no error. After an error,
    /// only principals with a role that skips ACLs have rights on the object.
    pub trouble: Option<&'r str>,
}

impl House {
    /// The principals of a list that are not disabled, expired or inactive, and are in an enabled domain. The others have no rights, so a review of
    /// everybody leaves them out.
    ///
    /// # Errors
    /// The other refusals of door 2, for example if `user.cfg` cannot be read: then it is not known which rights its users have.
    pub fn who_can_log_in(&self, people: Vec<Authid>) -> Result<Vec<Authid>, Refusal> {
        let mut accepted = Vec::with_capacity(people.len());
        for authid in people {
            match self.who_would(&authid, None) {
                Ok(_) => accepted.push(authid),
                Err(Refusal::Identity(
                    IdentityRefusal::Disabled { .. } | IdentityRefusal::Expired { .. },
                )) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(accepted)
    }

    /// Calls `each` for the object at a path and for everything beneath it: for all members of a directory, sorted by name, and after that for the
    /// members of each subdirectory. `each` gets the rights of the principals in `people`. The memory that a review needs grows with the size of the
    /// largest directory and with the depth of the tree. Each object is judged on the newest facts at the moment when the review reaches it. The
    /// review ends early if `each` returns `Break`.
    ///
    /// # Errors
    /// When a principal is unknown or cannot log in, when the datastore does not exist, or when a directory cannot be read.
    pub fn review(
        &self,
        people: &[Authid],
        name: &DatastoreName,
        path: &StorePath,
        each: &mut dyn FnMut(&Reviewed<'_>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        let (datastore, ()) = self.enter(&mut Review, name, OperationKind::Read)?;
        let root = Root::open(datastore.root(), datastore.access().acls, self.reserved())?;
        let people =
            people.iter().map(|authid| self.who_would(authid, None)).collect::<Result<Vec<_>, _>>()?;
        let onlooker = |principal| Onlooker::new(self, principal, (&datastore, &root));
        let mut onlookers: Vec<_> = people.iter().map(onlooker).collect();
        let top = root.find(path, Blocking)?;
        let passes = who_reaches(&mut onlookers, path)?;
        let parent = match path.is_root() {
            true => None,
            false => Some(root.find_parent(path)?.0.subject()),
        };
        if self
            .review_one(&people, &datastore, (path, &top.subject(), parent.as_ref()), &passes, each)?
            .is_break()
        {
            return Ok(());
        }
        // Each subdirectory is opened again for the listing of its members. So the review does not keep all subdirectories open.
        let (budget, mut further) = (TreeBudget::unlimited(), Vec::new());
        if top.kind() == NodeKind::Directory {
            further.push((path.clone(), passes));
        }
        while let Some((path, passes)) = further.pop() {
            let directory = match root.find(&path, Blocking) {
                Ok(node) => node,
                // The directory was removed after its name was read.
                Err(enfilade_content::Refusal::Absent(_)) => continue,
                Err(other) => return Err(other.into()),
            };
            let above = directory.subject();
            let passes = who_passes(&mut onlookers, &path, &above, &passes);
            let (mut walk, mut beneath) = (TreeWalk::begin(&budget), Vec::new());
            walk.enter_as_operator(path, directory, ())?;
            walk.sort()?;
            while let Some((_, met)) = walk.next() {
                match met {
                    Met::Member(Member { path, node, .. }) => {
                        let met = (&path, &node.subject(), Some(&above));
                        if self.review_one(&people, &datastore, met, &passes, each)?.is_break() {
                            return Ok(());
                        }
                        if node.kind() == NodeKind::Directory {
                            beneath.push((path, passes.clone()));
                        }
                    }
                    Met::Failed { what: Failed::Directory, why, .. } => return Err(why.into()),
                    Met::Failed { .. } | Met::TooLong(_) | Met::Unserved | Met::Leave(_) => {}
                }
            }
            further.extend(beneath.into_iter().rev());
        }
        Ok(())
    }

    fn review_one(
        &self,
        people: &[Principal],
        datastore: &DatastorePermit,
        (path, subject, parent): (&StorePath, &Subject, Option<&Subject>),
        passes: &[bool],
        each: &mut dyn FnMut(&Reviewed<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Refusal> {
        let (now, memo) = (self.now(), &self.parts.access_memo);
        let store = (datastore.name(), datastore.access());
        let (mut rights, mut trouble) = (Vec::with_capacity(people.len()), None);
        self.parts.source.read(|view| {
            for (principal, passes) in people.iter().zip(passes) {
                let met = (path, subject, parent);
                let granted = enfilade_access::rights(view, now, principal, store, met, memo);
                let granted = granted.unwrap_or_else(|why| {
                    trouble = Some(why.to_string());
                    AccessMask::NONE
                });
                // No request can delete the root of a datastore.
                let granted = if path.is_root() { granted & !AccessMask::DELETE } else { granted };
                rights.push(if *passes { granted } else { AccessMask::NONE });
            }
        })?;
        Ok(each(&Reviewed { path, kind: subject.kind, rights: &rights, trouble: trouble.as_deref() }))
    }
}

/// For each principal, whether the principal may traverse every directory above the path.
fn who_reaches(people: &mut [Onlooker<'_>], path: &StorePath) -> Result<Vec<bool>, Refusal> {
    let reaches = |person: &mut Onlooker<'_>| match person.reach(path, Blocking) {
        Ok(_) => Ok(true),
        Err(Refusal::Access(_)) => Ok(false),
        Err(other) => Err(other),
    };
    people.iter_mut().map(reaches).collect()
}

/// For each principal, whether the principal may traverse the directory and every directory above it.
fn who_passes(
    people: &mut [Onlooker<'_>],
    path: &StorePath,
    directory: &Subject,
    reaches: &[bool],
) -> Vec<bool> {
    let ask = Ask { path, target: directory, wanted: Wanted::Passing };
    let passes = |(person, reaches): (&mut Onlooker<'_>, &bool)| {
        *reaches && (!person.rules().checks_traverse || person.ask(&ask).is_ok())
    };
    people.iter_mut().zip(reaches).map(passes).collect()
}
