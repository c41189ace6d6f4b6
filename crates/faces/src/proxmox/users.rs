//! `/access/users`.

use super::{Call, Data, Outcome, Trouble, digest};
use crate::respond::Wire;
use enfilade_admin::{NewUser, UserEdit, UserSummary};
use enfilade_facts::vocabulary::{Privileges, Secret, Userid};
use hyper::Method;
use serde_json::{Value, json};

const PATH: &str = "/access/users";

fn shown(user: &UserSummary) -> Value {
    json!({
        "userid": user.userid, "enable": user.enabled, "expire": user.expires, "comment": user.comment,
    })
}

fn list(call: &Call) -> Result<Vec<UserSummary>, Trouble> {
    Ok(enfilade_admin::list_users(call.faces.house().source())?)
}

/// What stands for the present state of all users.
fn digest_now(call: &Call) -> Result<String, Trouble> {
    Ok(digest(&Value::Array(list(call)?.iter().map(shown).collect())))
}

pub(super) fn all(call: &mut Call) -> Outcome {
    match call.method {
        Method::GET => {
            let sees_all = call.permit(PATH, Privileges::SYS_AUDIT, None).is_ok();
            let own = call.visit.principal().authid.user.to_string();
            let users = list(call)?;
            let all = Value::Array(users.iter().map(shown).collect());
            let users = users.iter().filter(|user| sees_all || user.userid == own).map(shown).collect();
            Ok(Data { value: Value::Array(users), digest: Some(digest(&all)) })
        }
        Method::POST => {
            let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, None)?;
            call.params.only(&["userid", "password", "comment", "enable", "expire"])?;
            let userid: Userid = super::parsed(call.params.need("userid")?)?;
            let new = NewUser {
                userid: userid.clone(),
                password: password(call)?,
                sid: None,
                uid: None,
                gid: None,
                expires: call.params.parsed("expire", "seconds since the epoch")?.unwrap_or(0),
                comment: call.params.get("comment")?.map(str::to_owned),
            };
            let enabled = call.params.flag("enable")?;
            call.at_desk(&permit, |desk| {
                enfilade_admin::add_user(desk, &new)?;
                if enabled == Some(false) {
                    let edit = UserEdit { enabled, ..UserEdit::default() };
                    enfilade_admin::set_user(desk, &userid, &edit)?;
                }
                Ok::<_, enfilade_admin::Error>(())
            })?;
            Ok(Value::Null.into())
        }
        _ => Err(Wire::Method.into()),
    }
}

pub(super) fn one(call: &mut Call, user: &Userid) -> Outcome {
    match call.method {
        Method::GET => {
            call.permit(PATH, Privileges::SYS_AUDIT, Some(user))?;
            let (users, name) = (list(call)?, user.to_string());
            let found = users.iter().find(|found| found.userid == name);
            let value = shown(found.ok_or_else(|| format!("no such user '{user}'"))?);
            Ok(Data { value, digest: Some(digest_now(call)?) })
        }
        Method::PUT => {
            let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, None)?;
            call.params.only(&["password", "comment", "enable", "expire", "delete", "digest"])?;
            call.check_digest(&digest_now(call)?)?;
            let mut edit = UserEdit {
                enabled: call.params.flag("enable")?,
                expires: call.params.parsed("expire", "seconds since the epoch")?,
                comment: call.params.get("comment")?.map(str::to_owned),
                ..UserEdit::default()
            };
            for gone in call.params.all("delete") {
                match gone.as_str() {
                    "comment" => edit.comment = Some(String::new()),
                    other => return Err(format!("parameter 'delete': '{other}' cannot be deleted").into()),
                }
            }
            let password = password(call)?;
            call.at_desk(&permit, |desk| {
                enfilade_admin::set_user(desk, user, &edit)?;
                if let Some(password) = &password {
                    enfilade_admin::set_password(desk, user, password)?;
                }
                Ok::<_, enfilade_admin::Error>(())
            })?;
            Ok(Value::Null.into())
        }
        Method::DELETE => {
            let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, None)?;
            call.params.only(&["digest"])?;
            call.check_digest(&digest_now(call)?)?;
            call.at_desk(&permit, |desk| enfilade_admin::remove_user(desk, user))?;
            Ok(Value::Null.into())
        }
        _ => Err(Wire::Method.into()),
    }
}

fn password(call: &Call) -> Result<Option<Secret>, Trouble> {
    let Some(text) = call.params.get("password")? else { return Ok(None) };
    let secret = Secret::new(text.as_bytes());
    let wrong = "parameter 'password': it is empty, longer than 511 bytes or holds a NUL byte";
    Ok(Some(secret.ok_or_else(|| wrong.to_owned())?))
}
