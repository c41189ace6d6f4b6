//! The output of `enfilade token list` and `enfilade token show`.

use crate::command::{defined_in, enabled as yes_or_no, or_dash, until};
use crate::home::Home;
use crate::output;
use enfilade_admin::TokenSummary;
use enfilade_facts::vocabulary::Userid;
use enfilade_sources::files::last_used::LastUsed;
use serde_json::json;

pub(super) fn list(home: &Home, user: Option<&Userid>, json: bool) -> anyhow::Result<()> {
    let tokens = enfilade_admin::list_tokens(home.source(), user)?;
    let last_used = home.last_used()?;
    if json {
        tokens.iter().for_each(|token| output::json_line(&described(token, &last_used)));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = tokens
        .into_iter()
        .map(|token| {
            let roles = roles(&token, "own", "owner's");
            let used = last_used.of(&token.id).map(|used| output::time(used.unix_seconds));
            vec![
                token.tokenid,
                yes_or_no(token.enabled),
                until(token.expires),
                roles,
                or_dash(used),
                defined_in(token.is_mirrored, token.fault.as_deref(), "user.cfg"),
                or_dash(token.comment),
            ]
        })
        .collect();
    output::table(&["TOKEN", "ENABLED", "EXPIRES", "ROLES", "LAST USED", "KEPT IN", "COMMENT"], &rows);
    Ok(())
}

fn described(token: &TokenSummary, last_used: &LastUsed) -> serde_json::Value {
    let used = last_used.of(&token.id);
    json!({
        "tokenid": token.tokenid, "id": token.id.to_string(), "enabled": token.enabled,
        "expires": token.expires, "created": token.created, "grace_until": token.grace_until,
        "comment": token.comment, "own_roles": token.own_roles, "limited_to": token.limited_to,
        "unrestricted": token.unrestricted, "created_with": token.created_with,
        "kept_in": token.is_mirrored.then_some("user.cfg"), "fault": token.fault,
        "checked_by": token.checked_by, "last_used": used.map(|used| used.unix_seconds),
        "last_used_from": used.map(|used| used.from.to_string()),
    })
}

/// The roles of a token as text. For an application credential, the text contains the names of its roles, and the records that it can create. For
/// other tokens, the text is `own` or `of_owner`.
fn roles(token: &TokenSummary, own: &str, of_owner: &str) -> String {
    let text = if token.own_roles { own } else { of_owner };
    let mut text = token.limited_to.clone().unwrap_or_else(|| text.to_owned());
    if token.unrestricted {
        text.push_str("; unrestricted: it can create credentials and trusts");
    }
    text.extend(token.created_with.iter().map(|maker| format!("; created with {maker}")));
    text
}

pub(super) fn show(token: &TokenSummary, last_used: &LastUsed, json: bool) {
    if json {
        output::json_line(&described(token, last_used));
        return;
    }
    for (what, value) in [
        ("token", token.tokenid.clone()),
        ("id", token.id.to_string()),
        ("enabled", yes_or_no(token.enabled)),
        ("made", output::time(token.created)),
        ("expires", until(token.expires)),
        ("roles", roles(token, "own roles, limited to the owner's roles", "the owner's roles")),
        ("kept in", defined_in(token.is_mirrored, token.fault.as_deref(), "user.cfg and token.shadow")),
        ("secret", format!("checked by {}", token.checked_by)),
        (
            "old secret",
            token.grace_until.map_or("-".to_owned(), |until| format!("works until {}", output::time(until))),
        ),
        (
            "last used",
            last_used.of(&token.id).map_or("-".to_owned(), |used| {
                format!("{} from {}", output::time(used.unix_seconds), used.from)
            }),
        ),
        ("comment", or_dash(token.comment.clone())),
    ] {
        output::line(&format!("{what:<12}{value}"));
    }
}
