//! Projects. The projects of each domain form a tree.

use super::listing::Filters;
use super::project_tags::{TagFilters, unique};
use super::request_body::{RequestBody, invalid};
use super::resource::{
    InDomain, Record, Resource, Selection, Store, answer, created, delete, described, list, no_domain, update,
};
use super::schema::{Schema, Type};
use super::{ApiError, Call, Outcome, acting_domains, query, users};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, parents_of, scopes_of, subtree_of};
use enfilade_facts::tables::{Domain, NameKind, Project, ResourceKind};
use enfilade_facts::vocabulary::{DomainId, ProjectId};
use enfilade_passage::{About, ApiPermit, Other};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

impl Resource for Project {
    const SCHEMA: Schema = Schema {
        one: "project",
        many: "projects",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("domain_id", Type::Text, Type::TextOrNull),
            ("parent_id", Type::Text, Type::TextOrNull),
            ("description", Type::Text, Type::TextOrNull),
            ("enabled", Type::Flag, Type::Flag),
            ("is_domain", Type::Flag, Type::None),
            ("tags", Type::Texts, Type::Texts),
            ("options", Type::Object, Type::Object),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Project);
    const STORE: Store<Self> = Store::BY_ID;
    const IN_DOMAIN: Option<InDomain<Self>> = Some(InDomain {
        names: NameKind::Project,
        id: |name| name.project(),
        place: |row| (row.domain, &row.name),
    });
    const FILTERS: &'static [&'static str] = &["tags", "tags-any", "not-tags", "not-tags-any", "is_domain"];

    fn attributes(&self) -> Value {
        json!({
            "name": self.name, "domain_id": self.domain.to_keystone(), "parent_id": parent_id(self),
            "description": self.description.as_deref().unwrap_or_default(), "enabled": self.enabled,
            "is_domain": false, "tags": self.tags,
        })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.set("name", &mut self.name)?;
        given.set_flag("enabled", &mut self.enabled)?;
        given.set_or_remove("description", &mut self.description)?;
        if let Some(tags) = given.texts("tags")? {
            self.tags = unique(tags);
        }
        Ok(())
    }

    fn keeps(&self, given: &RequestBody) -> Result<(), Error> {
        for (name, is) in [("domain_id", self.domain.to_keystone()), ("parent_id", parent_id(self))] {
            if !given.keeps(name, Some(&is))? {
                return Err(Error::Refused(format!("a project's {name} cannot be changed")));
            }
        }
        if given.flag("is_domain")? == Some(true) {
            return Err(invalid(
                "Invalid input for field/attribute is_domain of project: it cannot be changed.",
            ));
        }
        Ok(())
    }

    fn about<'a>(&'a self, id: &'a ProjectId) -> About<'a> {
        About { domain: Some(&self.domain), project: Some(id), ..About::default() }
    }

    fn selection(call: &Call) -> Result<Selection<Self>, ApiError> {
        let tags = TagFilters::of(call);
        Ok(Box::new(move |row| tags.hold(&row.tags)))
    }

    fn list(call: &mut Call) -> Outcome {
        let is_domain = query(&call.head, "is_domain").map(str::to_ascii_lowercase);
        match is_domain.is_some_and(|text| ["true", "1"].contains(&text.as_str())) {
            true => acting_domains::list(call),
            false => list::<Project>(call),
        }
    }

    fn show(call: &mut Call) -> Outcome {
        or_domain(call, show, acting_domains::show)
    }

    fn update(call: &mut Call) -> Outcome {
        or_domain(call, update::<Project>, acting_domains::update)
    }

    fn delete(call: &mut Call) -> Outcome {
        or_domain(call, delete::<Project>, acting_domains::delete)
    }

    fn create(call: &mut Call) -> Outcome {
        let given = RequestBody::of(call, "project")?;
        if given.flag("is_domain")? == Some(true) {
            return acting_domains::create(call, given);
        }
        let (permit, domain, parent) = place(call, &given)?;
        let name = given.needed("name")?;
        let (enabled, description, tags) = (true, None, Vec::new());
        let new = Project { domain, parent, name, enabled, description, tags };
        created(call, (permit, given), &RecordId::New, &new)
    }
}

/// Answers a call about the project in the path. If there is no such project, the id can be the id of a domain. The domain is looked up last, so that
/// calls about projects need no further lookup.
fn or_domain(
    call: &mut Call,
    answer: fn(&mut Call) -> Outcome,
    of_domain: fn(&mut Call, Record<Domain>) -> Outcome,
) -> Outcome {
    let why = match answer(call) {
        Ok(done) => return Ok(done),
        Err(why) => why,
    };
    match acting_domains::named(call)? {
        Some(domain) => of_domain(call, domain),
        None => Err(why),
    }
}

fn show(call: &mut Call) -> Outcome {
    let (mut project, permit) = Project::found(call)?;
    let others = relatives(call, &project, &permit)?;
    // Only this response contains the parents and the subtree as attributes.
    project.extra.extend(others);
    Ok(answer(call, StatusCode::OK, project, &permit))
}

fn parent_id(row: &Project) -> String {
    row.parent.map_or(row.domain.to_keystone(), |parent| parent.to_string())
}

