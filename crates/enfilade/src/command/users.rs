//! `enfilade user`.

use super::{changes, defined_in, enabled, keeping_administrators, or_dash, set_or_removed, similar, until};
use crate::cli::{SecondFactorAction, User};
use crate::clock;
use crate::example::without_users;
use crate::home::Home;
use crate::{first_start, output, prompt};
use anyhow::bail;
use enfilade_admin::{ChangeContext, NewUser, UserEdit, WayKind, keystone, user_access};
use enfilade_facts::vocabulary::{ProjectId, Realm, Userid};
use enfilade_facts::{At, Read as _};
use enfilade_identity::Refusal;
use serde_json::json;

pub(super) fn run(home: &Home, command: User, json: bool) -> anyhow::Result<()> {
    match command {
        User::Add { user, password, password_stdin, sid, uid, gid, expires, comment } => {
            let wanted = password || password_stdin;
            let password = wanted.then(|| prompt::new_password(password_stdin)).transpose()?;
            let new = NewUser { userid: user, password, sid, uid, gid, expires, comment };
            require_realm(home, &new.userid)?;
            let (id, at) = enfilade_admin::add_user(&home.change_context(), &new)?;
            let value =
                json!({ "user": new.userid.to_string(), "id": id.to_string(), "revision": at.revision.0 });
            let password = if new.password.is_none() {
                "; the user has no password yet: `enfilade user passwd` sets one, `enfilade token create` makes a token"
            } else {
                ""
            };
            output::done(json, &value, &format!("user {} created{password}", new.userid));
        }
        User::List => return list(home, json),
        User::Passwd { user, password_stdin } => return passwd(home, &user, password_stdin, json),
        User::Set { user, expires, comment, uid, gid, default_project, force } => {
            let edit = UserEdit { enabled: None, expires, comment, uid, gid };
            // The project is looked up before anything changes. So a mistyped name changes nothing.
            let (project, default_project) = match default_project.as_deref() {
                None | Some("") => (None, default_project),
                Some(project) => {
                    let (id, name) = super::keystone::find_with_name(home, project)?;
                    (Some(id), Some(name))
                }
            };
            let project = default_project.is_some().then_some(project);
            let at = keeping_administrators(home, force, |ctx| set(ctx, &user, &edit, project))?;
            let value = json!({ "user": user.to_string(), "revision": at.revision.0 });
            let parts = [
                expires.map(|expires| format!("expires {}", until(expires))),
                set_or_removed("comment", edit.comment.as_deref()),
                uid.map(|uid| format!("uid {uid}")),
                gid.map(|gid| format!("gid {gid}")),
                set_or_removed("default project", default_project.as_deref()),
            ];
            output::done(json, &value, &changes(&format!("user {user}"), parts));
        }
        User::Access { user } => super::access::run(home, &user, json)?,
        User::SecondFactor { user, action } => return second_factor(home, &user, action, json),
        User::Remove { user, force } => {
            let at = keeping_administrators(home, force, |ctx| Ok(enfilade_admin::remove_user(ctx, &user)?))?;
            if user == first_start::admin()? {
                first_start::forget_first_password(&home.data);
            }
            let value = json!({ "user": user.to_string(), "revision": at.revision.0 });
            output::done(
                json,
                &value,
                &format!("user {user} removed, with all tokens, memberships and roles"),
            );
        }
        User::Disable { user, force } => {
            let edit = UserEdit { enabled: Some(false), ..UserEdit::default() };
            let at = keeping_administrators(home, force, |ctx| set(ctx, &user, &edit, None))?;
            let value = json!({ "user": user.to_string(), "enabled": false, "revision": at.revision.0 });
            output::done(json, &value, &format!("user {user} disabled, with all tokens and sessions"));
        }
        User::Enable { user } => {
            let edit = UserEdit { enabled: Some(true), ..UserEdit::default() };
            let at = enfilade_admin::set_user(&home.change_context(), &user, &edit)?;
            let value = json!({ "user": user.to_string(), "enabled": true, "revision": at.revision.0 });
            output::done(json, &value, &format!("user {user} enabled"));
        }
    }
    Ok(())
}

fn passwd(home: &Home, user: &Userid, password_stdin: bool, json: bool) -> anyhow::Result<()> {
    require(home, user)?;
    let password = prompt::new_password(password_stdin)?;
    let at = enfilade_admin::set_password(&home.change_context(), user, &password)?;
    if *user == first_start::admin()? {
        first_start::forget_first_password(&home.data);
    }
    let others = home.source().read(|view| user_access(view, user))??.ways;
    let others = others.iter().filter(|way| way.kind != WayKind::Password).count();
    let refused = enfilade_admin::why_no_login(home.source(), user, clock::now().unix_seconds)?;
    let refused = refused.map(|why| match (&why, without_users(home)) {
        (Refusal::File { .. }, Ok(Some(file))) => format!("{file}; restore the file"),
        _ => why.reason(),
    });
    let value = json!({
        "user": user.to_string(), "other_credentials": others, "cannot_log_in": refused, "revision": at.revision.0,
    });
    let stay = match others {
        0 => String::new(),
        others => format!(
            "; the user also has {}, which the new password does not change; to list these credentials: enfilade user access {}",
            output::counted(others, "token or other credential", "tokens and other credentials"),
            output::word(&user.to_string())
        ),
    };
    let text = match refused {
        None => format!("user {user} has a new password{stay}"),
        Some(why) => format!("user {user} has a new password, but cannot log in: {why}"),
    };
    output::done(json, &value, &text);
    Ok(())
}

