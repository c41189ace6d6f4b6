//! The files and ports that a server may open (Landlock). The restrictions are set before the server starts its threads. The reason: the kernel
//! restricts only the calling thread, and the threads that the calling thread starts later. Two kinds of threads start earlier: the threads that open
//! the directories of datastores, which do nothing else, and the thread that makes the memos, which has ended by then.

use crate::certificates::WatchedList;
use crate::config::Config;
use crate::home::{Installation, make_directory, roots_of};
use crate::output;
use crate::reserved::{DATASTORES, Roots, certificate_directories, refuse_exposed_backups};
use enfilade_admin::{CertificatePlace, real_path};
use enfilade_facts::Read as _;
use enfilade_facts::tables::{Datastore, DatastoreProfile, FileName};
use enfilade_sources::files::certificates::links_of;
use enfilade_sources::lmdb::Lmdb;
use enfilade_tls::CrtList;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The server uses restrictions of Landlock up to this version. On an older kernel, only the restrictions that this kernel supports are set.
const VERSION: ABI = ABI::V7;

/// Files of the system that the server and the C library read. They contain accounts, names of hosts, certificate authorities, time zones and
/// libraries. They include the files in /proc about this process. The files in /proc with the memory or the environment of another process cannot be
/// read, because Landlock also forbids tracing other processes.
const SYSTEM: [&str; 14] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/run/NetworkManager",
    "/run/nscd",
    "/run/resolvconf",
    "/run/systemd/resolve",
];

/// The maximum time to wait for the file system of a datastore at the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The device and inode of a directory.
type Identity = (u64, u64);

/// The restrictions that are set.
pub(super) struct Restricted {
    pub(super) status: RulesetStatus,
    /// The directories in which content of datastores can be opened.
    pub(super) openable: BTreeSet<Identity>,
    /// The directories in which the server can read files.
    pub(super) readable: BTreeSet<Identity>,
}

/// The files and ports that a server may open.
#[derive(Debug, Default)]
pub(super) struct Places {
    read: BTreeSet<PathBuf>,
    /// The server's own directories.
    own: BTreeSet<PathBuf>,
    /// Directories with content of datastores.
    content: BTreeSet<PathBuf>,
    /// The directories of Unix sockets.
    sockets: BTreeSet<PathBuf>,
    /// The ports on which the server listens.
    listen: BTreeSet<u16>,
    /// The ports to which the server connects. `None` if the ports are not known, because other members of a fleet choose their own ports.
    connect: Option<BTreeSet<u16>>,
}

impl Places {
    /// The files and ports that a server with this configuration needs. `config` includes the addresses from the command line.
    ///
    /// # Errors
    /// When the store of facts cannot be opened.
    pub(super) fn of(
        installation: &Installation,
        config: &Config,
        list: Option<&WatchedList>,
    ) -> anyhow::Result<Places> {
        let data = &installation.data;
        let lmdb = Lmdb::open_for(&installation.facts(), config.facts.terms())?;
        let mut places = Places { connect: connected(config), ..Places::default() };
        places.listen = listened(config);
        places.own.insert(data.clone());
        places.own.extend(config.facts.files.clone());
        places.own.insert(config.fernet_keys(data).directory().to_owned());
        for file in FileName::ALL {
            let file = config.facts.files.as_deref().unwrap_or(data).join(file.as_str());
            // If the file is a link, the server writes to the target of the link, so it needs access to the directory of the target.
            places
                .own
                .extend(std::fs::canonicalize(file).ok().and_then(|file| Some(file.parent()?.to_owned())));
        }
        if let Some(directory) = config.backup.directory.clone().map(PathBuf::from) {
            // A rule of Landlock needs a directory that exists, so the directory is made here. Errors are ignored here, because the code for backups
            // reports problems of the directory.
            if refuse_exposed_backups(data, config, known_roots(data, config, &lmdb)).is_ok() {
                let _ = make_directory(&directory, None);
            }
            places.own.insert(directory);
        }
        places.certificates(&config.tls.place(data), list);
        let files = [
            Some(installation.config_path()),
            config.tls.acme_roots.clone(),
            config.fleet.ca.clone(),
            config.fleet.certificate.clone(),
            config.fleet.key.clone(),
            // The report of a panic contains names of functions, which are read from the file of the program.
            std::env::current_exe().ok(),
        ];
        files.into_iter().flatten().for_each(|file| places.file(&file));
        places.read.extend(config.tls.issuers.clone());
        places.read.extend(config.tls.acme_challenges.clone());
        places.read.extend(SYSTEM.map(PathBuf::from));
        places.file(Path::new("/etc/resolv.conf"));
        let sockets =
            config.tls.sockets().chain(config.decisions.listen.iter().flat_map(|listen| listen.sockets()));
        places.sockets.extend(sockets.filter_map(|socket| Some(socket.parent()?.to_owned())));
        places.content.extend(datastores(data, config, &lmdb));
        Ok(places)
    }

