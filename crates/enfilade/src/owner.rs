//! The owner of the data directory: the user that the server runs as. Files that root creates in the data directory get the same owner
//! (`sources/src/files/directory.rs`).

use anyhow::{Context, bail};
use rustix::fs::{Access, access};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses a user that cannot use the data directory: neither its owner, nor root, nor a member of the group that shares it. A directory that does
/// not exist is accepted.
pub(crate) fn check(data: &Path) -> anyhow::Result<()> {
    let meta = match std::fs::metadata(data) {
        Ok(meta) => meta,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why).with_context(|| format!("`{}` cannot be opened", data.display())),
    };
    if access(data, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_ok() {
        return Ok(());
    }
    let (owner, own) = (name_of(meta.uid()), name_of(geteuid().as_raw()));
    bail!(
        "the data directory `{}` belongs to user {owner}, but this command runs as user {own}; nothing was changed; run it as the owner: `sudo -u {owner} enfilade …`, or give another directory with --data",
        data.display()
    )
}

/// Makes this process run as the owner of the data directory, so that it has exactly the permissions of the server. Only root can do this; for other
/// users nothing changes. The process may have only one thread: the system calls act on one thread, and later threads inherit its user.
pub(crate) fn become_owner(data: &Path) -> anyhow::Result<()> {
    let Ok(meta) = std::fs::metadata(data) else { return Ok(()) };
    if !geteuid().is_root() || meta.uid() == 0 {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
    let groups = groups_of(&std::fs::read_to_string("/etc/group").unwrap_or_default(), &name_of(meta.uid()));
    let change = || {
        set_thread_groups(&groups)?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)
    };
    change().with_context(|| format!("this process cannot become user {}", name_of(meta.uid())))
}

/// The groups in the text of `/etc/group` (group(5)) that have this user as a member. A service manager gives these groups to the server, too.
fn groups_of(text: &str, user: &str) -> Vec<Gid> {
    let group = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let (id, members) = (fields.next()?.parse().ok()?, fields.next()?);
        members.split(',').any(|member| member == user).then(|| Gid::from_raw(id))
    };
    text.lines().filter_map(group).collect()
}

/// A warning if the owner of the data directory cannot read and write `directory`, which the owner's server serves. Changes the user of this process
/// as [`become_owner`] does, so it must be the last step of a command.
pub(crate) fn warning_of(directory: &Path, data: &Path) -> Option<String> {
    become_owner(data).ok()?;
    access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).err()?;
    let owner = name_of(geteuid().as_raw());
    let path = directory.display();
    Some(format!(
        "warning: user {owner}, the owner of the data directory, cannot read and write `{path}`: run `chown {owner} '{path}'`"
    ))
}

/// The name of a user in `/etc/passwd` (passwd(5)), else the number.
pub(crate) fn name_of(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = uid.to_string();
    let named = users.lines().find(|line| line.split(':').nth(2) == Some(number.as_str()));
    named.and_then(|line| line.split(':').next()).map_or(number.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_in_the_groups_that_name_it() {
        let text =
            "root:x:0:\nssl-cert:x:110:postfix,enfilade\nbad\nother:x:111:enfilade2\nlast:x:112:enfilade\n";
        assert_eq!(groups_of(text, "enfilade"), [110, 112].map(Gid::from_raw));
    }
}
