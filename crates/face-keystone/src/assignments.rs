//! Role assignments: assign, remove, check, and list with all filters of the API.

use super::listing::{self, Filters, plain};
use super::resource::Resource as _;
use super::{ApiError, ApiResponse, Call, Outcome, query};
use enfilade_admin::keystone::{grantees_of, parents_of, set_grant, subtree_of};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Domain, Grant, GrantKey, GrantScope, Grantee, Group, Member, Name, NameKey, NameKind, NamedRole, Project,
    Reverse, ReverseKey, User,
};
use enfilade_facts::vocabulary::{DomainId, GroupId, ProjectId, RoleId, UserId};
use enfilade_passage::{About, ApiPermit, Other, manager_gives};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The scope, the grantee and the role in the path of a grant.
struct Named {
    who: Grantee,
    scope: GrantScope,
    /// The role, if the path contains a role.
    role: Option<(RoleId, NamedRole)>,
    permit: ApiPermit,
}

/// Reads scope, grantee and role from the path. Every path of a grant contains the scope first, then the grantee, and then the role.
fn named(call: &mut Call) -> Result<Named, ApiError> {
    let path = call.route.path;
    let below = path.starts_with("/OS-INHERIT");
    let said = |at: usize| call.decoded(at);
    let is_system = path.starts_with("/system");
    let (scope_said, who_said) = if is_system { (String::new(), said(0)) } else { (said(0), said(1)) };
    let has_role = path.contains("{role_id}");
    let role_said = has_role.then(|| said(if is_system { 1 } else { 2 }));
    let of_users = path.contains("/users/");
    let (scope, who, role) = call.look(|view| {
        let scope = match () {
            () if is_system => Some((GrantScope::System, None, None)),
            () if path.contains("/projects/") => Project::find(view, &scope_said)?.map(|(id, row)| {
                (
                    if below { GrantScope::BelowProject(id) } else { GrantScope::Project(id) },
                    Some(row.domain),
                    Some(id),
                )
            }),
            () => Domain::find(view, &scope_said)?.map(|(id, _)| {
                (if below { GrantScope::BelowDomain(id) } else { GrantScope::Domain(id) }, Some(id), None)
            }),
        };
        let who = match of_users {
            true => User::find(view, &who_said)?.map(|(id, row)| (Grantee::User(id), row.domain)),
            false => Group::find(view, &who_said)?.map(|(id, row)| (Grantee::Group(id), row.domain)),
        };
        let role = match &role_said {
            Some(said) => Some(NamedRole::find(view, said)?),
            None => None,
        };
        Ok((scope, who, role))
    })?;
    let about = About {
        domain: scope.as_ref().and_then(|(_, domain, _)| domain.as_ref()),
        project: scope.as_ref().and_then(|(.., project)| project.as_ref()),
        other: Other::found(who.as_ref().map(|(_, domain)| domain)),
        role: match &role {
            None => Other::None,
            Some(None) => Other::Absent,
            Some(Some((_, row))) => row.domain.as_ref().map_or(Other::None, Other::In),
        },
        high_role: role.as_ref().is_some_and(|role| role.as_ref().is_none_or(|(_, row)| !manager_gives(row))),
        ..About::default()
    };
    let permit = call.allow(&about)?;
    let missing = |what: &str, id: &str| ApiError::missing(what, id);
    let (scope, ..) = scope.ok_or_else(|| {
        missing(if path.contains("/projects/") { "project" } else { "domain" }, &scope_said)
    })?;
    let (who, _) = who.ok_or_else(|| missing(if of_users { "user" } else { "group" }, &who_said))?;
    let role = match role {
        Some(None) => return Err(missing("role", &role_said.unwrap_or_default())),
        Some(found) => found,
        None => None,
    };
    Ok(Named { who, scope, role, permit })
}

fn key(named: &Named) -> Result<GrantKey, ApiError> {
    let (role, _) = named.role.as_ref().ok_or(enfilade_faces::RequestError::NoRoute)?;
    Ok(GrantKey { who: named.who, scope: named.scope, role: *role })
}

pub(super) fn check(call: &mut Call) -> Outcome {
    let named = named(call)?;
    let key = key(&named)?;
    let is_so = call.look(|view| Ok(view.get::<Grant>(&key)?.is_some()))?;
    if is_so {
        Ok(ApiResponse::no_content())
    } else {
        Err(ApiError::missing("role assignment with role", &key.role.to_string()))
    }
}

