//! `enfilade import keystone`: reads the records of a Keystone over its API and keeps their ids.

mod federation;
mod for_services;
mod totp;

use self::federation::federation;
use self::for_services::for_services;
use self::totp::totp;
use super::cloud::{Api, Cloud};
use super::dump;
use super::report::{Report, Step};
use crate::example;
use crate::home::Home;
use crate::operations;
use crate::output::{self, counted, some};
use crate::progress::Progress;
use anyhow::{Context as _, ensure};
use enfilade_admin::Imported;
use enfilade_admin::keystone::{
    CloudCredential, CloudRecord, CloudRecordId, CloudUser, DomainSummary, import_cloud, list_catalog,
    list_domains, taken_names,
};
use enfilade_facts::tables::{
    AccessRule, Delegation, Domain, Endpoint, GrantKey, GrantScope, Grantee, Member, MembershipKey,
    NamedRole, Password, Profile, Project, Region, RegionId, Service,
};
use enfilade_facts::vocabulary::{DomainId, Realm, RoleId, UserId, from_rfc3339};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

/// The options of an import from Keystone.
pub(super) struct Terms<'a> {
    /// A dump of Keystone's database, for the hashes of passwords.
    pub(super) passwords: Option<&'a Path>,
    /// Whether to leave out records whose names already belong to other records of this server. If `false`, a taken name is an error.
    pub(super) leave_out_taken: bool,
}

/// Reads the records over the API, and the passwords from the dump.
pub(super) fn read(name: &str, terms: &Terms<'_>) -> anyhow::Result<Asked> {
    let passwords = match terms.passwords {
        None => HashMap::new(),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("`{}` cannot be read", file.display()))?;
            dump::passwords(&text).with_context(|| format!("`{}`", file.display()))?
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ask(name, &passwords))
}

pub(super) fn run(
    home: &Home,
    name: &str,
    terms: &Terms<'_>,
    Asked { things, left, limit_model }: &Asked,
    pretend: bool,
) -> anyhow::Result<Report> {
    if !terms.leave_out_taken {
        refuse_taken(home, things)?;
    }
    let mut report = left.clone();
    let mut progress = Progress::start("importing");
    let all = things.len() as u64;
    report
        .extend(import_cloud(&home.change_context(), things, pretend, |done| progress.at(done as u64, all))?);
    let at = home.change_context().facts.at();
    let mut report = Report { items: report, at, pretend, notes: Vec::new(), next: Vec::new() };
    if !pretend && example::make_first_keys(home)? {
        report.notes.push("Fernet keys were created: tokens are issued with them.".to_owned());
    }
    report.notes.extend(left_with_local(things, &list_domains(home.source())?));
    report.notes.extend(other_limit_model(home, limit_model.as_deref()));
    report.next = next(home, name, terms, &report);
    if !pretend {
        report.next.extend(identity_endpoints(home, things)?);
    }
    Ok(report)
}

/// Refuses an import if one of its records has the same name as a record here, but another id.
fn refuse_taken(home: &Home, things: &[CloudRecord]) -> anyhow::Result<()> {
    let taken = taken_names(home.source(), things)?;
    let names: Vec<&str> = taken.iter().map(String::as_str).collect();
    ensure!(
        taken.is_empty(),
        "nothing was imported: on this server, the names of {} of the cloud belong to records with other ids: {}. Import into an empty data directory (--data DIR), and run `enfilade bootstrap` after the import. Or add --leave-out-taken, which leaves out these records and every role assignment that needs them",
        counted(taken.len(), "record", "records"),
        some(&names)
    );
    Ok(())
}

