//! Application credentials: API tokens with a project.

use super::grants::role_id;
use super::made::forget_made;
use super::things::missing;
use crate::desk::{Desk, random};
use crate::error::Error;
use crate::users::check_comment;
use enfilade_facts::limits::CREDENTIAL_CHAIN_MAX;
use enfilade_facts::tables::{
    AccessRule, Credential, Delegation, Name, NameKey, Reverse, ReverseKey, User, Verifier,
};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, RoleId, Secret, TokenName, UserId};
use enfilade_facts::{At, Change, Read, Source, View};
use enfilade_identity::HashKey;

/// One to be made.
#[derive(Clone, Debug)]
pub struct NewApplicationCredential {
    /// Whose it is.
    pub owner: UserId,
    /// Its name, unique to its owner.
    pub name: TokenName,
    /// The project.
    pub project: ProjectId,
    /// The roles, by name or id. Whoever asks has to have them.
    pub roles: Vec<String>,
    /// Whether it may make others.
    pub unrestricted: bool,
    /// The only requests it is for, where there are any; each gets an id.
    pub rules: Vec<AccessRule>,
    /// Until when, seconds since the epoch; 0 is for ever.
    pub expires: i64,
    /// The credential whose session asks for it: it is good while that one is good, for no more than that one.
    pub by: Option<CredentialId>,
    /// What it is for.
    pub comment: Option<String>,
    /// A secret its owner chose; it is hashed slowly, because it can be guessed.
    pub secret: Option<Secret>,
}

/// One, for listing.
#[derive(Clone, Debug)]
pub struct ApplicationCredential {
    /// Its id.
    pub id: CredentialId,
    /// What every API token has.
    pub credential: Credential,
    /// The project and what it may do there.
    pub delegation: Delegation,
}

/// Makes one; its secret is told once, unless its owner chose it.
///
/// # Errors
/// When the owner has one of that name, a role is not there, or the facts cannot be changed.
pub fn create_application_credential(
    desk: &Desk<'_>,
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
    let (made, at) =
        desk.commit(&format!("application credential {} create", new.name), |view, change| {
            let by_name = NameKey::token(&new.owner, &new.name);
            if view.get::<Name>(&by_name)?.is_some() {
                let hint = "delete it first, or choose another name";
                return Err(Error::Exists {
                    what: "application credential",
                    name: new.name.to_string(),
                    hint,
                });
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
                expires: end_within(view, change, new.by, (&new.project, &roles), new.expires)?,
                created: desk.now.unix_seconds,
                comment: new.comment.clone(),
                own_roles: false,
                kept: None,
            };
            let with_id = |rule: &AccessRule| Ok(AccessRule { id: random()?, ..rule.clone() });
            let rules = new.rules.iter().map(with_id).collect::<Result<_, Error>>()?;
            let delegation =
                Delegation { project: new.project, roles, unrestricted: new.unrestricted, rules, by: new.by };
            change.expect_present::<User>(&new.owner).expect_absent::<Name>(&by_name);
            change.put(&by_name, &Name(*id.bytes())).put(&id, &credential).put(&id, &delegation);
            change.put(&ReverseKey::For(new.project, id), &Reverse);
            Ok(ApplicationCredential { id, credential, delegation })
        })?;
    Ok((made, generated, at))
}

/// When what a credential's session makes is to end, in seconds since the epoch; 0 is for ever. It is within that credential, and the
/// change is made only if that is still the same.
pub(crate) fn end_within(
    view: &View<'_>,
    change: &mut Change,
    by: Option<CredentialId>,
    (project, roles): (&ProjectId, &[RoleId]),
    wanted: i64,
) -> Result<i64, Error> {
    let Some(by) = by else { return Ok(wanted) };
    let maker = maker_of(view, change, &by)?;
    let delegation = view.get::<Delegation>(&by)?.ok_or_else(|| missing("application credential", by))?;
    let held = enfilade_identity::roles_by(view, &maker.owner, project, &by)?;
    let is_less = delegation.unrestricted
        && delegation.rules.is_empty()
        && delegation.project == *project
        && roles.iter().all(|role| held.iter().any(|held| held.id == *role));
    if !is_less {
        return Err(Error::Refused("an application credential can create credentials and trusts only if it is unrestricted and has no access rules, only for its own project, and only with roles that it has".to_owned()));
    }
    if lineage_of(view, &by)?.len() >= CREDENTIAL_CHAIN_MAX {
        let why = format!(
            "the chain of application credentials that created one another is at its limit of {CREDENTIAL_CHAIN_MAX}: log in as the user and create a new one"
        );
        return Err(Error::Refused(why));
    }
    change.expect_same(&by, &delegation);
    // The sooner of the two.
    Ok([wanted, maker.expires].into_iter().filter(|end| *end != 0).min().unwrap_or(0))
}

/// The credential whose session makes something that lets somebody in, unchanged until that is made. While its old secret is still good,
/// nobody knows by which of the two a session came, and what was made by the old one would outlive it.
///
/// # Errors
/// When it is gone, or its old secret is still good.
pub(crate) fn maker_of(view: &View<'_>, change: &mut Change, by: &CredentialId) -> Result<Credential, Error> {
    let maker = view.get::<Credential>(by)?.ok_or_else(|| missing("application credential", by))?;
    let now = change.audit().unix_seconds;
    if maker.previous.as_ref().is_some_and(|previous| now < previous.until) {
        let why = format!(
            "application credential {} makes nothing while its old secret is still good; end that with `token set --end-grace`",
            maker.name
        );
        return Err(Error::Refused(why));
    }
    change.expect_same(by, &maker);
    Ok(maker)
}

/// A credential, the one it was made by, and so on.
///
/// # Errors
/// When the facts cannot be read.
pub fn lineage_of(view: &View<'_>, id: &CredentialId) -> Result<Vec<CredentialId>, Error> {
    let mut lineage = vec![*id];
    let mut last = *id;
    while let Some(by) = view.get::<Delegation>(&last)?.and_then(|delegation| delegation.by) {
        if lineage.len() > CREDENTIAL_CHAIN_MAX {
            break;
        }
        lineage.push(by);
        last = by;
    }
    Ok(lineage)
}

/// Those of a user, by name.
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
        Ok(found)
    })?
}

/// Deletes one, and what it made; their sessions are refused from now on.
///
/// # Errors
/// When the owner has none with that id, or the facts cannot be changed.
pub fn delete_application_credential(
    desk: &Desk<'_>,
    owner: &UserId,
    id: &CredentialId,
) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("application credential {id} delete"), |view, change| {
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

/// Takes one away in a change.
pub(crate) fn forget(view: &View<'_>, change: &mut Change, id: &CredentialId) -> Result<(), Error> {
    if let Some(row) = view.get::<Credential>(id)? {
        change.expect_same(id, &row).delete::<Credential>(id);
        change.delete::<Name>(&NameKey::token(&row.owner, &row.name));
    }
    forget_delegation(view, change, id)
}

/// The same of what makes it one.
pub(crate) fn forget_delegation(
    view: &View<'_>,
    change: &mut Change,
    id: &CredentialId,
) -> Result<(), Error> {
    if let Some(delegation) = view.get::<Delegation>(id)? {
        change.delete::<Delegation>(id).delete::<Reverse>(&ReverseKey::For(delegation.project, *id));
    }
    Ok(())
}
