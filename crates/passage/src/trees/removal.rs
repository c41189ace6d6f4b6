//! DELETE: member by member, each judged in the turn in which it goes.

use super::{Left, Level, Met, Work, is_hidden, is_within};
use crate::reach::Inside as _;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{AccessPermit, NodeKind};
use enfilade_content::{LockToken, Node, Refusal as Content, Touches};
use enfilade_facts::vocabulary::StorePath;

/// What is deleted once it is empty.
struct Going {
    directory: Node,
    name: String,
    permit: AccessPermit,
    /// Something in it stays.
    keeps: bool,
}

/// A member and where it stands.
struct Member<'m> {
    path: &'m StorePath,
    directory: &'m Node,
    name: &'m str,
    node: &'m Node,
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
        let target = self.child_or_alike(path, &directory, name)?;
        let permit = self.may_delete(path, &directory, &target)?;
        self.unless_locked(path, Touches::Entry, tokens)?;
        let member = Member { path, directory: &directory, name, node: &target };
        if target.kind() == NodeKind::File {
            return self.remove(&permit, &member, tokens).map(|()| Vec::new());
        }
        let level = match Level::begin(self, path.clone(), target.clone(), ()) {
            Ok(level) => level,
            // What may not be listed may be deleted where it is empty.
            Err(refusal) if is_listing_refused(&refusal) => {
                return self.remove(&permit, &member, tokens).map(|()| Vec::new());
            }
            Err(refusal) => return Err(refusal),
        };
        let going = Going { directory, name: name.to_owned(), permit, keeps: false };
        self.delete_members((level, going), tokens, is_wanted)
    }

    fn delete_members(
        &mut self,
        top: (Level<()>, Going),
        tokens: &[LockToken],
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<Left>, Refusal> {
        let mut work = Work::begin(self, is_wanted);
        let (mut left, mut levels) = (Vec::new(), vec![top]);
        while let Some((level, going)) = levels.last_mut() {
            let (path, name, node) = match level.next()? {
                Met::Member { path, name, node } => (path, name, node),
                Met::Other | Met::TooDeep(_) => {
                    going.keeps = true;
                    continue;
                }
                Met::End => {
                    if let Some((level, going)) = levels.pop() {
                        let stays = self.finish_deletion(&level, &going, tokens, &mut left)?;
                        levels.last_mut().into_iter().for_each(|(_, above)| above.keeps |= stays);
                    }
                    continue;
                }
            };
            if let Err(why) = work.go_on(self) {
                left.push(Left::at(path, why));
                break;
            }
            let permit = self.may_delete(&path, &level.node, &node);
            let is_seen = !permit.as_ref().is_err_and(is_hidden);
            if is_seen && let Err(why) = work.count() {
                left.push(Left::at(path, why));
                break;
            }
            let deleted = permit.and_then(|permit| match node.kind() {
                NodeKind::File => {
                    let member = Member { path: &path, directory: &level.node, name: &name, node: &node };
                    self.remove(&permit, &member, tokens).map(|()| None)
                }
                NodeKind::Directory => {
                    self.unless_locked(&path, Touches::Entry, tokens)?;
                    let below = Level::begin(self, path.clone(), node.clone(), ())?;
                    Ok(Some((below, Going { directory: level.node.clone(), name, permit, keeps: false })))
                }
            });
            match deleted {
                Ok(None) => {}
                Ok(Some(below)) => levels.push(below),
                // Nothing is gone yet, so all of it stays.
                Err(why @ Refusal::Content(Content::Unmet)) => return Err(why),
                Err(why) => {
                    going.keeps = true;
                    if !is_hidden(&why) {
                        left.push(Left::at(path, why));
                    }
                }
            }
        }
        Ok(left)
    }

    /// Deletes one file or empty directory, and ends the locks that were on it.
    fn remove(
        &mut self,
        permit: &AccessPermit,
        member: &Member<'_>,
        tokens: &[LockToken],
    ) -> Result<(), Refusal> {
        let Member { path, directory, name, node } = member;
        let mut own = Vec::new();
        let removed = enfilade_content::delete(permit, directory, name, node, || {
            own = self.settle(path, directory, Touches::Entry, tokens)?;
            Ok::<_, Refusal>(())
        });
        match removed {
            Ok(()) => self.fill.freed(node.content_bytes()),
            // Somebody else has removed it, or given it another name.
            Err(Refusal::Content(Content::ChangedMeanwhile(_)))
                if self.unmoved(path, directory).is_ok()
                    && matches!(directory.child(name), Err(Content::Absent(_))) => {}
            Err(why) => return Err(why),
        }
        self.end_locks(path, &own);
        Ok(())
    }

    /// Deletes a directory whose members are gone; says whether it stays.
    ///
    /// # Errors
    /// [`Content::Unmet`]; nothing is deleted then.
    fn finish_deletion(
        &mut self,
        level: &Level<()>,
        going: &Going,
        tokens: &[LockToken],
        left: &mut Vec<Left>,
    ) -> Result<bool, Refusal> {
        if !going.keeps {
            let (path, directory) = (&level.path, &going.directory);
            let member = Member { path, directory, name: &going.name, node: &level.node };
            match self.remove(&going.permit, &member, tokens) {
                Ok(()) => return Ok(false),
                Err(why @ Refusal::Content(Content::Unmet)) => return Err(why),
                Err(why) => left.push(Left::at(level.path.clone(), why)),
            }
            return Ok(true);
        }
        // Members that stay are named; where none may be named, what they are in is.
        let is_told = left.iter().any(|left| is_within(&left.path, &level.path));
        if !is_told {
            let why = Content::NotEmpty(level.path.to_string());
            left.push(Left::at(level.path.clone(), why));
        }
        Ok(true)
    }
}

fn is_listing_refused(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Access(access) if !access.looks_absent())
}
