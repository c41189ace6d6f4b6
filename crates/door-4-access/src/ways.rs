//! Ways: how a principal gets to the objects on which the principal has a role, through directories that no role makes visible. The names on a way
//! come only from the paths on which roles are assigned to the principal or the principal's groups. The disk is not read.

use crate::memo::{AccessMemo, Ends};
use crate::open::AccessCheck;
use crate::refuse::Refusal;
use crate::roles::admitted_below;
use crate::view::View;
use enfilade_facts::Clocks;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{DatastoreName, RolePath, StorePath};
use enfilade_identity::Principal;

/// The maximum number of objects in one datastore to which ways lead.
const ENDS_MAX: usize = 1_000;

/// The objects to which ways lead from a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The paths on which roles give the principal access, in the order of the paths. If one of these paths is below another of these paths, only the
    /// upper path is in the list.
    pub ends: Vec<StorePath>,
    /// Whether `ends` is incomplete: roles give the principal access on further paths below the directory.
    pub is_cut: bool,
}

/// Whether there can be ways from a directory. There are no ways if a role makes the directory itself visible. If the datastore checks the traverse
/// right, there are also no ways, because a principal without a role on the directory cannot reach anything below the directory. The check takes the
/// time of a few lookups in the memo.
///
/// # Errors
/// [`Refusal::Facts`] if the stored facts cannot be read.
pub fn may_lead_on(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    directory: &StorePath,
    memo: &AccessMemo,
) -> Result<bool, Refusal> {
    match check(view, now, principal, (datastore, rules), memo) {
        Some(check) => check.may_lead_on(directory),
        None => Ok(false),
    }
}

/// The ways from a directory. The result is empty if [`may_lead_on`] returns false. If the memo does not contain the ways, this function reads all
/// role assignments in the datastore. The time depends only on the principal and on the number of assignments, and not on the directory.
///
/// # Errors
/// [`Refusal::Facts`] if the stored facts cannot be read.
pub fn ways(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    directory: &StorePath,
    memo: &AccessMemo,
) -> Result<Ways, Refusal> {
    match check(view, now, principal, (datastore, rules), memo) {
        Some(check) => check.ways(directory),
        None => Ok(Ways::default()),
    }
}

/// The check of the principal's rights in a datastore, with which the ways are computed. `None` if the datastore checks the traverse right, because
/// then there are no ways in the datastore.
fn check<'c>(
    view: &'c enfilade_facts::View<'c>,
    now: Clocks,
    principal: &'c Principal,
    (datastore, rules): (&'c DatastoreName, &'c AccessRules),
    memo: &'c AccessMemo,
) -> Option<AccessCheck<'c>> {
    let visible = rules.visible;
    let check = AccessCheck { view: View(view), now, principal, datastore, visible, memo };
    (!rules.checks_traverse).then_some(check)
}

impl AccessCheck<'_> {
    fn may_lead_on(&self, directory: &StorePath) -> Result<bool, Refusal> {
        Ok(!self.roles(&RolePath::of(self.datastore, directory))?.lets_in())
    }

    pub(crate) fn ways(&self, directory: &StorePath) -> Result<Ways, Refusal> {
        if !self.may_lead_on(directory)? {
            return Ok(Ways::default());
        }
        let root = RolePath::of(self.datastore, &StorePath::root());
        // The paths to which ways lead are computed once for the whole datastore, because this computation reads all role assignments in the
        // datastore.
        let key = self.memo.ends_key((self.view.at(), self.now), self.principal, root.as_str());
        let all = match self.memo.ends.get(key) {
            Some(all) => all,
            None => {
                // The search asks for one path more than `ENDS_MAX`. If it finds this path, `ends` does not contain all paths.
                let all = admitted_below(&self.view, self.now, self.principal, root.as_str(), ENDS_MAX + 1)?;
                self.memo.ends.put(key, Ends(all))
            }
        };
        let prefix = format!("{}/", RolePath::of(self.datastore, directory));
        let in_store = |end: &String| StorePath::from_plain(end.strip_prefix(root.as_str())?).ok();
        let first = all.0.partition_point(|end| *end < prefix);
        let below = all.0.iter().take(ENDS_MAX).skip(first).take_while(|end| end.starts_with(&prefix));
        let is_cut = all.0.get(ENDS_MAX).is_some_and(|end| end.starts_with(&prefix));
        Ok(Ways { ends: below.filter_map(in_store).collect(), is_cut })
    }
}

