//! The texts that `enfilade setup` prints at its end.

use super::plan::Plan;
use super::service::Running;
use crate::first_start::Settled;
use crate::home::Home;
use crate::{example, output};
use enfilade_facts::vocabulary::{Authid, Role};
use serde_json::json;
use std::path::PathBuf;

/// The records that were made, and the records that existed before.
pub(super) struct Made {
    /// The administrator, if this command made it.
    pub(super) settled: Option<Settled>,
    /// Whether the user is new.
    pub(super) is_new: bool,
    /// The generated password of the user.
    pub(super) password: Option<String>,
    /// The roles of the user on the path of the datastore.
    pub(super) roles: Vec<Role>,
    /// The directory of the datastore.
    pub(super) path: String,
    /// Whether the datastore is new.
    pub(super) new_path: bool,
    pub(super) token: Authid,
    /// The secret of the token, if the token is new.
    pub(super) secret: Option<String>,
    /// The certificate that clients have to trust.
    pub(super) certificate: Option<PathBuf>,
    pub(super) running: anyhow::Result<Running>,
}

pub(super) fn tell(home: &Home, plan: &Plan, made: &Made, json: bool) {
    let address = example::served_at(home);
    let path = format!("/dav/{}/", plan.datastore);
    match json {
        true => output::json_line(&value(home, plan, made, &format!("https://{address}{path}"))),
        false => {
            rows(home, plan, made)
                .iter()
                .for_each(|(label, text)| output::line(&format!("{label:<14}{text}")));
            for (heading, commands) in next(made, &address, &path) {
                output::line(&format!("\n{heading}:"));
                commands.iter().for_each(|command| output::line(&format!("  {command}")));
            }
        }
    }
    if let Some(settled) = &made.settled {
        settled.was_shown(home, json);
    }
}

fn value(home: &Home, plan: &Plan, made: &Made, url: &str) -> serde_json::Value {
    let (started, start) = match &made.running {
        Ok(Running::Yes) => (true, None),
        Ok(Running::No(command)) => (false, Some(command)),
        Err(_) => (false, None),
    };
    json!({
        "data": home.data,
        "admin": made.settled.as_ref().map(|settled| settled.admin.to_string()),
        "admin_password": made.settled.as_ref().map(|settled| &settled.password),
        "user": plan.user.to_string(), "user_created": made.is_new, "password": made.password,
        "roles": made.roles.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "datastore": plan.datastore.to_string(), "datastore_created": made.new_path, "path": made.path,
        "tokenid": made.token.to_string(), "value": made.secret,
        "certificate": made.certificate, "url": url, "running": started, "start": start,
    })
}

/// The lines about the records that exist now.
fn rows(home: &Home, plan: &Plan, made: &Made) -> Vec<(&'static str, String)> {
    let there = |is_new: bool| if is_new { "" } else { "   (existed already)" };
    let mut rows = vec![("data", home.data.display().to_string())];
    if let Some(settled) = &made.settled {
        rows.push(("administrator", format!("{}   password {}", settled.admin, settled.shown(home))));
    }
    let password =
        made.password.as_ref().map(|password| format!("   password {password}   (shown only once)"));
    rows.push(("user", format!("{}{}{}", plan.user, password.unwrap_or_default(), there(made.is_new))));
    rows.push(("datastore", format!("{}   in {}{}", plan.datastore, made.path, there(made.new_path))));
    for role in &made.roles {
        rows.push(("role", format!("{} has the role {role} on {}", plan.user, plan.datastore)));
    }
    rows.push(match &made.secret {
        Some(secret) => ("token", format!("{}   secret {secret}   (shown only once)", made.token)),
        None => (
            "token",
            format!(
                "{}   (existed already; for a new secret: enfilade token regenerate {})",
                made.token,
                output::word(&made.token.to_string())
            ),
        ),
    });
    rows.extend(made.certificate.as_ref().map(|path| ("certificate", path.display().to_string())));
    rows
}

/// The next commands of the operator, with their headings.
fn next(made: &Made, address: &str, path: &str) -> Vec<(String, Vec<String>)> {
    let token = made.token.to_string();
    let secret = made.secret.as_deref().unwrap_or("SECRET");
    let url = format!("https://{address}{path}");
    let trust = made.certificate.as_deref().map(|path| output::word(&path.display().to_string()));
    let option = trust.as_ref().map(|path| format!(" --ca-cert {path}")).unwrap_or_default();
    let mut all = Vec::new();
    if let Ok(Running::No(command)) = &made.running {
        all.push(("start the server".to_owned(), vec![command.clone()]));
    }
    let login = example::in_quotes(&format!("{token}:{secret}"));
    let listing = example::listing_with(made.certificate.as_deref(), &login, address, path);
    all.push(("list the datastore".to_owned(), vec![listing]));
    all.push((
        "use it with rclone; to mount it, rclone needs fuse3 and root".to_owned(),
        vec![
            format!(
                "rclone config create --obscure enfilade webdav url={url} vendor=other user={} pass={}",
                example::in_quotes(&token),
                example::in_quotes(secret)
            ),
            format!("rclone lsf enfilade:{option}"),
            format!("rclone mount enfilade: /mnt --daemon --vfs-cache-mode writes{option}"),
        ],
    ));
    let mut davfs = vec![format!("mount -t davfs {url} /mnt")];
    if let Some(path) = trust {
        davfs.insert(
            0,
            format!(
                "cp {path} /etc/davfs2/certs/enfilade.pem && echo 'trust_server_cert enfilade.pem' >> /etc/davfs2/davfs2.conf"
            ),
        );
    }
    all.push(("or mount it with davfs2, as root".to_owned(), davfs));
    all
}
