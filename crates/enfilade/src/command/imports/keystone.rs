//! `enfilade import keystone`: reads the records of a Keystone server over its API. The imported records keep their ids.

mod blobs;
mod configurations;
mod delegated;
mod federation;
mod for_services;
mod next;

use self::blobs::blobs;
use self::configurations::configurations;
use self::delegated::{application_credentials, oauth, trusts};
use self::federation::federation;
use self::for_services::for_services;
use super::cloud::{Api, Cloud};
use super::dump::{self, Dump};
use super::report::Report;
use crate::example;
use crate::home::Home;
use crate::output::{counted, some};
use crate::progress::Progress;
use anyhow::{Context as _, anyhow, ensure};
use enfilade_admin::Imported;
use enfilade_admin::keystone::{
    CloudRecord, CloudRecordId, CloudTerms, CloudUser, DomainSummary, import_cloud, list_domains, taken_names,
};
use enfilade_facts::tables::{
    Domain, Endpoint, GrantKey, GrantScope, Grantee, Member, MembershipKey, NamedRole, Password, Profile,
    Project, Region, RegionId, Service,
};
use enfilade_facts::vocabulary::{DomainId, Realm, excerpt};
use enfilade_identity::Methods;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::str::FromStr;

/// The options of an import from Keystone.
pub(super) struct Terms<'a> {
    /// A dump of Keystone's database, for the data that the API does not show.
    pub(super) passwords: Option<&'a Path>,
    /// Whether to leave out records if their names already belong to other records of this server. If `false`, a taken name is an error.
    pub(super) leave_out_taken: bool,
    /// Whether to import a record again if it was deleted on this server after an earlier import.
    pub(super) restore_deleted: bool,
}

/// Reads the records over the API. If the API does not show a value, this function reads the value from the dump.
pub(super) fn read(name: &str, terms: &Terms<'_>) -> anyhow::Result<Asked> {
    let dump = match terms.passwords {
        None => Dump::default(),
        Some(file) => dump::read_file(file).with_context(|| format!("`{}`", file.display()))?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ask(name, &dump))
}

pub(super) fn run(
    home: &Home,
    name: &str,
    terms: &Terms<'_>,
    Asked { things, left, limit_model }: &Asked,
    pretend: bool,
) -> anyhow::Result<Report> {
    if !terms.leave_out_taken {
        refuse_taken(home, things, terms.restore_deleted)?;
    }
    let mut report = left.clone();
    let mut progress = Progress::start("importing");
    let all = things.len() as u64;
    let cloud_terms = CloudTerms { pretend, restore_deleted: terms.restore_deleted };
    let ctx = home.change_context();
    report.extend(import_cloud(&ctx, things, cloud_terms, |done| progress.at(done as u64, all))?);
    let at = home.change_context().facts.at();
    let mut report = Report { items: report, at, pretend, notes: Vec::new(), next: Vec::new() };
    if !pretend && example::make_first_keys(home)? {
        report
            .notes
            .push("Fernet keys were created: the server signs the tokens of sessions with them.".to_owned());
    }
    report.notes.extend(left_with_local(things, &list_domains(home.source())?));
    report.notes.extend(other_limit_model(home, limit_model.as_deref()));
    report.next = next::steps(home, name, terms, things, &report);
    if !pretend {
        report.next.extend(next::identity_endpoints(home, things)?);
    }
    Ok(report)
}

/// Refuses an import if one of its records has the same name as a record of this server, but another id.
fn refuse_taken(home: &Home, things: &[CloudRecord], restore_deleted: bool) -> anyhow::Result<()> {
    let taken = taken_names(home.source(), things, restore_deleted)?;
    let names: Vec<&str> = taken.iter().map(String::as_str).collect();
    ensure!(
        taken.is_empty(),
        "nothing was imported. This server already has records with the same names, but other ids, as {} of the cloud: {}. Import into an empty data \
         directory (--data DIR), and run `enfilade bootstrap` after the import. Or add --leave-out-taken: then these records of the cloud, and every role assignment that needs them, are not imported",
        counted(taken.len(), "record", "records"),
        some(&names)
    );
    Ok(())
}