    /// Adds a file that may be replaced by another file with the same name. So its directory must be readable. If the file is a link, the directory
    /// of its target must be readable, too.
    fn file(&mut self, file: &Path) {
        let spellings = [Some(file.to_owned()), std::fs::canonicalize(file).ok()];
        let above = spellings.into_iter().flatten().filter_map(|file| Some(file.parent()?.to_owned()));
        self.read.extend(above.filter(|above| above.parent().is_some()));
    }

    fn certificates(&mut self, place: &CertificatePlace, list: Option<&WatchedList>) {
        let directories = certificate_directories(place);
        let links = list.map_or_else(|| links_of(&directories), WatchedList::links);
        self.read.extend(links.iter().filter_map(|link| Some(link.parent()?.to_owned())));
        match place {
            // The server writes the certificates that it makes or obtains into this directory.
            CertificatePlace::Directory(directory) => self.own.extend([directory.clone()]),
            CertificatePlace::List(list) => {
                self.file(list);
                let base = list.parent().map(Path::to_owned).unwrap_or_default();
                let text = std::fs::read_to_string(list).unwrap_or_default();
                for line in CrtList::parse(&text).lines {
                    let of_clients =
                        [line.options.ca_file, line.options.ca_verify_file, line.options.crl_file];
                    of_clients.into_iter().flatten().for_each(|file| self.file(&base.join(file)));
                }
            }
        }
        self.read.extend(directories);
    }

    /// Restricts this thread, and all threads that it starts.
    pub(super) fn restrict(&self) -> Result<Restricted, RulesetError> {
        let files = AccessFs::from_all(VERSION);
        let mut rules = Ruleset::default().handle_access(files)?.handle_access(AccessNet::BindTcp)?;
        if self.connect.is_some() {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
        }
        rules = rules.scope(Scope::Signal)?;
        // Only older service managers receive the messages of their services on an abstract socket (its name begins with `@`). For such a socket, the
        // next rule is left out, because the rule would forbid the socket.
        if !std::env::var("NOTIFY_SOCKET").is_ok_and(|socket| socket.starts_with('@')) {
            rules = rules.scope(Scope::AbstractUnixSocket)?;
        }
        let reading = AccessFs::ReadFile | AccessFs::ReadDir;
        let never = AccessFs::Execute
            | AccessFs::MakeBlock
            | AccessFs::MakeChar
            | AccessFs::MakeFifo
            | AccessFs::IoctlDev;
        let own = files & !never;
        let content = own & !(AccessFs::MakeSock | AccessFs::MakeSym);
        let sockets = AccessFs::ReadDir | AccessFs::MakeSock | AccessFs::RemoveFile;
        let mut made = Made { rules: rules.create()?, openable: BTreeSet::new(), readable: BTreeSet::new() };
        for path in self.content.iter().filter(|path| !self.own.iter().any(|own| path.starts_with(own))) {
            made = made.add(open_in_time(path), content, Use::Content)?;
        }
        for path in &self.own {
            made = made.add(open(path), own, Use::Own)?;
        }
        for path in &self.read {
            made = made.add(open(path), reading, Use::Read)?;
        }
        for path in &self.sockets {
            made = made.add(open(path), sockets, Use::Other)?;
        }
        made = made.add(open(Path::new("/dev/null")), reading | AccessFs::WriteFile, Use::Other)?;
        let Made { mut rules, openable, readable } = made;
        for port in &self.listen {
            rules = rules.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
        }
        for port in self.connect.iter().flatten() {
            rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
        Ok(Restricted { status: rules.restrict_self()?.ruleset, openable, readable })
    }
}

/// The purpose for which a path is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Content,
    Own,
    Read,
    Other,
}

/// The rules that were added so far, and the directories for which they were added.
struct Made {
    rules: RulesetCreated,
    openable: BTreeSet<Identity>,
    readable: BTreeSet<Identity>,
}

