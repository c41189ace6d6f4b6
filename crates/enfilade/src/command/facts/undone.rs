//! The changes that a restore of the facts has undone, and the revocations among these changes.

use crate::command::imports::FIRST_REVISION;
use crate::output;
use enfilade_facts::{At, Source};
use enfilade_sources::copy::Origin;
use enfilade_sources::lmdb::Lmdb;
use std::path::Path;

/// What is known about the store before a restore.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    /// The store was new, so it contained no revocation.
    Nothing,
    /// The store and its newest acknowledged revision.
    At(At),
    /// Neither the store nor its newest revision can be read.
    Unknown,
}

impl Before {
    /// Examines the store before the restore. `opened` is `None` if the store is to be moved aside.
    pub(super) fn look(facts: &Path, opened: Option<&Lmdb>) -> Self {
        match opened.map(Source::at).or_else(|| Lmdb::acknowledged(facts).ok()) {
            Some(at) if at.revision <= FIRST_REVISION => Before::Nothing,
            Some(at) => Before::At(at),
            None => Before::Unknown,
        }
    }

    /// A text about the changes that a restore has undone. It also says where these changes are listed, and warns if the copy is from another store.
    /// `None` if there is nothing to report. `origin` describes the restored copy, and `at` contains the revision of the restore.
    pub(super) fn undone(self, origin: &Origin, at: At, data: &Path, is_set_aside: bool) -> Option<String> {
        // The restore itself is a change. Its revision follows the newest revision of the old facts, or the revision of the copy if that is newer.
        let lost = at.revision.0.saturating_sub(origin.revision).saturating_sub(1);
        let what = match (self, lost) {
            (Before::Nothing, _) => return None,
            (Before::Unknown, 0) => {
                Some("changes after the backup, if there were any, are undone".to_owned())
            }
            (Before::At(_), 0) => None,
            (_, 1) => Some(format!("the change after revision {} is undone", origin.revision)),
            (_, lost) => Some(format!("the {lost} changes after revision {} are undone", origin.revision)),
        };
        let told = what.map(|what| told(&what, lost, origin, data, is_set_aside));
        let other = match self {
            Before::At(before) => of_another(before, origin),
            Before::Nothing | Before::Unknown => None,
        };
        let lines: Vec<String> = told.into_iter().chain(other).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// The warning if the copy was made from another store, or from a duplicate of this store that was changed elsewhere. `None` if the copy was made
/// from this store itself. Each store counts its own revisions. So the revisions do not show which changes are missing in the copy.
fn of_another(before: At, origin: &Origin) -> Option<String> {
    let is_same = before.store.to_string() == origin.store;
    let whose = match is_same {
        true if origin.revision <= before.revision.0 => return None,
        true => format!(
            "the copy is of this store, but its revision {} is newer than the newest revision before the restore, {}. So the copy was made from a \
             duplicate of this store, and that duplicate was changed elsewhere",
            origin.revision, before.revision
        ),
        false => {
            format!("the copy is of the store {}, and the replaced store was {}", origin.store, before.store)
        }
    };
    Some(format!(
        "{whose}. Revocations, deletions, disabling and removals of rights (also by NoAccess) that were made in the replaced store after {} are not \
         in the copy. Earlier changes of these kinds are in the copy only if they were made before the two stores separated. Changes that \
         are not in the copy have no effect any more, so make them again. To find these changes, see the lines with \"event\":\"change\" in the log \
         of the server",
        output::time(origin.unix_seconds)
    ))
}

/// The text about the undone changes: the effect of the loss, and where the changes are listed.
fn told(what: &str, lost: u64, origin: &Origin, data: &Path, is_set_aside: bool) -> String {
    let (valid, after) = (valid_again(origin.unix_seconds), origin.revision);
    match is_set_aside {
        false => format!(
            "{what}: {valid}, also on running servers. Make these changes again now\nto list the lost changes: enfilade --data '{}' facts log --last \
             {}\n{}",
            data.display(),
            lost + 1,
            see_log(after)
        ),
        // No server runs now.
        true => format!(
            "{what}: {valid}. Make these changes again before you start a server\n{}",
            only_in_log(after)
        ),
    }
}

/// The text about the effect of a restored older state: revocations and similar changes after this time are lost.
pub(in crate::command) fn valid_again(unix_seconds: i64) -> String {
    format!(
        "revocations, deletions, disabling and removals of rights (also by NoAccess) after {} are lost; the old sessions, credentials and rights \
         work again",
        output::time(unix_seconds)
    )
}

/// The text about changes that `facts log` does not show. It says where these changes are listed.
pub(in crate::command) fn see_log(after: u64) -> String {
    format!(
        "`facts log` shows only recent changes (at least those of the last hour); older changes are in the log of the server: lines with \
         \"event\":\"change\" and a revision above {after}"
    )
}

/// The text that says where the lost changes are listed, if the store that contained them cannot be read any more.
pub(super) fn only_in_log(after: u64) -> String {
    format!(
        "the log of the server lists the lost changes: see its lines with \"event\":\"change\" and a revision above {after}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::{Revision, StoreId};

    const TEN: i64 = 10;

    /// The text that is printed after a restore. `store` and `revision` are the store and the revision of the copy. `before` is the store before the
    /// restore.
    fn said(before: Before, (store, revision): (u128, u64)) -> Option<String> {
        let origin = json_origin(store, revision);
        let newest = match before {
            Before::At(at) => at.revision.0.max(revision),
            Before::Nothing | Before::Unknown => revision,
        };
        let at = At { store: StoreId(9), revision: Revision(newest + 1) };
        before.undone(&origin, at, Path::new("/data"), false)
    }

    fn json_origin(store: u128, revision: u64) -> Origin {
        serde_json::from_value(serde_json::json!({
            "enfilade_facts": "backup", "format": 6, "store": StoreId(store).to_string(), "revision": revision, "unix_seconds": TEN, "records": 1,
            "secrets": true,
        }))
        .unwrap()
    }

    fn here(store: u128, revision: u64) -> Before {
        Before::At(At { store: StoreId(store), revision: Revision(revision) })
    }

    #[test]
    fn a_copy_of_another_store_is_not_said_to_have_all_revocations_of_this_one() {
        const OF_BOTH: &str =
            "that were made in the replaced store after 1970-01-01T00:00:10Z are not in the copy";
        assert_eq!(said(here(1, 5), (1, 5)), None);
        assert_eq!(said(Before::Nothing, (2, 5)), None);
        let older = said(here(1, 7), (1, 5)).unwrap();
        assert!(
            older.starts_with("the 2 changes after revision 5 are undone: ") && !older.contains(OF_BOTH),
            "{older}"
        );
        // A copy of another installation, with a later revision.
        let other = said(here(1, 5), (2, 50)).unwrap();
        assert!(other.starts_with("the copy is of the store ") && other.contains(OF_BOTH), "{other}");
        assert!(!other.contains("are undone"), "{other}");
        // A backup from before an earlier restore, or a copy of another installation with an earlier revision.
        let both = said(here(1, 7), (2, 6)).unwrap();
        assert!(
            both.starts_with("the change after revision 6 is undone: ") && both.contains(OF_BOTH),
            "{both}"
        );
        // A copy of a duplicate of this store that was changed elsewhere.
        let split = said(here(1, 5), (1, 8)).unwrap();
        assert!(
            split.starts_with("the copy is of this store, but its revision 8 is newer")
                && split.contains(OF_BOTH),
            "{split}"
        );
        let unknown = said(Before::Unknown, (1, 5)).unwrap();
        assert!(
            unknown.starts_with("changes after the backup, if there were any, are undone: "),
            "{unknown}"
        );
    }
}