/// The permit to create a project, the domain of the project, and its parent. If the request contains neither a domain nor a parent, the project gets
/// the domain that `Call::own_domain` returns for the session.
fn place(call: &mut Call, given: &RequestBody) -> Result<(ApiPermit, DomainId, Option<ProjectId>), ApiError> {
    let parent = given.text("parent_id")?.flatten();
    let domain = given.text("domain_id")?.flatten();
    let (in_domain, above) = call.look(|view| {
        let in_domain = domain.as_ref().map(|id| Domain::find(view, id)).transpose()?.flatten();
        let Some(said) = &parent else { return Ok((in_domain, None)) };
        // A parent may be a domain.
        let above = match Domain::find(view, said)? {
            Some((id, _)) => Some((None, id)),
            None => Project::find(view, said)?.map(|(id, row)| (Some(id), row.domain)),
        };
        Ok((in_domain, above))
    })?;
    let at = match (&above, &domain) {
        (Some((None, id)), _) | (Some((_, id)), None) => Some(*id),
        (_, Some(_)) => in_domain.as_ref().map(|(id, _)| *id),
        (None, None) => call.own_domain().filter(|_| parent.is_none()),
    };
    let other = parent.as_ref().map_or(Other::None, |_| Other::found(above.as_ref().map(|(_, id)| id)));
    // The authorization rule is checked before a 404 response. Otherwise an unauthorized caller would learn whether the domain or the parent exists.
    let permit = call.allow(&About { domain: at.as_ref(), other, ..About::default() })?;
    if let (Some(said), None) = (&domain, &in_domain) {
        return Err(ApiError::missing("domain", said));
    }
    if let (Some(said), None) = (&parent, &above) {
        return Err(ApiError::missing("project", said));
    }
    let domain = at.ok_or_else(no_domain)?;
    Ok((permit, domain, above.and_then(|(id, _)| id)))
}

/// The parents (all ancestors) and the subtree of a project, if the request asks for them. Shows only projects that the caller may see. Exception:
/// `parents_as_ids` contains the ids of all parents.
fn relatives(
    call: &mut Call,
    project: &Record<Project>,
    permit: &ApiPermit,
) -> Result<Map<String, Value>, ApiError> {
    let Record { id, row, .. } = project;
    // A caller that is only a member of the project sees only projects on which the caller has a role.
    let own = match call.allow_by("list_role_assignments_for_tree", &row.about(id)) {
        Ok(_) => None,
        Err(_) => Some(scopes_of(call.faces.house().source(), &call.visit.principal().user)?.projects),
    };
    let is_told = |(id, _): &(ProjectId, Project)| {
        own.as_ref().is_none_or(|own| own.iter().any(|(other, _)| other == id))
    };
    let described = |(id, row): &(ProjectId, Project)| {
        let body = Project::described(&call.base, Record::bare(*id, row.clone()), permit);
        json!({ "project": body })
    };
    call.look(|view| {
        let mut more = Map::new();
        for (name, projects) in [("parents", parents_of(view, id)?), ("subtree", subtree_of(view, id)?)] {
            let told: Vec<_> = projects.iter().filter(|project| is_told(project)).cloned().collect();
            if is_asked(call, &format!("{name}_as_list")) {
                more.insert(name.to_owned(), told.iter().map(described).collect());
            } else if is_asked(call, &format!("{name}_as_ids")) {
                let ids = match name {
                    "parents" => projects
                        .iter()
                        .rev()
                        .fold(Value::Null, |inner, (id, _)| json!({ id.to_string(): inner })),
                    _ => tree_of_ids(id, &told),
                };
                more.insert(name.to_owned(), ids);
            }
        }
        Ok(more)
    })
}

/// Lists the projects on which a user has a role.
pub(super) fn of_user(call: &mut Call) -> Outcome {
    let (user, domain) = users::of_path(call, 0)?;
    let permit = call.allow(&About { user: Some(&user), domain: domain.as_ref(), ..About::default() })?;
    users::existing(call, &user)?;
    let mut projects = scopes_of(call.faces.house().source(), &user)?.projects;
    // As in Keystone, an administrator gets all projects of a user, even with a session for a domain.
    let only = permit.only_domain().filter(|_| !permit.is_administrators());
    projects.retain(|(_, row)| only.is_none_or(|only| only == row.domain));
    let filters = Filters::of(&call.head, &[]);
    let rows: Vec<Value> = call.look(|view| {
        projects
            .into_iter()
            .map(|project| described((view, call.now()), &call.base, project, &permit))
            .collect()
    })?;
    Ok(super::listed(call, "projects", rows.into_iter().filter(|row| filters.hold(row)).collect()))
}

fn is_asked(call: &Call, name: &str) -> bool {
    query(&call.head, name).is_some_and(|value| !["0", "false", "False"].contains(&value))
}

fn tree_of_ids(id: &ProjectId, all: &[(ProjectId, Project)]) -> Value {
    let children = all.iter().filter(|(_, row)| row.parent.as_ref() == Some(id));
    let each: Map<String, Value> = children.map(|(id, _)| (id.to_string(), tree_of_ids(id, all))).collect();
    if each.is_empty() { Value::Null } else { Value::Object(each) }
}
