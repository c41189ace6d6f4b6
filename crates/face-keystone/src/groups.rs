//! Groups and their members.

use super::domains;
use super::given::{Given, invalid, unless_immutable, with_extra};
use super::listing::{self, Filters};
use super::{Call, Outcome, Said, Trouble, users};
use enfilade_admin::keystone::{delete_group, extra_of, groups_of, save_group, set_member};
use enfilade_admin::{Error, user_attributes};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Domain, Group, Member, Membership, MembershipKey, Name, NameKind, Reverse, ReverseKey, ThingKind,
};
use enfilade_facts::vocabulary::{GroupId, Sid};
use enfilade_passage::{About, ApiPermit, Other, Party};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

const KNOWN: [&str; 3] = ["name", "description", "domain_id"];

fn body(base: &str, id: &GroupId, row: &Group, extra: &str) -> Value {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.to_string()));
    body.insert("name".to_owned(), json!(row.name));
    body.insert("domain_id".to_owned(), json!(row.domain.to_keystone()));
    body.insert("description".to_owned(), json!(row.comment.as_deref().unwrap_or_default()));
    with_extra(body, extra, format!("{base}/v3/groups/{id}"))
}

pub(super) fn described(view: &View<'_>, base: &str, id: &GroupId, row: &Group) -> Result<Value, Trouble> {
    Ok(body(base, id, row, &extra_of(view, ThingKind::Group, id)?))
}

/// Finds a group by id; a group in a removed domain counts as removed.
pub(super) fn find(view: &View<'_>, id: &str) -> Result<Option<(GroupId, Group)>, Trouble> {
    let Ok(id) = id.parse::<GroupId>() else { return Ok(None) };
    let Some(row) = view.get::<Group>(&id)? else { return Ok(None) };
    Ok(view.get::<Domain>(&row.domain)?.is_some().then_some((id, row)))
}

fn found(call: &mut Call) -> Result<(GroupId, Group, String, ApiPermit), Trouble> {
    let said = call.parameter(0).to_owned();
    let found = call.look(|view| {
        let Some((id, row)) = find(view, &said)? else { return Ok(None) };
        let extra = extra_of(view, ThingKind::Group, &id)?;
        Ok(Some((id, row, extra)))
    })?;
    let changes = found.as_ref().map(|(id, ..)| [Party::Group(id)]);
    let permit = call.allow(&About {
        domain: found.as_ref().map(|(_, row, _)| &row.domain),
        changes: changes.as_ref().map_or(&[], |changes| changes),
        ..About::default()
    })?;
    let (id, row, extra) = found.ok_or_else(|| Trouble::missing("group", &said))?;
    Ok((id, row, extra, permit))
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let base = call.base.clone();
    let kind = listing::Kind::<Group> {
        many: "groups",
        names: NameKind::Group,
        id: Name::group,
        parse: |text| text.parse().ok(),
        place: |row| (row.domain, row.name.as_str()),
    };
    listing::things(call, kind, &[], move |view, id, row| Ok(Some(described(view, &base, id, row)?)))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (id, row, extra, _) = found(call)?;
    Ok(Said::json(StatusCode::OK, &json!({ "group": body(&call.base, &id, &row, &extra) })))
}

fn changed(given: &Given, before: Option<(&Group, &str)>, new: &Group) -> Result<(Group, String), Error> {
    let (mut row, extra) = before.map_or((new.clone(), ""), |(row, extra)| (row.clone(), extra));
    if let Some(name) = given.name()? {
        row.name = name;
    }
    if let Some(description) = given.text("description")? {
        row.comment = description.filter(|text| !text.is_empty());
    }
    Ok((row, given.extra(&KNOWN, extra)?))
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let given = Given::of(call, "group")?;
    let said = given.text("domain_id")?.flatten();
    let own = call.own_domain();
    let said = said.or(own.map(|own| own.to_keystone()));
    let found = call.look(|view| said.as_ref().map_or(Ok(None), |said| domains::find(view, said)))?;
    let name = given.text("name")?.flatten().unwrap_or_default();
    let changes = &[Party::GroupNamed(&name)];
    let domain = found.as_ref().map(|(id, _)| id);
    // Judged first: a caller without the right does not learn whether the domain exists.
    let permit = call.allow(&About { domain, changes, ..About::default() })?;
    let said = said.ok_or_else(|| {
        invalid("Invalid input for field/attribute domain_id: expected the id of a domain.")
    })?;
    let (domain, _) = found.ok_or_else(|| Trouble::missing("domain", &said))?;
    let name = given.needed("name")?;
    // The SID is made with the record.
    let new = Group { domain, name, sid: Sid::EVERYONE, also: Vec::new(), gid: None, comment: None };
    let made = call.save(&permit, |desk| save_group(desk, None, &|before| changed(&given, before, &new)))?;
    let body = body(&call.base, &made.id, &made.row, &made.extra);
    Ok(Said::json(StatusCode::CREATED, &json!({ "group": body })))
}

