//! The proof that door 4 granted access to an object or permitted a call. Without this proof no byte can be served.

use crate::acl_inheritance::Creator;
use crate::ask::ObjectId;
use crate::policy::{Rule, Who};
use enfilade_facts::vocabulary::{
    AccessMask, ApplicationName, Authid, CredentialId, DatastoreName, DomainId, ProjectId, Role, UserId,
};
use enfilade_facts::{At, Requester};

/// A permit for these rights on this object, granted at a revision. Only [`crate::open`] makes this permit.
#[derive(Clone, Copy, Debug)]
pub struct AccessPermit {
    pub(crate) object: ObjectId,
    pub(crate) granted: AccessMask,
    pub(crate) creator: Creator,
    pub(crate) at: At,
}

/// A permit to see or change access rights. The permit contains the principal that got it, for the audit record. Only [`crate::administer`] makes
/// this permit.
#[derive(Clone, Debug)]
pub struct AdminPermit {
    pub(crate) who: Authid,
    pub(crate) requester: Requester,
}

impl AdminPermit {
    /// The principal that got the permit.
    pub fn who(&self) -> &Authid {
        &self.who
    }

    /// Whether changes with this permit count as the changes of an administrator or of a user. They count as the changes of a user in two cases: the
    /// call needs no privileges, or the call is about the user's own record and no role grants the privileges.
    pub fn requester(&self) -> Requester {
        self.requester
    }
}

/// A permit for one request to an application. Only [`crate::use_application`] makes this permit.
#[derive(Clone, Debug)]
pub struct ApplicationPermit {
    pub(crate) roles: Vec<Role>,
    pub(crate) hides_groups: bool,
    pub(crate) signed_for: Option<ApplicationName>,
    pub(crate) datastore: Option<DatastoreName>,
    pub(crate) at: At,
}

impl ApplicationPermit {
    /// The datastore, if the request reads a file of a datastore. In that case, the request is permitted only if doors 3 and 4 also permit reading
    /// this file.
    pub fn datastore(&self) -> Option<&DatastoreName> {
        self.datastore.as_ref()
    }

    /// The application, if the application gets a signed token with the visitor's name, groups and roles.
    pub fn signed_for(&self) -> Option<&ApplicationName> {
        self.signed_for.as_ref()
    }

    /// The visitor's roles on the path; empty if there is no visitor. If everybody may make the request, the list of roles can be empty although
    /// there is a visitor.
    pub fn into_roles(self) -> Vec<Role> {
        self.roles
    }

    /// Whether the application does not get the names of the visitor's groups.
    pub fn hides_groups(&self) -> bool {
        self.hides_groups
    }

    /// The revision of the facts on which the permit was granted.
    pub fn at(&self) -> At {
        self.at
    }
}

/// A permit for one call of Keystone's API. Only [`crate::use_api`] makes this permit.
#[derive(Clone, Debug)]
pub struct ApiPermit {
    pub(crate) who: Authid,
    pub(crate) only_domain: Option<DomainId>,
    pub(crate) only_made_by: Option<CredentialId>,
    /// The alternative ([`Rule::who`]) that permitted the call. `user` is the user of the session.
    pub(crate) by: Who,
    pub(crate) user: UserId,
    /// The rule that permitted the call. The permit stores the rule, and the domain, the project and the user (`other`) that the call is about,
    /// because door 4 may have to judge the call again.
    pub(crate) rule: &'static Rule,
    pub(crate) domain: Option<DomainId>,
    pub(crate) project: Option<ProjectId>,
    pub(crate) other: Option<UserId>,
}

impl ApiPermit {
    /// Whether the permit was given to an administrator.
    pub fn is_administrators(&self) -> bool {
        self.by == Who::Admin
    }

    /// Whether the caller may make the call only because every session may make it. In this case a list contains only the caller's own resources.
    pub fn is_for_anybody(&self) -> bool {
        self.by == Who::Anybody
    }

    /// Whether changes with this permit count as the changes of an administrator or of a user. The changes of a domain's manager count as the changes
    /// of a user, because tenants manage their own domains.
    pub fn requester(&self) -> Requester {
        if self.is_administrators() { Requester::Administrator } else { Requester::User }
    }

    /// Whether the permit allows reading the secrets of this user. Only the user and an administrator may read the secrets. A system reader may not
    /// read the secrets of a user, because a client that knows the secrets can act as the user.
    pub fn tells_secrets_of(&self, user: &UserId) -> bool {
        self.is_administrators() || self.user == *user
    }

    /// The domain that a list is limited to, if the user may see only one domain.
    pub fn only_domain(&self) -> Option<DomainId> {
        self.only_domain
    }

    /// The application credential of the session, if a list of keys may contain only keys that this credential created. `None` if the list has no
    /// such limit.
    pub fn only_made_by(&self) -> Option<CredentialId> {
        self.only_made_by
    }

    /// The principal that got the permit.
    pub fn who(&self) -> &Authid {
        &self.who
    }
}

/// The caller who requested the propagation of ACLs.
#[derive(Clone, Copy, Debug)]
pub enum PropagationBy<'p> {
    /// A user who moves the object and has this permit for the object. Moving the object does not give this user a new right. The reason: a user who
    /// may read and delete the object, and may create an object at the new path, could also copy the object. The copy would inherit the same entries
    /// from its new directory. A user who may not read an object must not get the right to read the object by moving it.
    Mover(&'p AccessPermit),
    /// The operator of the machine, who runs a command. The file system decides whether the operator's process may change the object.
    Operator(ObjectId),
}

/// A permit to change the inherited entries in the ACL of one object, and to list the object if it is a directory. Only [`PropagationPermit::new`]
/// makes this permit.
#[derive(Clone, Copy, Debug)]
pub struct PropagationPermit {
    object: ObjectId,
    granted: AccessMask,
    is_operators: bool,
}

impl PropagationPermit {
    /// Makes a permit for this caller.
    pub fn new(by: PropagationBy<'_>) -> Self {
        match by {
            PropagationBy::Mover(permit) => {
                PropagationPermit { object: permit.object, granted: permit.granted, is_operators: false }
            }
            PropagationBy::Operator(object) => {
                PropagationPermit { object, granted: AccessMask::ALL, is_operators: true }
            }
        }
    }

    /// Whether the permit is for this object and includes READ_DATA, which is LIST for a directory. The operator's permit includes every right.
    pub fn covers(&self, object: ObjectId) -> bool {
        self.object == object && self.granted.covers(AccessMask::READ_DATA)
    }

    /// Whether the permit was given to the operator.
    pub fn is_operators(&self) -> bool {
        self.is_operators
    }
}

impl AccessPermit {
    /// Whether the permit grants all rights of `mask` on this object.
    pub fn covers(&self, object: ObjectId, mask: AccessMask) -> bool {
        self.object == object && self.granted.covers(mask)
    }

    /// The object that was judged.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Everything that was granted on the object.
    pub fn granted(&self) -> AccessMask {
        self.granted
    }

    /// The owner of a file that is created with the permit.
    pub fn creator(&self) -> Creator {
        self.creator
    }

    /// The revision of the facts on which the permit was granted.
    pub fn at(&self) -> At {
        self.at
    }
}
