//! Groups and their members.

use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::Error;
use crate::resolve::{Names, Target, domain_id, group_id, user_id};
use crate::users::choose_sid;
use enfilade_facts::tables::{Group, Member, Membership, MembershipKey, Name, NameKey};
use enfilade_facts::vocabulary::{GroupId, GroupName, Sid};
use enfilade_facts::{At, Read, Source, View};
use std::collections::BTreeSet;

/// A group, for listing.
#[derive(Clone, Debug)]
pub struct GroupSummary {
    /// The name of the group, with `@` in front.
    pub group: String,
    /// The id of the group.
    pub id: GroupId,
    /// The SID of the group.
    pub sid: Sid,
    /// The group number (gid), if the group has one.
    pub gid: Option<u32>,
    /// The direct members of the group.
    pub members: Vec<String>,
    /// The comment.
    pub comment: Option<String>,
}

/// Creates a group.
///
/// # Errors
/// When the realm does not exist, the name is taken, the SID or the comment is not allowed, or the facts cannot be changed.
pub fn add_group(
    ctx: &ChangeContext<'_>,
    name: &GroupName,
    sid: Option<Sid>,
    gid: Option<u32>,
    comment: Option<String>,
) -> Result<(GroupId, At), Error> {
    check_comment(comment.as_deref())?;
    ctx.commit(&format!("group add {name}"), |view, change| {
        let domain = domain_id(view, name.realm())?;
        let key = NameKey::group(&domain, name.name());
        if view.get::<Name>(&key)?.is_some() {
            return Err(Error::Exists { what: "group", name: name.to_string(), hint: "choose another name" });
        }
        let id = random()?;
        let sid = choose_sid(sid, view, change)?;
        let group = Group {
            domain,
            name: name.name().to_owned(),
            sid,
            also: Vec::new(),
            gid,
            comment: comment.clone(),
        };
        change
            .expect_absent::<Name>(&key)
            .put(&key, &Name::new(id, name.name()))
            .put(&GroupId::from_bytes(id), &group);
        Ok(GroupId::from_bytes(id))
    })
}

/// Removes a group, its memberships and its roles. If a group with the same name is created later, the new group has no membership or role of the
/// removed group.
///
/// # Errors
/// When the group does not exist, or the facts cannot be changed.
pub fn remove_group(ctx: &ChangeContext<'_>, name: &GroupName) -> Result<At, Error> {
    let id = ctx.facts.read(|view| group_id(view, name))??;
    crate::keystone::delete::<Group>(ctx, &id)?;
    crate::keystone::sweep_all(ctx)?;
    Ok(ctx.facts.at())
}

/// Adds a user or another group to a group.
///
/// # Errors
/// When the member or the group does not exist, the member is a token, the group would contain itself, or the facts cannot be changed.
pub fn add_member(ctx: &ChangeContext<'_>, group: &GroupName, member: &Target) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("group member add {group} {member}"), |view, change| {
        let key = membership(view, group, member)?;
        if let Member::Group(inner) = key.member
            && holds(view, inner, key.group)?
        {
            return Err(Error::Invalid(format!(
                "{member} cannot be in @{group}, because {member} is @{group} itself or already contains @{group}"
            )));
        }
        change.expect_present::<Group>(&key.group).put(&key, &Membership);
        Ok(())
    })?;
    Ok(at)
}

/// Removes a user or group from a group.
///
/// # Errors
/// As [`remove_members`].
pub fn remove_member(ctx: &ChangeContext<'_>, group: &GroupName, member: &Target) -> Result<At, Error> {
    remove_members(ctx, group, std::slice::from_ref(member))
}

/// Removes users or groups from a group, all of them or none.
///
/// # Errors
/// When a user or group is not directly in the group, or the facts cannot be changed.
pub fn remove_members(ctx: &ChangeContext<'_>, group: &GroupName, members: &[Target]) -> Result<At, Error> {
    let names: Vec<String> = members.iter().map(ToString::to_string).collect();
    let what = format!("group member remove {group} {}", names.join(" "));
    let ((), at) = ctx.commit(&what, |view, change| {
        for member in members {
            let key = membership(view, group, member)?;
            if view.get::<Membership>(&key)?.is_none() {
                return Err(Error::Invalid(format!(
                    "{member} is not in @{group} directly; see `enfilade group list`"
                )));
            }
            change.expect_present::<Membership>(&key).remove::<Membership>(&key);
        }
        Ok(())
    })?;
    Ok(at)
}

/// Every group, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_groups(source: &dyn Source) -> Result<Vec<GroupSummary>, Error> {
    source.read(|view| {
        let names = Names::read(view)?;
        let memberships = view.list::<Membership>(&[])?;
        let members = |id: GroupId| {
            let direct = memberships.iter().filter(|(key, _)| key.group == id);
            let mut members: Vec<String> = direct
                .map(|(key, _)| match &key.member {
                    Member::User(id) => names.user(id),
                    Member::Group(id) => names.group(id),
                })
                .collect();
            members.sort();
            members
        };
        let summary = |(id, group): (GroupId, Group)| GroupSummary {
            group: names.group(&id),
            id,
            sid: group.sid,
            gid: group.gid,
            members: members(id),
            comment: group.comment,
        };
        let mut groups: Vec<_> = view.list::<Group>(&[])?.into_iter().map(summary).collect();
        groups.sort_by(|a, b| a.group.cmp(&b.group));
        Ok(groups)
    })?
}

fn membership(view: &View<'_>, group: &GroupName, member: &Target) -> Result<MembershipKey, Error> {
    let member = match member {
        Target::User(user) => Member::User(user_id(view, user)?),
        Target::Token(user, _) => {
            let text = format!(
                "`{member}` is a token, which has the groups of its owner; use the owner `{user}` instead"
            );
            return Err(Error::Invalid(text));
        }
        Target::Group(inner) => Member::Group(group_id(view, inner)?),
    };
    Ok(MembershipKey { member, group: group_id(view, group)? })
}

/// Whether `outer` is the same group as `inner`, or contains `inner` directly or through other groups.
fn holds(view: &View<'_>, outer: GroupId, inner: GroupId) -> Result<bool, Error> {
    let mut seen = BTreeSet::from([inner]);
    let mut edge = vec![inner];
    while let Some(group) = edge.pop() {
        if group == outer {
            return Ok(true);
        }
        for (key, _) in view.list::<Membership>(&Member::Group(group).prefix())? {
            if seen.insert(key.group) {
                edge.push(key.group);
            }
        }
    }
    Ok(false)
}
