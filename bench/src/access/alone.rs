//! Compares listings of Enfilade with each other. Listings of the visible entries are compared with listings of all entries. Listings by many clients
//! are compared with listings by one client.

use super::client::{BODY, Client};
use super::trees::{self, Acls};
use super::{AGAIN, Bench, CLIENTS, How, LARGE};
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::served::Server;
use crate::stopwatch::{now, thread_nanos};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags, lgetxattr, openat, statx};
use std::ffi::CStr;

const TURNS: usize = 15;

/// A kind of request for a directory.
#[derive(Clone, Copy)]
struct Way {
    is_tls: bool,
    body: &'static str,
    goal: &'static str,
}

const WAYS: [Way; 4] = [
    // A server uses TLS by default. rclone sends no body, which means that it requests all properties.
    Way { is_tls: true, body: "", goal: "tax-heard-tls-all" },
    Way { is_tls: true, body: BODY, goal: "tax-heard-tls" },
    Way { is_tls: false, body: "", goal: "tax-heard-all" },
    Way { is_tls: false, body: BODY, goal: "tax-heard" },
];

pub(super) fn goals() -> Vec<Goal> {
    let listings = |how: &str| {
        format!(
            "{}. A user in 400 groups sees {} of the subdirectories, a second user sees all of them. Each user lists the directory, not the content \
             of the subdirectories, by PROPFIND of depth 1 on one connection, {how}. The server has listed the directory before. {TURNS} rounds: in \
             each round the first user lists the directory, then the second user, then a loop without a server reads the names of the subdirectories \
             and calls `statx` for each",
            super::large(Acls::Few),
            trees::SEEN
        )
    };
    let mean = format!("The value is the mean of the {TURNS} ratios");
    let all = LARGE.trim_start_matches("largedir_");
    let few = format!("CPU time to list the {} visible of {all} subdirectories", trees::SEEN);
    let tax = WAYS.map(|way| {
        let through = if way.is_tls { "over" } else { "without" };
        let listings = listings(&format!("{through} TLS, for {}", way.asked()));
        let workload = format!("{listings}. The kernel reports changes of the files to the server. {mean}");
        Goal::new(way.goal, 0.3, "times", format!("{few}, divided by CPU time to list all {all}"), workload)
    });
    let asked = format!(
        "{}. For each listing the server asks the kernel for the state of each subdirectory",
        listings("without TLS, for four properties")
    );
    let floor = Goal::new(
        "tax-asked-floor",
        1.2,
        "times",
        format!("{few}, divided by CPU time of a loop that calls `statx` for all {all}"),
        format!("{asked}. {mean}"),
    );
    let share = Goal::new(
        "share",
        0.03,
        "times",
        format!("time of door 4 to judge {all} subdirectories, divided by {few}"),
        format!(
            "{asked}. In process, door 4 judges {all} entries with the same kind of ACLs for a user in 400 groups, with all results in its memo. The \
             median of this time is divided by the median CPU time of a listing by the first user"
        ),
    );
    tax.into_iter().chain([floor, share]).collect()
}

/// Milliseconds of CPU for one listing.
struct Listed {
    /// The CPU of a listing by a user who sees 1,000 entries.
    shown: Samples,
    /// The CPU of a listing by a user who sees all entries.
    whole: Samples,
    /// The CPU of a loop in the benchmark itself, without a server. The loop reads the names of the directory, and calls one statx for each.
    bare: Samples,
}

impl Way {
    fn through(self) -> &'static str {
        if self.is_tls { "TLS" } else { "no TLS" }
    }

    fn asked(self) -> &'static str {
        if self.body.is_empty() { "all properties" } else { "four properties" }
    }
}

