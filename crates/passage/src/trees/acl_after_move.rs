//! Inheritance after a MOVE, or after an object was restored from the trash. In a datastore with `moved_inherits`, the moved tree inherits ACL
//! entries from its new directory (`door-5-content/src/acl_propagation.rs`).

use super::FailedMember;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{Ask, PropagationBy, PropagationPermit, Subject, Wanted};
use enfilade_content::{Node, Outcome, Propagator, TreeBudget};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

/// A request that moved a tree, and the members that failed to inherit an ACL.
struct Mover<'s> {
    stay: &'s mut Stay,
    failed: Vec<FailedMember>,
}

impl Propagator<StorePath> for Mover<'_> {
    type Refusal = Refusal;

    fn permit(&mut self, path: &StorePath, target: &Subject) -> Result<PropagationPermit, Refusal> {
        let permit = self.stay.may(&Ask { path, target, wanted: Wanted::On(AccessMask::READ_DATA) })?;
        Ok(PropagationPermit::new(PropagationBy::Mover(&permit)))
    }

    fn tell(&mut self, path: StorePath, outcome: Outcome<Refusal>) {
        match outcome {
            Outcome::Changed | Outcome::Same | Outcome::Protected => {}
            Outcome::Damaged(why) | Outcome::Inexpressible(why) => {
                let why = enfilade_access::Refusal::AclDamaged { path: path.clone(), why: why.to_string() };
                self.failed.push(FailedMember::at(path, why));
            }
            Outcome::Refused(why) => self.failed.push(FailedMember::at(path, why)),
            // Door 4 was not asked whether the visitor may know this path. So the answer contains the path of the directory instead.
            Outcome::Unopened(why) => {
                let directory = path.split().map(|(directory, _)| directory).unwrap_or_default();
                self.failed.push(FailedMember::at(directory, why));
            }
        }
    }
}

impl Stay {
    /// Lets the moved object and everything in it inherit from `directory`. Returns the members that failed to inherit an ACL, and the reasons. A
    /// member that failed to inherit keeps its ACL, and everything beneath this member keeps its ACLs.
    pub(super) fn inherit_anew(
        &mut self,
        directory: &Node,
        path: &StorePath,
        target: &Node,
        budget: &TreeBudget<'_>,
    ) -> Vec<FailedMember> {
        // If a directory has no ACL, there are no entries to inherit.
        let Some(above) = directory.subject().descriptor().ok().flatten() else { return Vec::new() };
        budget.renew();
        let mut mover = Mover { stay: self, failed: Vec::new() };
        enfilade_content::propagate_acl(&above, (path.clone(), target.clone()), budget, &mut mover);
        mover.failed
    }
}
