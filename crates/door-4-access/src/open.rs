//! The decision of door 4: granted = (rights of the roles on the path) ∩ (what the file's ACL grants).
//! Roles that administer the store skip the ACL.

use crate::acl::{AceType, SecurityDescriptor, map_generic};
use crate::ask::{Ask, NodeKind, StoredAcl, Subject, Wanted};
use crate::evaluate::{self, implied, owns, speaks_of};
use crate::memo::AccessMemo;
use crate::mode;
use crate::permit::AccessPermit;
use crate::refuse::Refusal;
use crate::roles::{Resolved, concerns, resolve};
use crate::text::print_ace;
use crate::view::View;
use enfilade_datastore::DatastorePermit;
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, RolePath, StorePath};
use enfilade_identity::{IdentityPermit, Principal};
use std::fmt;
use std::ops::ControlFlow;

/// May the visitor, at this revision?
///
/// # Errors
/// A [`Refusal`]; it names what decided.
pub fn open(
    view: &enfilade_facts::View<'_>,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    ask: &Ask<'_>,
    memo: &AccessMemo,
) -> Result<AccessPermit, Refusal> {
    let case = Case { view: View(view), principal: identity.principal(), datastore: datastore.name(), memo };
    let granted = case.decide(ask)?;
    Ok(AccessPermit { object: ask.target.object, granted, creator: case.principal.sid, at: view.at() })
}

/// Which of the children of a directory the visitor may see, in their order. What cannot be judged is not seen.
///
/// # Errors
/// When the facts cannot be read.
pub fn see(
    view: &enfilade_facts::View<'_>,
    identity: &IdentityPermit,
    datastore: &DatastorePermit,
    directory: &StorePath,
    children: &[(&str, &Subject)],
    memo: &AccessMemo,
) -> Result<Vec<bool>, Refusal> {
    let case = Case { view: View(view), principal: identity.principal(), datastore: datastore.name(), memo };
    case.see(directory, children)
}

