//! Operations that need a capability: writing the ACL attribute of Samba, and giving a file to another user. If the kernel lets this process do the
//! operation, this process does it. Otherwise this process asks the helper process (`crates/privileged`), if there is a helper.

use crate::acl_read::AclPlace;
use crate::attributes::set_attribute;
use crate::node::Node;
use enfilade_facts::vocabulary::AclDialect;
use enfilade_privileged::client;
use enfilade_privileged::protocol::Request;
use rustix::fd::AsFd as _;
use rustix::fs::{Gid, Uid, fchown, fremovexattr};
use rustix::io::{self, Errno};

/// Writes an extended attribute with an ACL. If this process may not write the attribute, the helper writes it. If the helper cannot write it either,
/// or does not answer, the error is [`Errno::NOTCONN`]. If there is no helper, or if the helper never writes an attribute of this name, the error is
/// [`Errno::PERM`].
pub(crate) fn set_acl_attribute(node: &Node, name: &str, acl: &[u8]) -> io::Result<()> {
    or_helper(node, is_of_samba(name), set_attribute(node.fd(), name, acl), &Request::SetAcl(acl))
}

/// Removes an extended attribute.
pub(crate) fn remove_attribute(node: &Node, name: &str) -> io::Result<()> {
    let removed = io::retry_on_intr(|| fremovexattr(node.fd(), name));
    or_helper(node, is_of_samba(name), removed, &Request::RemoveAcl)
}

/// Sets the owner and group of a file or directory that this process has just made.
pub(crate) fn give(node: &Node, uid: u32, gid: u32) -> io::Result<()> {
    let given = io::retry_on_intr(|| fchown(node.fd(), Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))));
    or_helper(node, true, given, &Request::Give { uid, gid })
}

/// Whether `name` is `security.NTACL`, the only attribute that the helper writes.
fn is_of_samba(name: &str) -> bool {
    name == AclPlace::Security.name(AclDialect::Ntacl)
}

fn or_helper(node: &Node, can_help: bool, done: io::Result<()>, request: &Request<'_>) -> io::Result<()> {
    let directory = node.tree_state().directory.as_ref();
    match (done, directory, client::helper()) {
        (Err(Errno::PERM), Some(directory), Some(_)) if can_help => {
            let asked = client::ask_below(directory.as_fd(), node.mount(), request, node.fd());
            asked.map_err(|why| match why {
                // The helper cannot do the operation, because it does not have the capability.
                Errno::PERM => Errno::NOTCONN,
                why if client::is_unreachable(why) => Errno::NOTCONN,
                why => why,
            })
        }
        (done, ..) => done,
    }
}

/// The reason why the helper did not do the requested operation.
pub(crate) fn no_help() -> String {
    let path = client::helper().map(|path| path.display().to_string()).unwrap_or_default();
    format!(
        "the helper process at the socket `{path}` does not answer, or does not have the necessary capability: run `systemctl restart enfilade-privileged.socket`"
    )
}
