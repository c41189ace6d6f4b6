//! Listings of large trees with hidden entries, for users in 4, 400 and 4,000 groups: the cost of Enfilade and of Samba, and the cost of door 4
//! without the rest of the server.

mod alone;
mod door;
mod samba;
mod trees;

pub(crate) use door::part;

use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{cpu_seconds, now};
use crate::stores::{self, TOKENS_EACH};
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Datastore, Group, Member, Membership, MembershipKey, Who,
};
use enfilade_facts::vocabulary::{DatastoreName, GroupId, Role, Sid, UserId};
use enfilade_facts::{Change, Source};
use enfilade_sources::lmdb::Lmdb;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use trees::{Acls, TREES};

/// The number of groups of each user.
const GROUPS: [u32; 3] = [4, 400, 4_000];
const LARGE: &str = "largedir_41000";
/// The number of times that a tree is listed again after its first listing, to measure the mean cost of one listing.
const AGAIN: u32 = 10;
const CLIENTS: usize = 8;

/// A user who exists on both servers.
pub(crate) struct User {
    name: String,
    groups: u32,
}

fn users() -> Vec<User> {
    // [`facts`] adds another user, who may see everything.
    let of = |(n, groups)| User { name: format!("user{n}"), groups };
    (0..).zip(GROUPS).map(of).collect()
}

/// Creates the users, their groups, and for each user a role on each datastore.
fn facts(source: &dyn Source, users: &[User], stores: &[(Acls, &Path)]) -> Result<(), Failure> {
    let count = (users.len() as u64 + 1) * TOKENS_EACH;
    stores::fill(source, count, stores::keyed())?;
    let mut change = Change::new(stores::audit("groups"));
    let most = users.iter().map(|user| user.groups).max().unwrap_or(0);
    for n in 0..most {
        let group = GroupId::from_bytes(stores::id(4, u64::from(n)));
        let gid = trees::PROJECT + n;
        let row = Group {
            domain: stores::LOCAL,
            name: format!("g{gid}"),
            sid: Sid::of_unix_group(gid),
            also: Vec::new(),
            gid: Some(gid),
            comment: None,
        };
        change.put(&group, &row);
        for (user, _) in (0..).zip(users).filter(|(_, user)| n < user.groups) {
            let member = Member::User(UserId::from_bytes(stores::id(1, user)));
            change.put(&MembershipKey { member, group }, &Membership);
        }
    }
    let roles = (0..).zip(users).map(|(n, _)| (n, Role::DatastoreReader));
    for (user, role) in roles.chain([(users.len() as u64, Role::DatastoreAdmin)]) {
        let who = Who::User(UserId::from_bytes(stores::id(1, user)));
        let key = AssignmentKey { path: "/datastore".parse()?, who };
        change.put(&key, &Assignment { roles: vec![(role, true)], fault: None });
    }
    for (acls, path) in stores {
        let name: DatastoreName = acls.name().parse()?;
        let path = path.to_str().ok_or("the trees are at no UTF-8 path")?.to_owned();
        change.put(&name, &Datastore { path, ..Datastore::default() });
    }
    source.commit(&change)?;
    Ok(())
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let chosen: &[&str] = if small { &["largedir_1000", "hierarchy_200"] } else { &TREES };
    Bench::on(chosen, &Acls::BOTH, |bench| {
        let judging = door::run(report, bench.users)?;
        bench.instructions(report)?;
        bench.beside_samba(report)?;
        for how in [How::Heard, How::Asked] {
            bench.alone(report, how, judging)?;
        }
        bench.copies(report)
    })
}

/// The benchmarks that need no other program: Enfilade compared with itself.
pub(crate) fn alone(report: &mut Report, small: bool) -> Result<(), Failure> {
    Bench::on(if small { &["largedir_1000"] } else { &[LARGE] }, &Acls::BOTH, |bench| {
        let judging = door::run(report, bench.users)?;
        [How::Heard, How::Asked].into_iter().try_for_each(|how| bench.alone(report, how, judging))
    })
}

