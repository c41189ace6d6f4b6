//! Trusts: a trustor lends roles on a project to a trustee.

use super::delegations::end_within;
use crate::change_context::{ChangeContext, random};
use crate::error::{Error, missing};
use enfilade_facts::limits::REDELEGATIONS_MAX;
use enfilade_facts::tables::{Project, Reverse, ReverseKey, Trust, User};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, RoleId, TrustId, UserId};
use enfilade_facts::{At, Change, Read, Source, View};
use enfilade_identity::HeldRole;

/// A trust to create.
#[derive(Clone, Debug)]
pub struct NewTrust {
    /// The user who lends the roles.
    pub trustor: UserId,
    /// The user who gets the roles.
    pub trustee: UserId,
    /// The project on which the trustor lends the roles.
    pub project: ProjectId,
    /// The lent roles, by id or name; the trustor must have each of them on the project.
    pub roles: Vec<String>,
    /// Whether services see the trustor as the user of a session.
    pub impersonation: bool,
    /// When the trust expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// How many sessions may be created with the trust; `None` for any number.
    pub uses: Option<u32>,
    /// How many times the trust may be delegated again.
    pub redelegations: u8,
    /// The trust that the new trust redelegates, if a session of that trust creates the new trust.
    pub parent: Option<TrustId>,
    /// The application credential, if a session of an application credential creates the trust. The trust is limited to the rights of that
    /// credential, and is deleted together with it.
    pub by: Option<CredentialId>,
}

/// Creates a trust.
///
/// # Errors
/// When the trust lends no role, or a role that the trustor does not have; when the creator or the parent trust does not allow the new trust; when a
/// user, the project or the parent trust does not exist, or the facts cannot be changed.
pub fn create_trust(ctx: &ChangeContext<'_>, new: &NewTrust) -> Result<(TrustId, Trust, At), Error> {
    let what = format!("trust create: trustor {}, trustee {}", new.trustor, new.trustee);
    let ((id, trust), at) = ctx.commit(&what, |view, change| {
        let held = enfilade_identity::roles_of(view, &new.trustor, &new.project, None)?;
        // Only roles of the trustor are searched, so that the response does not show which other roles exist.
        let lent = |said: &String| {
            let id = said.parse::<RoleId>();
            let is_it = |held: &&HeldRole| id.as_ref().map_or(held.name == *said, |id| held.id == *id);
            let why =
                || format!("the trustor has no role {said} on the project, so the trust cannot delegate it");
            held.iter().find(is_it).map(|held| held.id).ok_or_else(|| Error::Invalid(why()))
        };
        let roles: Vec<_> = new.roles.iter().map(lent).collect::<Result<_, _>>()?;
        if roles.is_empty() {
            return Err(Error::Invalid("a trust for a project must delegate at least one role".to_owned()));
        }
        let id = TrustId::from_bytes(random()?);
        let NewTrust { trustor, trustee, project, impersonation, uses, redelegations, parent, by, .. } = *new;
        let expires = end_within(view, change, by, (&project, &roles), new.expires)?;
        let mut trust = Trust {
            trustor,
            trustee,
            project,
            roles,
            impersonation,
            expires,
            uses,
            redelegations,
            parent,
            by,
        };
        check_uses(&trust)?;
        if view.get::<User>(&trustee)?.is_none() {
            return Err(missing("user", trustee));
        }
        if let Some(parent) = &parent {
            let from = view.get::<Trust>(parent)?.ok_or_else(|| missing("trust", parent))?;
            redelegate(&from, &mut trust)?;
            change.expect_same(parent, &from);
        }
        change.expect_present::<User>(&trustor).expect_present::<User>(&trustee);
        change.expect_present::<Project>(&project).put(&id, &trust);
        for key in ways_to(&id, &trust) {
            change.put(&key, &Reverse);
        }
        Ok((id, trust))
    })?;
    Ok((id, trust, at))
}

/// Checks how many times a trust may be used, and how many times it may be delegated again.
pub(super) fn check_uses(trust: &Trust) -> Result<(), Error> {
    let is_onward = trust.redelegations > 0 || trust.parent.is_some();
    if trust.redelegations > REDELEGATIONS_MAX || trust.uses.is_some() && is_onward {
        let why = format!(
            "a trust can be delegated again at most {REDELEGATIONS_MAX} times, and not at all if its number of uses is limited"
        );
        return Err(Error::Refused(why));
    }
    Ok(())
}

