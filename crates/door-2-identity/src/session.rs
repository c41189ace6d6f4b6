//! Sessions: what a Fernet token claims. Nothing of a session is stored; whoever shows the token is judged on the facts each time
//! ([`crate::judge`]), so that whatever was taken away is gone with the next request.

use crate::ask::SessionAsk;
use crate::fernet::payload::{Audit, AuditId, Id, Payload, Scope as PayloadScope, Unread};
use crate::fernet::{KeyRing, frame};
use crate::principal::Reach;
use crate::refuse::Refusal;
use enfilade_facts::limits::{CLOCK_SKEW_SECONDS, TOKEN_SECONDS_MAX};
use enfilade_facts::tables::{Delegation, Trust};
use enfilade_facts::vocabulary::{CredentialId, DomainId, ProjectId, RoleId, TrustId, UserId};
use enfilade_facts::{Horizon, Revision};

/// How somebody proved who they are: a bit for each way, in the order Keystone 30 has them by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods(pub u64);

impl Methods {
    /// With a password.
    pub const PASSWORD: Methods = Methods(1 << 1);
    /// With another token.
    pub const TOKEN: Methods = Methods(1 << 2);
    /// With an application credential.
    pub const APPLICATION_CREDENTIAL: Methods = Methods(1 << 5);
    /// With a request that was signed with an EC2 key.
    pub const EC2_KEY: Methods = Methods(1 << 6);

    /// `external`, `password`, `token` and `mapped`: the user came in person. Of no way at all nobody knows that.
    const IN_PERSON: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 4;

    const NAMES: [&'static str; 7] =
        ["external", "password", "token", "oauth1", "mapped", "application_credential", "ec2credential"];

    /// Both.
    #[must_use]
    pub fn and(self, other: Methods) -> Self {
        Methods(self.0 | other.0)
    }

    /// Whether the user came in person, and not something that was lent to stand for them.
    pub fn are_in_person(self) -> bool {
        self.0 != 0 && self.0 & !Self::IN_PERSON == 0
    }

    /// Their names.
    pub fn names(self) -> Vec<&'static str> {
        let has = |(bit, _): &(usize, &&str)| self.0 & (1 << bit) != 0;
        Self::NAMES.iter().enumerate().filter(has).map(|(_, name)| *name).collect()
    }
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nothing but getting another one.
    Unscoped,
    /// A project.
    Project(ProjectId),
    /// A domain.
    Domain(DomainId),
    /// The whole system.
    System,
}

/// A record that lets a session be, beside its user: what that gives, and no more, and only as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// An application credential.
    Credential(CredentialId),
    /// A trust, of whoever trusts the user.
    Trust(TrustId),
}

/// What a token says, which was true when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub user: UserId,
    /// How they came in.
    pub methods: Methods,
    /// What for.
    pub scope: Scope,
    /// What it was made with beside what proves the user.
    pub lent: Option<Lent>,
    /// When it was made, seconds since the epoch.
    pub issued_at: i64,
    /// Until when it is good.
    pub expires_at: i64,
    /// Which one it is, and the first of its chain.
    pub audit: Audit,
}

/// A role somebody has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldRole {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: RoleId,
}

/// A session as the facts have it now.
#[derive(Clone, Debug)]
pub struct Session {
    /// What the token says.
    pub claim: Claim,
    /// The roles on what it is for, implied ones included, by name.
    pub roles: Vec<HeldRole>,
    /// The domain of the user.
    pub user_domain: DomainId,
    /// The domain it is for, or that of the project it is for.
    pub(crate) scope_domain: Option<DomainId>,
    /// What its application credential is for beside that.
    pub delegation: Option<Delegation>,
    /// The trust it is by.
    pub trusted: Option<Box<Trusted>>,
    /// The revision at which anything but revocations was changed last when it was judged; `None` where that was not known.
    pub(crate) rests_on: Option<Revision>,
}

/// A trust as the facts have it now.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// What it lends, of whom.
    pub trust: Trust,
    /// The user who trusts, and each who lent it on, with their domains.
    pub(crate) lenders: Vec<(UserId, DomainId)>,
    /// The last second the trust and each who lends are in time.
    pub(crate) last_second: i64,
}

impl Session {
    /// What a claim alone says, judged on nothing: for those who describe sessions.
    pub fn of_claim(claim: Claim) -> Self {
        let user_domain = DomainId::from_bytes([0; 16]);
        Session {
            claim,
            roles: Vec::new(),
            user_domain,
            scope_domain: None,
            delegation: None,
            trusted: None,
            rests_on: None,
        }
    }

    /// What stands for everything it was judged on but revocations: while this is the same, so is whatever is told of it.
    pub fn rests_on(&self) -> Option<Revision> {
        self.rests_on
    }

