//! `enfilade explain`.

mod advice;
mod applications;

use super::client_certificates;
use super::keystone::find_project;
use crate::cli::Explain;
use crate::control;
use crate::home::Home;
use crate::output;
use advice::Asked;
use anyhow::Context;
use enfilade_admin::keystone::name_of_project;
use enfilade_admin::{Names, UserAccess, WayKind, get_acl, user_access};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{Authid, DatastoreName, ProjectId, StorePath};
use enfilade_facts::{Door, Read as _, Refuse as _};
use enfilade_passage::{DoorAnswer, Explanation, IdentityRefusal, Refusal, Remedy};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code for a refused access. A failed command exits with 1, so scripts can distinguish the two cases.
const REFUSED: u8 = 3;

pub(super) fn run(home: &Home, arguments: &Explain, json: bool) -> anyhow::Result<ExitCode> {
    if let Some(request) = &arguments.url {
        return applications::run(home, &arguments.authid, request, json);
    }
    let Explain { authid, path, right, project, .. } = arguments;
    let datastore = arguments
        .datastore
        .as_ref()
        .context("the command needs the name of a datastore, or a request with --url")?;
    let path = StorePath::from_plain(path)?;
    let id = project.as_ref().map(|project| find_project(home, project)).transpose()?;
    // The confinement limits which directories the running servers can open. The servers refuse datastores in all other directories. So the command
    // uses the same list of directories as the running servers.
    home.reserved.change(|reserved| reserved.openable = control::openable(&home.data));
    let house = home.house_to_ask()?;
    let mut explanation = house.explain(authid, id.as_ref(), datastore, &path, *right);
    let names = home.source().read(Names::read)??;
    let access = home.source().read(|view| user_access(view, &authid.user))?;
    let is_user = access.is_ok();
    if access.is_ok_and(|access| is_of_certificate(&access, authid)) {
        judge_certificate(home, &mut explanation);
    }
    let named = |id: &ProjectId| name_of_project(home.source(), id);
    let project = id.as_ref().map(named).transpose()?;
    let of_remedy = explanation.remedy.project().map(named).transpose()?;
    let acl = match &explanation.remedy {
        Remedy::Acl(path, _) => get_acl(&home.change_context(), datastore, path).ok(),
        _ => None,
    };
    let is_absent = explanation.doors.last().is_some_and(|door| matches!(door.code, Some("CT01" | "CT02")));
    let obstacle = if is_absent { obstacle(home, datastore, &path)? } else { None };
    let asked = Asked { arguments, datastore, is_user, project, of_remedy, acl, obstacle };
    for door in &mut explanation.doors {
        door.says = names.naming(&door.says);
        door.walk.iter_mut().for_each(|step| *step = names.naming(step));
    }
    let verdict = if explanation.permits() { "permit" } else { "refuse" };
    let next = |why: &Refusal| asked.next(why, &explanation.remedy);
    if json {
        let doors = rows(&explanation, next);
        output::json_line(&json!({
            "authid": authid.to_string(), "project": asked.project, "datastore": datastore.to_string(),
            "path": path.to_string(), "right": right.to_string(), "verdict": verdict, "doors": doors,
        }));
    } else {
        print(&explanation, next);
        let session = asked.project.as_ref().map(|name| format!(" (a session for project {name})"));
        let session = session.unwrap_or_default();
        output::line(&format!("{verdict}: {authid}{session}, {right} on {path} of {datastore}"));
    }
    Ok(if explanation.permits() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// The answers of the doors, for `--json`.
fn rows(explanation: &Explanation, next: impl Fn(&Refusal) -> String) -> Vec<serde_json::Value> {
    let row = |door: &DoorAnswer| {
        json!({
            "door": door.door.name(), "verdict": if door.opens { "permit" } else { "refuse" },
            "code": door.code, "says": door.says, "walk": door.walk, "next": door.why.as_ref().map(&next),
        })
    };
    explanation.doors.iter().map(row).collect()
}

/// Prints the answers of the doors.
fn print(explanation: &Explanation, next: impl Fn(&Refusal) -> String) {
    for door in &explanation.doors {
        let mark = if door.opens { "opens" } else { "refuses" };
        let code = door.code.map(|code| format!(" {code}")).unwrap_or_default();
        output::line(&format!("{:<10} {mark}{code}: {}", door.door.name(), door.says));
        door.walk.iter().for_each(|step| output::line(&format!("           {step}")));
        door.why.iter().for_each(|why| output::line(&format!("           next: {}", next(why))));
    }
}

/// Whether this token has a client certificate instead of a secret.
fn is_of_certificate(access: &UserAccess, authid: &Authid) -> bool {
    let name = authid.to_string();
    access.ways.iter().any(|way| way.kind == WayKind::ClientCertificate && way.name == name)
}

/// Explains the login with a client certificate. If no line of a crt-list requests client certificates, no client can present a certificate. Then the
/// login fails.
fn judge_certificate(home: &Home, explanation: &mut Explanation) {
    let is_login = |door: &&mut DoorAnswer| door.door == Door::Identity && door.opens;
    let Some(login) = explanation.doors.iter_mut().find(is_login) else { return };
    if client_certificates::nobody_asks(home) {
        let why = IdentityRefusal::NoCredential;
        *login = DoorAnswer {
            opens: false,
            code: Some(why.code()),
            says: format!("{}, so no client can present its certificate", client_certificates::NOBODY_ASKS),
            why: Some(why.into()),
            ..login.clone()
        };
    } else {
        login.says.push_str("; ");
        login.says.push_str(client_certificates::ONLY_WHERE);
        login.says.push_str(client_certificates::AND_ACCEPTS);
    }
}

/// Advice if an entry on the path is never served (for example a link), or if an entry is a file and the path continues below this file. A client
/// gets the same answer as for an absent object, but the operator is allowed to know which entry exists.
fn obstacle(home: &Home, datastore: &DatastoreName, path: &StorePath) -> anyhow::Result<Option<String>> {
    let row = home.source().read(|view| view.get::<Datastore>(datastore))??;
    let Some(root) = row.map(|row| PathBuf::from(row.root(datastore))) else { return Ok(None) };
    let mut at = StorePath::root();
    for name in path.names() {
        at = at.join(name)?;
        let Ok(meta) = std::fs::symlink_metadata(root.join(at.as_str())) else { return Ok(None) };
        if !meta.is_dir() && !meta.is_file() {
            return Ok(Some(format!(
                "{at} is a symbolic link or a special file (such as a socket or a device). The server never serves these: replace it with a file or directory"
            )));
        }
        if meta.is_file() && at != *path {
            return Ok(Some(format!(
                "{at} is a file, so nothing can be below it: choose another folder, or rename the file"
            )));
        }
    }
    Ok(None)
}
