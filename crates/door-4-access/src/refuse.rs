//! Why somebody may not.

use crate::ntacl::BadAcl;
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use enfilade_facts::{Door, Fault, Refuse, SourceError};

/// A refusal of door 4.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No role anywhere in the store: the store looks absent.
    #[error("no role on datastore `{datastore}` or anything in it")]
    NoRole {
        /// The store.
        datastore: String,
    },
    /// The target may not be seen: it looks absent.
    #[error("{path} may not be seen: {decided_by}")]
    Hidden {
        /// The target.
        path: StorePath,
        /// Which role or entry said so.
        decided_by: String,
    },
    /// The target may be seen, but this right on it is not granted.
    #[error("{missing} on {path} is not granted: {decided_by}")]
    NotGranted {
        /// The target.
        path: StorePath,
        /// What is missing.
        missing: AccessMask,
        /// Which role or entry said so.
        decided_by: String,
    },
    /// The ACL cannot be believed: nobody has any right, but for those who skip it.
    #[error("the ACL of {path} cannot be believed: {why}; replace it with `enfilade acl set`")]
    AclDamaged {
        /// The target.
        path: StorePath,
        /// What is wrong with it.
        why: String,
    },
    /// The facts could not be read.
    #[error(transparent)]
    Facts(#[from] SourceError),
    /// A privilege that is not held on the path.
    #[error("{path} needs {missing}")]
    NoPrivilege {
        /// Where.
        path: String,
        /// What is missing.
        missing: String,
    },
    /// A user or group that a manager of a domain would change holds more than such a manager may give.
    #[error("{path} is refused to a manager of a domain: the user or group holds {holds}")]
    HoldsMore {
        /// The rule.
        path: String,
        /// Some of what is held.
        holds: String,
    },
    /// What would be made cannot have an ACL of the datastore's kind.
    #[error("what would be made cannot have an ACL: {0}")]
    NoAcl(BadAcl),
    /// Something is there already that may not be seen.
    #[error("{path} is there already and may not be seen: {decided_by}")]
    CreateOntoHidden {
        /// The target.
        path: StorePath,
        /// Which role or entry said so.
        decided_by: String,
    },
}

/// Code, fault and meaning of every refusal of this door.
pub const CODES: [(&str, Fault, &str); 9] = [
    ("AC01", Fault::Client, "no role on the datastore: it looks absent"),
    ("AC02", Fault::Client, "the target may not be seen: it looks absent"),
    ("AC03", Fault::Client, "the target may be seen, but this right is not granted"),
    ("AC04", Fault::Source, "the target's ACL is damaged: it looks absent"),
    ("AC05", Fault::Source, "the facts about roles could not be read"),
    ("AC06", Fault::Client, "creating onto a name that may not be seen"),
    ("AC07", Fault::Client, "a privilege is not held on the path"),
    ("AC08", Fault::Client, "what would be made cannot have an ACL of the datastore's kind"),
    ("AC09", Fault::Client, "the user or group holds more than a manager of its domain may give"),
];

impl Refusal {
    /// Whether it tells of something that may not be seen.
    pub fn is_of_hidden(&self) -> bool {
        self.looks_absent() || matches!(self, Refusal::CreateOntoHidden { .. })
    }

    /// Whether the target is to look absent.
    pub fn looks_absent(&self) -> bool {
        matches!(self, Refusal::NoRole { .. } | Refusal::Hidden { .. } | Refusal::AclDamaged { .. })
    }
}

impl Refuse for Refusal {
    fn door(&self) -> Door {
        Door::Access
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::NoRole { .. } => "AC01",
            Refusal::Hidden { .. } => "AC02",
            Refusal::NotGranted { .. } => "AC03",
            Refusal::AclDamaged { .. } => "AC04",
            Refusal::Facts(_) => "AC05",
            Refusal::CreateOntoHidden { .. } => "AC06",
            Refusal::NoPrivilege { .. } => "AC07",
            Refusal::NoAcl(_) => "AC08",
            Refusal::HoldsMore { .. } => "AC09",
        }
    }

    fn fault(&self) -> Fault {
        CODES.iter().find(|(code, ..)| *code == self.code()).map_or(Fault::Source, |(_, fault, _)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_codes_is_the_enum() {
        let (path, decided_by) = (StorePath::root(), String::new());
        let refusals = [
            Refusal::NoRole { datastore: "tank".into() },
            Refusal::Hidden { path: path.clone(), decided_by: decided_by.clone() },
            Refusal::NotGranted {
                path: path.clone(),
                missing: AccessMask::READ,
                decided_by: decided_by.clone(),
            },
            Refusal::AclDamaged { path: path.clone(), why: String::new() },
            Refusal::Facts(SourceError::Unavailable(String::new())),
            Refusal::CreateOntoHidden { path, decided_by },
            Refusal::NoPrivilege { path: String::new(), missing: String::new() },
            Refusal::NoAcl(BadAcl::new("")),
            Refusal::HoldsMore { path: String::new(), holds: String::new() },
        ];
        assert_eq!(refusals.len(), CODES.len());
        for (refusal, (code, fault, _)) in refusals.iter().zip(CODES) {
            assert_eq!((refusal.code(), refusal.fault(), refusal.door()), (code, fault, Door::Access));
            assert_eq!(refusal.looks_absent(), ["AC01", "AC02", "AC04"].contains(&code));
        }
    }
}
