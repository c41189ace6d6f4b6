//! Which tables there are.

/// A table of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// What belongs to the store as a whole.
    Meta = 0,
    /// Names to ids.
    Names = 1,
    /// Domains.
    Domains = 2,
    /// Users.
    Users = 3,
    /// Groups.
    Groups = 4,
    /// Who is in which group.
    Memberships = 5,
    /// Roles on paths.
    Assignments = 6,
    /// API tokens.
    Credentials = 7,
    /// Datastores, mirrored from `datastore.cfg`.
    Datastores = 8,
    /// The change log: what was changed, and the name of the user.
    Log = 9,
    /// How many records there are, and a digest of them: of each group, and of each table.
    Tallies = 10,
    /// Which revision the store is at, in its own words.
    Head = 11,
    /// Files people edit, and how the facts stand to them.
    Files = 12,
    /// Projects.
    Projects = 13,
    /// Which project a datastore is bound to.
    Bindings = 14,
    /// What makes a token an application credential.
    Delegations = 15,
    /// What Keystone knows of a user and `user.cfg` does not.
    Profiles = 16,
    /// Roles of Keystone's kind.
    Roles = 17,
    /// Who has which of them on what.
    Grants = 18,
    /// What was revoked, and since when.
    Revocations = 19,
    /// Services of the catalog.
    Services = 20,
    /// Where they are.
    Endpoints = 21,
    /// Regions they are in.
    Regions = 22,
    /// What users let others do on their behalf.
    Trusts = 23,
    /// What is known of datastores and `datastore.cfg` does not say.
    DatastoreProfiles = 24,
    /// What is found by the one end, found by the other.
    Reverse = 25,
    /// Options and attributes that clients store with a resource.
    Extras = 26,
    /// What was removed and is not wholly gone yet.
    Leaving = 27,
    /// What services keep for users.
    Blobs = 28,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 29] = [
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
    ];

    /// The tables that hold facts. Every commit maintains the other tables as well.
    pub fn of_facts() -> impl Iterator<Item = Table> {
        Self::ALL.into_iter().filter(|table| table.holds_facts())
    }

    /// Whether changes write to it, and its records are counted.
    pub fn holds_facts(self) -> bool {
        !matches!(self, Table::Log | Table::Tallies | Table::Head)
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
        }
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<Table> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}
