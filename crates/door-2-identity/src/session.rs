//! Sessions, and the claims that Fernet tokens contain. The session of a Fernet token is not stored; the claim of a browser's session is in a record
//! (`browser_session.rs`). Each request is judged on the current facts ([`crate::judge`]). So if a right is taken away from a user, the next request
//! of the user no longer has this right.

use crate::ask::SessionAsk;
use crate::fernet::payload::{Audit, AuditId, Id, Payload, Scope as PayloadScope, Unread};
use crate::fernet::{KeyRing, frame};
use crate::principal::Reach;
use crate::refuse::Refusal;
use enfilade_facts::limits::{CLOCK_SKEW_SECONDS, TOKEN_SECONDS_MAX};
use enfilade_facts::tables::{AccessToken, Audience, Delegation, Trust};
use enfilade_facts::vocabulary::{AccessTokenId, CredentialId, DomainId, ProjectId, RoleId, TrustId, UserId};
use enfilade_facts::{Horizon, Revision};

/// How a user authenticated: one bit for each method. The bits are in the default order of Keystone 30.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods(pub u64);

impl Methods {
    /// By a password.
    pub const PASSWORD: Methods = Methods(1 << 1);
    /// By another token.
    pub const TOKEN: Methods = Methods(1 << 2);
    /// By a request that an OAuth 1.0a consumer signed with an access token.
    pub const OAUTH1: Methods = Methods(1 << 3);
    /// By an application credential.
    pub const APPLICATION_CREDENTIAL: Methods = Methods(1 << 5);
    /// By a request that was signed with an EC2 key.
    pub const EC2_KEY: Methods = Methods(1 << 6);
    /// By a passcode. Keystone has no default bit for this method, so this server uses the bit after [`Methods::EC2_KEY`].
    pub const TOTP: Methods = Methods(1 << 7);

    /// The methods with which a user authenticates in person: `external`, `password`, `token`, `mapped` and `totp`.
    const IN_PERSON: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 7;

    /// The methods with which a client can log in to this server.
    const SERVED: Methods = Methods(
        Self::PASSWORD.0 | Self::TOKEN.0 | Self::OAUTH1.0 | Self::APPLICATION_CREDENTIAL.0 | Self::TOTP.0,
    );

    const NAMES: [&'static str; 8] = [
        "external",
        "password",
        "token",
        "oauth1",
        "mapped",
        "application_credential",
        "ec2credential",
        "totp",
    ];

    /// The method of this name, if a client can log in to this server with it.
    pub fn named(name: &str) -> Option<Methods> {
        let bit = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Methods(1 << bit)).filter(|method| Self::SERVED.have(*method))
    }

    /// Whether these methods contain all methods of `other`.
    pub fn have(self, other: Methods) -> bool {
        self.0 & other.0 == other.0
    }

    /// The methods in `self` together with the methods in `other`.
    #[must_use]
    pub fn and(self, other: Methods) -> Self {
        Methods(self.0 | other.0)
    }

    /// Whether the user authenticated in person, and not by a credential that acts for the user. A token without methods does not prove that the user
    /// authenticated in person.
    pub fn are_in_person(self) -> bool {
        self.0 != 0 && self.0 & !Self::IN_PERSON == 0
    }

    /// Keystone's names of the methods.
    pub fn names(self) -> Vec<&'static str> {
        let has = |(bit, _): &(usize, &&str)| self.0 & (1 << bit) != 0;
        Self::NAMES.iter().enumerate().filter(has).map(|(_, name)| *name).collect()
    }
}

/// The scope of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// No scope: the session has no roles. A client can exchange it for a session with a scope.
    Unscoped,
    /// A project.
    Project(ProjectId),
    /// A domain.
    Domain(DomainId),
    /// The whole system.
    System,
}

impl Scope {
    /// The project, if the scope is a project.
    pub fn project(self) -> Option<ProjectId> {
        match self {
            Scope::Project(project) => Some(project),
            _ => None,
        }
    }

