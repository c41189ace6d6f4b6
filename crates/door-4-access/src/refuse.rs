//! The refusals of door 4.

use crate::method_class::MethodClass;
use crate::ntacl::BadAcl;
use enfilade_facts::tables::CredentialKind;
use enfilade_facts::vocabulary::{AccessMask, ApplicationName, RolePath, StorePath};
use enfilade_facts::{Door, Fault, RefusalRow, Refuse, SourceError};

/// A refusal of door 4.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The user has no role anywhere in the datastore, so the datastore looks absent.
    #[error("the user has no role on datastore `{datastore}` or on anything in it{note}")]
    NoRole {
        /// The datastore.
        datastore: String,
        /// A note for the operator; the client does not get it.
        note: &'static str,
    },
    /// The user may not see the target, so the target looks absent.
    #[error("the user cannot see {path}: {decided_by}")]
    Hidden {
        /// The target.
        path: StorePath,
        /// The role or entry that decided.
        decided_by: String,
    },
    /// The user may see the target, but does not have this right on the target.
    #[error("{missing} on {path} is not granted: {decided_by}")]
    NotGranted {
        /// The target.
        path: StorePath,
        /// The missing rights.
        missing: AccessMask,
        /// The role or entry that decided.
        decided_by: String,
    },
    /// The ACL cannot be read or is malformed, so the ACL grants no right. Only a role that skips ACLs still grants access.
    #[error("the ACL of {path} is invalid: {why}; replace it with `enfilade acl set`")]
    AclDamaged {
        /// The target.
        path: StorePath,
        /// The error in the ACL.
        why: String,
    },
    /// The stored facts could not be read.
    #[error(transparent)]
    Facts(#[from] SourceError),
    /// The user does not have a privilege on the path.
    #[error("{path} needs {missing}")]
    NoPrivilege {
        /// The path, or the rule of the API.
        path: String,
        /// The missing privileges.
        missing: String,
    },
    /// The user or group has a right that a manager of its domain may not grant. So the manager may not change the user or group.
    #[error(
        "{path} is refused: the user or group that this call would change has more rights than a manager of a domain may give ({holds}); ask an administrator"
    )]
    HoldsMore {
        /// The rule.
        path: String,
        /// One of the rights that the manager may not give.
        holds: String,
    },
    /// No application has the host or the name in the request. Or an application has it, but the proxy asks for another application.
    #[error(
        "no application has the host or name `{0}`, or `X-Enfilade-Application` names another application"
    )]
    NoApplication(String),
    /// The application does not accept credentials of this kind.
    #[error("the application `{application}` does not accept a credential of the kind `{kind}`")]
    NotAccepted {
        /// The application.
        application: ApplicationName,
        /// The kind of the visitor's credential.
        kind: CredentialKind,
    },
    /// The visitor has no role that permits the request to the application.
    #[error("{class} of {path} is not permitted: {decided_by}")]
    NotPermitted {
        /// What the request does on the path.
        class: MethodClass,
        /// The path of the request in the tree of paths on which roles are assigned.
        path: RolePath,
        /// The roles that decided.
        decided_by: String,
    },
    /// The path of the application is not public, so the request needs a credential.
    #[error("{0} is not public")]
    NotPublic(RolePath),
    /// The ACL that a new object would get cannot be written in the datastore's dialect.
    #[error("the new file or directory cannot have an ACL: {0}")]
    NoAcl(BadAcl),
    /// The name already belongs to an object that the user may not see.
    #[error("{path} exists already, and the user cannot see it: {decided_by}")]
    CreateOntoHidden {
        /// The target.
        path: StorePath,
        /// The role or entry that decided.
        decided_by: String,
    },
}

