//! Projects: a tree in each domain, and their tags.

use super::domains;
use super::given::{Given, invalid, unless_immutable, with_extra};
use super::listing::{self, Filters};
use super::{Call, Outcome, Said, Trouble, query};
use enfilade_admin::Error;
use enfilade_admin::keystone::{extra_of, parents_of, remove_project, save_project, scopes_of, subtree_of};
use enfilade_facts::View;
use enfilade_facts::tables::{Name, NameKind, Project, ThingKind};
use enfilade_facts::vocabulary::ProjectId;
use enfilade_passage::{About, ApiPermit, Other};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

const KNOWN: [&str; 7] = ["name", "description", "enabled", "domain_id", "parent_id", "is_domain", "tags"];

pub(super) fn body(base: &str, id: &ProjectId, row: &Project, extra: &str) -> Value {
    let domain = row.domain.to_keystone();
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.to_string()));
    body.insert("name".to_owned(), json!(row.name));
    body.insert("domain_id".to_owned(), json!(domain));
    body.insert("description".to_owned(), json!(row.description.as_deref().unwrap_or_default()));
    body.insert("enabled".to_owned(), json!(row.enabled));
    body.insert("parent_id".to_owned(), json!(row.parent.map_or(domain, |parent| parent.to_string())));
    body.insert("is_domain".to_owned(), json!(false));
    body.insert("tags".to_owned(), json!(row.tags));
    with_extra(body, extra, format!("{base}/v3/projects/{id}"))
}

/// Finds a project by id; a project in a removed domain counts as removed.
pub(super) fn find(view: &View<'_>, id: &str) -> Result<Option<(ProjectId, Project)>, Trouble> {
    let Ok(id) = id.parse::<ProjectId>() else { return Ok(None) };
    let Some(row) = view.get::<Project>(&id)? else { return Ok(None) };
    let is_there = view.get::<enfilade_facts::tables::Domain>(&row.domain)?.is_some();
    Ok(is_there.then_some((id, row)))
}

/// The project of the path, and the permit for the call.
fn found(call: &mut Call) -> Result<(ProjectId, Project, String, ApiPermit), Trouble> {
    let said = call.parameter(0).to_owned();
    let found = call.look(|view| {
        let Some((id, row)) = find(view, &said)? else { return Ok(None) };
        let extra = extra_of(view, ThingKind::Project, &id)?;
        Ok(Some((id, row, extra)))
    })?;
    let about = match &found {
        Some((id, row, _)) => About { domain: Some(&row.domain), project: Some(id), ..About::default() },
        None => About::default(),
    };
    let permit = call.allow(&about)?;
    let (id, row, extra) = found.ok_or_else(|| Trouble::missing("project", &said))?;
    Ok((id, row, extra, permit))
}

/// The filters `tags`, `tags-any`, `not-tags` and `not-tags-any`.
struct TagAsk([Option<Vec<String>>; 4]);

impl TagAsk {
    fn of(call: &Call) -> Self {
        let names = ["tags", "tags-any", "not-tags", "not-tags-any"];
        TagAsk(names.map(|name| {
            Some(listing::plain(query(&call.head, name)?).split(',').map(str::to_owned).collect())
        }))
    }

    fn holds(&self, tags: &[String]) -> bool {
        let TagAsk([all, any, not_all, not_any]) = self;
        let has_all = |wanted: &Vec<String>| wanted.iter().all(|tag| tags.contains(tag));
        let has_any = |wanted: &Vec<String>| wanted.iter().any(|tag| tags.contains(tag));
        all.as_ref().is_none_or(has_all)
            && any.as_ref().is_none_or(has_any)
            && !not_all.as_ref().is_some_and(has_all)
            && !not_any.as_ref().is_some_and(has_any)
    }
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let (base, tags) = (call.base.clone(), TagAsk::of(call));
    // Domains are not projects here, so no project has `is_domain`.
    if query(&call.head, "is_domain")
        .is_some_and(|text| ["true", "1"].contains(&text.to_ascii_lowercase().as_str()))
    {
        call.allow(&About::default())?;
        return Ok(listing::none(call, "projects"));
    }
    let kind = listing::Kind::<Project> {
        many: "projects",
        names: NameKind::Project,
        id: Name::project,
        parse: |text| text.parse().ok(),
        place: |row| (row.domain, row.name.as_str()),
    };
    let except = ["tags", "tags-any", "not-tags", "not-tags-any", "is_domain"];
    listing::things(call, kind, &except, move |view, id, row| {
        if !tags.holds(&row.tags) {
            return Ok(None);
        }
        Ok(Some(body(&base, id, row, &extra_of(view, ThingKind::Project, id)?)))
    })
}

