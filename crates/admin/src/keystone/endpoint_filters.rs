//! Endpoint groups, and the endpoints and groups that the catalog of a project contains.

use super::names::check_name_with_blanks;
use super::resource::{Saving, StoredResource, claim};
use crate::change_context::ChangeContext;
use crate::comment::check_comment;
use crate::error::{Error, missing};
use enfilade_facts::tables::{
    Endpoint, EndpointFilter, EndpointFilterKey, EndpointGroup, Leaving, LeavingKey, Project, ResourceKind,
    Reverse, ReverseKey, Selected,
};
use enfilade_facts::vocabulary::{EndpointGroupId, EndpointId, ProjectId};
use enfilade_facts::{Change, View};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The maximum number of filters that one change deletes.
const AT_ONCE: usize = 256;

impl StoredResource for EndpointGroup {
    const NAME: &'static str = "endpoint group";
    const KIND: ResourceKind = ResourceKind::EndpointGroup;

    fn called(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, _: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_name_with_blanks("endpoint group", &self.name)?;
        check_comment(self.description.as_deref())
    }

    /// No catalog depends on the group from this change on. If many filters select the group, this change deletes only some of the filters. The other
    /// filters are deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &EndpointGroupId) -> Result<(), Error> {
        // A change that adds a filter for the group also expects that the group's record is unchanged. So if such a change and this deletion are made
        // at the same time, they conflict.
        claim(view, change, id, self)?;
        change.delete::<EndpointGroup>(id);
        forget_selected(view, change, Selected::Group(*id))
    }
}

/// Adds to a change the deletion of the filters that select an endpoint or a group. If there are many filters, the change deletes only some of the
/// filters. The other filters are deleted in the background.
pub(super) fn forget_selected(view: &View<'_>, change: &mut Change, selected: Selected) -> Result<(), Error> {
    if !take_selected(view, change, &selected)? {
        change.put(&LeavingKey::Selected(selected), &Leaving);
    }
    Ok(())
}

/// Adds to a change the deletion of at most [`AT_ONCE`] filters that select an endpoint or a group. Returns `false` if more filters may be left.
pub(super) fn take_selected(
    view: &View<'_>,
    change: &mut Change,
    selected: &Selected,
) -> Result<bool, Error> {
    let mut count = 0;
    view.page::<Reverse>(&ReverseKey::selecting(selected), None, |key, _| {
        if let ReverseKey::Selected(selected, project) = key {
            change.delete::<EndpointFilter>(&EndpointFilterKey { project, selected });
        }
        count += 1;
        if count < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(count < AT_ONCE)
}

/// Adds to a change the deletion of at most [`AT_ONCE`] filters of a project. Returns `false` if more filters may be left.
pub(super) fn take_filters_of(
    view: &View<'_>,
    change: &mut Change,
    project: &ProjectId,
) -> Result<bool, Error> {
    let mut count = 0;
    view.page::<EndpointFilter>(&EndpointFilterKey::of(project), None, |key, _| {
        change.delete::<EndpointFilter>(&key);
        count += 1;
        if count < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(count < AT_ONCE)
}

/// Adds an endpoint or a group to the catalog of a project if `is_so` is set; otherwise removes it from the catalog.
///
/// # Errors
/// When the project, the endpoint or the group does not exist, or the facts cannot be changed. When the catalog already contains the endpoint or
/// group to add, or does not contain the endpoint or group to remove.
pub fn set_filter(ctx: &ChangeContext<'_>, key: &EndpointFilterKey, is_so: bool) -> Result<(), Error> {
    let EndpointFilterKey { project, selected } = key;
    let (what, id) = match selected {
        Selected::Endpoint(id) => ("endpoint", id.to_string()),
        Selected::Group(id) => ("endpoint group", id.to_string()),
    };
    let verb = if is_so { "add" } else { "remove" };
    ctx.commit(&format!("project {project} {what} {id} {verb}"), |view, change| {
        let is = view.get::<EndpointFilter>(key)?.is_some();
        match (is, is_so) {
            (true, true) => {
                let hint = "the project's catalog already contains it";
                return Err(Error::Exists { what, name: id.clone(), hint });
            }
            (false, false) => return Err(missing("endpoint filter", &id)),
            (true, false) => drop(change.delete::<EndpointFilter>(key)),
            (false, true) => {
                view.get::<Project>(project)?.ok_or_else(|| missing("project", project))?;
                match selected {
                    Selected::Endpoint(id) => {
                        let row = view.get::<Endpoint>(id)?.ok_or_else(|| missing("endpoint", id))?;
                        claim(view, change, id, &row)?;
                    }
                    Selected::Group(id) => {
                        let row = view.get::<EndpointGroup>(id)?;
                        claim(view, change, id, &row.ok_or_else(|| missing("endpoint group", id))?)?;
                    }
                }
                change.expect_present::<Project>(project).expect_absent::<EndpointFilter>(key);
                change.put(key, &EndpointFilter);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// The endpoints of a group.
///
/// # Errors
/// When the facts cannot be read.
pub fn endpoints_of_group(
    view: &View<'_>,
    group: &EndpointGroup,
) -> Result<Vec<(EndpointId, Endpoint)>, Error> {
    let all = view.list::<Endpoint>(&[])?;
    Ok(all.into_iter().filter(|(_, row)| group.filters.match_with(row)).collect())
}

/// The endpoints that the filters of a project select.
///
/// # Errors
/// When the facts cannot be read.
pub fn endpoints_of_project(
    view: &View<'_>,
    project: &ProjectId,
) -> Result<Vec<(EndpointId, Endpoint)>, Error> {
    let (mut single, mut groups) = (BTreeSet::new(), Vec::new());
    for (key, _) in view.list::<EndpointFilter>(&EndpointFilterKey::of(project))? {
        match key.selected {
            Selected::Endpoint(id) => drop(single.insert(id)),
            Selected::Group(id) => groups.extend(view.get::<EndpointGroup>(&id)?),
        }
    }
    let is_selected = |(id, row): &(EndpointId, Endpoint)| {
        single.contains(id) || groups.iter().any(|group| group.filters.match_with(row))
    };
    Ok(view.list::<Endpoint>(&[])?.into_iter().filter(is_selected).collect())
}

/// The groups that the filters of a project select.
///
/// # Errors
/// When the facts cannot be read.
pub fn groups_of_project(
    view: &View<'_>,
    project: &ProjectId,
) -> Result<Vec<(EndpointGroupId, EndpointGroup)>, Error> {
    let mut found = Vec::new();
    for (key, _) in view.list::<EndpointFilter>(&EndpointFilterKey::of(project))? {
        if let Selected::Group(id) = key.selected {
            found.extend(view.get::<EndpointGroup>(&id)?.map(|row| (id, row)));
        }
    }
    Ok(found)
}
