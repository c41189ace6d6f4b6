//! `enfilade bootstrap`, `domain`, `project`, `catalog`, `revoke` and `session`.

use super::{enabled, or_dash, password_from_stdin};
use crate::cli::keystone::{Bootstrap, Catalog, Domain, Project, Revoke, Session};
use crate::example;
use crate::home::Home;
use crate::output;
use anyhow::Context;
use enfilade_admin::keystone as admin;
use enfilade_admin::{init_keys, list_users};
use enfilade_facts::At;
use enfilade_facts::tables::{self, Interface, Revoked};
use enfilade_facts::vocabulary::{Secret, Userid};
use enfilade_identity::SessionAsk;
use enfilade_identity::fernet::payload::{audit_id_from_text, audit_id_to_text};
use enfilade_sources::files::issued::{IssuedFor, IssuedSession};
use serde_json::{Value, json};
use std::io::{BufRead as _, Read as _};

pub(super) fn bootstrap(home: &Home, new: Bootstrap, json: bool) -> anyhow::Result<()> {
    let password = password_from_stdin()?;
    let address = example::reachable(home.config.tls.listen);
    let is_local = new.public_url.is_none() && address.ip().is_loopback();
    let public = new.public_url.unwrap_or_else(|| format!("https://{address}/v3"));
    let internal = new.internal_url.unwrap_or_else(|| public.clone());
    let administrators = new.admin_url.unwrap_or_else(|| public.clone());
    let keys = home.fernet_keys();
    init_keys(&keys)?;
    let wanted = admin::Bootstrap {
        user: new.user,
        password,
        project: new.project,
        role: new.role,
        service: new.service,
        region: Some(new.region),
        urls: vec![
            (Interface::Public, public.clone()),
            (Interface::Internal, internal),
            (Interface::Admin, administrators),
        ],
    };
    let before = list_users(home.source())?;
    let project = admin::bootstrap(&home.change_context(), &wanted)?;
    let full = wanted.user.to_string();
    let is_new = before.iter().all(|row| row.userid != full);
    let name = wanted.user.name();
    let has_name = |userid: &str| userid.rsplit_once('@').is_some_and(|(user, _)| user == name);
    let others: Vec<&str> = before
        .iter()
        .map(|row| row.userid.as_str())
        .filter(|userid| *userid != full && has_name(userid))
        .collect();
    if json {
        output::json_line(&json!({
            "user": full, "created": is_new, "project": project.to_string(), "url": public, "same_name": others,
        }));
        return Ok(());
    }
    let made = if is_new { "created" } else { "already existed and has the new password" };
    output::line(&format!(
        "user {full} {made}: {} of project {} and of the system",
        wanted.role, wanted.project
    ));
    if is_local {
        output::line(&format!(
            "the catalog names {public}, which only this machine reaches: for other machines add --public-url https://HOST:PORT/v3"
        ));
    }
    tell_same_name(home, &wanted.user, &others);
    tell_bootstrap_example(home, &wanted, &public);
    Ok(())
}

/// Clients that search for a user by name alone find all users of that name, as in Keystone.
fn tell_same_name(home: &Home, user: &Userid, others: &[&str]) {
    let Some(other) = others.first() else { return };
    let (name, realm) = (example::quoted(user.name()), example::quoted(user.realm().as_str()));
    output::line(&format!(
        "another user has the name {}: {}; `openstack user show {name}` then says \"more than one\": name the domain, or use one \
         administrator for both:\n  openstack user show --domain {realm} {name}\n  {}\n  {}",
        user.name(),
        others.join(", "),
        example::command(
            home,
            &format!("role assign --path / --auth-id {} Admin", example::quoted(&user.to_string()))
        ),
        example::command(home, &format!("user remove {}", example::quoted(other))),
    ));
}

fn tell_bootstrap_example(home: &Home, new: &admin::Bootstrap, public: &str) {
    let user = example::quoted(new.user.name());
    let (realm, project) = (example::quoted(new.user.realm().as_str()), example::quoted(&new.project));
    let trust = example::authority(home)
        .map(|path| format!(" OS_CACERT={}", example::quoted(&path.display().to_string())))
        .unwrap_or_default();
    output::line(&format!(
        "try, while `{}` runs:\n  export OS_AUTH_URL={} OS_USERNAME={user} OS_USER_DOMAIN_NAME={realm} OS_PROJECT_NAME={project} \
         OS_PROJECT_DOMAIN_NAME={realm} OS_IDENTITY_API_VERSION=3{trust}\n  openstack token issue      # asks for the password",
        example::command(home, "serve"),
        example::quoted(public),
    ));
}

