//! ACLs on files, as the operator of the machine reads and sets them.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::resolve::{Names, Target, group_id, user_id};
use enfilade_access::{AclLine, SecurityDescriptor, Subject, from_sddl, parse_line, print_lines, to_sddl};
use enfilade_content::{Blocking, Node, Refusal as Content, Root};
use enfilade_facts::tables::{Datastore, DatastoreProfile, Group, User};
use enfilade_facts::vocabulary::{AclDialect, DatastoreName, Sid, StorePath};
use enfilade_facts::{Read, Source, View};

/// The ACL of an object, as text.
#[derive(Clone, Debug)]
pub struct AclLines {
    /// One line per entry; `None` if the object has no ACL, so that its mode bits decide.
    pub lines: Option<Vec<String>>,
    /// The ACL in one line of SDDL; `None` if the object has no ACL.
    pub sddl: Option<String>,
    /// The mode bits of the object.
    pub mode: u32,
    /// The user number (uid) of the owner.
    pub uid: u32,
    /// The group number (gid) of the object.
    pub gid: u32,
}

/// Reads an ACL.
///
/// # Errors
/// When the object does not exist, or its ACL is damaged.
pub fn get_acl(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
) -> Result<AclLines, Error> {
    let subject = find(ctx, datastore, path)?.subject();
    let descriptor = read_acl(&subject).map_err(|why| Error::Invalid(format!("the ACL of {path} {why}")))?;
    let names = ctx.facts.read(Names::read)??;
    let lines = descriptor.as_ref().map(|descriptor| print_lines(descriptor, &|sid| names.sid(sid)));
    let sddl = descriptor.as_ref().map(to_sddl);
    Ok(AclLines { lines, sddl, mode: subject.mode, uid: subject.uid, gid: subject.gid })
}

/// The ACL of an object; `None` if the mode bits decide; an error if the ACL is malformed.
pub(crate) fn read_acl(subject: &Subject) -> Result<Option<SecurityDescriptor>, String> {
    subject.descriptor().map_err(|why| format!("is invalid: {why}; replace it with `enfilade acl set`"))
}

/// An ACL to set.
#[derive(Clone, Debug)]
pub enum NewAcl {
    /// Lines, as [`get_acl`] gives them.
    Lines(Vec<String>),
    /// One line of SDDL.
    Sddl(String),
}

/// Replaces an ACL. Owner and group do not change if the lines name no owner and no group. Returns the name of the extended attribute that was
/// written.
///
/// # Errors
/// When the object does not exist, a line is malformed, or the ACL cannot be written.
pub fn set_acl(
    ctx: &ChangeContext<'_>,
    datastore: &DatastoreName,
    path: &StorePath,
    acl: &NewAcl,
) -> Result<&'static str, Error> {
    let node = find(ctx, datastore, path)?;
    let subject = node.subject();
    let descriptor = descriptor_of(ctx.facts, acl, &subject, node.acls())?;
    let blob = descriptor.written(node.acls(), subject.owner());
    let blob = blob.map_err(|why| Error::Invalid(why.to_string()))?;
    Ok(enfilade_content::set_acl_as_operator(&node, &blob)?.name(node.acls()))
}

/// The new ACL for an object.
pub(crate) fn descriptor_of(
    source: &dyn Source,
    acl: &NewAcl,
    subject: &Subject,
    dialect: AclDialect,
) -> Result<SecurityDescriptor, Error> {
    let before = read_acl(subject).ok().flatten().unwrap_or_default();
    let lines = match acl {
        NewAcl::Lines(lines) => lines,
        NewAcl::Sddl(text) => {
            let read = from_sddl(text).map_err(|why| Error::Invalid(format!("`{text}`: {why}")))?;
            let (owner, group) = (read.owner.or(before.owner), read.group.or(before.group));
            return Ok(SecurityDescriptor { owner, group, ..read });
        }
    };
    source.read(|view| {
        let mut descriptor =
            SecurityDescriptor { dacl: Some(Vec::new()), is_protected: false, ..before.clone() };
        for line in lines {
            let parsed = parse_line(line, &|who| sid(view, who, dialect).map_err(|why| why.to_string()));
            match parsed.map_err(|why| Error::Invalid(format!("`{line}`: {why}")))? {
                AclLine::Owner(sid) => descriptor.owner = Some(sid),
                AclLine::Group(sid) => descriptor.group = Some(sid),
                AclLine::Protected => descriptor.is_protected = true,
                AclLine::Ace(ace) => descriptor.dacl.get_or_insert_default().push(ace),
            }
        }
        Ok::<_, Error>(descriptor)
    })?
}

/// Sets an ACL on an empty directory, so that only roles determine access. A directory with content or with an ACL is not changed.
///
/// # Errors
/// When the directory cannot be opened, or the ACL cannot be written.
pub fn open_to_roles(ctx: &ChangeContext<'_>, path: &str, dialect: AclDialect) -> Result<(), Error> {
    let root = Root::open(path, dialect, ctx.reserved)?;
    let owner = root.find(&StorePath::root(), Blocking)?.subject().owner();
    let blob = enfilade_access::open_to_roles(dialect).written(dialect, owner);
    let blob = blob.map_err(|why| Error::Invalid(why.to_string()))?;
    match enfilade_content::seed_acl(&root, &blob) {
        Ok(_) | Err(Content::NotEmpty(_) | Content::Exists(_)) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

pub(crate) fn find(ctx: &ChangeContext<'_>, name: &DatastoreName, path: &StorePath) -> Result<Node, Error> {
    let found = ctx.facts.read(|view| (view.get::<Datastore>(name), view.get::<DatastoreProfile>(name)))?;
    let (datastore, profile) = (found.0?, found.1?.unwrap_or_default());
    let datastore = datastore.ok_or_else(|| Error::Missing {
        what: "datastore",
        name: name.to_string(),
        hint: "see `enfilade datastore list`",
    })?;
    Ok(Root::open(&datastore.root(name), profile.access.acls, ctx.reserved)?.find(path, Blocking)?)
}

/// The SID of the user or group of this name; in an NFSv4 ACL, the SID that stands for the user or group number.
fn sid(view: &View<'_>, who: &str, dialect: AclDialect) -> Result<Sid, Error> {
    match who.parse::<Target>()? {
        Target::User(user) => {
            let id = user_id(view, &user)?;
            let user = view.get::<User>(&id)?;
            user.map(|user| in_dialect(dialect, user.sid, user.uid.map(Sid::of_unix_user)))
                .ok_or_else(|| crate::resolve::dangling("user", id))
        }
        Target::Token(user, _) => Err(Error::Invalid(format!(
            "`{who}` is a token, which acts as its owner; use the owner `{user}` instead"
        ))),
        Target::Group(group) => {
            let id = group_id(view, &group)?;
            let group = view.get::<Group>(&id)?;
            group
                .map(|group| in_dialect(dialect, group.sid, group.gid.map(Sid::of_unix_group)))
                .ok_or_else(|| crate::resolve::dangling("group", id))
        }
    }
}

fn in_dialect(dialect: AclDialect, sid: Sid, numbered: Option<Sid>) -> Sid {
    match dialect {
        AclDialect::Ntacl => sid,
        // A user or group without a number cannot be in an NFSv4 ACL, and the function that writes the ACL reports this error.
        AclDialect::Nfs4 => numbered.unwrap_or(sid),
    }
}
