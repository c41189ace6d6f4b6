//! Domains, projects, groups, roles and the catalog by id, as Identity v3 changes them: one function for each kind makes it or makes it
//! another, with what clients keep beside it.

use super::extra::{extra_of, put_extra};
use super::names::check_name;
use crate::desk::{Desk, random};
use crate::error::{Error, missing};
use crate::users::{check_comment, choose_sid};
use enfilade_facts::limits::PROJECT_DEPTH_MAX;
use enfilade_facts::tables::{
    Domain, Endpoint, Ends, Extra, ExtraKey, Group, Key, Leaving, LeavingKey, Member, Membership,
    MembershipKey, Name, NameKey, NamedRole, Project, Region, RegionId, Reverse, ReverseKey, Row, Service,
    ThingKind, User,
};
use enfilade_facts::vocabulary::{DomainId, EndpointId, GroupId, ProjectId, RoleId, ServiceId, UserId};
use enfilade_facts::{Change, View};

/// What a thing is to be, of what it was: the record, and the JSON object clients keep beside it (empty for none).
pub type Build<'b, R> = &'b dyn Fn(Option<(&R, &str)>) -> Result<(R, String), Error>;

/// A thing as it is now.
#[derive(Clone, Debug)]
pub struct Saved<K, R> {
    /// Its id.
    pub id: K,
    /// The record.
    pub row: R,
    /// What clients keep beside it.
    pub extra: String,
}

