//! `enfilade token`.

mod shown;

use super::access::{name_access_keys, name_of};
use super::client_certificates;
use super::{changes, set_or_removed, until};
use crate::cli::Token;
use crate::home::Home;
use crate::output::{self, counted};
use anyhow::{Context, bail};
use enfilade_admin::{Error, Marked, NewToken, TokenEdit, TokenTerms, Way, keystone, user_access};
use enfilade_facts::Read as _;
use enfilade_facts::vocabulary::{Authid, MICROS_PER_SECOND, RoleId, TokenName, Userid};
use enfilade_sources::files::certificates::read_text;
use serde_json::json;
use shown::{list, show};
use std::path::Path;

pub(super) fn run(home: &Home, command: Token, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    match command {
        Token::Create { token, expires, comment, project: Some(project), role, .. } => {
            output::require_for_secret()?;
            create_for_project(home, &token, expires, comment, &project, role, json)?;
        }
        Token::Create { token, expires, comment, own_roles, certificate: Some(file), .. } => {
            let terms = TokenTerms { expires, comment, own_roles };
            create_of_certificate(home, &token, &file, &terms, json)?;
        }
        Token::Create { token, expires, comment, own_roles, .. } => {
            output::require_for_secret()?;
            let (owner, name) = parts(&token)?;
            let key = home.hash_key()?;
            let new = enfilade_admin::create_token(
                &home.change_context(),
                &key,
                owner,
                name,
                &TokenTerms { expires, comment, own_roles },
            );
            let new = new.map_err(|why| match why {
                Error::Exists { .. } => {
                    let regenerate =
                        format!("enfilade token regenerate {}", output::word(&token.to_string()));
                    anyhow::anyhow!("{why}; for a new secret run `{regenerate}`")
                }
                why => why.into(),
            })?;
            show_secret(&new, &[], json);
        }
        Token::Regenerate { token, grace } => {
            output::require_for_secret()?;
            let (owner, name) = parts(&token)?;
            let (ctx, key) = (home.change_context(), home.hash_key()?);
            let before = ways_before(home, owner)?;
            let new = enfilade_admin::regenerate_token(&ctx, &key, owner, name, grace)?;
            let made = deleted_with(home, &token, before);
            // Credentials may have been deleted together with the old secret. The new secret is shown even if these credentials cannot be listed.
            show_secret(&new, made.as_deref().unwrap_or_default(), json);
            made?;
        }
        Token::Set { token, enable, disable, expires, comment, end_grace, own_roles, owner_roles } => {
            let (owner, name) = parts(&token)?;
            let enabled = (enable || disable).then_some(enable);
            let own_roles = (own_roles || owner_roles).then_some(own_roles);
            let edit = TokenEdit { enabled, expires, comment, end_grace, own_roles };
            let at = enfilade_admin::set_token(&home.change_context(), owner, name, &edit)?;
            let value = json!({ "tokenid": token.to_string(), "revision": at.revision.0 });
            let grace = end_grace.then(|| "the replaced secret is refused from now on".to_owned());
            let parts = [
                enabled.map(|enabled| if enabled { "enabled" } else { "disabled" }.to_owned()),
                expires.map(|expires| format!("expires {}", until(expires))),
                set_or_removed("comment", edit.comment.as_deref()),
                grace,
                own_roles.map(|own| if own { "only own roles" } else { "all roles of its owner" }.to_owned()),
            ];
            output::done(json, &value, &changes(&format!("token {token}"), parts));
        }
        Token::Show { token } => {
            let (owner, _) = parts(&token)?;
            let tokens = enfilade_admin::list_tokens(source, Some(owner))?;
            let found = tokens.into_iter().find(|found| found.tokenid == token.to_string());
            show(
                &found.with_context(|| format!("there is no token `{token}`; see `enfilade token list`"))?,
                &home.last_used()?,
                json,
            );
        }
        Token::List { user } => list(home, user.as_ref(), json)?,
        Token::Upgrade { token, all: _ } => upgrade(home, token.as_ref(), json)?,
        Token::Delete { token } => {
            let (owner, name) = parts(&token)?;
            let before = ways_before(home, owner)?;
            let at = enfilade_admin::delete_token(&home.change_context(), owner, name)?;
            let made = deleted_with(home, &token, before)?;
            let value = json!({
                "tokenid": token.to_string(), "also_deleted": made,
                "revision": at.revision.0,
            });
            let text = format!("token {token} deleted; the next request with the token is refused");
            let lines: Vec<String> = [text].into_iter().chain(told_deleted(&made)).collect();
            output::done(json, &value, &lines.join("\n"));
        }
    }
    Ok(())
}

