//! Imports delegated credentials (application credentials, trusts, OAuth consumers and access tokens), and the credentials that services store for
//! users, such as EC2 keys.

use super::{CloudCredential, Left, Taking};
use crate::error::Error;
use crate::import::{Imported, WITHOUT_SECRET};
use crate::keystone::blobs::check_blob;
use crate::keystone::oauth::ways_to as ways_to_access;
use crate::keystone::trusts::{check_uses, redelegate, ways_to};
use enfilade_facts::tables::{
    AccessToken, Blob, BlobId, Consumer, Credential, Delegation, Grant, Grantee, Member, Membership,
    MembershipKey, Name, NameKey, NamedRole, Project, Reverse, ReverseKey, Trust, User, Verifier,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, Authid, CredentialId, ProjectId, RoleId, TokenName, TrustId, UserId, word_of_id,
};
use std::collections::BTreeSet;

impl Taking<'_, '_> {
    /// The roles that the user has on the project, including implied roles. An assignment of the source counts if it is in this store or if this
    /// change adds it. Other assignments in this store count, too.
    fn roles_on(&self, user: &UserId, project: ProjectId) -> Result<BTreeSet<RoleId>, Error> {
        let ways = self.ways;
        let mut grantees = vec![Grantee::User(*user)];
        for group in ways.groups_of(user) {
            if self.has::<Membership>(&MembershipKey { member: Member::User(*user), group: *group })? {
                grantees.push(Grantee::Group(*group));
            }
        }
        let mut edge = Vec::new();
        for who in grantees {
            for key in ways.grants(who, project) {
                edge.extend(self.has::<Grant>(key)?.then_some(key.role));
            }
        }
        let mut roles = BTreeSet::new();
        while let Some(role) = edge.pop() {
            if self.has::<NamedRole>(&role)? && roles.insert(role) {
                edge.extend(ways.implied_by(&role));
            }
        }
        // A role that belongs to a domain does not count, but the roles that it implies do.
        roles.retain(|role| !ways.is_of_domain(role));
        if self.view.get::<User>(user)?.is_some() {
            let here = enfilade_identity::roles_of(self.view, user, &project, None)?;
            roles.extend(here.into_iter().map(|role| role.id));
        }
        Ok(roles)
    }

    /// Why these roles cannot be delegated: the list of roles is empty, or the user lacks one of the roles. `None` if the roles can be delegated.
    fn lacking_role(
        &self,
        user: &UserId,
        project: ProjectId,
        roles: &[RoleId],
    ) -> Result<Option<String>, Error> {
        if roles.is_empty() {
            return Ok(Some("no role is delegated".to_owned()));
        }
        let held = self.roles_on(user, project)?;
        Ok(roles.iter().find(|role| !held.contains(role)).map(|role| {
            format!(
                "on this server, {} does not have the role {} on the project of the record, so the user cannot delegate this role",
                self.called(user),
                self.called(role)
            )
        }))
    }

    /// Imports an application credential. If an earlier import added it without a secret, it gets the secret of the source.
    pub(super) fn application_credential(
        &mut self,
        id: &CredentialId,
        row: &CloudCredential,
    ) -> Result<Imported, Error> {
        let owner = self.called(&row.owner);
        let name = match (owner.parse(), row.name.parse()) {
            (Ok(user), Ok(name)) => Authid { user, token: Some(name) }.to_string(),
            _ => format!("{owner}!{}", word_of_id(row.name.as_str())),
        };
        let rules = self.rules_here(row.owner, &row.delegation.rules)?;
        let delegation = Delegation { rules, ..row.delegation.clone() };
        let row = &CloudCredential { delegation, ..row.clone() };
        if row.verifier != Verifier::Missing && self.add_secret(id, row)? {
            return Ok(Imported::taken(super::SECRET, name));
        }
        let left = self.credential(id, row)?;
        let differs = (row.verifier == Verifier::Missing).then(|| WITHOUT_SECRET.to_owned());
        Ok(Imported::of("application credential", name, left.err()).but(differs))
    }

