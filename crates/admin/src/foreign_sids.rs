//! The table of foreign SIDs: SIDs in ACLs that another system wrote, each mapped to a user or group of this store.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::resolve::{Names, Target, dangling, group_id, user_id};
use crate::users::is_free;
use enfilade_facts::tables::{Group, User};
use enfilade_facts::vocabulary::Sid;
use enfilade_facts::{At, Read, Source};

/// Maps a foreign SID to a user or group.
///
/// # Errors
/// When the SID is not allowed for users and groups, the SID is in use, `who` is a token or does not exist, or the facts cannot be changed.
pub fn map_sid(ctx: &ChangeContext<'_>, sid: Sid, who: &Target) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("acl map {sid} {who}"), |view, change| {
        is_free(&sid, view)?;
        match who {
            Target::User(name) => {
                let id = user_id(view, name)?;
                let mut user = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
                change.expect_same(&id, &user);
                user.also.push(sid);
                change.put(&id, &user);
            }
            Target::Group(name) => {
                let id = group_id(view, name)?;
                let mut group = view.get::<Group>(&id)?.ok_or_else(|| dangling("group", id))?;
                change.expect_same(&id, &group);
                group.also.push(sid);
                change.put(&id, &group);
            }
            Target::Token(user, _) => {
                let why =
                    format!("`{who}` is a token, which acts as its owner; use the owner `{user}` instead");
                return Err(Error::Invalid(why));
            }
        }
        Ok(())
    })?;
    Ok(at)
}

/// Removes the mapping of a foreign SID.
///
/// # Errors
/// When the SID is not in the table, or the facts cannot be changed.
pub fn unmap_sid(ctx: &ChangeContext<'_>, sid: Sid) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("acl unmap {sid}"), |view, change| {
        for (id, mut user) in view.list::<User>(&[])? {
            if user.also.contains(&sid) {
                change.expect_same(&id, &user);
                user.also.retain(|also| *also != sid);
                change.put(&id, &user);
                return Ok(());
            }
        }
        for (id, mut group) in view.list::<Group>(&[])? {
            if group.also.contains(&sid) {
                change.expect_same(&id, &group);
                group.also.retain(|also| *also != sid);
                change.put(&id, &group);
                return Ok(());
            }
        }
        Err(Error::Missing { what: "foreign SID", name: sid.to_string(), hint: "see `enfilade acl mapped`" })
    })?;
    Ok(at)
}

/// The table: each foreign SID with its user or group, sorted by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn mapped_sids(source: &dyn Source) -> Result<Vec<(Sid, String)>, Error> {
    source.read(|view| {
        let names = Names::read(view)?;
        let users = view.list::<User>(&[])?.into_iter().map(|(id, user)| (names.user(&id), user.also));
        let groups = view.list::<Group>(&[])?.into_iter().map(|(id, group)| (names.group(&id), group.also));
        let rows =
            users.chain(groups).flat_map(|(name, also)| also.into_iter().map(move |sid| (sid, name.clone())));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|(a, one), (b, other)| (one, a).cmp(&(other, b)));
        Ok::<_, Error>(rows)
    })?
}
