//! Application credentials: API tokens with a project.

use super::access_rules::{WantedRule, rules_for};
use super::delegations::{end_within, forget};
use super::made::forget_made;
use super::projects::full_name;
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::Error;
use crate::resolve::{dangling, role_id};
use enfilade_facts::tables::{
    Credential, Delegation, Domain, Name, NameKey, Project, Reverse, ReverseKey, User, Verifier,
};
use enfilade_facts::vocabulary::{
    CredentialId, DomainId, MICROS_PER_SECOND, ProjectId, Realm, RoleId, Secret, TokenName, UserId, Userid,
    shell_word,
};
use enfilade_facts::{At, Read, Source};
use enfilade_identity::HashKey;

/// An application credential to create.
#[derive(Clone, Debug)]
pub struct NewApplicationCredential {
    /// The owner of the credential.
    pub owner: UserId,
    /// The name, which is unique among the API tokens of the owner.
    pub name: TokenName,
    /// The project for which the credential grants roles.
    pub project: ProjectId,
    /// The roles on the project, by name or id. The caller checks that the creator has these roles: a face (the code for a protocol) checks
    /// the session, and a command checks the owner.
    pub roles: Vec<String>,
    /// Whether sessions of the credential may create credentials and trusts.
    pub unrestricted: bool,
    /// The access rules of the credential. A credential without rules is valid for all requests.
    pub rules: Vec<WantedRule>,
    /// When the credential expires, in microseconds since the epoch; 0 means never. The server rounds the time down to a full second.
    pub expires_micros: i64,
    /// The creator: another application credential, if a session of that credential creates the new credential. Otherwise `None`. The new credential
    /// is limited to the rights of the creator, and is deleted together with the creator.
    pub by: Option<CredentialId>,
    /// The description.
    pub comment: Option<String>,
    /// A secret that the owner chose. The secret gets a slow hash, because it may be easy to guess.
    pub secret: Option<Secret>,
}

/// An application credential, for listing.
#[derive(Clone, Debug)]
pub struct ApplicationCredential {
    /// The id of the credential.
    pub id: CredentialId,
    /// The record of the credential as an API token.
    pub credential: Credential,
    /// The project of the credential, and its rights there.
    pub delegation: Delegation,
}

impl ApplicationCredential {
    /// The fraction of a second (in microseconds) in the expiry that the creator of the credential chose. 0 if the expiry was changed later.
    pub fn expires_micros(&self) -> i64 {
        let given = self.delegation.expires_micros.unwrap_or(0);
        let is_of_second = given.div_euclid(MICROS_PER_SECOND) == self.credential.expires;
        if is_of_second { given.rem_euclid(MICROS_PER_SECOND) } else { 0 }
    }
}

/// Creates an application credential. A generated secret is returned once.
///
/// # Errors
/// When the owner has an API token of that name, a role or an access rule does not exist, the creator may not create this credential, or the facts
/// cannot be changed.
pub fn create_application_credential(
    ctx: &ChangeContext<'_>,
    key: &HashKey,
    new: &NewApplicationCredential,
) -> Result<(ApplicationCredential, Option<String>, At), Error> {
    check_comment(new.comment.as_deref())?;
    let generated = match new.secret {
        Some(_) => None,
        None => Some(enfilade_identity::generate_secret(random()?)),
    };
    let chosen = new.secret.as_ref().map(enfilade_identity::hash_password).transpose();
    let chosen = chosen.map_err(Error::Invalid)?;
    let seconds = match new.expires_micros {
        0 => 0,
        // The expiry 0 would mean that the credential never expires.
        micros => micros.div_euclid(MICROS_PER_SECOND).max(1),
    };
    let has_fraction = new.expires_micros % MICROS_PER_SECOND != 0;
    let (made, at) = ctx.commit(&format!("application credential {} create", new.name), |view, change| {
        let by_name = NameKey::token(&new.owner, &new.name);
        if view.get::<Name>(&by_name)?.is_some() {
            let hint = "delete it first, or choose another name";
            return Err(Error::Exists { what: "application credential", name: new.name.to_string(), hint });
        }
        let roles: Vec<RoleId> =
            new.roles.iter().map(|role| role_id(view, role)).collect::<Result<_, _>>()?;
        let id = CredentialId::from_bytes(random()?);
        let verifier = match (&generated, &chosen) {
            (Some(secret), _) => Verifier::Keyed(key.digest(&id, secret.as_bytes())),
            (None, Some(hash)) => Verifier::Crypt(hash.clone()),
            (None, None) => Verifier::Missing,
        };
        let credential = Credential {
            owner: new.owner,
            name: new.name.clone(),
            verifier,
            previous: None,
            enabled: true,
            expires: end_within(view, change, new.by, (&new.project, &roles), seconds)?,
            created: ctx.now.unix_seconds,
            comment: new.comment.clone(),
            own_roles: false,
            mirrored: None,
            link: None,
        };
        let delegation = Delegation {
            project: new.project,
            roles,
            unrestricted: new.unrestricted,
            rules: rules_for(view, change, &new.owner, &new.rules)?,
            by: new.by,
            expires_micros: has_fraction.then_some(new.expires_micros),
        };
        change.expect_present::<User>(&new.owner).expect_absent::<Name>(&by_name);
        change
            .put(&by_name, &Name::new(id.stored(), new.name.as_str()))
            .put(&id, &credential)
            .put(&id, &delegation);
        change.put(&ReverseKey::For(new.project, id), &Reverse);
        Ok(ApplicationCredential { id, credential, delegation })
    })?;
    Ok((made, generated, at))
}

