//! `enfilade bootstrap`, `domain`, `project` and `catalog`.

use super::{changes, enabled, keeping_administrators, or_dash, set_or_removed, similar};
use crate::cli::keystone::{Bootstrap, Catalog, Domain, Project};
use crate::clock;
use crate::example;
use crate::fleet::Use;
use crate::home::{Home, IfMissing, Installation, config_of};
use crate::{identity_endpoints, output, prompt};
use anyhow::{bail, ensure};
use enfilade_admin::keystone as admin;
use enfilade_admin::{init_keys, list_users};
use enfilade_facts::At;
use enfilade_facts::tables::{self, Interface};
use enfilade_facts::vocabulary::{NameInDomain, ProjectId, Realm, Secret, ServiceId, Userid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sets up an OpenStack cloud, and creates a data directory if there is none. The password is checked before anything else. So a refused password
/// creates nothing.
pub(super) fn bootstrap(
    new: Bootstrap,
    data: Option<PathBuf>,
    config: Option<&Path>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let new = Bootstrap {
        public_url: new.public_url.as_deref().map(with_path),
        internal_url: new.internal_url.as_deref().map(with_path),
        admin_url: new.admin_url.as_deref().map(with_path),
        ..new
    };
    let rules = config_of(data.clone(), config)?.password_rules();
    let password = prompt::new_password(new.password_stdin)?;
    rules.check_form(&password)?;
    let wanted = wanted(&new, password);
    wanted.check()?;
    let home = &Home::open(Installation::find(data, config, IfMissing::Create)?, Use::Command)?;
    wanted.check_user(home.source(), clock::now().unix_seconds)?;
    let (kept, of_region) = urls_of(home, &new)?;
    let address = home.config.tls.listen.for_client();
    let is_local = new.public_url.is_none()
        && kept.public.is_none()
        && ["127.", "localhost:", "[::1]"].iter().any(|own| address.starts_with(own));
    let keeps_public = new.public_url.is_none() && kept.public.is_some();
    let public = new.public_url.or(kept.public.clone()).unwrap_or_else(|| format!("https://{address}/v3"));
    let internal = next_url(new.internal_url, kept.internal.as_deref(), kept.public.as_deref(), &public);
    let administrators = next_url(new.admin_url, kept.admin.as_deref(), kept.public.as_deref(), &public);
    let others_kept = [("internal", &internal, kept.internal), ("admin", &administrators, kept.admin)].map(
        |(kind, url, kept)| {
            (kept.as_ref() == Some(url) && *url != public).then(|| format!("{kind} URL {url}"))
        },
    );
    let public_kept = keeps_public.then(|| format!("public URL {public}"));
    let all_kept: Vec<String> = [public_kept].into_iter().chain(others_kept).flatten().collect();
    let keys = home.fernet_keys();
    init_keys(&keys)?;
    let urls = vec![
        (Interface::Public, public.clone()),
        (Interface::Internal, internal),
        (Interface::Admin, administrators),
    ];
    let wanted = admin::Bootstrap { urls, ..wanted };
    let before = list_users(home.source())?;
    let project = admin::bootstrap(&home.change_context(), &wanted)?;
    let full = wanted.user.to_string();
    let is_new = before.iter().all(|row| row.userid != full);
    let name = wanted.user.name();
    let has_name = |userid: &str| userid.parse::<Userid>().is_ok_and(|user| user.name() == name);
    let others: Vec<&str> = before
        .iter()
        .map(|row| row.userid.as_str())
        .filter(|userid| *userid != full && has_name(userid))
        .collect();
    tell_unencrypted(&wanted.urls);
    if json {
        output::json_line(&json!({
            "user": full, "created": is_new, "project": project.to_string(), "url": public, "same_name": others,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let made = if is_new { "created" } else { "already existed, and the password of the user was replaced" };
    output::line(&format!(
        "user {full} {made}; the user has the role {} on project {} and on the system",
        wanted.role,
        NameInDomain { name: wanted.project.clone(), domain: wanted.user.realm().clone() }
    ));
    tell_kept_urls(&all_kept, &new.region, of_region);
    if is_local {
        output::line(&format!(
            "the catalog contains the URL {public}, which works only on this machine: for other machines, run this command again with --public-url \
             https://HOST:PORT/v3"
        ));
    }
    tell_same_name(home, &wanted.user, &others);
    tell_bootstrap_example(home, &wanted, &public);
    Ok(ExitCode::SUCCESS)
}

/// The records that the options describe. They contain only the URLs that are in the options.
fn wanted(new: &Bootstrap, password: Secret) -> admin::Bootstrap {
    let urls = [
        (Interface::Public, &new.public_url),
        (Interface::Internal, &new.internal_url),
        (Interface::Admin, &new.admin_url),
    ];
    admin::Bootstrap {
        user: new.user.clone(),
        password,
        project: new.project.clone(),
        role: new.role.clone(),
        service: new.service.clone(),
        region: Some(new.region.clone()),
        urls: urls.into_iter().filter_map(|(kind, url)| Some((kind, url.clone()?))).collect(),
    }
}

/// The URLs of the identity service in the catalog.
#[derive(Default)]
struct Urls {
    public: Option<String>,
    internal: Option<String>,
    admin: Option<String>,
}

/// The URLs that an earlier bootstrap stored for the service in `new`. If the service has endpoints in the region in `new`, returns their URLs and
/// `None`. Otherwise returns the URLs of another region that has a public endpoint, and the name of that region. The name is empty for endpoints
/// without a region. If there is no such region, returns no URLs, and `None`.
fn urls_of(home: &Home, new: &Bootstrap) -> anyhow::Result<(Urls, Option<String>)> {
    let mut of_regions: BTreeMap<String, Urls> = BTreeMap::new();
    let services = admin::list_catalog(home.source())?;
    let is_it =
        |row: &&admin::CatalogSummary| row.service.kind == "identity" && row.service.name == new.service;
    for entry in services.into_iter().filter(|row| is_it(&row)).flat_map(|row| row.endpoints) {
        let urls = of_regions.entry(entry.endpoint.region.unwrap_or_default()).or_default();
        let url = match entry.endpoint.interface {
            Interface::Public => &mut urls.public,
            Interface::Internal => &mut urls.internal,
            Interface::Admin => &mut urls.admin,
        };
        *url = Some(entry.endpoint.url);
    }
    if let Some(urls) = of_regions.remove(&new.region) {
        return Ok((urls, None));
    }
    let other = of_regions.into_iter().find(|(_, urls)| urls.public.is_some());
    Ok(other.map(|(region, urls)| (urls, Some(region))).unwrap_or_default())
}

/// Adds `/v3` to a URL without a path, because clients find the API at `/v3`.
fn with_path(url: &str) -> String {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
    let host = rest.trim_end_matches('/');
    match host.is_empty() || host.contains(['/', '?', '#']) {
        true => url.to_owned(),
        false => format!("{}/v3", url.trim_end_matches('/')),
    }
}

/// Warns of URLs to which clients send passwords and tokens without encryption.
fn tell_unencrypted(urls: &[(Interface, String)]) {
    let plain: BTreeSet<&str> = urls
        .iter()
        .map(|(_, url)| url.as_str())
        .filter(|url| identity_endpoints::is_unencrypted(url))
        .collect();
    for url in plain {
        output::note(&format!(
            "warning: clients send passwords and tokens to {url} without encryption: use https://, unless the network is trusted"
        ));
    }
}

/// Chooses the internal URL, or the URL for administrators. If a URL is given, this URL is used. Otherwise the URL of an earlier bootstrap is used,
/// if it is not only a copy of the former public URL. Otherwise the public URL is used.
fn next_url(given: Option<String>, kept: Option<&str>, former_public: Option<&str>, public: &str) -> String {
    let kept = kept.filter(|kept| Some(*kept) != former_public);
    given.unwrap_or_else(|| kept.unwrap_or(public).to_owned())
}

/// Prints which URLs of an earlier bootstrap are used again for `region`. `of_region` is the other region from which they come; empty for endpoints
/// without a region, and `None` if they come from `region` itself.
fn tell_kept_urls(kept: &[String], region: &str, of_region: Option<String>) {
    if kept.is_empty() {
        return;
    }
    let (urls, change) = (
        kept.join(" and the "),
        "to change URLs, add --public-url, --internal-url or --admin-url with https://HOST:PORT/v3",
    );
    output::line(&match of_region.as_deref() {
        None => format!("the catalog keeps the {urls} of an earlier bootstrap; {change}"),
        Some("") => format!("region {region} gets the {urls} of the endpoints without a region; {change}"),
        Some(other) => format!("region {region} gets the {urls} of region {other}; {change}"),
    });
}

/// Warns if users of other domains have the same name. As in Keystone, a client that searches for a user only by the name finds all of these users.
fn tell_same_name(home: &Home, user: &Userid, others: &[&str]) {
    let Some(other) = others.first() else { return };
    let (name, realm) = (output::word(user.name()), output::word(user.realm().as_str()));
    output::line(&format!(
        "another user has the name {}: {}; so `openstack user show {name}` says \"more than one\". Give the domain, as in the first command below. \
         Or use one administrator for the cloud and for this server: run the second and the third command (the third command removes the other \
         user):\n  openstack user show --domain {realm} {name}\n  {}\n  {}",
        user.name(),
        others.join(", "),
        example::command(
            home,
            &format!("role assign --path / --auth-id {} Admin", output::word(&user.to_string()))
        ),
        example::command(home, &format!("user remove {}", output::word(other))),
    ));
}

fn tell_bootstrap_example(home: &Home, new: &admin::Bootstrap, public: &str) {
    let user = output::word(new.user.name());
    let (realm, project) = (output::word(new.user.realm().as_str()), output::word(&new.project));
    let trust = example::authority(home)
        .map(|path| format!(" OS_CACERT={}", output::word(&path.display().to_string())))
        .unwrap_or_default();
    output::line(&format!(
        "try, while `{}` runs:\n  export OS_AUTH_URL={} OS_USERNAME={user} OS_USER_DOMAIN_NAME={realm} OS_PROJECT_NAME={project} \
         OS_PROJECT_DOMAIN_NAME={realm} OS_IDENTITY_API_VERSION=3{trust}\n  openstack token issue      # asks for the password",
        example::command(home, "serve"),
        output::word(public),
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
            require_domain(home, &domain)?;
            let at = admin::set_domain(&home.change_context(), &domain, true)?;
            said(domain.as_str(), at, &format!("domain {domain} enabled"));
        }
        Domain::Disable { domain, force } => {
            require_domain(home, &domain)?;
            let at = keeping_administrators(home, force, |ctx| Ok(admin::set_domain(ctx, &domain, false)?))?;
            said(
                domain.as_str(),
                at,
                &format!("domain {domain} disabled: its users cannot log in, and their sessions have ended"),
            );
        }
        Domain::Remove { domain, force } => {
            require_domain(home, &domain)?;
            let at = keeping_administrators(home, force, |ctx| Ok(admin::remove_domain(ctx, &domain)?))?;
            said(domain.as_str(), at, &format!("domain {domain} removed"));
        }
        Domain::List => {
            let domains = admin::list_domains(home.source())?;
            if json {
                domains.iter().for_each(|row| {
                    let (name, id) = (row.name.to_string(), row.id.to_keystone());
                    output::json_line(&json!({ "domain": name, "id": id, "enabled": row.enabled, "description": row.description }));
                });
                return Ok(());
            }
            let row = |row: admin::DomainSummary| {
                vec![
                    row.name.to_string(),
                    enabled(row.enabled),
                    row.id.to_keystone(),
                    or_dash(row.description),
                ]
            };
            output::table(
                &["DOMAIN", "ENABLED", "ID", "DESCRIPTION"],
                &domains.into_iter().map(row).collect::<Vec<_>>(),
            );
        }
    }
    Ok(())
}

/// Refuses a domain that does not exist. The error contains the most similar name.
pub(super) fn require_domain(home: &Home, name: &Realm) -> anyhow::Result<()> {
    let domains = admin::list_domains(home.source())?;
    if domains.iter().any(|row| row.name == *name) {
        return Ok(());
    }
    let similar = similar(domains.iter().map(|row| row.name.as_str()), name.as_str());
    bail!("there is no domain `{name}`{similar}; see `enfilade domain list`")
}

/// The project that a command names: NAME, NAME@DOMAIN or the id.
pub(super) fn find_project(home: &Home, text: &str) -> anyhow::Result<ProjectId> {
    let found = admin::find_project(home.source(), text);
    if let (Err(_), Ok(NameInDomain { domain, .. })) = (&found, text.parse()) {
        require_domain(home, &domain)?;
    }
    Ok(found?)
}

/// The project that a command names, and its full name NAME@DOMAIN for the answer.
pub(super) fn find_with_name(home: &Home, text: &str) -> anyhow::Result<(ProjectId, String)> {
    let id = find_project(home, text)?;
    Ok((id, admin::name_of_project(home.source(), &id)?))
}

/// The name and the domain of a new project.
fn place(text: &str, domain: Option<Realm>) -> anyhow::Result<NameInDomain> {
    match (text.contains('@'), domain) {
        (true, Some(domain)) => bail!(
            "`{text}` already contains a domain: give either NAME@DOMAIN, or a NAME without `@` and --domain {}",
            output::word(domain.as_str())
        ),
        (true, None) => Ok(text.parse()?),
        (false, domain) => {
            let domain = domain.map_or_else(|| "Default".parse(), Ok)?;
            Ok(NameInDomain { name: text.to_owned(), domain })
        }
    }
}

pub(super) fn project(home: &Home, command: Project, json: bool) -> anyhow::Result<()> {
    let find = |text: &str| find_with_name(home, text);
    match command {
        Project::Add { name, domain, description } => {
            let new = place(&name, domain)?;
            let NameInDomain { name, domain } = &new;
            require_domain(home, domain)?;
            let (id, at) = admin::add_project(&home.change_context(), domain, name, description.as_deref())?;
            let value = json!({ "project": name, "domain": domain.as_str(), "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("project {new} created: {id}"));
        }
        Project::Set { project, description, enable, disable, force } => {
            let (id, project) = find(&project)?;
            let edit = admin::ProjectEdit { enabled: (enable || disable).then_some(enable), description };
            let at = keeping_administrators(home, force, |ctx| Ok(admin::set_project(ctx, &id, &edit)?))?;
            let value = json!({
                "project": id.to_string(), "enabled": edit.enabled, "description": edit.description, "revision": at.revision.0,
            });
            let enabled = edit.enabled.map(|enabled| match enabled {
                true => "enabled".to_owned(),
                false => "disabled; its sessions have ended, and its application credentials and trusts are refused until it is enabled again".to_owned(),
            });
            let description = set_or_removed("description", edit.description.as_deref());
            output::done(json, &value, &changes(&format!("project {project}"), [description, enabled]));
        }
        Project::Remove { project, force } => {
            let (id, project) = find(&project)?;
            let before = admin::list_projects(home.source())?.into_iter().find(|row| row.id == id);
            let at = keeping_administrators(home, force, |ctx| {
                let at = admin::delete::<tables::Project>(ctx, &id)?;
                admin::sweep_all(ctx)?;
                Ok(at)
            })?;
            let unbound: Vec<String> =
                before.into_iter().flat_map(|row| row.datastores).map(|name| name.to_string()).collect();
            let value = json!({ "project": id.to_string(), "unbound": unbound, "revision": at.revision.0 });
            let unbound: Vec<&str> = unbound.iter().map(String::as_str).collect();
            let unbound = match unbound.as_slice() {
                [] => String::new(),
                names => format!("; no longer bound to a project: datastore {}", output::some(names)),
            };
            output::done(
                json,
                &value,
                &format!("project {project} removed; its sessions have ended{unbound}"),
            );
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
                let name = row.whole().to_string();
                vec![name, enabled(row.enabled), row.id.to_string(), stores, or_dash(row.description)]
            };
            let rows: Vec<_> = projects.into_iter().map(row).collect();
            output::table(&["PROJECT", "ENABLED", "ID", "DATASTORES", "DESCRIPTION"], &rows);
        }
    }
    Ok(())
}

/// The region of an endpoint, if the options contain no region. If the endpoint already exists without a region, the result is no region. Otherwise
/// the result is the only region of the catalog. Fails if the catalog has several regions.
fn usual_region(home: &Home, service: &ServiceId, interface: Interface) -> anyhow::Result<Option<String>> {
    let services = admin::list_catalog(home.source())?;
    let is_without = |row: &admin::CatalogSummary| {
        let mut of_interface = row.endpoints.iter().filter(|entry| entry.endpoint.interface == interface);
        row.id == *service && of_interface.any(|entry| entry.endpoint.region.is_none())
    };
    if services.iter().any(is_without) {
        return Ok(None);
    }
    let regions: BTreeSet<String> = services
        .into_iter()
        .flat_map(|row| row.endpoints)
        .filter_map(|entry| entry.endpoint.region)
        .collect();
    ensure!(
        regions.len() < 2,
        "the catalog has several regions: add --region with one of {}, or with an empty value for an endpoint without a region",
        regions.into_iter().collect::<Vec<_>>().join(", ")
    );
    Ok(regions.into_iter().next())
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
                        entry.id.to_string(),
                        service.id.to_string(),
                    ]
                }));
            }
            if !json {
                output::table(&["TYPE", "NAME", "INTERFACE", "REGION", "URL", "ENDPOINT", "SERVICE"], &rows);
            }
        }
        Catalog::Service { kind, name } => {
            let (admin::AddedService { id, is_new }, at) =
                admin::add_service(&home.change_context(), &kind, &name)?;
            let value = json!({ "id": id.to_string(), "created": is_new, "revision": at.revision.0 });
            let made = if is_new { "created" } else { "already exists, so nothing was changed; its id" };
            output::done(json, &value, &format!("service {name} ({kind}) {made}: {id}"));
        }
        Catalog::Endpoint { service, interface, url, region } => {
            let service = admin::find_service(home.source(), &service)?;
            let region = match region {
                Some(region) => Some(region).filter(|region| !region.is_empty()),
                None => usual_region(home, &service, interface)?,
            };
            let (id, at) =
                admin::add_endpoint(&home.change_context(), &service, interface, region.as_deref(), &url)?;
            let value = json!({ "id": id.to_string(), "region": region, "revision": at.revision.0 });
            let of_region = region.map(|region| format!(" of region {region}")).unwrap_or_default();
            output::done(
                json,
                &value,
                &format!("the {interface} endpoint{of_region} has the URL {url} and the id {id}"),
            );
        }
        Catalog::RemoveService { service } => {
            let id = admin::find_service(home.source(), &service)?;
            let at = admin::remove_service(&home.change_context(), &id)?;
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

#[cfg(test)]
mod tests {
    use super::{next_url, with_path};

    #[test]
    fn a_url_without_a_path_gets_that_of_the_api() {
        for (url, expected) in [
            ("https://k", "https://k/v3"),
            ("http://k:5000/", "http://k:5000/v3"),
            ("https://[::1]:8443", "https://[::1]:8443/v3"),
            ("https://k/v3", "https://k/v3"),
            ("https://k/identity", "https://k/identity"),
            ("ftp://k", "ftp://k"),
            ("https://", "https://"),
        ] {
            assert_eq!(with_path(url), expected);
        }
    }

    #[test]
    fn a_new_public_url_replaces_only_copies_of_the_former_one() {
        let next = |given: Option<&str>, kept| next_url(given.map(str::to_owned), kept, Some("old"), "new");
        assert_eq!(next(None, Some("old")), "new");
        assert_eq!(next(None, None), "new");
        assert_eq!(next(None, Some("inside")), "inside");
        assert_eq!(next(Some("given"), Some("inside")), "given");
    }
}