/// How the server learns the state of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// The kernel reports changes.
    Heard,
    /// The server asks the kernel for the state of each entry.
    Asked,
}

struct Bench<'b> {
    chosen: &'b [&'b str],
    places: &'b [(Acls, PathBuf)],
    users: &'b [User],
    scratch: &'b Scratch,
}

impl Bench<'_> {
    fn on(
        chosen: &[&str],
        acls: &[Acls],
        measure: impl FnOnce(&Bench<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let place = |acls: &Acls| Ok((*acls, trees::directory(*acls, chosen)?));
        let places: Vec<(Acls, PathBuf)> = acls.iter().map(place).collect::<Result<_, Failure>>()?;
        let scratch = Scratch::new("access")?;
        let users = users();
        measure(&Bench { chosen, places: &places, users: &users, scratch: &scratch })
    }

    fn instructions(&self, report: &mut Report) -> Result<(), Failure> {
        if Command::new("valgrind").arg("--version").output().is_err() {
            eprintln!("valgrind is not there, so no instructions are counted");
            return Ok(());
        }
        let mut worst = [[0_f64; 2]; 2];
        for acls in Acls::BOTH {
            for tree in self.chosen {
                let mut of_few = [f64::NAN; 2];
                for (place, groups) in GROUPS.into_iter().enumerate() {
                    eprintln!("instructions of {tree}, {} ACLs, {groups} groups", acls.name());
                    let counted = door::instructions(acls, tree, groups, self.scratch.path())?;
                    for ((count, which), of_few) in
                        counted.into_iter().zip(["first", "again"]).zip(&mut of_few)
                    {
                        let name = format!("judging all of {tree}, {} ACLs, {which}", acls.name());
                        report.once(&name, groups.into(), count / 1e6, "M instructions");
                        match place.checked_sub(1).and_then(|place| worst.get_mut(place)) {
                            None => *of_few = count,
                            Some(worst) => {
                                let at = usize::from(which == "again");
                                worst
                                    .iter_mut()
                                    .skip(at)
                                    .take(1)
                                    .for_each(|worst| *worst = worst.max(count / *of_few));
                            }
                        }
                    }
                }
            }
        }
        for ((worst, groups), (id, most)) in
            worst.into_iter().zip([400, 4_000]).zip([("groups-400", 1.05), ("groups-4000", 1.10)])
        {
            let what = format!("instructions in {groups} groups to those in 4, the worst of all trees");
            report.goal(id, &what, worst.into_iter().fold(0.0, f64::max), most, "times");
        }
        Ok(())
    }

    fn server(&self, how: How) -> Result<Server, Failure> {
        let data = self.scratch.path().join("data");
        if !data.exists() {
            let place = self.scratch.path().join("facts");
            let of = |(acls, path): &(Acls, PathBuf)| (*acls, path.clone());
            let stores: Vec<(Acls, PathBuf)> = self.places.iter().map(of).collect();
            let borrowed: Vec<(Acls, &Path)> =
                stores.iter().map(|(acls, path)| (*acls, path.as_path())).collect();
            facts(&Lmdb::open(&place)?, self.users, &borrowed)?;
            stores::data_directory(&data, &place)?;
            let section = |(acls, path): &(Acls, PathBuf)| {
                format!("datastore: {}\n\tpath {}\n\n", acls.name(), path.display())
            };
            std::fs::write(data.join("datastore.cfg"), stores.iter().map(section).collect::<String>())?;
        }
        Server::start(&data, &[("ENFILADE_ACCESS__WATCH", if how == How::Heard { "true" } else { "false" })])
    }

    /// CPU seconds of the server to list a tree, or only its first directory: the first time, and again.
    fn listed(&self, acls: Acls, tree: &str, user: usize, is_whole: bool) -> Result<[f64; 2], Failure> {
        let server = self.server(How::Heard)?;
        // This wait can be longer than the idle limit of a connection, so the client connects only after it.
        server.settle();
        let mut client = Client::new(server.plain, user)?;
        // The first request includes the lookup of the user, which is not measured.
        client.list(acls, "")?;
        let spent = || server.cpu_nanos() / 1e9;
        let before = spent();
        let mut ask = || match is_whole {
            true => client.tree(acls, tree),
            false => Ok(client.list(acls, tree)?.len() as u64),
        };
        let files = ask()?;
        let first = spent() - before;
        if files != trees::SEEN {
            return Err(format!(
                "{files} files of {tree} are seen in {} groups",
                self.users.get(user).map_or(0, |user| user.groups)
            )
            .into());
        }
        let before = spent();
        for _ in 0..AGAIN {
            ask()?;
        }
        Ok([first, (spent() - before) / f64::from(AGAIN)])
    }

    /// The median of three runs of [`Bench::listed`], each with a newly started server.
    fn listed_thrice(
        &self,
        acls: Acls,
        tree: &str,
        user: usize,
        is_whole: bool,
    ) -> Result<[f64; 2], Failure> {
        let mut firsts = Vec::new();
        let mut agains = Vec::new();
        for _ in 0..3 {
            let [first, again] = self.listed(acls, tree, user, is_whole)?;
            firsts.push(first);
            agains.push(again);
        }
        Ok([firsts, agains].map(|mut all| {
            all.sort_by(f64::total_cmp);
            all.get(1).copied().unwrap_or(f64::NAN)
        }))
    }

    /// Empties the kernel's caches and lists the tree once, so that they contain what a listing needs, and not what the creation of the trees left in
    /// them.
    fn warm(&self, acls: Acls, tree: &str) -> Result<(), Failure> {
        crate::certs::drop_caches();
        self.listed(acls, tree, 0, true).map(drop)
    }

    fn beside_samba(&self, report: &mut Report) -> Result<(), Failure> {
        let shares: Vec<(&str, &Path)> =
            self.places.iter().map(|(acls, path)| (acls.name(), path.as_path())).collect();
        let samba = samba::start(&self.scratch.path().join("samba"), &shares, self.users)?;
        for acls in Acls::BOTH {
            for tree in self.chosen {
                self.warm(acls, tree)?;
                self.tree_beside(report, samba.as_ref(), acls, tree, true)?;
                if tree.starts_with("largedir") {
                    self.tree_beside(report, samba.as_ref(), acls, tree, false)?;
                }
                if *tree == LARGE {
                    self.acls_alone(report, acls)?;
                }
            }
        }
        Ok(())
    }

    /// Measures Enfilade and Samba with a tree, or only with its first directory.
    fn tree_beside(
        &self,
        report: &mut Report,
        samba: Option<&enfilade_testkit::Samba>,
        acls: Acls,
        tree: &str,
        is_whole: bool,
    ) -> Result<(), Failure> {
        let what = if is_whole { "all of" } else { "the directory" };
        let mut theirs_of_few = f64::NAN;
        for (n, user) in self.users.iter().enumerate() {
            let groups = u64::from(user.groups);
            let of = |whose: &str| format!("listing {what} {tree}, {} ACLs, {whose}", acls.name());
            let [first, again] = match is_whole {
                true => self.listed(acls, tree, n, true)?,
                false => self.listed_thrice(acls, tree, n, false)?,
            };
            report.once(&of("ours, first, server CPU"), groups, first * 1e3, "ms");
            report.once(&of("ours, again, server CPU"), groups, again * 1e3, "ms");
            // With 4,000 groups Samba takes minutes for the larger trees, and its clients time out.
            let is_fit = groups <= 400 || tree == "largedir_1000";
            let Some(samba) = samba.filter(|_| is_fit) else { continue };
            let commands = if is_whole { "recurse; ls" } else { "ls" };
            let (said, theirs) =
                samba::list(samba, (acls.name(), tree), user, commands, self.scratch.path())?;
            let is_one = |line: &&str| match is_whole {
                true => line.contains(" 25000 "),
                false => line.trim_start().starts_with('d'),
            };
            let shown = said.lines().filter(is_one).count();
            if shown as u64 != trees::SEEN {
                return Err(format!("Samba shows {shown} of {tree}").into());
            }
            eprintln!(
                "{what} {tree}, {groups} groups: {theirs:.2} s by Samba, {first:.3} and {again:.3} s here"
            );
            report.once(&of("Samba, server CPU"), groups, theirs * 1e3, "ms");
            match groups {
                4 => theirs_of_few = theirs,
                _ => report.once(&of("Samba, to that in 4 groups"), groups, theirs / theirs_of_few, "times"),
            }
            for (when, spent) in [("first", first), ("again", again)] {
                report.once(&of(&format!("ours, {when}, to Samba's CPU")), groups, spent / theirs, "times");
            }
            // The goals apply only to the one large directory, with few different ACLs.
            if tree == LARGE && acls == Acls::Few && !is_whole {
                let goals = match groups {
                    4 => [("samba-4-first", first, 1.0 / 5.0), ("samba-4-again", again, 1.0 / 15.0)],
                    _ => [("samba-400-first", first, 1.0 / 25.0), ("samba-400-again", again, 1.0 / 60.0)],
                };
                for (id, ours, most) in goals {
                    let when = if id.ends_with("first") { "for the first time" } else { "again" };
                    let what = format!(
                        "listing the directory {LARGE} in {groups} groups {when}, ours to Samba's CPU"
                    );
                    report.goal(id, &what, ours / theirs, most, "times");
                }
            }
        }
        Ok(())
    }

    /// Measures the lowest cost at which a program can read these ACLs.
    fn acls_alone(&self, report: &mut Report, acls: Acls) -> Result<(), Failure> {
        let what = format!(
            "the directory {LARGE}, {} ACLs: its names and each ACL, and nothing else, CPU",
            acls.name()
        );
        report.once(&what, 41_000, alone::names_and_acls(acls, LARGE)?, "ms");
        Ok(())
    }

    /// Copies the visible entries with rclone: the time to find them, to copy them, and to do both.
    fn copies(&self, report: &mut Report) -> Result<(), Failure> {
        if Command::new("rclone").arg("version").output().is_err() {
            eprintln!("rclone is not installed (`apt-get install rclone`), so nothing is copied");
            return Ok(());
        }
        let server = self.server(How::Heard)?;
        // rclone waits 10 ms between two requests, so the time is rclone's own; the server's CPU time is reported next to it.
        for tree in self.chosen.iter().filter(|tree| [LARGE, "largedir_1000", "hierarchy_200"].contains(tree))
        {
            for (n, user) in self.users.iter().enumerate().filter(|(_, user)| user.groups <= 400) {
                for state in ["cold", "warm"] {
                    if state == "cold" && !crate::certs::drop_caches() {
                        continue;
                    }
                    let of = |what: &str| format!("copying {tree} by rclone, {state}, {what}");
                    let groups = u64::from(user.groups);
                    let into = self.scratch.path().join("copied");
                    let url = format!("http://{}/dav/{}/{tree}", server.plain, Acls::Few.name());
                    let run = |arguments: &[&str]| -> Result<f64, Failure> {
                        let began = now();
                        let secret = stores::secret_of(n as u64 * TOKENS_EACH);
                        let header = format!("Authorization,PBSAPIToken={}@local!t0:{secret}", user.name);
                        let output = Command::new("rclone")
                            .args(["--config", "", "--webdav-url", &url, "--webdav-headers", &header])
                            .args(arguments)
                            .output()?;
                        match output.status.success() {
                            true => Ok(began.elapsed().as_secs_f64()),
                            false => {
                                Err(format!("rclone: {}", String::from_utf8_lossy(&output.stderr)).into())
                            }
                        }
                    };
                    let before = cpu_seconds(&server.child.0.id().to_string()).unwrap_or(f64::NAN);
                    let found = run(&["lsf", "-R", ":webdav:"])?;
                    let whole = run(&["copy", ":webdav:", &into.to_string_lossy()])?;
                    let spent = cpu_seconds(&server.child.0.id().to_string()).unwrap_or(f64::NAN) - before;
                    std::fs::remove_dir_all(&into)?;
                    report.once(&of("finding"), groups, found, "s");
                    report.once(&of("finding and copying"), groups, whole, "s");
                    report.once(&of("rate"), groups, 25.0 / whole, "MB/s");
                    report.once(&of("server CPU of both"), groups, spent, "s");
                }
            }
        }
        Ok(())
    }
}

