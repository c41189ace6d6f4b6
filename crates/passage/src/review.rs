//! What many principals may do with everything in a tree: the walk of a request (`walk.rs`, `reach.rs`) for each of them, and door 4 asked
//! about each object. No permit comes of it.

use crate::house::House;
use crate::modes::Review;
use crate::reach::{Inside as _, Onlooker};
use crate::refuse::Refusal;
use enfilade_access::{Ask, NodeKind, Subject, Wanted};
use enfilade_content::{Blocking, LookedAt, Root, list_as_operator};
use enfilade_datastore::DatastorePermit;
use enfilade_facts::Read as _;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, OperationKind, StorePath};
use enfilade_identity::Principal;

/// One object, and what may be done with it.
#[derive(Debug)]
pub struct Reviewed<'r> {
    /// Where it is.
    pub path: &'r StorePath,
    /// What it is.
    pub kind: NodeKind,
    /// What a request of each person is granted on it, in the order they were named: each right as if it were asked for alone. Nothing where
    /// a directory above may not be passed; for what may not be seen, at most to add to a directory and to pass through it.
    pub rights: &'r [AccessMask],
    /// Why nobody may do anything with it, where its ACL cannot be believed.
    pub trouble: Option<&'r str>,
}

/// How many entries are looked at together.
const BATCH: usize = 1024;

impl House {
    /// Tells of a path and of everything beneath it, names in their order, what these people may do with each. Memory grows with the
    /// largest directory and with how deep the tree is. Facts are those of the moment for each object.
    ///
    /// # Errors
    /// When one of the people is not known or may not come in, the store is not there, or a directory cannot be read.
    pub fn review(
        &self,
        people: &[Authid],
        name: &DatastoreName,
        path: &StorePath,
        each: &mut dyn FnMut(&Reviewed<'_>),
    ) -> Result<(), Refusal> {
        let now = self.now();
        let (datastore, ()) = self.enter(&mut Review, name, OperationKind::Read)?;
        let root = Root::open(datastore.root(), datastore.access().acls, self.reserved())?;
        let people = people.iter().map(|authid| self.who_would(authid)).collect::<Result<Vec<_>, _>>()?;
        let onlooker = |principal| Onlooker::new(self, principal, (&datastore, &root));
        let mut onlookers: Vec<_> = people.iter().map(onlooker).collect();
        let top = root.find(path, Blocking)?;
        let passes = who_reaches(&mut onlookers, path)?;
        let parent = match path.is_root() {
            true => None,
            false => Some(root.find_parent(path)?.0.subject()),
        };
        self.review_one(&people, &datastore, (path, &top.subject(), parent.as_ref()), &passes, each)?;
        let mut levels = vec![(path.clone(), top.kind(), passes)];
        while let Some((directory, kind, passes)) = levels.pop() {
            if kind == NodeKind::File {
                continue;
            }
            let (mut listing, subject) = match root.find(&directory, Blocking) {
                Ok(node) => (list_as_operator(&node)?, node.subject()),
                // It went meanwhile.
                Err(enfilade_content::Refusal::Absent(_)) => continue,
                Err(other) => return Err(other.into()),
            };
            let passes = who_passes(&mut onlookers, &directory, &subject, &passes);
            let at = LookedAt { unix_seconds: now.unix_seconds, ..LookedAt::default() };
            let mut names = Vec::new();
            loop {
                let entries = listing.next_batch(BATCH, at)?;
                if entries.is_empty() {
                    break;
                }
                names.extend(entries.into_iter().map(|entry| entry.name));
            }
            names.sort_unstable();
            let mut beneath = Vec::new();
            for entry in names {
                let Ok(path) = directory.join(&entry) else { continue };
                let Some(entry) = listing.look(entry, at)? else { continue };
                let met = (&path, &entry.subject, Some(&subject));
                self.review_one(&people, &datastore, met, &passes, each)?;
                if entry.subject.kind == NodeKind::Directory {
                    beneath.push((path, NodeKind::Directory, passes.clone()));
                }
            }
            levels.extend(beneath.into_iter().rev());
        }
        Ok(())
    }

    fn review_one(
        &self,
        people: &[Principal],
        datastore: &DatastorePermit,
        (path, subject, parent): (&StorePath, &Subject, Option<&Subject>),
        passes: &[bool],
        each: &mut dyn FnMut(&Reviewed<'_>),
    ) -> Result<(), Refusal> {
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
                // The root of a datastore is not deleted through itself.
                let granted = if path.is_root() { granted & !AccessMask::DELETE } else { granted };
                rights.push(if *passes { granted } else { AccessMask::NONE });
            }
        })?;
        each(&Reviewed { path, kind: subject.kind, rights: &rights, trouble: trouble.as_deref() });
        Ok(())
    }
}

/// Which of them a request for this path lets past every directory above it.
fn who_reaches(people: &mut [Onlooker<'_>], path: &StorePath) -> Result<Vec<bool>, Refusal> {
    let reaches = |person: &mut Onlooker<'_>| match person.reach(path, Blocking) {
        Ok(_) => Ok(true),
        Err(Refusal::Access(_)) => Ok(false),
        Err(other) => Err(other),
    };
    people.iter_mut().map(reaches).collect()
}

/// Which of those who reach a directory also pass through it.
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
