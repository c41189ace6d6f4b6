//! The first facts of a new data directory.

use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use crate::known_keys::known;
use enfilade_facts::tables::{
    Assignment, Datastore, Domain, Grant, Name, NameKey, SidSpace, SidSpaceKey, User,
};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_facts::{At, Read, Source};
use enfilade_identity::HashKey;

/// Creates the realm `local` and the space of SIDs, if they do not exist yet. The record of a new SID space also contains a check value of `key`, the
/// key of token hashes.
///
/// # Errors
/// When the facts cannot be changed.
pub fn ensure_local_realm(ctx: &ChangeContext<'_>, key: Option<&HashKey>) -> Result<At, Error> {
    let ((), at) = ctx.commit("create the realm `local`", |view, change| {
        if view.get::<SidSpace>(&SidSpaceKey)?.is_none() {
            let [a, b, c] = [random::<4>()?, random::<4>()?, random::<4>()?].map(u32::from_be_bytes);
            let space = SidSpace {
                words: [a, b, c],
                next_rid: SidSpace::FIRST_RID,
                token_key: key.map(|key| known(key, ctx.now.unix_seconds)),
            };
            change.expect_absent::<SidSpace>(&SidSpaceKey).put(&SidSpaceKey, &space);
        }
        let name = NameKey::domain(&Realm::local());
        if view.get::<Name>(&name)?.is_none() {
            let id = random()?;
            change.expect_absent::<Name>(&name).put(&name, &Name::new(id, Realm::local().as_str()));
            change.put(&DomainId::from_bytes(id), &Domain::new(Realm::local()));
        }
        Ok(())
    })?;
    Ok(at)
}

/// Returns `true` if the store of facts contains no user.
///
/// # Errors
/// When the facts cannot be read.
pub fn is_empty(source: &dyn Source) -> Result<bool, Error> {
    Ok(!source.read(|view| view.any::<User>(&[]))??)
}

/// Whether the data directory is set up, so that it needs no first start. A data directory is set up in two cases: the facts contain a user of
/// `user.cfg`, or they contain any user and also a datastore or a role assignment. If the facts contain only users that are not in `user.cfg`, the
/// data directory is not set up: commands can create such users after a first start that failed.
///
/// # Errors
/// When the facts cannot be read.
pub fn is_set_up(source: &dyn Source) -> Result<bool, Error> {
    source.read(|view| {
        if !view.any::<User>(&[])? {
            return Ok(false);
        }
        if view.any::<Datastore>(&[])? || view.any::<Assignment>(&[])? || view.any::<Grant>(&[])? {
            return Ok(true);
        }
        Ok(view.list::<User>(&[])?.iter().any(|(_, user)| user.mirrored.is_some()))
    })?
}
