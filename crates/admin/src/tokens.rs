//! API tokens.

mod listed;

pub use listed::{TokenSummary, list_bad_hashes, list_tokens};

use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::Error;
use crate::resolve::{Names, dangling, token_id, user_id};
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Credential, Delegation, FileName, Name, NameKey, Previous, User, Verifier, Who,
};
use enfilade_facts::vocabulary::{Authid, CredentialId, TokenName, Ugid, UserId, Userid, to_hex};
use enfilade_facts::{At, Change, Effect, Read, View};
use enfilade_identity::{HashKey, Upgrade};
use enfilade_sources::files::user_cfg::{self, Entry};

/// A token that was just created, or that just got a new secret. The secret is never shown again.
pub struct NewToken {
    /// The name of the token: `user@realm!name`.
    pub tokenid: Authid,
    /// The secret.
    pub value: String,
    /// The first revision at which the token is valid.
    pub at: At,
}

/// The properties of a token to create.
#[derive(Clone, Debug, Default)]
pub struct TokenTerms {
    /// When the token expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// The comment.
    pub comment: Option<String>,
    /// Whether the token has only those roles of its owner that are also assigned to the token itself, instead of all roles of its owner.
    /// Always true for a token that is mirrored from `user.cfg`.
    pub own_roles: bool,
}

/// Creates a token with a secret of 160 random bits. If the owner is mirrored from `user.cfg`, the token is written to `user.cfg`.
///
/// # Errors
/// When the user does not exist or has a token of that name, or the facts cannot be changed.
pub fn create_token(
    ctx: &ChangeContext<'_>,
    key: &HashKey,
    owner: &Userid,
    name: &TokenName,
    terms: &TokenTerms,
) -> Result<NewToken, Error> {
    check_comment(terms.comment.as_deref())?;
    let value = enfilade_identity::generate_secret(random()?);
    let tokenid = Authid { user: owner.clone(), token: Some(name.clone()) };
    if is_mirrored(ctx, owner)? {
        if !tokenid.is_plain() {
            return Err(Error::Invalid(format!(
                "the owner is defined in user.cfg, and that file cannot contain the token name {name:?}: expected 1 to 64 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`"
            )));
        }
        let at = create_kept(ctx, &tokenid, &value, terms)?;
        return Ok(NewToken { tokenid, value, at });
    }
    let ((), at) = ctx.commit(&format!("token create {tokenid}"), |view, change| {
        let user = user_id(view, owner)?;
        let by_name = NameKey::token(&user, name);
        if view.get::<Name>(&by_name)?.is_some() {
            return Err(exists(&tokenid));
        }
        let id = CredentialId::from_bytes(random()?);
        let verifier = Verifier::Keyed(key.digest(&id, value.as_bytes()));
        put_new(change, &by_name, id, &row_of(ctx, user, name, verifier, terms));
        Ok(())
    })?;
    Ok(NewToken { tokenid, value, at })
}

fn row_of(
    ctx: &ChangeContext<'_>,
    owner: UserId,
    name: &TokenName,
    verifier: Verifier,
    terms: &TokenTerms,
) -> Credential {
    Credential {
        owner,
        name: name.clone(),
        verifier,
        previous: None,
        enabled: true,
        expires: terms.expires,
        created: ctx.now.unix_seconds,
        comment: terms.comment.clone(),
        own_roles: terms.own_roles,
        mirrored: None,
        link: None,
    }
}

/// Adds a new token of an existing user, and its name, to a change.
fn put_new(change: &mut Change, by_name: &NameKey, id: CredentialId, row: &Credential) {
    change.expect_present::<User>(&row.owner);
    change
        .expect_absent::<Name>(by_name)
        .put(by_name, &Name::new(id.stored(), row.name.as_str()))
        .put(&id, row);
}

