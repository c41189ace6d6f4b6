//! Changes the assignments in the facts to match `acl.cfg`.

use super::draft::Draft;
use crate::files::acl_cfg::{AclCfg, Roles, root_pam};
use crate::files::section_config::LineError;
use enfilade_facts::SourceError;
use enfilade_facts::tables::{Assignment, AssignmentKey, FileName, Who};
use enfilade_facts::vocabulary::{Role, RolePath, Ugid};
use std::collections::BTreeMap;

const FILE: FileName = FileName::Acl;

/// Compares `acl.cfg` with the facts. The administrator `root@pam` has all rights, even if the file has no line for this user.
pub(super) fn compare(acl: &AclCfg, draft: &mut Draft<'_, '_>) -> Result<(), SourceError> {
    let AclCfg { problems, broken, .. } = acl;
    for LineError { line, reason } in problems {
        draft.problem(FILE, format!("line {line}: {reason}"));
    }
    let rows = draft.view.list::<Assignment>(&[])?;
    let mut known: BTreeMap<(RolePath, Ugid), Assignment> = BTreeMap::new();
    for (key, assignment) in rows {
        if let Who::Named(ugid) = key.who {
            known.insert((key.path, ugid), assignment);
        }
    }
    let mut wanted: BTreeMap<(RolePath, Ugid), Roles> = acl.entries.clone();
    wanted.retain(|entry, _| entry.1 != root_pam() && !broken.contains_key(entry));
    if let Ok(everywhere) = "/".parse() {
        wanted.insert((everywhere, root_pam()), Roles::from([(Role::Admin, true)]));
    }
    for (entry, roles) in &wanted {
        let roles = roles.iter().map(|(role, propagate)| (*role, *propagate)).collect();
        draft.put(&key(entry), known.get(entry), &Assignment { roles, fault: None });
    }
    for (entry, LineError { line, reason }) in broken {
        let means = mark(draft, entry, known.get(entry), (*line, reason));
        draft.problem(FILE, format!("line {line}: {reason} ({} on {}: {means})", entry.1, entry.0));
    }
    for (entry, before) in &known {
        if wanted.contains_key(entry) || broken.contains_key(entry) {
            continue;
        }
        if problems.is_empty() && broken.is_empty() {
            draft.delete(&key(entry), before);
            continue;
        }
        let reason = "the file has no line for the assignment, but the file also has errors, so it is unknown whether somebody removed the line: to keep the assignment, put the line back; to remove the assignment, correct the errors";
        let means = mark(draft, entry, Some(before), (0, reason));
        draft.problem(FILE, format!("{} on {}: {reason}; {means}", entry.1, entry.0));
    }
    Ok(())
}

/// Puts the role of the administrator `root@pam` into the facts. This function is called if a look (a check of the files) compares `user.cfg`, but
/// not `acl.cfg`.
pub(super) fn ensure_administrator(draft: &mut Draft<'_, '_>) -> Result<(), SourceError> {
    let Ok(everywhere) = "/".parse() else { return Ok(()) };
    let key = key(&(everywhere, root_pam()));
    let before = draft.view.get::<Assignment>(&key)?;
    draft.put(&key, before.as_ref(), &Assignment { roles: vec![(Role::Admin, true)], fault: None });
    Ok(())
}

fn key((path, ugid): &(RolePath, Ugid)) -> AssignmentKey {
    AssignmentKey { path: path.clone(), who: Who::Named(ugid.clone()) }
}

fn mark(
    draft: &mut Draft<'_, '_>,
    entry: &(RolePath, Ugid),
    before: Option<&Assignment>,
    error: (u32, &str),
) -> String {
    let mut after = before.cloned().unwrap_or_default();
    let fault = draft.fault(after.fault.as_ref(), error, before.is_some());
    let means = draft.means(&fault, !after.roles.is_empty());
    after.fault = Some(fault);
    draft.put(&key(entry), before, &after);
    means
}
