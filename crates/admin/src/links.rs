//! Makes, lists and ends links with which people share files and folders, and counts the uses of links. A link is an API token without a verifier
//! (`facts::tables::Link`), so each operation that can take away an API token can also end a link.

use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use crate::resolve::{Names, dangling, user_id};
use enfilade_facts::limits::{LINK_NAME_CHARS_MAX, LINK_USES_MAX, Limits};
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Credential, Datastore, Link, LinkPlace, Name, NameKey, User, Verifier, Who,
};
use enfilade_facts::vocabulary::{Authid, CredentialId, Secret, UserId, Userid, to_hex, to_rfc3339};
use enfilade_facts::{At, Change, Read, Source, View};
use enfilade_identity::{LINK_SECRET_BYTES, Refusal, link_text, secret_digest};

/// The number of random bytes in the name of the token of a link.
const NAME_BYTES: usize = 6;

/// A link to make.
#[derive(Debug)]
pub struct NewLink {
    /// The user who shares.
    pub owner: Userid,
    /// A name for the list of links.
    pub name: String,
    /// The shared place.
    pub place: LinkPlace,
    /// When the link expires, in seconds since the epoch.
    pub expires: i64,
    /// The password that a guest has to know.
    pub password: Option<Secret>,
    /// How many downloads or uploads the link allows; `None` if their number is not limited.
    pub uses: Option<u32>,
}

/// A link that was just made. Its text is never shown again.
pub struct MadeLink {
    /// The id of the link.
    pub id: CredentialId,
    /// The authid of the guests who use the link: `user@realm!link-…`.
    pub tokenid: Authid,
    /// The text of the link in its URL: the id and the secret.
    pub text: String,
    /// The first revision at which the link is valid.
    pub at: At,
}

/// A link, for listing.
#[derive(Clone, Debug)]
pub struct LinkSummary {
    /// The id of the link.
    pub id: CredentialId,
    /// The user who made the link.
    pub owner: String,
    /// The authid of the guests who use the link.
    pub tokenid: String,
    /// The name.
    pub name: String,
    /// The shared place.
    pub place: LinkPlace,
    /// Whether the link is enabled.
    pub enabled: bool,
    /// When the link expires, in seconds since the epoch.
    pub expires: i64,
    /// When the link was made, in seconds since the epoch.
    pub created: i64,
    /// Whether a guest has to know a password.
    pub has_password: bool,
    /// How many downloads or uploads are left; `None` if their number is not limited.
    pub uses: Option<u32>,
}

/// Checks the properties of a new link that can be checked without reading the facts.
fn check(ctx: &ChangeContext<'_>, limits: &Limits, new: &NewLink) -> Result<(), Error> {
    let invalid = |why: String| Err(Error::Invalid(why));
    let seconds = new.expires.saturating_sub(ctx.now.unix_seconds);
    if new.name.chars().count() > LINK_NAME_CHARS_MAX || new.name.chars().any(char::is_control) {
        return invalid(format!(
            "the name of the link is longer than {LINK_NAME_CHARS_MAX} characters or contains control characters"
        ));
    }
    if seconds <= 0 || u64::try_from(seconds).is_ok_and(|seconds| seconds > limits.link_seconds) {
        let until = ctx.now.unix_seconds.saturating_add_unsigned(limits.link_seconds);
        return invalid(format!(
            "the time at which the link expires must be in the future, and at the latest {} (limit `link_seconds`); choose another time",
            to_rfc3339(until)
        ));
    }
    if new.uses.is_some_and(|uses| uses == 0 || uses > LINK_USES_MAX) {
        return invalid(format!(
            "the number of uses must be 1 to {LINK_USES_MAX}; leave it out if the number is not limited"
        ));
    }
    Ok(())
}