pub(super) fn domain(home: &Home, command: Domain, json: bool) -> anyhow::Result<()> {
    let said = |domain: &str, at: At, text: &str| {
        output::done(json, &json!({ "domain": domain, "revision": at.revision.0 }), text);
    };
    match command {
        Domain::Add { domain } => {
            let (id, at) = admin::add_domain(&home.change_context(), &domain, None)?;
            let value =
                json!({ "domain": domain.to_string(), "id": id.to_keystone(), "revision": at.revision.0 });
            output::done(json, &value, &format!("domain {domain} created"));
        }
        Domain::Enable { domain } => {
            let at = admin::set_domain(&home.change_context(), &domain, true)?;
            said(domain.as_str(), at, &format!("domain {domain} enabled"));
        }
        Domain::Disable { domain } => {
            let at = admin::set_domain(&home.change_context(), &domain, false)?;
            said(
                domain.as_str(),
                at,
                &format!("domain {domain} disabled: its users cannot log in, and their sessions have ended"),
            );
        }
        Domain::Remove { domain } => {
            let at = admin::remove_domain(&home.change_context(), &domain)?;
            said(domain.as_str(), at, &format!("domain {domain} removed"));
        }
        Domain::List => {
            let domains = admin::list_domains(home.source())?;
            if json {
                domains.iter().for_each(|row| {
                    let (name, id) = (row.name.to_string(), row.id.to_keystone());
                    output::json_line(&json!({ "domain": name, "id": id, "enabled": row.enabled }));
                });
                return Ok(());
            }
            let row = |row: admin::DomainSummary| {
                vec![row.name.to_string(), enabled(row.enabled), row.id.to_keystone()]
            };
            output::table(&["DOMAIN", "ENABLED", "ID"], &domains.into_iter().map(row).collect::<Vec<_>>());
        }
    }
    Ok(())
}

