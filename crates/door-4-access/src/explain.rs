//! The decision in words: for `explain`, for reviews, and for the line that says why somebody was refused.

use crate::acl::{Ace, AceFlags, AceType};
use crate::ask::{Ask, NodeKind, Subject, Wanted};
use crate::evaluate::{implied, owns, settles, speaks_of};
use crate::memo::AccessMemo;
use crate::mode;
use crate::open::Case;
use crate::refuse::Refusal;
use crate::roles::{GivenRoles, Resolved};
use crate::text::print_ace;
use crate::view::View;
use enfilade_facts::Now;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, DatastoreName, RolePath, StorePath};
use enfilade_identity::Principal;
use std::fmt;

/// Everything about one target, for `explain` and reviews. No permit comes of it.
///
/// # Errors
/// When the ACL is damaged or the facts cannot be read.
pub fn judge(
    view: &enfilade_facts::View<'_>,
    now: Now,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    path: &StorePath,
    target: &Subject,
    memo: &AccessMemo,
) -> Result<Judgement, Refusal> {
    let visible = rules.visible;
    let case = Case { view: View(view), now, principal, datastore, visible, memo };
    let roles = case.roles(&RolePath::of(datastore, path))?;
    let (rights, skips_acl) = (roles.rights(target.kind), roles.skips_acl());
    let acl = match skips_acl {
        true => AccessMask::ALL,
        // Where no role grants anything, a damaged ACL decides nothing either.
        false if rights.is_empty() => case.acl(path, target).unwrap_or(AccessMask::NONE),
        false => case.acl(path, target)?,
    };
    Ok(Judgement {
        roles: roles.given(&case.view, principal),
        rights,
        skips_acl,
        acl,
        granted: rights & acl,
        walk: walk(&case, &roles, target),
    })
}

/// Every right a request would be granted on a target, for reviews of many: a right is in the mask if and only if [`would`](fn@crate::would)
/// grants it, asked for alone. `parent` is the directory of the target; without it DELETE_CHILD there is not counted. Whether the directories
/// above can be passed is not looked at. No permit comes of it.
///
/// # Errors
/// As for [`judge`].
pub fn rights(
    view: &enfilade_facts::View<'_>,
    now: Now,
    principal: &Principal,
    (datastore, rules): (&DatastoreName, &AccessRules),
    (path, target, parent): (&StorePath, &Subject, Option<&Subject>),
    memo: &AccessMemo,
) -> Result<AccessMask, Refusal> {
    let visible = rules.visible;
    let case = Case { view: View(view), now, principal, datastore, visible, memo };
    let mut granted = case.granted(path, target)?;
    let making = AccessMask::ADD_FILE | AccessMask::ADD_SUBDIRECTORY;
    let is_kept_out = rules.checks_traverse && !granted.covers(AccessMask::TRAVERSE);
    let has_no_number = rules.acls == AclDialect::Nfs4 && principal.uid.is_none();
    if target.kind == NodeKind::Directory && (is_kept_out || has_no_number) {
        granted = granted & !making;
    }
    if !granted.covers(visible) {
        // One may add to a directory, and pass through it, without seeing it.
        return Ok(if target.kind == NodeKind::Directory {
            granted & (making | AccessMask::TRAVERSE)
        } else {
            AccessMask::NONE
        });
    }
    if let Some(parent) = parent.filter(|_| !granted.covers(AccessMask::DELETE)) {
        let ask = Ask { path, target, wanted: Wanted::Delete { parent } };
        if case.directory_lets_delete(&ask, parent)? {
            return Ok(granted | AccessMask::DELETE);
        }
    }
    Ok(granted)
}

/// What is granted on a target, and how it came to be.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The roles that decided, to whom they were given, and where.
    pub roles: GivenRoles,
    /// What the roles grant.
    pub rights: AccessMask,
    /// Whether the roles skip the ACL.
    pub skips_acl: bool,
    /// What the ACL grants; everything where it is skipped.
    pub acl: AccessMask,
    /// Both together.
    pub granted: AccessMask,
    /// Roles and entries in the order they were looked at.
    pub walk: Vec<Step>,
}

/// One thing that was looked at, printable: what it is, whether it speaks of the principal, and which rights it settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step(Looked);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Looked {
    Roles { given: GivenRoles, rights: AccessMask },
    SkipsAcl,
    Mode { mode: u32, uid: u32, gid: u32, granted: AccessMask },
    Damaged(String),
    NoList,
    Owner(AccessMask),
    Entry { number: usize, ace: Ace, speaks: bool, settled: AccessMask },
    Unspoken(AccessMask),
}