pub(super) fn update(call: &mut Call) -> Outcome {
    let (id, row, extra, mut permit) = found(call)?;
    let given = Given::of(call, "group")?;
    if let Some(name) = given.name()? {
        let changes = &[Party::Group(&id), Party::GroupNamed(&name)];
        permit = call.allow(&About { domain: Some(&row.domain), changes, ..About::default() })?;
    }
    unless_immutable(&extra, Some(&given))?;
    if given.text("domain_id")?.is_some_and(|said| said != Some(row.domain.to_keystone())) {
        return Err(Error::Refused("the domain of a group cannot be changed".to_owned()).into());
    }
    let saved =
        call.save(&permit, |desk| save_group(desk, Some(id), &|before| changed(&given, before, &row)))?;
    Ok(Said::json(StatusCode::OK, &json!({ "group": body(&call.base, &id, &saved.row, &saved.extra) })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let (id, _, extra, permit) = found(call)?;
    unless_immutable(&extra, None)?;
    call.save(&permit, |desk| delete_group(desk, &id))?;
    Ok(Said::nothing())
}

/// The users directly in a group.
pub(super) fn list_users(call: &mut Call) -> Outcome {
    let (id, _, _, permit) = found(call)?;
    let (base, only) = (call.base.clone(), permit.only_domain());
    let after = match call.query("marker").map(listing::plain) {
        None => None,
        Some(text) => {
            let user = text.parse().map_err(|_| Trouble::missing("marker", &text))?;
            Some(stored(&ReverseKey::Member(id, Member::User(user))))
        }
    };
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| {
        listing::records::<Reverse>(view, &ReverseKey::members_of(&id), after, |key, _| {
            let ReverseKey::Member(_, Member::User(user)) = key else { return Ok(ControlFlow::Continue(())) };
            match users::find(view, &user.to_string())? {
                Some((user, row)) if only.is_none_or(|only| only == row.domain) => {
                    Ok(each(stored(&key), users::body(&base, &user, &row, &user_attributes(view, &user)?)))
                }
                _ => Ok(ControlFlow::Continue(())),
            }
        })
    };
    listing::answer(call, "users", &permit, Filters::of(&call.head, &[]), after, Box::new(source))
}

fn stored(key: &ReverseKey) -> Vec<u8> {
    enfilade_facts::tables::Key::bytes(key)
}

/// The group and the user of the path, and the permit for the call.
fn member(call: &mut Call) -> Result<(MembershipKey, ApiPermit), Trouble> {
    let (group, user) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
    let (group_row, user_row) = call.look(|view| Ok((find(view, &group)?, users::find(view, &user)?)))?;
    let changes = group_row.as_ref().map(|(id, _)| [Party::Group(id)]);
    let about = About {
        changes: changes.as_ref().map_or(&[], |changes| changes),
        domain: group_row.as_ref().map(|(_, row)| &row.domain),
        other: Other::found(user_row.as_ref().map(|(_, row)| &row.domain)),
        user: user_row.as_ref().map(|(id, _)| id),
        ..About::default()
    };
    let permit = call.allow(&about)?;
    let (group, _) = group_row.ok_or_else(|| Trouble::missing("group", &group))?;
    let (user, _) = user_row.ok_or_else(|| Trouble::missing("user", &user))?;
    Ok((MembershipKey { member: Member::User(user), group }, permit))
}

pub(super) fn has_user(call: &mut Call) -> Outcome {
    let (key, _) = member(call)?;
    let is_in = call.look(|view| Ok(view.get::<Membership>(&key)?.is_some()))?;
    if is_in { Ok(Said::nothing()) } else { Err(Trouble::missing("user in group", call.parameter(1))) }
}

pub(super) fn add_user(call: &mut Call) -> Outcome {
    let (key, permit) = member(call)?;
    call.save(&permit, |desk| set_member(desk, &key, true))?;
    Ok(Said::nothing())
}

pub(super) fn remove_user(call: &mut Call) -> Outcome {
    let (key, permit) = member(call)?;
    call.save(&permit, |desk| set_member(desk, &key, false))?;
    Ok(Said::nothing())
}

/// The groups a user is in directly.
pub(super) fn list_groups(call: &mut Call) -> Outcome {
    let (user, domain) = users::of_path(call, 0)?;
    let permit = call.allow(&About { user: Some(&user), domain: domain.as_ref(), ..About::default() })?;
    users::still_there(call, &user)?;
    let filters = Filters::of(&call.head, &[]);
    let rows = call.look(|view| {
        let mut rows = Vec::new();
        let is_told = |row: &Group| permit.only_domain().is_none_or(|only| only == row.domain);
        for (id, row) in groups_of(view, &user)?.into_iter().filter(|(_, row)| is_told(row)) {
            rows.push(described(view, &call.base, &id, &row)?);
        }
        Ok(rows)
    })?;
    Ok(super::listed(call, "groups", rows.into_iter().filter(|row| filters.hold(row)).collect()))
}
