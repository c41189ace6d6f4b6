//! The records of a Keystone server.

use enfilade_facts::tables::{
    AccessToken, Blob, BlobId, Consumer, Delegation, Domain, DomainConfig, Endpoint, EndpointFilterKey,
    EndpointGroup, GrantKey, IdentityProvider, IdentityProviderId, Limit, Mapping, MappingId, MembershipKey,
    NamedRole, Password, Policy, PolicyAssociation, PolicyTarget, Profile, Project, Protocol, ProtocolKey,
    Region, RegionId, RegisteredLimit, Service, ServiceProvider, ServiceProviderId, Trust, Verifier,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, ConsumerId, CredentialId, DomainId, EndpointGroupId, EndpointId, GroupId, LimitId,
    PolicyId, ProjectId, RegisteredLimitId, RoleId, ServiceId, TrustId, UserId,
};

/// A record of a Keystone server. Keystone has no SIDs, so imported users and groups get new SIDs.
#[derive(Clone, Debug)]
pub enum CloudRecord {
    /// A domain.
    Domain(DomainId, Domain),
    /// A role. The roles that the role implies may come later in the list of records.
    Role(RoleId, NamedRole),
    /// A project; its parents come before it.
    Project(ProjectId, Project),
    /// The option `immutable` of a domain, role or project: the API neither changes nor deletes such a record. The domain, role or project itself
    /// comes earlier in the list of records.
    Immutable(CloudRecordId),
    /// A user, with the profile and, if it is known, the password hash.
    User(UserId, Box<CloudUser>),
    /// A group: domain, name and description.
    Group(GroupId, DomainId, String, Option<String>),
    /// A membership of a group.
    Member(MembershipKey),
    /// A role assignment.
    Grant(GrantKey),
    /// A region; the regions above it come before it.
    Region(RegionId, Region),
    /// A service.
    Service(ServiceId, Service),
    /// An endpoint.
    Endpoint(EndpointId, Endpoint),
    /// A record that only services and the catalog of a project depend on.
    ForServices(ServiceRecord),
    /// A record of federation.
    Federation(FederationRecord),
    /// An application credential.
    Credential(CredentialId, Box<CloudCredential>),
    /// A credential that a service stored for a user. If it is an EC2 key that was made with an application credential, the application credential
    /// comes earlier in the list of records.
    Blob(BlobId, Box<Blob>),
    /// A trust; the trusts from which it was redelegated come before it.
    Trust(TrustId, Box<Trust>),
    /// An OAuth consumer.
    Consumer(ConsumerId, Consumer),
    /// An OAuth access token. Its consumer comes earlier.
    AccessToken(AccessTokenId, Box<AccessToken>),
    /// The configuration of a domain.
    Configuration(DomainId, DomainConfig),
}

/// The id of a domain, role or project.
#[derive(Clone, Copy, Debug)]
pub enum CloudRecordId {
    /// The id of a domain.
    Domain(DomainId),
    /// The id of a role.
    Role(RoleId),
    /// The id of a project.
    Project(ProjectId),
}

/// A user of a cloud.
#[derive(Clone)]
pub struct CloudUser {
    /// The domain.
    pub domain: DomainId,
    /// The name of the user in the domain.
    pub name: String,
    /// Whether the user may log in.
    pub enabled: bool,
    /// The description.
    pub comment: Option<String>,
    /// The password, if its hash is known, and when it expires.
    pub password: Option<Password>,
    /// The default project, the email address, the options for passwords and locks, and the rules for multi-factor authentication.
    pub profile: Profile,
    /// The options that the API shows: a JSON object with the key `options`, or an empty text.
    pub extra: String,
}

impl std::fmt::Debug for CloudUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CloudUser")
            .field("domain", &self.domain)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// An application credential of a cloud.
#[derive(Clone, Debug)]
pub struct CloudCredential {
    /// The owner of the credential.
    pub owner: UserId,
    /// The name of the credential.
    pub name: String,
    /// When the credential expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// The description.
    pub comment: Option<String>,
    /// The project, and the roles on the project.
    pub delegation: Delegation,
    /// The verifier of the secret. If the verifier is missing, the credential is refused until it gets a new secret.
    pub verifier: Verifier,
}

/// A record that only services and the catalog of a project depend on. The records to which it refers come earlier in the list of records.
#[derive(Clone, Debug)]
pub enum ServiceRecord {
    /// A registered limit.
    RegisteredLimit(RegisteredLimitId, RegisteredLimit),
    /// A limit of a project or domain.
    Limit(LimitId, Limit),
    /// A policy.
    Policy(PolicyId, Policy),
    /// The policy of an endpoint, a service, or a service in a region.
    Association(PolicyTarget, PolicyAssociation),
    /// A group of endpoints.
    EndpointGroup(EndpointGroupId, EndpointGroup),
    /// An endpoint or a group of endpoints that the catalog of a project contains.
    EndpointFilter(EndpointFilterKey),
}

/// A record of federation. The provider of a protocol comes earlier in the list of records.
#[derive(Clone, Debug)]
pub enum FederationRecord {
    /// An identity provider.
    IdentityProvider(IdentityProviderId, IdentityProvider),
    /// A mapping.
    Mapping(MappingId, Mapping),
    /// A protocol. As in Keystone, its mapping need not exist.
    Protocol(ProtocolKey, Protocol),
    /// A service provider.
    ServiceProvider(ServiceProviderId, ServiceProvider),
}