/// Has the visitor any role in the store? Else it looks absent, whatever is asked of it.
///
/// # Errors
/// [`Refusal::NoRole`], or when the facts cannot be read.
pub fn admits(
    view: &enfilade_facts::View<'_>,
    identity: &IdentityPermit,
    datastore: &DatastoreName,
    memo: &AccessMemo,
) -> Result<(), Refusal> {
    let case = Case { view: View(view), principal: identity.principal(), datastore, memo };
    let root = RolePath::of(datastore, &StorePath::root());
    let here = case.roles(&root)?;
    if !here.is_empty() && !here.roles.contains(&enfilade_facts::vocabulary::Role::NoAccess) {
        return Ok(());
    }
    let mut below = false;
    case.view.assignments_below(root.as_str(), |key, assignment| {
        below = concerns(case.principal, &key, &assignment);
        if below { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if below { Ok(()) } else { Err(Refusal::NoRole { datastore: datastore.to_string() }) }
}

/// Everything about one target, for `explain` and reviews. No permit comes of it.
///
/// # Errors
/// When the ACL is damaged or the facts cannot be read.
pub fn judge(
    view: &enfilade_facts::View<'_>,
    principal: &Principal,
    datastore: &DatastoreName,
    path: &StorePath,
    target: &Subject,
    memo: &AccessMemo,
) -> Result<Judgement, Refusal> {
    let case = Case { view: View(view), principal, datastore, memo };
    let resolved = case.roles(&RolePath::of(datastore, path))?;
    let rights = resolved.rights(target.kind);
    let acl = if resolved.skips_acl() { AccessMask::ALL } else { case.acl(path, target)? };
    let mut walk = vec![Step(format!("{resolved}: {rights}"))];
    if resolved.skips_acl() {
        walk.push(Step("the ACL does not count for this role".into()));
    } else if !resolved.is_empty() {
        walk.extend(walk_acl(target, principal));
    }
    Ok(Judgement { path: path.clone(), rights, acl, granted: rights & acl, walk })
}

/// What is granted on a target, and how it came to be.
#[derive(Clone, Debug)]
pub struct Judgement {
    path: StorePath,
    /// What the roles grant.
    pub rights: AccessMask,
    /// What the ACL grants.
    pub acl: AccessMask,
    /// Both together.
    pub granted: AccessMask,
    /// Roles and entries in the order they were looked at.
    pub walk: Vec<Step>,
}

impl Judgement {
    /// What asking for these rights would be refused with, if it would be.
    pub fn refusal(&self, wanted: AccessMask) -> Option<Refusal> {
        if self.granted.covers(wanted) {
            return None;
        }
        let decided_by = decided_by(&self.walk);
        let path = self.path.clone();
        Some(match self.granted.covers(AccessMask::VISIBLE) {
            true => Refusal::NotGranted { path, missing: wanted & !self.granted, decided_by },
            false => Refusal::Hidden { path, decided_by },
        })
    }
}

/// One role or entry that was looked at, printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(String);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One principal in one store at one revision.
struct Case<'c> {
    view: View<'c>,
    principal: &'c Principal,
    datastore: &'c DatastoreName,
    memo: &'c AccessMemo,
}

impl Case<'_> {
    /// Everything granted on the target of the ask, which covers what is wanted.
    fn decide(&self, ask: &Ask<'_>) -> Result<AccessMask, Refusal> {
        let granted = self.granted(ask.path, ask.target)?;
        let wanted = match ask.wanted {
            Wanted::On(mask) => mask,
            Wanted::Delete { .. } => AccessMask::DELETE,
            Wanted::Create(NodeKind::File) => AccessMask::ADD_FILE,
            Wanted::Create(NodeKind::Directory) => AccessMask::ADD_SUBDIRECTORY,
            Wanted::Overwrite => AccessMask::WRITE_DATA,
        };
        if granted.covers(wanted) {
            return Ok(granted);
        }
        let visible = granted.covers(AccessMask::VISIBLE);
        if let (true, Wanted::Delete { parent }) = (visible, ask.wanted)
            && let Some((directory, _)) = ask.path.split()
            && self.granted(&directory, parent).is_ok_and(|granted| granted.covers(AccessMask::DELETE_CHILD))
            && self
                .roles(&RolePath::of(self.datastore, ask.path))?
                .rights(ask.target.kind)
                .covers(AccessMask::DELETE)
        {
            return Ok(granted | AccessMask::DELETE);
        }
        let path = ask.path.clone();
        let decided_by = self.decided_by(ask);
        Err(match (visible, ask.wanted) {
            (true, _) => Refusal::NotGranted { path, missing: wanted & !granted, decided_by },
            (false, Wanted::Overwrite) => Refusal::CreateOntoHidden { path, decided_by },
            (false, _) => Refusal::Hidden { path, decided_by },
        })
    }

    fn see(&self, directory: &StorePath, children: &[(&str, &Subject)]) -> Result<Vec<bool>, Refusal> {
        let here = RolePath::of(self.datastore, directory);
        let mut special = false;
        self.view.assignments_below(here.as_str(), |_, _| {
            special = true;
            ControlFlow::Break(())
        })?;
        // Where no role is given below, every child has the same.
        let mut common = None;
        let mut seen = Vec::with_capacity(children.len());
        for (name, subject) in children {
            let Ok(path) = directory.join(name) else {
                seen.push(false);
                continue;
            };
            let resolved = match &common {
                Some(resolved) if !special => Clone::clone(resolved),
                _ => self.roles(&RolePath::of(self.datastore, &path))?,
            };
            let rights = resolved.rights(subject.kind);
            let granted = match resolved.skips_acl() {
                true => rights,
                false if rights.covers(AccessMask::VISIBLE) => {
                    rights & self.acl(&path, subject).unwrap_or(AccessMask::NONE)
                }
                false => AccessMask::NONE,
            };
            seen.push(granted.covers(AccessMask::VISIBLE));
            common = Some(resolved);
        }
        Ok(seen)
    }

    fn granted(&self, path: &StorePath, target: &Subject) -> Result<AccessMask, Refusal> {
        let resolved = self.roles(&RolePath::of(self.datastore, path))?;
        let rights = resolved.rights(target.kind);
        if resolved.skips_acl() || rights.is_empty() {
            return Ok(rights);
        }
        Ok(rights & self.acl(path, target)?)
    }

    fn roles(&self, path: &RolePath) -> Result<Resolved, Refusal> {
        let key = self.memo.roles_key(self.view.at(), self.principal, path);
        if let Some(resolved) = self.memo.roles.get(key) {
            return Ok(resolved);
        }
        let resolved = resolve(&self.view, self.principal, path)?;
        self.memo.roles.put(key, resolved.clone());
        Ok(resolved)
    }

    fn acl(&self, path: &StorePath, target: &Subject) -> Result<AccessMask, Refusal> {
        let damaged = |why: String| Refusal::AclDamaged { path: path.clone(), why };
        let blob = match &target.acl {
            StoredAcl::Absent => return Ok(mode::granted(target, self.principal)),
            StoredAcl::Unreadable(why) => return Err(damaged(why.clone())),
            StoredAcl::Ntacl(blob) => blob,
        };
        let key = self.memo.granted_key(target, self.principal);
        if let Some(granted) = key.and_then(|key| self.memo.granted.get(key)) {
            return Ok(granted);
        }
        let descriptor = SecurityDescriptor::from_ntacl(blob).map_err(|why| damaged(why.to_string()))?;
        let granted = evaluate::granted(&descriptor, self.principal);
        if let Some(key) = key {
            self.memo.granted.put(key, granted);
        }
        Ok(granted)
    }

    /// Only for refusals: the walk once more, with words.
    fn decided_by(&self, ask: &Ask<'_>) -> String {
        let resolved = self.roles(&RolePath::of(self.datastore, ask.path)).unwrap_or_default();
        let mut walk = vec![Step(resolved.to_string())];
        if !resolved.skips_acl() && !resolved.rights(ask.target.kind).is_empty() {
            walk.extend(walk_acl(ask.target, self.principal));
        }
        decided_by(&walk)
    }
}

/// The steps that settled something, in one line.
fn decided_by(walk: &[Step]) -> String {
    let settled = walk.iter().filter(|step| !step.0.ends_with("speaks of somebody else"));
    settled.map(|step| step.0.as_str()).collect::<Vec<_>>().join("; ")
}

/// The ACL entry by entry: which spoke of the principal, and what each settled.
fn walk_acl(target: &Subject, principal: &Principal) -> Vec<Step> {
    let blob = match &target.acl {
        StoredAcl::Ntacl(blob) => blob,
        StoredAcl::Absent => {
            let granted = mode::granted(target, principal);
            return vec![Step(format!(
                "no ACL; mode {:o} of {}:{} grants {granted}",
                target.mode & 0o777,
                target.uid,
                target.gid
            ))];
        }
        StoredAcl::Unreadable(why) => return vec![Step(format!("the ACL cannot be read: {why}"))],
    };
    let descriptor = match SecurityDescriptor::from_ntacl(blob) {
        Ok(descriptor) => descriptor,
        Err(why) => return vec![Step(format!("the ACL is damaged: {why}"))],
    };
    let Some(entries) = &descriptor.dacl else {
        return vec![Step("the ACL has no list and grants everything".into())];
    };
    let owns = owns(&descriptor, principal);
    let implied = implied(entries, owns);
    let mut steps = Vec::new();
    if !implied.is_empty() {
        steps.push(Step(format!("the owner is granted {implied}")));
    }
    let mut open = AccessMask::ALL & !implied;
    for (index, ace) in entries.iter().enumerate() {
        let text = format!("ACE #{} `{}`", index + 1, print_ace(ace, &|_| None));
        if ace.kind == AceType::Audit || !speaks_of(ace, principal, owns) {
            steps.push(Step(format!("{text} speaks of somebody else")));
            continue;
        }
        let settled = map_generic(ace.mask) & open;
        open = open & !settled;
        let verb = if ace.kind == AceType::Allow { "grants" } else { "denies" };
        steps.push(Step(if settled.is_empty() {
            format!("{text} comes too late")
        } else {
            format!("{text} {verb} {settled}")
        }));
    }
    if !open.is_empty() {
        steps.push(Step(format!("no entry speaks of {open}")));
    }
    steps
}