/// Limits the new trust `trust`, which redelegates the trust `from`. If the new trust would lend more than `from`, the new trust is refused. If the
/// new trust would end later than `from`, it gets the end of `from`. The new trust counts as created by the application credential that created
/// `from`.
pub(super) fn redelegate(from: &Trust, trust: &mut Trust) -> Result<(), Error> {
    let is_less = from.redelegations > trust.redelegations
        && (from.trustor, from.project) == (trust.trustor, trust.project)
        && (from.impersonation || !trust.impersonation)
        && trust.roles.iter().all(|role| from.roles.contains(role));
    if !is_less {
        let why = "a redelegated trust must have the trustor and the project of its parent trust, fewer redelegations, no \
                   additional roles, and no impersonation that the parent trust does not allow";
        return Err(Error::Refused(why.to_owned()));
    }
    let ends = [from.expires, trust.expires].into_iter().filter(|end| *end != 0);
    trust.expires = ends.min().unwrap_or(0);
    trust.by = from.by;
    Ok(())
}

/// Finds a trust.
///
/// # Errors
/// When the facts cannot be read.
pub fn find_trust(source: &dyn Source, id: &TrustId) -> Result<Option<Trust>, Error> {
    source.read(|view| Ok(view.get::<Trust>(id)?))?
}

/// Every trust.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_trusts(source: &dyn Source) -> Result<Vec<(TrustId, Trust)>, Error> {
    source.read(|view| Ok(view.list::<Trust>(&[])?))?
}

/// Counts a use of a trust with a limited number of uses.
///
/// # Errors
/// When the trust does not exist, no use is left, or the facts cannot be changed.
pub fn use_trust(ctx: &ChangeContext<'_>, id: &TrustId) -> Result<(), Error> {
    ctx.commit(&format!("trust {id} use"), |view, change| {
        let row = view.get::<Trust>(id)?.ok_or_else(|| missing("trust", id))?;
        let Some(uses) = row.uses else { return Ok(()) };
        let left = uses
            .checked_sub(1)
            .ok_or_else(|| Error::Refused("the trust has no remaining uses".to_owned()))?;
        change.expect_same(id, &row).put(id, &Trust { uses: Some(left), ..row.clone() });
        Ok(())
    })?;
    Ok(())
}

/// Deletes a trust, and all trusts that were delegated from it. Their sessions are refused from the next request on, and the list of revocation
/// events contains these trusts.
///
/// # Errors
/// When the trust does not exist, or the facts cannot be changed.
pub fn delete_trust(ctx: &ChangeContext<'_>, id: &TrustId) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("trust delete {id}"), |view, change| {
        let row = view.get::<Trust>(id)?.ok_or_else(|| {
            let hint = "see `openstack trust list`";
            Error::Missing { what: "trust", name: id.to_string(), hint }
        })?;
        change.expect_same(id, &row);
        remove_trust(view, change, id)
    })?;
    Ok(at)
}

/// Adds to a change the deletion of a trust, and of all trusts that were delegated from it.
pub(crate) fn remove_trust(view: &View<'_>, change: &mut Change, id: &TrustId) -> Result<(), Error> {
    let mut gone = vec![*id];
    while let Some(id) = gone.pop() {
        forget_trust(view, change, &id)?;
        change.end_with::<Trust>(&id);
        for (key, _) in view.list::<Reverse>(&ReverseKey::lent_on_from(&id))? {
            if let ReverseKey::LentOn(_, child) = key {
                gone.push(child);
            }
        }
    }
    Ok(())
}

/// The index keys of a trust.
pub(super) fn ways_to(id: &TrustId, trust: &Trust) -> impl Iterator<Item = ReverseKey> {
    let of_users = [trust.trustor, trust.trustee].map(|user| ReverseKey::Trusts(user, *id));
    let from = trust.parent.map(|parent| ReverseKey::LentOn(parent, *id));
    of_users.into_iter().chain([ReverseKey::TrustFor(trust.project, *id)]).chain(from)
}

fn forget_trust(view: &View<'_>, change: &mut Change, id: &TrustId) -> Result<(), Error> {
    if let Some(trust) = view.get::<Trust>(id)? {
        change.delete::<Trust>(id);
        for key in ways_to(id, &trust) {
            change.delete::<Reverse>(&key);
        }
    }
    Ok(())
}

/// Adds to a change the deletion of all trusts of a user or project. `prefix` is the prefix of the index keys of this user or project.
pub(crate) fn remove_trusts(view: &View<'_>, change: &mut Change, prefix: &[u8]) -> Result<(), Error> {
    for (key, _) in view.list::<Reverse>(prefix)? {
        if let ReverseKey::Trusts(_, id) | ReverseKey::TrustFor(_, id) = key {
            remove_trust(view, change, &id)?;
        }
    }
    Ok(())
}
