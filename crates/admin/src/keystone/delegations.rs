//! Delegations of application credentials. A record that an application credential creates is limited to the rights of that credential, and is
//! deleted together with it.

use crate::error::{Error, missing};
use enfilade_facts::limits::CREDENTIAL_CHAIN_MAX;
use enfilade_facts::tables::{Credential, Delegation, Name, NameKey, Reverse, ReverseKey};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, RoleId};
use enfilade_facts::{Change, View};

/// Checks that a session of the application credential `by` may create a record with these roles on this project. Returns the expiry of the record,
/// in seconds since the epoch; 0 means never. The change is committed only if that credential has not changed.
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
    let held = enfilade_identity::roles_of(view, &maker.owner, project, Some(&by))?;
    let is_less = delegation.unrestricted
        && delegation.rules.is_empty()
        && delegation.project == *project
        && roles.iter().all(|role| held.iter().any(|held| held.id == *role));
    if !is_less {
        return Err(Error::Refused("an application credential can create credentials and trusts only if it is unrestricted and has no access rules; the new credential or trust must be for the same project, and may have only roles of the application credential".to_owned()));
    }
    if lineage_of(view, &by)?.len() >= CREDENTIAL_CHAIN_MAX {
        let why = format!(
            "nothing was created: this application credential was created with another application credential, and so on, and such a chain can have at most {CREDENTIAL_CHAIN_MAX} of them. Log in as the user, without an application credential, then create the new credential"
        );
        return Err(Error::Refused(why));
    }
    change.expect_same(&by, &delegation);
    // The earlier of the two expiries; 0 means never.
    Ok([wanted, maker.expires].into_iter().filter(|end| *end != 0).min().unwrap_or(0))
}

/// Reads the application credential `by`. A session of this credential creates a record. The change is committed only if the credential has not
/// changed. The credential is refused while its old secret is still valid. Otherwise a session of the old secret could create a record that stays
/// valid after the old secret ends.
///
/// # Errors
/// When the application credential no longer exists, or its old secret is still valid.
pub(crate) fn maker_of(view: &View<'_>, change: &mut Change, by: &CredentialId) -> Result<Credential, Error> {
    let maker = view.get::<Credential>(by)?.ok_or_else(|| missing("application credential", by))?;
    let now = change.audit().unix_seconds;
    if maker.previous.as_ref().is_some_and(|previous| now < previous.until) {
        let why = format!(
            "application credential {} cannot create records while its old secret is still valid; end the old secret with `enfilade token set --end-grace`",
            maker.name
        );
        return Err(Error::Refused(why));
    }
    change.expect_same(by, &maker);
    Ok(maker)
}

/// The ids of a credential, of its creator, of the creator of the creator, and so on, up to the first credential in this chain.
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

/// Adds the deletion of a credential to a change.
pub(crate) fn forget(view: &View<'_>, change: &mut Change, id: &CredentialId) -> Result<(), Error> {
    if let Some(row) = view.get::<Credential>(id)? {
        change.expect_same(id, &row).delete::<Credential>(id);
        change.delete::<Name>(&NameKey::token(&row.owner, &row.name));
    }
    forget_delegation(view, change, id)
}

/// Adds the deletion of a credential's delegation to a change.
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