/// Creates a token for a client certificate. A TLS client is authenticated as the token if it presents the certificate and proves that it has the
/// key. The owner must not be mirrored from `user.cfg`, which cannot express tokens without a secret.
///
/// # Errors
/// When the user does not exist or has a token of that name, the certificate belongs to a token already, or the facts cannot be changed.
pub fn create_certificate_token(
    ctx: &ChangeContext<'_>,
    owner: &Userid,
    name: &TokenName,
    fingerprint: &[u8; 32],
    terms: &TokenTerms,
) -> Result<At, Error> {
    check_comment(terms.comment.as_deref())?;
    let tokenid = Authid { user: owner.clone(), token: Some(name.clone()) };
    if is_mirrored(ctx, owner)? {
        return Err(Error::Invalid(format!(
            "{owner} is defined in user.cfg, where every token has a secret; give the certificate to a user that is not defined there"
        )));
    }
    let ((), at) = ctx.commit(&format!("token create {tokenid}"), |view, change| {
        let user = user_id(view, owner)?;
        let (by_name, by_print) = (NameKey::token(&user, name), NameKey::certificate(fingerprint));
        if view.get::<Name>(&by_name)?.is_some() {
            return Err(exists(&tokenid));
        }
        let verifier = Verifier::Certificate(*fingerprint);
        // The record with the fingerprint of the certificate refers to a token. If this token was deleted or has another verifier, a new token may
        // use the certificate.
        let before = view.get::<Name>(&by_print)?;
        let theirs =
            before.as_ref().map(|id| view.get::<Credential>(&id.credential())).transpose()?.flatten();
        if let Some(theirs) = theirs.filter(|token| token.verifier == verifier) {
            let names = Names::read(view)?;
            let name = names.token(&theirs.owner, &theirs.name);
            return Err(Error::Exists {
                what: "token of this certificate",
                name,
                hint: "delete the token first",
            });
        }
        let id = CredentialId::from_bytes(random()?);
        match before {
            Some(before) => change.expect_same(&by_print, &before),
            None => change.expect_absent::<Name>(&by_print),
        };
        change.put(&by_print, &Name::new(id.stored(), to_hex(fingerprint)));
        put_new(change, &by_name, id, &row_of(ctx, user, name, verifier, terms));
        Ok(())
    })?;
    Ok(at)
}

/// Whether a user is mirrored from `user.cfg`. If the user is mirrored, new tokens of the user are mirrored, too.
fn is_mirrored(ctx: &ChangeContext<'_>, owner: &Userid) -> Result<bool, Error> {
    ctx.facts.read(|view| {
        let user = view.get::<User>(&user_id(view, owner)?)?;
        Ok(user.is_some_and(|user| user.mirrored.is_some()))
    })?
}

/// Creates a token in the files. The secret is written before the token, because a token without a secret would be refused, as in Proxmox.
fn create_kept(
    ctx: &ChangeContext<'_>,
    tokenid: &Authid,
    value: &str,
    terms: &TokenTerms,
) -> Result<At, Error> {
    let hash = enfilade_identity::hash_generated(value, random()?).map_err(Error::Invalid)?;
    let entry = Entry { enabled: true, expires: terms.expires, comment: terms.comment.clone() };
    let (what, files) = (format!("token create {tokenid}"), [FileName::Users, FileName::Secrets]);
    ctx.write_through(&what, Effect::Gives, &files, |files| {
        files.secrets(|secrets| secrets.set(tokenid, hash))?;
        files.sections(FileName::Users, |sections| {
            if sections.iter().any(|section| section.id == tokenid.to_proxmox()) {
                return Err(exists(tokenid));
            }
            user_cfg::set(sections, tokenid, &entry).map_err(Error::Invalid)
        })
    })
}

fn exists(tokenid: &Authid) -> Error {
    let hint = "delete it first, or choose another name";
    Error::Exists { what: "token", name: tokenid.to_string(), hint }
}

/// Changes of a token.
#[derive(Clone, Debug, Default)]
pub struct TokenEdit {
    /// Whether the token is enabled.
    pub enabled: Option<bool>,
    /// When the token expires, in seconds since the epoch; 0 means never.
    pub expires: Option<i64>,
    /// The new comment; an empty text removes the comment.
    pub comment: Option<String>,
    /// Whether the previous secret, which is valid during the grace period, ends now.
    pub end_grace: bool,
    /// Whether the token has only the roles that are assigned to the token itself.
    pub own_roles: Option<bool>,
}

