//! `/access/users/{userid}/token`.

use super::{Call, Data, Outcome, Trouble, digest};
use crate::respond::Wire;
use enfilade_admin::{TokenEdit, TokenSummary, TokenTerms};
use enfilade_facts::vocabulary::{Authid, Privileges, TokenName, Userid};
use hyper::Method;
use serde_json::{Value, json};

const PATH: &str = "/access/users";

fn shown(token: &TokenSummary) -> Value {
    let name = token.tokenid.rsplit_once('!').map_or("", |(_, name)| name);
    json!({
        "tokenid": token.tokenid, "token-name": name, "enable": token.enabled, "expire": token.expires,
        "comment": token.comment,
    })
}

fn list(call: &Call, user: &Userid) -> Result<Vec<TokenSummary>, Trouble> {
    Ok(enfilade_admin::list_tokens(call.faces.house().source(), Some(user))?)
}

/// What stands for the present state of a user's tokens.
fn digest_now(call: &Call, user: &Userid) -> Result<String, Trouble> {
    Ok(digest(&Value::Array(list(call, user)?.iter().map(shown).collect())))
}

pub(super) fn all(call: &mut Call, user: &Userid) -> Outcome {
    super::get_only(call)?;
    call.permit(PATH, Privileges::SYS_AUDIT, Some(user))?;
    let value = Value::Array(list(call, user)?.iter().map(shown).collect());
    Ok(Data { digest: Some(digest(&value)), value })
}

pub(super) fn one(call: &mut Call, user: &Userid, name: &TokenName) -> Outcome {
    let tokenid = Authid { user: user.clone(), token: Some(name.clone()) }.to_string();
    if call.method == Method::GET {
        call.permit(PATH, Privileges::SYS_AUDIT, Some(user))?;
        let tokens = list(call, user)?;
        let found = tokens.iter().find(|found| found.tokenid == tokenid);
        let value = shown(found.ok_or_else(|| format!("no such token '{tokenid}'"))?);
        return Ok(Data { value, digest: Some(digest_now(call, user)?) });
    }
    if ![Method::POST, Method::PUT, Method::DELETE].contains(&call.method) {
        return Err(Wire::Method.into());
    }
    let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, Some(user))?;
    let known: &[&str] = match call.method {
        Method::POST => &["comment", "enable", "expire", "digest"],
        Method::PUT => &["comment", "enable", "expire", "regenerate", "delete", "digest"],
        _ => &["digest"],
    };
    call.params.only(known)?;
    call.check_digest(&digest_now(call, user)?)?;
    let comment = call.params.get("comment")?.map(str::to_owned);
    let expires: Option<i64> = call.params.parsed("expire", "seconds since the epoch")?;
    let enabled = call.params.flag("enable")?;
    let house = call.faces.house();
    match call.method {
        Method::POST => {
            // As in the original a token has the roles that are assigned to itself.
            let terms = TokenTerms { expires: expires.unwrap_or(0), comment, own_roles: true };
            let made = call.at_desk(&permit, |desk| {
                let made = enfilade_admin::create_token(desk, house.hash_key(), user, name, &terms)?;
                if enabled == Some(false) {
                    let edit = TokenEdit { enabled, ..TokenEdit::default() };
                    enfilade_admin::set_token(desk, user, name, &edit)?;
                }
                Ok::<_, enfilade_admin::Error>(made)
            })?;
            Ok(json!({ "tokenid": tokenid, "value": made.value }).into())
        }
        Method::PUT => {
            let mut edit = TokenEdit { enabled, expires, comment, ..TokenEdit::default() };
            for gone in call.params.all("delete") {
                match gone.as_str() {
                    "comment" => edit.comment = Some(String::new()),
                    other => return Err(format!("parameter 'delete': '{other}' cannot be deleted").into()),
                }
            }
            let regenerate = call.params.flag("regenerate")?.unwrap_or(false);
            let renewed = call.at_desk(&permit, |desk| {
                enfilade_admin::set_token(desk, user, name, &edit)?;
                let renew = || enfilade_admin::regenerate_token(desk, house.hash_key(), user, name, 0);
                regenerate.then(renew).transpose()
            })?;
            Ok(renewed.map_or(Value::Null, |renewed| json!({ "secret": renewed.value })).into())
        }
        _ => {
            call.at_desk(&permit, |desk| enfilade_admin::delete_token(desk, user, name))?;
            Ok(Value::Null.into())
        }
    }
}
