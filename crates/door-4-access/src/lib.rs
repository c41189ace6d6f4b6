//! Door 4: may they, and what do they see?

mod ask;
mod memo;
mod open;
mod permit;
mod refuse;
mod view;

mod acl;
mod enumerate;
mod evaluate;
mod explain;
mod inherit;
mod mode;
mod ntacl;
mod roles;
mod text;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use acl::{Ace, AceFlags, AceType, SecurityDescriptor};
pub use ask::{Ask, NodeKind, ObjectId, StoredAcl, Subject, Wanted};
pub use enumerate::see;
pub use explain::{Judgement, Step, judge};
pub use inherit::{inherited_acl, open_to_roles};
pub use memo::AccessMemo;
pub use ntacl::BadAcl;
pub use open::{admits, open};
pub use permit::AccessPermit;
pub use refuse::{CODES, Refusal};
pub use roles::GivenRoles;
pub use text::{AclLine, parse_line, print_lines, well_known};
