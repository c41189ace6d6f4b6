//! The sections of the console. A section of the administration is shown only to users who have the privilege for the calls of the section. In
//! addition, each page asks door 4.

use crate::icons::Icon;
use enfilade_facts::vocabulary::Privileges;

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Files,
    Links,
    Trash,
    Account,
    Explain,
    Manual,
    Users,
    Groups,
    Roles,
    Datastores,
    Applications,
    Certificates,
    Keys,
    Changes,
    Refusals,
    Health,
}

impl Section {
    /// Every section, in the order of the navigation.
    pub(crate) const ALL: [Self; 16] = [
        Section::Files,
        Section::Links,
        Section::Trash,
        Section::Account,
        Section::Explain,
        Section::Manual,
        Section::Users,
        Section::Groups,
        Section::Roles,
        Section::Datastores,
        Section::Applications,
        Section::Certificates,
        Section::Keys,
        Section::Changes,
        Section::Refusals,
        Section::Health,
    ];

    pub(crate) fn url(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn label(self) -> &'static str {
        self.row().1
    }

    pub(crate) fn icon(self) -> Icon {
        self.row().2
    }

    /// A path and a privilege: a user may open the section only with this privilege on this path. `None` if every user may open the section.
    pub(crate) fn needs(self) -> Option<(&'static str, Privileges)> {
        self.row().3
    }

    pub(crate) fn is_administration(self) -> bool {
        self.needs().is_some()
    }

    fn row(self) -> (&'static str, &'static str, Icon, Option<(&'static str, Privileges)>) {
        let audit = |path| Some((path, Privileges::SYS_AUDIT));
        match self {
            Section::Files => ("/console/", "Files", Icon::Folder, None),
            Section::Links => ("/console/links", "Links", Icon::Share, None),
            Section::Trash => ("/console/trash", "Trash", Icon::Trash, None),
            Section::Account => ("/console/account", "Account", Icon::User, None),
            Section::Explain => ("/console/explain", "Explain", Icon::Question, None),
            Section::Manual => ("/console/manual", "Manual", Icon::Text, None),
            Section::Users => ("/console/users", "Users", Icon::User, audit("/access/users")),
            Section::Groups => ("/console/groups", "Groups", Icon::Group, audit("/access/acl")),
            Section::Roles => ("/console/roles", "Roles", Icon::Role, audit("/access/acl")),
            Section::Datastores => {
                let needs = Some(("/datastore", Privileges::DATASTORE_AUDIT));
                ("/console/datastores", "Datastores", Icon::Store, needs)
            }
            Section::Applications => {
                ("/console/applications", "Applications", Icon::Session, audit("/application"))
            }
            Section::Certificates => {
                let needs = audit("/system/certificates");
                ("/console/certificates", "Certificates", Icon::Certificate, needs)
            }
            Section::Keys => ("/console/keys", "Keys", Icon::Key, audit("/access")),
            Section::Changes => ("/console/changes", "Changes", Icon::Log, audit("/system/log")),
            Section::Refusals => ("/console/refusals", "Refusals", Icon::Refusal, audit("/system/log")),
            Section::Health => ("/console/health", "Health", Icon::Health, audit("/system/status")),
        }
    }
}