/// Checks that the user and the project of a new application credential are enabled, and that their domains are enabled. Otherwise every login with
/// the credential would be refused.
///
/// # Errors
/// When the user, the project or a domain is disabled (the error contains the command that enables it), a record does not exist, or the facts cannot
/// be read.
pub fn require_enabled(source: &dyn Source, owner: &UserId, project: &ProjectId) -> Result<(), Error> {
    source.read(|view| {
        let user = view.get::<User>(owner)?.ok_or_else(|| dangling("user", owner))?;
        let row = view.get::<Project>(project)?.ok_or_else(|| dangling("project", project))?;
        let domain = |id: &DomainId| -> Result<Domain, Error> {
            view.get::<Domain>(id)?.ok_or_else(|| dangling("domain", id))
        };
        let (of_user, of_project) = (domain(&user.domain)?, domain(&row.domain)?);
        let of_domain = |name: &Realm| {
            (format!("the domain {name}"), format!("domain enable {}", shell_word(name.as_str())))
        };
        let (what, command) = match () {
            () if !of_user.enabled => of_domain(&of_user.name),
            () if !user.enabled => {
                let userid = Userid::new(&user.name, of_user.name)?.to_string();
                (format!("user {userid}"), format!("user enable {}", shell_word(&userid)))
            }
            () if !of_project.enabled => of_domain(&of_project.name),
            () if !row.enabled => {
                let name = full_name(view, project)?;
                (format!("project {name}"), format!("project set {} --enable", shell_word(&name)))
            }
            () => return Ok(()),
        };
        Err(Error::Refused(format!(
            "{what} is disabled, so every login with the token would be refused; first run `enfilade {command}`"
        )))
    })?
}

/// The application credentials of a user, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn application_credentials_of(
    source: &dyn Source,
    owner: &UserId,
) -> Result<Vec<ApplicationCredential>, Error> {
    source.read(|view| {
        let mut found = Vec::new();
        for (_, name) in view.list::<Name>(&NameKey::tokens_of(owner))? {
            let id = name.credential();
            if let (Some(credential), Some(delegation)) =
                (view.get::<Credential>(&id)?, view.get::<Delegation>(&id)?)
            {
                found.push(ApplicationCredential { id, credential, delegation });
            }
        }
        found.sort_by(|one, other| one.credential.name.cmp(&other.credential.name));
        Ok(found)
    })?
}

/// Deletes an application credential, and the application credentials, trusts and EC2 keys that were created with it. Sessions of the deleted
/// credentials, trusts and keys are refused from the next request on.
///
/// # Errors
/// When the owner has no application credential with that id, or the facts cannot be changed.
pub fn delete_application_credential(
    ctx: &ChangeContext<'_>,
    owner: &UserId,
    id: &CredentialId,
) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("application credential {id} delete"), |view, change| {
        let is_theirs = view.get::<Credential>(id)?.is_some_and(|row| row.owner == *owner);
        if !is_theirs || view.get::<Delegation>(id)?.is_none() {
            let hint = "see `openstack application credential list`";
            return Err(Error::Missing { what: "application credential", name: id.to_string(), hint });
        }
        change.end_with::<Credential>(id);
        forget_made(view, change, id)?;
        forget(view, change, id)
    })?;
    Ok(at)
}