    /// Whether there is a role of this name.
    pub fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held.name == role)
    }

    /// The domain of the project it is for.
    pub fn project_domain(&self) -> Option<DomainId> {
        self.scope_domain.filter(|_| self.claim.scope.project().is_some())
    }

    /// Whether it is for certain requests alone.
    pub fn has_rules(&self) -> bool {
        self.delegation.as_ref().is_some_and(|delegation| !delegation.rules.is_empty())
    }

    /// Where it reaches among the paths of this house. A project's session reaches what is bound to the project. One for
    /// nothing reaches what its user reaches, if it came of a password; made of another token it must not outgrow that.
    pub(crate) fn reach(&self) -> Reach {
        match self.claim.scope {
            // Rules name requests of other services; what they mean for files nobody said.
            _ if self.has_rules() => Reach::Nothing,
            Scope::Project(project) => {
                Reach::Project { project, roles: self.roles.iter().map(|role| role.name.clone()).collect() }
            }
            Scope::Unscoped if self.claim.methods == Methods::PASSWORD => Reach::Everything,
            _ => Reach::Nothing,
        }
    }
}

impl Claim {
    /// The application credential it was made with.
    pub fn credential(&self) -> Option<CredentialId> {
        match self.lent {
            Some(Lent::Credential(id)) => Some(id),
            _ => None,
        }
    }

    /// The trust it is by.
    pub fn trust(&self) -> Option<TrustId> {
        match self.lent {
            Some(Lent::Trust(id)) => Some(id),
            _ => None,
        }
    }

    /// The root of its chain.
    pub fn chain(&self) -> AuditId {
        self.audit.chain.unwrap_or(self.audit.own)
    }

    /// Reads a token.
    ///
    /// # Errors
    /// When it is not ours, or says what cannot be here.
    pub fn read(ring: &KeyRing, ask: &SessionAsk) -> Result<Claim, Refusal> {
        let text = std::str::from_utf8(ask.token.reveal()).map_err(|_| Refusal::NotOurs)?;
        let mut room = frame::Room::default();
        let opened = frame::open(ring, text, &mut room).map_err(|_| Refusal::NotOurs)?;
        let payload = Payload::decode(opened.payload).map_err(Refusal::TokenUnread)?;
        let foreign = || Refusal::TokenUnread(Unread::Malformed);
        let uuid = |id: Id<'_>| match id {
            Id::Uuid(bytes) => Ok(bytes),
            Id::Text(_) => Err(foreign()),
        };
        let (scope, lent) = match payload.scope {
            PayloadScope::None => (Scope::Unscoped, None),
            PayloadScope::System => (Scope::System, None),
            PayloadScope::Project(id) => (Scope::Project(ProjectId::from_bytes(uuid(id)?)), None),
            PayloadScope::Domain(Id::Text("default")) => (Scope::Domain(DomainId::DEFAULT), None),
            PayloadScope::Domain(id) => (Scope::Domain(DomainId::from_bytes(uuid(id)?)), None),
            PayloadScope::ApplicationCredential { project, credential } => (
                Scope::Project(ProjectId::from_bytes(uuid(project)?)),
                Some(Lent::Credential(CredentialId::from_bytes(uuid(credential)?))),
            ),
            PayloadScope::Trust { project, trust } => (
                Scope::Project(ProjectId::from_bytes(uuid(project)?)),
                Some(Lent::Trust(TrustId::from_bytes(trust))),
            ),
        };
        let claim = Claim {
            user: UserId::from_bytes(uuid(payload.user)?),
            methods: Methods(payload.methods),
            scope,
            lent,
            issued_at: i64::try_from(opened.issued_at).map_err(|_| foreign())?,
            // A second that has begun counts; what is no time at all became the end of time.
            expires_at: payload.expires.ceil() as i64,
            audit: payload.audit,
        };
        // What was revoked is known for as long as this, and no longer.
        match claim.expires_at.saturating_sub(claim.issued_at) > TOKEN_SECONDS_MAX {
            true => Err(Refusal::TokenUnread(Unread::TooLong)),
            false => Ok(claim),
        }
    }

    /// The first second at which it is good: clocks differ a little, and who has set theirs ahead gets nothing by it. What was issued up to
    /// the horizon, as everything of this house, is good at once.
    pub(crate) fn good_from(&self, horizon: Horizon) -> i64 {
        match horizon.allows(self.issued_at) {
            true => i64::MIN,
            false => self.issued_at.saturating_sub(CLOCK_SKEW_SECONDS),
        }
    }

    /// As the token says it.
    pub fn to_payload(&self) -> Vec<u8> {
        let scope = match (self.scope, self.lent) {
            (Scope::Unscoped, _) => PayloadScope::None,
            (Scope::System, _) => PayloadScope::System,
            (Scope::Domain(DomainId::DEFAULT), _) => PayloadScope::Domain(Id::Text("default")),
            (Scope::Domain(id), _) => PayloadScope::Domain(Id::Uuid(*id.bytes())),
            (Scope::Project(id), None) => PayloadScope::Project(Id::Uuid(*id.bytes())),
            (Scope::Project(id), Some(Lent::Credential(credential))) => PayloadScope::ApplicationCredential {
                project: Id::Uuid(*id.bytes()),
                credential: Id::Uuid(*credential.bytes()),
            },
            (Scope::Project(id), Some(Lent::Trust(trust))) => {
                PayloadScope::Trust { project: Id::Uuid(*id.bytes()), trust: *trust.bytes() }
            }
        };
        let payload = Payload {
            user: Id::Uuid(*self.user.bytes()),
            methods: self.methods.0,
            scope,
            expires: self.expires_at as f64,
            audit: self.audit,
        };
        payload.encode()
    }
}
