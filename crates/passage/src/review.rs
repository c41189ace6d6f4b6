//! Who may do what with everything in a tree, asked of door 4 object by object. No permit comes of it.

use crate::house::House;
use crate::modes::Review;
use crate::reach;
use crate::refuse::Refusal;
use enfilade_access::{Ask, NodeKind, Subject, Wanted};
use enfilade_content::{LookedAt, Root, list_as_operator};
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
        let top = root.find(path)?;
        let passes = self.who_passes(&people, &datastore, &root, path)?;
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
            let (mut listing, subject) = match root.find(&directory) {
                Ok(node) => (list_as_operator(&node)?, node.subject()),
                // It went meanwhile.
                Err(enfilade_content::Refusal::Absent(_)) => continue,
                Err(other) => return Err(other.into()),
            };
            let passes = self.who_passes_on(&people, &datastore, (&directory, &subject), &passes);
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

    /// Which of the people a request of theirs for this path lets past every directory above it.
    fn who_passes(
        &self,
        people: &[Principal],
        datastore: &DatastorePermit,
        root: &Root,
        path: &StorePath,
    ) -> Result<Vec<bool>, Refusal> {
        let passes = |principal| {
            let reached = reach::target(root, datastore.access(), path, &mut |ask| {
                self.would(principal, datastore, ask)
            });
            match reached {
                Ok(_) => Ok(true),
                Err(Refusal::Access(_)) => Ok(false),
                Err(other) => Err(other),
            }
        };
        people.iter().map(passes).collect()
    }

    /// Which of those who come as far as a directory also pass through it.
    fn who_passes_on(
        &self,
        people: &[Principal],
        datastore: &DatastorePermit,
        (path, target): (&StorePath, &Subject),
        passes: &[bool],
    ) -> Vec<bool> {
        if !datastore.access().checks_traverse {
            return passes.to_vec();
        }
        let ask = Ask { path, target, wanted: Wanted::Passing };
        let pass =
            |(principal, passes): (_, &bool)| *passes && self.would(principal, datastore, &ask).is_ok();
        people.iter().zip(passes).map(pass).collect()
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
