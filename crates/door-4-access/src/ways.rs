//! The way through directories that no role makes visible to the objects on which a principal has a role. It consists only of names in paths on which
//! the principal itself, or a group of it, has a role: nothing that is on the disk is asked.

use crate::memo::{AccessMemo, Ways};
use crate::open::AccessCheck;
use crate::refuse::Refusal;
use crate::roles::admitted_below;
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, RolePath, StorePath};
use enfilade_identity::Principal;

/// The most objects in one datastore to which ways lead.
const ENDS_MAX: usize = 1_000;

/// The paths below a directory on which roles let the principal in, without those below another one of them. Empty if a role makes the directory itself
/// visible.
///
/// # Errors
/// [`Refusal::Facts`] if the stored facts cannot be read.
pub fn ways(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    (datastore, directory): (&DatastoreName, &StorePath),
    memo: &AccessMemo,
) -> Result<Vec<StorePath>, Refusal> {
    let visible = AccessMask::VISIBLE;
    AccessCheck { view: View(view), now, principal, datastore, visible, memo }.ways(directory)
}

impl AccessCheck<'_> {
    pub(crate) fn ways(&self, directory: &StorePath) -> Result<Vec<StorePath>, Refusal> {
        let node = RolePath::of(self.datastore, directory);
        if !self.effective_node(&node).goes_on_below || self.roles(&node)?.lets_in() {
            return Ok(Vec::new());
        }
        let root = RolePath::of(self.datastore, &StorePath::root());
        // Resolved once for the whole datastore, because it reads all of its assignments.
        let key = self.memo.ways_key((self.view.at(), self.now), self.principal, root.as_str());
        let all = match self.memo.ways.get(key) {
            Some(all) => all,
            None => {
                let all = admitted_below(&self.view, self.now, self.principal, root.as_str(), ENDS_MAX)?;
                self.memo.ways.put(key, Ways(all))
            }
        };
        let is_below =
            |end: &&String| end.strip_prefix(node.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let in_store = |end: &String| StorePath::from_plain(end.strip_prefix(root.as_str())?).ok();
        Ok(all.0.iter().filter(is_below).filter_map(in_store).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{Facts, alice, case, path, token_of_alice};

    fn found(facts: &str, directory: &str) -> Vec<String> {
        let facts = Facts::of(facts);
        let ways = case(&facts, &alice(), |check| check.ways(&path(directory)).unwrap());
        ways.iter().map(|end| end.as_str().to_owned()).collect()
    }

    #[test]
    fn only_own_roles_lead_on_and_the_nearest_first() {
        let facts = "/datastore/tank/a/b alice DatastoreReader\n\
                     /datastore/tank/a/b/c alice DatastoreReader\n\
                     /datastore/tank/a!x staff DatastoreReader\n\
                     /datastore/tank/ab bob DatastoreReader\n\
                     /datastore/tank/no alice NoAccess\n\
                     /datastore/tanks/other alice DatastoreReader";
        assert_eq!(found(facts, ""), ["a!x", "a/b"]);
        assert_eq!(found(facts, "a"), ["a/b"]);
        for directory in ["a/b", "a/b/c", "ab", "no", "elsewhere"] {
            assert_eq!(found(facts, directory), [""; 0], "{directory}");
        }
        let with = |more: &str| found(&format!("{facts}\n{more}"), "");
        assert_eq!(with("/datastore/tank staff DatastoreReader"), [""; 0], "the directory itself is visible");
        assert_eq!(with("/datastore/tank alice NoAccess"), ["a!x", "a/b"]);
        // Roles on the directory itself that do not count below it.
        assert_eq!(with("/datastore/tank staff DatastoreReader-"), [""; 0]);
    }

    #[test]
    fn a_token_with_roles_of_its_own_gets_only_the_ways_of_both() {
        let owner = "/datastore/tank/a alice DatastoreReader\n/datastore/tank/b alice DatastoreReader";
        let facts = Facts::of(&format!("{owner}\n/datastore/tank/b test DatastoreReader"));
        let ways = case(&facts, &token_of_alice(), |check| check.ways(&path("")).unwrap());
        assert_eq!(ways, [path("b")]);
    }
}
