//! Access-based enumeration: a listing shows exactly what the visitor would be let see, asked one by one.

use crate::ask::Subject;
use crate::memo::AccessMemo;
use crate::open::Case;
use crate::refuse::Refusal;
use crate::view::View;
use enfilade_datastore::DatastorePermit;
use enfilade_facts::Now;
use enfilade_facts::vocabulary::{AccessMask, RolePath, StorePath};
use enfilade_identity::IdentityPermit;

/// Which of the children of a directory the visitor may see, in their order. What cannot be judged is not seen.
///
/// # Errors
/// When the facts cannot be read.
pub fn see(
    view: &enfilade_facts::View<'_>,
    now: Now,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    directory: &StorePath,
    children: &[(&str, &Subject)],
    memo: &AccessMemo,
) -> Result<Vec<bool>, Refusal> {
    let (principal, datastore) = (identity.principal(), datastore.name());
    let case = Case { view: View(view), now, principal, datastore, memo };
    case.see(directory, children)
}

impl Case<'_> {
    pub(crate) fn see(
        &self,
        directory: &StorePath,
        children: &[(&str, &Subject)],
    ) -> Result<Vec<bool>, Refusal> {
        let here = RolePath::of(self.datastore, directory);
        // Children on whom nobody has a role of their own all have the same roles.
        let same = self.roles_below(&here)?;
        let some_differ = self.view.is_assigned_below(here.as_str())?;
        let mut seen = Vec::with_capacity(children.len());
        for (name, subject) in children {
            let Ok(path) = directory.join(name) else {
                seen.push(false);
                continue;
            };
            let mut roles = None;
            if some_differ {
                let child = RolePath::of(self.datastore, &path);
                if self.view.is_assigned(child.as_str())? {
                    roles = Some(self.roles(&child)?);
                }
            }
            let roles = roles.as_ref().unwrap_or(&same);
            // Without a role that shows it the ACL need not be looked at.
            let visible = roles.rights(subject.kind).covers(AccessMask::VISIBLE)
                && match self.granted_by(roles, &path, subject) {
                    Ok(granted) => granted.covers(AccessMask::VISIBLE),
                    Err(Refusal::AclDamaged { .. }) => false,
                    Err(other) => return Err(other),
                };
            seen.push(visible);
        }
        Ok(seen)
    }
}