fn upgrade(home: &Home, token: Option<&Authid>, json: bool) -> anyhow::Result<()> {
    let (marked, at) = enfilade_admin::mark_for_upgrade(&home.change_context(), token)?;
    let count = marked.iter().filter(|marked| marked.left.is_none()).count();
    for Marked { tokenid, left } in &marked {
        if json {
            output::json_line(
                &json!({ "tokenid": tokenid, "left_as_it_is": left, "revision": at.revision.0 }),
            );
        } else if token.is_none() {
            // With `--all`, tokens that need no upgrade are not printed.
        } else if let Some(why) = left {
            output::line(&format!("{tokenid} not changed: {why}"));
        }
    }
    if !json && (count > 0 || token.is_none()) {
        let (tokens, rest) = (counted(count, "token", "tokens"), marked.len() - count);
        output::line(&format!(
            "{tokens} marked, {rest} not changed. The next use of a marked token replaces its slow hash with a fast hash, if the secret has the form \
             of Enfilade's secrets (enf_…), Proxmox's secrets (UUIDs) or Keystone's secrets (86 characters). A secret of 72 bytes or more with a \
             bcrypt hash keeps the slow hash. If `enfilade token show` still shows a slow hash later, run `enfilade token regenerate`, which \
             replaces the secret"
        ));
    }
    Ok(())
}

