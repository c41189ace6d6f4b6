//! The stored facts that door 2 may read.

use crate::refuse::Refusal;
use crate::revocations::{self, Revocations};
use crate::session::HeldRole;
use enfilade_facts::limits::{
    CREDENTIALS_OF_LOGIN_MAX, GROUP_DEPTH_MAX, GROUPS_PER_USER_MAX, PROJECT_DEPTH_MAX, TOTP_CREDENTIALS_MAX,
};
use enfilade_facts::tables::{
    AccessToken, Activity, Blob, BlobId, BrowserSession, BrowserSessionId, Consumer, Credential, Delegation,
    Domain, FileFault, FileName, Grant, GrantKey, GrantScope, Grantee, Group, Member, Membership,
    MembershipKey, MirroredFile, Name, NameKey, NamedRole, Profile, Project, RequestToken, Reverse,
    ReverseKey, Revoked, SecondFactor, Trust, UsedPasscode, User,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, Authid, ConsumerId, CredentialId, DomainId, GroupId, ProjectId, Realm, RequestTokenId,
    RoleId, TokenName, TrustId, UserId,
};
use enfilade_facts::{At, Index, SourceError};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The facts that this door may read, at one revision.
pub(crate) struct View<'a> {
    pub(crate) facts: &'a enfilade_facts::View<'a>,
    session: Option<(i64, &'a Index<Revocations>)>,
    /// The first mark that was found to end the session.
    over: Cell<Option<Revoked>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(facts: &'a enfilade_facts::View<'a>) -> Self {
        View { facts, session: None, over: Cell::new(None) }
    }

    /// Returns a view for judging a session that was issued at the time `issued_at`, in seconds. The view detects whether a record that it reads was
    /// removed after that time. Such a removal ends the session.
    pub(crate) fn of_session(&self, issued_at: i64, revocations: &'a Index<Revocations>) -> View<'a> {
        View { facts: self.facts, session: Some((issued_at, revocations)), over: Cell::new(None) }
    }
}

impl View<'_> {
    pub(crate) fn at(&self) -> At {
        self.facts.at()
    }

    /// Called for each record that the session depends on. `mark` is the mark on this record. If the mark covers the time at which the session was
    /// issued, the function stores that the mark ends the session (`facts::tables::Ends`).
    pub(crate) fn rests_on(&self, mark: &Revoked) -> Result<(), SourceError> {
        if let Some((issued_at, revocations)) = self.session
            && self.over.get().is_none()
            && revocations::is_set(self.facts, revocations, mark, issued_at)?
        {
            self.over.set(Some(*mark));
        }
        Ok(())
    }

    /// Refuses the session if it depends on a record that was removed after the session was issued, even if the record was added again.
    pub(crate) fn check_over(&self, authid: &Authid) -> Result<(), Refusal> {
        match self.over.get() {
            Some(by) => Err(Refusal::TokenRevoked { authid: authid.clone(), by: revocations::what_by(&by) }),
            None => Ok(()),
        }
    }

    pub(crate) fn domain_named(&self, realm: &Realm) -> Result<Option<DomainId>, SourceError> {
        Ok(self.facts.get::<Name>(&NameKey::domain(realm))?.map(|name| name.domain()))
    }

    pub(crate) fn user_named(&self, domain: &DomainId, name: &str) -> Result<Option<UserId>, SourceError> {
        Ok(self.facts.get::<Name>(&NameKey::user(domain, name))?.map(|name| name.user()))
    }

    pub(crate) fn token_named(
        &self,
        owner: &UserId,
        name: &TokenName,
    ) -> Result<Option<CredentialId>, SourceError> {
        Ok(self.facts.get::<Name>(&NameKey::token(owner, name))?.map(|name| name.credential()))
    }

    /// The tokens of a user.
    pub(crate) fn tokens_of(&self, owner: &UserId) -> Result<Vec<CredentialId>, SourceError> {
        let rows = self.facts.list::<Name>(&NameKey::tokens_of(owner))?;
        Ok(rows.into_iter().map(|(_, name)| name.credential()).collect())
    }

    pub(crate) fn certificate_named(
        &self,
        fingerprint: &[u8; 32],
    ) -> Result<Option<CredentialId>, SourceError> {
        Ok(self.facts.get::<Name>(&NameKey::certificate(fingerprint))?.map(|name| name.credential()))
    }

    pub(crate) fn domain(&self, id: &DomainId) -> Result<Option<Domain>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn user(&self, id: &UserId) -> Result<Option<User>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn activity(&self, id: &UserId) -> Result<Activity, SourceError> {
        Ok(self.facts.get::<Activity>(id)?.unwrap_or_default())
    }

    pub(crate) fn credential(&self, id: &CredentialId) -> Result<Option<Credential>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn project(&self, id: &ProjectId) -> Result<Option<Project>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn delegation(&self, id: &CredentialId) -> Result<Option<Delegation>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn browser_session(
        &self,
        id: &BrowserSessionId,
    ) -> Result<Option<BrowserSession>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn blob(&self, id: &BlobId) -> Result<Option<Blob>, SourceError> {
        self.facts.get(id)
    }

    /// The second factor that the user set up and confirmed.
    pub(crate) fn second_factor(&self, user: &UserId) -> Result<Option<SecondFactor>, SourceError> {
        Ok(self.facts.get::<SecondFactor>(user)?.filter(SecondFactor::is_confirmed))
    }

    /// The rules for multi-factor authentication in the profile of a user; empty if none are in force.
    pub(crate) fn mfa_rules(&self, user: &UserId) -> Result<Vec<Vec<String>>, SourceError> {
        Ok(self.facts.get::<Profile>(user)?.map(|profile| profile.mfa_rules).unwrap_or_default())
    }

    /// The credentials of type `totp` of a user. The function reads at most `CREDENTIALS_OF_LOGIN_MAX` credentials and returns at most
    /// `TOTP_CREDENTIALS_MAX`, so that the work for a login is bounded.
    pub(crate) fn totp_credentials(&self, user: &UserId) -> Result<Vec<(BlobId, String)>, SourceError> {
        let (mut ids, mut found) = (Vec::new(), Vec::new());
        self.facts.scan::<Reverse>(&ReverseKey::blobs_of(user), |key, _| {
            if let ReverseKey::Blob(_, id) = key {
                ids.push(id);
            }
            match ids.len() < CREDENTIALS_OF_LOGIN_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        for id in ids {
            let row = self.blob(&id)?.filter(|row| row.kind == "totp" && row.user == *user);
            found.extend(row.map(|row| (id, row.blob)));
            if found.len() == TOTP_CREDENTIALS_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// The latest time step for which somebody used a passcode of this credential.
    pub(crate) fn used_step(&self, id: &BlobId) -> Result<Option<u64>, SourceError> {
        Ok(self.facts.get::<UsedPasscode>(id)?.map(|used| used.step))
    }

    pub(crate) fn trust(&self, id: &TrustId) -> Result<Option<Trust>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn consumer(&self, id: &ConsumerId) -> Result<Option<Consumer>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn request_token(&self, id: &RequestTokenId) -> Result<Option<RequestToken>, SourceError> {
        self.facts.get(id)
    }

    pub(crate) fn access_token(&self, id: &AccessTokenId) -> Result<Option<AccessToken>, SourceError> {
        self.facts.get(id)
    }

    /// The trusts of which this user is the trustor or the trustee.
    pub(crate) fn trusts_for(&self, user: &UserId) -> Result<Vec<TrustId>, SourceError> {
        let rows = self.facts.list::<Reverse>(&ReverseKey::trusts_of(user))?;
        let id = |(key, _)| match key {
            ReverseKey::Trusts(_, id) => Some(id),
            _ => None,
        };
        Ok(rows.into_iter().filter_map(id).collect())
    }

    pub(crate) fn default_project(&self, id: &UserId) -> Result<Option<ProjectId>, SourceError> {
        Ok(self.facts.get::<Profile>(id)?.and_then(|profile| profile.default_project))
    }

    /// The roles that are assigned to a user or to the user's groups, on the scope itself or on a scope above it. Groups of a disabled domain give no
    /// roles.
    pub(crate) fn granted(&self, user: &UserId, scope: &GrantScope) -> Result<BTreeSet<RoleId>, Refusal> {
        let scopes = self.scopes_for(scope)?;
        let mut grantees = vec![Grantee::User(*user)];
        let mut domains = BTreeMap::new();
        for (id, group) in self.groups_of(user)? {
            if self.domain_state(&mut domains, &group.domain)? == Some(true) {
                grantees.push(Grantee::Group(id));
            }
        }
        let mut found = BTreeSet::new();
        for grantee in grantees {
            for scope in &scopes {
                self.rests_on(&Revoked::roles_on(&grantee, scope))?;
                self.facts.scan::<Grant>(&GrantKey::of_on(&grantee, scope), |key, _| {
                    found.insert(key.role);
                    ControlFlow::Continue(())
                })?;
            }
        }
        Ok(found)
    }

    /// Whether the domain of a group or role is enabled; `None` if the domain is deleted.
    fn domain_state(
        &self,
        known: &mut BTreeMap<DomainId, Option<bool>>,
        id: &DomainId,
    ) -> Result<Option<bool>, SourceError> {
        if let Some(state) = known.get(id) {
            return Ok(*state);
        }
        self.rests_on(&Revoked::groups_of(id))?;
        let state = self.domain(id)?.map(|domain| domain.enabled);
        known.insert(*id, state);
        Ok(state)
    }

    /// The scopes from which a scope gets role assignments. A scope has its own assignments. A project also inherits assignments from its domain and
    /// from its parent projects.
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

    /// These roles and all roles they imply. A deleted role does not count, and neither does a role of a deleted or disabled domain. A role that
    /// belongs to a domain is replaced by the roles that it implies.
    pub(crate) fn with_implied(&self, roles: BTreeSet<RoleId>) -> Result<BTreeSet<HeldRole>, SourceError> {
        let (mut seen, mut held) = (roles.clone(), BTreeSet::new());
        let mut domains = BTreeMap::new();
        let mut edge: Vec<RoleId> = roles.into_iter().collect();
        while let Some(id) = edge.pop() {
            self.rests_on(&Revoked::Role(id))?;
            let Some(NamedRole { name, domain, implies, .. }) = self.facts.get(&id)? else { continue };
            if let Some(domain) = &domain
                && self.domain_state(&mut domains, domain)? != Some(true)
            {
                continue;
            }
            edge.extend(implies.into_iter().filter(|implied| seen.insert(*implied)));
            if domain.is_none() {
                held.insert(HeldRole { name, id });
            }
        }
        Ok(held)
    }

    /// The error of a file that people edit, if the error makes the whole file invalid; otherwise `None`.
    pub(crate) fn fault_of(&self, file: FileName) -> Result<Option<FileFault>, SourceError> {
        Ok(self.facts.get::<MirroredFile>(&file)?.and_then(|mirrored| mirrored.fault))
    }

    /// An existing credential, selected by the bytes in `by`.
    pub(crate) fn some_credential(
        &self,
        by: [u8; 16],
    ) -> Result<Option<(CredentialId, Credential)>, SourceError> {
        self.facts.any_near(&CredentialId::from_bytes(by))
    }

    /// An existing user, selected by the bytes in `by`. Half of all values of `by` select a user with a short id. The other half select a user with a
    /// long id, which is the id of a user of an LDAP directory. In the store, all long ids follow the short ids, so a search from `by` alone would
    /// nearly always find a user with a short id. With such a search, the time of an answer would reveal which users come from a directory.
    pub(crate) fn some_user(&self, by: [u8; 16]) -> Result<Option<(UserId, User)>, SourceError> {
        let mut twice = [0; 32];
        twice.iter_mut().zip(by.iter().cycle()).for_each(|(to, from)| *to = *from);
        let short = [UserId::from_bytes(by), UserId::from_bytes([0; 16])];
        let long = [UserId::from_long(twice), UserId::from_long([0; 32])];
        let [.., choice] = by;
        let [one, other] = if choice % 2 == 0 { [short, long] } else { [long, short] };
        for from in one.into_iter().chain(other) {
            let found = self.facts.key_near::<User>(&from)?;
            if let Some(id) = found.filter(|id| id.is_long() == from.is_long()) {
                return Ok(self.facts.get(&id)?.map(|user| (id, user)));
            }
        }
        Ok(None)
    }

    /// All groups of the user, including groups of groups. Groups may contain each other in a cycle. If the groups are nested too deep or are too
    /// many, the user is refused. Otherwise some groups would be left out, and an ACL entry that denies a right to such a group would have no effect.
    /// Deleted groups, and groups of deleted domains, do not count.
    pub(crate) fn groups_of(&self, user: &UserId) -> Result<Vec<(GroupId, Group)>, Refusal> {
        let (mut found, mut domains) = (BTreeMap::new(), BTreeMap::new());
        let mut edge = vec![Member::User(*user)];
        for _ in 0..=GROUP_DEPTH_MAX {
            let mut keys = Vec::new();
            for member in &edge {
                self.facts.scan::<Membership>(&member.prefix(), |key, _| {
                    keys.push(key);
                    ControlFlow::Continue(())
                })?;
            }
            let mut next = Vec::new();
            for key in keys {
                if found.contains_key(&key.group) {
                    continue;
                }
                if let Some(group) = self.group_by(&key, &mut domains)? {
                    found.insert(key.group, group);
                    next.push(Member::Group(key.group));
                }
            }
            if found.len() > GROUPS_PER_USER_MAX {
                return Err(Refusal::TooManyGroups);
            }
            if next.is_empty() {
                return Ok(found.into_iter().collect());
            }
            edge = next;
        }
        Err(Refusal::GroupsTooDeep)
    }

    /// The group of a membership. `None` if the group or its domain is deleted.
    fn group_by(
        &self,
        key: &MembershipKey,
        domains: &mut BTreeMap<DomainId, Option<bool>>,
    ) -> Result<Option<Group>, SourceError> {
        // The dependency on the group is recorded before the group is read, because the memberships of a deleted group remain for a while.
        self.rests_on(&Revoked::Group(key.group))?;
        let Some(group) = self.facts.get::<Group>(&key.group)? else { return Ok(None) };
        Ok(self.domain_state(domains, &group.domain)?.map(|_| group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revocations::tests::Facts;
    use std::collections::BTreeSet;

    fn user() -> User {
        User {
            domain: DomainId::from_bytes([1; 16]),
            name: "ann".into(),
            sid: "S-1-5-21-1-2-3-1000".parse().unwrap(),
            also: Vec::new(),
            uid: None,
            gid: None,
            enabled: true,
            expires: 0,
            password: None,
            comment: None,
            mirrored: None,
        }
    }

    /// The users that 1,000 choices select, and how many times a user with a long id was selected.
    fn selected(ids: &[UserId]) -> (BTreeSet<UserId>, usize) {
        let mut facts = Facts::new();
        facts.commit(|_, change| {
            for id in ids {
                change.put(id, &user());
            }
        });
        let facts = enfilade_facts::View::new(&facts);
        let (view, mut all, mut long) = (View::new(&facts), BTreeSet::new(), 0);
        for n in 0..1_000_u128 {
            let by = n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes();
            let found = view.some_user(by).unwrap();
            long += found.iter().filter(|(id, _)| id.is_long()).count();
            all.extend(found.map(|(id, _)| id));
        }
        (all, long)
    }

    /// For an unknown user, the password of an existing user is checked. If that user nearly always had the same kind of id, the time would reveal
    /// which users have the other kind of id.
    #[test]
    fn users_with_both_kinds_of_ids_are_selected() {
        let short: Vec<_> = (0..4).map(|n| UserId::from_bytes([60 * n; 16])).collect();
        let long: Vec<_> = (0..20).map(|n| UserId::from_long([12 * n; 32])).collect();
        let both = [short.as_slice(), &long].concat();
        let (all, times) = selected(&both);
        assert!(all == both.iter().copied().collect() && (400..600).contains(&times), "{all:?} {times}");
        assert_eq!(selected(&short), (short.iter().copied().collect(), 0));
        assert_eq!(selected(&long), (long.iter().copied().collect(), 1_000));
        assert_eq!(selected(&[]), (BTreeSet::new(), 0));
    }
}
