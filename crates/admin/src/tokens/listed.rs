//! The lists of API tokens.

use crate::access::{maker_of, roles_on};
use crate::error::Error;
use crate::resolve::{Names, dangling, user_id};
use enfilade_facts::tables::{Credential, Delegation, Name, NameKey, Verifier, Who};
use enfilade_facts::vocabulary::{Authid, CredentialId, TokenName, Userid};
use enfilade_facts::{Read, Source};
use std::ops::ControlFlow;

/// A token, for listing.
#[derive(Clone, Debug)]
pub struct TokenSummary {
    /// The authid of the token: `user@realm!name`.
    pub tokenid: String,
    /// The name of the token.
    pub name: TokenName,
    /// The id of the token.
    pub id: CredentialId,
    /// Whether the token is enabled.
    pub enabled: bool,
    /// When the token expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// When the token was made, in seconds since the epoch.
    pub created: i64,
    /// The time until which the previous secret is valid, in seconds since the epoch.
    pub grace_until: Option<i64>,
    /// The comment.
    pub comment: Option<String>,
    /// Whether the token has only the roles that are assigned to the token itself.
    pub own_roles: bool,
    /// For an application credential: the roles and the project, such as `member on project work@Default`.
    pub limited_to: Option<String>,
    /// Whether the token is an application credential with sessions that may create credentials and trusts.
    pub unrestricted: bool,
    /// The application credential with which this token was created.
    pub created_with: Option<String>,
    /// Whether the token is mirrored from `user.cfg` and `token.shadow`.
    pub is_mirrored: bool,
    /// The problem of the token's section in `user.cfg`, if it has one.
    pub fault: Option<String>,
    /// The kind of the token's verifier, as text.
    pub checked_by: String,
}

/// The API tokens with an unusable hash, each with the reason. Every secret for such a token is refused.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_bad_hashes(source: &dyn Source) -> Result<Vec<(String, String)>, Error> {
    source.read(|view| {
        // There are many tokens and few bad hashes, so names are read only for tokens with a bad hash.
        let mut bad = Vec::new();
        view.scan::<Credential>(&[], |id, token| {
            let why = match &token.verifier {
                Verifier::Crypt(hash) | Verifier::Upgrading(hash) => {
                    enfilade_identity::check_hash(hash).err().map(|why| why.to_string())
                }
                Verifier::Missing if token.link.is_some() => None,
                Verifier::Missing => Some("the token has no hash".to_owned()),
                Verifier::Keyed(_) | Verifier::Certificate(_) => None,
            };
            bad.extend(why.map(|why| (id, why)));
            ControlFlow::Continue(())
        })?;
        if bad.is_empty() {
            return Ok(Vec::new());
        }
        let names = Names::read(view)?.with_tokens(view, bad.iter().map(|(id, _)| *id))?;
        Ok(bad.into_iter().map(|(id, why)| (names.who(&Who::Token(id)), why)).collect())
    })?
}

fn checked_by(verifier: &Verifier) -> String {
    // The scheme of a hash is between its first two `$`, for example `y` in `$y$...`.
    let scheme =
        |hash: &str| hash.split('$').nth(1).map_or_else(|| "?".to_owned(), |scheme| format!("${scheme}$"));
    match verifier {
        Verifier::Keyed(_) => "a fast keyed hash".to_owned(),
        Verifier::Crypt(hash) => format!("a slow hash ({}), as for passwords", scheme(hash)),
        Verifier::Upgrading(hash) => {
            // bcrypt hashes only the first 72 bytes.
            let and = if hash.starts_with("$2") { " and has less than 72 bytes" } else { "" };
            format!(
                "a slow hash ({}), as for passwords; if the secret has a form that Enfilade, Proxmox or Keystone generates{and}, the next use of the secret replaces the hash with a fast one",
                scheme(hash)
            )
        }
        Verifier::Certificate(fingerprint) => {
            let digits: String = fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("the client's certificate, SHA-256 {digits}")
        }
        Verifier::Missing => {
            "nothing: the token has no hash, so every login with its secret is refused (ID08)".to_owned()
        }
    }
}

/// The tokens of one user, or of all users, sorted by authid. Links are left out.
///
/// # Errors
/// When the user does not exist, or the facts cannot be read.
pub fn list_tokens(source: &dyn Source, owner: Option<&Userid>) -> Result<Vec<TokenSummary>, Error> {
    source.read(|view| {
        // If `owner` is given, it already contains the name of the user. So names are read from the facts only if the tokens of all users are listed.
        let names = if owner.is_none() { Names::read(view)? } else { Names::default() };
        let tokenid = |token: &Credential| match owner {
            Some(owner) => Authid { user: owner.clone(), token: Some(token.name.clone()) }.to_string(),
            None => names.token(&token.owner, &token.name),
        };
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
        let summary = |(id, token): (CredentialId, Credential)| {
            let delegation = view.get::<Delegation>(&id)?;
            let limited_to = delegation.as_ref().map(|row| roles_on(view, &row.roles, &row.project));
            Ok(TokenSummary {
                tokenid: tokenid(&token),
                name: token.name,
                id,
                enabled: token.enabled,
                expires: token.expires,
                created: token.created,
                grace_until: token.previous.map(|previous| previous.until),
                comment: token.comment.filter(|_| token.link.is_none()),
                own_roles: token.own_roles,
                limited_to: limited_to.transpose()?,
                unrestricted: delegation.as_ref().is_some_and(|row| row.unrestricted && row.rules.is_empty()),
                created_with: maker_of(view, delegation.and_then(|row| row.by))?,
                is_mirrored: token.mirrored.is_some(),
                fault: token.mirrored.and_then(|mirrored| mirrored.fault).map(|fault| fault.to_string()),
                checked_by: checked_by(&token.verifier),
            })
        };
        // Links have a list of their own.
        let tokens = ids.into_iter().filter(|(_, token)| token.link.is_none());
        let mut tokens = tokens.map(summary).collect::<Result<Vec<_>, Error>>()?;
        tokens.sort_by(|a, b| a.tokenid.cmp(&b.tokenid));
        Ok(tokens)
    })?
}