/// A connection with or without TLS.
trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A client that lists directories on one connection.
struct Client {
    stream: Box<dyn Stream>,
    authorization: String,
    body: &'static str,
}

const BODY: &str = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:displayname/><D:getlastmodified/>\
                    <D:getcontentlength/><D:resourcetype/></D:prop></D:propfind>";

impl Client {
    fn new(address: SocketAddr, user: usize) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self::on(Box::new(stream), user))
    }

    /// A client over TLS. By default a server listens only with TLS.
    fn over_tls(server: &Server, user: usize) -> Result<Self, Failure> {
        Ok(Self::on(Box::new(server.https.stream()?), user))
    }

    fn on(stream: Box<dyn Stream>, user: usize) -> Self {
        let secret = stores::secret_of(user as u64 * TOKENS_EACH);
        Client { stream, authorization: format!("PBSAPIToken=user{user}@local!t0:{secret}"), body: BODY }
    }

    /// The entries of a directory: paths below the datastore, directories with a slash at the end.
    fn list(&mut self, acls: Acls, path: &str) -> Result<Vec<String>, Failure> {
        let base = format!("/dav/{}/", acls.name());
        let request = format!(
            "PROPFIND {base}{path} HTTP/1.1\r\nHost: localhost\r\nDepth: 1\r\nAuthorization: {}\r\n\
             Content-Type: application/xml\r\nContent-Length: {}\r\n\r\n{}",
            self.authorization,
            self.body.len(),
            self.body
        );
        self.stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        let body = loop {
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            answer.extend_from_slice(piece.get(..count).unwrap_or_default());
            if let Some(body) = body_of(&answer) {
                break body;
            }
        };
        if !answer.starts_with(b"HTTP/1.1 207 ") {
            return Err(format!("`{path}` is answered with {}", String::from_utf8_lossy(&answer)).into());
        }
        let text = String::from_utf8(body)?;
        let hrefs = text.split("<D:href>").skip(2).filter_map(|rest| rest.split_once('<'));
        Ok(hrefs.filter_map(|(href, _)| href.strip_prefix(&*base)).map(str::to_owned).collect())
    }

    /// The number of visible files in a tree.
    fn tree(&mut self, acls: Acls, tree: &str) -> Result<u64, Failure> {
        let (mut files, mut paths) = (0, vec![tree.to_owned()]);
        while let Some(path) = paths.pop() {
            for entry in self.list(acls, &path)? {
                match entry.strip_suffix('/') {
                    Some(directory) => paths.push(directory.to_owned()),
                    None => files += 1,
                }
            }
        }
        Ok(files)
    }
}

/// The body of a complete response, by Content-Length or in chunks (RFC 9112 §7.1); `None` if it is not complete yet.
fn body_of(answer: &[u8]) -> Option<Vec<u8>> {
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(answer.get(..start)?).ok()?.to_ascii_lowercase();
    let mut rest = answer.get(start..)?;
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length:")) {
        return rest.get(..length.trim().parse().ok()?).map(<[u8]>::to_vec);
    }
    if !rest.ends_with(b"\r\n0\r\n\r\n") {
        return None;
    }
    let mut body = Vec::with_capacity(rest.len());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(rest.get(..end)?).ok()?, 16).ok()?;
        body.extend_from_slice(rest.get(end + 2..end + 2 + length)?);
        if length == 0 {
            return Some(body);
        }
        rest = rest.get(end + length + 4..)?;
    }
}