/// Changes a token.
///
/// # Errors
/// When the token does not exist, the edit is not possible for this kind of token (such as a link), or `user.cfg` or the facts cannot be changed.
pub fn set_token(
    ctx: &ChangeContext<'_>,
    owner: &Userid,
    name: &TokenName,
    edit: &TokenEdit,
) -> Result<At, Error> {
    check_comment(edit.comment.as_deref())?;
    let tokenid = Authid { user: owner.clone(), token: Some(name.clone()) };
    let token = find(ctx, owner, name)?;
    let is_mirrored = token.mirrored.is_some();
    if token.link.is_some() && edit.own_roles == Some(false) {
        return Err(Error::Invalid(format!("{tokenid} is a link, so it cannot have the roles of its owner")));
    }
    if token.link.is_some() && edit.expires.is_some_and(|end| end == 0 || end > token.expires) {
        return Err(Error::Invalid(format!(
            "{tokenid} is a link, so its end can only become earlier; make a new link with `enfilade link create`"
        )));
    }
    if edit.own_roles.is_some() && is_for_project(ctx, owner, name)? {
        return Err(Error::Invalid(format!(
            "{tokenid} is an application credential: its roles cannot be changed; create a new one with `enfilade token create --project`"
        )));
    }
    if is_mirrored && edit.own_roles == Some(false) {
        return Err(Error::Invalid(format!(
            "{tokenid} is defined in user.cfg, so it cannot have all roles of its owner; such a token has only the roles that are assigned to the token itself"
        )));
    }
    let set = |enabled: &mut bool, expires: &mut i64, comment: &mut Option<String>| {
        *enabled = edit.enabled.unwrap_or(*enabled);
        *expires = edit.expires.unwrap_or(*expires);
        if let Some(new) = &edit.comment {
            *comment = Some(new.clone()).filter(|comment| !comment.is_empty());
        }
    };
    let mut at = ctx.facts.at();
    let of_file = edit.enabled.is_some() || edit.expires.is_some() || edit.comment.is_some();
    if is_mirrored && of_file {
        let mut after = token.clone();
        set(&mut after.enabled, &mut after.expires, &mut after.comment);
        let effect = Effect::of(&token, &after);
        at = ctx.write_through(&format!("token set {tokenid}"), effect, &[FileName::Users], |files| {
            files.sections(FileName::Users, |sections| {
                let change =
                    |entry: &mut Entry| set(&mut entry.enabled, &mut entry.expires, &mut entry.comment);
                user_cfg::change(sections, &tokenid, change).map_err(Error::Invalid)
            })
        })?;
    }
    if !is_mirrored || edit.end_grace {
        ((), at) = self::edit(ctx, "set", owner, name, |_, token| {
            if token.mirrored.is_none() {
                set(&mut token.enabled, &mut token.expires, &mut token.comment);
                token.own_roles = edit.own_roles.unwrap_or(token.own_roles);
            }
            if edit.end_grace {
                token.previous = None;
            }
            Ok(())
        })?;
    }
    Ok(at)
}

fn find(ctx: &ChangeContext<'_>, owner: &Userid, name: &TokenName) -> Result<Credential, Error> {
    ctx.facts.read(|view| {
        let id = token_id(view, owner, name)?;
        view.get::<Credential>(&id)?.ok_or_else(|| dangling("token", id))
    })?
}

/// Whether a token is an application credential.
fn is_for_project(ctx: &ChangeContext<'_>, owner: &Userid, name: &TokenName) -> Result<bool, Error> {
    ctx.facts.read(|view| Ok(view.get::<Delegation>(&token_id(view, owner, name)?)?.is_some()))?
}

