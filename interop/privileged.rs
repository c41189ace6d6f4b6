//! The helper process. A server without capabilities uses the helper for the operations that need a capability. If an attacker controls the server,
//! the helper still does nothing else.

use crate::server::{BINARY, Scratch, short_passwords, wait_until};
use enfilade_access::{SecurityDescriptor, from_sddl};
use enfilade_privileged::client::{Connection, use_helper};
use enfilade_privileged::ntacl::is_well_formed;
use enfilade_privileged::protocol::Request;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags, getxattr, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

const USER: u32 = 54_323;

/// The program of the helper. Cargo does not build the helper for this test, because the helper is in another package.
pub(crate) fn program() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let built =
            Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "enfilade-privileged"]).status();
        assert!(built.unwrap().success());
        Path::new(BINARY).with_file_name("enfilade-privileged")
    });
    &BUILT
}

struct Helper {
    child: Child,
    socket: PathBuf,
}

impl Helper {
    /// Starts the helper like its systemd unit: as a separate user, with four capabilities, and with the listening socket as standard input.
    fn start(directory: &Path, user: u32, ports: &[u16]) -> Self {
        let socket = directory.join("helper.sock");
        let _ = std::fs::remove_file(&socket);
        let listening =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listening, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        listen(&listening, 16).unwrap();
        chown(&socket, Some(user), None).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=54324", "--regid=54324", "--clear-groups", "--no-new-privs"]);
        for set in ["inh-caps", "ambient-caps", "bounding-set"] {
            command.arg(format!("--{set}=-all,+sys_admin,+chown,+net_bind_service,+dac_read_search"));
        }
        command.arg(program()).args(["--user", &user.to_string()]);
        for port in ports {
            command.args(["--port", &port.to_string()]);
        }
        let child = command.stdin(listening).spawn().unwrap();
        Helper { child, socket }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that runs as a user without rights, and its data directory.
struct Unprivileged {
    scratch: Scratch,
    child: Option<Child>,
    told: Value,
}

impl Drop for Unprivileged {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Unprivileged {
    fn new() -> Self {
        let scratch = Scratch::new();
        let data = scratch.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        chown(&data, Some(USER), Some(USER)).unwrap();
        Unprivileged { scratch, child: None, told: Value::Null }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn command(&self, helper: Option<&Path>) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(["--json", "--data"])
            .arg(self.data())
            .envs(short_passwords(&self.data()))
            .uid(USER)
            .gid(USER);
        command.envs(helper.map(|path| ("ENFILADE_PRIVILEGES__HELPER", path)));
        command
    }

    fn run(&self, helper: Option<&Path>, arguments: &[&str]) -> Vec<Value> {
        let output = self.command(helper).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Starts the server. Fails with its log if it does not start.
    fn try_to_start(&mut self, helper: Option<&Path>, listen: &str) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = self.command(helper);
        command.args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.env("ENFILADE_TLS__PLAIN_LISTEN", listen).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.child = Some(child);
        self.told = serde_json::from_str(&line).map_err(|_| self.log())?;
        Ok(())
    }

    fn start(&mut self, helper: Option<&Path>) {
        self.try_to_start(helper, "127.0.0.1:0").unwrap();
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Sends a request of the administrator. Returns the status.
    fn curl(&self, path: &str, arguments: &[&str]) -> u16 {
        let login = format!("admin@local:{}", self.told["password"].as_str().unwrap_or("adminadmin"));
        let url = format!("http://{}{path}", self.told["plain_listen"].as_str().unwrap());
        let output = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "60", "-u", &login])
            .args(arguments)
            .arg(url)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap().parse().unwrap()
    }
}

fn acl_of(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut room = [0; 4096];
    let found = getxattr(path, name, &mut room).ok()?;
    Some(room[..found].to_vec())
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("not asserted: only root can start a helper with capabilities");
    }
    is_root
}

#[test]
fn a_server_without_capabilities_writes_acls_of_samba_with_the_helper() {
    if !is_root() {
        return;
    }
    let mut server = Unprivileged::new();
    let mut helper = Helper::start(server.scratch.path(), USER, &[]);
    let socket = helper.socket.clone();
    server.start(Some(&socket));
    let pid = server.child.as_ref().unwrap().id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for set in ["CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    assert!(!server.log().contains("does not report changes"), "{}", server.log());
    let root = server.data().join("datastores/main");
    let all = "allow admin@local full inherit=files,dirs";
    server.run(Some(&socket), &["acl", "set", "main", "/", all]);
    assert!(acl_of(&root, "security.NTACL").is_some());
    assert_eq!(server.curl("/dav/main/a", &["-T", "/etc/hosts"]), 201);
    let first = acl_of(&root.join("a"), "security.NTACL").unwrap();
    assert_eq!(acl_of(&root.join("a"), "user.NTACL"), None);
    // The ACL stays when the content is replaced. A folder gets an ACL, too.
    assert_eq!(server.curl("/dav/main/a", &["-T", "/etc/passwd"]), 204);
    assert_eq!(acl_of(&root.join("a"), "security.NTACL").unwrap(), first);
    assert_eq!(server.curl("/dav/main/d", &["-X", "MKCOL"]), 201);
    assert!(acl_of(&root.join("d"), "security.NTACL").is_some());
    // On ext4 and XFS, the kernel reports changes of the file system after the first listing. On other file systems, the server does not ask for
    // these reports.
    assert_eq!(server.curl("/dav/main/", &["-X", "PROPFIND", "-H", "Depth: 1"]), 207);
    let queues: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.ends_with("anon_inode:[fanotify]")))
        .map(|file| Path::new("/proc").join(pid.to_string()).join("fdinfo").join(file.file_name()))
        .collect();
    assert_eq!(queues.len(), 1);
    let kind = rustix::fs::statfs(&root).unwrap().f_type as u32;
    let is_marked = std::fs::read_to_string(&queues[0]).unwrap().contains("fanotify sdev:");
    assert_eq!(is_marked, [0xef53, 0x5846_5342].contains(&kind), "{kind:x}");
    // The server uses the helper again after the helper was restarted.
    drop(helper);
    assert_eq!(server.curl("/dav/main/b", &["-T", "/etc/hosts"]), 500);
    wait_until(Duration::from_secs(10), "the reason in the log", || {
        server.log().contains("the helper process at")
    });
    assert!(!root.join("b").exists());
    helper = Helper::start(server.scratch.path(), USER, &[]);
    assert_eq!(server.curl("/dav/main/b", &["-T", "/etc/hosts"]), 201);
    assert_eq!(acl_of(&root.join("b"), "security.NTACL").unwrap(), first);
    // A command of the server's user asks the helper, too.
    server.run(Some(&helper.socket), &["acl", "set", "main", "/b", "allow admin@local full"]);
    assert_ne!(acl_of(&root.join("b"), "security.NTACL").unwrap(), first);
    let doctor = server.run(Some(&helper.socket), &["doctor"]);
    let row = |what: &str| doctor.iter().find(|row| row["what"] == what).cloned().unwrap();
    assert_eq!(row("ACLs")["state"], "ok", "{doctor:?}");
    assert_eq!(row("helper")["state"], "ok", "{doctor:?}");
}

