//! API tokens.

use crate::desk::{Desk, random};
use crate::error::Error;
use crate::look::{Names, dangling, user_id};
use crate::users::check_comment;
use enfilade_facts::tables::{Credential, Name, NameKey, User, Verifier};
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

/// Deletes a token; the next request with it is refused.
///
/// # Errors
/// When there is no such token, or the facts cannot be changed.
pub fn delete_token(desk: &Desk<'_>, owner: &Userid, name: &TokenName) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("token delete {owner}!{name}"), |view, change| {
        let by_name = NameKey::token(&user_id(view, owner)?, name);
        let row = view.get::<Name>(&by_name)?.ok_or_else(|| Error::Missing {
            what: "token",
            name: format!("{owner}!{name}"),
            hint: "see `enfilade token list`",
        })?;
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
            comment: token.comment,
        };
        let mut tokens: Vec<_> = ids.into_iter().map(summary).collect();
        tokens.sort_by(|a, b| a.tokenid.cmp(&b.tokenid));
        Ok(tokens)
    })?
}
