//! Groups and their members, by id.

use super::leaving::of_group;
use super::names::check_name;
use super::resource::{Saving, StoredResource};
use crate::change_context::ChangeContext;
use crate::comment::check_comment;
use crate::error::{Error, missing};
use crate::users::choose_sid;
use enfilade_facts::limits::NAME_CHARS_MAX;
use enfilade_facts::tables::{
    Domain, Group, Leaving, LeavingKey, Member, Membership, MembershipKey, Name, NameKey, ResourceKind, User,
};
use enfilade_facts::vocabulary::{GroupId, GroupName, UserId};
use enfilade_facts::{Change, View};

impl StoredResource for Group {
    const NAME: &'static str = "group";
    const KIND: ResourceKind = ResourceKind::Group;

    fn called(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_comment(self.comment.as_deref())?;
        check_name("group", &self.name, NAME_CHARS_MAX)?;
        let domain = at.view.get::<Domain>(&self.domain)?.ok_or_else(|| missing("domain", self.domain))?;
        GroupName::new(&self.name, domain.name)?;
        if at.before.is_some_and(|before| before.domain != self.domain) {
            return Err(Error::Refused("the domain of a group cannot be changed".to_owned()));
        }
        at.take_name(|row| NameKey::group(&row.domain, &row.name), self, &self.name, at.id.stored())?;
        if at.before.is_none() {
            self.sid = choose_sid(None, at.view, at.change)?;
            at.change.expect_present::<Domain>(&self.domain);
        }
        Ok(())
    }

    /// The group has no members from this change on; its memberships and roles are deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &GroupId) -> Result<(), Error> {
        change.remove::<Group>(id).delete::<Name>(&NameKey::group(&self.domain, &self.name));
        // A small group is deleted completely in this change.
        if !of_group(view, change, id, None)? {
            change.put(&LeavingKey::Group(*id), &Leaving);
        }
        Ok(())
    }
}

fn not_a_member(key: &MembershipKey) -> Error {
    let member = match &key.member {
        Member::User(user) => format!("user {user}"),
        Member::Group(group) => format!("group {group}"),
    };
    let name = format!("{member} in group {}", key.group);
    Error::Missing { what: "membership", name, hint: "list the members of the group" }
}

/// Adds a user or group to a group if `is_so` is set; otherwise removes this member from the group.
///
/// # Errors
/// When a member to remove is not in the group, or the facts cannot be changed.
pub fn set_member(ctx: &ChangeContext<'_>, key: &MembershipKey, is_so: bool) -> Result<(), Error> {
    let verb = if is_so { "add" } else { "remove" };
    ctx.commit(&format!("group {} member {verb}", key.group), |view, change| {
        let was = view.get::<Membership>(key)?.is_some();
        match (was, is_so) {
            (false, false) => return Err(not_a_member(key)),
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

/// The groups of which a user is a direct member.
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
