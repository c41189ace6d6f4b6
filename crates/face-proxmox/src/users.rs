//! `/access/users`.

use super::{ApiError, ApiResponse, Call, Outcome, digest};
use enfilade_admin::{NewUser, UserEdit, UserSummary};
use enfilade_facts::vocabulary::{Privileges, Secret, Userid};
use serde_json::{Value, json};

const PATH: &str = "/access/users";

fn shown(user: &UserSummary) -> Value {
    json!({
        "userid": user.userid, "enable": user.enabled, "expire": user.expires, "comment": user.comment,
    })
}

/// Lists every user. A user who did not log in for too long is listed as disabled.
fn all(call: &Call) -> Result<Vec<UserSummary>, ApiError> {
    let house = call.faces.house();
    let (mut users, now) = (enfilade_admin::list_users(house.source())?, house.now().unix_seconds);
    users.iter_mut().for_each(|user| user.enabled &= !user.activity.is_inactive(now));
    Ok(users)
}

/// The digest of the current state of all users.
fn digest_now(call: &Call) -> Result<String, ApiError> {
    Ok(digest(&Value::Array(all(call)?.iter().map(shown).collect())))
}

/// Lists all users if the caller has `Sys.Audit`. Otherwise lists only the caller.
pub(super) fn list(call: &mut Call) -> Outcome {
    call.permit(PATH, Privileges::NONE, None)?;
    let sees_all = call.permit(PATH, Privileges::SYS_AUDIT, None).is_ok();
    let own = call.visit.principal().authid.user.to_string();
    let users = all(call)?;
    let all = Value::Array(users.iter().map(shown).collect());
    let users = users.iter().filter(|user| sees_all || user.userid == own).map(shown).collect();
    Ok(ApiResponse { value: Value::Array(users), digest: Some(digest(&all)) })
}

pub(super) fn create(call: &mut Call) -> Outcome {
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
    call.change(&permit, |ctx| {
        enfilade_admin::add_user(ctx, &new)?;
        if enabled == Some(false) {
            let edit = UserEdit { enabled, ..UserEdit::default() };
            enfilade_admin::set_user(ctx, &userid, &edit)?;
        }
        Ok::<_, enfilade_admin::Error>(())
    })?;
    Ok(Value::Null.into())
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let user: Userid = call.parameter(0)?;
    call.permit(PATH, Privileges::SYS_AUDIT, Some(&user))?;
    let (users, name) = (all(call)?, user.to_string());
    let found = users.iter().find(|found| found.userid == name);
    let value = shown(found.ok_or_else(|| format!("no such user '{user}'"))?);
    Ok(ApiResponse { value, digest: Some(digest_now(call)?) })
}

pub(super) fn change(call: &mut Call) -> Outcome {
    let user: Userid = call.parameter(0)?;
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
    call.change(&permit, |ctx| {
        enfilade_admin::set_user(ctx, &user, &edit)?;
        if let Some(password) = &password {
            enfilade_admin::set_password(ctx, &user, password)?;
        }
        Ok::<_, enfilade_admin::Error>(())
    })?;
    Ok(Value::Null.into())
}

pub(super) fn remove(call: &mut Call) -> Outcome {
    let user: Userid = call.parameter(0)?;
    let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, None)?;
    call.params.only(&["digest"])?;
    call.check_digest(&digest_now(call)?)?;
    call.change(&permit, |ctx| enfilade_admin::remove_user(ctx, &user))?;
    Ok(Value::Null.into())
}

fn password(call: &Call) -> Result<Option<Secret>, ApiError> {
    let Some(text) = call.params.get("password")? else { return Ok(None) };
    let secret = Secret::new(text.as_bytes());
    let wrong = "parameter 'password': it is empty, longer than 511 bytes or contains a NUL byte";
    Ok(Some(secret.ok_or_else(|| wrong.to_owned())?))
}