    /// Gives the secret of the source to an application credential that an earlier import added without a secret.
    fn add_secret(&mut self, id: &CredentialId, row: &CloudCredential) -> Result<bool, Error> {
        let Some(known) = self.view.get::<Credential>(id)? else { return Ok(false) };
        let project = self.view.get::<Delegation>(id)?.map(|delegation| delegation.project);
        let is_same = known.owner == row.owner && project == Some(row.delegation.project);
        Ok(is_same && self.add_first_secret(id, &known, &row.verifier)?)
    }

    fn credential(&mut self, id: &CredentialId, row: &CloudCredential) -> Result<Left, Error> {
        let name: TokenName = match row.name.parse() {
            Ok(name) => name,
            Err(why) => return Ok(Err(format!("{why}"))),
        };
        if let Err(why) = self.once::<Credential>(id)? {
            return Ok(Err(why));
        }
        if !self.claim::<User>(&row.owner)? || !self.claim::<Project>(&row.delegation.project)? {
            return Ok(Err("the credential's user or project does not exist in this store".to_owned()));
        }
        if self.roles_on(&row.owner, row.delegation.project)?.is_empty() {
            return Ok(Err(
                "the credential's user has no role on the credential's project in this store".to_owned()
            ));
        }
        let key = NameKey::token(&row.owner, &name);
        let credential = Credential {
            owner: row.owner,
            name,
            verifier: row.verifier.clone(),
            previous: None,
            enabled: true,
            expires: row.expires,
            created: 0,
            comment: row.comment.clone(),
            own_roles: false,
            mirrored: None,
            link: None,
        };
        let left = self.named(id, &credential, &key, Name::new(id.stored(), credential.name.as_str()))?;
        if left.is_ok() {
            if credential.verifier == Verifier::Missing {
                self.list_without_secret(id);
            }
            self.change.put(id, &row.delegation);
            self.change.put(&ReverseKey::For(row.delegation.project, *id), &Reverse);
            self.put_rules(row.owner, &row.delegation.rules)?;
        }
        Ok(left)
    }

    pub(super) fn trust(&mut self, id: &TrustId, row: &Trust) -> Result<Imported, Error> {
        let [from, to] = [row.trustor, row.trustee].map(|user| self.called(&user));
        let project = self.called(&row.project);
        let left = self.add_trust(id, row)?;
        Ok(Imported::of("trust", format!("of {from} for {to} on project {project}"), left.err()))
    }

    fn add_trust(&mut self, id: &TrustId, row: &Trust) -> Result<Left, Error> {
        if let Err(why) = self.once::<Trust>(id)? {
            return Ok(Err(why));
        }
        if !self.claim::<User>(&row.trustor)? || !self.claim::<User>(&row.trustee)? {
            return Ok(Err("the trustor or the trustee does not exist in this store".to_owned()));
        }
        if !self.claim::<Project>(&row.project)? {
            return Ok(Err("the project of the trust does not exist in this store".to_owned()));
        }
        if row.expires != 0 && row.expires <= self.change.audit().unix_seconds {
            return Ok(Err("the trust has expired".to_owned()));
        }
        if row.uses == Some(0) {
            return Ok(Err("the trust has no remaining uses".to_owned()));
        }
        if let Some(lacking) = self.lacking_role(&row.trustor, row.project, &row.roles)? {
            return Ok(Err(lacking));
        }
        let mut trust = row.clone();
        let mut check = check_uses(&trust);
        if let Some(parent) = &row.parent {
            let known = match self.made.trusts.get(parent) {
                Some(known) => Some(known.clone()),
                None => self.view.get::<Trust>(parent)?,
            };
            let Some(known) = known else {
                return Ok(Err(
                    "this trust was redelegated from a trust that does not exist in this store".to_owned()
                ));
            };
            self.claim::<Trust>(parent)?;
            check = check.and_then(|()| redelegate(&known, &mut trust));
        }
        if let Err(why) = check {
            return Ok(Err(why.to_string()));
        }
        let left = self.add(id, &trust)?;
        for key in ways_to(id, &trust) {
            self.change.put(&key, &Reverse);
        }
        self.made.trusts.insert(*id, trust);
        Ok(left)
    }

