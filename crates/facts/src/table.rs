//! The list of all tables.

/// A table of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Facts of the store as a whole.
    Meta = 0,
    /// Names, and the ids that they stand for.
    Names = 1,
    /// Domains.
    Domains = 2,
    /// Users.
    Users = 3,
    /// Groups.
    Groups = 4,
    /// Members of groups.
    Memberships = 5,
    /// Roles on paths.
    Assignments = 6,
    /// API tokens.
    Credentials = 7,
    /// Datastores, mirrored from `datastore.cfg`.
    Datastores = 8,
    /// The change log: author, time, description and keys of each change.
    Log = 9,
    /// The tallies (count and digest) of each group of records, and of each table. Exception: the tallies of three tables are in
    /// [`Table::RevocationTallies`].
    Tallies = 10,
    /// The head (a record with the store's revision), and the format and id of the store.
    Head = 11,
    /// Files that people edit: the version of each file that the facts are taken from, and the errors in the file.
    Files = 12,
    /// Projects.
    Projects = 13,
    /// The project that a datastore is bound to.
    Bindings = 14,
    /// The records that make an API token an application credential.
    Delegations = 15,
    /// Attributes of users in Identity v3. `user.cfg` has no fields for these attributes.
    Profiles = 16,
    /// Keystone's roles.
    Roles = 17,
    /// Keystone's roles that users and groups have on projects, domains and the system.
    Grants = 18,
    /// Revocations.
    Revocations = 19,
    /// Services of the catalog.
    Services = 20,
    /// Addresses of the services.
    Endpoints = 21,
    /// Regions of the endpoints.
    Regions = 22,
    /// Trusts.
    Trusts = 23,
    /// Settings of datastores. `datastore.cfg` has no properties for these settings.
    DatastoreProfiles = 24,
    /// Reverse lookups: they find a record of another table by the second part of its key.
    Reverse = 25,
    /// Options and attributes that clients store with a resource, and the names of imported records.
    Extras = 26,
    /// Removed resources that still have dependent records.
    Leaving = 27,
    /// Credentials that services store for users.
    Blobs = 28,
    /// The limits that services register: what a project or domain may use by default.
    RegisteredLimits = 29,
    /// The limits of single projects and domains.
    Limits = 30,
    /// Policies that services store.
    Policies = 31,
    /// The policy of an endpoint, a service, or a service in a region.
    PolicyAssociations = 32,
    /// Groups of endpoints.
    EndpointGroups = 33,
    /// The endpoints, and the groups of endpoints, that the catalog of a project contains.
    EndpointFilters = 34,
    /// The configuration of domains.
    DomainConfigs = 35,
    /// OAuth 1.0a consumers.
    Consumers = 36,
    /// OAuth 1.0a request tokens.
    RequestTokens = 37,
    /// OAuth 1.0a access tokens.
    AccessTokens = 38,
    /// Identity providers.
    IdentityProviders = 39,
    /// The identity provider of each remote id.
    RemoteIds = 40,
    /// Protocols of identity providers.
    Protocols = 41,
    /// Mappings, which turn the answers of identity providers into users.
    Mappings = 42,
    /// Service providers.
    ServiceProviders = 43,
    /// The time when each user last logged in, and the time until which the user is locked.
    Activities = 44,
    /// For each credential of type `totp`, the last time step with a used passcode.
    UsedPasscodes = 45,
    /// Access rules of users: the kinds of requests to which application credentials can be limited.
    AccessRules = 46,
    /// The tallies of [`Table::Revocations`], [`Table::Reverse`] and [`Table::BrowserSessions`].
    RevocationTallies = 47,
    /// Applications that other servers serve. This server decides which requests to an application are permitted.
    Applications = 48,
    /// The application of each host name.
    ApplicationHosts = 49,
    /// Sessions of browsers.
    BrowserSessions = 50,
    /// Second factors of users.
    SecondFactors = 52,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 52] = [
        Table::Meta,
        Table::Names,
        Table::Domains,
        Table::Users,
        Table::Groups,
        Table::Memberships,
        Table::Assignments,
        Table::Credentials,
        Table::Datastores,
        Table::Log,
        Table::Tallies,
        Table::Head,
        Table::Files,
        Table::Projects,
        Table::Bindings,
        Table::Delegations,
        Table::Profiles,
        Table::Roles,
        Table::Grants,
        Table::Revocations,
        Table::Services,
        Table::Endpoints,
        Table::Regions,
        Table::Trusts,
        Table::DatastoreProfiles,
        Table::Reverse,
        Table::Extras,
        Table::Leaving,
        Table::Blobs,
        Table::RegisteredLimits,
        Table::Limits,
        Table::Policies,
        Table::PolicyAssociations,
        Table::EndpointGroups,
        Table::EndpointFilters,
        Table::DomainConfigs,
        Table::Consumers,
        Table::RequestTokens,
        Table::AccessTokens,
        Table::IdentityProviders,
        Table::RemoteIds,
        Table::Protocols,
        Table::Mappings,
        Table::ServiceProviders,
        Table::Activities,
        Table::UsedPasscodes,
        Table::AccessRules,
        Table::RevocationTallies,
        Table::Applications,
        Table::ApplicationHosts,
        Table::BrowserSessions,
        Table::SecondFactors,
    ];

    /// The tables that hold facts. The other tables contain data that commits add: the change log, the head and the tallies.
    pub fn of_facts() -> impl Iterator<Item = Table> {
        Self::ALL.into_iter().filter(|table| table.holds_facts())
    }

    /// Whether format 13, the format of the first fleets, has the table. Never change this function, because the logs of fleets contain digests that
    /// were computed with it ([`Digests`](crate::journal::Digests)).
    pub(crate) fn is_of_first_fleets(self) -> bool {
        self as u8 <= Table::BrowserSessions as u8
    }

    /// Whether the table holds facts. Changes put and delete the records of such a table, and tallies count these records.
    pub fn holds_facts(self) -> bool {
        !matches!(self, Table::Log | Table::Head) && !self.holds_tallies()
    }

    /// Whether the records of the table are tallies.
    pub fn holds_tallies(self) -> bool {
        matches!(self, Table::Tallies | Table::RevocationTallies)
    }

    /// The table that holds the tallies of this table. Each revocation adds two records, and so two tallies; each sign-in adds a few tallies. These
    /// tallies are in a separate table. In the table of the other tallies, these tallies would make the B-tree deeper. So they would slow down almost
    /// every lookup, because almost every lookup reads a tally.
    pub fn tallies(self) -> Table {
        match self {
            Table::Revocations | Table::Reverse | Table::BrowserSessions => Table::RevocationTallies,
            _ => Table::Tallies,
        }
    }

    /// The table's name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Names => "names",
            Table::Domains => "domains",
            Table::Users => "users",
            Table::Groups => "groups",
            Table::Memberships => "memberships",
            Table::Assignments => "assignments",
            Table::Credentials => "credentials",
            Table::Datastores => "datastores",
            Table::Log => "log",
            Table::Tallies => "tallies",
            Table::Head => "head",
            Table::Files => "files",
            Table::Projects => "projects",
            Table::Bindings => "bindings",
            Table::Delegations => "delegations",
            Table::Profiles => "profiles",
            Table::Roles => "roles",
            Table::Grants => "grants",
            Table::Revocations => "revocations",
            Table::Services => "services",
            Table::Endpoints => "endpoints",
            Table::Regions => "regions",
            Table::Trusts => "trusts",
            Table::DatastoreProfiles => "datastore-profiles",
            Table::Reverse => "reverse",
            Table::Extras => "extras",
            Table::Leaving => "leaving",
            Table::Blobs => "blobs",
            Table::RegisteredLimits => "registered-limits",
            Table::Limits => "limits",
            Table::Policies => "policies",
            Table::PolicyAssociations => "policy-associations",
            Table::EndpointGroups => "endpoint-groups",
            Table::EndpointFilters => "endpoint-filters",
            Table::DomainConfigs => "domain-configs",
            Table::Consumers => "consumers",
            Table::RequestTokens => "request-tokens",
            Table::AccessTokens => "access-tokens",
            Table::IdentityProviders => "identity-providers",
            Table::RemoteIds => "remote-ids",
            Table::Protocols => "protocols",
            Table::Mappings => "mappings",
            Table::ServiceProviders => "service-providers",
            Table::Activities => "activities",
            Table::UsedPasscodes => "used-passcodes",
            Table::AccessRules => "access-rules",
            Table::RevocationTallies => "revocation-tallies",
            Table::Applications => "applications",
            Table::ApplicationHosts => "application-hosts",
            Table::BrowserSessions => "browser-sessions",
            Table::SecondFactors => "second-factors",
        }
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<Table> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}