#[cfg(test)]
mod tests {
    use super::ENDS_MAX;
    use crate::tests::{Facts, NOW, alice, case, memo, path, token_of_alice};
    use enfilade_facts::tables::AccessRules;
    use enfilade_facts::vocabulary::{DatastoreName, ProjectId, StorePath};
    use enfilade_identity::{Principal, Reach};

    fn found(facts: &str, directory: &str) -> Vec<String> {
        let facts = Facts::of(facts);
        let ways = case(&facts, &alice(), |check| check.ways(&path(directory)).unwrap());
        assert!(!ways.is_cut);
        ways.ends.iter().map(|end| end.as_str().to_owned()).collect()
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
        // The roles on the directory itself do not count below the directory.
        assert_eq!(with("/datastore/tank staff DatastoreReader-"), [""; 0]);
    }

    #[test]
    fn a_token_with_roles_of_its_own_gets_only_the_ways_of_both() {
        let owner = "/datastore/tank/a alice DatastoreReader\n/datastore/tank/b alice DatastoreReader";
        let facts = Facts::of(&format!("{owner}\n/datastore/tank/b test DatastoreReader"));
        let ways = case(&facts, &token_of_alice(), |check| check.ways(&path("")).unwrap());
        assert_eq!(ways.ends, [path("b")]);
    }

    #[test]
    fn a_credential_on_whose_paths_no_role_counts_gets_no_ways() {
        let facts = Facts::of("/datastore/tank/a alice DatastoreReader");
        let project = ProjectId::from_bytes([5; 16]);
        for (reach, ends) in [
            (Reach::Everything, &["a"][..]),
            (Reach::Nothing, &[]),
            (Reach::Project { project, roles: vec!["reader".to_owned()] }, &[]),
        ] {
            let principal = Principal { reach, ..alice() };
            let ways = case(&facts, &principal, |check| check.ways(&path("")).unwrap());
            assert_eq!(ways.ends.iter().map(StorePath::as_str).collect::<Vec<_>>(), ends);
        }
    }

    #[test]
    fn a_datastore_that_checks_traverse_has_no_ways() {
        let facts = Facts::of("/datastore/tank/a alice DatastoreReader");
        let view = enfilade_facts::View::new(&facts);
        let (principal, memo) = (alice(), memo());
        let tank: DatastoreName = "tank".parse().unwrap();
        for checks_traverse in [false, true] {
            let rules = AccessRules { checks_traverse, ..AccessRules::default() };
            let (store, root) = ((&tank, &rules), path(""));
            let ways = super::ways(&view, NOW, &principal, store, &root, &memo).unwrap();
            assert_eq!(ways.ends.is_empty(), checks_traverse);
            let leads = super::may_lead_on(&view, NOW, &principal, store, &root, &memo).unwrap();
            assert_eq!(leads, !checks_traverse);
        }
    }

    #[test]
    fn ways_to_too_many_objects_say_where_some_are_left_out() {
        let lines = |count: usize| -> String {
            let line = |n| format!("/datastore/tank/many/{n:05} alice DatastoreReader\n");
            (0..count).map(line).collect()
        };
        for (count, is_cut) in [(ENDS_MAX - 2, false), (ENDS_MAX - 1, true)] {
            let facts =
                "/datastore/tank/few/a alice DatastoreReader\n/datastore/tank/few/b alice DatastoreReader";
            let facts = Facts::of(&format!("{facts}\n{}", lines(count)));
            let of = |directory: &str| case(&facts, &alice(), |check| check.ways(&path(directory)).unwrap());
            let (root, few, many) = (of(""), of("few"), of("many"));
            assert_eq!((root.ends.len(), root.is_cut), (ENDS_MAX, is_cut));
            assert_eq!((few.ends.len(), few.is_cut), (2, false));
            assert_eq!((many.ends.len(), many.is_cut), (ENDS_MAX - 2, is_cut));
        }
    }
}
