//! Projects.

use super::grants::name_of_scope;
use super::leaving::{forget_project, of_project};
use super::names::check_name;
use super::resource::{Saving, StoredResource, put_and_end};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::{Error, missing};
use crate::resolve::{dangling, domain_id, user_id};
use enfilade_facts::limits::{DOMAIN_NAME_CHARS_MAX, NAME_CHARS_MAX, PROJECT_DEPTH_MAX};
use enfilade_facts::tables::{
    Binding, Datastore, Domain, GrantScope, Leaving, LeavingKey, Name, NameKey, Profile, Project,
    ResourceKind, Reverse, ReverseKey,
};
use enfilade_facts::vocabulary::{DatastoreName, DomainId, NameInDomain, ProjectId, Realm, Userid};
use enfilade_facts::{At, Change, Read, Source, View};

impl StoredResource for Project {
    const NAME: &'static str = "project";
    const KIND: ResourceKind = ResourceKind::Project;
    const DELETE: &'static str = "remove";

    fn called(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_name("project", &self.name, DOMAIN_NAME_CHARS_MAX)?;
        check_comment(self.description.as_deref())?;
        check_tags(&self.tags)?;
        at.take_name(|row| NameKey::project(&row.domain, &row.name), self, &self.name, at.id.stored())?;
        match at.before {
            Some(before) if before.parent != self.parent || before.domain != self.domain => {
                Err(Error::Refused("the domain and the parent of a project cannot be changed".to_owned()))
            }
            Some(before) if before.enabled && !self.enabled => {
                match children_of(at.view, at.id)?.iter().any(|(_, child)| child.enabled) {
                    true => Err(Error::Refused(
                        "a project cannot be disabled while projects in it are enabled".to_owned(),
                    )),
                    false => Ok(()),
                }
            }
            Some(_) => Ok(()),
            None => expect_place(self, at),
        }
    }

    fn put(&self, change: &mut Change, id: &ProjectId, before: Option<&Self>) {
        put_and_end(change, id, before, self);
    }

    /// A project with other projects in it is not deleted. The sessions for a deleted project end immediately; the roles on the project, and
    /// everything that is bound to the project, are deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &ProjectId) -> Result<(), Error> {
        if !children_of(view, id)?.is_empty() {
            let why = format!("Cannot delete the project {id} since it is not a leaf in the hierarchy.");
            return Err(Error::Refused(why));
        }
        change.delete::<Name>(&NameKey::project(&self.domain, &self.name));
        forget_project(change, id, self);
        // Everything that is bound to a small project fits into this change. Then nothing is left to delete in the background.
        if of_project(view, change, id)? {
            change.delete::<Leaving>(&LeavingKey::Project(*id));
        }
        change.end_with::<Project>(id);
        Ok(())
    }
}

/// Checks the domain and the parent of a new project. The change is committed only if both still exist.
fn expect_place(row: &Project, at: &mut Saving<'_, '_, Project>) -> Result<(), Error> {
    let Saving { view, change, id, limit_model, .. } = at;
    view.get::<Domain>(&row.domain)?.ok_or_else(|| missing("domain", row.domain))?;
    if let Some(parent) = &row.parent {
        let above = view.get::<Project>(parent)?.ok_or_else(|| missing("project", parent))?;
        if above.domain != row.domain {
            return Err(Error::Invalid("a project must be in the domain of its parent".to_owned()));
        }
        if parents_of(view, parent)?.len() + 1 > limit_model.depth_max() {
            return Err(Error::Refused(
                "projects are nested too deep: choose a parent that is nearer to the top".to_owned(),
            ));
        }
        change.expect_present::<Project>(parent).put(&ReverseKey::Child(*parent, **id), &Reverse);
    }
    change.expect_present::<Domain>(&row.domain);
    Ok(())
}

pub(super) fn check_tags(tags: &[String]) -> Result<(), Error> {
    let is_long = |tag: &String| tag.chars().nth(NAME_CHARS_MAX).is_some();
    let is_tag = |tag: &String| !tag.is_empty() && !is_long(tag) && !tag.contains(['/', ',']);
    match tags.len() <= 80 && tags.iter().all(is_tag) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "a project has at most 80 tags, each of 1 to {NAME_CHARS_MAX} characters and without `/` and `,`"
        ))),
    }
}

/// The projects that are directly in a project.
///
/// # Errors
/// When the facts cannot be read.
pub fn children_of(view: &View<'_>, id: &ProjectId) -> Result<Vec<(ProjectId, Project)>, Error> {
    let mut found = Vec::new();
    for (key, _) in view.list::<Reverse>(&ReverseKey::children_of(id))? {
        if let ReverseKey::Child(_, child) = key {
            found.extend(view.get::<Project>(&child)?.map(|row| (child, row)));
        }
    }
    Ok(found)
}