    /// Imports a credential that a service stored for a user.
    pub(super) fn blob(&mut self, id: &BlobId, row: &Blob) -> Result<Imported, Error> {
        let user = self.called(&row.user);
        let (kind, name) = match (row.kind.as_str(), &row.project) {
            ("ec2", Some(id)) => ("EC2 key", format!("{user} on project {}", self.called(id))),
            ("ec2", None) => ("EC2 key", user),
            ("totp", _) => ("credential of type totp", user),
            (other, _) => ("credential", format!("{user} of type {}", word_of_id(other))),
        };
        let mut row = row.clone();
        let mut differs = None;
        if let Some(project) = row.project
            && row.ec2.is_none()
            && !self.claim::<Project>(&project)?
        {
            row.project = None;
            differs = Some(format!("without its project {project}, which does not exist in this store"));
        }
        Ok(Imported::of(kind, name, self.add_blob(id, &row)?.err()).but(differs))
    }

    fn add_blob(&mut self, id: &BlobId, row: &Blob) -> Result<Left, Error> {
        if let Err(why) = self.once::<Blob>(id)? {
            return Ok(Err(why));
        }
        if !self.claim::<User>(&row.user)? {
            return Ok(Err("the credential's user does not exist in this store".to_owned()));
        }
        if let Err(why) = check_blob(row) {
            return Ok(Err(why.to_string()));
        }
        if let Some(key) = &row.ec2 {
            if !row.project.map_or(Ok(false), |project| self.claim::<Project>(&project))? {
                return Ok(Err("the project of the key does not exist in this store".to_owned()));
            }
            // The key must not give more rights than the application credential with which it was made. So this application credential must exist
            // here.
            if let Some(by) = &key.by
                && !(self.ways.owner_of(by) == Some(row.user) && self.claim::<Credential>(by)?)
            {
                return Ok(Err(
                    "the application credential with which the key was made does not exist in this store"
                        .to_owned(),
                ));
            }
        }
        let left = self.add(id, row)?;
        if left.is_ok() {
            self.change.put(&ReverseKey::Blob(row.user, *id), &Reverse);
        }
        Ok(left)
    }

    pub(super) fn access_token(&mut self, id: &AccessTokenId, row: &AccessToken) -> Result<Imported, Error> {
        let user = self.called(&row.user);
        let project = self.called(&row.project);
        let left = self.add_access_token(id, row)?;
        Ok(Imported::of("OAuth access token", format!("of {user} on project {project}"), left.err()))
    }

    fn add_access_token(&mut self, id: &AccessTokenId, row: &AccessToken) -> Result<Left, Error> {
        if let Err(why) = self.once::<AccessToken>(id)? {
            return Ok(Err(why));
        }
        if !self.claim::<Consumer>(&row.consumer)? {
            return Ok(Err("the consumer of the access token does not exist in this store".to_owned()));
        }
        if !self.claim::<User>(&row.user)? || !self.claim::<Project>(&row.project)? {
            return Ok(
                Err("the user or project of the access token does not exist in this store".to_owned()),
            );
        }
        if row.expires <= self.change.audit().unix_seconds {
            return Ok(Err("the access token has expired".to_owned()));
        }
        if let Some(lacking) = self.lacking_role(&row.user, row.project, &row.roles)? {
            return Ok(Err(lacking));
        }
        let left = self.add(id, row)?;
        for key in ways_to_access(id, row) {
            self.change.put(&key, &Reverse);
        }
        Ok(left)
    }
}
