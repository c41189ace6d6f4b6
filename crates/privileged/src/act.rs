//! The only code that uses a capability. It checks each request and its descriptor before it acts, because an attacker may control the process that
//! sent them.

use crate::ntacl;
use crate::protocol::Request;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, OFlags, Stat, StatxFlags, Uid, XattrFlags, fchown, fcntl_getfl, fremovexattr,
    fsetxattr, fstat, statx,
};
use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

/// The only attribute that the helper writes.
const NTACL: &str = "security.NTACL";
/// `FAN_REPORT_FID`: with this flag, an event identifies an object by its handle (linux/fanotify.h).
const REPORT_FID: u32 = 0x200;
/// Requests the unique id of a mount (linux/stat.h, from Linux 6.8 on). The kernel never uses such an id again.
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// The maximum number of connections that wait until the server accepts them.
const BACKLOG: i32 = 1024;
/// The maximum number of mounts of one connection. The connection for reports has the mounts of all datastores; most other connections have one
/// mount.
const MOUNTS_MAX: usize = 64;

/// The state of one connection: the user of the server, and the ports and mounts that the requests of the connection may use.
pub struct Acting {
    /// The user of the server.
    pub user: u32,
    /// The ports on which the server may listen.
    pub ports: BTreeSet<u16>,
    mounts: BTreeSet<u64>,
    watch: Option<Fanotify>,
}

impl Acting {
    /// A connection of a server that runs as `user`, and may listen on these ports.
    pub fn new(user: u32, ports: BTreeSet<u16>) -> Self {
        Acting { user, ports, mounts: BTreeSet::new(), watch: None }
    }

    /// Carries out a request. If the request asks for a descriptor, returns the descriptor.
    ///
    /// # Errors
    /// The error of the kernel. `EINVAL` if the request has the wrong number of descriptors, if the file is neither a regular file nor a directory,
    /// or if the queue for reports is missing. `EXDEV` if the file is not in a mount that the connection may use. `EBADF` if a file was opened with
    /// `O_PATH`. `ENOTDIR` if the root of a datastore is not a directory. `ENFILE` if the connection has too many mounts. `EBADMSG` if the ACL is not
    /// well formed. `EACCES` if the server may not give this file to this owner, or may not listen on this port.
    pub fn act(
        &mut self,
        request: &Request<'_>,
        descriptor: Option<&OwnedFd>,
    ) -> io::Result<Option<OwnedFd>> {
        match (request, descriptor) {
            (Request::Root, Some(directory)) => self.root(directory.as_fd()).map(|()| None),
            (Request::SetAcl(acl), Some(file)) => {
                self.file(file.as_fd())?;
                if !ntacl::is_well_formed(acl) {
                    return Err(Errno::BADMSG);
                }
                io::retry_on_intr(|| fsetxattr(file, NTACL, acl, XattrFlags::empty())).map(|()| None)
            }
            (Request::RemoveAcl, Some(file)) => {
                self.file(file.as_fd())?;
                io::retry_on_intr(|| fremovexattr(file, NTACL)).map(|()| None)
            }
            (Request::Give { uid, gid }, Some(file)) => self.give(file.as_fd(), *uid, *gid).map(|()| None),
            (Request::Watch, None) => self.watch().map(Some),
            (Request::Mark, Some(directory)) => self.mark(directory.as_fd()).map(|()| None),
            (Request::Listen(address), None) => self.listen(address).map(Some),
            _ => Err(Errno::INVAL),
        }
    }

    fn root(&mut self, directory: BorrowedFd<'_>) -> io::Result<()> {
        if kind(&fstat(directory)?) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        if self.mounts.len() >= MOUNTS_MAX {
            return Err(Errno::NFILE);
        }
        self.mounts.insert(mount_of(directory)?);
        Ok(())
    }

    /// Accepts only the descriptor of a file or directory in a mount that the connection may use. Returns the state of the file or directory.
    fn file(&self, file: BorrowedFd<'_>) -> io::Result<Stat> {
        // If a descriptor was opened with `O_PATH`, the kernel did not check whether the process may access the file.
        if fcntl_getfl(file)?.contains(OFlags::PATH) {
            return Err(Errno::BADF);
        }
        let found = fstat(file)?;
        if !matches!(kind(&found), FileType::RegularFile | FileType::Directory) {
            return Err(Errno::INVAL);
        }
        match self.mounts.contains(&mount_of(file)?) {
            true => Ok(found),
            false => Err(Errno::XDEV),
        }
    }

    /// Changes the owner and group of a file. A server may give away only files that it owns. It may not give away a regular file with a set-user-ID,
    /// set-group-ID or sticky bit, and it may not give a file to the user or group `root`. Without these rules, a server under an attacker's control
    /// could give away files of other owners, or make programs that run as another user.
    fn give(&self, file: BorrowedFd<'_>, uid: u32, gid: u32) -> io::Result<()> {
        let found = self.file(file)?;
        let is_plain = found.st_mode & 0o7000 == 0 || kind(&found) == FileType::Directory;
        // The value -1 would tell the kernel to keep the present owner or group.
        let is_meant = ![uid, gid].iter().any(|id| [0, u32::MAX].contains(id));
        if found.st_uid != self.user || !is_plain || !is_meant {
            return Err(Errno::ACCESS);
        }
        io::retry_on_intr(|| fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))
    }

    fn watch(&mut self) -> io::Result<OwnedFd> {
        let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let flags = flags | InitFlags::from_bits_retain(REPORT_FID);
        let made = Fanotify::init(flags, EventFFlags::empty()).map_err(of_nix)?;
        let shared = made
            .as_fd()
            .try_clone_to_owned()
            .map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::IO))?;
        self.watch = Some(made);
        Ok(shared)
    }

    fn mark(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        let watch = self.watch.as_ref().ok_or(Errno::INVAL)?;
        if !self.mounts.contains(&mount_of(directory)?) {
            return Err(Errno::XDEV);
        }
        let what = MaskFlags::FAN_ATTRIB
            | MaskFlags::FAN_MOVE_SELF
            | MaskFlags::FAN_DELETE_SELF
            | MaskFlags::FAN_ONDIR;
        let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
        watch.mark(flags, what, directory, None::<&Path>).map_err(of_nix)
    }

    fn listen(&self, address: &SocketAddr) -> io::Result<OwnedFd> {
        if !self.ports.contains(&address.port()) {
            return Err(Errno::ACCESS);
        }
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket =
            socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        // The server also sets this option for its own sockets. With this option, a port can be used again at once after the previous server has
        // ended.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, address)?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    }
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// The id of the mount in which a file was opened.
fn mount_of(file: BorrowedFd<'_>) -> io::Result<u64> {
    let ask = |wanted: StatxFlags| {
        let found = io::retry_on_intr(|| statx(file, "", AtFlags::EMPTY_PATH, wanted))?;
        Ok::<_, Errno>((found.stx_mask & wanted.bits() != 0).then_some(found.stx_mnt_id))
    };
    match ask(MOUNT_ID_UNIQUE)? {
        Some(id) => Ok(id),
        None => ask(StatxFlags::MNT_ID)?.ok_or(Errno::OPNOTSUPP),
    }
}

fn of_nix(why: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(why as i32)
}
