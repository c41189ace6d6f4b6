//! The steps of a decision about one target, in words.

use crate::acl_text::print_ace;
use crate::ask::Subject;
use crate::evaluate::{implied, owns, settles, speaks_of};
use crate::mode_bits;
use crate::roles::{GivenRoles, Resolved};
use crate::security_descriptor::{Ace, AceFlags, AceType};
use crate::view::View;
use enfilade_facts::vocabulary::AccessMask;
use enfilade_identity::Principal;
use std::fmt;

/// One step of the decision, in a form that can be printed. A step contains the roles, the entry or the mode bits that were checked. It also says
/// whether they apply to the principal, and which rights they grant or refuse.
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
    /// The rights that the principal does not get because of this step.
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

    /// The name of the step, for a refusal.
    fn called(&self) -> String {
        match &self.0 {
            Looked::Roles { given, .. } => given.to_string(),
            Looked::Entry { number, ace, .. } => called(*number, ace),
            Looked::Unspoken(_) => "no entry of the ACL grants the right".into(),
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
            Looked::Roles { given, .. } if given.roles.is_empty() && given.of_token.is_none() => f.write_str(
                "neither the user nor a group of the user has a role on this path or above it: assign a role with `enfilade role assign`",
            ),
            Looked::Roles { given, rights } => write!(f, "{given}: {rights}"),
            Looked::SkipsAcl => f.write_str("the ACL does not limit this role"),
            Looked::Mode { mode, uid, gid, granted } => {
                write!(f, "no ACL; mode {:o} of {uid}:{gid} grants {granted}", mode & 0o777)
            }
            Looked::Damaged(why) => write!(f, "the ACL is invalid: {why}"),
            Looked::NoList => f.write_str("the ACL has no list of entries, so it grants everything"),
            Looked::Owner(granted) => write!(f, "the owner is granted {granted}"),
            Looked::Entry { number, ace, speaks, settled } => {
                f.write_str(&called(*number, ace))?;
                match ace.kind {
                    AceType::Audit => f.write_str(" requests auditing and decides nothing"),
                    _ if ace.flags.has(AceFlags::INHERIT_ONLY) => {
                        f.write_str(" does not apply to this object, but only to files and directories that are created in it")
                    }
                    _ if !speaks => f.write_str(" names neither the user nor a group of the user"),
                    _ if settled.is_empty() => {
                        f.write_str(" has no effect, because earlier entries already granted or denied its rights")
                    }
                    AceType::Allow => write!(f, " grants {settled}"),
                    AceType::Deny => write!(f, " denies {settled}"),
                }
            }
            Looked::Unspoken(rights) => {
                write!(f, "no entry grants or denies {rights}, so these rights are refused")
            }
        }
    }
}

/// All steps of the decision, in order.
pub(crate) fn walk(view: &View<'_>, principal: &Principal, roles: &Resolved, target: &Subject) -> Vec<Step> {
    let rights = roles.rights(target.kind);
    let mut steps = vec![Step(Looked::Roles { given: roles.given(view, principal), rights })];
    if roles.skips_acl() {
        steps.push(Step(Looked::SkipsAcl));
    } else if !rights.is_empty() {
        walk_acl(target, principal, &mut steps);
    }
    steps
}

/// The names of the steps that refuse the rights in `missing` to the principal. For each right, only the first step that refuses it is named.
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

/// Adds one step for each entry of the ACL. The step says whether the entry applies to the principal, and which rights the entry grants or denies.
fn walk_acl(target: &Subject, principal: &Principal, steps: &mut Vec<Step>) {
    let descriptor = match target.descriptor() {
        Ok(Some(descriptor)) => descriptor,
        Ok(None) => {
            let (mode, uid, gid) = (target.mode, target.uid, target.gid);
            let granted = mode_bits::granted(target, principal);
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
