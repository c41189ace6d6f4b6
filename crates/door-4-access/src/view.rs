//! The few facts this door may read.

use enfilade_facts::limits::ROLE_PATH_BYTES_MAX;
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Binding, Domain, FileName, Group, KeptFile, Name, NameKey,
};
use enfilade_facts::vocabulary::{DatastoreName, GroupId, GroupName, ProjectId};
use enfilade_facts::{At, Now, SourceError};
use std::ops::ControlFlow;

/// Role assignments at one revision, and what groups are called.
pub(crate) struct View<'a>(pub(crate) &'a enfilade_facts::View<'a>);

impl View<'_> {
    pub(crate) fn at(&self) -> At {
        self.0.at()
    }

    /// Whether what `acl.cfg` says is known: it was looked at lately, and is not unreadable for longer than the stale limit.
    pub(crate) fn knows_acl_cfg(&self, now: Now) -> Result<bool, SourceError> {
        if !now.files_current {
            return Ok(false);
        }
        let fault = self.0.get::<KeptFile>(&FileName::Acl)?.and_then(|kept| kept.fault);
        Ok(fault.is_none_or(|fault| !fault.refuses))
    }

    /// The project a datastore is bound to.
    pub(crate) fn project_of(&self, datastore: &DatastoreName) -> Result<Option<ProjectId>, SourceError> {
        Ok(self.0.get::<Binding>(datastore)?.map(|binding| binding.project))
    }

    /// The group of this name.
    pub(crate) fn group_named(&self, group: &GroupName) -> Result<Option<GroupId>, SourceError> {
        let Some(domain) = self.0.get::<Name>(&NameKey::domain(group.realm()))? else { return Ok(None) };
        Ok(self.0.get::<Name>(&NameKey::group(&domain.domain(), group.name()))?.map(Name::group))
    }

    /// Everybody's roles on exactly this node. On a longer path than can be assigned on there are none.
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

    /// Whether anybody has a role on exactly this node.
    pub(crate) fn is_assigned(&self, node: &str) -> Result<bool, SourceError> {
        if node.len() > ROLE_PATH_BYTES_MAX {
            return Ok(false);
        }
        self.0.any::<Assignment>(&AssignmentKey::node_prefix(node))
    }

    /// Whether anybody has a role strictly below this node.
    pub(crate) fn is_assigned_below(&self, node: &str) -> Result<bool, SourceError> {
        if node.len() >= ROLE_PATH_BYTES_MAX {
            return Ok(false);
        }
        self.0.any::<Assignment>(format!("{node}/").as_bytes())
    }

    /// Everybody's roles strictly below this node.
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

    /// What a group is called, for words only: its id where that cannot be read.
    pub(crate) fn group_name(&self, id: &GroupId) -> String {
        let group = self.0.get::<Group>(id).ok().flatten();
        let named = group.and_then(|group| {
            let domain = self.0.get::<Domain>(&group.domain).ok().flatten()?;
            Some(format!("@{}@{}", group.name, domain.name))
        });
        named.unwrap_or_else(|| id.to_string())
    }
}
