//! The owner of the data directory. The server runs as this user. Files that root creates in the data directory get the same owner
//! (`sources/src/files/directory.rs`).

use anyhow::{Context, bail};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses to continue if the user of this process cannot use the data directory. Only the owner of the data directory, root, and the members of the
/// group that shares the data directory can use it. A directory that does not exist is accepted.
pub(crate) fn check(data: &Path) -> anyhow::Result<()> {
    let meta = match std::fs::metadata(data) {
        Ok(meta) => meta,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why).with_context(|| format!("`{}` cannot be opened", data.display())),
    };
    match access(data, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(why) => bail!("{}", unusable(data, &meta, (geteuid().as_raw(), why))),
    }
}

/// The reason why a user cannot use the data directory, and advice.
fn unusable(data: &Path, meta: &Metadata, (own, why): (u32, Errno)) -> String {
    let (data, owner, mode) = (data.display(), name_of(meta.uid()), meta.mode() & 0o777);
    if why == Errno::ROFS {
        return format!(
            "the data directory `{data}` is on a file system that is mounted read-only; nothing was changed; mount it writable, or give another directory \
             with --data"
        );
    }
    if meta.uid() != own {
        let own = name_of(own);
        return format!(
            "the data directory `{data}` belongs to user {owner}, but this command runs as user {own}; nothing was changed; run it as the owner: `sudo -u \
             {owner} enfilade …`, or give another directory with --data"
        );
    }
    let bits = [(0o400, "readable"), (0o200, "writable"), (0o100, "searchable")];
    let lacks: Vec<&str> = bits.iter().filter(|(bit, _)| mode & bit == 0).map(|(_, word)| *word).collect();
    match lacks.as_slice() {
        [] => format!(
            "the data directory `{data}` cannot be used by its owner, user {owner}: {why}; nothing was changed"
        ),
        lacks => format!(
            "the data directory `{data}` is not {} by its owner, user {owner} (mode {mode:03o}); nothing was changed; run `chmod u+rwx '{data}'`",
            lacks.join(" and not ")
        ),
    }
}

/// Makes this process run as the owner of the data directory. Then the process has exactly the permissions of the server. Only root can do this. For
/// other users, the function changes nothing. The process must have only one thread, because the system calls change the user of only one thread.
/// Threads that start later inherit this user.
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

/// The groups in the text of `/etc/group` (group(5)) that contain this user. A service manager gives these groups to the server, too.
pub(crate) fn groups_of(text: &str, user: &str) -> Vec<Gid> {
    let group = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let (id, members) = (fields.next()?.parse().ok()?, fields.next()?);
        members.split(',').any(|member| member == user).then(|| Gid::from_raw(id))
    };
    text.lines().filter_map(group).collect()
}

/// A warning if the owner of the data directory cannot read and write `directory`, which the server serves. Like [`become_owner`], this function
/// changes the user of this process. So it must be the last step of a command.
pub(crate) fn warning_of(directory: &Path, data: &Path) -> Option<String> {
    become_owner(data).ok()?;
    access(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).err()?;
    let owner = name_of(geteuid().as_raw());
    let path = directory.display();
    Some(format!(
        "warning: user {owner}, the owner of the data directory, cannot read and write `{path}`: run `chown {owner} '{path}'`"
    ))
}

/// The reason why this process cannot open a directory. The text names the first directory on the path that the process may not enter, with its owner
/// and mode. The last directory on the path must also be readable. `None` if no directory is the cause, or if this process sees that the path does
/// not exist.
pub(crate) fn barrier(directory: &Path) -> Option<String> {
    let mut path: Vec<&Path> = directory.ancestors().collect();
    path.reverse();
    path.into_iter().find_map(|at| {
        let meta = std::fs::metadata(at).ok().filter(std::fs::Metadata::is_dir)?;
        let needed = if at == directory { Access::READ_OK | Access::EXEC_OK } else { Access::EXEC_OK };
        let is_shut = access(at, needed) == Err(Errno::ACCESS);
        is_shut.then(|| {
            let mode = meta.mode() & 0o7777;
            format!("`{}` belongs to user {} and has mode {mode:04o}", at.display(), name_of(meta.uid()))
        })
    })
}

/// The number of a user in `/etc/passwd` (passwd(5)); `None` if there is no such user. If the text is a number, the function returns this number.
pub(crate) fn uid_of(user: &str) -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find(|line| line.split(':').next() == Some(user));
    named.and_then(|line| line.split(':').nth(2)?.parse().ok()).or_else(|| user.parse().ok())
}

/// The number of the primary group of a user in `/etc/passwd` (passwd(5)).
pub(crate) fn gid_of(user: &str) -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find(|line| line.split(':').next() == Some(user));
    named.and_then(|line| line.split(':').nth(3)?.parse().ok())
}

/// The name of a user in `/etc/passwd` (passwd(5)). If there is no name, the number.
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
    fn an_owner_without_rights_is_not_sent_to_the_owner() {
        let scratch = enfilade_testkit::Scratch::new();
        let data = scratch.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let says = |mode: u32, other: u32, why: Errno| {
            std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let meta = std::fs::metadata(&data).unwrap();
            unusable(&data, &meta, (meta.uid() + other, why))
        };
        let said = says(0o500, 0, Errno::ACCESS);
        assert!(said.contains("is not writable by its owner") && said.contains("(mode 500)"), "{said}");
        assert!(said.contains("chmod u+rwx") && !said.contains("sudo"), "{said}");
        let said = says(0o200, 0, Errno::ACCESS);
        assert!(said.contains("is not readable and not searchable by its owner"), "{said}");
        let said = says(0o700, 0, Errno::ACCESS);
        assert!(said.contains("cannot be used by its owner") && said.contains("Permission denied"), "{said}");
        assert!(says(0o700, 1, Errno::ACCESS).contains("run it as the owner: `sudo -u"));
        assert!(says(0o700, 0, Errno::ROFS).contains("is mounted read-only"));
    }

    #[test]
    fn a_user_is_in_the_groups_that_name_it() {
        let text =
            "root:x:0:\nssl-cert:x:110:postfix,enfilade\nbad\nother:x:111:enfilade2\nlast:x:112:enfilade\n";
        assert_eq!(groups_of(text, "enfilade"), [110, 112].map(Gid::from_raw));
    }

    #[test]
    fn the_directory_that_is_shut_is_named_with_its_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let scratch = enfilade_testkit::Scratch::new();
        let (above, below) = (scratch.path().join("above"), scratch.path().join("above/below"));
        std::fs::create_dir_all(&below).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(barrier(&below), None);
        assert_eq!(barrier(&below.join("gone")), None);
        // Root can open every directory.
        if geteuid().is_root() {
            return;
        }
        mode(&below, 0o200);
        let says = barrier(&below).unwrap();
        assert!(says.contains("below` belongs to user") && says.ends_with("has mode 0200"), "{says}");
        mode(&above, 0o600);
        let says = barrier(&below).unwrap();
        assert!(says.contains("above` belongs to user") && says.ends_with("has mode 0600"), "{says}");
        mode(&above, 0o700);
        mode(&below, 0o700);
    }
}
