//! The only records that door 4 (access) may read.

use enfilade_facts::limits::ROLE_PATH_BYTES_MAX;
use enfilade_facts::tables::{
    Application, ApplicationHost, Assignment, AssignmentKey, Binding, Domain, FileName, Grant, GrantKey,
    GrantScope, Grantee, Group, Member, Membership, MirroredFile, Name, NameKey, NamedRole, Project, Reverse,
    ReverseKey, Trust, User, Who,
};
use enfilade_facts::vocabulary::{
    ApplicationName, DatastoreName, DomainId, GroupId, GroupName, HostName, ProjectId, RoleId, RolePath,
    TrustId, Ugid, UserId,
};
use enfilade_facts::{At, Clocks, SourceError};
use std::ops::ControlFlow;

/// The records that door 4 may read, all at the same revision of the store.
pub(crate) struct View<'a>(pub(crate) &'a enfilade_facts::View<'a>);

impl View<'_> {
    pub(crate) fn at(&self) -> At {
        self.0.at()
    }

    /// Whether the stored records of `acl.cfg` may be used. They may be used only if a server has checked the edited files recently. If `acl.cfg`
    /// cannot be read, they may be used only until the stale limit.
    pub(crate) fn knows_acl_cfg(&self, now: Clocks) -> Result<bool, SourceError> {
        if !now.mirror.is_current() {
            return Ok(false);
        }
        let fault = self.0.get::<MirroredFile>(&FileName::Acl)?.and_then(|mirrored| mirrored.fault);
        Ok(fault.is_none_or(|fault| !fault.refuses))
    }

    /// The application that has this host.
    pub(crate) fn application_of(
        &self,
        host: &HostName,
    ) -> Result<Option<(ApplicationName, Application)>, SourceError> {
        let Some(ApplicationHost(name)) = self.0.get(host)? else { return Ok(None) };
        // Both records are written in one change. If one of the two records is missing, no application has the host.
        Ok(self.0.get::<Application>(&name)?.map(|application| (name, application)))
    }

    /// The application of this name.
    pub(crate) fn application(&self, name: &ApplicationName) -> Result<Option<Application>, SourceError> {
        self.0.get(name)
    }

    /// The project that a datastore is bound to.
    pub(crate) fn project_of(&self, datastore: &DatastoreName) -> Result<Option<ProjectId>, SourceError> {
        Ok(self.0.get::<Binding>(datastore)?.map(|binding| binding.project))
    }

    /// The group of this name.
    pub(crate) fn group_named(&self, group: &GroupName) -> Result<Option<GroupId>, SourceError> {
        let Some(domain) = self.0.get::<Name>(&NameKey::domain(group.realm()))? else { return Ok(None) };
        Ok(self.0.get::<Name>(&NameKey::group(&domain.domain(), group.name()))?.map(|name| name.group()))
    }

    /// All role assignments on exactly this node. A path that is longer than the limit has no role assignments.
    pub(crate) fn assignments(
        &self,
        node: &str,
        mut each: impl FnMut(AssignmentKey, Assignment),
    ) -> Result<(), SourceError> {
        if node.len() > ROLE_PATH_BYTES_MAX {
            return Ok(());
        }
        self.0.scan::<Assignment>(&AssignmentKey::node_prefix(node), |key, assignment| {
            each(key, assignment);
            ControlFlow::Continue(())
        })
    }

    /// Whether there is a role assignment on exactly this node.
    pub(crate) fn is_assigned(&self, node: &str) -> Result<bool, SourceError> {
        if node.len() > ROLE_PATH_BYTES_MAX {
            return Ok(false);
        }
        self.0.any::<Assignment>(&AssignmentKey::node_prefix(node))
    }

    /// Whether there is a role assignment strictly below this node.
    pub(crate) fn is_assigned_below(&self, node: &str) -> Result<bool, SourceError> {
        if node.len() >= ROLE_PATH_BYTES_MAX {
            return Ok(false);
        }
        self.0.any::<Assignment>(format!("{node}/").as_bytes())
    }

    /// All role assignments strictly below this node.
    pub(crate) fn assignments_below(
        &self,
        node: &str,
        mut each: impl FnMut(AssignmentKey, Assignment),
    ) -> Result<(), SourceError> {
        self.0.scan::<Assignment>(format!("{node}/").as_bytes(), |key, assignment| {
            each(key, assignment);
            ControlFlow::Continue(())
        })
    }

    /// The name of a group, for messages only; its id if the name cannot be read.
    pub(crate) fn group_name(&self, id: &GroupId) -> String {
        let group = self.0.get::<Group>(id).ok().flatten();
        let named = group.and_then(|group| {
            let domain = self.0.get::<Domain>(&group.domain).ok().flatten()?;
            Some(format!("@{}", GroupName::new(&group.name, domain.name).ok()?))
        });
        named.unwrap_or_else(|| id.to_string())
    }

    pub(crate) fn domain(&self, id: &DomainId) -> Result<Option<Domain>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn user(&self, id: &UserId) -> Result<Option<User>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn group(&self, id: &GroupId) -> Result<Option<Group>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn role(&self, id: &RoleId) -> Result<Option<NamedRole>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn domain_of_project(&self, id: &ProjectId) -> Result<Option<DomainId>, SourceError> {
        Ok(self.0.get::<Project>(id)?.map(|row| row.domain))
    }

    /// The groups that contain this user or group directly.
    pub(crate) fn groups_with(&self, member: &Member) -> Result<Vec<GroupId>, SourceError> {
        let rows = self.0.list::<Membership>(&member.prefix())?;
        Ok(rows.into_iter().map(|(key, _)| key.group).collect())
    }

    /// Keystone's role assignments that name this user or group itself. Assignments to groups that contain this user or group are not included.
    pub(crate) fn grants_of(&self, member: &Member) -> Result<Vec<(GrantScope, RoleId)>, SourceError> {
        let grantee = match member {
            Member::User(id) => Grantee::User(*id),
            Member::Group(id) => Grantee::Group(*id),
        };
        let rows = self.0.list::<Grant>(&GrantKey::of(&grantee))?;
        Ok(rows.into_iter().map(|(key, _)| (key.scope, key.role)).collect())
    }

    /// A path on which this user or group itself has a role.
    pub(crate) fn first_path_of(&self, member: &Member) -> Result<Option<RolePath>, SourceError> {
        let who = match member {
            Member::User(id) => Who::User(*id),
            Member::Group(id) => Who::Group(*id),
        };
        Ok(AssignmentKey::all_of(self.0, &who)?.into_iter().next().map(|key| key.path))
    }

    /// The trusts that have this user as the trustee.
    pub(crate) fn trusts_for(&self, user: &UserId) -> Result<Vec<(TrustId, Trust)>, SourceError> {
        let mut trusts = Vec::new();
        for (key, _) in self.0.list::<Reverse>(&ReverseKey::trusts_of(user))? {
            let ReverseKey::Trusts(_, id) = key else { continue };
            let trust = self.0.get::<Trust>(&id)?.filter(|trust| trust.trustee == *user);
            trusts.extend(trust.map(|trust| (id, trust)));
        }
        Ok(trusts)
    }

    /// Whether `acl.cfg` is in use.
    pub(crate) fn keeps_acl_cfg(&self) -> Result<bool, SourceError> {
        Ok(self.0.get::<MirroredFile>(&FileName::Acl)?.is_some())
    }

    /// A path on which `acl.cfg` gives a role to this name. This function reads all assignments, because there is no index by name, and the file is
    /// short.
    pub(crate) fn path_given_to(&self, ugid: &Ugid) -> Result<Option<RolePath>, SourceError> {
        let mut found = None;
        self.0.scan::<Assignment>(&[], |key, _| match key.who {
            Who::Named(named) if named == *ugid => {
                found = Some(key.path);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        Ok(found)
    }
}
