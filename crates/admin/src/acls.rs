//! ACLs on files, as the operator of the machine reads and sets them.

use crate::error::Error;
use crate::look::{Names, Target, group_id, user_id};
use enfilade_access::{AclLine, SecurityDescriptor, StoredAcl, parse_line, print_lines};
use enfilade_content::{Node, Refusal as Content, Root};
use enfilade_facts::tables::{Datastore, Group, User};
use enfilade_facts::vocabulary::{DatastoreName, Sid, StorePath};
use enfilade_facts::{Read, Source, View};

/// The ACL of something, readable.
#[derive(Clone, Debug)]
pub struct AclLines {
    /// One entry each; `None` where there is no ACL and the mode bits rule.
    pub lines: Option<Vec<String>>,
    /// Mode bits.
    pub mode: u32,
    /// Owner number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// Reads an ACL.
///
/// # Errors
/// When the target is not there, or its ACL is damaged.
pub fn get_acl(source: &dyn Source, datastore: &DatastoreName, path: &StorePath) -> Result<AclLines, Error> {
    let subject = find(source, datastore, path)?.subject();
    let lines = match &subject.acl {
        StoredAcl::Absent => None,
        StoredAcl::Unreadable(why) => {
            return Err(Error::Invalid(format!("the ACL of {path} cannot be read: {why}")));
        }
        StoredAcl::Ntacl(blob) => {
            let descriptor = SecurityDescriptor::from_ntacl(blob)
                .map_err(|why| Error::Invalid(format!("the ACL of {path} is damaged: {why}")))?;
            let names = source.read(Names::read)??;
            Some(print_lines(&descriptor, &|sid| names.sid(sid)))
        }
    };
    Ok(AclLines { lines, mode: subject.mode, uid: subject.uid, gid: subject.gid })
}

/// Replaces an ACL. Owner and group are kept where the lines do not name them. Says which extended attribute it is in.
///
/// # Errors
/// When the target is not there, a line cannot be read, or the ACL cannot be written.
pub fn set_acl(
    source: &dyn Source,
    datastore: &DatastoreName,
    path: &StorePath,
    lines: &[String],
) -> Result<&'static str, Error> {
    let node = find(source, datastore, path)?;
    let before = match node.subject().acl {
        StoredAcl::Ntacl(blob) => SecurityDescriptor::from_ntacl(&blob).ok(),
        StoredAcl::Absent | StoredAcl::Unreadable(_) => None,
    };
    let descriptor = source.read(|view| {
        let mut descriptor = SecurityDescriptor {
            owner: before.as_ref().and_then(|old| old.owner),
            group: before.as_ref().and_then(|old| old.group),
            dacl: Some(Vec::new()),
        };
        for line in lines {
            let parsed = parse_line(line, &|who| sid(view, who).map_err(|why| why.to_string()));
            match parsed.map_err(|why| Error::Invalid(format!("`{line}`: {why}")))? {
                AclLine::Owner(sid) => descriptor.owner = Some(sid),
                AclLine::Group(sid) => descriptor.group = Some(sid),
                AclLine::Ace(ace) => descriptor.dacl.get_or_insert_default().push(ace),
            }
        }
        Ok::<_, Error>(descriptor)
    })??;
    let blob = descriptor.to_ntacl().map_err(|why| Error::Invalid(why.to_string()))?;
    Ok(enfilade_content::set_acl_as_operator(&node, &blob)?.name())
}

/// Gives an empty directory an ACL under which roles alone decide: everybody who comes in may do what their role lets
/// them. Where there is content already, or an ACL, nothing is changed.
///
/// # Errors
/// When the ACL cannot be written.
pub fn open_to_roles(path: &str) -> Result<(), Error> {
    let root = Root::open(path)?;
    let blob = enfilade_access::open_to_roles().to_ntacl().map_err(|why| Error::Invalid(why.to_string()))?;
    match enfilade_content::seed_acl(&root, &blob) {
        Ok(_) | Err(Content::NotEmpty(_) | Content::Exists(_)) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

fn find(source: &dyn Source, name: &DatastoreName, path: &StorePath) -> Result<Node, Error> {
    let datastore = source.read(|view| view.get::<Datastore>(name))??;
    let datastore = datastore.ok_or_else(|| Error::Missing {
        what: "datastore",
        name: name.to_string(),
        hint: "see `enfilade datastore list`",
    })?;
    Ok(Root::open(&datastore.root(name))?.find(path)?)
}

/// The SID of a user or group by its name here.
fn sid(view: &View<'_>, who: &str) -> Result<Sid, Error> {
    match who.parse::<Target>()? {
        Target::User(user) => {
            let id = user_id(view, &user)?;
            let user = view.get::<User>(&id)?;
            user.map(|user| user.sid).ok_or_else(|| crate::look::dangling("user", id))
        }
        Target::Token(user, _) => Err(Error::Invalid(format!(
            "`{who}` is a token, and what it does it does as its owner: name `{user}`"
        ))),
        Target::Group(group) => {
            let id = group_id(view, &group)?;
            let group = view.get::<Group>(&id)?;
            group.map(|group| group.sid).ok_or_else(|| crate::look::dangling("group", id))
        }
    }
}