#[test]
fn a_new_file_with_an_nfs4_acl_is_given_to_its_maker_by_the_helper() {
    if !is_root() {
        return;
    }
    let mut server = Unprivileged::new();
    let helper = Helper::start(server.scratch.path(), USER, &[]);
    let socket = helper.socket.clone();
    server.start(Some(&socket));
    let place = server.data().join("datastores/numbers");
    let created = ["datastore", "create", "numbers", "--path", place.to_str().unwrap(), "--acls", "nfs4"];
    server.run(Some(&socket), &created);
    server.run(Some(&socket), &["user", "set", "admin@local", "--uid", "70000"]);
    let lines = ["allow admin@local full inherit=files,dirs", "allow creator-owner full inherit=files,dirs"];
    server.run(Some(&socket), &[&["acl", "set", "numbers", "/"][..], &lines].concat());
    assert_eq!(server.curl("/dav/numbers/a", &["-T", "/etc/hosts"]), 201, "{}", server.log());
    assert_eq!(std::fs::metadata(place.join("a")).unwrap().uid(), 70_000);
    assert!(acl_of(&place.join("a"), "user.nfs4acl_xdr").is_some());
    // Without the helper, this file is not created.
    drop(helper);
    assert_eq!(server.curl("/dav/numbers/b", &["-T", "/etc/hosts"]), 500);
    assert!(!place.join("b").exists());
}