/// A note if the source has records in a domain `local`. These records are left out, because this server has another domain `local`.
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
            "The domain `local` of the source was left out with {} in it, because this server has another domain `local`. To import the records, \
             rename the domain in the source, and import again.",
            counted(count, "user, group, project or role", "users, groups, projects and roles")
        )
    })
}

/// A note if the source has registered limits, and the enforcement model of the source differs from the enforcement model of this server.
fn other_limit_model(home: &Home, source: Option<&str>) -> Option<String> {
    let here = home.config.identity.limit_model.model().name();
    source.filter(|source| *source != here).map(|source| {
        format!(
            "The source has the enforcement model `{source}` for limits, and this server has `{here}`. So this server may accept or refuse other limits than the source. To use the model of the source, change `[identity] limit_model`."
        )
    })
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
    /// Adds the record of each row, or the reason why the record cannot be imported.
    fn each(&mut self, what: &'static str, rows: &[Value], thing: impl Fn(&Value) -> Option<CloudRecord>) {
        rows.iter().for_each(|row| self.one(what, row, &thing));
    }

    /// Adds the record of the row, or the reason why the record cannot be imported.
    fn one(&mut self, what: &'static str, row: &Value, thing: impl Fn(&Value) -> Option<CloudRecord>) {
        match thing(row) {
            Some(thing) => self.things.push(thing),
            None => {
                let called = text(row, "name").or_else(|| text(row, "id")).unwrap_or_else(|| row.to_string());
                self.left.push(Imported::left(what, called, UNREADABLE));
            }
        }
    }
}

/// The reason why a record that cannot be read is left out.
const UNREADABLE: &str = "an id in the record is not 32 hexadecimal digits (64 for a user or group of an LDAP directory), or this server does not accept the name or another field";

fn text(row: &Value, name: &str) -> Option<String> {
    row.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn id<I: FromStr>(row: &Value, name: &str) -> Option<I> {
    row.get(name)?.as_str()?.parse().ok()
}

/// Reads a field that limits the rights of a record. Returns `Some(None)` if the field is absent or null. Returns `None` if the field cannot be read.
/// Then the caller leaves out the record, because without the limit the record would have more rights.
fn term<'r, T>(row: &'r Value, name: &str, read: impl Fn(&'r Value) -> Option<T>) -> Option<Option<T>> {
    match row.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => Some(Some(read(value)?)),
    }
}

fn domain(row: &Value, name: &str) -> Option<DomainId> {
    DomainId::from_keystone(row.get(name)?.as_str()?).ok()
}

/// Whether a record is enabled. A record without the field `enabled` is enabled. Returns `None` if the field cannot be read. Then the record is left
/// out, because the record may be disabled.
fn is_enabled(row: &Value) -> Option<bool> {
    row.get("enabled").map_or(Some(true), Value::as_bool)
}

/// Adds a record for each row that has the option `immutable`.
fn immutable(asked: &mut Asked, rows: &[Value], id: impl Fn(&Value) -> Option<CloudRecordId>) {
    let has_it = |row: &&Value| row.pointer("/options/immutable") == Some(&Value::Bool(true));
    asked.things.extend(rows.iter().filter(has_it).filter_map(id).map(CloudRecord::Immutable));
}

/// The number of steps in which `ask` reads the API, for the display of progress.
const LISTS: u64 = 10;