pub(super) fn give(call: &mut Call) -> Outcome {
    let named = named(call)?;
    let key = key(&named)?;
    call.save(&named.permit, |ctx| set_grant(ctx, &key, true))?;
    Ok(ApiResponse::no_content())
}

pub(super) fn take(call: &mut Call) -> Outcome {
    let named = named(call)?;
    let key = key(&named)?;
    let was = call.save(&named.permit, |ctx| set_grant(ctx, &key, false))?;
    if was {
        Ok(ApiResponse::no_content())
    } else {
        Err(ApiError::missing("role assignment with role", &key.role.to_string()))
    }
}

/// Lists the roles of one grantee on one scope.
pub(super) fn of_path(call: &mut Call) -> Outcome {
    let named = named(call)?;
    let rows = call.look(|view| {
        let mut rows = Vec::new();
        for (key, _) in view.list::<Grant>(&GrantKey::of_on(&named.who, &named.scope))? {
            if let Some(row) = view.get::<NamedRole>(&key.role)? {
                let links = json!({ "self": format!("{}/v3/roles/{}", call.base, key.role) });
                let domain = row.domain.map(|domain| domain.to_keystone());
                rows.push(json!({ "id": key.role.to_string(), "name": row.name, "domain_id": domain, "links": links }));
            }
        }
        Ok(rows)
    })?;
    Ok(super::listed(call, "roles", rows))
}

/// The filters of a list of assignments.
#[derive(Default)]
struct Asked {
    user: Option<UserId>,
    group: Option<GroupId>,
    role: Option<RoleId>,
    scope: Option<GrantScope>,
    inherited: Option<bool>,
    is_effective: bool,
    with_names: bool,
}

/// One assignment. For an effective assignment, the row also contains the grant from which the assignment follows, and the role that implies the role
/// of the assignment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    key: GrantKey,
    /// The grant from which the assignment follows. It equals `key` if the assignment is itself a grant.
    from: GrantKey,
    /// The role that implies the role of the assignment.
    prior: Option<RoleId>,
}

fn flag(call: &Call, name: &str) -> bool {
    query(&call.head, name)
        .is_some_and(|value| !["0", "false", "no", "off"].contains(&value.to_ascii_lowercase().as_str()))
}