impl Step {
    /// The rights this step keeps the principal from.
    fn withholds(&self) -> AccessMask {
        match &self.0 {
            Looked::Roles { rights, .. } => !*rights,
            Looked::Mode { granted, .. } => !*granted,
            Looked::Entry { ace, settled, .. } if ace.kind == AceType::Deny => *settled,
            Looked::Unspoken(rights) => *rights,
            Looked::Damaged(_) => AccessMask::ALL,
            Looked::SkipsAcl | Looked::NoList | Looked::Owner(_) | Looked::Entry { .. } => AccessMask::NONE,
        }
    }

    /// What it is called where it alone decided.
    fn called(&self) -> String {
        match &self.0 {
            Looked::Roles { given, .. } => given.to_string(),
            Looked::Entry { number, ace, .. } => called(*number, ace),
            Looked::Unspoken(_) => "no entry of the ACL grants it".into(),
            _ => self.to_string(),
        }
    }
}

fn called(number: usize, ace: &Ace) -> String {
    format!("ACE #{number} `{}`", print_ace(ace, &|_| None))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Looked::Roles { given, .. } if given.roles.is_empty() && given.of_token.is_none() => {
                f.write_str("no role is assigned here or above: `enfilade role assign` gives one")
            }
            Looked::Roles { given, rights } => write!(f, "{given}: {rights}"),
            Looked::SkipsAcl => f.write_str("the ACL does not count for this role"),
            Looked::Mode { mode, uid, gid, granted } => {
                write!(f, "no ACL; mode {:o} of {uid}:{gid} grants {granted}", mode & 0o777)
            }
            Looked::Damaged(why) => write!(f, "the ACL cannot be believed: {why}"),
            Looked::NoList => f.write_str("the ACL has no list and grants everything"),
            Looked::Owner(granted) => write!(f, "the owner is granted {granted}"),
            Looked::Entry { number, ace, speaks, settled } => {
                f.write_str(&called(*number, ace))?;
                match ace.kind {
                    AceType::Audit => f.write_str(" asks for a record and decides nothing"),
                    _ if ace.flags.has(AceFlags::INHERIT_ONLY) => f.write_str(" is for what is made below"),
                    _ if !speaks => f.write_str(" speaks of somebody else"),
                    _ if settled.is_empty() => f.write_str(" comes too late"),
                    AceType::Allow => write!(f, " grants {settled}"),
                    AceType::Deny => write!(f, " denies {settled}"),
                }
            }
            Looked::Unspoken(rights) => write!(f, "no entry speaks of {rights}"),
        }
    }
}

/// Everything that is looked at, in order.
pub(crate) fn walk(case: &Case<'_>, roles: &Resolved, target: &Subject) -> Vec<Step> {
    let rights = roles.rights(target.kind);
    let mut steps = vec![Step(Looked::Roles { given: roles.given(&case.view, case.principal), rights })];
    if roles.skips_acl() {
        steps.push(Step(Looked::SkipsAcl));
    } else if !rights.is_empty() {
        walk_acl(target, case.principal, &mut steps);
    }
    steps
}

/// The steps that keep these rights from the principal, by name.
pub(crate) fn decided_by(walk: &[Step], missing: AccessMask) -> String {
    let mut left = missing;
    let mut names = Vec::new();
    for step in walk {
        if !(left & step.withholds()).is_empty() {
            names.push(step.called());
            left = left & !step.withholds();
        }
    }
    names.join("; ")
}

/// The ACL entry by entry: which spoke of the principal, and what each settled.
fn walk_acl(target: &Subject, principal: &Principal, steps: &mut Vec<Step>) {
    let descriptor = match target.descriptor() {
        Ok(Some(descriptor)) => descriptor,
        Ok(None) => {
            let (mode, uid, gid) = (target.mode, target.uid, target.gid);
            let granted = mode::granted(target, principal);
            return steps.push(Step(Looked::Mode { mode, uid, gid, granted }));
        }
        Err(why) => return steps.push(Step(Looked::Damaged(why.to_string()))),
    };
    let Some(entries) = &descriptor.dacl else { return steps.push(Step(Looked::NoList)) };
    let owns = owns(&descriptor, principal);
    let implied = implied(entries, owns);
    if !implied.is_empty() {
        steps.push(Step(Looked::Owner(implied)));
    }
    let mut open = AccessMask::ALL & !implied;
    for (ace, number) in entries.iter().zip(1..) {
        let speaks = speaks_of(ace, principal, owns);
        let settled = if speaks { settles(ace) & open } else { AccessMask::NONE };
        open = open & !settled;
        steps.push(Step(Looked::Entry { number, ace: *ace, speaks, settled }));
    }
    if !open.is_empty() {
        steps.push(Step(Looked::Unspoken(open)));
    }
}
