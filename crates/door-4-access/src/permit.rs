//! The proof that door 4 was passed. Without one no byte can be served.

use crate::ask::ObjectId;
use crate::inherit::Creator;
use enfilade_facts::At;
use enfilade_facts::vocabulary::{AccessMask, Authid, CredentialId, DomainId};

/// These rights on this object, as of a revision.
/// Made in one place, [`crate::open`] (invariant D2).
#[derive(Clone, Copy, Debug)]
pub struct AccessPermit {
    pub(crate) object: ObjectId,
    pub(crate) granted: AccessMask,
    pub(crate) creator: Creator,
    pub(crate) at: At,
}

/// Leave to look at or change who may do what; names who has it, for the audit record.
/// Made in one place, [`crate::administer`] (invariant D2).
#[derive(Clone, Debug)]
pub struct AdminPermit {
    pub(crate) who: Authid,
}

impl AdminPermit {
    /// Who has it.
    pub fn who(&self) -> &Authid {
        &self.who
    }
}

/// Leave to do one thing by Keystone's API. Made in one place, [`crate::use_api`].
#[derive(Clone, Debug)]
pub struct ApiPermit {
    pub(crate) who: Authid,
    pub(crate) only_domain: Option<DomainId>,
    pub(crate) only_made_by: Option<CredentialId>,
}

impl ApiPermit {
    /// The only domain it is for, where a list is asked for by whoever sees one domain.
    pub fn only_domain(&self) -> Option<DomainId> {
        self.only_domain
    }

    /// The only application credential whose keys it is for, where a list of keys is asked for by a session of one.
    pub fn only_made_by(&self) -> Option<CredentialId> {
        self.only_made_by
    }

    /// Who has it.
    pub fn who(&self) -> &Authid {
        &self.who
    }
}

impl AccessPermit {
    /// Whether it grants all of these on this object.
    pub fn covers(&self, object: ObjectId, mask: AccessMask) -> bool {
        self.object == object && self.granted.covers(mask)
    }

    /// The object that was judged.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Everything that was granted on it.
    pub fn granted(&self) -> AccessMask {
        self.granted
    }

    /// Who owns what is made with it.
    pub fn creator(&self) -> Creator {
        self.creator
    }

    /// The facts it was granted on.
    pub fn at(&self) -> At {
        self.at
    }
}
