//! Door 4: may they, and what do they see?

mod acl;
mod ask;
mod evaluate;
mod inherit;
mod memo;
mod mode;
mod ntacl;
mod open;
mod permit;
mod refuse;
mod roles;
mod text;
mod view;

#[cfg(test)]
mod reference;

pub use acl::{Ace, AceFlags, AceType, SecurityDescriptor};
pub use ask::{Ask, NodeKind, ObjectId, StoredAcl, Subject, Wanted};
pub use inherit::{inherited_acl, open_to_roles};
pub use memo::AccessMemo;
pub use ntacl::BadAcl;
pub use open::{Judgement, Step, admits, judge, open, see};
pub use permit::AccessPermit;
pub use refuse::{CODES, Refusal};
pub use text::{AclLine, parse_line, print_lines, well_known};