/// A note if the source has records in a domain `local`. They are left out, because this server has a domain `local` of its own.
fn left_with_local(things: &[CloudRecord], here: &[DomainSummary]) -> Option<String> {
    let local = things.iter().find_map(|thing| match thing {
        CloudRecord::Domain(id, row)
            if row.name == Realm::local() && here.iter().all(|domain| domain.id != *id) =>
        {
            Some(*id)
        }
        _ => None,
    })?;
    let is_in_it = |thing: &&CloudRecord| match thing {
        CloudRecord::Project(_, row) => row.domain == local,
        CloudRecord::User(_, user) => user.domain == local,
        CloudRecord::Group(_, domain, ..) => *domain == local,
        CloudRecord::Role(_, role) => role.domain == Some(local),
        _ => false,
    };
    let count = things.iter().filter(is_in_it).count();
    (count > 0).then(|| {
        format!(
            "The domain `local` of the source was left out with {} in it, because this server has a domain `local` of its own: to import them, \
             rename the domain of the source first, and import again.",
            counted(count, "user, group, project or role", "users, groups, projects and roles")
        )
    })
}

/// A note if the source has registered limits, and another enforcement model than this server.
fn other_limit_model(home: &Home, source: Option<&str>) -> Option<String> {
    let here = home.config.identity.limit_model.model().name();
    source.filter(|source| *source != here).map(|source| {
        format!(
            "The source has the enforcement model `{source}` for limits, and this server has `{here}`: see `[identity] limit_model`."
        )
    })
}

/// A step for the operator: to change the endpoints of the identity service that still have the URL of the source.
fn identity_endpoints(home: &Home, things: &[CloudRecord]) -> anyhow::Result<Option<Step>> {
    let is_of_source = |url: &str| {
        things.iter().any(|thing| matches!(thing, CloudRecord::Endpoint(_, row) if row.url == url))
    };
    let (mut urls, mut commands) = (Vec::new(), Vec::new());
    for found in list_catalog(home.source())?.iter().filter(|found| found.service.kind == "identity") {
        for entry in found.endpoints.iter().filter(|entry| is_of_source(&entry.endpoint.url)) {
            let Endpoint { interface, region, url, .. } = &entry.endpoint;
            let region = region.as_ref().map(|region| format!(" --region {}", output::word(region)));
            let change = format!(
                "catalog endpoint {} {interface} https://HOST:PORT/v3{}",
                found.id,
                region.unwrap_or_default()
            );
            commands.push(example::command(home, &change));
            urls.push(url.clone());
        }
    }
    urls.sort();
    urls.dedup();
    let why = format!(
        "the catalog still contains the URLs of the identity service of the source ({}); if clients are to use this server at another address, change them",
        urls.join(", ")
    );
    Ok((!commands.is_empty()).then_some(Step { why, commands }))
}

fn next(home: &Home, name: &str, terms: &Terms<'_>, report: &Report) -> Vec<Step> {
    let command = |rest: &str| example::command(home, rest);
    let import = format!("import keystone --os-cloud {}", output::word(name));
    let dump = terms.passwords;
    if report.pretend {
        let dump = dump.map(|file| format!(" --passwords {}", output::word(&file.display().to_string())));
        let flag = if terms.leave_out_taken { " --leave-out-taken" } else { "" };
        let commands = vec![command(&format!("{import}{}{flag}", dump.unwrap_or_default()))];
        return vec![Step { why: "nothing was changed; import with".to_owned(), commands }];
    }
    let mut next = Vec::new();
    let without = report.names("user", |item| item.left_out.is_none() && item.differs.is_some());
    if let Some(first) = without.first() {
        let why = format!(
            "{} until a password is imported or set: {}",
            counted(
                without.len(),
                "user cannot log in with a password",
                "users cannot log in with a password"
            ),
            some(&without)
        );
        let one = command(&format!("user passwd {}", output::word(first)));
        let all = match dump {
            Some(_) => vec![one],
            None => vec![
                "mysqldump keystone local_user password > keystone.sql      # on the database server of Keystone".to_owned(),
                command(&format!("{import} --passwords keystone.sql")),
                one,
            ],
        };
        next.push(Step { why, commands: all });
    }
    let credentials = report.names("application credential", |item| item.left_out.is_none());
    if let Some(first) = credentials.first() {
        let count = counted(
            credentials.len(),
            "application credential needs a new secret before it works",
            "application credentials need a new secret each before they work",
        );
        let why = format!("{count}: {}", some(&credentials));
        let commands = vec![command(&format!("token regenerate {}", output::word(first)))];
        next.push(Step { why, commands });
    }
    let now = if operations::is_served(&home.data) { " (a server runs now: stop it first)" } else { "" };
    let why = format!(
        "tokens that Keystone issued stay valid only with its keys: copy /etc/keystone/fernet-keys of its server to `{}` while no server runs \
         here{now}, then check them",
        home.fernet_keys().directory().display()
    );
    let commands = vec![command("keys check")];
    next.push(Step { why, commands });
    next
}

