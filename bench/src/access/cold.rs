//! The first access to a directory: a listing right after the kernel's caches were dropped, by a server that has not read the directory.

use super::alike::tell;
use super::alone::each_name;
use super::client::by_token;
use super::session::Session;
use super::sides::{Cost, Ours, Side, cost};
use super::trees::{self, Acls};
use super::{Bench, How, LARGE, SMALL};
use crate::Failure;
use crate::certs::drop_caches;
use crate::machine::read_bytes;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::stopwatch::{now, thread_nanos};
use enfilade_testkit::Samba;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, lgetxattr, openat, statx};
use std::path::Path;

const TURNS: usize = 5;
/// The number of the measured user. This user is in the fewest groups, so Samba's listings cost the least for this user.
const USER: usize = 0;

/// The CPU and the elapsed time of first listings, in milliseconds.
#[derive(Default)]
struct Costs {
    cpu: Samples,
    time: Samples,
}

impl Costs {
    fn push(&mut self, cost: &Cost) {
        self.cpu.push(cost.cpu);
        self.time.push(cost.time);
    }
}

/// The costs of first listings of a directory. Enfilade, Samba and a loop without a server take turns.
#[derive(Default)]
struct Cold {
    ours: Costs,
    theirs: Costs,
    /// The costs of a loop in the benchmark itself, without a server. The loop reads the names, and the state and the ACL of each entry.
    bare: Costs,
    /// The bytes that the loop read from the disk, in MiB: they show that the caches were dropped.
    read: Samples,
}

impl Bench<'_> {
    /// Compares listings right after the caches were dropped. The cost of the login is not included.
    pub(super) fn cold(&self, report: &mut Report, samba: Option<&Samba>) -> Result<(), Failure> {
        if !drop_caches() {
            let why = "the kernel's caches cannot be dropped: writing `/proc/sys/vm/drop_caches` takes root";
            report.missing("the first touch of a directory", why);
            return Ok(());
        }
        let tree = if self.chosen.contains(&LARGE) { LARGE } else { SMALL };
        for acls in Acls::BOTH {
            let mut all = Cold::default();
            for turn in 1..=TURNS {
                eprintln!("first touch of {tree} with {} ACLs, turn {turn} of {TURNS}", acls.name());
                self.turn_of_cold(&mut all, samba, (acls, tree))?;
            }
            tell_cold(report, (acls, tree), &all)?;
        }
        Ok(())
    }

    fn turn_of_cold(
        &self,
        all: &mut Cold,
        samba: Option<&Samba>,
        place: (Acls, &str),
    ) -> Result<(), Failure> {
        // This sync writes most data to the disk. Without this sync, the sync while the caches are dropped could take longer than the idle limit of
        // the connection.
        rustix::fs::sync();
        // Each turn starts a new server, because a server remembers the names and the ACLs of directories that it listed.
        let mut ours = Ours::connect(self.server(How::Heard)?, place, by_token(USER))?;
        ours.log_in()?;
        all.ours.push(&after_drop(&mut ours)?);
        drop(ours);
        if let Some(samba) = samba {
            let user = self.users.get(USER).ok_or("no user")?;
            let mut session = Session::begin(samba, (place.0.name(), place.1), user)?;
            all.theirs.push(&after_drop(&mut session)?);
        }
        let (acls, tree) = place;
        let (bare, read) = bare_after_drop(&trees::directory(acls, &[tree])?.join(tree))?;
        all.bare.push(&bare);
        all.read.push(read);
        Ok(())
    }
}

fn after_drop(side: &mut impl Side) -> Result<Cost, Failure> {
    drop_caches();
    let before = side.cpu_millis()?;
    cost(side, before)
}

/// The cost of a loop without a server right after the caches were dropped, and the MiB that it read from the disk.
fn bare_after_drop(place: &Path) -> Result<(Cost, f64), Failure> {
    // Changes the current directory, so that the kernel resolves only one name: no library wraps the system call that takes a directory and a name.
    let elsewhere = std::env::current_dir()?;
    std::env::set_current_dir(place)?;
    drop_caches();
    let (read, before, began) = (read_bytes(std::process::id())?, thread_nanos(), now());
    let directory = openat(CWD, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    each_name(&directory, |directory, name| {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        std::hint::black_box(statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?);
        let mut room = [0; 1024];
        std::hint::black_box(lgetxattr(name, "security.NTACL", &mut room)?);
        Ok(())
    })?;
    let cost = Cost { cpu: (thread_nanos() - before) / 1e6, time: began.elapsed().as_secs_f64() * 1e3 };
    let read = (read_bytes(std::process::id())? - read) / f64::from(1 << 20);
    std::env::set_current_dir(elsewhere)?;
    Ok((cost, read))
}

fn tell_cold(report: &mut Report, (acls, tree): (Acls, &str), all: &Cold) -> Result<(), Failure> {
    let n: u64 = tree.trim_start_matches("largedir_").parse()?;
    let of = |what: &str| format!("first touch of the directory {tree}, {} ACLs, {what}", acls.name());
    let read = report.middle(&of("read from the disk by a loop without a server"), n, &all.read, "MiB");
    if read.value <= 0.0 {
        let why = "the loop read nothing from a disk after the caches were dropped: put the trees on a disk";
        report.missing(of("cold"), why);
    }
    let Cold { ours, theirs, bare, .. } = all;
    for (what, bare, ours, theirs) in
        [("server CPU", &bare.cpu, &ours.cpu, &theirs.cpu), ("time", &bare.time, &ours.time, &theirs.time)]
    {
        let loop_alone =
            format!("{what}: the names, and the state and the ACL of each entry, without a server");
        let floor = report.middle(&of(&loop_alone), n, bare, "ms");
        let paired =
            Paired { what: of(what), n, unit: "ms", ours, peer: "Samba", theirs, floor: Some(floor.value) };
        tell(report, None, paired);
        let to_loop = ours.over(bare).mean();
        report.estimate(&of(&format!("{what}, Enfilade to the loop")), n, to_loop, "times");
    }
    Ok(())
}
