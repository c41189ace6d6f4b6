//! OAuth 1.0a: consumers, the request tokens that users approve, and the access tokens that consumers get in exchange for request tokens.

use super::resource::{Saving, StoredResource};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::{Error, missing};
use enfilade_facts::limits::REQUEST_TOKENS_MAX;
use enfilade_facts::tables::{
    AccessToken, Approval, Consumer, Leaving, LeavingKey, Project, RequestToken, ResourceKind, Reverse,
    ReverseKey, SharedSecret, User,
};
use enfilade_facts::vocabulary::{AccessTokenId, ConsumerId, ProjectId, RequestTokenId, RoleId, UserId};
use enfilade_facts::{Change, View};
use enfilade_identity::{HeldRole, OAuthProof};
use std::ops::ControlFlow;

/// How long a request token lasts, in seconds (Keystone's default).
const REQUEST_SECONDS: i64 = 8 * 3600;
/// How long an access token lasts, in seconds (Keystone's default).
const ACCESS_SECONDS: i64 = 24 * 3600;
/// The approximate number of tokens of a deleted consumer that one change deletes. Further tokens are deleted in the background.
const AT_ONCE: usize = 256;

impl StoredResource for Consumer {
    const NAME: &'static str = "consumer";
    const KIND: ResourceKind = ResourceKind::Consumer;

    fn prepare(&mut self, _: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_comment(self.description.as_deref())
    }

    /// No session for the consumer is valid from this change on. If the consumer has many tokens, this change deletes only some of the tokens. The
    /// other tokens are deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &ConsumerId) -> Result<(), Error> {
        change.remove::<Consumer>(id);
        if !take_tokens_of(view, change, id)? {
            change.put(&LeavingKey::Consumer(*id), &Leaving);
        }
        Ok(())
    }
}

/// A new random secret.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn new_shared_secret() -> Result<SharedSecret, Error> {
    random().map(SharedSecret::from_random)
}