    /// The domain, if the scope is a domain.
    pub fn domain(self) -> Option<DomainId> {
        match self {
            Scope::Domain(domain) => Some(domain),
            _ => None,
        }
    }
}

/// The record that lends its rights to a session. The session has at most the rights of the record, and ends when the record is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// An application credential.
    Credential(CredentialId),
    /// A trust, by which another user lends roles.
    Trust(TrustId),
    /// An OAuth access token, by which a user delegates roles to a consumer.
    AccessToken(AccessTokenId),
}

/// The content of a token. The content was true when the token was issued, but may no longer be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The user.
    pub user: UserId,
    /// How the user authenticated.
    pub methods: Methods,
    /// The scope.
    pub scope: Scope,
    /// The record that lends its rights to the session. `None` for a session in person.
    pub lent: Option<Lent>,
    /// When the token was issued, in seconds since the epoch.
    pub issued_at: i64,
    /// When the token expires, in seconds since the epoch.
    pub expires_at: i64,
    /// The audit id of the token, and the audit id of the first token of its chain.
    pub audit: Audit,
}

/// A role of a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldRole {
    /// The name of the role.
    pub name: String,
    /// The id of the role.
    pub id: RoleId,
}

/// A session that was judged on the stored facts.
#[derive(Clone, Debug)]
pub struct Session {
    /// The content of the session's token, or of the record of a browser's session.
    pub claim: Claim,
    /// The roles in the session's scope, including implied roles, sorted by name.
    pub roles: Vec<HeldRole>,
    /// The domain of the user.
    pub user_domain: DomainId,
    /// The domain of the session's scope: the domain itself, or the domain of the project.
    pub(crate) scope_domain: Option<DomainId>,
    /// The delegation record of the session's application credential, with the project and the access rules.
    pub delegation: Option<Delegation>,
    /// The trust for which the session was issued.
    pub trusted: Option<Box<Trusted>>,
    /// The OAuth access token for which the session was issued.
    pub access: Option<Box<AccessToken>>,
    /// The audience of the session, if it is a browser's session; `None` for the session of a token.
    pub audience: Option<Audience>,
    /// When the session was judged, this was the revision of the last change that was not a revocation; `None` if that revision was not known.
    pub(crate) rests_on: Option<Revision>,
}

/// A trust that was judged on the stored facts.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// The trust.
    pub trust: Trust,
    /// The trustor and each user who redelegated the trust, each with the user's domain.
    pub(crate) lenders: Vec<(UserId, DomainId)>,
    /// The last second in which the trust and each of these users are valid.
    pub(crate) last_second: i64,
}

impl Session {
    /// Creates a session from a claim without judging the claim, for descriptions of sessions.
    pub fn of_claim(claim: Claim) -> Self {
        let user_domain = DomainId::from_bytes([0; 16]);
        Session {
            claim,
            roles: Vec::new(),
            user_domain,
            scope_domain: None,
            delegation: None,
            trusted: None,
            access: None,
            audience: None,
            rests_on: None,
        }
    }

    /// When the session was judged, this was the revision of the last change that was not a revocation. If this revision is the same for two
    /// judgements, they give the same answers about the session, unless a revocation ended the session.
    pub fn rests_on(&self) -> Option<Revision> {
        self.rests_on
    }