/// Every refusal of this door.
#[rustfmt::skip]
pub const CODES: [RefusalRow; 13] = [
    RefusalRow::new("AC01", Fault::Client, "the user has no role on the datastore, so the datastore looks absent", "assign a role: `enfilade role assign --path /datastore/NAME`"),
    RefusalRow::new("AC02", Fault::Client, "the user cannot see the file or directory, so the file or directory looks absent", "`enfilade explain` shows the role, ACL entry or mode bits that decide, and a command that gives the right"),
    RefusalRow::new("AC03", Fault::Client, "the user can see the file or directory, but does not have the right that the request needs", "`enfilade explain` shows the role, ACL entry or mode bits that decide, and a command that gives the right"),
    RefusalRow::new("AC04", Fault::Source, "the ACL is damaged, so the file or directory looks absent", "replace the ACL with `enfilade acl set`"),
    RefusalRow::new("AC05", Fault::Source, "the records of roles could not be read", "run `enfilade facts check`; the log says why the facts cannot be read"),
    RefusalRow::new("AC06", Fault::Client, "an entry that the user cannot see already has this name", "choose another name, or change the ACL of the entry"),
    RefusalRow::new("AC07", Fault::Client, "the user does not have the privilege that this call needs on the path", "assign a role with this privilege (`enfilade role assign`); the log contains the path and the privilege"),
    RefusalRow::new("AC08", Fault::Client, "the new file or directory cannot have an ACL in the datastore's format", "the log says why; set the uid of the user (`enfilade user set --uid`), or change the ACL of the directory"),
    RefusalRow::new("AC09", Fault::Client, "the user or group has more rights than a manager of its domain can give, so the manager may not change it", "ask an administrator"),
    RefusalRow::new("AC10", Fault::Operator, "no application has the host or the name in the request, or `X-Enfilade-Application` names another application", "`enfilade application list` shows the hosts; `enfilade application set NAME --host HOST --host HOST` replaces the list, so name every host"),
    RefusalRow::new("AC11", Fault::Client, "the application does not accept a credential of this kind", "use another kind of credential, or change `--accept` of the application"),
    RefusalRow::new("AC12", Fault::Client, "the user has no role that permits this request to the application", "`enfilade explain USER --url 'METHOD URL'` shows the roles, and a command that gives the right"),
    RefusalRow::new("AC13", Fault::Client, "the path of the application is not public, and the request has no credential", "send a credential"),
];

impl Refusal {
    /// Whether the refusal is about an object that the user may not see.
    pub fn is_of_hidden(&self) -> bool {
        self.looks_absent() || matches!(self, Refusal::CreateOntoHidden { .. })
    }

    /// Whether the target must look absent to the client.
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
            Refusal::NoApplication(_) => "AC10",
            Refusal::NotAccepted { .. } => "AC11",
            Refusal::NotPermitted { .. } => "AC12",
            Refusal::NotPublic(_) => "AC13",
        }
    }

    fn fault(&self) -> Fault {
        RefusalRow::fault_of(&CODES, self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_codes_is_the_enum() {
        let (path, decided_by) = (StorePath::root(), String::new());
        let refusals = [
            Refusal::NoRole { datastore: "tank".into(), note: "" },
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
            Refusal::NoApplication(String::new()),
            Refusal::NotAccepted { application: "wiki".parse().unwrap(), kind: CredentialKind::Password },
            Refusal::NotPermitted {
                class: MethodClass::Read,
                path: "/application/wiki".parse().unwrap(),
                decided_by: String::new(),
            },
            Refusal::NotPublic("/application/wiki".parse().unwrap()),
        ];
        assert_eq!(refusals.len(), CODES.len());
        for (refusal, RefusalRow { code, fault, .. }) in refusals.iter().zip(CODES) {
            assert_eq!((refusal.code(), refusal.fault(), refusal.door()), (code, fault, Door::Access));
            assert_eq!(refusal.looks_absent(), ["AC01", "AC02", "AC04"].contains(&code));
            assert_eq!(refusal.is_of_hidden(), ["AC01", "AC02", "AC04", "AC06"].contains(&code));
        }
    }
}
