//! What is moved inherits anew, where the datastore says so: each object keeps its own entries, and has those its new directory hands on.
//!
//! It takes the right to read the object (READ_DATA, or LIST). Whoever may read it, delete it and make it at its new place could have copied it
//! there and deleted it, and the copy would have inherited the same; whoever may not read it must not come to read it by moving it.

use super::{Left, Level, Met, Work};
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{Ask, NodeKind, SecurityDescriptor, StoredAcl, Wanted, propagated};
use enfilade_content::{Node, Refusal as Content};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

impl Stay {
    /// Lets what was moved, and everything in it, inherit from `directory`. What may not be read, or cannot be changed, keeps its ACL with
    /// everything beneath it; says which and why.
    pub(super) fn inherit_anew(
        &mut self,
        directory: &Node,
        path: &StorePath,
        target: &Node,
        work: &mut Work<'_>,
    ) -> Vec<Left> {
        // Without an ACL a directory hands nothing on.
        let Some(above) = directory.subject().descriptor().ok().flatten() else { return Vec::new() };
        work.again(self);
        let (mut left, mut levels) = (Vec::new(), Vec::new());
        match self.inherit_one(&above, path, target) {
            Ok(below) => levels.extend(below),
            Err(why) => left.push(Left::at(path.clone(), why)),
        }
        while let Some(level) = levels.last_mut() {
            let (path, node) = match level.next() {
                Ok(Met::Member { path, node, .. }) => (path, node),
                Ok(Met::TooDeep(name)) => {
                    left.push(Left::at(level.path.clone(), Content::TooLong(name.to_string())));
                    continue;
                }
                Ok(Met::Other) => continue,
                Ok(Met::End) => {
                    let _ = levels.pop();
                    continue;
                }
                Err(why) => {
                    left.push(Left::at(level.path.clone(), why));
                    let _ = levels.pop();
                    continue;
                }
            };
            if let Err(why) = work.go_on(self).and_then(|()| work.count()) {
                left.push(Left::at(path, why));
                break;
            }
            let above = level.carried.clone();
            match self.inherit_one(&above, &path, &node) {
                Ok(below) => levels.extend(below),
                Err(why) => left.push(Left::at(path, why)),
            }
        }
        left
    }

    /// One object; what is beneath it is next, unless it is protected from what is above.
    fn inherit_one(
        &mut self,
        above: &SecurityDescriptor,
        path: &StorePath,
        node: &Node,
    ) -> Result<Option<Level<SecurityDescriptor>>, Refusal> {
        let subject = node.subject();
        let bad = |why: enfilade_access::BadAcl| {
            let why = why.to_string();
            Refusal::from(enfilade_access::Refusal::AclDamaged { path: path.clone(), why })
        };
        let before = subject.descriptor_to_inherit(node.acls()).map_err(bad)?;
        let Some(after) = propagated(above, before.as_ref(), subject.kind) else { return Ok(None) };
        let permit = self.may(&Ask { path, target: &subject, wanted: Wanted::On(AccessMask::READ_DATA) })?;
        // Begun before its ACL changes, which may keep the visitor from listing it.
        let below = match subject.kind {
            NodeKind::Directory => Some(Level::begin(self, path.clone(), node.clone(), after.clone())?),
            NodeKind::File => None,
        };
        // Where the mode bits rule and nothing is handed on, they go on ruling.
        let has_none =
            subject.acl == StoredAcl::Absent && after.dacl.as_ref().is_none_or(|entries| entries.is_empty());
        if !has_none && subject.descriptor().map_err(bad)?.as_ref() != Some(&after) {
            let blob = after.written(node.acls(), subject.owner()).map_err(bad)?;
            enfilade_content::set_inherited_acl(&permit, node, &blob)?;
        }
        Ok(below)
    }
}
