//! API tokens.

use crate::desk::{Desk, random};
use crate::error::Error;
use crate::look::{Names, dangling, user_id};
use crate::users::check_comment;
use enfilade_facts::tables::{Credential, Name, NameKey, Previous, User, Verifier};
use enfilade_facts::vocabulary::{Authid, CredentialId, TokenName, Userid};
use enfilade_facts::{At, Read, Source};
use enfilade_identity::HashKey;

/// A token that was just made. The secret is shown this once.
pub struct NewToken {
    /// `user@realm!name`.
    pub tokenid: Authid,
    /// The secret.
    pub value: String,
    /// From which revision on it is good.
    pub at: At,
}

/// A token, for listing.
#[derive(Clone, Debug)]
pub struct TokenSummary {
    /// `user@realm!name`.
    pub tokenid: String,
    /// Its id.
    pub id: CredentialId,
    /// May it be used?
    pub enabled: bool,
    /// Until when; 0 is for ever.
    pub expires: i64,
    /// When it was made.
    pub created: i64,
    /// Until when the secret before the present one still works.
    pub grace_until: Option<i64>,
    /// What it is for.
    pub comment: Option<String>,
}

/// Makes a token with a secret of 160 random bits. It has its owner's rights.
///
/// # Errors
/// When there is no such user, the user has a token of that name, or the facts cannot be changed.
pub fn create_token(
    desk: &Desk<'_>,
    key: &HashKey,
    owner: &Userid,
    name: &TokenName,
    expires: i64,
    comment: Option<String>,
) -> Result<NewToken, Error> {
    check_comment(comment.as_deref())?;
    let value = enfilade_identity::generate_secret(random()?);
    let ((), at) = desk.commit(&format!("token create {owner}!{name}"), |view, change| {
        let user = user_id(view, owner)?;
        let by_name = NameKey::token(&user, name);
        if view.get::<Name>(&by_name)?.is_some() {
            let hint = "delete it first, or choose another name";
            return Err(Error::Exists { what: "token", name: format!("{owner}!{name}"), hint });
        }
        let id = CredentialId::from_bytes(random()?);
        let credential = Credential {
            owner: user,
            name: name.clone(),
            verifier: Verifier::Keyed(key.digest(&id, value.as_bytes())),
            previous: None,
            enabled: true,
            expires,
            created: desk.now.unix_seconds,
            comment: comment.clone(),
        };
        change.expect_present::<User>(&user);
        change.expect_absent::<Name>(&by_name).put(&by_name, &Name(*id.bytes())).put(&id, &credential);
        Ok(())
    })?;
    Ok(NewToken { tokenid: Authid { user: owner.clone(), token: Some(name.clone()) }, value, at })
}

/// What is to be changed of a token.
#[derive(Clone, Debug, Default)]
pub struct TokenEdit {
    /// May it be used?
    pub enabled: Option<bool>,
    /// Until when; 0 is for ever.
    pub expires: Option<i64>,
    /// What it is for; empty takes the comment away.
    pub comment: Option<String>,
    /// The secret before the present one works no longer.
    pub end_grace: bool,
}

/// Changes a token.
///
/// # Errors
/// When there is no such token, or the facts cannot be changed.
pub fn set_token(desk: &Desk<'_>, owner: &Userid, name: &TokenName, edit: &TokenEdit) -> Result<At, Error> {
    check_comment(edit.comment.as_deref())?;
    let ((), at) = self::edit(desk, "set", owner, name, |_, token| {
        token.enabled = edit.enabled.unwrap_or(token.enabled);
        token.expires = edit.expires.unwrap_or(token.expires);
        if let Some(comment) = &edit.comment {
            token.comment = Some(comment.clone()).filter(|comment| !comment.is_empty());
        }
        if edit.end_grace {
            token.previous = None;
        }
        Ok(())
    })?;
    Ok(at)
}