/// The projects a user has a role on.
pub(super) fn of_user(call: &mut Call) -> Outcome {
    let (user, about_domain) = super::users::of_path(call, 0)?;
    let permit =
        call.allow(&About { user: Some(&user), domain: about_domain.as_ref(), ..About::default() })?;
    super::users::still_there(call, &user)?;
    let mut projects = scopes_of(call.faces.house().source(), &user)?.projects;
    projects.retain(|(_, row)| permit.only_domain().is_none_or(|only| only == row.domain));
    let filters = Filters::of(&call.head, &[]);
    let rows: Vec<Value> = call.look(|view| {
        projects
            .iter()
            .map(|(id, row)| Ok(body(&call.base, id, row, &extra_of(view, ThingKind::Project, id)?)))
            .filter(|body: &Result<Value, Trouble>| body.as_ref().map_or(true, |body| filters.hold(body)))
            .collect()
    })?;
    Ok(super::listed(call, "projects", rows))
}

fn is_asked(call: &Call, name: &str) -> bool {
    query(&call.head, name).is_some_and(|value| !["0", "false", "False"].contains(&value))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (id, row, extra, _) = found(call)?;
    let mut shown = body(&call.base, &id, &row, &extra);
    // A caller that is only a member of the project sees only projects on which the caller has a role.
    let about = About { project: Some(&id), domain: Some(&row.domain), ..About::default() };
    let own = match call.allow_by("list_role_assignments_for_tree", &about) {
        Ok(_) => None,
        Err(_) => Some(scopes_of(call.faces.house().source(), &call.visit.principal().user)?.projects),
    };
    let is_told = |(id, _): &(ProjectId, Project)| {
        own.as_ref().is_none_or(|own| own.iter().any(|(other, _)| other == id))
    };
    let described = |(id, row): &(ProjectId, Project)| json!({ "project": body(&call.base, id, row, "") });
    let more = call.look(|view| {
        let mut more = Vec::new();
        for (name, projects) in [("parents", parents_of(view, &id)?), ("subtree", subtree_of(view, &id)?)] {
            let told: Vec<_> = projects.iter().filter(|project| is_told(project)).cloned().collect();
            if is_asked(call, &format!("{name}_as_list")) {
                more.push((name, told.iter().map(described).collect()));
            } else if is_asked(call, &format!("{name}_as_ids")) {
                let ids = match name {
                    "parents" => projects
                        .iter()
                        .rev()
                        .fold(Value::Null, |inner, (id, _)| json!({ id.to_string(): inner })),
                    _ => tree_of_ids(&id, &told),
                };
                more.push((name, ids));
            }
        }
        Ok(more)
    })?;
    if let Some(map) = shown.as_object_mut() {
        more.into_iter().for_each(|(name, value)| {
            map.insert(name.to_owned(), value);
        });
    }
    Ok(Said::json(StatusCode::OK, &json!({ "project": shown })))
}

fn tree_of_ids(id: &ProjectId, all: &[(ProjectId, Project)]) -> Value {
    let children = all.iter().filter(|(_, row)| row.parent.as_ref() == Some(id));
    let each: Map<String, Value> = children.map(|(id, _)| (id.to_string(), tree_of_ids(id, all))).collect();
    if each.is_empty() { Value::Null } else { Value::Object(each) }
}

fn changed(
    given: &Given,
    before: Option<(&Project, &str)>,
    new: &Project,
) -> Result<(Project, String), Error> {
    let (mut row, extra) = before.map_or((new.clone(), ""), |(row, extra)| (row.clone(), extra));
    if let Some(name) = given.name()? {
        row.name = name;
    }
    row.enabled = given.flag("enabled")?.unwrap_or(row.enabled);
    if let Some(description) = given.text("description")? {
        row.description = description.filter(|text| !text.is_empty());
    }
    if let Some(tags) = given.texts("tags")? {
        row.tags = unique(tags);
    }
    Ok((row, given.extra(&KNOWN, extra)?))
}

fn unique(tags: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for tag in tags {
        if !kept.contains(&tag) {
            kept.push(tag);
        }
    }
    kept
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let given = Given::of(call, "project")?;
    if given.flag("is_domain")? == Some(true) {
        return Err(invalid("is_domain: use POST /v3/domains to create a domain").into());
    }
    let parent = given.text("parent_id")?.flatten();
    let domain = given.text("domain_id")?.flatten();
    // The default is the domain of the session.
    let own = call.visit.identity().session().map(|session| match session.claim.scope {
        enfilade_passage::Scope::Domain(domain) => domain,
        _ => session.project_domain().unwrap_or(session.user_domain),
    });
    let (in_domain, above) = call.look(|view| {
        let in_domain = domain.as_ref().map(|id| domains::find(view, id)).transpose()?.flatten();
        let Some(said) = &parent else { return Ok((in_domain, None)) };
        // A parent may be a domain.
        let above = match domains::find(view, said)? {
            Some((id, _)) => Some((None, id)),
            None => find(view, said)?.map(|(id, row)| (Some(id), row.domain)),
        };
        Ok((in_domain, above))
    })?;
    let at = match (&above, &domain) {
        (Some((None, id)), _) | (Some((_, id)), None) => Some(*id),
        (_, Some(_)) => in_domain.as_ref().map(|(id, _)| *id),
        (None, None) => own.filter(|_| parent.is_none()),
    };
    let other = parent.as_ref().map_or(Other::None, |_| Other::found(above.as_ref().map(|(_, id)| id)));
    // Judged first: a caller without the right does not learn whether they exist.
    let permit = call.allow(&About { domain: at.as_ref(), other, ..About::default() })?;
    if let (Some(said), None) = (&domain, &in_domain) {
        return Err(Trouble::missing("domain", said));
    }
    if let (Some(said), None) = (&parent, &above) {
        return Err(Trouble::missing("project", said));
    }
    let domain = at.ok_or_else(|| {
        invalid("Invalid input for field/attribute domain_id: expected the id of a domain.")
    })?;
    let parent = above.and_then(|(id, _)| id);
    let name = given.needed("name")?;
    let (enabled, description, tags) = (true, None, Vec::new());
    let new = Project { domain, parent, name, enabled, description, tags };
    let made =
        call.save(&permit, |desk| save_project(desk, None, &|before| changed(&given, before, &new)))?;
    let body = body(&call.base, &made.id, &made.row, &made.extra);
    Ok(Said::json(StatusCode::CREATED, &json!({ "project": body })))
}