/// Replaces the secret of a token. The old secret stays valid for `grace` seconds, unless it is ended earlier. If an even older secret is still
/// valid, it ends now.
///
/// # Errors
/// When the token does not exist, is a link or has a client certificate, or the facts or `token.shadow` cannot be changed.
pub fn regenerate_token(
    ctx: &ChangeContext<'_>,
    key: &HashKey,
    owner: &Userid,
    name: &TokenName,
    grace: i64,
) -> Result<NewToken, Error> {
    let value = enfilade_identity::generate_secret(random()?);
    let tokenid = Authid { user: owner.clone(), token: Some(name.clone()) };
    let token = find(ctx, owner, name)?;
    if token.link.is_some() {
        return Err(Error::Invalid(format!(
            "{tokenid} is a link and has no token secret: make another link"
        )));
    }
    if matches!(token.verifier, Verifier::Certificate(_)) {
        let what = "has a client certificate instead of a secret: create a token for the new certificate, then delete the old token";
        return Err(Error::Invalid(format!("{tokenid} {what}")));
    }
    let (is_mirrored, mut at) = ctx.commit(&format!("token regenerate {tokenid}"), |view, change| {
        let id = token_id(view, owner, name)?;
        let before = view.get::<Credential>(&id)?.ok_or_else(|| dangling("token", id))?;
        let until = ctx.now.unix_seconds.saturating_add(grace);
        let mut after = before.clone();
        after.previous = (grace > 0).then(|| Previous { verifier: before.verifier.clone(), until });
        // The verifier of a mirrored token comes from the file.
        if before.mirrored.is_none() {
            after.verifier = Verifier::Keyed(key.digest(&id, value.as_bytes()));
        }
        change.replace(&id, &before, &after);
        // Records that were created with the token are deleted, because someone with the old secret may have created them.
        crate::keystone::forget_made(view, change, &id)?;
        Ok(before.mirrored.is_some())
    })?;
    if is_mirrored {
        let hash = enfilade_identity::hash_generated(&value, random()?).map_err(Error::Invalid)?;
        let what = format!("token regenerate {tokenid}");
        at = ctx.write_through(&what, Effect::Takes, &[FileName::Secrets], |files| {
            files.secrets(|secrets| secrets.set(&tokenid, hash))
        })?;
    }
    Ok(NewToken { tokenid, value, at })
}

fn edit<R>(
    ctx: &ChangeContext<'_>,
    verb: &str,
    owner: &Userid,
    name: &TokenName,
    edit: impl Fn(&CredentialId, &mut Credential) -> Result<R, Error>,
) -> Result<(R, At), Error> {
    let tokenid = Authid { user: owner.clone(), token: Some(name.clone()) };
    ctx.commit(&format!("token {verb} {tokenid}"), |view, change| {
        let id = token_id(view, owner, name)?;
        let before = view.get::<Credential>(&id)?.ok_or_else(|| dangling("token", id))?;
        let mut after = before.clone();
        let result = edit(&id, &mut after)?;
        change.replace(&id, &before, &after);
        Ok(result)
    })
}

/// The result of [`mark_for_upgrade`] for one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The authid of the token: `user@realm!name`.
    pub tokenid: String,
    /// Why the token was not marked for an upgrade of its hash; `None` if it was marked.
    pub left: Option<&'static str>,
}

/// Marks a token, or every token, for an upgrade of its hash. When the secret of a marked token is used next, a fast hash replaces the slow hash, but
/// only if the secret has a form that Enfilade, Proxmox or Keystone generates. Tokens in `token.shadow` keep the hash that other programs must read.
///
/// # Errors
/// When the token does not exist, or the facts cannot be changed.
pub fn mark_for_upgrade(ctx: &ChangeContext<'_>, token: Option<&Authid>) -> Result<(Vec<Marked>, At), Error> {
    let what = token.map_or_else(|| "every token".to_owned(), ToString::to_string);
    let mark = |view: &View<'_>, change: &mut Change| {
        let rows = match token {
            None => view.list::<Credential>(&[])?,
            Some(Authid { user, token }) => {
                let name = token.as_ref().ok_or_else(|| {
                    Error::Invalid(format!("`{what}` is not the name of a token; expected USER@REALM!NAME"))
                })?;
                let id = token_id(view, user, name)?;
                vec![(id, view.get::<Credential>(&id)?.ok_or_else(|| dangling("token", id))?)]
            }
        };
        let names = Names::read(view)?;
        let mut marked = Vec::new();
        for (id, before) in rows {
            let left = match &before.verifier {
                _ if before.link.is_some() => Some("the token is a link, so there is no hash"),
                _ if before.mirrored.is_some() => Some(
                    "the token is defined in token.shadow: other programs read the hash there, so the server does not replace the hash",
                ),
                Verifier::Keyed(_) => Some("the token already has a fast hash"),
                Verifier::Upgrading(_) => Some(
                    "the token is already marked: if the secret has a form that Enfilade, Proxmox or Keystone generates, the next use of the secret replaces the slow hash",
                ),
                Verifier::Certificate(_) => {
                    Some("the token has a client certificate instead of a secret, so there is no hash")
                }
                Verifier::Missing => Some(
                    "the token has no hash, so every login with its secret is refused; set a secret with `enfilade token regenerate`",
                ),
                Verifier::Crypt(hash) => {
                    let after = Credential { verifier: Verifier::Upgrading(hash.clone()), ..before.clone() };
                    change.expect_same(&id, &before).put(&id, &after);
                    None
                }
            };
            marked.push(Marked { tokenid: names.token(&before.owner, &before.name), left });
        }
        marked.sort_by(|a, b| a.tokenid.cmp(&b.tokenid));
        Ok(marked)
    };
    ctx.commit(&format!("token upgrade {what}"), mark)
}