pub(super) fn project(home: &Home, command: Project, json: bool) -> anyhow::Result<()> {
    let find = |text: &str| admin::find_project(home.source(), text);
    match command {
        Project::Add { name, domain, description } => {
            let (id, at) =
                admin::add_project(&home.change_context(), &domain, &name, description.as_deref())?;
            let value = json!({ "project": name, "domain": domain.to_string(), "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("project {name}@{domain} created: {id}"));
        }
        Project::Set { project, description, enable, disable } => {
            let id = find(&project)?;
            let edit = admin::ProjectEdit { enabled: (enable || disable).then_some(enable), description };
            let at = admin::set_project(&home.change_context(), &id, &edit)?;
            let value = json!({ "project": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("project {project} changed"));
        }
        Project::Remove { project } => {
            let id = find(&project)?;
            let at = admin::delete::<tables::Project>(&home.change_context(), &id)?;
            admin::sweep_all(&home.change_context())?;
            let value = json!({ "project": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("project {project} removed; its sessions have ended"));
        }
        Project::List => {
            let projects = admin::list_projects(home.source())?;
            if json {
                projects.iter().for_each(|row| {
                    let stores: Vec<String> = row.datastores.iter().map(ToString::to_string).collect();
                    output::json_line(&json!({
                        "project": row.name, "domain": row.domain.to_string(), "id": row.id.to_string(),
                        "enabled": row.enabled, "description": row.description, "datastores": stores,
                    }));
                });
                return Ok(());
            }
            let row = |row: admin::ProjectSummary| {
                let stores: Vec<String> = row.datastores.iter().map(ToString::to_string).collect();
                let stores = if stores.is_empty() { "-".to_owned() } else { stores.join(", ") };
                let name = format!("{}@{}", row.name, row.domain);
                vec![name, enabled(row.enabled), row.id.to_string(), stores, or_dash(row.description)]
            };
            let rows: Vec<_> = projects.into_iter().map(row).collect();
            output::table(&["PROJECT", "ENABLED", "ID", "DATASTORES", "DESCRIPTION"], &rows);
        }
    }
    Ok(())
}

pub(super) fn catalog(home: &Home, command: Catalog, json: bool) -> anyhow::Result<()> {
    match command {
        Catalog::List => {
            let services = admin::list_catalog(home.source())?;
            let mut rows = Vec::new();
            for service in &services {
                let (kind, name) = (&service.service.kind, &service.service.name);
                if json {
                    let endpoint = |entry: &admin::CatalogEntry| {
                        json!({
                            "id": entry.id.to_string(), "interface": entry.endpoint.interface.name(),
                            "region": entry.endpoint.region, "url": entry.endpoint.url,
                        })
                    };
                    let endpoints: Vec<Value> = service.endpoints.iter().map(endpoint).collect();
                    output::json_line(
                        &json!({ "id": service.id.to_string(), "type": kind, "name": name, "endpoints": endpoints }),
                    );
                }
                let first = vec![
                    kind.clone(),
                    name.clone(),
                    "-".into(),
                    "-".into(),
                    "-".into(),
                    service.id.to_string(),
                ];
                rows.extend(service.endpoints.is_empty().then_some(first));
                rows.extend(service.endpoints.iter().map(|entry| {
                    let row = &entry.endpoint;
                    let region = or_dash(row.region.as_deref());
                    vec![
                        kind.clone(),
                        name.clone(),
                        row.interface.to_string(),
                        region,
                        row.url.clone(),
                        service.id.to_string(),
                    ]
                }));
            }
            if !json {
                output::table(&["TYPE", "NAME", "INTERFACE", "REGION", "URL", "SERVICE"], &rows);
            }
        }
        Catalog::Service { kind, name } => {
            let (id, at) = admin::add_service(&home.change_context(), &kind, &name)?;
            let value = json!({ "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("service {name} ({kind}) created: {id}"));
        }
        Catalog::Endpoint { service, interface, url, region } => {
            let (id, at) =
                admin::add_endpoint(&home.change_context(), &service, interface, region.as_deref(), &url)?;
            let value = json!({ "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("the {interface} endpoint is {url}: {id}"));
        }
        Catalog::RemoveService { service } => {
            let at = admin::remove_service(&home.change_context(), &service)?;
            output::done(json, &json!({ "revision": at.revision.0 }), &format!("service {service} removed"));
        }
        Catalog::RemoveEndpoint { endpoint } => {
            let at = admin::remove_endpoint(&home.change_context(), &endpoint)?;
            output::done(
                json,
                &json!({ "revision": at.revision.0 }),
                &format!("endpoint {endpoint} removed"),
            );
        }
    }
    Ok(())
}

pub(super) fn revoke(home: &Home, command: Revoke, json: bool) -> anyhow::Result<()> {
    let (mark, text) = match command {
        Revoke::List => return list_revocations(home, json),
        Revoke::Token { token } => {
            let (own, _) = audit_ids(home, &token)?;
            (Revoked::Token(own), "token revoked".to_owned())
        }
        Revoke::Chain { token } => {
            let (_, chain) = audit_ids(home, &token)?;
            (Revoked::Chain(chain), "audit chain revoked".to_owned())
        }
        Revoke::User { user } => {
            let text = format!("all sessions of {user} revoked");
            (user_mark(home, &user)?, text)
        }
        Revoke::Project { project } => {
            let id = admin::find_project(home.source(), &project)?;
            (Revoked::Project(id), format!("all sessions for project {project} revoked"))
        }
        Revoke::Domain { domain } => {
            let domains = admin::list_domains(home.source())?;
            let found = domains.iter().find(|row| row.name == domain);
            let id = found.with_context(|| format!("no domain `{domain}`; see `enfilade domain list`"))?.id;
            (Revoked::Domain(id), format!("all sessions of users of domain {domain} and for it revoked"))
        }
    };
    let at = admin::revoke(&home.change_context(), &[mark], None, &text)?;
    output::done(json, &json!({ "revision": at.revision.0 }), &text);
    Ok(())
}

pub(super) fn session(home: &Home, command: Session, json: bool) -> anyhow::Result<()> {
    let user = match command {
        Session::List { user } => return list_sessions(home, user.as_ref(), json),
        Session::End { user } => user,
    };
    let text = format!("all sessions of {user} ended");
    let at = admin::revoke(&home.change_context(), &[user_mark(home, &user)?], None, &text)?;
    output::done(json, &json!({ "user": user.to_string(), "revision": at.revision.0 }), &text);
    Ok(())
}

fn user_mark(home: &Home, user: &Userid) -> anyhow::Result<Revoked> {
    let users = list_users(home.source())?;
    let found = users.iter().find(|row| row.userid == user.to_string());
    Ok(Revoked::User(found.with_context(|| format!("no user `{user}`; see `enfilade user list`"))?.id))
}

/// The audit ids of a token and of its chain. If `text` is an audit id, both are that id; `-` reads a token from standard input.
fn audit_ids(home: &Home, text: &str) -> anyhow::Result<([u8; 16], [u8; 16])> {
    if text != "-" {
        let id = audit_id_from_text(text)
            .context("expected an audit id of 22 characters, or `-` and the token on standard input")?;
        return Ok((id, id));
    }
    let mut line = String::new();
    std::io::stdin().lock().take(2048).read_line(&mut line).context("the token cannot be read")?;
    let token = Secret::new(line.trim().as_bytes()).context("no token on standard input")?;
    let ring = crate::keys::read(&home.fernet_keys())?.context("no keys; run `enfilade keys init`")?;
    let claim = enfilade_identity::Claim::read(&ring, &SessionAsk { token })?;
    Ok((claim.audit.own, claim.chain()))
}

fn list_revocations(home: &Home, json: bool) -> anyhow::Result<()> {
    let rows = admin::list_revocations(home.source())?;
    let described = |mark: &Revoked| match mark {
        Revoked::Token(id) => ("token", audit_id_to_text(id)),
        Revoked::Chain(id) => ("chain", audit_id_to_text(id)),
        Revoked::User(id) => ("user", id.to_string()),
        Revoked::Project(id) => ("project", id.to_string()),
        Revoked::Domain(id) => ("domain", id.to_keystone()),
        Revoked::Trust(id) => ("trust", id.to_string()),
        Revoked::Consumer(id) => ("consumer", audit_id_to_text(id)),
        Revoked::Credential(id) => ("application credential", id.to_string()),
        Revoked::Group(id) => ("group", id.to_string()),
        Revoked::Role(id) => ("role", id.to_string()),
        Revoked::Link(id) => ("roles on a scope, or groups and roles of a domain", audit_id_to_text(id)),
        Revoked::Horizon | Revoked::Passed | Revoked::Last => ("nothing", String::new()),
    };
    if json {
        rows.iter().for_each(|row| {
            let (kind, id) = described(&row.mark);
            output::json_line(&json!({
                "kind": kind, "id": id, "issued_before": row.revocation.issued_before,
                "revoked_at": row.revocation.revoked_at,
            }));
        });
        return Ok(());
    }
    let row = |row: &admin::RevocationSummary| {
        let (kind, id) = described(&row.mark);
        vec![
            kind.to_owned(),
            id,
            output::time(row.revocation.issued_before),
            output::time(row.revocation.revoked_at),
        ]
    };
    output::table(&["WHAT", "ID", "ISSUED UP TO", "REVOKED"], &rows.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

fn list_sessions(home: &Home, user: Option<&Userid>, json: bool) -> anyhow::Result<()> {
    let (users, domains) = (list_users(home.source())?, admin::list_domains(home.source())?);
    let projects = admin::list_projects(home.source())?;
    let revoked = admin::list_revocations(home.source())?;
    let is_revoked = |session: &IssuedSession, userid: &str| {
        let realm = userid.rsplit_once('@').map_or("", |(_, realm)| realm);
        let covers = |row: &&admin::RevocationSummary| {
            row.mark.is_timeless() || session.issued_at <= row.revocation.issued_before
        };
        revoked.iter().filter(covers).any(|row| {
            match &row.mark {
                Revoked::Token(id) => *id == session.own,
                Revoked::Chain(id) => *id == session.chain,
                Revoked::User(id) => *id == session.user,
                Revoked::Project(id) => session.scope == IssuedFor::Project(*id.bytes()),
                Revoked::Domain(id) => {
                    let is_theirs = domains.iter().any(|row| row.id == *id && row.name.as_str() == realm);
                    is_theirs || session.scope == IssuedFor::Domain(*id.bytes())
                }
                // The record of a session does not contain what these marks match.
                Revoked::Trust(_)
                | Revoked::Consumer(_)
                | Revoked::Credential(_)
                | Revoked::Group(_)
                | Revoked::Role(_)
                | Revoked::Link(_)
                | Revoked::Horizon
                | Revoked::Passed
                | Revoked::Last => false,
            }
        })
    };
    let scope = |scope: &IssuedFor| match scope {
        IssuedFor::Nothing => "-".to_owned(),
        IssuedFor::System => "system".to_owned(),
        IssuedFor::Project(id) => match projects.iter().find(|row| row.id.bytes() == id) {
            Some(row) => format!("project {}@{}", row.name, row.domain),
            None => "a deleted project".to_owned(),
        },
        IssuedFor::Domain(id) => match domains.iter().find(|row| row.id.bytes() == id) {
            Some(row) => format!("domain {}", row.name),
            None => "a deleted domain".to_owned(),
        },
    };
    let mut rows = Vec::new();
    for session in home.sessions()?.live(crate::clock::now().unix_seconds) {
        // A removed user has no session.
        let Some(found) = users.iter().find(|row| row.id == session.user && row.enabled) else { continue };
        let is_wanted = user.is_none_or(|user| user.to_string() == found.userid);
        if !is_wanted || is_revoked(&session, &found.userid) {
            continue;
        }
        let (own, chain) = (audit_id_to_text(&session.own), audit_id_to_text(&session.chain));
        if json {
            output::json_line(&json!({
                "user": found.userid, "for": scope(&session.scope), "issued_at": session.issued_at,
                "expires_at": session.expires_at, "audit_id": own, "chain": chain,
            }));
        }
        let (issued, expires) = (output::time(session.issued_at), output::time(session.expires_at));
        rows.push(vec![found.userid.clone(), scope(&session.scope), issued, expires, own, chain]);
    }
    if !json {
        output::table(&["USER", "FOR", "ISSUED", "EXPIRES", "AUDIT ID", "CHAIN"], &rows);
    }
    Ok(())
}