/// The steps every kind shares: what it was, what it is to be, and both written down.
fn save<K: Key + Copy + std::fmt::Display, R: Row<Key = K> + Clone>(
    desk: &Desk<'_>,
    named: (ThingKind, &'static str),
    id: Option<K>,
    new_id: impl Fn([u8; 16]) -> K,
    build: Build<'_, R>,
    check: impl Fn(&View<'_>, &mut Change, &K, Option<&R>, &R) -> Result<(), Error>,
) -> Result<Saved<K, R>, Error> {
    save_by(desk, named, id, new_id, build, |view, change, id, old, new| {
        check(view, change, id, old, new)?;
        change.expect_unchanged(id, old).put(id, new);
        Ok(())
    })
}

/// The same of what sessions rest on: those that rest on more than it is from now on end.
fn save_and_end<K: Key + Copy + std::fmt::Display, R: Ends<Key = K> + Clone>(
    desk: &Desk<'_>,
    named: (ThingKind, &'static str),
    id: Option<K>,
    new_id: impl Fn([u8; 16]) -> K,
    build: Build<'_, R>,
    check: impl Fn(&View<'_>, &mut Change, &K, Option<&R>, &R) -> Result<(), Error>,
) -> Result<Saved<K, R>, Error> {
    save_by(desk, named, id, new_id, build, |view, change, id, old, new| {
        check(view, change, id, old, new)?;
        match old {
            Some(old) => change.replace(id, old, new),
            None => change.expect_absent::<R>(id).put(id, new),
        };
        Ok(())
    })
}

fn save_by<K: Key + Copy + std::fmt::Display, R: Row<Key = K> + Clone>(
    desk: &Desk<'_>,
    (kind, what): (ThingKind, &'static str),
    id: Option<K>,
    new_id: impl Fn([u8; 16]) -> K,
    build: Build<'_, R>,
    put: impl Fn(&View<'_>, &mut Change, &K, Option<&R>, &R) -> Result<(), Error>,
) -> Result<Saved<K, R>, Error> {
    let verb = if id.is_some() { "update" } else { "create" };
    let (saved, _) = desk.commit(&format!("{what} {verb}"), |view, change| {
        let id = id.map_or_else(|| random().map(&new_id), Ok)?;
        let before = match view.get::<R>(&id)? {
            Some(row) => Some((row, extra_of(view, kind, &id)?)),
            None => None,
        };
        if verb == "update" && before.is_none() {
            return Err(Error::Missing { what, name: id.to_string(), hint: "look at the list of them" });
        }
        let (row, extra) = build(before.as_ref().map(|(row, extra)| (row, extra.as_str())))?;
        let old = before.as_ref().map(|(row, _)| row);
        put(view, change, &id, old, &row)?;
        put_extra(change, kind, &id, &extra)?;
        Ok(Saved { id, row, extra })
    })?;
    Ok(saved)
}

/// A name of something: free before it is taken, and the old one given up.
fn take_name(
    view: &View<'_>,
    change: &mut Change,
    what: &'static str,
    (old, new): (Option<NameKey>, NameKey),
    id: [u8; 16],
) -> Result<(), Error> {
    if old.as_ref() == Some(&new) {
        return Ok(());
    }
    if view.get::<Name>(&new)?.is_some() {
        return Err(Error::Exists { what, name: new.name().to_owned(), hint: "choose another name" });
    }
    if let Some(old) = old {
        change.delete::<Name>(&old);
    }
    change.expect_absent::<Name>(&new).put(&new, &Name(id));
    Ok(())
}

/// Makes a domain, or changes one. Whoever is in one that is disabled comes in no more, and what they had stays worth nothing.
///
/// # Errors
/// When the name is taken, or the facts cannot be changed.
pub fn save_domain(
    desk: &Desk<'_>,
    id: Option<DomainId>,
    build: Build<'_, Domain>,
) -> Result<Saved<DomainId, Domain>, Error> {
    save_and_end(
        desk,
        (ThingKind::Domain, "domain"),
        id,
        DomainId::from_bytes,
        build,
        |view, change, id, old, new| {
            check_comment(new.description.as_deref())?;
            let names = (old.map(|old| NameKey::domain(&old.name)), NameKey::domain(&new.name));
            take_name(view, change, "domain", names, *id.bytes())
        },
    )
}

/// Removes a domain that is disabled. Everything in it is inaccessible at once, and deleted in the background.
///
/// # Errors
/// When it is enabled, or not there, or the facts cannot be changed.
pub fn delete_domain(desk: &Desk<'_>, id: &DomainId) -> Result<(), Error> {
    desk.commit(&format!("domain delete {id}"), |view, change| {
        let row = view.get::<Domain>(id)?.ok_or_else(|| missing("domain", id))?;
        if row.enabled {
            let why = "Cannot delete a domain that is enabled, please disable it first.";
            return Err(Error::Refused(why.to_owned()));
        }
        forget_domain(change, id, &row);
        Ok(())
    })?;
    Ok(())
}

/// Takes one away in a change; what hangs on it goes later.
pub(super) fn forget_domain(change: &mut Change, id: &DomainId, row: &Domain) {
    change.expect_same(id, row).remove::<Domain>(id).delete::<Name>(&NameKey::domain(&row.name));
    change.delete::<Extra>(&ExtraKey::of(ThingKind::Domain, id)).put(&LeavingKey::Domain(*id), &Leaving);
}

/// Makes a project, or changes one.
///
/// # Errors
/// When the name is taken in its domain, its parent is not there or too deep, it would move, it is to be disabled with others enabled in
/// it, or the facts cannot be changed.
pub fn save_project(
    desk: &Desk<'_>,
    id: Option<ProjectId>,
    build: Build<'_, Project>,
) -> Result<Saved<ProjectId, Project>, Error> {
    save_and_end(
        desk,
        (ThingKind::Project, "project"),
        id,
        ProjectId::from_bytes,
        build,
        |view, change, id, old, new| {
            check_name("project", &new.name)?;
            check_comment(new.description.as_deref())?;
            check_tags(&new.tags)?;
            let key = |row: &Project| NameKey::project(&row.domain, &row.name);
            take_name(view, change, "project", (old.map(key), key(new)), *id.bytes())?;
            match old {
                Some(old) if old.parent != new.parent || old.domain != new.domain => {
                    return Err(Error::Refused("a project stays where it is".to_owned()));
                }
                Some(old) if old.enabled && !new.enabled => {
                    let enabled = |(id, _): &(ProjectId, Project)| {
                        Ok::<_, Error>(view.get::<Project>(id)?.is_some_and(|row| row.enabled))
                    };
                    for child in children_of(view, id)? {
                        if enabled(&child)? {
                            let why = "a project cannot be disabled while others in it are enabled";
                            return Err(Error::Refused(why.to_owned()));
                        }
                    }
                }
                Some(_) => {}
                None => {
                    view.get::<Domain>(&new.domain)?.ok_or_else(|| missing("domain", new.domain))?;
                    if let Some(parent) = &new.parent {
                        let row = view.get::<Project>(parent)?.ok_or_else(|| missing("project", parent))?;
                        if row.domain != new.domain {
                            return Err(Error::Invalid(
                                "a project is in the domain of its parent".to_owned(),
                            ));
                        }
                        if parents_of(view, parent)?.len() + 1 > PROJECT_DEPTH_MAX {
                            return Err(Error::Refused("projects are nested too deep".to_owned()));
                        }
                        change
                            .expect_present::<Project>(parent)
                            .put(&ReverseKey::Child(*parent, *id), &Reverse);
                    }
                    change.expect_present::<Domain>(&new.domain);
                }
            }
            Ok(())
        },
    )
}

fn check_tags(tags: &[String]) -> Result<(), Error> {
    let is_tag = |tag: &String| !tag.is_empty() && tag.len() <= 255 && !tag.contains(['/', ',']);
    match tags.len() <= 80 && tags.iter().all(is_tag) {
        true => Ok(()),
        false => Err(Error::Invalid(
            "a project has at most 80 tags, each of at most 255 bytes and without `/` and `,`".to_owned(),
        )),
    }
}

/// The projects directly in a project.
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

/// Everything beneath a project, nearer ones first.
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

/// The projects a project is in, nearer ones first.
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

/// Makes a group, or changes one.
///
/// # Errors
/// When the name is taken in its domain, it would move, or the facts cannot be changed.
pub fn save_group(
    desk: &Desk<'_>,
    id: Option<GroupId>,
    build: Build<'_, Group>,
) -> Result<Saved<GroupId, Group>, Error> {
    let with_sid = |view: &View<'_>, change: &mut Change, row: &mut Group| {
        row.sid = choose_sid(None, view, change)?;
        Ok::<_, Error>(())
    };
    let verb = if id.is_some() { "update" } else { "create" };
    let (saved, _) = desk.commit(&format!("group {verb}"), |view, change| {
        let is_new = id.is_none();
        let id = id.map_or_else(|| random().map(GroupId::from_bytes), Ok)?;
        let before = match view.get::<Group>(&id)? {
            Some(row) => Some((row, extra_of(view, ThingKind::Group, &id)?)),
            None if is_new => None,
            None => return Err(missing("group", id)),
        };
        let (mut row, extra) = build(before.as_ref().map(|(row, extra)| (row, extra.as_str())))?;
        let old = before.as_ref().map(|(row, _)| row);
        check_comment(row.comment.as_deref())?;
        check_name("group", &row.name)?;
        let domain = view.get::<Domain>(&row.domain)?.ok_or_else(|| missing("domain", row.domain))?;
        // What it is called elsewhere: `@name@realm`.
        let _: enfilade_facts::vocabulary::GroupName = format!("{}@{}", row.name, domain.name).parse()?;
        if old.is_some_and(|old| old.domain != row.domain) {
            return Err(Error::Refused("the domain of a group cannot be changed".to_owned()));
        }
        let key = |row: &Group| NameKey::group(&row.domain, &row.name);
        take_name(view, change, "group", (old.map(key), key(&row)), *id.bytes())?;
        if is_new {
            with_sid(view, change, &mut row)?;
            change.expect_present::<Domain>(&row.domain);
        }
        change.expect_unchanged(&id, old).put(&id, &row);
        put_extra(change, ThingKind::Group, &id, &extra)?;
        Ok(Saved { id, row, extra })
    })?;
    Ok(saved)
}

/// Removes a group. It has no members from now on; its memberships and roles are deleted in the background.
///
/// # Errors
/// When it is not there, or the facts cannot be changed.
pub fn delete_group(desk: &Desk<'_>, id: &GroupId) -> Result<(), Error> {
    desk.commit(&format!("group delete {id}"), |view, change| {
        let row = view.get::<Group>(id)?.ok_or_else(|| missing("group", id))?;
        change.expect_same(id, &row).remove::<Group>(id);
        change.delete::<Name>(&NameKey::group(&row.domain, &row.name));
        change.delete::<Extra>(&ExtraKey::of(ThingKind::Group, id));
        // A small one goes wholly.
        if !super::leaving::of_group(view, change, id, None)? {
            change.put(&LeavingKey::Group(*id), &Leaving);
        }
        Ok(())
    })?;
    Ok(())
}

/// Makes a role, or changes one.
///
/// # Errors
/// When the name is taken in its domain, it would move, or the facts cannot be changed.
pub fn save_role(
    desk: &Desk<'_>,
    id: Option<RoleId>,
    build: Build<'_, NamedRole>,
) -> Result<Saved<RoleId, NamedRole>, Error> {
    save_and_end(
        desk,
        (ThingKind::Role, "role"),
        id,
        RoleId::from_bytes,
        build,
        |view, change, id, old, new| {
            check_name("role", &new.name)?;
            check_comment(new.description.as_deref())?;
            if old.is_some_and(|old| old.domain != new.domain) {
                return Err(Error::Refused("the domain of a role cannot be changed".to_owned()));
            }
            if let Some(domain) = &new.domain {
                view.get::<Domain>(domain)?.ok_or_else(|| missing("domain", domain))?;
                change.expect_present::<Domain>(domain);
            }
            let key = |row: &NamedRole| NameKey::role_of(row.domain.as_ref(), &row.name);
            take_name(view, change, "role", (old.map(key), key(new)), *id.bytes())
        },
    )
}

/// Removes a role. Nobody has it from now on; its assignments are deleted in the background.
///
/// # Errors
/// When it is not there, or the facts cannot be changed.
pub fn delete_role(desk: &Desk<'_>, id: &RoleId) -> Result<(), Error> {
    desk.commit(&format!("role delete {id}"), |view, change| {
        let row = view.get::<NamedRole>(id)?.ok_or_else(|| missing("role", id))?;
        change.expect_same(id, &row).remove::<NamedRole>(id);
        change.delete::<Name>(&NameKey::role_of(row.domain.as_ref(), &row.name));
        change.delete::<Extra>(&ExtraKey::of(ThingKind::Role, id)).put(&LeavingKey::Role(*id), &Leaving);
        for (other, row) in view.list::<NamedRole>(&[])? {
            if other != *id && row.implies.contains(id) {
                let mut edited = row.clone();
                edited.implies.retain(|implied| implied != id);
                change.replace(&other, &row, &edited);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// From now on whoever has the one role has the other, too, or no longer; whether that is new.
///
/// # Errors
/// When either is not there, they would imply each other in a circle, or the facts cannot be changed.
pub fn set_implied(desk: &Desk<'_>, role: &RoleId, implied: &RoleId, is_so: bool) -> Result<bool, Error> {
    let (changed, _) = desk.commit(&format!("role {role} implies {implied}: {is_so}"), |view, change| {
        let row = view.get::<NamedRole>(role)?.ok_or_else(|| missing("role", role))?;
        let other = view.get::<NamedRole>(implied)?.ok_or_else(|| missing("role", implied))?;
        if is_so && (role == implied || other.domain.is_some() && row.domain != other.domain) {
            return Err(Error::Refused("a role cannot imply itself, nor one of another domain".to_owned()));
        }
        let mut edited = row.clone();
        edited.implies.retain(|one| one != implied);
        if is_so {
            edited.implies.push(*implied);
        }
        let changed = edited != row;
        change.replace(role, &row, &edited);
        Ok(changed)
    })?;
    Ok(changed)
}

/// Makes a service, or changes one.
///
/// # Errors
/// When the facts cannot be changed.
pub fn save_service(
    desk: &Desk<'_>,
    id: Option<ServiceId>,
    build: Build<'_, Service>,
) -> Result<Saved<ServiceId, Service>, Error> {
    save(desk, (ThingKind::Service, "service"), id, ServiceId::from_bytes, build, |_, _, _, _, new| {
        check_name("service's kind", &new.kind)?;
        check_comment(new.description.as_deref())?;
        if new.name.is_empty() { Ok(()) } else { check_name("service", &new.name) }
    })
}

/// Makes an endpoint, or changes one.
///
/// # Errors
/// When there is no such service or region, the address is none, or the facts cannot be changed.
pub fn save_endpoint(
    desk: &Desk<'_>,
    id: Option<EndpointId>,
    build: Build<'_, Endpoint>,
) -> Result<Saved<EndpointId, Endpoint>, Error> {
    save(
        desk,
        (ThingKind::Endpoint, "endpoint"),
        id,
        EndpointId::from_bytes,
        build,
        |view, change, _, _, new| {
            super::catalog::check_url(&new.url)?;
            view.get::<Service>(&new.service)?.ok_or_else(|| missing("service", new.service))?;
            change.expect_present::<Service>(&new.service);
            if let Some(region) = &new.region {
                let key = RegionId(region.clone());
                view.get::<Region>(&key)?.ok_or_else(|| missing("region", region))?;
                change.expect_present::<Region>(&key);
            }
            Ok(())
        },
    )
}

/// Makes a region under an id somebody chose, or changes one; whether it is new.
///
/// # Errors
/// When its parent is not there, or the facts cannot be changed.
pub fn save_region(
    desk: &Desk<'_>,
    id: &RegionId,
    must_be_new: bool,
    build: Build<'_, Region>,
) -> Result<(Saved<RegionId, Region>, bool), Error> {
    let (saved, _) = desk.commit(&format!("region save {}", id.0), |view, change| {
        if id.0.is_empty() || id.0.len() > 255 || id.0.chars().any(char::is_control) {
            return Err(Error::Invalid("a region's id has 1 to 255 bytes".to_owned()));
        }
        let old = view.get::<Region>(id)?;
        if must_be_new && old.is_some() {
            return Err(Error::Exists { what: "region", name: id.0.clone(), hint: "choose another id" });
        }
        let extra = extra_of(view, ThingKind::Region, id)?;
        let (row, extra) = build(old.as_ref().map(|row| (row, extra.as_str())))?;
        check_comment(row.description.as_deref())?;
        let mut above = row.parent.clone();
        // A region is in no circle of regions.
        for _ in 0..64 {
            let Some(parent) = above else { break };
            if parent == *id {
                return Err(Error::Invalid("a region cannot be in itself".to_owned()));
            }
            above = view.get::<Region>(&parent)?.ok_or_else(|| missing("region", &parent.0))?.parent;
        }
        change.expect_unchanged(id, old.as_ref()).put(id, &row);
        put_extra(change, ThingKind::Region, id, &extra)?;
        Ok((Saved { id: id.clone(), row, extra }, old.is_none()))
    })?;
    Ok(saved)
}

/// Removes a region nothing is in.
///
/// # Errors
/// When other regions or endpoints are in it, it is not there, or the facts cannot be changed.
pub fn delete_region(desk: &Desk<'_>, id: &RegionId) -> Result<(), Error> {
    desk.commit(&format!("region delete {}", id.0), |view, change| {
        let row = view.get::<Region>(id)?.ok_or_else(|| missing("region", &id.0))?;
        let is_held = view.list::<Region>(&[])?.iter().any(|(_, row)| row.parent.as_ref() == Some(id))
            || view
                .list::<Endpoint>(&[])?
                .iter()
                .any(|(_, row)| row.region.as_deref() == Some(id.0.as_str()));
        if is_held {
            return Err(Error::Refused(format!("region {} has other regions or endpoints in it", id.0)));
        }
        change.expect_same(id, &row).delete::<Region>(id);
        change.delete::<Extra>(&ExtraKey::of(ThingKind::Region, id));
        Ok(())
    })?;
    Ok(())
}

/// Puts somebody into a group, or takes them out of it.
///
/// # Errors
/// When they are not in it that are to be taken out, or the facts cannot be changed.
pub fn set_member(desk: &Desk<'_>, key: &MembershipKey, is_so: bool) -> Result<(), Error> {
    let verb = if is_so { "add" } else { "remove" };
    desk.commit(&format!("group {} member {verb}", key.group), |view, change| {
        let was = view.get::<Membership>(key)?.is_some();
        match (was, is_so) {
            (false, false) => return Err(missing("user in group", key.group)),
            (_, true) => {
                if let Member::User(user) = &key.member {
                    change.expect_present::<User>(user);
                }
                change.expect_present::<Group>(&key.group).put(key, &Membership)
            }
            (true, false) => change.remove::<Membership>(key),
        };
        Ok(())
    })?;
    Ok(())
}

/// The groups a user is in directly.
///
/// # Errors
/// When the facts cannot be read.
pub fn groups_of(view: &View<'_>, user: &UserId) -> Result<Vec<(GroupId, Group)>, Error> {
    let mut found = Vec::new();
    for (key, _) in view.list::<Membership>(&Member::User(*user).prefix())? {
        found.extend(view.get::<Group>(&key.group)?.map(|row| (key.group, row)));
    }
    Ok(found)
}