/// Makes a link with a secret of 256 random bits. Deletes links of the same user that have expired. Computes the slow hash of the password, so the
/// call can take a tenth of a second.
///
/// # Errors
/// When the terms of the link are not allowed, the user has too many links, the user or the datastore does not exist, or the facts cannot be changed.
pub fn create_link(ctx: &ChangeContext<'_>, limits: &Limits, new: &NewLink) -> Result<MadeLink, Error> {
    check(ctx, limits, new)?;
    // The slow hash is computed only after the number of links was checked, so that a user with too many links cannot cause this work.
    let links = ctx.facts.read(|view| links_of(view, &user_id(view, &new.owner)?))??;
    let count = links.iter().filter(|(_, row)| ctx.now.unix_seconds < row.expires).count();
    check_count(u64::try_from(count).unwrap_or(u64::MAX), limits)?;
    let password = new.password.as_ref().map(enfilade_identity::hash_password).transpose();
    let password = password.map_err(Error::Invalid)?;
    let (id, secret) = (CredentialId::from_bytes(random()?), random::<LINK_SECRET_BYTES>()?);
    let name = format!("link-{}", to_hex(&random::<NAME_BYTES>()?)).parse()?;
    let tokenid = Authid { user: new.owner.clone(), token: Some(name) };
    let LinkPlace { datastore, rights, .. } = &new.place;
    // The description of the change does not contain the path, because people who have no right to see the path can read the change log.
    let what = format!("link create {tokenid}: {} {datastore}", rights.name());
    let ((), at) = ctx.commit(&what, |view, change| {
        let owner = user_id(view, &new.owner)?;
        if view.get::<Datastore>(datastore)?.is_none() {
            let hint = "see `enfilade datastore list`";
            return Err(Error::Missing { what: "datastore", name: datastore.to_string(), hint });
        }
        check_count(without_expired(ctx, view, change, &owner)?, limits)?;
        let link = Link {
            secret: secret_digest(&secret),
            place: new.place.clone(),
            password: password.clone(),
            uses: new.uses,
        };
        let row = Credential {
            owner,
            name: tokenid.token.clone().ok_or_else(|| dangling("token", id))?,
            verifier: Verifier::Missing,
            previous: None,
            enabled: true,
            expires: new.expires,
            created: ctx.now.unix_seconds,
            comment: Some(new.name.clone()).filter(|name| !name.is_empty()),
            own_roles: true,
            mirrored: None,
            link: Some(Box::new(link)),
        };
        let by_name = NameKey::token(&owner, &row.name);
        change.expect_present::<User>(&owner).expect_absent::<Name>(&by_name);
        change.put(&by_name, &Name::new(id.stored(), row.name.as_str())).put(&id, &row);
        Ok(())
    })?;
    Ok(MadeLink { id, tokenid, text: link_text(&id, &secret), at })
}

/// Checks that a user who has `count` links may make another link.
fn check_count(count: u64, limits: &Limits) -> Result<(), Error> {
    match limits.links_per_user {
        0 => Err(Error::Refused(
            "nobody can make new links on this server (limit `links_per_user` is 0); ask the administrator"
                .to_owned(),
        )),
        most if count >= most => Err(Error::Refused(format!(
            "the user has {count} links, and may have {most} (limit `links_per_user`); end one first, on the page Links or with `enfilade link end`"
        ))),
        _ => Ok(()),
    }
}

/// Adds to a change the deletion of the expired links of a user. Returns the number of links that have not expired.
fn without_expired(
    ctx: &ChangeContext<'_>,
    view: &View<'_>,
    change: &mut Change,
    owner: &UserId,
) -> Result<u64, Error> {
    let mut count = 0;
    for (id, row) in links_of(view, owner)? {
        match row.expires <= ctx.now.unix_seconds {
            true => forget(view, change, &id, &row)?,
            false => count += 1,
        }
    }
    Ok(count)
}

fn links_of(view: &View<'_>, owner: &UserId) -> Result<Vec<(CredentialId, Credential)>, Error> {
    let mut links = Vec::new();
    for (_, name) in view.list::<Name>(&NameKey::tokens_of(owner))? {
        let id = name.credential();
        links.extend(view.get::<Credential>(&id)?.filter(|row| row.link.is_some()).map(|row| (id, row)));
    }
    Ok(links)
}