    /// Whether the session has a role of this name.
    pub fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held.name == role)
    }

    /// The domain of the session's project.
    pub fn project_domain(&self) -> Option<DomainId> {
        self.scope_domain.filter(|_| self.claim.scope.project().is_some())
    }

    /// Whether access rules limit the session to certain requests of other services.
    pub fn has_rules(&self) -> bool {
        self.delegation.as_ref().is_some_and(|delegation| !delegation.rules.is_empty())
    }

    /// The last second in which the trust or the OAuth access token of the session is valid; `i64::MAX` if the session has neither.
    pub(crate) fn lent_until(&self) -> i64 {
        let by_trust = self.trusted.as_ref().map_or(i64::MAX, |trusted| trusted.last_second);
        self.access.as_ref().map_or(by_trust, |access| by_trust.min(access.expires - 1))
    }

    /// Where the roles of the session grant rights on paths and datastores of this server. A session for a project reaches the datastores that are
    /// bound to the project. In an unscoped session that was issued for a password, with or without a passcode, roles grant rights on every path on
    /// which they were assigned to the user. The roles of any other session grant no rights on paths and datastores. For example, an unscoped session
    /// that was issued for another token has no such rights, because it must not have more rights than that token.
    pub(crate) fn reach(&self) -> Reach {
        match self.claim.scope {
            // Access rules list requests to other services. They never allow access to files.
            _ if self.has_rules() => Reach::Nothing,
            Scope::Project(project) => {
                Reach::Project { project, roles: self.roles.iter().map(|role| role.name.clone()).collect() }
            }
            Scope::Unscoped
                if self.claim.methods.and(Methods::TOTP) == Methods::PASSWORD.and(Methods::TOTP) =>
            {
                Reach::Everything
            }
            _ => Reach::Nothing,
        }
    }
}

/// The user of a token. A user of an LDAP directory has an id of 64 digits, which is text in the token, as in Keystone's tokens.
fn user_of(id: Id<'_>) -> Option<UserId> {
    match id {
        Id::Uuid(bytes) => Some(UserId::from_bytes(bytes)),
        Id::Text(text) => text.parse().ok().filter(UserId::is_long),
    }
}

impl Claim {
    /// The application credential that lends its rights to the session.
    pub fn credential(&self) -> Option<CredentialId> {
        match self.lent {
            Some(Lent::Credential(id)) => Some(id),
            _ => None,
        }
    }

    /// The trust for which the session was issued.
    pub fn trust(&self) -> Option<TrustId> {
        match self.lent {
            Some(Lent::Trust(id)) => Some(id),
            _ => None,
        }
    }

    /// The OAuth access token for which the session was issued.
    pub fn access_token(&self) -> Option<AccessTokenId> {
        match self.lent {
            Some(Lent::AccessToken(id)) => Some(id),
            _ => None,
        }
    }

    /// The audit id of the first token of the session's audit chain.
    pub fn chain(&self) -> AuditId {
        self.audit.chain.unwrap_or(self.audit.own)
    }