/// Gives a token a new secret. The old one works for `grace` more seconds, unless it is ended before; one that was
/// replaced still earlier ends now.
///
/// # Errors
/// When there is no such token, or the facts cannot be changed.
pub fn regenerate_token(
    desk: &Desk<'_>,
    key: &HashKey,
    owner: &Userid,
    name: &TokenName,
    grace: i64,
) -> Result<NewToken, Error> {
    let value = enfilade_identity::generate_secret(random()?);
    let ((), at) = edit(desk, "regenerate", owner, name, |id, token| {
        let new = Verifier::Keyed(key.digest(id, value.as_bytes()));
        let old = std::mem::replace(&mut token.verifier, new);
        let until = desk.now.unix_seconds.saturating_add(grace);
        token.previous = (grace > 0).then_some(Previous { verifier: old, until });
        Ok(())
    })?;
    Ok(NewToken { tokenid: Authid { user: owner.clone(), token: Some(name.clone()) }, value, at })
}

fn edit<R>(
    desk: &Desk<'_>,
    verb: &str,
    owner: &Userid,
    name: &TokenName,
    edit: impl Fn(&CredentialId, &mut Credential) -> Result<R, Error>,
) -> Result<(R, At), Error> {
    desk.commit(&format!("token {verb} {owner}!{name}"), |view, change| {
        let by_name = NameKey::token(&user_id(view, owner)?, name);
        let id = view.get::<Name>(&by_name)?.ok_or_else(|| missing(owner, name))?.credential();
        let before = view.get::<Credential>(&id)?.ok_or_else(|| dangling("token", id))?;
        let mut after = before.clone();
        let result = edit(&id, &mut after)?;
        change.expect_same(&id, &before).put(&id, &after);
        Ok(result)
    })
}

fn missing(owner: &Userid, name: &TokenName) -> Error {
    Error::Missing { what: "token", name: format!("{owner}!{name}"), hint: "see `enfilade token list`" }
}

/// Deletes a token; the next request with it is refused.
///
/// # Errors
/// When there is no such token, or the facts cannot be changed.
pub fn delete_token(desk: &Desk<'_>, owner: &Userid, name: &TokenName) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("token delete {owner}!{name}"), |view, change| {
        let by_name = NameKey::token(&user_id(view, owner)?, name);
        let row = view.get::<Name>(&by_name)?.ok_or_else(|| missing(owner, name))?;
        change.expect_same(&by_name, &row).delete::<Name>(&by_name).delete::<Credential>(&row.credential());
        Ok(())
    })?;
    Ok(at)
}

/// A user's tokens, or everybody's.
///
/// # Errors
/// When there is no such user, or the facts cannot be read.
pub fn list_tokens(source: &dyn Source, owner: Option<&Userid>) -> Result<Vec<TokenSummary>, Error> {
    source.read(|view| {
        let names = Names::read(view)?;
        let ids = match owner {
            None => view.list::<Credential>(&[])?,
            Some(owner) => {
                let user = user_id(view, owner)?;
                let of_user = view.list::<Name>(&NameKey::tokens_of(&user))?;
                let row = |(_, name): (_, Name)| {
                    let id = name.credential();
                    Ok((id, view.get::<Credential>(&id)?.ok_or_else(|| dangling("token", id))?))
                };
                of_user.into_iter().map(row).collect::<Result<Vec<_>, Error>>()?
            }
        };
        let summary = |(id, token): (CredentialId, Credential)| TokenSummary {
            tokenid: format!("{}!{}", names.user(&token.owner), token.name),
            id,
            enabled: token.enabled,
            expires: token.expires,
            created: token.created,
            grace_until: token.previous.map(|previous| previous.until),
            comment: token.comment,
        };
        let mut tokens: Vec<_> = ids.into_iter().map(summary).collect();
        tokens.sort_by(|a, b| a.tokenid.cmp(&b.tokenid));
        Ok(tokens)
    })?
}