/// Adds to a change the deletion of a link.
fn forget(view: &View<'_>, change: &mut Change, id: &CredentialId, row: &Credential) -> Result<(), Error> {
    change.delete::<Name>(&NameKey::token(&row.owner, &row.name)).remove::<Credential>(id);
    for key in AssignmentKey::all_of(view, &Who::Token(*id))? {
        change.delete::<Assignment>(&key);
    }
    Ok(())
}

/// The links of one user, or of all users, the newest first. Contains expired links, too.
///
/// # Errors
/// When the user does not exist, or the facts cannot be read.
pub fn list_links(source: &dyn Source, owner: Option<&Userid>) -> Result<Vec<LinkSummary>, Error> {
    source.read(|view| {
        let names = Names::read(view)?;
        let rows = match owner {
            Some(owner) => links_of(view, &user_id(view, owner)?)?,
            None => view.list::<Credential>(&[])?,
        };
        let summary = |(id, row): (CredentialId, Credential)| {
            let link = row.link?;
            let tokenid = names.token(&row.owner, &row.name);
            Some(LinkSummary {
                id,
                owner: tokenid.rsplit_once('!').map_or(tokenid.as_str(), |(owner, _)| owner).to_owned(),
                tokenid,
                name: row.comment.unwrap_or_default(),
                place: link.place,
                enabled: row.enabled,
                expires: row.expires,
                created: row.created,
                has_password: link.password.is_some(),
                uses: link.uses,
            })
        };
        let mut links: Vec<LinkSummary> = rows.into_iter().filter_map(summary).collect();
        links.sort_by(|a, b| (b.created, &a.tokenid).cmp(&(a.created, &b.tokenid)));
        Ok(links)
    })?
}

/// Ends a link. The next request with the link is refused, and running downloads end. If `owner` is given, only a link of this user is ended.
///
/// # Errors
/// When there is no such link, or the facts cannot be changed.
pub fn end_link(ctx: &ChangeContext<'_>, id: &CredentialId, owner: Option<&UserId>) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("link end {id}"), |view, change| {
        let is_meant = |row: &Credential| row.link.is_some() && owner.is_none_or(|owner| row.owner == *owner);
        let row = view.get::<Credential>(id)?.filter(is_meant).ok_or_else(|| Error::Missing {
            what: "link",
            name: id.to_string(),
            hint: "see `enfilade link list`",
        })?;
        change.expect_same(id, &row);
        forget(view, change, id, &row)
    })?;
    Ok(at)
}

/// Whether the number of uses of a link is limited.
///
/// # Errors
/// When the link was ended, or the facts cannot be read.
pub fn has_limited_uses(source: &dyn Source, id: &CredentialId) -> Result<bool, Error> {
    let link = source.read(|view| view.get::<Credential>(id))??.and_then(|row| row.link);
    Ok(link.ok_or(Refusal::NoLink)?.uses.is_some())
}

/// Counts a use of a link with a limited number of uses. Each use is counted in a commit of its own, and a use that cannot be counted is refused. So
/// a link never allows more uses than its maker chose, even if several guests use it at the same time.
///
/// # Errors
/// When no use is left, the link was ended, or the facts cannot be changed.
pub fn count_link_use(ctx: &ChangeContext<'_>, id: &CredentialId) -> Result<(), Error> {
    ctx.commit(&format!("link use {}", ctx.who), |view, change| {
        let row = view.get::<Credential>(id)?.filter(|row| row.link.is_some()).ok_or(Refusal::NoLink)?;
        let mut after = row.clone();
        let Some(uses) = after.link.as_mut().and_then(|link| link.uses.as_mut()) else { return Ok(()) };
        *uses = uses.checked_sub(1).ok_or(Refusal::NoLink)?;
        change.expect_same(id, &row).put(id, &after);
        Ok(())
    })?;
    Ok(())
}