impl Made {
    /// Allows access to a path and to everything beneath it. A path that does not exist, or cannot be reached, is left out.
    fn add(
        mut self,
        opened: Option<PathFd>,
        access: BitFlags<AccessFs>,
        why: Use,
    ) -> Result<Self, RulesetError> {
        let Some((opened, found)) =
            opened.and_then(|opened| fstat(&opened).ok().map(|found| (opened, found)))
        else {
            return Ok(self);
        };
        let id = (found.st_dev, found.st_ino);
        if matches!(why, Use::Content | Use::Own) {
            self.openable.insert(id);
        }
        if !matches!(why, Use::Other) {
            self.readable.insert(id);
        }
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let access = if is_directory { access } else { access & AccessFs::from_file(VERSION) };
        self.rules = self.rules.add_rule(PathBeneath::new(opened, access))?;
        Ok(self)
    }
}

fn open(path: &Path) -> Option<PathFd> {
    PathFd::new(path).ok()
}

/// Opens the directory of a datastore. A file system that does not answer delays the start only for a limited time.
fn open_in_time(path: &Path) -> Option<PathFd> {
    let (answer, answered) = sync_channel(1);
    let asked = path.to_owned();
    std::thread::Builder::new().name("open".into()).spawn(move || drop(answer.send(open(&asked)))).ok()?;
    answered.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        output::note(&format!(
            "warning: the directory `{}` does not answer, so this server cannot serve the datastore in it. When the file system of the directory answers again, restart this server",
            path.display()
        ));
        None
    })
}

/// The names and directories of the datastores in the facts and in the edited files.
fn known_roots(data: &Path, config: &Config, lmdb: &Lmdb) -> Roots {
    let of_facts = enfilade_admin::roots(lmdb).unwrap_or_default();
    of_facts.into_iter().chain(roots_of(data, config)).collect()
}

/// The directories that contain datastores, or in which datastores can be created.
fn datastores(data: &Path, config: &Config, lmdb: &Lmdb) -> BTreeSet<PathBuf> {
    let mut places: BTreeSet<PathBuf> =
        roots_of(data, config).into_iter().map(|(_, root)| root.into()).collect();
    places
        .extend(config.datastores.roots.clone().map_or_else(|| vec![data.join(DATASTORES)], |roots| roots.0));
    let rows = lmdb.read(|view| (view.list::<Datastore>(&[]), view.list::<DatastoreProfile>(&[])));
    let Ok((Ok(rows), Ok(profiles))) = rows else { return places };
    let profiles: BTreeMap<_, _> = profiles.into_iter().collect();
    for (name, row) in &rows {
        places.insert(row.root(name).into());
        let of_profile = profiles.get(name).and_then(|profile| profile.mounted_at.clone());
        // If a file system is mounted later, its root directory replaces the directory that is at the mount point now. So the parent directory of the
        // mount point is opened.
        let point = row.mount_point(name).or(of_profile).map(PathBuf::from);
        let above = point.and_then(|point| Some(real_path(&point).parent()?.to_owned()));
        places.extend(above.filter(|above| above.parent().is_some()));
    }
    places
}

fn port_of(text: &str) -> Option<u16> {
    text.rsplit(':').next()?.parse().ok()
}

/// The TCP ports on which the server listens.
fn listened(config: &Config) -> BTreeSet<u16> {
    let tls = &config.tls;
    let plain =
        [&tls.plain_listen, &config.decisions.listen].into_iter().flatten().flat_map(|one| one.texts());
    let others = [Some(&tls.listen), Some(&config.operations.listen), tls.http_listen.as_ref()];
    let texts = others.into_iter().flatten().flat_map(|one| one.texts()).chain(plain);
    let member = config.member_address().map(|address| address.port());
    texts.filter_map(|text| port_of(text)).chain(member).collect()
}

/// The port of name servers. The C library asks them over TCP if an answer is too long for UDP.
const NAME_SERVER: u16 = 53;

/// The TCP ports to which the server connects: the ports of the certificate authority, of the collector of traces, and of name servers.
fn connected(config: &Config) -> Option<BTreeSet<u16>> {
    if config.fleet.etcd.is_some() {
        return None;
    }
    let mut ports = BTreeSet::new();
    if config.tls.acme.is_some() {
        let url = config.tls.acme_directory.url();
        let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next());
        ports.extend([Some(NAME_SERVER), Some(443), authority.and_then(port_of)].into_iter().flatten());
    }
    if let Some(collector) = &config.traces.otlp {
        ports.insert(collector.port);
        let is_address = collector.host.parse::<std::net::IpAddr>().is_ok();
        ports.extend((!is_address).then_some(NAME_SERVER));
    }
    Some(ports)
}
