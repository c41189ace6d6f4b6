//! `enfilade link`.

use super::{enabled as yes_or_no, or_dash, until};
use crate::cli::Link;
use crate::home::Home;
use crate::{output, prompt};
use enfilade_admin::{LinkSummary, NewLink};
use enfilade_faces::LINKS;
use enfilade_facts::tables::{LinkPlace, LinkRights};
use enfilade_facts::vocabulary::Userid;
use serde_json::json;

pub(super) fn run(home: &Home, command: Link, json: bool) -> anyhow::Result<()> {
    match command {
        Link::Create {
            datastore,
            path,
            user,
            expires,
            name,
            drop,
            max_upload,
            uses,
            password,
            password_stdin,
        } => {
            output::require_for_secret()?;
            let asks = password || password_stdin;
            let password = asks.then(|| prompt::new_password(password_stdin)).transpose()?;
            let rights = if drop { LinkRights::Drop } else { LinkRights::Read };
            let place = LinkPlace { datastore, path, rights, upload_bytes: max_upload };
            let new = NewLink { owner: user, name, place, expires, password, uses };
            create(home, &new, json)
        }
        Link::List { user } => list(home, user.as_ref(), json),
        Link::End { id } => {
            let at = enfilade_admin::end_link(&home.change_context(), &id, None)?;
            let value = json!({ "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("link {id} ended; the next request with it is refused"));
            Ok(())
        }
    }
}

fn create(home: &Home, new: &NewLink, json: bool) -> anyhow::Result<()> {
    let made = enfilade_admin::create_link(&home.change_context(), &home.config.limits.0, new)?;
    let (id, path) = (made.id.to_string(), format!("{LINKS}{}", made.text));
    let value = json!({
        "id": id, "tokenid": made.tokenid.to_string(), "path": path, "expires": new.expires,
        "revision": made.at.revision.0,
    });
    let text = format!(
        "link     https://HOST{path}   (shown only once; HOST is the address of this server)\nid       {id}\nexpires  {}",
        until(new.expires)
    );
    output::done(json, &value, &text);
    Ok(())
}

fn list(home: &Home, user: Option<&Userid>, json: bool) -> anyhow::Result<()> {
    let links = enfilade_admin::list_links(home.source(), user)?;
    let last_used = home.last_used()?;
    let used = |link: &LinkSummary| last_used.of(&link.id).map(|used| used.unix_seconds);
    if json {
        for link in &links {
            output::json_line(&json!({
                "id": link.id.to_string(), "user": link.owner, "tokenid": link.tokenid, "name": link.name,
                "datastore": link.place.datastore.to_string(), "path": link.place.path.to_string(),
                "rights": link.place.rights.name(), "enabled": link.enabled, "expires": link.expires,
                "created": link.created, "password": link.has_password, "uses_left": link.uses,
                "max_upload": link.place.upload_bytes, "last_used": used(link),
            }));
        }
        return Ok(());
    }
    let row = |link: &LinkSummary| {
        vec![
            link.id.to_string(),
            link.owner.clone(),
            format!("{}:{}", link.place.datastore, link.place.path),
            link.place.rights.name().to_owned(),
            yes_or_no(link.enabled),
            until(link.expires),
            or_dash(link.uses.map(|uses| uses.to_string())),
            yes_or_no(link.has_password),
            or_dash(used(link).map(output::time)),
            or_dash(Some(link.name.clone()).filter(|name| !name.is_empty())),
        ]
    };
    let rows: Vec<Vec<String>> = links.iter().map(row).collect();
    let heading =
        ["ID", "USER", "PLACE", "RIGHTS", "ENABLED", "EXPIRES", "USES LEFT", "PASSWORD", "LAST USED", "NAME"];
    output::table(&heading, &rows);
    Ok(())
}