/// The projects below a project, the nearest first.
///
/// # Errors
/// When the facts cannot be read.
pub fn subtree_of(view: &View<'_>, id: &ProjectId) -> Result<Vec<(ProjectId, Project)>, Error> {
    let mut found = children_of(view, id)?;
    let mut at = 0;
    while let Some((child, _)) = found.get(at) {
        let more = children_of(view, &child.clone())?;
        found.extend(more);
        at += 1;
    }
    Ok(found)
}

/// The projects above a project, the nearest first.
///
/// # Errors
/// When the facts cannot be read.
pub fn parents_of(view: &View<'_>, id: &ProjectId) -> Result<Vec<(ProjectId, Project)>, Error> {
    let mut found = Vec::new();
    let mut above = view.get::<Project>(id)?.and_then(|row| row.parent);
    while let Some(parent) = above.filter(|_| found.len() <= PROJECT_DEPTH_MAX) {
        let row = view.get::<Project>(&parent)?;
        above = row.as_ref().and_then(|row| row.parent);
        found.extend(row.map(|row| (parent, row)));
    }
    Ok(found)
}

/// A project, for listing.
#[derive(Clone, Debug)]
pub struct ProjectSummary {
    /// The id of the project.
    pub id: ProjectId,
    /// The name of the project.
    pub name: String,
    /// The domain of the project.
    pub domain: Realm,
    /// Whether sessions for the project are accepted.
    pub enabled: bool,
    /// The description.
    pub description: Option<String>,
    /// The datastores that are bound to the project.
    pub datastores: Vec<DatastoreName>,
}

impl ProjectSummary {
    /// The name with the domain, as commands write it.
    pub fn whole(&self) -> NameInDomain {
        NameInDomain { name: self.name.clone(), domain: self.domain.clone() }
    }
}

/// Changes of a project.
#[derive(Clone, Debug, Default)]
pub struct ProjectEdit {
    /// Whether sessions for the project are accepted.
    pub enabled: Option<bool>,
    /// The new description; an empty text removes the description.
    pub description: Option<String>,
}

/// Creates a project.
///
/// # Errors
/// When the domain does not exist, the name is invalid or taken in the domain, or the facts cannot be changed.
pub fn add_project(
    ctx: &ChangeContext<'_>,
    domain: &Realm,
    name: &str,
    description: Option<&str>,
) -> Result<(ProjectId, At), Error> {
    check_comment(description)?;
    check_name("project", name, DOMAIN_NAME_CHARS_MAX)?;
    let whole = NameInDomain { name: name.to_owned(), domain: domain.clone() };
    ctx.commit(&format!("project add {whole}"), |view, change| {
        let domain_id = domain_id(view, domain)?;
        let by_name = NameKey::project(&domain_id, name);
        if view.get::<Name>(&by_name)?.is_some() {
            let hint = "choose another name";
            return Err(Error::Exists { what: "project", name: whole.to_string(), hint });
        }
        let id = ProjectId::from_bytes(random()?);
        let description = description.map(str::to_owned);
        let (parent, tags) = (None, Vec::new());
        let row =
            Project { domain: domain_id, parent, name: name.to_owned(), enabled: true, description, tags };
        change.expect_absent::<Name>(&by_name).put(&by_name, &Name::new(id.stored(), name)).put(&id, &row);
        Ok(id)
    })
}

/// Finds a project by id, by `NAME@DOMAIN`, or by a name in the domain `Default` or `local`. A name alone never means a project of another domain,
/// because managers of that domain can create projects with any name.
///
/// # Errors
/// When no project or more than one matches.
pub fn find_project(source: &dyn Source, text: &str) -> Result<ProjectId, Error> {
    source.read(|view| project_of(view, text))?
}

fn project_of(view: &View<'_>, text: &str) -> Result<ProjectId, Error> {
    let missing = || Error::Missing {
        what: "project",
        name: text.to_owned(),
        hint: "see `enfilade project list`; expected an id, NAME or NAME@DOMAIN",
    };
    if let Ok(id) = text.parse::<ProjectId>()
        && view.get::<Project>(&id)?.is_some()
    {
        return Ok(id);
    }
    // A name may contain `@`. So if the text is not the NAME@DOMAIN of an existing project, the whole text is looked up as a name.
    let mut no_domain = None;
    if let Ok(NameInDomain { name, domain }) = text.parse() {
        match domain_id(view, &domain) {
            Ok(domain) => {
                if let Some(name) = view.get::<Name>(&NameKey::project(&domain, &name))? {
                    return Ok(name.project());
                }
            }
            Err(why @ Error::Missing { .. }) => no_domain = Some(why),
            Err(why) => return Err(why),
        }
    }
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (id, domain) in view.list::<Domain>(&[])? {
        let project = view.get::<Name>(&NameKey::project(&id, text))?.map(|name| name.project());
        let is_own = id == DomainId::DEFAULT || domain.name == Realm::local();
        let found = if is_own { &mut own } else { &mut others };
        found.extend(project.map(|project| {
            let whole = NameInDomain { name: text.to_owned(), domain: domain.name };
            (whole.to_string(), project)
        }));
    }
    let said = |mut found: Vec<(String, ProjectId)>, why: &str| {
        found.sort();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        Err(Error::Invalid(format!("{why} `{text}`; expected one of: {}", names.join(", "))))
    };
    match own.as_slice() {
        [(_, id)] => Ok(*id),
        [] if others.is_empty() => Err(no_domain.unwrap_or_else(missing)),
        [] => said(others, "neither the domain Default nor the domain local has a project"),
        _ => said(own, "several projects have the name"),
    }
}

