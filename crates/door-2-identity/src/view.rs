//! The few facts this door may read.

use crate::refuse::Refusal;
use crate::session::HeldRole;
use enfilade_facts::limits::{GROUP_DEPTH_MAX, GROUPS_PER_USER_MAX, PROJECT_DEPTH_MAX};
use enfilade_facts::tables::{
    Blob, BlobId, Credential, Delegation, Domain, FileFault, FileName, Grant, GrantKey, GrantScope, Grantee,
    Group, KeptFile, Member, Membership, Name, NameKey, NamedRole, Profile, Project, Trust, User,
};
use enfilade_facts::vocabulary::{
    CredentialId, DomainId, GroupId, ProjectId, Realm, RoleId, TokenName, TrustId, UserId,
};
use enfilade_facts::{At, SourceError};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Domains, users, groups, memberships and credentials at one revision.
pub(crate) struct View<'a>(pub(crate) &'a enfilade_facts::View<'a>);

impl View<'_> {
    pub(crate) fn at(&self) -> At {
        self.0.at()
    }

    pub(crate) fn domain_named(&self, realm: &Realm) -> Result<Option<DomainId>, SourceError> {
        Ok(self.0.get::<Name>(&NameKey::domain(realm))?.map(Name::domain))
    }

    pub(crate) fn user_named(&self, domain: &DomainId, name: &str) -> Result<Option<UserId>, SourceError> {
        Ok(self.0.get::<Name>(&NameKey::user(domain, name))?.map(Name::user))
    }

    pub(crate) fn token_named(
        &self,
        owner: &UserId,
        name: &TokenName,
    ) -> Result<Option<CredentialId>, SourceError> {
        Ok(self.0.get::<Name>(&NameKey::token(owner, name))?.map(Name::credential))
    }

    pub(crate) fn certificate_named(
        &self,
        fingerprint: &[u8; 32],
    ) -> Result<Option<CredentialId>, SourceError> {
        Ok(self.0.get::<Name>(&NameKey::certificate(fingerprint))?.map(Name::credential))
    }

    pub(crate) fn domain(&self, id: &DomainId) -> Result<Option<Domain>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn user(&self, id: &UserId) -> Result<Option<User>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn credential(&self, id: &CredentialId) -> Result<Option<Credential>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn project(&self, id: &ProjectId) -> Result<Option<Project>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn delegation(&self, id: &CredentialId) -> Result<Option<Delegation>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn blob(&self, id: &BlobId) -> Result<Option<Blob>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn trust(&self, id: &TrustId) -> Result<Option<Trust>, SourceError> {
        self.0.get(id)
    }

    pub(crate) fn default_project(&self, id: &UserId) -> Result<Option<ProjectId>, SourceError> {
        Ok(self.0.get::<Profile>(id)?.and_then(|profile| profile.default_project))
    }

    /// The roles a user was given on a scope, directly or by a group, there or from above.
    pub(crate) fn granted(&self, user: &UserId, scope: &GrantScope) -> Result<BTreeSet<RoleId>, Refusal> {
        let scopes = self.scopes_for(scope)?;
        let groups = self.groups_of(user)?;
        let grantees = groups.iter().map(|(id, _)| Grantee::Group(*id)).chain([Grantee::User(*user)]);
        let mut found = BTreeSet::new();
        for grantee in grantees {
            for scope in &scopes {
                self.0.scan::<Grant>(&GrantKey::of_on(&grantee, scope), |key, _| {
                    found.insert(key.role);
                    ControlFlow::Continue(())
                })?;
            }
        }
        Ok(found)
    }

    /// Where roles count that are given on a scope: there, and for a project beneath its domain and the projects it is in.
    fn scopes_for(&self, scope: &GrantScope) -> Result<Vec<GrantScope>, SourceError> {
        let mut scopes = vec![*scope];
        let GrantScope::Project(id) = scope else { return Ok(scopes) };
        let Some(project) = self.project(id)? else { return Ok(scopes) };
        scopes.push(GrantScope::BelowDomain(project.domain));
        let mut above = project.parent;
        for _ in 0..PROJECT_DEPTH_MAX {
            let Some(id) = above else { break };
            scopes.push(GrantScope::BelowProject(id));
            above = self.project(&id)?.and_then(|project| project.parent);
        }
        Ok(scopes)
    }

    /// These roles, and those they imply, which may imply others. A role that is gone is no role, and one of a domain's own is only what it
    /// implies.
    pub(crate) fn with_implied(&self, roles: BTreeSet<RoleId>) -> Result<BTreeSet<HeldRole>, SourceError> {
        let (mut seen, mut held) = (roles.clone(), BTreeSet::new());
        let mut edge: Vec<RoleId> = roles.into_iter().collect();
        while let Some(id) = edge.pop() {
            let Some(NamedRole { name, domain, implies, .. }) = self.0.get(&id)? else { continue };
            edge.extend(implies.into_iter().filter(|implied| seen.insert(*implied)));
            if domain.is_none() {
                held.insert(HeldRole { name, id });
            }
        }
        Ok(held)
    }

    /// What is wrong with the whole of a file people edit.
    pub(crate) fn fault_of(&self, file: FileName) -> Result<Option<FileFault>, SourceError> {
        Ok(self.0.get::<KeptFile>(&file)?.and_then(|kept| kept.fault))
    }

    /// Some credential, chosen by these bytes.
    pub(crate) fn some_credential(
        &self,
        by: [u8; 16],
    ) -> Result<Option<(CredentialId, Credential)>, SourceError> {
        self.0.any_near(&CredentialId::from_bytes(by))
    }

    /// Some user, chosen by these bytes.
    pub(crate) fn some_user(&self, by: [u8; 16]) -> Result<Option<(UserId, User)>, SourceError> {
        self.0.any_near(&UserId::from_bytes(by))
    }

    /// Every group the user is in, groups in groups followed to the bottom. A cycle ends by itself;
    /// nesting or numbers over the limits refuse, because a membership left out might be one that is denied something.
    pub(crate) fn groups_of(&self, user: &UserId) -> Result<Vec<(GroupId, Group)>, Refusal> {
        let mut found = BTreeSet::new();
        let mut edge = vec![Member::User(*user)];
        for _ in 0..=GROUP_DEPTH_MAX {
            let mut next = Vec::new();
            for member in &edge {
                self.0.scan::<Membership>(&member.prefix(), |key, _| {
                    if found.insert(key.group) {
                        next.push(Member::Group(key.group));
                    }
                    ControlFlow::Continue(())
                })?;
            }
            if found.len() > GROUPS_PER_USER_MAX {
                return Err(Refusal::TooManyGroups);
            }
            if next.is_empty() {
                return self.groups(found);
            }
            edge = next;
        }
        Err(Refusal::GroupsTooDeep)
    }

    fn groups(&self, ids: BTreeSet<GroupId>) -> Result<Vec<(GroupId, Group)>, Refusal> {
        // A membership of a group that is gone is not a membership.
        ids.into_iter().filter_map(|id| self.0.get(&id).transpose().map(|row| Ok((id, row?)))).collect()
    }
}
