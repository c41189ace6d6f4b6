//! Who may do what with everything in a tree, asked of door 4 object by object. No permit comes of it.

use crate::house::House;
use crate::refuse::Refusal;
use enfilade_access::{NodeKind, Subject};
use enfilade_content::{LookedAt, Root, list_as_operator};
use enfilade_datastore::{Ask as DatastoreAsk, DatastorePermit, Standing};
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
    /// What each person may do with it, in the order they were named; nothing for those for whom it is not there.
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
        let (now, mounts) = (self.now(), self.mounts());
        let ask = DatastoreAsk { name, kind: OperationKind::Read, standing: Standing::Entering };
        let record = self.parts.source.read(|view| self.stores.record(view, name))??;
        let datastore = enfilade_datastore::open(&record, now, &mounts, &ask)?;
        let root = Root::open(datastore.root(), datastore.access().acls)?;
        let who_would = |authid: &Authid| -> Result<Principal, Refusal> {
            let memo = &self.parts.identity_memo;
            Ok(self.parts.source.read(|view| enfilade_identity::who_would(view, now, authid, memo))??)
        };
        let people: Vec<Principal> = people.iter().map(who_would).collect::<Result<_, _>>()?;
        let top = root.find(path)?;
        self.review_one(&people, &datastore, path, &top.subject(), each)?;
        let mut levels = vec![(path.clone(), top.kind())];
        while let Some((directory, kind)) = levels.pop() {
            if kind == NodeKind::File {
                continue;
            }
            let mut listing = match root.find(&directory) {
                Ok(node) => list_as_operator(&node)?,
                // It went meanwhile.
                Err(enfilade_content::Refusal::Absent(_)) => continue,
                Err(other) => return Err(other.into()),
            };
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
                self.review_one(&people, &datastore, &path, &entry.subject, each)?;
                if entry.subject.kind == NodeKind::Directory {
                    beneath.push((path, NodeKind::Directory));
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
        path: &StorePath,
        subject: &Subject,
        each: &mut dyn FnMut(&Reviewed<'_>),
    ) -> Result<(), Refusal> {
        let (now, memo) = (self.now(), &self.parts.access_memo);
        let store = (datastore.name(), datastore.access());
        let (mut rights, mut trouble) = (Vec::with_capacity(people.len()), None);
        self.parts.source.read(|view| {
            for principal in people {
                let granted = enfilade_access::rights(view, now, principal, store, path, subject, memo);
                let granted = granted.unwrap_or_else(|why| {
                    trouble = Some(why.to_string());
                    AccessMask::NONE
                });
                rights.push(granted);
            }
        })?;
        each(&Reviewed { path, kind: subject.kind, rights: &rights, trouble: trouble.as_deref() });
        Ok(())
    }
}
