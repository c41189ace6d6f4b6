//! `enfilade application`.

use super::or_dash;
use crate::cli::Application as Command;
use crate::cli::Properties;
use crate::config::UrlOrigin;
use crate::home::Home;
use crate::output;
use enfilade_facts::tables::{Application, CountsIfBoth, CredentialKind};
use enfilade_facts::vocabulary::{ApplicationName, HostName, Role, RolePath, StorePath};
use serde_json::{Value, json};

pub(super) fn run(home: &Home, command: Command, json: bool) -> anyhow::Result<()> {
    match command {
        Command::Create { name, hosts, users, properties } => {
            refuse_host_of_sign_in(home, &hosts)?;
            let ctx = home.change_context();
            // The users are checked first, so that a wrong name does not leave an application without users.
            users.iter().try_for_each(|user| enfilade_admin::check_target(&ctx, user))?;
            let mut application = Application::default();
            edit(&mut application, &hosts, &properties);
            let mut at = enfilade_admin::create_application(&ctx, &name, &application)?;
            let path = RolePath::of_application(&name, &StorePath::root());
            for user in &users {
                at = enfilade_admin::assign_role(&ctx, &path, user, Role::ApplicationUser, true)?;
            }
            let value = json!({ "application": name.to_string(), "revision": at.revision.0 });
            let about = match users.is_empty() {
                true => format!(
                    "this command assigned no role on it; to give a user access: enfilade role assign --path {path} --auth-id USER ApplicationUser"
                ),
                false => format!("{} may use it (role ApplicationUser on {path})", joined(&users)),
            };
            output::done(json, &value, &format!("application {name} created; {about}"));
        }
        Command::List => {
            let applications = enfilade_admin::list_applications(home.source())?;
            if json {
                applications.iter().for_each(|(name, row)| output::json_line(&described(name, row)));
                return Ok(());
            }
            let rows: Vec<Vec<String>> = applications
                .into_iter()
                .map(|(name, row)| {
                    vec![
                        name.to_string(),
                        joined(&row.hosts),
                        kinds(&row.accepts),
                        or_dash(some(&row.public)),
                        or_dash(some(&row.open)),
                        or_dash(some(&row.administer)),
                        or_dash(row.comment),
                    ]
                })
                .collect();
            let heading = ["NAME", "HOSTS", "ACCEPTS", "PUBLIC", "OPEN", "ADMINISTER", "COMMENT"];
            output::table(&heading, &rows);
        }
        Command::Show { name } => show(home, &name, json)?,
        Command::Set { name, hosts, properties } => {
            refuse_host_of_sign_in(home, &hosts)?;
            let at = enfilade_admin::edit_application(&home.change_context(), &name, |application| {
                edit(application, &hosts, &properties);
            })?;
            let value = json!({ "application": name.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("application {name} changed"));
        }
        Command::Remove { name } => {
            let at = enfilade_admin::remove_application(&home.change_context(), &name)?;
            let value = json!({ "application": name.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("application {name} removed, with all roles on its paths"));
        }
    }
    Ok(())
}

/// The usual port of https.
const HTTPS: u16 = 443;

/// Refuses the host of the page for signing in.
fn refuse_host_of_sign_in(home: &Home, hosts: &[HostName]) -> Result<(), enfilade_admin::Error> {
    let own = home.config.decisions.sign_in.as_ref().and_then(UrlOrigin::host);
    enfilade_admin::refuse_host_of_sign_in(hosts, own.as_ref())
}

/// Sets the given properties. Properties that are not given stay unchanged.
fn edit(application: &mut Application, hosts: &[HostName], properties: &Properties) {
    let Properties { public, open, administer, accept, comment, .. } = properties;
    if !hosts.is_empty() {
        application.hosts = hosts.to_vec();
        application.hosts.sort_unstable();
        application.hosts.dedup();
    }
    let Application { public: to_public, open: to_open, administer: to_administer, .. } = application;
    for (given, to) in [(public, to_public), (open, to_open), (administer, to_administer)] {
        given.iter().for_each(|paths| to.clone_from(&paths.0));
    }
    accept.iter().for_each(|kinds| application.accepts.clone_from(&kinds.0));
    properties.pass_preflight.iter().for_each(|passes| application.passes_preflight = *passes);
    properties.send_groups.iter().for_each(|sends| application.hides_groups = !sends);
    properties.send_jwt.iter().for_each(|sends| application.sends_jwt = *sends);
    properties.port.iter().for_each(|port| application.port = Some(*port).filter(|port| *port != HTTPS));
    properties.if_both.iter().for_each(|counts| application.counts_if_both = counts.0);
    properties.datastore.iter().for_each(|files| application.datastore.clone_from(&files.0));
    comment.iter().for_each(|text| application.comment = Some(text.clone()).filter(|text| !text.is_empty()));
}

fn joined<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn some(paths: &[StorePath]) -> Option<String> {
    Some(joined(paths)).filter(|text| !text.is_empty())
}

fn kinds(accepts: &[CredentialKind]) -> String {
    if accepts.is_empty() { "all".to_owned() } else { joined(accepts) }
}

fn described(name: &ApplicationName, row: &Application) -> Value {
    let texts = |paths: &[StorePath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "application": name.to_string(),
        "hosts": row.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "accepts": row.accepts.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        "public": texts(&row.public), "open": texts(&row.open), "administer": texts(&row.administer),
        "passes_preflight": row.passes_preflight, "sends_groups": !row.hides_groups, "sends_jwt": row.sends_jwt,
        "datastore": row.datastore.as_ref().map(ToString::to_string), "port": row.port.unwrap_or(HTTPS),
        "if_both": row.counts_if_both.map_or("none", CountsIfBoth::name), "comment": row.comment,
    })
}

fn show(home: &Home, name: &ApplicationName, json: bool) -> anyhow::Result<()> {
    let row = enfilade_admin::show_application(home.source(), name)?;
    let root = RolePath::of_application(name, &StorePath::root());
    let is_in = |path: &RolePath| path.nodes().any(|node| node == root.as_str());
    let roles: Vec<_> =
        enfilade_admin::list_roles(home.source())?.into_iter().filter(|role| is_in(&role.path)).collect();
    if json {
        let mut value = described(name, &row);
        let roles: Vec<Value> = roles
            .iter()
            .map(|row| json!({ "path": row.path.to_string(), "auth_id": row.who, "role": row.role.name() }))
            .collect();
        value
            .as_object_mut()
            .into_iter()
            .for_each(|object| drop(object.insert("roles".into(), json!(roles))));
        output::json_line(&value);
        return Ok(());
    }
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for (what, value) in [
        ("hosts", joined(&row.hosts)),
        ("accepts", kinds(&row.accepts)),
        ("public", or_dash(some(&row.public))),
        ("open", or_dash(some(&row.open))),
        ("administer", or_dash(some(&row.administer))),
        ("preflight", yes(row.passes_preflight)),
        ("groups", yes(!row.hides_groups)),
        ("jwt", yes(row.sends_jwt)),
        ("port", row.port.unwrap_or(HTTPS).to_string()),
        ("if both", row.counts_if_both.map_or("none", CountsIfBoth::name).to_owned()),
        ("datastore", or_dash(row.datastore.map(|name| name.to_string()))),
        ("comment", or_dash(row.comment)),
    ] {
        output::line(&format!("{what:<12}{value}"));
    }
    let rows: Vec<Vec<String>> = roles
        .into_iter()
        .map(|row| vec![row.path.to_string(), row.who, row.role.name().to_owned()])
        .collect();
    if rows.is_empty() {
        output::line(&format!(
            "no role is assigned on {root} or below (roles on / and /application apply, too); to give a user access: enfilade role assign --path {root} --auth-id USER ApplicationUser"
        ));
    } else {
        output::table(&["PATH", "USER, TOKEN OR GROUP", "ROLE"], &rows);
    }
    Ok(())
}
