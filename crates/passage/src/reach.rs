//! The part of a walk inside a datastore: opening a target, and the questions to door 4 that several verbs ask. If the option `check-traverse` of the
//! datastore is on, door 4 judges every directory above the target. A request, an explanation, a review and the check of a lock's owner all use this
//! code. Door 4 grants a permit to a request. An explanation, a review and the check of a lock's owner get only an answer from door 4.

use crate::house::House;
use crate::refuse::Refusal;
use enfilade_access::{Ask, Creator, Inheritance, NodeKind, Subject, Wanted};
use enfilade_content::{Blocking, Node, Patience, Refusal as Content, Root};
use enfilade_datastore::DatastorePermit;
use enfilade_facts::Read as _;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::StorePath;
use enfilade_identity::Principal;

/// A principal that asks door 4 about objects in a datastore.
pub(crate) trait Inside {
    /// The result that door 4 returns when it grants the right.
    type Granted;

    /// The directory of the datastore.
    fn root(&self) -> &Root;

    /// The rules by which access to the datastore is judged.
    fn rules(&self) -> &AccessRules;

    /// Asks door 4.
    fn ask(&mut self, ask: &Ask<'_>) -> Result<Self::Granted, Refusal>;

    /// The owner of a file that is created with this grant.
    fn creator(&self, granted: &Self::Granted) -> Creator;

    /// Opens the object at a path.
    ///
    /// # Errors
    /// The refusal of door 4 for a directory that the principal may not traverse, or of door 5.
    fn reach<P: Patience>(&mut self, path: &StorePath, patience: P) -> Result<P::Of<Node>, Refusal> {
        if !self.rules().checks_traverse {
            return Ok(self.root().find(path, patience)?);
        }
        P::wait(|| {
            let mut at = StorePath::root();
            let mut node = self.root().find(&at, Blocking)?;
            for name in path.names() {
                self.ask(&Ask { path: &at, target: &node.subject(), wanted: Wanted::Passing })?;
                node = node.child(name)?;
                at = at.join(name).map_err(|_| Content::Absent(path.to_string()))?;
            }
            Ok(node)
        })
    }

    /// Opens the directory that contains or would contain the object at a path. Also returns the object's name.
    ///
    /// # Errors
    /// As [`Inside::reach`]; [`Content::ParentAbsent`] if there is no such directory, [`Content::IsRoot`] for the root.
    fn reach_parent<'p>(&mut self, path: &'p StorePath) -> Result<(Node, &'p str), Refusal> {
        if !self.rules().checks_traverse {
            return Ok(self.root().find_parent(path)?);
        }
        let (above, name) = path.split().ok_or(Content::IsRoot)?;
        match self.reach(&above, Blocking) {
            Ok(node) if node.kind() == NodeKind::Directory => {
                self.ask(&Ask { path: &above, target: &node.subject(), wanted: Wanted::Passing })?;
                Ok((node, name))
            }
            Ok(_) | Err(Refusal::Content(Content::Absent(_) | Content::Special(_))) => {
                Err(Content::ParentAbsent(path.to_string()).into())
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// The object with the name `name` in `directory`; `None` if the name is free. If a link or special file has the name, the call is refused.
    /// Before this refusal, the right to create an object of this kind is checked, as for a hidden object.
    ///
    /// # Errors
    /// The refusal of door 4 or 5, or of door 2 or 3 if that door no longer admits the visitor.
    fn present_or_taken(
        &mut self,
        path: &StorePath,
        directory: &Node,
        name: &str,
        kind: NodeKind,
    ) -> Result<Option<Node>, Refusal> {
        let existing = present(directory.child(name));
        if existing.is_err() {
            self.may_create(path, directory, kind).map_err(Refusal::of_parent(path))?;
        }
        existing
    }

    /// Asks for the right to overwrite a file. If the file is hidden and the principal may not create files, the refusal is the same as for a file
    /// that does not exist.
    ///
    /// # Errors
    /// The refusal of door 4.
    fn may_overwrite(
        &mut self,
        path: &StorePath,
        directory: &Node,
        target: &Node,
    ) -> Result<Self::Granted, Refusal> {
        match self.ask(&Ask { path, target: &target.subject(), wanted: Wanted::Overwrite }) {
            Err(Refusal::Access(hidden)) if hidden.is_of_hidden() => {
                self.may_create(path, directory, NodeKind::File).map_err(Refusal::of_parent(path))?;
                Err(hidden.into())
            }
            may => may,
        }
    }

    /// Asks for the right to create an object at a path. `directory` is the directory that was found for this path. Also returns the owner and ACL
    /// that the object inherits.
    ///
    /// # Errors
    /// The refusal of door 4, also if the object cannot get an inherited ACL.
    fn may_create(
        &mut self,
        path: &StorePath,
        directory: &Node,
        kind: NodeKind,
    ) -> Result<(Self::Granted, Inheritance), Refusal> {
        let above = path.split().map(|(above, _)| above).unwrap_or_default();
        self.may_create_in(&above, directory, kind)
    }

    /// Like [`Inside::may_create`], with the path of the directory instead of the path of the new object.
    ///
    /// # Errors
    /// As [`Inside::may_create`].
    fn may_create_in(
        &mut self,
        path: &StorePath,
        directory: &Node,
        kind: NodeKind,
    ) -> Result<(Self::Granted, Inheritance), Refusal> {
        let subject = directory.subject();
        let granted = self.ask(&Ask { path, target: &subject, wanted: Wanted::Create(kind) })?;
        let creator = self.creator(&granted);
        let from_start = enfilade_access::inherited(&subject, directory.acls(), creator, kind)?;
        Ok((granted, from_start))
    }
}

/// Returns `None` for an absent object. The callers do not treat an absent object as an error.
pub(crate) fn present(node: Result<Node, Content>) -> Result<Option<Node>, Refusal> {
    match node {
        Ok(node) => Ok(Some(node)),
        Err(Content::Absent { .. }) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// A principal that presented no credential. Door 4 answers questions about an onlooker, but grants no permit.
pub(crate) struct Onlooker<'a> {
    pub(crate) house: &'a House,
    pub(crate) principal: &'a Principal,
    pub(crate) datastore: &'a DatastorePermit,
    pub(crate) root: &'a Root,
    /// The last target that door 4 refused.
    pub(crate) refused: Option<(StorePath, Subject)>,
}

impl<'a> Onlooker<'a> {
    pub(crate) fn new(
        house: &'a House,
        principal: &'a Principal,
        (datastore, root): (&'a DatastorePermit, &'a Root),
    ) -> Self {
        Onlooker { house, principal, datastore, root, refused: None }
    }
}

impl Inside for Onlooker<'_> {
    type Granted = ();

    fn root(&self) -> &Root {
        self.root
    }

    fn rules(&self) -> &AccessRules {
        self.datastore.access()
    }

    fn ask(&mut self, ask: &Ask<'_>) -> Result<(), Refusal> {
        let (parts, now) = (&self.house.parts, self.house.now());
        let store = (self.datastore.name(), self.datastore.access());
        let (principal, memo) = (self.principal, &parts.access_memo);
        let asked =
            parts.source.read(|view| enfilade_access::would(view, now, principal, store, ask, memo))?;
        asked.map(drop).map_err(|why| {
            self.refused = Some((ask.path.clone(), ask.target.clone()));
            why.into()
        })
    }

    fn creator(&self, (): &()) -> Creator {
        Creator { sid: self.principal.sid, uid: self.principal.uid }
    }
}
