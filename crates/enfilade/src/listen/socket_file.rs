//! The file of a Unix socket on which the server listens.
//!
//! A socket file that an ended process left behind is replaced. It is an error if a process listens on the socket file, or if the file is not a
//! socket. Servers that start at the same time work one after the other. Each server holds a lock on the directory while it examines the file and
//! creates its own file.

use std::fmt;
use std::fs::{File, Permissions, TryLockError, remove_file, set_permissions, symlink_metadata};
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// The prefix of a configuration value that is the path of a Unix socket.
pub(super) const PREFIX: &str = "unix:";
/// The maximum length of a path, in bytes: `sun_path` has 108 bytes, and the last byte is 0 (unix(7)).
const PATH_BYTES_MAX: usize = 107;
/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// The maximum number of attempts to lock the directory while another server holds the lock. The attempts take five seconds in total.
const TURNS: u32 = 50;
const TURN: Duration = Duration::from_millis(100);

/// The path of a Unix socket in a configuration value. `None` if the text does not begin with `unix:`.
pub(super) fn path_in(text: &str) -> Option<Result<&Path, String>> {
    let path = text.strip_prefix(PREFIX)?;
    let example = "expected for example `unix:/run/enfilade/http.sock`";
    Some(match path.len() {
        _ if !path.starts_with('/') => Err(format!("`{text}`: the path is not absolute; {example}")),
        _ if path.ends_with('/') || path.contains([',', '\0']) => {
            Err(format!("`{text}`: the path must not end with `/` or contain a comma; {example}"))
        }
        bytes if bytes > PATH_BYTES_MAX => Err(format!(
            "`{text}`: the path has {bytes} bytes, and a Unix socket takes at most {PATH_BYTES_MAX}; choose a shorter one"
        )),
        _ => Ok(Path::new(path)),
    })
}

/// The file of a listening socket. When this value is dropped, the file is removed, unless another file has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

/// Listens on a new socket at this path. The file of the socket gets this mode.
pub(super) async fn bind(path: &Path, mode: u32) -> io::Result<(SocketFile, UnixListener)> {
    let directory = path.parent().unwrap_or(path);
    let _turn = turn(directory).await?;
    remove_stale(path).await?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let found = symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), id: (found.dev(), found.ino()) };
    // The file has the group of the process, or the group of the directory. No process can connect before `listen`.
    set_permissions(path, Permissions::from_mode(mode))?;
    Ok((file, socket.listen(BACKLOG)?))
}

async fn turn(directory: &Path) -> io::Result<File> {
    let opened = File::open(directory).map_err(|why| {
        let advice = match why.kind() {
            ErrorKind::NotFound => {
                "; systemd creates the directory if the unit has `RuntimeDirectory=enfilade`"
            }
            _ => "",
        };
        Error::new(
            why.kind(),
            format!("the directory `{}` cannot be opened: {why}{advice}", directory.display()),
        )
    })?;
    for _ in 0..TURNS {
        match opened.try_lock() {
            Ok(()) => return Ok(opened),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(TURN).await,
            Err(TryLockError::Error(why)) => return Err(why),
        }
    }
    let why = format!("another process holds a lock on the directory `{}`", directory.display());
    Err(Error::new(ErrorKind::TimedOut, why))
}

/// Removes a socket file if no process listens on the socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let other = |what: &str| Error::new(ErrorKind::AlreadyExists, what.to_owned());
    match symlink_metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(other("the existing file is not a socket, and is not removed"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => remove_file(path),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        // A process listens on the socket, but its queue is full.
        Err(why) if why.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Err(why) => Err(Error::new(why.kind(), format!("the existing socket cannot be examined: {why}"))),
        Ok(_) => Err(in_use()),
    }
}

fn in_use() -> Error {
    Error::new(ErrorKind::AddrInUse, "the socket is in use by another process (`ss -xlp` shows it)")
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The socket listens until the file is removed. So no other server treats the file as stale in the meantime.
        if symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            let _ = remove_file(&self.path);
        }
    }
}

impl fmt::Display for SocketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_testkit::Scratch;
    use std::os::unix::net::UnixListener as Blocking;

    async fn said(path: &Path) -> String {
        bind(path, 0o660).await.err().map(|why| why.to_string()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_nothing_else_is() {
        let scratch = Scratch::new();
        let path = scratch.path().join("http.sock");
        drop(Blocking::bind(&path).unwrap());
        let listener = bind(&path, 0o660).await.unwrap();
        assert_eq!(symlink_metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert!(said(&path).await.contains("in use by another process"));
        // A socket with a full queue is not stale.
        let full = scratch.path().join("full.sock");
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(&full).unwrap();
        let _full = socket.listen(0).unwrap();
        let _waiting = UnixStream::connect(&full).await.unwrap();
        assert!(said(&full).await.contains("in use by another process"));
        drop(listener);
        assert!(!path.exists());
        // A file of another kind is not removed, and the target of a link is not removed.
        let file = scratch.path().join("file");
        std::fs::write(&file, "content").unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink("http.sock", &link).unwrap();
        for other in [&file, &link, &scratch.path().to_owned()] {
            assert!(said(other).await.contains("is not a socket"), "{other:?}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "content");
        assert!(said(&scratch.path().join("none/x")).await.contains("RuntimeDirectory"));
    }

    #[tokio::test]
    async fn only_the_own_file_is_removed_at_the_end() {
        let scratch = Scratch::new();
        let path = scratch.path().join("http.sock");
        let first = bind(&path, 0o660).await.unwrap();
        std::fs::rename(&path, scratch.path().join("moved")).unwrap();
        let second = bind(&path, 0o660).await.unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn paths_as_people_write_them() {
        assert!(path_in("127.0.0.1:1").is_none());
        assert_eq!(path_in("unix:/run/a.sock").unwrap().unwrap(), Path::new("/run/a.sock"));
        let of = |bytes: usize| format!("unix:/{}", "a".repeat(bytes - 1));
        assert!(path_in(&of(107)).unwrap().is_ok());
        let long = path_in(&of(108)).unwrap().unwrap_err();
        assert!(long.contains("has 108 bytes") && long.contains("at most 107"), "{long}");
        for wrong in ["unix:", "unix:run/a", "unix:@a", "unix:/", "unix:/run/", "unix:/a,b", "unix:/a\0"] {
            assert!(path_in(wrong).unwrap().is_err(), "{wrong}");
        }
    }
}