fn asked(call: &Call) -> Result<Option<Asked>, ApiError> {
    let mut asked = Asked {
        inherited: query(&call.head, "scope.OS-INHERIT:inherited_to").map(|to| to == "projects"),
        is_effective: flag(call, "effective"),
        with_names: flag(call, "include_names"),
        ..Asked::default()
    };
    // A malformed id matches no record, so the list is empty.
    let mut is_none = false;
    let id = |name: &str| query(&call.head, name).map(plain);
    macro_rules! parsed {
        ($name:literal, $parse:expr) => {
            match id($name).map($parse) {
                Some(Ok(id)) => Some(id),
                Some(Err(_)) => {
                    is_none = true;
                    None
                }
                None => None,
            }
        };
    }
    asked.user = parsed!("user.id", |text: String| text.parse::<UserId>());
    asked.group = parsed!("group.id", |text: String| text.parse::<GroupId>());
    asked.role = parsed!("role.id", |text: String| text.parse::<RoleId>());
    let project = parsed!("scope.project.id", |text: String| text.parse::<ProjectId>());
    let domain = parsed!("scope.domain.id", |text: String| DomainId::from_keystone(&text));
    let system = query(&call.head, "scope.system").is_some();
    if asked.user.is_some() && asked.group.is_some()
        || [project.is_some(), domain.is_some(), system].iter().filter(|one| **one).count() > 1
    {
        return Err(ApiError::invalid(
            "Specify a user or group, and one of project, domain and system, not more.",
        ));
    }
    if asked.is_effective && asked.group.is_some() {
        return Err(ApiError::invalid(
            "Combining effective and group filter will always result in an empty list.",
        ));
    }
    asked.scope = match (project, domain, system) {
        (Some(id), ..) => Some(GrantScope::Project(id)),
        (_, Some(id), _) => Some(GrantScope::Domain(id)),
        (.., true) => Some(GrantScope::System),
        _ => None,
    };
    Ok((!is_none).then_some(asked))
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let asked = asked(call)?;
    let is_tree = flag(call, "include_subtree");
    let project = match asked.as_ref().and_then(|asked| asked.scope) {
        Some(GrantScope::Project(id)) if is_tree => Some(id),
        _ if is_tree => {
            return Err(ApiError::invalid(
                "scope.project.id must be specified if include_subtree is also specified",
            ));
        }
        _ => None,
    };
    let domain = match project {
        Some(id) => call.look(|view| Ok(view.get::<Project>(&id)?.map(|row| row.domain)))?,
        None => None,
    };
    let rule = if is_tree { "list_role_assignments_for_tree" } else { "list_role_assignments" };
    let permit = call
        .allow_by(rule, &About { project: project.as_ref(), domain: domain.as_ref(), ..About::default() })?;
    let Some(asked) = asked else { return Ok(listing::none(call, "role_assignments")) };
    let (base, only) = (call.base.clone(), permit.only_domain());
    let mut is_done = false;
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| {
        let mut show = |row: &Row, place: Vec<u8>| {
            if only.is_some_and(|only| !is_in(view, &row.key.scope, &only).unwrap_or(false)) {
                return Ok(ControlFlow::Continue(()));
            }
            match body(view, &base, row, asked.with_names)? {
                Some(body) => Ok::<_, ApiError>(each(place, body)),
                None => Ok(ControlFlow::Continue(())),
            }
        };
        // If there is no filter for the grantee or the scope, and the request does not ask for effective assignments, the list is read from the table
        // page by page. Otherwise records are looked up by grantee or scope.
        if asked.user.is_none() && asked.group.is_none() && asked.scope.is_none() && !asked.is_effective {
            let (mut last, mut wants_end) = (None, false);
            return listing::records::<Grant>(view, &[], after, |key, _| {
                let group = GrantKey::of_on(&key.who, &key.scope);
                // Here a group is the set of all grants to the same grantee on the same scope. The grants of a group are never divided between two
                // pages, because the next page begins with the next group.
                if wants_end && last.as_ref() != Some(&group) {
                    return Ok(ControlFlow::Break(()));
                }
                last = Some(group.clone());
                let row = Row { key, from: key, prior: None };
                if is_wanted(&asked, &row) && show(&row, group)?.is_break() {
                    wants_end = true;
                }
                Ok(ControlFlow::Continue(()))
            });
        }
        if after.is_some() || std::mem::replace(&mut is_done, true) {
            return Ok(());
        }
        let mut scopes = vec![asked.scope];
        if let (true, Some(GrantScope::Project(id))) = (is_tree, asked.scope) {
            scopes.extend(subtree_of(view, &id)?.into_iter().map(|(id, _)| Some(GrantScope::Project(id))));
        }
        for scope in scopes {
            for row in found(view, &asked, scope.as_ref())? {
                let _ = show(&row, vec![1])?;
            }
        }
        Ok(())
    };
    let filters = Filters::none();
    listing::answer(call, "role_assignments", &permit, filters, None, Box::new(source))
}

fn is_in(view: &View<'_>, scope: &GrantScope, domain: &DomainId) -> Result<bool, ApiError> {
    Ok(match scope {
        GrantScope::System => false,
        GrantScope::Domain(id) | GrantScope::BelowDomain(id) => id == domain,
        GrantScope::Project(id) | GrantScope::BelowProject(id) => {
            view.get::<Project>(id)?.is_some_and(|row| row.domain == *domain)
        }
    })
}

fn is_below(scope: &GrantScope) -> bool {
    matches!(scope, GrantScope::BelowProject(_) | GrantScope::BelowDomain(_))
}

fn is_wanted(asked: &Asked, row: &Row) -> bool {
    asked.role.is_none_or(|role| role == row.key.role)
        && asked.inherited.is_none_or(|inherited| inherited == is_below(&row.from.scope))
}