async fn ask(name: &str, dump: &Dump) -> anyhow::Result<Asked> {
    let mut api = Api::login(Cloud::named(name)?).await?;
    let (mut asked, mut progress) = (Asked::default(), Progress::start("reading the API"));
    let domains = api.list("domains", "domains").await?;
    asked.each("domain", &domains, |row| {
        let (name, enabled) = (text(row, "name")?.parse().ok()?, is_enabled(row)?);
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
    let mut users = Vec::new();
    of_domains(&mut api, &mut asked, &domains, ("users", "user"), |asked, row| {
        let password = password(asked, &row, dump);
        asked.one("user", &row, |row| user(row, password.clone()));
        users.push(json!({ "id": row.get("id"), "options": row.get("options") }));
    })
    .await?;
    progress.at(4, LISTS);
    let mut groups = Vec::new();
    of_domains(&mut api, &mut asked, &domains, ("groups", "group"), |_, row| groups.push(row)).await?;
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
    let assigned = |row: Value| asked.one("role assignment", &row, grant);
    api.try_each("role_assignments", "role_assignments", assigned).await?.map_err(|why| anyhow!(why))?;
    progress.at(6, LISTS);
    catalog(&mut api, &mut asked).await?;
    progress.at(7, LISTS);
    for_services(&mut api, &mut asked).await?;
    federation(&mut api, &mut asked).await?;
    progress.at(8, LISTS);
    application_credentials(&mut api, &mut asked, &users, dump).await?;
    progress.at(9, LISTS);
    trusts(&mut api, &mut asked).await?;
    blobs(&mut api, &mut asked).await?;
    oauth(&mut api, &mut asked, &users, dump).await?;
    configurations(&mut api, &mut asked, &domains, dump).await?;
    Ok(asked)
}

/// Calls `take` with each user or each group of all domains. If domains have their own LDAP directories, Keystone lists the users or groups of
/// only one domain at a time. If the LDAP directory of a domain does not answer, the import continues, and the report names the domain.
async fn of_domains(
    api: &mut Api,
    asked: &mut Asked,
    domains: &[Value],
    (many, kind): (&str, &'static str),
    mut take: impl FnMut(&mut Asked, Value),
) -> anyhow::Result<()> {
    for domain in domains {
        let Some(id) = text(domain, "id") else { continue };
        let path = format!("{many}?domain_id={id}");
        if let Err(refused) = api.try_each(&path, many, |row| take(asked, row)).await? {
            let name = text(domain, "name").unwrap_or(id);
            asked.left.push(Imported { name: format!("of domain {name}"), ..unknown(kind, &refused) });
        }
    }
    Ok(())
}

/// The password of a user in the dump. If a password is not imported, the report contains the reason.
fn password(asked: &mut Asked, user: &Value, dump: &Dump) -> Option<Password> {
    let known = text(user, "id").and_then(|id| dump.passwords.get(&id))?;
    let lost = lost_factor(user, "password", "set a password with `enfilade user passwd`");
    let unusable = || enfilade_identity::check_hash(&known.hash).err().map(|why| why.to_string());
    let Some(why) = lost.or_else(unusable) else { return Some(known.clone()) };
    asked.left.extend(text(user, "name").map(|name| Imported::left("password", name, why)));
    None
}

/// Sorts the rows: each row comes after its parent. The field `parent` of a row contains the id of its parent. If the parents of some rows form a
/// cycle, these rows come last, and the import reports them.
fn outer_first(rows: Vec<Value>, parent: &str) -> Vec<Value> {
    let ids: HashSet<String> = rows.iter().filter_map(|row| text(row, "id")).collect();
    let mut below: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut sorted = Vec::with_capacity(rows.len());
    for row in rows {
        match text(&row, parent).filter(|above| ids.contains(above)) {
            Some(above) => below.entry(above).or_default().push(row),
            None => sorted.push(row),
        }
    }
    let mut next = 0;
    while let Some(row) = sorted.get(next) {
        let inner = text(row, "id").and_then(|id| below.remove(&id));
        sorted.extend(inner.into_iter().flatten());
        next += 1;
    }
    sorted.extend(below.into_values().flatten());
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
        enabled: is_enabled(row)?,
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
        enabled: is_enabled(row)?,
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

/// The rules for multi-factor authentication that are in force for a user.
fn rules(user: &Value) -> Vec<Vec<String>> {
    user.get("options").and_then(Value::as_object).map(enfilade_keystone::mfa_rules).unwrap_or_default()
}

/// The reason why the password or secret for the login method `method` is not imported; `None` if the import is possible. The user's rules for
/// multi-factor authentication may require further methods that this server does not have. Then `method` alone would be enough on this server. So the
/// password or secret is not imported. The text `then` tells the operator what to do after changing the rules.
fn lost_factor(user: &Value, method: &str, then: &str) -> Option<String> {
    let rules = rules(user);
    let is_alone = [method.to_owned()];
    if rules.is_empty()
        || rules.iter().any(|rule| *rule == is_alone)
        || !enfilade_identity::is_enough(&rules, method)
    {
        return None;
    }
    let unknown = rules.iter().flatten().filter(|name| Methods::named(name).is_none());
    let unknown: BTreeSet<String> = unknown.map(|name| format!("`{}`", excerpt(name))).collect();
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    // An access token is accepted together with a receipt, which proves the method `password`.
    let example = if method == "oauth1" { "password,oauth1".to_owned() } else { format!("{method},totp") };
    Some(format!(
        "the rules of the user for multi-factor authentication contain methods that this server does not have ({}), so `{method}` alone would be \
         enough on this server: change the rules, for example to `{example}`, then {then}",
        some(&unknown)
    ))
}

async fn members(api: &mut Api, asked: &mut Asked, groups: &[Value]) -> anyhow::Result<()> {
    for group in groups {
        let Some(said) = text(group, "id") else { continue };
        let rows = match api.try_list(&format!("groups/{said}/users"), "users").await? {
            Ok(rows) => rows,
            Err(refused) => {
                asked.left.push(unknown("member of a group", &refused));
                continue;
            }
        };
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
        let service =
            Service { kind, name, enabled: is_enabled(row)?, description: text(row, "description") };
        Some(CloudRecord::Service(id(row, "id")?, service))
    });
    let endpoints = api.list("endpoints", "endpoints").await?;
    asked.each("endpoint", &endpoints, |row| {
        let endpoint = Endpoint {
            service: id(row, "service_id")?,
            interface: text(row, "interface")?.parse().ok()?,
            region: text(row, "region_id"),
            url: text(row, "url")?,
            enabled: is_enabled(row)?,
        };
        Some(CloudRecord::Endpoint(id(row, "id")?, endpoint))
    });
    Ok(())
}

/// The result for records that Keystone refuses to show.
fn unknown(kind: &'static str, refused: &str) -> Imported {
    let why = format!(
        "Keystone refused to list the records, or the rest of them, so records may be missing: {refused}"
    );
    Imported::left(kind, "", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_comes_after_its_parent() {
        let row = |id: &str, above: Option<&str>| json!({ "id": id, "above": above });
        let rows = vec![
            row("c", Some("b")),
            row("x", Some("y")),
            row("b", Some("a")),
            row("a", Some("elsewhere")),
            row("d", None),
            row("y", Some("x")),
            row("c2", Some("b")),
        ];
        let sorted = outer_first(rows, "above");
        let mut ids: Vec<String> = sorted.iter().filter_map(|row| text(row, "id")).collect();
        ids[5..].sort();
        assert_eq!(ids, ["a", "d", "b", "c", "c2", "x", "y"]);
    }

    #[test]
    fn a_record_that_may_be_disabled_is_not_enabled() {
        let id = "ab".repeat(16);
        for (enabled, expected) in [
            (json!(true), Some(true)),
            (json!(false), Some(false)),
            (json!("false"), None),
            (json!(0), None),
            (json!(null), None),
        ] {
            let row = json!({ "id": id, "domain_id": id, "name": "ann", "enabled": enabled });
            assert_eq!(is_enabled(&row), expected, "{row}");
            assert_eq!(
                (user(&row, None).is_some(), project(&row).is_some()),
                (expected.is_some(), expected.is_some())
            );
        }
        assert_eq!(is_enabled(&json!({})), Some(true));
    }

    #[test]
    fn the_methods_that_this_server_does_not_have_are_named() {
        let user = json!({ "options": { "multi_factor_auth_rules": [["password", "u2f"], ["password", "mapped"], ["password", "u2f", "x\u{1b}"]] } });
        let why = lost_factor(&user, "password", "do it").unwrap();
        assert!(
            why.contains("does not have (`mapped`, `u2f`, `x%1B`), so") && why.ends_with("then do it"),
            "{why}"
        );
        assert_eq!(lost_factor(&user, "totp", "do it"), None);
        for (method, example) in [
            ("password", "`password,totp`"),
            ("application_credential", "`application_credential,totp`"),
            ("oauth1", "`password,oauth1`"),
        ] {
            let user = json!({ "options": { "multi_factor_auth_rules": [[method, "mapped"]] } });
            let why = lost_factor(&user, method, "do it").unwrap();
            assert!(why.contains(&format!("for example to {example}, then")), "{why}");
        }
    }
}
