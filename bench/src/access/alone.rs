//! Enfilade compared with itself.

use super::trees::{self, Acls};
use super::{AGAIN, BODY, Bench, CLIENTS, Client, How, LARGE};
use crate::Failure;
use crate::report::Report;
use crate::served::Server;
use crate::stopwatch::{Samples, now};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags, lgetxattr, openat, statx};
use std::ffi::CStr;

const TURNS: usize = 15;

/// How a directory is requested.
#[derive(Clone, Copy)]
struct Way {
    is_tls: bool,
    body: &'static str,
    goal_heard: &'static str,
    goal_asked: &'static str,
}

const WAYS: [Way; 4] = [
    // The default of a server, and the request of rclone: no body, so all properties.
    Way { is_tls: true, body: "", goal_heard: "tax-heard-tls-all", goal_asked: "tax-asked-tls-all" },
    Way { is_tls: true, body: BODY, goal_heard: "tax-heard-tls", goal_asked: "tax-asked-tls" },
    Way { is_tls: false, body: "", goal_heard: "tax-heard-all", goal_asked: "tax-asked-all" },
    Way { is_tls: false, body: BODY, goal_heard: "tax-heard", goal_asked: "tax-asked" },
];

impl Way {
    fn through(self) -> &'static str {
        if self.is_tls { "TLS" } else { "no TLS" }
    }

    fn asked(self) -> &'static str {
        if self.body.is_empty() { "all properties" } else { "four properties" }
    }
}

impl Bench<'_> {
    /// Enfilade compared with itself: hidden entries cost no more than visible ones, and many clients no more than one.
    pub(super) fn alone(&self, report: &mut Report, how: How, judging: f64) -> Result<(), Failure> {
        let tree = if self.chosen.contains(&LARGE) { LARGE } else { "largedir_1000" };
        let entries: f64 = tree.trim_start_matches("largedir_").parse()?;
        let name = if how == How::Heard { "changes watched" } else { "each entry asked" };
        self.warm(Acls::Few, tree)?;
        let server = self.server(how)?;
        let spent = || server.cpu_nanos() / 1e6;
        server.settle();
        let most = if how == How::Heard { 0.3 } else { 0.6 };
        let mut last = [f64::NAN; 2];
        for way in WAYS {
            let of = format!("the directory {tree}, {name}, {}, {}", way.through(), way.asked());
            last = self.in_turns(report, &server, tree, &of, way)?;
            let [shown, whole] = last;
            let what = format!("{of}: the visible entries to all entries, server CPU");
            let goal = if how == How::Heard { way.goal_heard } else { way.goal_asked };
            report.goal(goal, &what, shown / whole, most, "times");
        }
        let [some, all_of_four] = last;
        if how == How::Asked {
            let bare = names_and_states(Acls::Few, tree)?;
            let what = format!("the directory {tree}: its names and one statx each, and nothing else, CPU");
            report.once(&what, entries as u64, bare, "ms");
            let what = format!("the directory {tree}: that, to listing all of it with four properties");
            report.once(&what, entries as u64, bare / all_of_four, "times");
        }
        // callgrind does not know the system call that opens files beneath a directory, so the whole is not counted in instructions.
        let share = judging * entries / 1e6 / some;
        let what = format!("the directory {tree}, {name}: judging entries whose state is known, of all CPU");
        match how {
            How::Heard => report.once(&what, entries as u64, share, "times"),
            How::Asked => report.goal("share", &what, share, 0.03, "times"),
        }
        for clients in [1, CLIENTS] {
            let (before, began) = (spent(), now());
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
            report.once(&of("server CPU"), clients as u64, (spent() - before) / listings, "ms");
            report.once(&of("time"), clients as u64, began.elapsed().as_secs_f64() * 1e3 / listings, "ms");
        }
        Ok(())
    }

    /// Milliseconds of CPU for a user who sees 1,000 entries, and for one who sees all. The users take turns, so that noise of the machine
    /// affects both.
    fn in_turns(
        &self,
        report: &mut Report,
        server: &Server,
        tree: &str,
        of: &str,
        way: Way,
    ) -> Result<[f64; 2], Failure> {
        let turn = |user| -> Result<_, Failure> {
            let mut client =
                if way.is_tls { Client::over_tls(server, user)? } else { Client::new(server.plain, user)? };
            client.body = way.body;
            // Twice: the first listing reads the tree, the second knows it.
            client.list(Acls::Few, tree)?;
            let shown = client.list(Acls::Few, tree)?.len() as u64;
            Ok((client, shown, Samples::default()))
        };
        let mut turns = [turn(1)?, turn(self.users.len())?];
        for _ in 0..TURNS {
            for (client, _, samples) in &mut turns {
                let before = server.cpu_nanos();
                client.list(Acls::Few, tree)?;
                samples.push((server.cpu_nanos() - before) / 1e6);
            }
        }
        Ok(turns.map(|(_, shown, samples)| {
            report.middle(&format!("{of}, {shown} shown, server CPU"), shown, &samples, "ms")
        }))
    }
}

/// The kernel's cost of a directory's names and one statx each, in milliseconds of CPU.
fn names_and_states(acls: Acls, tree: &str) -> Result<f64, Failure> {
    names_and(acls, tree, |directory, name| {
        let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        std::hint::black_box(statx(directory, name, flags, what)?);
        Ok(())
    })
}

/// The kernel's cost of a directory's names and one read of each ACL, in milliseconds of CPU.
pub(super) fn names_and_acls(acls: Acls, tree: &str) -> Result<f64, Failure> {
    // Changes the current directory, so that the kernel resolves no path: the system call that takes a directory has no wrapper.
    let (before, there) = (std::env::current_dir()?, trees::directory(acls, &[tree])?.join(tree));
    std::env::set_current_dir(there)?;
    let taken = names_and(acls, tree, |_, name| {
        let mut room = [0; 1024];
        std::hint::black_box(lgetxattr(name, "security.NTACL", &mut room)?);
        Ok(())
    });
    std::env::set_current_dir(before)?;
    taken
}

fn names_and(
    acls: Acls,
    tree: &str,
    look: impl Fn(&OwnedFd, &CStr) -> rustix::io::Result<()>,
) -> Result<f64, Failure> {
    let place = trees::directory(acls, &[tree])?.join(tree);
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut times = Vec::new();
    for _ in 0..AGAIN {
        let directory = openat(rustix::fs::CWD, &place, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let before = own_nanos();
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !entry.file_name().to_bytes().starts_with(b".") {
                look(&directory, entry.file_name())?;
            }
        }
        times.push((own_nanos() - before) / 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied().unwrap_or(f64::NAN))
}

/// CPU this thread has used so far, in nanoseconds.
fn own_nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}