/// Finds the grants of the requested grantee or scope. If the request asks for effective assignments, returns the assignments that follow from these
/// grants instead of the grants.
fn found(view: &View<'_>, asked: &Asked, scope: Option<&GrantScope>) -> Result<Vec<Row>, ApiError> {
    let mut keys = Vec::new();
    // The scopes with grants that apply to the requested scope.
    let mut sources: Vec<GrantScope> = Vec::new();
    match scope {
        Some(GrantScope::Project(id)) => {
            sources.push(GrantScope::Project(*id));
            sources.push(GrantScope::BelowProject(*id));
            if asked.is_effective {
                if let Some(row) = view.get::<Project>(id)? {
                    sources.push(GrantScope::BelowDomain(row.domain));
                }
                sources.extend(parents_of(view, id)?.into_iter().map(|(id, _)| GrantScope::BelowProject(id)));
                sources.retain(|one| *one != GrantScope::BelowProject(*id));
            }
        }
        Some(GrantScope::Domain(id)) => {
            sources.push(GrantScope::Domain(*id));
            if !asked.is_effective {
                sources.push(GrantScope::BelowDomain(*id));
            }
        }
        Some(other) => sources.push(*other),
        None => {}
    }
    match (asked.user, asked.group) {
        (None, None) => {
            for source in &sources {
                for (key, _) in view.list::<Reverse>(&ReverseKey::granted_on(source))? {
                    if let ReverseKey::Granted(scope, who, role) = key {
                        keys.push(GrantKey { who, scope, role });
                    }
                }
            }
            if sources.is_empty() {
                keys.extend(view.list::<Grant>(&[])?.into_iter().map(|(key, _)| key));
            }
        }
        (user, group) => {
            let who = match (user, group) {
                (Some(user), _) if asked.is_effective => grantees_of(view, &user)?,
                (Some(user), _) => vec![Grantee::User(user)],
                (None, group) => group.map(Grantee::Group).into_iter().collect(),
            };
            for who in who {
                let of_it = match sources.as_slice() {
                    [] => view.list::<Grant>(&GrantKey::of(&who))?,
                    sources => {
                        let mut all = Vec::new();
                        for source in sources {
                            all.extend(view.list::<Grant>(&GrantKey::of_on(&who, source))?);
                        }
                        all
                    }
                };
                keys.extend(of_it.into_iter().map(|(key, _)| key));
            }
        }
    }
    let mut rows: BTreeSet<Row> = BTreeSet::new();
    for key in keys {
        match asked.is_effective {
            false => {
                rows.insert(Row { key, from: key, prior: None });
            }
            true => rows.extend(following(view, asked, scope, key)?),
        }
    }
    Ok(rows.into_iter().filter(|row| is_wanted(asked, row)).collect())
}

/// The effective assignments that follow from a grant. There is one assignment for each combination of a user, a scope (a project, a domain or the
/// system) and a role. Implied roles are included.
fn following(
    view: &View<'_>,
    asked: &Asked,
    scope: Option<&GrantScope>,
    from: GrantKey,
) -> Result<Vec<Row>, ApiError> {
    let users: Vec<UserId> = match (from.who, asked.user) {
        (Grantee::User(user), _) => vec![user],
        (Grantee::Group(_), Some(user)) => vec![user],
        (Grantee::Group(group), None) => users_in(view, group)?,
    };
    let scopes: Vec<GrantScope> = match (from.scope, scope) {
        (GrantScope::BelowProject(_) | GrantScope::BelowDomain(_), Some(scope)) => vec![*scope],
        (GrantScope::BelowProject(id), None) => {
            subtree_of(view, &id)?.into_iter().map(|(id, _)| GrantScope::Project(id)).collect()
        }
        (GrantScope::BelowDomain(id), None) => {
            let names = view.list::<Name>(&NameKey::all_of(NameKind::Project, &id))?;
            names.into_iter().map(|(_, name)| GrantScope::Project(name.project())).collect()
        }
        (scope, _) => vec![scope],
    };
    // A domain-specific role counts only through the roles that it implies.
    let (mut roles, mut seen, mut edge) = (Vec::new(), BTreeSet::from([from.role]), vec![(from.role, None)]);
    while let Some((role, prior)) = edge.pop() {
        let Some(row) = view.get::<NamedRole>(&role)? else { continue };
        if row.domain.is_none() {
            roles.push((role, prior));
        }
        edge.extend(
            row.implies
                .into_iter()
                .filter(|implied| seen.insert(*implied))
                .map(|implied| (implied, Some(role))),
        );
    }
    let mut rows = Vec::new();
    for user in users {
        for scope in &scopes {
            for (role, prior) in &roles {
                let key = GrantKey { who: Grantee::User(user), scope: *scope, role: *role };
                rows.push(Row { key, from, prior: *prior });
            }
        }
    }
    Ok(rows)
}

