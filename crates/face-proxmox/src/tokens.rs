//! `/access/users/{userid}/token`.

use super::{ApiError, ApiResponse, Call, Outcome, digest};
use enfilade_admin::{TokenEdit, TokenSummary, TokenTerms};
use enfilade_facts::vocabulary::{Authid, Privileges, TokenName, Userid};
use enfilade_passage::AdminPermit;
use serde_json::{Value, json};

const PATH: &str = "/access/users";

fn shown(token: &TokenSummary) -> Value {
    json!({
        "tokenid": token.tokenid, "token-name": token.name.as_str(), "enable": token.enabled, "expire": token.expires,
        "comment": token.comment,
    })
}

fn all(call: &Call, user: &Userid) -> Result<Vec<TokenSummary>, ApiError> {
    Ok(enfilade_admin::list_tokens(call.faces.house().source(), Some(user))?)
}

/// The digest of the current state of a user's tokens.
fn digest_now(call: &Call, user: &Userid) -> Result<String, ApiError> {
    Ok(digest(&Value::Array(all(call, user)?.iter().map(shown).collect())))
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let user: Userid = call.parameter(0)?;
    call.permit(PATH, Privileges::SYS_AUDIT, Some(&user))?;
    let value = Value::Array(all(call, &user)?.iter().map(shown).collect());
    Ok(ApiResponse { digest: Some(digest(&value)), value })
}

/// The user and the token in the path.
fn named(call: &Call) -> Result<(Userid, TokenName), ApiError> {
    Ok((call.parameter(0)?, call.parameter(1)?))
}

fn tokenid((user, name): &(Userid, TokenName)) -> String {
    Authid { user: user.clone(), token: Some(name.clone()) }.to_string()
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let named = named(call)?;
    call.permit(PATH, Privileges::SYS_AUDIT, Some(&named.0))?;
    let (tokens, tokenid) = (all(call, &named.0)?, tokenid(&named));
    let found = tokens.iter().find(|found| found.tokenid == tokenid);
    let value = shown(found.ok_or_else(|| format!("no such token '{tokenid}'"))?);
    Ok(ApiResponse { value, digest: Some(digest_now(call, &named.0)?) })
}

/// Returns the permit to change tokens of `user`. The caller needs the privilege `Permissions.Modify`, unless the caller is `user` and did not log in
/// with an API token. Refuses parameters that are not in `known`, and an outdated digest.
fn allow(call: &mut Call, user: &Userid, known: &[&str]) -> Result<AdminPermit, ApiError> {
    let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, Some(user))?;
    call.params.only(known)?;
    call.check_digest(&digest_now(call, user)?)?;
    Ok(permit)
}

/// Creates a token. The new token has only the roles that are assigned to the token, as in Proxmox Backup Server.
pub(super) fn create(call: &mut Call) -> Outcome {
    let named = named(call)?;
    let (user, name) = &named;
    let permit = allow(call, user, &["comment", "enable", "expire", "digest"])?;
    let comment = call.params.get("comment")?.map(str::to_owned);
    let expires = call.params.parsed("expire", "seconds since the epoch")?.unwrap_or(0);
    let enabled = call.params.flag("enable")?;
    let terms = TokenTerms { expires, comment, own_roles: true };
    let key = call.faces.house().hash_key();
    let made = call.change(&permit, |ctx| {
        let made = enfilade_admin::create_token(ctx, key, user, name, &terms)?;
        if enabled == Some(false) {
            let edit = TokenEdit { enabled, ..TokenEdit::default() };
            enfilade_admin::set_token(ctx, user, name, &edit)?;
        }
        Ok::<_, enfilade_admin::Error>(made)
    })?;
    Ok(json!({ "tokenid": tokenid(&named), "value": made.value }).into())
}

pub(super) fn change(call: &mut Call) -> Outcome {
    let (user, name) = named(call)?;
    let known = ["comment", "enable", "expire", "regenerate", "delete", "digest"];
    let permit = allow(call, &user, &known)?;
    let mut edit = TokenEdit {
        enabled: call.params.flag("enable")?,
        expires: call.params.parsed("expire", "seconds since the epoch")?,
        comment: call.params.get("comment")?.map(str::to_owned),
        ..TokenEdit::default()
    };
    for gone in call.params.all("delete") {
        match gone.as_str() {
            "comment" => edit.comment = Some(String::new()),
            other => return Err(format!("parameter 'delete': '{other}' cannot be deleted").into()),
        }
    }
    let regenerate = call.params.flag("regenerate")?.unwrap_or(false);
    let key = call.faces.house().hash_key();
    let renewed = call.change(&permit, |ctx| {
        enfilade_admin::set_token(ctx, &user, &name, &edit)?;
        let renew = || enfilade_admin::regenerate_token(ctx, key, &user, &name, 0);
        regenerate.then(renew).transpose()
    })?;
    Ok(renewed.map_or(Value::Null, |renewed| json!({ "secret": renewed.value })).into())
}

pub(super) fn remove(call: &mut Call) -> Outcome {
    let (user, name) = named(call)?;
    let permit = allow(call, &user, &["digest"])?;
    call.change(&permit, |ctx| enfilade_admin::delete_token(ctx, &user, &name))?;
    Ok(Value::Null.into())
}
