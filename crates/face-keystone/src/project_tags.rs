//! The tags of projects, and the filters with which clients list projects by their tags.

use super::request_body::invalid;
use super::resource::{Record, Resource as _, unless_immutable};
use super::{ApiError, ApiResponse, Call, Outcome, listing, query};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, save};
use enfilade_facts::tables::Project;
use hyper::StatusCode;
use serde_json::{Value, json};

/// The filters `tags`, `tags-any`, `not-tags` and `not-tags-any`.
pub(super) struct TagFilters([Option<Vec<String>>; 4]);

impl TagFilters {
    pub(super) fn of(call: &Call) -> Self {
        let names = ["tags", "tags-any", "not-tags", "not-tags-any"];
        TagFilters(names.map(|name| {
            Some(listing::plain(query(&call.head, name)?).split(',').map(str::to_owned).collect())
        }))
    }

    /// Whether a project with these tags is listed.
    pub(super) fn hold(&self, tags: &[String]) -> bool {
        let TagFilters([all, any, not_all, not_any]) = self;
        let has_all = |wanted: &Vec<String>| wanted.iter().all(|tag| tags.contains(tag));
        let has_any = |wanted: &Vec<String>| wanted.iter().any(|tag| tags.contains(tag));
        all.as_ref().is_none_or(has_all)
            && any.as_ref().is_none_or(has_any)
            && !not_all.as_ref().is_some_and(has_all)
            && !not_any.as_ref().is_some_and(has_any)
    }
}

/// The tags without duplicates.
pub(super) fn unique(tags: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for tag in tags {
        if !kept.contains(&tag) {
            kept.push(tag);
        }
    }
    kept
}

pub(super) fn list_tags(call: &mut Call) -> Outcome {
    let (Record { row, .. }, _) = Project::found(call)?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "tags": row.tags })))
}

pub(super) fn has_tag(call: &mut Call) -> Outcome {
    let (Record { row, .. }, _) = Project::found(call)?;
    let tag = call.decoded(1);
    if row.tags.contains(&tag) {
        Ok(ApiResponse::no_content())
    } else {
        Err(ApiError::missing("project tag", &tag))
    }
}

fn set_tags(call: &mut Call, edit: impl Fn(&mut Vec<String>) -> bool) -> Result<Vec<String>, ApiError> {
    let (project, permit) = Project::found(call)?;
    unless_immutable(&project, None)?;
    let tag = call.decoded(1);
    let saved = call.save(&permit, |ctx| {
        save(ctx, &RecordId::Existing(project.id), &|before: Option<(&Project, &str)>| {
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
    // The authorization rule is checked before the body is parsed. So a caller who does not have the right is refused even if the body is malformed.
    Project::found(call)?;
    let body = call.json()?;
    // In the two calls that set tags, Keystone removes blanks at the start and the end of each tag. In the body of a project, Keystone does not
    // remove these blanks.
    let text = |tag: &Value| tag.as_str().map(|tag| tag.trim().to_owned());
    let tags = body.get("tags").and_then(Value::as_array);
    let tags = tags.and_then(|tags| tags.iter().map(text).collect::<Option<Vec<_>>>());
    let expected = || ApiError::invalid("Expecting to find tags, a list of strings, in the body.");
    let tags = unique(tags.ok_or_else(expected)?);
    let tags = set_tags(call, |own| {
        own.clone_from(&tags);
        true
    })?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "tags": tags })))
}

pub(super) fn put_tag(call: &mut Call) -> Outcome {
    let tag = call.decoded(1).trim().to_owned();
    set_tags(call, |own| {
        if !own.contains(&tag) {
            own.push(tag.clone());
        }
        true
    })?;
    Ok(ApiResponse::new(StatusCode::CREATED, enfilade_faces::Body::empty()))
}

pub(super) fn delete_tag(call: &mut Call) -> Outcome {
    let tag = call.decoded(1);
    set_tags(call, |own| {
        let before = own.len();
        own.retain(|one| *one != tag);
        own.len() < before
    })?;
    Ok(ApiResponse::no_content())
}

pub(super) fn delete_tags(call: &mut Call) -> Outcome {
    set_tags(call, |own| {
        own.clear();
        true
    })?;
    Ok(ApiResponse::no_content())
}