/// Every user in a group, including the users in nested groups.
fn users_in(view: &View<'_>, group: GroupId) -> Result<Vec<UserId>, ApiError> {
    let (mut users, mut seen, mut edge) = (BTreeSet::new(), BTreeSet::from([group]), vec![group]);
    while let Some(group) = edge.pop() {
        for (key, _) in view.list::<Reverse>(&ReverseKey::members_of(&group))? {
            match key {
                ReverseKey::Member(_, Member::User(user)) => drop(users.insert(user)),
                ReverseKey::Member(_, Member::Group(inner)) if seen.insert(inner) => edge.push(inner),
                _ => {}
            }
        }
    }
    Ok(users.into_iter().collect())
}

fn path_of(key: &GrantKey) -> String {
    let who = match key.who {
        Grantee::User(id) => format!("users/{id}"),
        Grantee::Group(id) => format!("groups/{id}"),
    };
    let role = key.role;
    match key.scope {
        GrantScope::Project(id) => format!("/v3/projects/{id}/{who}/roles/{role}"),
        GrantScope::Domain(id) => format!("/v3/domains/{}/{who}/roles/{role}", id.to_keystone()),
        GrantScope::System => format!("/v3/system/{who}/roles/{role}"),
        GrantScope::BelowProject(id) => {
            format!("/v3/OS-INHERIT/projects/{id}/{who}/roles/{role}/inherited_to_projects")
        }
        GrantScope::BelowDomain(id) => {
            format!("/v3/OS-INHERIT/domains/{}/{who}/roles/{role}/inherited_to_projects", id.to_keystone())
        }
    }
}

/// The assignment as JSON; `None` if its role, grantee or scope no longer exists.
fn body(view: &View<'_>, base: &str, row: &Row, with_names: bool) -> Result<Option<Value>, ApiError> {
    let domain_of = |id: &DomainId| {
        let row = view.get::<Domain>(id)?;
        Ok::<_, ApiError>(row.map(|row| json!({ "id": id.to_keystone(), "name": row.name.as_str() })))
    };
    let thing = |id: String, name: &str, domain: Option<&DomainId>| {
        let mut told = Map::new();
        told.insert("id".to_owned(), json!(id));
        if with_names {
            told.insert("name".to_owned(), json!(name));
            if let Some(domain) = domain {
                told.insert("domain".to_owned(), domain_of(domain)?.unwrap_or_default());
            }
        }
        Ok::<_, ApiError>(Value::Object(told))
    };
    let Some(role) = view.get::<NamedRole>(&row.key.role)? else { return Ok(None) };
    let mut told = Map::new();
    told.insert("role".to_owned(), thing(row.key.role.to_string(), &role.name, role.domain.as_ref())?);
    match row.key.who {
        Grantee::User(id) => {
            let Some(user) = view.get::<User>(&id)? else { return Ok(None) };
            told.insert("user".to_owned(), thing(id.to_string(), &user.name, Some(&user.domain))?);
        }
        Grantee::Group(id) => {
            let Some(group) = view.get::<Group>(&id)? else { return Ok(None) };
            told.insert("group".to_owned(), thing(id.to_string(), &group.name, Some(&group.domain))?);
        }
    }
    let mut scope = match row.key.scope {
        GrantScope::System => json!({ "system": { "all": true } }),
        GrantScope::Domain(id) | GrantScope::BelowDomain(id) => {
            let Some(domain) = view.get::<Domain>(&id)? else { return Ok(None) };
            json!({ "domain": thing(id.to_keystone(), domain.name.as_str(), None)? })
        }
        GrantScope::Project(id) | GrantScope::BelowProject(id) => {
            let Some(project) = view.get::<Project>(&id)? else { return Ok(None) };
            json!({ "project": thing(id.to_string(), &project.name, Some(&project.domain))? })
        }
    };
    if let (true, Some(scope)) = (is_below(&row.from.scope), scope.as_object_mut()) {
        scope.insert("OS-INHERIT:inherited_to".to_owned(), json!("projects"));
    }
    told.insert("scope".to_owned(), scope);
    let mut links = Map::new();
    links.insert("assignment".to_owned(), json!(format!("{base}{}", path_of(&row.from))));
    if let (Grantee::Group(group), Grantee::User(user)) = (row.from.who, row.key.who) {
        links.insert("membership".to_owned(), json!(format!("{base}/v3/groups/{group}/users/{user}")));
    }
    if let Some(prior) = row.prior {
        links.insert("prior_role".to_owned(), json!(format!("{base}/v3/roles/{prior}")));
    }
    told.insert("links".to_owned(), Value::Object(links));
    Ok(Some(Value::Object(told)))
}
