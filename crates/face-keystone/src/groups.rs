//! Groups and their members.

use super::listing::{self, Filters};
use super::request_body::RequestBody;
use super::resource::{InDomain, Record, Resource, Store, created, described, permitted_in_domain};
use super::schema::{Schema, Type};
use super::{ApiError, ApiResponse, Call, Outcome, users};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, groups_of, set_member};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Group, Key as _, Member, Membership, MembershipKey, NameKind, ResourceKind, Reverse, ReverseKey, User,
};
use enfilade_facts::vocabulary::{GroupId, Sid};
use enfilade_passage::{About, ApiPermit, Other, Party};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::ops::ControlFlow;

impl Resource for Group {
    const SCHEMA: Schema = Schema {
        one: "group",
        many: "groups",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("domain_id", Type::Text, Type::TextOrNull),
            ("description", Type::Text, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Group);
    const STORE: Store<Self> = Store::BY_ID;
    const IN_DOMAIN: Option<InDomain<Self>> = Some(InDomain {
        names: NameKind::Group,
        id: |name| name.group(),
        place: |row| (row.domain, &row.name),
    });

    fn attributes(&self) -> Value {
        let description = self.comment.as_deref().unwrap_or_default();
        json!({ "name": self.name, "domain_id": self.domain.to_keystone(), "description": description })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.set("name", &mut self.name)?;
        given.set_or_remove("description", &mut self.comment)
    }

    fn keeps(&self, given: &RequestBody) -> Result<(), Error> {
        match given.keeps("domain_id", Some(&self.domain.to_keystone()))? {
            true => Ok(()),
            false => Err(Error::Refused("the domain of a group cannot be changed".to_owned())),
        }
    }

    fn about<'a>(&'a self, _: &'a GroupId) -> About<'a> {
        About { domain: Some(&self.domain), ..About::default() }
    }

    fn party(id: &GroupId) -> Option<Party<'_>> {
        Some(Party::Group(id))
    }

    fn party_named(name: &str) -> Option<Party<'_>> {
        Some(Party::GroupNamed(name))
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given, (domain, _)) = permitted_in_domain::<Group>(call)?;
        let name = given.needed("name")?;
        // This SID is a placeholder. The real SID is assigned when the record is created.
        let new = Group { domain, name, sid: Sid::EVERYONE, also: Vec::new(), gid: None, comment: None };
        created(call, (permit, given), &RecordId::New, &new)
    }
}

/// Lists the users that are direct members of a group.
pub(super) fn list_users(call: &mut Call) -> Outcome {
    let (Record { id, .. }, permit) = Group::found(call)?;
    let (base, only, own, now) = (call.base.clone(), permit.only_domain(), permit.clone(), call.now());
    let after = match call.query("marker").map(listing::plain) {
        None => None,
        Some(text) => {
            let user = text.parse().map_err(|_| ApiError::missing("marker", &text))?;
            Some(ReverseKey::Member(id, Member::User(user)).bytes())
        }
    };
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| {
        listing::records::<Reverse>(view, &ReverseKey::members_of(&id), after, |key, _| {
            let ReverseKey::Member(_, Member::User(user)) = key else { return Ok(ControlFlow::Continue(())) };
            match User::find(view, &user.to_string())? {
                Some(user) if only.is_none_or(|only| only == user.1.domain) => {
                    Ok(each(key.bytes(), described((view, now), &base, user, &own)?))
                }
                _ => Ok(ControlFlow::Continue(())),
            }
        })
    };
    listing::answer(call, "users", &permit, Filters::of(&call.head, &[]), after, Box::new(source))
}

/// The group and the user in the path, and the permit for the call.
fn member(call: &mut Call) -> Result<(MembershipKey, ApiPermit), ApiError> {
    let (group, user) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
    let (group_row, user_row) =
        call.look(|view| Ok((Group::find(view, &group)?, User::find(view, &user)?)))?;
    let party = group_row.as_ref().map(|(id, _)| Party::Group(id));
    let about = About {
        changes: party.as_slice(),
        domain: group_row.as_ref().map(|(_, row)| &row.domain),
        other: Other::found(user_row.as_ref().map(|(_, row)| &row.domain)),
        user: user_row.as_ref().map(|(id, _)| id),
        ..About::default()
    };
    let permit = call.allow(&about)?;
    let (group, _) = group_row.ok_or_else(|| ApiError::missing("group", &group))?;
    let (user, _) = user_row.ok_or_else(|| ApiError::missing("user", &user))?;
    Ok((MembershipKey { member: Member::User(user), group }, permit))
}

pub(super) fn has_user(call: &mut Call) -> Outcome {
    let (key, _) = member(call)?;
    let is_in = call.look(|view| Ok(view.get::<Membership>(&key)?.is_some()))?;
    if is_in {
        Ok(ApiResponse::no_content())
    } else {
        let (group, user) = (call.parameter(0), call.parameter(1));
        Err(ApiError::Message(StatusCode::NOT_FOUND, format!("User '{user}' not found in group '{group}'.")))
    }
}

pub(super) fn add_user(call: &mut Call) -> Outcome {
    let (key, permit) = member(call)?;
    call.save(&permit, |ctx| set_member(ctx, &key, true))?;
    Ok(ApiResponse::no_content())
}

pub(super) fn remove_user(call: &mut Call) -> Outcome {
    let (key, permit) = member(call)?;
    call.save(&permit, |ctx| set_member(ctx, &key, false))?;
    Ok(ApiResponse::no_content())
}

/// Lists the groups that contain a user directly.
pub(super) fn list_groups(call: &mut Call) -> Outcome {
    let (user, domain) = users::of_path(call, 0)?;
    let permit = call.allow(&About { user: Some(&user), domain: domain.as_ref(), ..About::default() })?;
    users::existing(call, &user)?;
    let filters = Filters::of(&call.head, &[]);
    let rows = call.look(|view| {
        let mut rows = Vec::new();
        let is_told = |row: &Group| permit.only_domain().is_none_or(|only| only == row.domain);
        for group in groups_of(view, &user)?.into_iter().filter(|(_, row)| is_told(row)) {
            rows.push(described((view, call.now()), &call.base, group, &permit)?);
        }
        Ok(rows)
    })?;
    Ok(super::listed(call, "groups", rows.into_iter().filter(|row| filters.hold(row)).collect()))
}