/// Deletes some tokens of a consumer; returns whether none is left.
pub(super) fn take_tokens_of(
    view: &View<'_>,
    change: &mut Change,
    consumer: &ConsumerId,
) -> Result<bool, Error> {
    let mut keys = Vec::new();
    for prefix in [ReverseKey::requested_by(consumer), ReverseKey::access_by(consumer)] {
        view.page::<Reverse>(&prefix, None, |key, _| {
            keys.push(key);
            if keys.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    for key in &keys {
        match key {
            ReverseKey::RequestedBy(_, id) => forget_request_token(change, consumer, id),
            ReverseKey::AccessBy(_, id) => forget_access_token(view, change, id)?,
            _ => {}
        }
    }
    Ok(keys.len() < AT_ONCE)
}

fn forget_request_token(change: &mut Change, consumer: &ConsumerId, id: &RequestTokenId) {
    change.delete::<RequestToken>(id).delete::<Reverse>(&ReverseKey::RequestedBy(*consumer, *id));
}

/// Deletes the tokens of a consumer that have expired; returns how many request tokens are left.
fn forget_expired(
    view: &View<'_>,
    change: &mut Change,
    consumer: &ConsumerId,
    now: i64,
) -> Result<usize, Error> {
    let mut left = 0;
    for (key, _) in view.list::<Reverse>(&ReverseKey::requested_by(consumer))? {
        let ReverseKey::RequestedBy(_, id) = key else { continue };
        match view.get::<RequestToken>(&id)?.is_some_and(|row| now < row.expires) {
            true => left += 1,
            false => forget_request_token(change, consumer, &id),
        }
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::access_by(consumer))? {
        let ReverseKey::AccessBy(_, id) = key else { continue };
        if view.get::<AccessToken>(&id)?.is_some_and(|row| row.expires <= now) {
            forget_access_token(view, change, &id)?;
        }
    }
    Ok(left)
}

/// Creates a request token for a consumer that signed the request. Expired tokens of the consumer are deleted.
///
/// # Errors
/// When the consumer has too many request tokens, the project or the consumer does not exist, or the facts cannot be changed.
pub fn create_request_token(
    ctx: &ChangeContext<'_>,
    proof: &OAuthProof,
    project: &ProjectId,
) -> Result<(RequestTokenId, RequestToken), Error> {
    let (consumer, now) = (proof.consumer(), ctx.now.unix_seconds);
    let id = RequestTokenId::from_bytes(random()?);
    let secret = new_shared_secret()?;
    let expires = now.saturating_add(REQUEST_SECONDS);
    let row = RequestToken { consumer, secret, project: *project, expires, approval: None };
    ctx.commit(&format!("request token create {id} for consumer {consumer}"), |view, change| {
        view.get::<Project>(project)?.ok_or_else(|| missing("project", project))?;
        if forget_expired(view, change, &consumer, now)? >= REQUEST_TOKENS_MAX {
            let why = format!("the consumer has {REQUEST_TOKENS_MAX} request tokens that have not expired; exchange approved ones for access tokens, or wait until they expire after 8 hours");
            return Err(Error::Refused(why));
        }
        change.expect_present::<Consumer>(&consumer).expect_present::<Project>(project);
        change.put(&id, &row).put(&ReverseKey::RequestedBy(consumer, id), &Reverse);
        Ok(())
    })?;
    Ok((id, row))
}

/// Approves a request token: `user` delegates roles, by id or name, on the project of the request token. A later approval replaces an earlier
/// approval. Returns the code `oauth_verifier`.
///
/// # Errors
/// When the request token does not exist or has expired, `roles` is empty, the user does not have one of the roles, or the facts cannot be changed.
pub fn approve_request_token(
    ctx: &ChangeContext<'_>,
    id: &RequestTokenId,
    user: &UserId,
    roles: &[String],
) -> Result<SharedSecret, Error> {
    let verifier = new_shared_secret()?;
    ctx.commit(&format!("request token approve {id}"), |view, change| {
        let gone = || missing("request token", id);
        let row = view.get::<RequestToken>(id)?.filter(|row| ctx.now.unix_seconds < row.expires);
        let row = row.ok_or_else(gone)?;
        let held = enfilade_identity::roles_of(view, user, &row.project, None)?;
        // Only roles of the user are searched, so that the response does not show which other roles exist.
        let given = |said: &String| {
            let id = said.parse::<RoleId>();
            let is_it = |held: &&HeldRole| id.as_ref().map_or(held.name == *said, |id| held.id == *id);
            let why = || format!("the user has no role {said} on the project of the request token, so this role cannot be delegated");
            held.iter().find(is_it).map(|held| held.id).ok_or_else(|| Error::Refused(why()))
        };
        let roles: Vec<RoleId> = roles.iter().map(given).collect::<Result<_, _>>()?;
        if roles.is_empty() {
            return Err(Error::Invalid("roles: expected at least one role to delegate".to_owned()));
        }
        let approval = Some(Approval { user: *user, roles, verifier: verifier.clone() });
        change.expect_present::<User>(user).expect_same(id, &row);
        change.put(id, &RequestToken { approval, ..row });
        Ok(())
    })?;
    Ok(verifier)
}

/// Exchanges an approved request token for an access token. `proof` proves that the consumer signed the request with the request token and knows the
/// code `oauth_verifier`.
///
/// # Errors
/// When the request token does not exist any more or is not approved, its user, project or consumer does not exist, or the facts cannot be changed.
pub fn create_access_token(
    ctx: &ChangeContext<'_>,
    proof: &OAuthProof,
) -> Result<(AccessTokenId, AccessToken), Error> {
    let (request, proven) = proof.request_token().ok_or_else(|| missing("request token", "none"))?;
    let id = AccessTokenId::from_bytes(random()?);
    let secret = new_shared_secret()?;
    let (row, _) = ctx.commit(&format!("access token create {id}"), |view, change| {
        let gone = || missing("request token", request);
        let from = view.get::<RequestToken>(&request)?.ok_or_else(gone)?;
        // A later approval has another code `oauth_verifier`, and the consumer did not prove that it knows this code.
        let approval = from.approval.clone().filter(|approval| approval == proven);
        let Approval { user, roles, .. } = approval.ok_or_else(gone)?;
        let row = AccessToken {
            consumer: from.consumer,
            secret: secret.clone(),
            user,
            project: from.project,
            roles,
            expires: ctx.now.unix_seconds.saturating_add(ACCESS_SECONDS),
        };
        // If two requests exchange the request token at the same time, the second request is refused, because the request token no longer exists.
        change.expect_same(&request, &from);
        forget_request_token(change, &from.consumer, &request);
        change.expect_present::<Consumer>(&row.consumer).expect_present::<User>(&user);
        change.expect_present::<Project>(&row.project).put(&id, &row);
        for key in ways_to(&id, &row) {
            change.put(&key, &Reverse);
        }
        Ok(row)
    })?;
    Ok((id, row))
}

/// The access tokens that a user authorized.
///
/// # Errors
/// When the facts cannot be read.
pub fn access_tokens_of(view: &View<'_>, user: &UserId) -> Result<Vec<(AccessTokenId, AccessToken)>, Error> {
    let mut rows = Vec::new();
    for (key, _) in view.list::<Reverse>(&ReverseKey::access_of(user))? {
        if let ReverseKey::AccessOf(_, id) = key {
            rows.extend(view.get::<AccessToken>(&id)?.map(|row| (id, row)));
        }
    }
    Ok(rows)
}

/// Deletes an access token of a user. Sessions of the access token are refused from the next request on.
///
/// # Errors
/// When the user has no such access token, or the facts cannot be changed.
pub fn delete_access_token(ctx: &ChangeContext<'_>, user: &UserId, id: &AccessTokenId) -> Result<(), Error> {
    ctx.commit(&format!("access token delete {id}"), |view, change| {
        let row = view.get::<AccessToken>(id)?.filter(|row| row.user == *user);
        let row = row.ok_or_else(|| missing("access token", id))?;
        change.expect_same(id, &row);
        forget_access_token(view, change, id)?;
        change.end_with::<AccessToken>(id);
        Ok(())
    })?;
    Ok(())
}

/// The index keys of an access token.
pub(super) fn ways_to(id: &AccessTokenId, row: &AccessToken) -> [ReverseKey; 3] {
    [
        ReverseKey::AccessBy(row.consumer, *id),
        ReverseKey::AccessOf(row.user, *id),
        ReverseKey::AccessFor(row.project, *id),
    ]
}

/// Adds to a change the deletion of an access token, without a revocation mark. Even without a mark, sessions of the access token are refused from
/// then on, because the record does not exist any more and its id is never used again.
fn forget_access_token(view: &View<'_>, change: &mut Change, id: &AccessTokenId) -> Result<(), Error> {
    if let Some(row) = view.get::<AccessToken>(id)? {
        change.delete::<AccessToken>(id);
        for key in ways_to(id, &row) {
            change.delete::<Reverse>(&key);
        }
    }
    Ok(())
}

/// Adds to a change the deletion of all access tokens of a user or project. `prefix` is the prefix of the index keys of this user or project.
pub(crate) fn remove_access_tokens(view: &View<'_>, change: &mut Change, prefix: &[u8]) -> Result<(), Error> {
    for (key, _) in view.list::<Reverse>(prefix)? {
        if let ReverseKey::AccessOf(_, id) | ReverseKey::AccessFor(_, id) = key {
            forget_access_token(view, change, &id)?;
        }
    }
    Ok(())
}
