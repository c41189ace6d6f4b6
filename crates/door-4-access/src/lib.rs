//! Door 4 decides what the visitor may do and what the visitor sees.
//!
//! To understand the code, first read the code of the question ([`Ask`]), of the stored facts that the door may read (`view`), and of the decision
//! ([`open`]). Then read the code of the results ([`AccessPermit`] and [`Refusal`]), and of the memo that remembers results ([`AccessMemo`]). A
//! principal has a right only if two sets contain it: the rights that roles grant (`roles`), and the rights that the ACL or mode bits grant
//! (`security_descriptor` to `mode_bits`). Exception: if the principal has a role that administers the datastore, the second set does not count. At
//! the end, read the code of listings ([`see`]), and of the decision in words ([`judge`]).

mod ask;
mod view;
mod open;
mod permit;
mod method_class;
mod site;
mod refuse;
mod memo;
mod roles;
mod role_check;
mod applications;
mod security_descriptor;
mod ntacl;
mod nfs4;
mod evaluate;
mod mode_bits;
mod sight;
mod enumerate;
mod acl_inheritance;
mod acl_text;
mod sddl;
mod steps;
mod explain;
mod administer;
mod bounds;
mod about;
mod lending;
mod policy;
mod use_api;
mod ways;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use about::{About, Lends, Other};
pub use acl_inheritance::{Creator, Inheritance, inherited, open_to_roles, propagated};
pub use acl_text::{AclLine, parse_line, print_lines, well_known};
pub use administer::{AdminAsk, administer, lends, privileges};
pub use applications::{
    ApplicationAsk, ApplicationUse, ManyUses, counts_if_both, group_names, least_application_role,
    needs_credential, use_application, would_use,
};
pub use ask::{Ask, NodeKind, ObjectId, StoredAcl, Subject, Version, Wanted};
pub use bounds::{Party, manager_gives};
pub use enumerate::see;
pub use explain::{Judgement, barred, judge, known_names, rights};
pub use lending::Lending;
pub use memo::AccessMemo;
pub use method_class::{Method, MethodClass};
pub use nfs4::Owner;
pub use ntacl::BadAcl;
pub use open::{admits, bound_to, knows_roles, open, refuse_alike, would};
pub use permit::{AccessPermit, AdminPermit, ApiPermit, ApplicationPermit, PropagationBy, PropagationPermit};
pub use policy::{KnownTo, POLICY, Rule, ScopeTypes, Who, rule_named};
pub use refuse::{CODES, Refusal};
pub use roles::{GivenRoles, least_role, least_role_on_project};
pub use sddl::{from_sddl, to_sddl};
pub use security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor};
pub use sight::Sight;
pub use site::Site;
pub use steps::Step;
pub use use_api::{may_go_on, use_api};
pub use ways::{Ways, may_lead_on, ways};
