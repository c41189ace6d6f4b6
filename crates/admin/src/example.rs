//! Records that exist, for the examples that commands print.

use crate::error::Error;
use crate::resolve::user_id;
use enfilade_facts::tables::{Credential, Datastore, Domain, User, Verifier};
use enfilade_facts::vocabulary::{Authid, DatastoreName, UserId, Userid};
use enfilade_facts::{Read, Source, View};
use std::ops::ControlFlow;

/// The usual administrators, in the order of preference.
const ADMINISTRATORS: [&str; 3] = ["admin@local", "root@pam", "admin@Default"];
/// The datastore of a first start.
const FIRST_DATASTORE: &str = "main";
/// The maximum number of records that are read to find an example.
const LOOKED_AT_MAX: usize = 1_000;

/// A user or token for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExampleLogin {
    /// This user or token can log in: it is enabled, and has a password or a secret.
    Secret(Authid),
    /// This user exists, but nobody who can log in was found.
    NoSecret(Authid),
}

/// A user or token that can log in, an administrator if possible; `None` if there is no user.
///
/// # Errors
/// When the facts cannot be read.
pub fn example_login(source: &dyn Source, now: i64) -> Result<Option<ExampleLogin>, Error> {
    source.read(|view| {
        let is_live = |enabled: bool, expires: i64| enabled && (expires == 0 || now < expires);
        let can_log_in = |user: &User| is_live(user.enabled, user.expires) && user.password.is_some();
        let mut somebody = None;
        for name in ADMINISTRATORS {
            let Ok(authid) = name.parse::<Authid>() else { continue };
            let id = match user_id(view, &authid.user) {
                Ok(id) => id,
                Err(Error::Missing { .. }) => continue,
                Err(why) => return Err(why),
            };
            match view.get::<User>(&id)? {
                Some(user) if can_log_in(&user) => return Ok(Some(ExampleLogin::Secret(authid))),
                _ => somebody = somebody.or(Some(authid)),
            }
        }
        if let Some((id, _)) = first::<User>(view, |_, user| can_log_in(user))? {
            return Ok(authid_of(view, &id)?.map(ExampleLogin::Secret));
        }
        let has_secret = |token: &Credential| {
            is_live(token.enabled, token.expires) && !matches!(token.verifier, Verifier::Missing)
        };
        if let Some((_, token)) = first::<Credential>(view, |_, token| has_secret(token))?
            && let Some(owner) = authid_of(view, &token.owner)?
        {
            return Ok(Some(ExampleLogin::Secret(Authid { token: Some(token.name), ..owner })));
        }
        if somebody.is_none()
            && let Some((id, _)) = first::<User>(view, |_, _| true)?
        {
            somebody = authid_of(view, &id)?;
        }
        Ok(somebody.map(ExampleLogin::NoSecret))
    })?
}

/// An existing datastore: that of a first start, if possible.
///
/// # Errors
/// When the facts cannot be read.
pub fn example_datastore(source: &dyn Source) -> Result<Option<DatastoreName>, Error> {
    source.read(|view| {
        if let Ok(name) = FIRST_DATASTORE.parse::<DatastoreName>()
            && view.get::<Datastore>(&name)?.is_some()
        {
            return Ok(Some(name));
        }
        Ok(first::<Datastore>(view, |_, _| true)?.map(|(name, _)| name))
    })?
}

/// The first record for which `is_so` returns true, among the first [`LOOKED_AT_MAX`] records of the table.
fn first<R: enfilade_facts::tables::Row>(
    view: &View<'_>,
    is_so: impl Fn(&R::Key, &R) -> bool,
) -> Result<Option<(R::Key, R)>, Error> {
    let (mut found, mut looked) = (None, 0);
    view.page::<R>(&[], None, |key, row| {
        looked += 1;
        if is_so(&key, &row) {
            found = Some((key, row));
        }
        match found.is_none() && looked < LOOKED_AT_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(found)
}

fn authid_of(view: &View<'_>, id: &UserId) -> Result<Option<Authid>, Error> {
    let Some(user) = view.get::<User>(id)? else { return Ok(None) };
    let Some(domain) = view.get::<Domain>(&user.domain)? else { return Ok(None) };
    Ok(Userid::new(&user.name, domain.name).ok().map(Authid::from))
}
