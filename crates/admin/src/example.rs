//! Records that exist, for the examples that commands print.

use crate::administrators::{Administers, Administrator, administrators, refused};
use crate::error::Error;
use enfilade_facts::tables::{Credential, Datastore, Domain, User};
use enfilade_facts::vocabulary::{Authid, CredentialId, DatastoreName, UserId, Userid};
use enfilade_facts::{Read, Source, View};
use std::ops::ControlFlow;

/// The name of the datastore that a first start creates.
const FIRST_DATASTORE: &str = "main";
/// The maximum number of records that are read to find examples.
const LOOKED_AT_MAX: usize = 1_000;
/// The maximum number of examples of one kind.
const EXAMPLES_MAX: usize = 10;

/// Users and tokens that can log in: administrators first, then other users, then tokens. Empty if none was found.
///
/// # Errors
/// When the facts cannot be read.
pub fn example_logins(source: &dyn Source, now: i64) -> Result<Vec<Authid>, Error> {
    let administrators =
        administrators(source, Administers::Server, now)?.into_iter().filter(Administrator::can_log_in);
    let mut logins: Vec<Authid> =
        administrators.take(EXAMPLES_MAX).map(|found| Authid::from(found.name)).collect();
    source.read(|view| {
        let users = first::<User>(view, |id, _| Ok(refused(view, id, None, now)?.is_none()))?;
        for (id, _) in users {
            logins.extend(authid_of(view, &id)?.filter(|login| !logins.contains(login)));
        }
        let works = |id: &CredentialId, token: &Credential| {
            Ok(refused(view, &token.owner, Some(*id), now)?.is_none())
        };
        for (_, token) in first::<Credential>(view, works)? {
            let owner = authid_of(view, &token.owner)?;
            logins.extend(owner.map(|owner| Authid { token: Some(token.name.clone()), ..owner }));
        }
        Ok(logins)
    })?
}

/// A user for an example: an administrator if possible, preferably an administrator who can log in. `None` if there is no user.
///
/// # Errors
/// When the facts cannot be read.
pub fn example_user(source: &dyn Source, now: i64) -> Result<Option<Authid>, Error> {
    if let Some(found) =
        administrators(source, Administers::Server, now)?.into_iter().max_by_key(Administrator::can_log_in)
    {
        return Ok(Some(found.name.into()));
    }
    source.read(|view| match first::<User>(view, |_, _| Ok(true))?.first() {
        Some((id, _)) => authid_of(view, id),
        None => Ok(None),
    })?
}

/// Existing datastores: first the datastores that are not in maintenance, then the datastores in maintenance. Among the datastores in the same state,
/// the datastore that a first start created comes first.
///
/// # Errors
/// When the facts cannot be read.
pub fn example_datastores(source: &dyn Source) -> Result<Vec<DatastoreName>, Error> {
    source.read(|view| {
        let mut found = Vec::new();
        let mut add = |name, row: &Datastore| {
            if !found.iter().any(|(known, _)| *known == name) {
                found.push((name, row.maintenance.is_some()));
            }
        };
        if let Ok(name) = FIRST_DATASTORE.parse::<DatastoreName>()
            && let Some(row) = view.get::<Datastore>(&name)?
        {
            add(name, &row);
        }
        let open = first::<Datastore>(view, |_, row| Ok(row.maintenance.is_none()))?;
        let any = first::<Datastore>(view, |_, _| Ok(true))?;
        open.into_iter().chain(any).for_each(|(name, row)| add(name, &row));
        found.sort_by_key(|(_, is_in_maintenance)| *is_in_maintenance);
        Ok(found.into_iter().map(|(name, _)| name).collect())
    })?
}

/// Searches the first [`LOOKED_AT_MAX`] records of the table, and returns the first records for which `is_so` returns true, at most [`EXAMPLES_MAX`].
fn first<R: enfilade_facts::tables::Row>(
    view: &View<'_>,
    is_so: impl Fn(&R::Key, &R) -> Result<bool, Error>,
) -> Result<Vec<(R::Key, R)>, Error> {
    let (mut found, mut looked, mut failed) = (Vec::new(), 0, None);
    view.page::<R>(&[], None, |key, row| {
        looked += 1;
        match is_so(&key, &row) {
            Ok(true) => found.push((key, row)),
            Ok(false) => {}
            Err(why) => failed = Some(why),
        }
        match failed.is_none() && found.len() < EXAMPLES_MAX && looked < LOOKED_AT_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    failed.map_or(Ok(found), Err)
}

fn authid_of(view: &View<'_>, id: &UserId) -> Result<Option<Authid>, Error> {
    let Some(user) = view.get::<User>(id)? else { return Ok(None) };
    let Some(domain) = view.get::<Domain>(&user.domain)? else { return Ok(None) };
    Ok(Userid::new(&user.name, domain.name).ok().map(Authid::from))
}
