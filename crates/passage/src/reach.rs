//! The way to a target: past every directory above it, where the datastore asks whether the visitor may pass. A request and an
//! explanation take this same way; they differ only in how they ask door 4.

use crate::refuse::Refusal;
use enfilade_access::{Ask, NodeKind, Wanted};
use enfilade_content::{Node, Refusal as Content, Root};
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::StorePath;

/// Asks door 4.
pub(crate) type May<'m> = &'m mut dyn FnMut(&Ask<'_>) -> Result<(), Refusal>;

/// What is at a path, past every directory above it where the rules check each.
///
/// # Errors
/// The refusal of door 4 for a directory that may not be passed, or of door 5.
pub(crate) fn target(
    root: &Root,
    rules: &AccessRules,
    path: &StorePath,
    may: May<'_>,
) -> Result<Node, Refusal> {
    if !rules.checks_traverse {
        return Ok(root.find(path)?);
    }
    let mut at = StorePath::root();
    let mut node = root.find(&at)?;
    for name in path.names() {
        let subject = node.subject();
        may(&Ask { path: &at, target: &subject, wanted: Wanted::Passing })?;
        node = node.child(name)?;
        at = at.join(name).map_err(|_| Content::Absent(path.to_string()))?;
    }
    Ok(node)
}

/// The directory a path is or would be in, and the name there.
///
/// # Errors
/// As [`target`]; [`Content::ParentAbsent`] where there is no such directory, [`Content::IsRoot`] for the root.
pub(crate) fn parent<'p>(
    root: &Root,
    rules: &AccessRules,
    path: &'p StorePath,
    may: May<'_>,
) -> Result<(Node, &'p str), Refusal> {
    if !rules.checks_traverse {
        return Ok(root.find_parent(path)?);
    }
    let (above, name) = path.split().ok_or(Content::IsRoot)?;
    match target(root, rules, &above, may) {
        Ok(node) if node.kind() == NodeKind::Directory => {
            let subject = node.subject();
            may(&Ask { path: &above, target: &subject, wanted: Wanted::Passing })?;
            Ok((node, name))
        }
        Ok(_) | Err(Refusal::Content(Content::Absent(_) | Content::Special(_))) => {
            Err(Content::ParentAbsent(path.to_string()).into())
        }
        Err(refusal) => Err(refusal),
    }
}
