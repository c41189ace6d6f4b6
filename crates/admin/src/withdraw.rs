//! Deletes all credentials of a user or for a project, so that no client can log in with them. Records are deleted for good; users, their roles and
//! their memberships stay.

use crate::access::{Way, WayRecord, ways_for, ways_of};
use crate::change_context::ChangeContext;
use crate::error::{Error, missing};
use crate::keystone::{delete_access_token, delete_blob, delete_trust, userid_of};
use crate::tokens::delete_token;
use crate::users::remove_password;
use enfilade_facts::tables::Blob;
use enfilade_facts::vocabulary::{ProjectId, UserId};
use enfilade_facts::{Read, View};

/// The maximum number of attempts to delete all ways in (passwords, tokens and other records with which a client can log in). Each later attempt
/// deletes what a session or token created during the previous attempt. An attempt takes milliseconds.
const ATTEMPTS: usize = 16;

/// Deletes the record of a way in (API token, application credential, EC2 key, trust or OAuth access token), with all records that were made with it.
/// If the way in is a password, removes the password. If the record no longer exists, this is not an error.
///
/// # Errors
/// When the facts or the files cannot be changed.
pub fn withdraw(ctx: &ChangeContext<'_>, way: &Way) -> Result<(), Error> {
    let done = match &way.record {
        WayRecord::Password => {
            let user = ctx.facts.read(|view| userid_of(view, &way.user))??;
            user.ok_or_else(|| missing("user", way.user))
                .and_then(|user| remove_password(ctx, &user))
                .map(drop)
        }
        WayRecord::Token(_, authid) => match &authid.token {
            Some(name) => delete_token(ctx, &authid.user, name).map(drop),
            None => Ok(()),
        },
        WayRecord::Key(id) => match ctx.facts.read(|view| view.get::<Blob>(id))?? {
            Some(row) => delete_blob(ctx, id, &row),
            None => Ok(()),
        },
        WayRecord::Trust(id) => delete_trust(ctx, id).map(drop),
        WayRecord::AccessToken(id) => delete_access_token(ctx, &way.user, id),
    };
    match done {
        Err(Error::Missing { .. }) => Ok(()),
        done => done,
    }
}

/// Deletes every way in that a user has, until none is left.
///
/// # Errors
/// When the facts or the files cannot be changed, or a client creates new credentials all the time.
pub fn withdraw_from(ctx: &ChangeContext<'_>, user: &UserId) -> Result<(), Error> {
    withdraw_all(ctx, |view| ways_of(view, user))
}

/// Deletes every application credential, EC2 key, trust and OAuth access token for a project, until none is left.
///
/// # Errors
/// As [`withdraw_from`].
pub fn withdraw_for(ctx: &ChangeContext<'_>, project: &ProjectId) -> Result<(), Error> {
    withdraw_all(ctx, |view| ways_for(view, project))
}

fn withdraw_all(
    ctx: &ChangeContext<'_>,
    ways: impl Fn(&View<'_>) -> Result<Vec<Way>, Error>,
) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        let found = ctx.facts.read(&ways)??;
        if found.is_empty() {
            return Ok(());
        }
        found.iter().try_for_each(|way| withdraw(ctx, way))?;
    }
    let why = "not all credentials could be deleted: a client created new ones during every attempt. Disable the user of this client with `enfilade user disable`, then try again";
    Err(Error::Refused(why.to_owned()))
}