#[test]
fn a_port_below_1024_is_opened_by_the_helper() {
    if !is_root() {
        return;
    }
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (600..1024).find(is_free).unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut server = Unprivileged::new();
    let said = server.try_to_start(None, &address).unwrap_err();
    assert!(said.contains("`[privileges] helper`"), "{said}");
    server.stop();
    let helper = Helper::start(server.scratch.path(), USER, &[]);
    let said = server.try_to_start(Some(&helper.socket), &address).unwrap_err();
    assert!(said.contains(&format!("add `--port {port}`")), "{said}");
    server.stop();
    let helper = Helper::start(server.scratch.path(), USER, &[port]);
    server.try_to_start(Some(&helper.socket), &address).unwrap();
    assert_eq!(server.curl("/dav/main/", &["-X", "PROPFIND", "-H", "Depth: 0"]), 207);
}

/// Sends the requests that an attacker with control of the server could send to the helper.
#[test]
fn the_helper_does_nothing_else() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let helper = Helper::start(scratch.path(), 0, &[]);
    use_helper(&helper.socket);
    let place = scratch.path();
    let opened = |path: &Path, flags: OFlags| open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let (file, others) = (place.join("file"), place.join("others"));
    for path in [&file, &others] {
        std::fs::write(path, "").unwrap();
    }
    chown(&others, Some(1234), Some(1234)).unwrap();
    let acl = SecurityDescriptor::default().to_ntacl().unwrap();
    let set = Request::SetAcl(&acl);
    let give = |uid: u32, gid: u32| Request::Give { uid, gid };
    let connection = Connection::open().unwrap();
    let ask = |request: &Request<'_>, about: Option<&OwnedFd>| {
        connection.ask(request, about.map(|about| about.as_fd())).map(drop).err()
    };
    let (root, real) = (opened(place, OFlags::RDONLY), opened(&file, OFlags::RDONLY));
    // The helper refuses everything in this mount until the server has registered a root there.
    assert_eq!(ask(&set, Some(&real)), Some(Errno::XDEV));
    assert_eq!(ask(&Request::Root, Some(&real)), Some(Errno::NOTDIR));
    assert_eq!(ask(&Request::Root, Some(&root)), None);
    assert_eq!(ask(&set, Some(&real)), None);
    assert_eq!(acl_of(&file, "security.NTACL"), Some(acl.clone()));
    let elsewhere = opened(Path::new("/proc/self/status"), OFlags::RDONLY);
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    let refused = [
        (set, Some(&elsewhere), Errno::XDEV, "another mount"),
        (set, Some(&pipe), Errno::INVAL, "a pipe"),
        (set, None, Errno::INVAL, "no file"),
        (Request::SetAcl(b"x"), Some(&real), Errno::BADMSG, "no ACL"),
        (Request::SetAcl(&acl[..acl.len() - 1]), Some(&real), Errno::BADMSG, "a part of an ACL"),
        (give(0, 1), Some(&real), Errno::ACCESS, "root gets a file"),
        (give(u32::MAX, u32::MAX), Some(&real), Errno::ACCESS, "nobody gets a file"),
        (Request::Mark, Some(&root), Errno::INVAL, "there is no queue"),
        (Request::Listen("127.0.0.1:22".parse().unwrap()), None, Errno::ACCESS, "another port"),
        (Request::Listen("127.0.0.1:8443".parse().unwrap()), None, Errno::ACCESS, "a free port"),
    ];
    for (request, about, errno, what) in refused {
        assert_eq!(ask(&request, about), Some(errno), "{what}");
    }
    let path_only = opened(&file, OFlags::PATH);
    assert_eq!(ask(&set, Some(&path_only)), Some(Errno::BADF));
    // The helper does not give away a file of another user, or a set-user-ID program.
    let of_others = opened(&others, OFlags::RDONLY);
    assert_eq!(ask(&give(4321, 4321), Some(&of_others)), Some(Errno::ACCESS));
    assert_eq!(std::fs::metadata(&others).unwrap().uid(), 1234);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(ask(&give(4321, 4321), Some(&real)), Some(Errno::ACCESS));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(ask(&give(4321, 4322), Some(&real)), None);
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!((found.uid(), found.gid()), (4321, 4322));
    // Another connection has no roots, and a connection of another user is closed.
    assert_eq!(Connection::open().unwrap().ask(&set, Some(real.as_fd())).err(), Some(Errno::XDEV));
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.connect(sys.argv[1])\ns.send(b'\\x05')\nprint(len(s.recv(9)))";
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&helper.socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    let said = |user: u32, script: &str| {
        let mut command = Command::new("python3");
        let output = command.args(["-c", script]).arg(&helper.socket).uid(user).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let other = said(USER, script);
    assert!(other == "0" || other.contains("Broken pipe") || other.contains("reset by peer"), "{other}");
    assert_eq!(said(0, script), "4");
    // A malformed message ends the connection.
    for bytes in ["b'\\x00'", "b'\\x09'", "b'\\x01x'", "b'\\x04abc'", "b'\\x02' + b'a' * 65537"] {
        assert_eq!(said(0, &script.replace("b'\\x05'", bytes)), "0", "{bytes}");
    }
}