/// Creates an API token for a client certificate: a client with this certificate is authenticated as the token.
fn create_of_certificate(
    home: &Home,
    token: &Authid,
    file: &Path,
    terms: &TokenTerms,
    json: bool,
) -> anyhow::Result<()> {
    let (owner, name) = parts(token)?;
    let pem = read_text(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let fingerprint = enfilade_tls::fingerprint(&pem)
        .map_err(|why| anyhow::anyhow!("`{}` is not a usable certificate: {why}", file.display()))?;
    let at =
        enfilade_admin::create_certificate_token(&home.change_context(), owner, name, &fingerprint, terms)?;
    let without_effect = client_certificates::without_effect(home, &pem);
    let value = json!({
        "tokenid": token.to_string(), "without_effect": without_effect, "revision": at.revision.0,
    });
    let text = match &without_effect {
        None => format!(
            "a client with the certificate `{}` acts as token {token} from now on, {}",
            file.display(),
            client_certificates::ONLY_WHERE
        ),
        Some(why) => format!("token {token} was created for `{}`, but {why}", file.display()),
    };
    output::done(json, &value, &text);
    Ok(())
}

/// Creates an application credential.
fn create_for_project(
    home: &Home,
    token: &Authid,
    expires: i64,
    comment: Option<String>,
    project: &str,
    role: Vec<String>,
    json: bool,
) -> anyhow::Result<()> {
    let (owner, name) = parts(token)?;
    let source = home.source();
    let (id, project) = super::keystone::find_with_name(home, project)?;
    let users = enfilade_admin::list_users(source)?;
    let owner = users.iter().find(|row| row.userid == owner.to_string());
    let owner =
        owner.with_context(|| format!("the user of `{token}` does not exist; see `enfilade user list`"))?.id;
    keystone::require_enabled(source, &owner, &id)?;
    let held = keystone::held_roles(source, &owner, &id)?;
    require_held(&held, &role, &token.user, &project)?;
    let roles = match role.is_empty() {
        true => held.into_iter().map(|(id, _)| id.to_string()).collect(),
        false => role,
    };
    let new = keystone::NewApplicationCredential {
        owner,
        name: name.clone(),
        project: id,
        roles,
        unrestricted: false,
        rules: Vec::new(),
        by: None,
        expires_micros: expires.saturating_mul(MICROS_PER_SECOND),
        comment,
        secret: None,
    };
    let (made, secret, at) =
        keystone::create_application_credential(&home.change_context(), &home.hash_key()?, &new)?;
    let secret = secret.unwrap_or_default();
    let value = json!({
        "tokenid": token.to_string(), "id": made.id.to_string(), "value": secret, "revision": at.revision.0,
    });
    let text = format!("token   {token}\nid      {}\nsecret  {secret}   (shown only once)", made.id);
    output::done(json, &value, &text);
    Ok(())
}

/// Refuses a role that the owner of a new application credential does not have on its project. Also refuses an owner without any role on the project.
/// In both cases, no session could be issued for the credential.
fn require_held(
    held: &[(RoleId, String)],
    wanted: &[String],
    owner: &Userid,
    project: &str,
) -> anyhow::Result<()> {
    if held.is_empty() && wanted.is_empty() {
        let (owner, project) = (output::word(&owner.to_string()), output::word(project));
        bail!(
            "{owner} has no role on project {project}, so the token would have no rights, and no session could be issued for it; assign a role first with `enfilade role assign --project {project} --auth-id {owner} ROLE`"
        );
    }
    let is_held = |role: &&String| held.iter().any(|(id, name)| name == *role || id.to_string() == **role);
    let Some(role) = wanted.iter().find(|role| !is_held(role)) else { return Ok(()) };
    let names: Vec<&str> = held.iter().map(|(_, name)| name.as_str()).collect();
    let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let (owner, project, given) =
        (output::word(&owner.to_string()), output::word(project), output::word(role));
    bail!(
        "{owner} does not have the role `{role}` on project {project} (roles there: {has}); assign it first with `enfilade role assign --project {project} --auth-id {owner} {given}`"
    )
}

fn show_secret(new: &NewToken, also_deleted: &[String], json: bool) {
    let tokenid = new.tokenid.to_string();
    let mut value = json!({ "tokenid": tokenid, "value": new.value, "revision": new.at.revision.0 });
    if let Some(fields) = value.as_object_mut().filter(|_| !also_deleted.is_empty()) {
        fields.insert("also_deleted".to_owned(), json!(also_deleted));
    }
    let mut text = format!("token   {tokenid}\nsecret  {}   (shown only once)", new.value);
    text.extend(told_deleted(also_deleted).map(|told| format!("\n{told}")));
    output::done(json, &value, &text);
}

/// The present credentials and trusts of the owner of a token. Empty for a user that does not exist, because then the change of the token fails.
fn ways_before(home: &Home, owner: &Userid) -> anyhow::Result<Vec<Way>> {
    let access = home.source().read(|view| user_access(view, owner))?;
    let mut ways = access.map(|access| access.ways).unwrap_or_default();
    name_access_keys(home, &mut ways)?;
    Ok(ways)
}

/// The credentials and trusts that a change of an application credential deleted, because they were created with this credential.
fn deleted_with(home: &Home, token: &Authid, before: Vec<Way>) -> anyhow::Result<Vec<String>> {
    let after = ways_before(home, &token.user)?;
    let is_gone = |way: &Way| after.iter().all(|left| (left.kind, &left.name) != (way.kind, &way.name));
    let itself = token.to_string();
    let gone = before.into_iter().filter(|way| way.name != itself && is_gone(way));
    Ok(gone.map(|way| format!("{} {}", name_of(way.kind), way.name)).collect())
}

/// A text about the credentials and trusts that were deleted together with an application credential or its secret.
fn told_deleted(made: &[String]) -> Option<String> {
    (!made.is_empty())
        .then(|| format!("also deleted, because they were created with this credential: {}", made.join(", ")))
}

fn parts(token: &Authid) -> anyhow::Result<(&Userid, &TokenName)> {
    let name = token
        .token
        .as_ref()
        .with_context(|| format!("`{token}` is not the name of a token; expected USER@REALM!NAME"))?;
    Ok((&token.user, name))
}