pub(super) fn update(call: &mut Call) -> Outcome {
    let (id, row, extra, permit) = found(call)?;
    let given = Given::of(call, "project")?;
    unless_immutable(&extra, Some(&given))?;
    let stays = |name: &str, is: String| match given.text(name)? {
        Some(said) if said.as_deref() != Some(is.as_str()) => {
            Err(Error::Refused(format!("a project's {name} cannot be changed")))
        }
        _ => Ok(()),
    };
    stays("domain_id", row.domain.to_keystone())?;
    stays("parent_id", row.parent.map_or(row.domain.to_keystone(), |parent| parent.to_string()))?;
    let saved =
        call.save(&permit, |desk| save_project(desk, Some(id), &|before| changed(&given, before, &row)))?;
    Ok(Said::json(StatusCode::OK, &json!({ "project": body(&call.base, &id, &saved.row, &saved.extra) })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let (id, _, extra, permit) = found(call)?;
    unless_immutable(&extra, None)?;
    call.save(&permit, |desk| remove_project(desk, &id))?;
    Ok(Said::nothing())
}

pub(super) fn list_tags(call: &mut Call) -> Outcome {
    let (_, row, ..) = found(call)?;
    Ok(Said::json(StatusCode::OK, &json!({ "tags": row.tags })))
}

pub(super) fn has_tag(call: &mut Call) -> Outcome {
    let (_, row, ..) = found(call)?;
    let tag = listing::plain(call.parameter(1));
    if row.tags.contains(&tag) { Ok(Said::nothing()) } else { Err(Trouble::missing("project tag", &tag)) }
}

fn set_tags(call: &mut Call, edit: impl Fn(&mut Vec<String>) -> bool) -> Result<Vec<String>, Trouble> {
    let (id, _, extra, permit) = found(call)?;
    unless_immutable(&extra, None)?;
    let tag = listing::plain(call.parameter(1));
    let saved = call.save(&permit, |desk| {
        save_project(desk, Some(id), &|before| {
            let (row, extra) = before.ok_or_else(|| invalid("the project was removed"))?;
            let mut row = row.clone();
            match edit(&mut row.tags) {
                true => Ok((row, extra.to_owned())),
                false => Err(Error::Missing { what: "project tag", name: tag.clone(), hint: "" }),
            }
        })
    })?;
    Ok(saved.row.tags)
}

pub(super) fn put_tags(call: &mut Call) -> Outcome {
    // Judged first: a caller without the right is refused whatever the body contains.
    found(call)?;
    let body: Value =
        serde_json::from_slice(&call.body).map_err(|_| Trouble::invalid("the body is not JSON"))?;
    let text = |tag: &Value| tag.as_str().map(str::to_owned);
    let tags = body.get("tags").and_then(Value::as_array);
    let tags = tags.and_then(|tags| tags.iter().map(text).collect::<Option<Vec<_>>>());
    let expected = || Trouble::invalid("Expecting to find tags, a list of strings, in the body.");
    let tags = unique(tags.ok_or_else(expected)?);
    let tags = set_tags(call, |own| {
        own.clone_from(&tags);
        true
    })?;
    Ok(Said::json(StatusCode::OK, &json!({ "tags": tags })))
}

pub(super) fn put_tag(call: &mut Call) -> Outcome {
    let tag = listing::plain(call.parameter(1));
    set_tags(call, |own| {
        if !own.contains(&tag) {
            own.push(tag.clone());
        }
        true
    })?;
    Ok(Said { status: StatusCode::CREATED, body: enfilade_faces::Body::empty(), subject: None })
}

pub(super) fn delete_tag(call: &mut Call) -> Outcome {
    let tag = listing::plain(call.parameter(1));
    set_tags(call, |own| {
        let before = own.len();
        own.retain(|one| *one != tag);
        own.len() < before
    })?;
    Ok(Said::nothing())
}

pub(super) fn delete_tags(call: &mut Call) -> Outcome {
    set_tags(call, |own| {
        own.clear();
        true
    })?;
    Ok(Said::nothing())
}