impl Bench<'_> {
    /// Compares a listing of the visible entries with a listing of all entries, and many clients with one client.
    pub(super) fn alone(&self, report: &mut Report, how: How, judging: Estimate) -> Result<(), Failure> {
        let tree = if self.chosen.contains(&LARGE) { LARGE } else { "largedir_1000" };
        let entries: f64 = tree.trim_start_matches("largedir_").parse()?;
        let name = if how == How::Heard { "changes watched" } else { "each entry asked" };
        self.warm(Acls::Few, tree)?;
        let server = self.server(how)?;
        let spent = || Ok::<_, Failure>(server.cpu_nanos()? / 1e6);
        server.settle()?;
        let mut four_properties = None;
        for way in WAYS {
            let of = format!("the directory {tree}, {name}, {}, {}", way.through(), way.asked());
            let listed = self.in_turns(report, &server, tree, &of, way)?;
            let what = format!("{of}: the visible entries to all entries, server CPU");
            let tax = listed.shown.over(&listed.whole).mean();
            report.estimate(&what, entries as u64, tax, "times");
            if how == How::Heard {
                report.goal(way.goal, tax);
            }
            four_properties = Some(listed);
        }
        let Listed { shown, bare, .. } = four_properties.ok_or("no way to ask")?;
        if how == How::Asked {
            // If a server asks for the state of each entry, its cost cannot be lower than the cost of one statx for each entry.
            let what = format!(
                "the directory {tree}, {name}, no TLS, four properties: the visible entries, server CPU, to the names and one statx each"
            );
            let floor = shown.over(&bare).mean();
            report.estimate(&what, entries as u64, floor, "times");
            report.goal("tax-asked-floor", floor);
        }
        // callgrind does not support `openat2`, so a whole listing cannot be counted in instructions, and CPU time is used.
        let share = judging.times(entries / 1e6).over(shown.middle());
        let what = format!("the directory {tree}, {name}: judging entries whose state is known, of all CPU");
        report.estimate(&what, entries as u64, share, "times");
        if how == How::Asked {
            report.goal("share", share);
        }
        for clients in [1, CLIENTS] {
            let (before, began) = (spent()?, now());
            std::thread::scope(|scope| {
                let run = || -> Result<(), String> {
                    let mut client = Client::new(server.plain, 1).map_err(|why| why.to_string())?;
                    for _ in 0..AGAIN {
                        client.list(Acls::Few, tree).map_err(|why| why.to_string())?;
                    }
                    Ok(())
                };
                let running: Vec<_> = (0..clients).map(|_| scope.spawn(run)).collect();
                running.into_iter().try_for_each(|one| one.join().map_err(|_| "a client ended".to_owned())?)
            })?;
            let listings = clients as f64 * f64::from(AGAIN);
            let of = |what: &str| format!("the directory {tree}, {name}, {clients} at once, {what} of each");
            report.once(&of("server CPU"), clients as u64, (spent()? - before) / listings, "ms");
            report.once(&of("time"), clients as u64, began.elapsed().as_secs_f64() * 1e3 / listings, "ms");
        }
        Ok(())
    }

    /// Measures in turns the listing of a user who sees some entries, the listing of the user who sees all entries, and the loop without a server. So
    /// noise of the machine affects all three.
    fn in_turns(
        &self,
        report: &mut Report,
        server: &Server,
        tree: &str,
        of: &str,
        way: Way,
    ) -> Result<Listed, Failure> {
        let turn = |user| -> Result<_, Failure> {
            let mut client =
                if way.is_tls { Client::over_tls(server, user)? } else { Client::new(server.plain, user)? };
            client.body = way.body;
            // Lists twice: the server reads the tree for the first listing, and remembers the tree for the second listing.
            client.list(Acls::Few, tree)?;
            let shown = client.list(Acls::Few, tree)?.len() as u64;
            Ok((client, shown, Samples::default()))
        };
        let mut turns = [turn(1)?, turn(self.users.len())?];
        let mut bare = Samples::default();
        for _ in 0..TURNS {
            for (client, _, samples) in &mut turns {
                let before = server.cpu_nanos()?;
                client.list(Acls::Few, tree)?;
                samples.push((server.cpu_nanos()? - before) / 1e6);
            }
            bare.push(names_and_states(Acls::Few, tree)?);
        }
        let [shown, whole] = turns.map(|(_, shown, samples)| {
            report.middle(&format!("{of}, {shown} shown, server CPU"), shown, &samples, "ms");
            samples
        });
        let what = format!("{of}: the names and one statx each, without a server, CPU");
        report.middle(&what, TURNS as u64, &bare, "ms");
        Ok(Listed { shown, whole, bare })
    }
}

/// The cost of a loop that reads the names of a directory and calls one statx for each, in milliseconds of CPU.
fn names_and_states(acls: Acls, tree: &str) -> Result<f64, Failure> {
    names_and(acls, tree, |directory, name| {
        let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        std::hint::black_box(statx(directory, name, flags, what)?);
        Ok(())
    })
}

/// The cost of a loop that reads the names of a directory and the ACL of each entry, in milliseconds of CPU.
pub(super) fn names_and_acls(acls: Acls, tree: &str) -> Result<Samples, Failure> {
    // Changes the current directory, so that the kernel resolves only one name: no library wraps the system call that takes a directory and a name.
    let (before, there) = (std::env::current_dir()?, trees::directory(acls, &[tree])?.join(tree));
    std::env::set_current_dir(there)?;
    let mut taken = Samples::default();
    for _ in 0..AGAIN {
        taken.push(names_and(acls, tree, |_, name| {
            let mut room = [0; 1024];
            std::hint::black_box(lgetxattr(name, "security.NTACL", &mut room)?);
            Ok(())
        })?);
    }
    std::env::set_current_dir(before)?;
    Ok(taken)
}

fn names_and(
    acls: Acls,
    tree: &str,
    look: impl Fn(&OwnedFd, &CStr) -> rustix::io::Result<()>,
) -> Result<f64, Failure> {
    let place = trees::directory(acls, &[tree])?.join(tree);
    let directory = openat(rustix::fs::CWD, &place, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let before = thread_nanos();
    each_name(&directory, look)?;
    Ok((thread_nanos() - before) / 1e6)
}

/// Reads the names of a directory, and calls `look` for each name that does not begin with a dot.
pub(super) fn each_name(
    directory: &OwnedFd,
    look: impl Fn(&OwnedFd, &CStr) -> rustix::io::Result<()>,
) -> Result<(), Failure> {
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !entry.file_name().to_bytes().starts_with(b".") {
            look(directory, entry.file_name())?;
        }
    }
    Ok(())
}
