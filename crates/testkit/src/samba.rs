//! A real Samba with its own directory, users and groups. It does not use or change the configuration of the machine.

use crate::ports::free_port;
use enfilade_facts::vocabulary::AclDialect;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The preloaded library that makes programs read users and groups from given files instead of the system's files.
const WRAPPER: &str = "libnss_wrapper.so";
const PASSWORD: &str = "of-a-test";
/// The primary group of all users.
const USERS: u32 = 19_999;
const FIRST_UID: u32 = 70_000;
/// After this number of failed attempts to connect, the start counts as failed. The attempts take 30 seconds.
const TURNS: u32 = 300;
const TURN: Duration = Duration::from_millis(100);

/// A user who may log on.
#[derive(Clone, Debug)]
pub struct SambaUser {
    /// The name.
    pub name: String,
    /// The Unix groups of the user. ACLs refer to them as `S-1-22-2-GID`.
    pub gids: Vec<u32>,
}

/// A running Samba that listens on loopback. It is stopped when this value is dropped.
#[derive(Debug)]
pub struct Samba {
    child: Child,
    place: PathBuf,
    port: u16,
}

impl Samba {
    /// Whether the programs of Samba are installed.
    pub fn is_installed() -> bool {
        ["smbd", "smbclient", "pdbedit"]
            .iter()
            .all(|program| Command::new(program).arg("--version").output().is_ok())
    }

    /// Starts Samba with these shares. Samba uses only ACLs in the given dialect, and hides entries that the user may not read.
    ///
    /// # Errors
    /// The description of the step that failed.
    pub fn start(
        place: &Path,
        shares: &[(&str, &Path, AclDialect)],
        users: &[SambaUser],
    ) -> Result<Self, String> {
        let said = |why: std::io::Error| why.to_string();
        std::fs::create_dir_all(place).map_err(said)?;
        let port = free_port();
        write(place, "smb.conf", &config(place, port, shares))?;
        let (passwd, groups) = people(users);
        write(place, "passwd", &passwd)?;
        write(place, "group", &groups)?;
        for user in users {
            let mut add = wrapped("pdbedit", place);
            add.args(["-a", "-t", "-u", &user.name]).stdin(Stdio::piped()).stdout(Stdio::null());
            let mut add = add.stderr(Stdio::null()).spawn().map_err(said)?;
            if let Some(mut input) = add.stdin.take() {
                write!(input, "{PASSWORD}\n{PASSWORD}\n").map_err(said)?;
            }
            if !add.wait().map_err(said)?.success() {
                return Err(format!("pdbedit does not accept the user {}", user.name));
            }
        }
        let mut command = wrapped("smbd", place);
        // smbd must have its own process group, because it ends all processes of its group when it ends.
        command.arg("--foreground").stdout(Stdio::null());
        command.stderr(std::fs::File::create(place.join("stderr")).map_err(said)?);
        let samba = Samba { child: command.spawn().map_err(said)?, place: place.to_owned(), port };
        for _ in 0..TURNS {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(samba);
            }
            std::thread::park_timeout(TURN);
        }
        Err(format!(
            "smbd does not listen: {}",
            std::fs::read_to_string(place.join("stderr")).unwrap_or_default()
        ))
    }

    /// The process id of `smbd`.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// A command of Samba that works directly on files and does not need a running Samba server.
    pub fn tool(&self, program: &str) -> Command {
        let mut command = wrapped(program, &self.place);
        // The program needs the modules of the system's Python.
        command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        command
    }

    /// `smbclient` as a user. The caller adds the share, `//127.0.0.1/SHARE`.
    pub fn client(&self, user: &str) -> Command {
        let mut command = wrapped("smbclient", &self.place);
        command.args(["-p", &self.port.to_string(), "-m", "SMB3", "-U", &format!("{user}%{PASSWORD}")]);
        command
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        // smbd ends its helper processes at SIGTERM; after SIGKILL they would keep running.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        for _ in 0..TURNS / 6 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::park_timeout(TURN);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(place: &Path, name: &str, text: &str) -> Result<(), String> {
    std::fs::write(place.join(name), text).map_err(|why| format!("`{name}`: {why}"))
}

fn wrapped(program: &str, place: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", WRAPPER);
    command.env("NSS_WRAPPER_PASSWD", place.join("passwd")).env("NSS_WRAPPER_GROUP", place.join("group"));
    command.env("SMB_CONF_PATH", place.join("smb.conf"));
    command
}

fn config(place: &Path, port: u16, shares: &[(&str, &Path, AclDialect)]) -> String {
    let place = place.display();
    let mut config = format!(
        "[global]\n  server role = standalone server\n  security = user\n  map to guest = never\n  \
         passdb backend = tdbsam:{place}/passdb.tdb\n  smb ports = {port}\n  interfaces = 127.0.0.1/8\n  \
         bind interfaces only = yes\n  disable netbios = yes\n  load printers = no\n  disable spoolss = yes\n  \
         log level = 0\n  log file = {place}/log\n  private dir = {place}\n  lock directory = {place}\n  \
         state directory = {place}\n  cache directory = {place}\n  pid directory = {place}\n  \
         ncalrpc dir = {place}/ncalrpc\n  usershare max shares = 0\n"
    );
    for (name, share, acls) in shares {
        let module = match acls {
            AclDialect::Ntacl => "acl_xattr\n  acl_xattr:ignore system acls = yes",
            AclDialect::Nfs4 => {
                "nfs4acl_xattr\n  nfs4acl_xattr:encoding = xdr\n  nfs4acl_xattr:validate_mode = no\n  nfs4acl_xattr:default acl style = everyone"
            }
        };
        let _ = write!(
            config,
            "[{name}]\n  path = {}\n  read only = no\n  vfs objects = {module}\n  hide unreadable = yes\n",
            share.display()
        );
    }
    config
}

/// The content of the files `passwd` and `group`.
fn people(users: &[SambaUser]) -> (String, String) {
    let mut passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n".to_owned();
    let mut groups = format!("root:x:0:\nnogroup:x:65534:\nusers:x:{USERS}:\n");
    for (uid, user) in (FIRST_UID..).zip(users) {
        let _ = writeln!(passwd, "{}:x:{uid}:{USERS}::/:/bin/false", user.name);
    }
    let mut members = std::collections::BTreeMap::<u32, Vec<&str>>::new();
    for user in users {
        user.gids.iter().for_each(|gid| members.entry(*gid).or_default().push(&user.name));
    }
    for (gid, members) in members {
        let _ = writeln!(groups, "g{gid}:x:{gid}:{}", members.join(","));
    }
    (passwd, groups)
}
