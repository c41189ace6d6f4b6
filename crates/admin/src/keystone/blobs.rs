//! Credentials that services store for users, such as EC2 keys.

use super::delegations::maker_of;
use crate::change_context::{ChangeContext, random};
use crate::error::{Error, missing};
use enfilade_facts::Change;
use enfilade_facts::limits::NAME_CHARS_MAX;
use enfilade_facts::tables::{Blob, BlobId, Project, Reverse, ReverseKey, Revoked, UsedPasscode, User};
use enfilade_identity::Passcode;

/// The maximum size of a blob, in bytes.
const BLOB_BYTES_MAX: usize = 64 * 1024;

/// A random id for a credential of any type except `ec2`.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn random_id() -> Result<BlobId, Error> {
    random().map(BlobId)
}

/// Checks the lengths of a credential's texts.
pub(super) fn check_blob(row: &Blob) -> Result<(), Error> {
    let has_long_type = row.kind.chars().nth(NAME_CHARS_MAX).is_some();
    match row.blob.len() <= BLOB_BYTES_MAX && !has_long_type {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "a blob has at most {BLOB_BYTES_MAX} bytes, and its type at most {NAME_CHARS_MAX} characters"
        ))),
    }
}

/// Creates a credential.
///
/// # Errors
/// When the id or access key is taken, the user or project does not exist, or the facts cannot be changed.
pub fn create_blob(ctx: &ChangeContext<'_>, id: &BlobId, row: &Blob) -> Result<(), Error> {
    check_blob(row)?;
    ctx.commit(&format!("credential create for {}", row.user), |view, change| {
        view.get::<User>(&row.user)?.ok_or_else(|| missing("user", row.user))?;
        if view.get::<Blob>(id)?.is_some() {
            return Err(Error::Exists {
                what: "credential",
                name: id.to_string(),
                hint: "use another access key",
            });
        }
        if let Some(project) = &row.project {
            change.expect_present::<Project>(project);
        }
        if let Some(by) = row.ec2.as_ref().and_then(|key| key.by) {
            maker_of(view, change, &by)?;
        }
        change.expect_present::<User>(&row.user).expect_absent::<Blob>(id);
        change.put(id, row).put(&ReverseKey::Blob(row.user, *id), &Reverse);
        Ok(())
    })?;
    Ok(())
}

/// Adds to a change that all sessions of an EC2 key end. The change removes or replaces the key.
fn end(change: &mut Change, id: &BlobId) {
    change.end(Revoked::Chain(enfilade_identity::chain_of(id)));
}

/// Replaces a credential. If this changes an EC2 key, the sessions of the key end. If the blob changes, the record of the last used passcode is
/// deleted.
///
/// # Errors
/// When the credential has changed since it was read, or the facts cannot be changed.
pub fn update_blob(ctx: &ChangeContext<'_>, id: &BlobId, before: &Blob, row: &Blob) -> Result<(), Error> {
    check_blob(row)?;
    ctx.commit(&format!("credential {id} update"), |_, change| {
        change.expect_same(id, before).put(id, row);
        if before.ec2 != row.ec2 {
            end(change, id);
        }
        if before.blob != row.blob {
            change.delete::<UsedPasscode>(id);
        }
        Ok(())
    })?;
    Ok(())
}

/// Records that a passcode was used, so that nobody can use it again.
///
/// # Errors
/// When another request used the passcode first, the credential or the second factor of the passcode was deleted, or the facts cannot be changed.
pub fn use_passcode(ctx: &ChangeContext<'_>, passcode: &Passcode) -> Result<(), Error> {
    ctx.commit(&format!("passcode use of {}", passcode.user()), |view, change| {
        if passcode.is_of_second_factor() {
            return crate::second_factors::use_code(view, change, passcode);
        }
        for (id, step) in passcode.matched() {
            let used = view.get::<UsedPasscode>(id)?;
            if used.is_some_and(|used| used.step >= *step) || view.get::<Blob>(id)?.is_none() {
                return Err(passcode.refuse_used().into());
            }
            change.expect_present::<Blob>(id).expect_unchanged(id, used.as_ref());
            change.put(id, &UsedPasscode { step: *step });
        }
        Ok(())
    })?;
    Ok(())
}

/// Deletes a credential.
///
/// # Errors
/// When the credential has changed since it was read, or the facts cannot be changed.
pub fn delete_blob(ctx: &ChangeContext<'_>, id: &BlobId, row: &Blob) -> Result<(), Error> {
    ctx.commit(&format!("credential {id} delete"), |_, change| {
        remove_blob(change, id, row);
        Ok(())
    })?;
    Ok(())
}

/// Adds the deletion of a credential to a change. If the credential is an EC2 key, the sessions of the key end, too.
pub(crate) fn remove_blob(change: &mut Change, id: &BlobId, row: &Blob) {
    change.expect_same(id, row).delete::<Blob>(id).delete::<Reverse>(&ReverseKey::Blob(row.user, *id));
    change.delete::<UsedPasscode>(id);
    if row.ec2.is_some() {
        end(change, id);
    }
}