fn second_factor(home: &Home, user: &Userid, action: SecondFactorAction, json: bool) -> anyhow::Result<()> {
    if action == SecondFactorAction::Reset {
        let at = enfilade_admin::reset_second_factor(&home.change_context(), user)?;
        let value = json!({ "user": user.to_string(), "second_factor": false, "revision": at.revision.0 });
        let text = format!("user {user} has no second factor any more: the password alone is enough");
        output::done(json, &value, &text);
        return Ok(());
    }
    let found = enfilade_admin::second_factor_named(home.source(), user)?;
    let value = json!({
        "user": user.to_string(), "second_factor": found.is_some(),
        "since": found.as_ref().map(|found| found.since),
        "recovery_codes": found.as_ref().map(|found| found.recovery_codes),
        "passkeys": found.as_ref().map(|found| found.passkeys.len()),
    });
    let text = match found {
        Some(found) => format!(
            "user {user} has a second factor since {}, {} left, and {}",
            output::time(found.since),
            output::counted(found.recovery_codes, "recovery code", "recovery codes"),
            output::counted(found.passkeys.len(), "passkey", "passkeys")
        ),
        None => format!("user {user} has no second factor"),
    };
    output::done(json, &value, &text);
    Ok(())
}

fn list(home: &Home, json: bool) -> anyhow::Result<()> {
    let (users, now) = (enfilade_admin::list_users(home.source())?, clock::now().unix_seconds);
    if json {
        users.iter().for_each(|user| {
            output::json_line(&json!({
                "user": user.userid, "id": user.id.to_string(), "sid": user.sid.to_string(),
                "enabled": user.enabled, "inactive": user.activity.is_inactive(now), "locked": user.activity.is_locked(now), "expires": user.expires, "password": user.has_password, "password_until": user.password_until,
                "uid": user.uid, "gid": user.gid, "comment": user.comment, "kept_in": user.is_mirrored.then_some("user.cfg"),
                "fault": user.fault,
            }));
        });
        return Ok(());
    }
    let rows: Vec<Vec<String>> = users
        .into_iter()
        .map(|user| {
            vec![
                user.userid,
                match (user.enabled, &user.activity) {
                    (true, activity) if activity.is_inactive(now) => "inactive".to_owned(),
                    (true, activity) if activity.is_locked(now) => "locked".to_owned(),
                    (is_enabled, _) => enabled(is_enabled),
                },
                password(user.has_password, user.password_until),
                until(user.expires),
                or_dash(user.uid),
                user.sid.to_string(),
                defined_in(user.is_mirrored, user.fault.as_deref(), "user.cfg"),
                or_dash(user.comment),
            ]
        })
        .collect();
    output::table(&["USER", "ENABLED", "PASSWORD", "EXPIRES", "UID", "SID", "KEPT IN", "COMMENT"], &rows);
    Ok(())
}

/// Refuses a new user in a realm that does not exist, for example if an e-mail address was given as the name. The error contains the two commands
/// that the operator may have meant.
fn require_realm(home: &Home, user: &Userid) -> anyhow::Result<()> {
    let realms = enfilade_admin::list_realms(home.source())?;
    if realms.iter().any(|realm| realm == user.realm().as_str()) {
        return Ok(());
    }
    let meant = similar(realms.iter().map(String::as_str), user.realm().as_str());
    let local = output::word(&Userid::new(user.name(), Realm::local())?.to_string());
    bail!(
        "there is no realm `{}`{meant}; use the built-in realm: `enfilade user add {local}`; or create the realm first: `enfilade domain add {}`",
        user.realm(),
        output::word(user.realm().as_str())
    )
}

/// Refuses a user that does not exist, before the operator is asked for a password.
pub(super) fn require(home: &Home, user: &Userid) -> anyhow::Result<()> {
    let is_there = home.source().read(|view| enfilade_admin::user_access(view, user).map(drop))?;
    Ok(is_there?)
}

fn password(is_there: bool, until: i64) -> String {
    match until {
        0 => enabled(is_there),
        until if until <= clock::now().unix_seconds => "to be changed".to_owned(),
        until => format!("until {}", output::time(until)),
    }
}

/// Changes a user, and the default project if `project` is given. An inner `None` removes the default project.
fn set(
    ctx: &ChangeContext<'_>,
    user: &Userid,
    edit: &UserEdit,
    project: Option<Option<ProjectId>>,
) -> anyhow::Result<At> {
    let mut at = ctx.facts.at();
    if *edit != UserEdit::default() {
        at = enfilade_admin::set_user(ctx, user, edit)?;
    }
    if let Some(project) = project {
        at = keystone::set_default_project(ctx, user, project)?;
    }
    Ok(at)
}
