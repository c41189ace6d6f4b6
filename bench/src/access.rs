//! Measures listings of large trees with hidden entries, for users in 4, 400 and 4,000 groups. The costs of Enfilade and of Samba are measured, and
//! the cost of door 4 without the rest of the server.

mod alike;
mod alone;
mod cold;
mod compared;
mod copied;
mod client;
mod depth;
mod door;
mod samba;
mod session;
mod sides;
mod trees;

pub(crate) use door::part;

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stores::{self, TOKENS_EACH};
use client::Client;
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Datastore, Group, Member, Membership, MembershipKey, Who,
};
use enfilade_facts::vocabulary::{DatastoreName, GroupId, Role, Sid, UserId};
use enfilade_facts::{Change, Source};
use enfilade_sources::lmdb::Lmdb;
use std::path::{Path, PathBuf};
use std::process::Command;
use trees::{Acls, TREES};

/// The number of groups of each user.
const GROUPS: [u32; 3] = [4, 400, 4_000];
const LARGE: &str = "largedir_41000";
const SMALL: &str = "largedir_1000";
/// The number of times that a tree is listed again after its first listing, to measure the mean cost of one listing.
const AGAIN: u32 = 10;
const CLIENTS: usize = 8;
/// The number of times that the server is started to measure a first listing.
const STARTS: usize = 3;
/// The ids and limits of the goals for CPU instructions: for users in 400 groups, and for users in 4,000 groups.
const INSTRUCTIONS: [(&str, f64); 2] = [("groups-400", 1.05), ("groups-4000", 1.10)];

pub(crate) fn goals() -> Vec<Goal> {
    let [few, more @ ..] = GROUPS;
    let of = |(groups, (id, most)): (u32, (&'static str, f64))| {
        let workload = format!(
            "In process, without the rest of the server: door 4 judges all entries of a tree twice, first with an empty memo, then with a memo that \
             has the results of the first time. callgrind counts the CPU instructions. There are {} trees, each in two versions: with few different \
             ACLs, and with a different ACL on each object. Each tree, version and time gives a ratio. The value is the largest of these ratios. The \
             trees: {}",
            TREES.len(),
            TREES.join(", ")
        );
        let what = format!(
            "CPU instructions of door 4 for a user in {groups} groups, divided by its CPU instructions for a user in {few} groups"
        );
        Goal::new(id, most, "times", what, workload)
    };
    let instructions = more.into_iter().zip(INSTRUCTIONS).map(of);
    instructions.chain(compared::goals()).chain(alike::goals()).chain(alone::goals()).collect()
}

pub(crate) fn goals_alone() -> Vec<Goal> {
    alone::goals()
}

/// Describes the tree [`LARGE`]. The description is a part of the field `workload` of goals.
fn large(acls: Acls) -> String {
    let directories = LARGE.trim_start_matches("largedir_");
    format!("`{LARGE}` is a directory of {directories} subdirectories with one file in each. {}", acls.told())
}

/// A user of Enfilade and of Samba: the name, and the number of the groups of which the user is a member.
pub(crate) struct User {
    name: String,
    groups: u32,
}

fn users() -> Vec<User> {
    // [`facts`] adds another user, who may see everything.
    let of = |(n, groups)| User { name: format!("user{n}"), groups };
    (0..).zip(GROUPS).map(of).collect()
}

/// Creates the datastores, the users with their groups, and one more user, who may see everything. Each user has a role on all datastores.
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
        let path = path.to_str().ok_or("the path of the trees is not UTF-8")?.to_owned();
        change.put(&name, &Datastore { path, ..Datastore::default() });
    }
    source.commit(&change)?;
    Ok(())
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let chosen: &[&str] = if small { &[SMALL, "hierarchy_200"] } else { &TREES };
    Bench::on(chosen, &Acls::BOTH, |bench| {
        let judging = door::run(report, bench.users)?;
        bench.instructions(report)?;
        let samba = bench.samba(report)?;
        bench.compare_with_samba(report, samba.as_ref())?;
        bench.compare_alike(report, samba.as_ref())?;
        bench.cold(report, samba.as_ref())?;
        drop(samba);
        for how in [How::Heard, How::Asked] {
            bench.alone(report, how, judging)?;
        }
        bench.copies(report)
    })?;
    depth::run(report)
}

/// The measurements that need no other program: of door 4 alone, and of listings of Enfilade that are compared with each other.
pub(crate) fn alone(report: &mut Report, small: bool) -> Result<(), Failure> {
    Bench::on(if small { &[SMALL] } else { &[LARGE] }, &Acls::BOTH, |bench| {
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
            report
                .missing("instructions of door 4", "valgrind is not installed (`apt-get install valgrind`)");
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
        for (worst, (id, _)) in worst.into_iter().zip(INSTRUCTIONS) {
            report.goal(id, Estimate::once(worst.into_iter().fold(0.0, f64::max)));
        }
        Ok(())
    }

    /// The data directory of the server. The directory is made when it is needed for the first time.
    fn data(&self) -> Result<PathBuf, Failure> {
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
        Ok(data)
    }

    fn server(&self, how: How) -> Result<Server, Failure> {
        let watches = if how == How::Heard { "true" } else { "false" };
        Server::start(&self.data()?, &[("ENFILADE_ACCESS__WATCH", watches)])
    }

    /// CPU milliseconds of the server to list a tree, or only its top directory: for the first listing, and for a repeated listing.
    fn listed(&self, acls: Acls, tree: &str, user: usize, is_whole: bool) -> Result<[f64; 2], Failure> {
        let server = self.server(How::Heard)?;
        // This wait can be longer than the idle limit of a connection, so the client connects only after the wait.
        server.settle()?;
        let mut client = Client::new(server.plain, user)?;
        // The first request includes the lookup of the user, which is not measured.
        client.list(acls, "")?;
        let spent = || Ok::<_, Failure>(server.cpu_nanos()? / 1e6);
        let before = spent()?;
        let mut ask = || match is_whole {
            true => client.tree(acls, tree),
            false => Ok(client.list(acls, tree)?.len() as u64),
        };
        let files = ask()?;
        let first = spent()? - before;
        if files != trees::SEEN {
            return Err(format!(
                "a user in {} groups sees an unexpected number of entries: {files} of {tree}",
                self.users.get(user).map_or(0, |user| user.groups)
            )
            .into());
        }
        let before = spent()?;
        for _ in 0..AGAIN {
            ask()?;
        }
        Ok([first, (spent()? - before) / f64::from(AGAIN)])
    }

    /// Calls [`Bench::listed`] three times, each time with a newly started server.
    fn listed_thrice(
        &self,
        acls: Acls,
        tree: &str,
        user: usize,
        is_whole: bool,
    ) -> Result<[Samples; 2], Failure> {
        let (mut firsts, mut agains) = (Samples::default(), Samples::default());
        for _ in 0..STARTS {
            let [first, again] = self.listed(acls, tree, user, is_whole)?;
            firsts.push(first);
            agains.push(again);
        }
        Ok([firsts, agains])
    }

    /// Empties the kernel's caches (as root), and lists the tree once. Afterwards the caches contain the data that a listing needs, and no data from
    /// the creation of the trees.
    fn warm(&self, acls: Acls, tree: &str) -> Result<(), Failure> {
        crate::certs::drop_caches();
        self.listed(acls, tree, 0, true).map(drop)
    }
}