/// The records that were read so far, and the records that cannot be imported.
#[derive(Default)]
pub(super) struct Asked {
    things: Vec<CloudRecord>,
    left: Vec<Imported>,
    /// The enforcement model for limits, if there are registered limits.
    limit_model: Option<String>,
}

impl Asked {
    /// Adds the record of each row, or the reason why it cannot be imported.
    fn each(&mut self, what: &'static str, rows: &[Value], thing: impl Fn(&Value) -> Option<CloudRecord>) {
        for row in rows {
            match thing(row) {
                Some(thing) => self.things.push(thing),
                None => {
                    let called =
                        text(row, "name").or_else(|| text(row, "id")).unwrap_or_else(|| row.to_string());
                    let why = "an id in the record is not 32 hexadecimal digits, or this server does not accept the name or another field";
                    self.left.push(Imported::left(what, called, why));
                }
            }
        }
    }
}

fn text(row: &Value, name: &str) -> Option<String> {
    row.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn id<I: FromStr>(row: &Value, name: &str) -> Option<I> {
    row.get(name)?.as_str()?.parse().ok()
}

fn domain(row: &Value, name: &str) -> Option<DomainId> {
    DomainId::from_keystone(row.get(name)?.as_str()?).ok()
}

fn is_enabled(row: &Value) -> bool {
    row.get("enabled").and_then(Value::as_bool).unwrap_or(true)
}

/// Adds a record for each row that has the option `immutable`.
fn immutable(asked: &mut Asked, rows: &[Value], id: impl Fn(&Value) -> Option<CloudRecordId>) {
    let has_it = |row: &&Value| row.pointer("/options/immutable") == Some(&Value::Bool(true));
    asked.things.extend(rows.iter().filter(has_it).filter_map(id).map(CloudRecord::Immutable));
}

/// The number of lists to request, for the display of progress. The lists of a single domain, group or user do not count.
const LISTS: u64 = 10;

async fn ask(name: &str, passwords: &HashMap<String, Password>) -> anyhow::Result<Asked> {
    let mut api = Api::login(Cloud::named(name)?).await?;
    let (mut asked, mut progress) = (Asked::default(), Progress::start("reading the API"));
    let domains = api.list("domains", "domains").await?;
    asked.each("domain", &domains, |row| {
        let (name, enabled) = (text(row, "name")?.parse().ok()?, is_enabled(row));
        let description = text(row, "description");
        Some(CloudRecord::Domain(domain(row, "id")?, Domain { name, enabled, description }))
    });
    immutable(&mut asked, &domains, |row| domain(row, "id").map(CloudRecordId::Domain));
    progress.at(1, LISTS);
    roles(&mut api, &mut asked, &domains).await?;
    progress.at(2, LISTS);
    let projects = api.list("projects", "projects").await?;
    let projects = outer_first(projects, "parent_id");
    asked.each("project", &projects, project);
    immutable(&mut asked, &projects, |row| id(row, "id").map(CloudRecordId::Project));
    progress.at(3, LISTS);
    let users = api.list("users", "users").await?;
    for row in &users {
        let mut known = text(row, "id").and_then(|id| passwords.get(&id));
        if let Some(name) = text(row, "name").filter(|_| known.is_some() && loses_factor(row)) {
            let why = "the rules of the user need a method that this server does not have, and the password alone would be enough here";
            asked.left.push(Imported::left("password", name, why));
            known = None;
        }
        let refused = known.and_then(|password| enfilade_identity::check_hash(&password.hash).err());
        if let (Some(why), Some(name)) = (&refused, text(row, "name")) {
            asked.left.push(Imported::left("password", name, why.to_string()));
        }
        let password = known.filter(|_| refused.is_none()).cloned();
        asked.each("user", std::slice::from_ref(row), |row| user(row, password.clone()));
    }
    progress.at(4, LISTS);
    let groups = api.list("groups", "groups").await?;
    asked.each("group", &groups, |row| {
        Some(CloudRecord::Group(
            id(row, "id")?,
            domain(row, "domain_id")?,
            text(row, "name")?,
            text(row, "description"),
        ))
    });
    progress.at(5, LISTS);
    members(&mut api, &mut asked, &groups).await?;
    let rows = api.list("role_assignments", "role_assignments").await?;
    asked.each("role assignment", &rows, grant);
    progress.at(6, LISTS);
    catalog(&mut api, &mut asked).await?;
    progress.at(7, LISTS);
    for_services(&mut api, &mut asked).await?;
    federation(&mut api, &mut asked).await?;
    progress.at(8, LISTS);
    credentials(&mut api, &mut asked, &users).await?;
    progress.at(9, LISTS);
    totp(&mut api, &mut asked).await?;
    others(&mut api, &mut asked).await?;
    configurations(&mut api, &mut asked, &domains).await?;
    Ok(asked)
}

/// Sorts the rows so that each comes after its parent. The field `parent` of a row has the id of its parent.
fn outer_first(mut rows: Vec<Value>, parent: &str) -> Vec<Value> {
    let mut sorted: Vec<Value> = Vec::with_capacity(rows.len());
    while !rows.is_empty() {
        let waits = |row: &Value, rows: &[Value]| {
            let above = text(row, parent);
            above.is_some() && rows.iter().any(|other| text(other, "id") == above)
        };
        let (later, now): (Vec<Value>, Vec<Value>) = rows.iter().cloned().partition(|row| waits(row, &rows));
        if now.is_empty() {
            // The parents of the remaining rows form a cycle, which the import reports.
            sorted.extend(later);
            break;
        }
        sorted.extend(now);
        rows = later;
    }
    sorted
}

async fn roles(api: &mut Api, asked: &mut Asked, domains: &[Value]) -> anyhow::Result<()> {
    let mut rows = api.list("roles", "roles").await?;
    for id in domains.iter().filter_map(|row| text(row, "id")) {
        rows.extend(api.list(&format!("roles?domain_id={id}"), "roles").await?);
    }
    let inferences = api.list("role_inferences", "role_inferences").await?;
    asked.each("role", &rows, |row| {
        let domain = match text(row, "domain_id") {
            Some(id) => Some(DomainId::from_keystone(&id).ok()?),
            None => None,
        };
        let (name, description, role) = (text(row, "name")?, text(row, "description"), id(row, "id")?);
        let is_prior =
            |inference: &&Value| inference.get("prior_role").and_then(|prior| id(prior, "id")) == Some(role);
        let implies =
            inferences.iter().filter(is_prior).filter_map(|inference| inference.get("implies")?.as_array());
        let implies = implies.flatten().filter_map(|implied| id(implied, "id")).collect();
        Some(CloudRecord::Role(role, NamedRole { name, domain, description, implies }))
    });
    immutable(asked, &rows, |row| id(row, "id").map(CloudRecordId::Role));
    Ok(())
}

fn project(row: &Value) -> Option<CloudRecord> {
    let tags = row.get("tags").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // In Keystone, the parent of a top-level project is its domain.
    let parent = match text(row, "parent_id").filter(|parent| Some(parent) != text(row, "domain_id").as_ref())
    {
        Some(parent) => Some(parent.parse().ok()?),
        None => None,
    };
    let project = Project {
        domain: domain(row, "domain_id")?,
        parent,
        name: text(row, "name")?,
        enabled: is_enabled(row),
        description: text(row, "description"),
        tags: tags.iter().filter_map(|tag| tag.as_str().map(str::to_owned)).collect(),
    };
    Some(CloudRecord::Project(id(row, "id")?, project))
}

fn user(row: &Value, password: Option<Password>) -> Option<CloudRecord> {
    let has = |option: &str| row.pointer(&format!("/options/{option}")) == Some(&Value::Bool(true));
    let never = has("ignore_password_expiry");
    let options = row.get("options").and_then(Value::as_object).filter(|options| !options.is_empty());
    let password = password.map(|known| Password { until: if never { 0 } else { known.until }, ..known });
    let user = CloudUser {
        domain: domain(row, "domain_id")?,
        name: text(row, "name")?,
        enabled: is_enabled(row),
        comment: text(row, "description"),
        password,
        profile: Profile {
            default_project: id(row, "default_project_id"),
            email: text(row, "email"),
            keeps_password: never,
            takes_given_password: has("ignore_change_password_upon_first_use"),
            is_never_locked: has("ignore_lockout_failure_attempts"),
            is_always_active: has("ignore_user_inactivity"),
            mfa_rules: rules(row),
        },
        extra: options.map(|options| json!({ "options": options }).to_string()).unwrap_or_default(),
    };
    Some(CloudRecord::User(id(row, "id")?, Box::new(user)))
}

/// The rules of a user for multi-factor authentication that are in force.
fn rules(user: &Value) -> Vec<Vec<String>> {
    user.get("options").and_then(Value::as_object).map(enfilade_keystone::mfa_rules).unwrap_or_default()
}

/// Whether the rules of a user need more than a password, and would be satisfied by the password here, because this server does not have the other
/// methods.
fn loses_factor(user: &Value) -> bool {
    let rules = rules(user);
    !rules.is_empty()
        && !rules.contains(&vec!["password".to_owned()])
        && enfilade_identity::is_password_enough(&rules)
}

async fn members(api: &mut Api, asked: &mut Asked, groups: &[Value]) -> anyhow::Result<()> {
    for group in groups {
        let Some(said) = text(group, "id") else { continue };
        let rows = api.list(&format!("groups/{said}/users"), "users").await?;
        let group = id(group, "id");
        asked.each("member of a group", &rows, |row| {
            Some(CloudRecord::Member(MembershipKey { member: Member::User(id(row, "id")?), group: group? }))
        });
    }
    Ok(())
}

fn grant(row: &Value) -> Option<CloudRecord> {
    let scope = row.get("scope")?;
    let is_below = scope.get("OS-INHERIT:inherited_to").is_some();
    let scope = match (scope.get("project"), scope.get("domain"), is_below) {
        (Some(project), _, false) => GrantScope::Project(id(project, "id")?),
        (Some(project), _, true) => GrantScope::BelowProject(id(project, "id")?),
        (_, Some(of), false) => GrantScope::Domain(domain(of, "id")?),
        (_, Some(of), true) => GrantScope::BelowDomain(domain(of, "id")?),
        _ => scope.get("system").map(|_| GrantScope::System)?,
    };
    let who = match (row.get("user"), row.get("group")) {
        (Some(user), _) => Grantee::User(id(user, "id")?),
        (_, group) => Grantee::Group(id(group?, "id")?),
    };
    Some(CloudRecord::Grant(GrantKey { who, scope, role: id(row.get("role")?, "id")? }))
}

async fn catalog(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let regions = api.list("regions", "regions").await?;
    asked.each("region", &outer_first(regions, "parent_region_id"), |row| {
        let parent = text(row, "parent_region_id").map(RegionId);
        Some(CloudRecord::Region(
            RegionId(text(row, "id")?),
            Region { description: text(row, "description"), parent },
        ))
    });
    let services = api.list("services", "services").await?;
    asked.each("service", &services, |row| {
        let (kind, name) = (text(row, "type")?, text(row, "name").unwrap_or_default());
        let service = Service { kind, name, enabled: is_enabled(row), description: text(row, "description") };
        Some(CloudRecord::Service(id(row, "id")?, service))
    });
    let endpoints = api.list("endpoints", "endpoints").await?;
    asked.each("endpoint", &endpoints, |row| {
        let endpoint = Endpoint {
            service: id(row, "service_id")?,
            interface: text(row, "interface")?.parse().ok()?,
            region: text(row, "region_id"),
            url: text(row, "url")?,
            enabled: is_enabled(row),
        };
        Some(CloudRecord::Endpoint(id(row, "id")?, endpoint))
    });
    Ok(())
}

/// Lists of Keystone that are not imported: the path, the key of the list, the kind of record, and the reason.
const OTHERS: [(&str, &str, &str, &str); 2] = [
    (
        "OS-TRUST/trusts",
        "trusts",
        "trust",
        "trusts are not imported: the trustor must create the trust again",
    ),
    (
        "OS-OAUTH1/consumers",
        "consumers",
        "OAuth consumer",
        "Keystone does not show the secrets of consumers: create the consumer again",
    ),
];

/// Adds to the report each record of the lists in [`OTHERS`], and each list that Keystone refuses to show.
async fn others(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    for (path, many, kind, why) in OTHERS {
        match api.list_if_served(path, many).await? {
            Ok(rows) => asked.left.extend(rows.iter().map(|row| {
                let name = text(row, "name").or_else(|| text(row, "id")).unwrap_or_default();
                Imported::left(kind, name, why)
            })),
            Err(refused) => asked.left.push(unknown(kind, &refused)),
        }
    }
    Ok(())
}

/// The result for records that Keystone refuses to show.
fn unknown(kind: &'static str, refused: &str) -> Imported {
    let why = format!("Keystone refused to list the records, so it is unknown whether any exist: {refused}");
    Imported::left(kind, "", why)
}

/// Adds to the report each domain that has a configuration.
async fn configurations(api: &mut Api, asked: &mut Asked, domains: &[Value]) -> anyhow::Result<()> {
    let kind = "configuration of domain";
    for row in domains {
        let Some(id) = text(row, "id") else { continue };
        match api.find(&format!("domains/{id}/config")).await? {
            Ok(None) => {}
            Ok(Some(_)) => {
                let why = "configurations of domains are not imported, because Keystone does not show their secrets";
                asked.left.push(Imported::left(kind, text(row, "name").unwrap_or(id), why));
            }
            Err(refused) => {
                asked.left.push(unknown(kind, &refused));
                break;
            }
        }
    }
    Ok(())
}

/// Adds the application credentials with their rights, but without their secrets, which the API does not show. The server refuses an application
/// credential until it gets a new secret.
async fn credentials(api: &mut Api, asked: &mut Asked, users: &[Value]) -> anyhow::Result<()> {
    for user in users {
        let Some(said) = text(user, "id") else { continue };
        let rows =
            api.list(&format!("users/{said}/application_credentials"), "application_credentials").await?;
        let owner: Option<UserId> = id(user, "id");
        asked.each("application credential", &rows, |row| {
            let roles = row.get("roles").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let rules = row.get("access_rules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let rule = |rule: &Value| {
                let (service, method, path) =
                    (text(rule, "service")?, text(rule, "method")?, text(rule, "path")?);
                Some(AccessRule { id: *id::<RoleId>(rule, "id")?.bytes(), service, method, path })
            };
            let delegation = Delegation {
                project: id(row, "project_id")?,
                roles: roles.iter().filter_map(|role| id(role, "id")).collect(),
                unrestricted: row.get("unrestricted").and_then(Value::as_bool).unwrap_or(false),
                // If an access rule cannot be read, the credential is left out: without its rules it would be valid for every request.
                rules: rules.iter().map(rule).collect::<Option<_>>()?,
                by: None,
            };
            let expires = text(row, "expires_at")
                .map_or(Some(0), |text| from_rfc3339(&format!("{}Z", text.trim_end_matches('Z'))));
            let credential = CloudCredential {
                owner: owner?,
                name: text(row, "name")?,
                expires: expires?,
                comment: text(row, "description"),
                delegation,
            };
            Some(CloudRecord::Credential(id(row, "id")?, Box::new(credential)))
        });
    }
    Ok(())
}