    /// Opens a token and reads its claim.
    ///
    /// # Errors
    /// When none of the keys signed the token, the content of the token is not supported, or the token lasts too long.
    pub fn read(ring: &KeyRing, ask: &SessionAsk) -> Result<Claim, Refusal> {
        let text = std::str::from_utf8(ask.token.reveal()).map_err(|_| Refusal::NotOurs)?;
        let mut room = frame::Room::default();
        let opened = frame::open(ring, text, &mut room).map_err(|_| Refusal::NotOurs)?;
        let payload = Payload::decode(opened.payload).map_err(Refusal::TokenUnsupported)?;
        let foreign = || Refusal::TokenUnsupported(Unread::Malformed);
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
            PayloadScope::AccessToken { project, token } => (
                Scope::Project(ProjectId::from_bytes(uuid(project)?)),
                Some(Lent::AccessToken(AccessTokenId::from_bytes(uuid(token)?))),
            ),
        };
        let claim = Claim {
            user: user_of(payload.user).ok_or_else(foreign)?,
            methods: Methods(payload.methods),
            scope,
            lent,
            issued_at: i64::try_from(opened.issued_at).map_err(|_| foreign())?,
            // The time is rounded up to a full second. A time outside the range of `i64` becomes the nearest value in the range.
            expires_at: payload.expires.ceil() as i64,
            audit: payload.audit,
        };
        // Revocations are stored for only `TOKEN_SECONDS_MAX` seconds, so no token may last longer.
        match claim.expires_at.saturating_sub(claim.issued_at) > TOKEN_SECONDS_MAX {
            true => Err(Refusal::TokenUnsupported(Unread::TooLong)),
            false => Ok(claim),
        }
    }

    /// The first second in which the session is valid. The servers of this store issue tokens only with issue times up to the horizon, so a token
    /// with such an issue time is valid immediately. A token with a later issue time comes from a server of another store. Such a token becomes valid
    /// at its issue time minus the tolerated difference of clocks. Otherwise, a revocation on this store could miss tokens of a server with a clock
    /// that is ahead.
    pub(crate) fn good_from(&self, horizon: Horizon) -> i64 {
        match horizon.allows(self.issued_at) {
            true => i64::MIN,
            false => self.issued_at.saturating_sub(CLOCK_SKEW_SECONDS),
        }
    }

    /// The payload of the session's token.
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
            (Scope::Project(id), Some(Lent::AccessToken(token))) => {
                PayloadScope::AccessToken { project: Id::Uuid(*id.bytes()), token: Id::Uuid(*token.bytes()) }
            }
        };
        let digits;
        let user = match <[u8; 16]>::try_from(self.user.bytes()) {
            Ok(uuid) => Id::Uuid(uuid),
            // As in Keystone, an id that is not a UUID is text.
            Err(_) => {
                digits = self.user.to_string();
                Id::Text(&digits)
            }
        };
        let payload = Payload {
            user,
            methods: self.methods.0,
            scope,
            expires: self.expires_at as f64,
            audit: self.audit,
        };
        payload.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::tables::AccessRule;
    use enfilade_facts::vocabulary::AccessRuleId;

    const PROJECT: ProjectId = ProjectId::from_bytes([1; 16]);
    const DOMAIN: DomainId = DomainId::from_bytes([2; 16]);

    fn session(scope: Scope, methods: Methods) -> Session {
        let claim = Claim {
            user: UserId::from_bytes([3; 16]),
            methods,
            scope,
            lent: None,
            issued_at: 1_000,
            expires_at: 2_000,
            audit: Audit { own: [4; 16], chain: None },
        };
        let role = HeldRole { name: "member".into(), id: RoleId::from_bytes([5; 16]) };
        Session { roles: vec![role], scope_domain: Some(DOMAIN), ..Session::of_claim(claim) }
    }

    #[test]
    fn methods_have_keystones_names() {
        for (methods, names) in [
            (Methods(0), &[][..]),
            (Methods(1), &["external"]),
            (Methods::PASSWORD, &["password"]),
            (Methods::PASSWORD.and(Methods::TOKEN), &["password", "token"]),
            (Methods(1 << 3 | 1 << 4), &["oauth1", "mapped"]),
            (
                Methods::APPLICATION_CREDENTIAL.and(Methods::EC2_KEY),
                &["application_credential", "ec2credential"],
            ),
            (Methods::PASSWORD.and(Methods::TOTP), &["password", "totp"]),
        ] {
            assert_eq!(methods.names(), names);
        }
    }

    #[test]
    fn a_session_reaches_what_its_scope_and_its_rules_allow() {
        let project = Reach::Project { project: PROJECT, roles: vec!["member".into()] };
        for (scope, methods, reach, of_project, of_domain) in [
            (Scope::Unscoped, Methods::PASSWORD, Reach::Everything, None, None),
            (Scope::Unscoped, Methods::PASSWORD.and(Methods::TOTP), Reach::Everything, None, None),
            (Scope::Unscoped, Methods::PASSWORD.and(Methods::TOKEN), Reach::Nothing, None, None),
            (Scope::Project(PROJECT), Methods::PASSWORD, project, Some(DOMAIN), None),
            (Scope::Domain(DOMAIN), Methods::PASSWORD, Reach::Nothing, None, Some(DOMAIN)),
            (Scope::System, Methods::PASSWORD, Reach::Nothing, None, None),
        ] {
            let mut session = session(scope, methods);
            assert_eq!(session.reach(), reach, "{scope:?}");
            assert_eq!((session.project_domain(), scope.domain()), (of_project, of_domain), "{scope:?}");
            let rule = AccessRule {
                id: AccessRuleId::from_bytes([6; 16]),
                service: "compute".into(),
                method: "GET".into(),
                path: "/**".into(),
            };
            for (rules, reach) in [(vec![], reach), (vec![rule], Reach::Nothing)] {
                let has_rules = !rules.is_empty();
                session.delegation = Some(Delegation {
                    project: PROJECT,
                    roles: vec![],
                    unrestricted: false,
                    rules,
                    by: None,
                    expires_micros: None,
                });
                assert_eq!((session.has_rules(), session.reach()), (has_rules, reach), "{scope:?}");
            }
        }
    }

    #[test]
    fn a_token_from_the_future_waits_for_its_second_less_the_skew_of_clocks() {
        let claim = session(Scope::System, Methods::PASSWORD).claim;
        assert_eq!(claim.good_from(Horizon::from_second(Some(1_000))), i64::MIN);
        assert_eq!(claim.good_from(Horizon::from_second(Some(999))), 1_000 - CLOCK_SKEW_SECONDS);
    }

    #[test]
    fn a_token_may_last_as_long_as_revocations_are_kept_and_no_longer() {
        let ring = KeyRing::new(&[(1, &[7; 32])]).unwrap();
        for (more, is_read) in [(0, true), (1, false)] {
            let mut claim = session(Scope::System, Methods::PASSWORD).claim;
            claim.expires_at = claim.issued_at + TOKEN_SECONDS_MAX + more;
            let token = frame::seal(&ring, 1_000, [8; 16], &claim.to_payload()).unwrap();
            let read = Claim::read(
                &ring,
                &SessionAsk { token: enfilade_facts::vocabulary::Secret::new(token.as_bytes()).unwrap() },
            );
            assert_eq!(read.as_ref().ok(), is_read.then_some(&claim), "{more}: {read:?}");
        }
    }

    #[test]
    fn the_id_of_a_user_of_a_directory_is_read_back_and_other_texts_are_not_ids() {
        let ring = KeyRing::new(&[(1, &[7; 32])]).unwrap();
        let read = |payload: &[u8]| {
            let token = frame::seal(&ring, 1_000, [8; 16], payload).unwrap();
            let token = enfilade_facts::vocabulary::Secret::new(token.as_bytes()).unwrap();
            Claim::read(&ring, &SessionAsk { token })
        };
        let mut claim = session(Scope::Project(PROJECT), Methods::PASSWORD).claim;
        claim.user = UserId::from_long([9; 32]);
        assert_eq!(read(&claim.to_payload()).unwrap(), claim);
        let payload = claim.to_payload();
        let payload = Payload::decode(&payload).unwrap();
        for text in ["ann", "default", &"09".repeat(16), &"0G".repeat(32), &"09".repeat(33)] {
            let read = read(&Payload { user: Id::Text(text), ..payload }.encode());
            assert!(matches!(read, Err(Refusal::TokenUnsupported(Unread::Malformed))), "{text}: {read:?}");
        }
    }

    #[test]
    fn a_user_authenticated_in_person_if_no_other_credential_took_part() {
        let of = |bits: &[u32]| Methods(bits.iter().map(|bit| 1 << bit).sum());
        let in_person = [0, 1, 2, 4, 7];
        for bit in 0..64 {
            assert_eq!(of(&[bit]).are_in_person(), in_person.contains(&bit), "{bit}");
            assert_eq!(of(&[bit]).and(Methods::PASSWORD).are_in_person(), in_person.contains(&bit), "{bit}");
        }
        assert!(of(&in_person).are_in_person());
        assert!(!Methods(0).are_in_person(), "a token without methods proves nothing");
    }
}