/// The full name of a project, `NAME@DOMAIN`. If the project does not exist, the result is the id.
///
/// # Errors
/// When the facts cannot be read.
pub fn name_of_project(source: &dyn Source, id: &ProjectId) -> Result<String, Error> {
    source.read(|view| full_name(view, id))?
}

/// Like [`name_of_project`], but reads from a view.
pub(crate) fn full_name(view: &View<'_>, id: &ProjectId) -> Result<String, Error> {
    let Some(row) = view.get::<Project>(id)? else { return Ok(id.to_string()) };
    let domain = view.get::<Domain>(&row.domain)?.ok_or_else(|| dangling("domain", row.domain))?;
    Ok(NameInDomain { name: row.name, domain: domain.name }.to_string())
}

/// Changes a project. The change is in effect from the next request on.
///
/// # Errors
/// When the project no longer exists, or the facts cannot be changed.
pub fn set_project(ctx: &ChangeContext<'_>, id: &ProjectId, edit: &ProjectEdit) -> Result<At, Error> {
    check_comment(edit.description.as_deref())?;
    let said = ctx.facts.read(|view| name_of_scope(view, &GrantScope::Project(*id)))??;
    let parts = [
        edit.enabled.map(|enabled| if enabled { "enabled" } else { "disabled" }),
        edit.description
            .as_ref()
            .map(|text| if text.is_empty() { "description removed" } else { "description" }),
    ];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    let ((), at) = ctx.commit(&format!("{said} set: {}", parts.join(", ")), |view, change| {
        let row = view.get::<Project>(id)?.ok_or_else(|| dangling("project", id))?;
        let mut edited = row.clone();
        edited.enabled = edit.enabled.unwrap_or(row.enabled);
        if let Some(description) = &edit.description {
            edited.description = Some(description.clone()).filter(|text| !text.is_empty());
        }
        change.replace(id, &row, &edited);
        Ok(())
    })?;
    Ok(at)
}

/// Every project, sorted by domain and name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_projects(source: &dyn Source) -> Result<Vec<ProjectSummary>, Error> {
    source.read(|view| {
        let bindings = view.list::<Binding>(&[])?;
        let mut projects = Vec::new();
        for (id, row) in view.list::<Project>(&[])? {
            let bound = bindings.iter().filter(|(_, binding)| binding.project == id);
            projects.push(ProjectSummary {
                id,
                domain: view.get::<Domain>(&row.domain)?.ok_or_else(|| dangling("domain", row.domain))?.name,
                name: row.name,
                enabled: row.enabled,
                description: row.description,
                datastores: bound.map(|(name, _)| name.clone()).collect(),
            });
        }
        projects.sort_by(|a, b| (&a.domain, &a.name).cmp(&(&b.domain, &b.name)));
        Ok(projects)
    })?
}

/// Binds a datastore to a project, so that users with a role on the project can mount the datastore. If `project` is `None`, ends the binding.
///
/// # Errors
/// When the datastore or the project does not exist, or the facts cannot be changed.
pub fn bind_datastore(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    project: Option<ProjectId>,
) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("datastore bind {datastore}"), |view, change| {
        if view.get::<Datastore>(datastore)?.is_none() {
            let hint = "see `enfilade datastore list`";
            return Err(Error::Missing { what: "datastore", name: datastore.to_string(), hint });
        }
        match project {
            Some(project) => {
                change.expect_present::<Project>(&project).put(datastore, &Binding { project });
            }
            None => {
                change.delete::<Binding>(datastore);
            }
        }
        Ok(())
    })?;
    Ok(at)
}

/// Sets the default project of a user: the project of logins without a scope.
///
/// # Errors
/// When the user or the project does not exist, or the facts cannot be changed.
pub fn set_default_project(
    ctx: &ChangeContext<'_>,
    user: &Userid,
    project: Option<ProjectId>,
) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("user set {user}: default project"), |view, change| {
        let id = user_id(view, user)?;
        let profile = view.get::<Profile>(&id)?.unwrap_or_default();
        if let Some(project) = &project {
            change.expect_present::<Project>(project);
        }
        change.put(&id, &Profile { default_project: project, ..profile });
        Ok(())
    })?;
    Ok(at)
}