/// Replaces the hash of a marked token, now that its secret was used. Returns whether the hash was replaced: a token that changed in the
/// meantime stays as it is.
///
/// # Errors
/// When the facts cannot be changed.
pub fn upgrade_token(ctx: &ChangeContext<'_>, upgrade: &Upgrade) -> Result<bool, Error> {
    let what = format!(
        "token upgrade {}: a fast hash replaced the slow hash when the secret was used",
        upgrade.token
    );
    let put = |view: &View<'_>, change: &mut Change| {
        let Some(before) = view.get::<Credential>(&upgrade.token)? else { return Ok(false) };
        if before.verifier != Verifier::Upgrading(upgrade.from.clone()) {
            return Ok(false);
        }
        let after = Credential { verifier: Verifier::Keyed(upgrade.to), ..before.clone() };
        change.expect_same(&upgrade.token, &before).put(&upgrade.token, &after);
        Ok(true)
    };
    ctx.commit(&what, put).map(|(is_done, _)| is_done)
}

/// Deletes a token, the roles that were assigned to it, and the records that were created with it; the next request with the token is refused.
///
/// # Errors
/// When the token does not exist, or the facts or the files cannot be changed.
pub fn delete_token(ctx: &ChangeContext<'_>, owner: &Userid, name: &TokenName) -> Result<At, Error> {
    let tokenid = Authid { user: owner.clone(), token: Some(name.clone()) };
    let what = format!("token delete {tokenid}");
    let is_mirrored = find(ctx, owner, name)?.mirrored.is_some();
    // The files are changed before the facts, and the secret is removed first. So after a power cut in between, the token has no secret and is
    // refused.
    let mut files = if is_mirrored { vec![FileName::Users, FileName::Secrets] } else { Vec::new() };
    if ctx.uses(FileName::Acl)? {
        files.push(FileName::Acl);
    }
    let mut at = ctx.facts.at();
    if !files.is_empty() {
        let in_use = |file: FileName| files.contains(&file) && ctx.uses(file).unwrap_or(true);
        at = ctx.write_through(&what, Effect::Takes, &files, |locked| {
            if in_use(FileName::Secrets) {
                locked.secrets(|secrets| {
                    secrets.remove(&tokenid);
                })?;
            }
            if is_mirrored {
                locked.sections(FileName::Users, |sections| {
                    user_cfg::remove(sections, &tokenid);
                    Ok(())
                })?;
            }
            if in_use(FileName::Acl) {
                locked.acl(|acl| {
                    acl.entries.retain(|(_, ugid), _| *ugid != Ugid::Authid(tokenid.clone()));
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    }
    // Usually the token's record is deleted now, because its section was removed from `user.cfg`. If other sections of the file have errors, the
    // record was only marked as stale, and is deleted below.
    if is_mirrored && find(ctx, owner, name).is_err() {
        return Ok(at);
    }
    let ((), at) = ctx.commit(&what, |view, change| {
        let by_name = NameKey::token(&user_id(view, owner)?, name);
        let id = token_id(view, owner, name)?;
        let row = Name::new(id.stored(), name.as_str());
        change.expect_same(&by_name, &row).delete::<Name>(&by_name).remove::<Credential>(&id);
        crate::keystone::forget_made(view, change, &id)?;
        crate::keystone::forget_delegation(view, change, &id)?;
        if let Some(Verifier::Certificate(print)) = view.get::<Credential>(&id)?.map(|token| token.verifier) {
            change.delete::<Name>(&NameKey::certificate(&print));
        }
        for key in AssignmentKey::all_of(view, &Who::Token(id))? {
            change.delete::<Assignment>(&key);
        }
        Ok(())
    })?;
    Ok(at)
}
