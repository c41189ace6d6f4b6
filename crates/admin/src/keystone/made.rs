//! When an application credential is deleted, the records that it created are deleted, too: trusts, EC2 keys and other application credentials. The
//! records that these credentials created are also deleted. Even if the records were not deleted, every record that the credential created would be
//! invalid from the same commit on. The records are deleted so that no list shows them.

use super::blobs::remove_blob;
use super::delegations::forget;
use super::trusts::remove_trust;
use crate::error::Error;
use enfilade_facts::tables::{Blob, Credential, Delegation, Name, NameKey, Reverse, ReverseKey, Trust};
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{Change, View};
use std::collections::BTreeSet;

/// Adds the deletion of records to `change`: each trust, EC2 key and application credential that this credential created, directly or through other
/// credentials.
pub(crate) fn forget_made(view: &View<'_>, change: &mut Change, id: &CredentialId) -> Result<(), Error> {
    let Some(owner) = view.get::<Credential>(id)?.map(|row| row.owner) else { return Ok(()) };
    if view.get::<Delegation>(id)?.is_none() {
        return Ok(());
    }
    let mut made_by = Vec::new();
    for (_, name) in view.list::<Name>(&NameKey::tokens_of(&owner))? {
        let id = name.credential();
        made_by.extend(view.get::<Delegation>(&id)?.and_then(|row| row.by).map(|by| (by, id)));
    }
    let (mut gone, mut edge) = (BTreeSet::from([*id]), vec![*id]);
    while let Some(by) = edge.pop() {
        for (_, child) in made_by.iter().filter(|(maker, _)| *maker == by) {
            if gone.insert(*child) {
                change.end_with::<Credential>(child);
                forget(view, change, child)?;
                edge.push(*child);
            }
        }
    }
    let is_gone = |by: Option<CredentialId>| by.is_some_and(|by| gone.contains(&by));
    for (key, _) in view.list::<Reverse>(&ReverseKey::trusts_of(&owner))? {
        if let ReverseKey::Trusts(_, id) = key
            && view.get::<Trust>(&id)?.is_some_and(|row| is_gone(row.by))
        {
            remove_trust(view, change, &id)?;
        }
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::blobs_of(&owner))? {
        if let ReverseKey::Blob(_, id) = key
            && let Some(row) = view.get::<Blob>(&id)?
            && is_gone(row.ec2.as_ref().and_then(|key| key.by))
        {
            remove_blob(change, &id, &row);
        }
    }
    Ok(())
}