/// The helper and door 4 agree about every blob that differs from a valid blob in one byte.
#[test]
fn the_helper_knows_the_same_acls_as_door_4() {
    let text =
        "O:S-1-5-21-1-2-3-1000G:S-1-5-21-1-2-3-513D:(A;OICI;0x1200a9;;;S-1-5-21-1-2-3-1001)(D;;WD;;;WD)";
    let good = from_sddl(text).unwrap().to_ntacl().unwrap();
    let door_4 = |blob: &[u8]| SecurityDescriptor::from_ntacl(blob).is_ok();
    assert!(is_well_formed(&good) && door_4(&good));
    let mut refused = 0;
    for at in 0..good.len() {
        assert_eq!(is_well_formed(&good[..at]), door_4(&good[..at]), "the first {at} bytes");
        for value in 0..=255 {
            let mut blob = good.clone();
            blob[at] = value;
            assert_eq!(is_well_formed(&blob), door_4(&blob), "byte {at} is {value}");
            refused += usize::from(!is_well_formed(&blob));
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// The units of the package are valid, and restrict the server and the helper.
#[test]
fn the_units_are_valid_and_tight() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let scratch = Scratch::new();
    let analyze = |arguments: &[&str]| {
        let output =
            Command::new("systemd-analyze").args(arguments).output().expect("systemd-analyze is needed");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let mut units = Vec::new();
    for name in ["enfilade.service", "enfilade-privileged.service", "enfilade-privileged.socket"] {
        // The programs are not installed on this machine.
        let text = std::fs::read_to_string(packaging.join(name)).unwrap();
        let text = text
            .replace("/usr/lib/enfilade/enfilade-privileged", "/bin/true")
            .replace("/usr/bin/enfilade", "/bin/true");
        let unit = scratch.path().join(name);
        std::fs::write(&unit, text).unwrap();
        units.push(unit.to_str().unwrap().to_owned());
    }
    let names: Vec<&str> = units.iter().map(String::as_str).collect();
    let (is_valid, said) = analyze(&[&["verify", "--man=no"], names.as_slice()].concat());
    assert!(is_valid && !said.contains("enfilade"), "{said}");
    // The limits are in tenths: at most 2.0 for the server, and at most 2.3 for the helper, because it has four capabilities.
    for (unit, most) in [(names[0], "20"), (names[1], "23")] {
        let (is_tight, said) = analyze(&["security", "--offline=yes", &format!("--threshold={most}"), unit]);
        assert!(is_tight, "{unit}: {said}");
    }
}
