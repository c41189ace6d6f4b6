//! A small disk of one member, which is full from time to time.

use super::{Run, pause};
use crate::decision_campaigns::seed;
use crate::kill_loop::Random;
use crate::server::Server;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

/// The size of the disk.
const MEBIBYTES: u32 = 192;

/// The disk of a member: a file system in memory, mounted over the member's data directory.
pub(super) struct Disk {
    member: usize,
    data: PathBuf,
    /// Locked while the disk is full, and while the server of the member starts.
    turn: Mutex<()>,
}

impl Disk {
    /// Moves the data of a stopped member to a separate disk. Returns `None` if tests cannot mount on this machine.
    pub(super) fn of(member: usize, server: &Server) -> Option<Self> {
        let (data, before) = (server.data(), server.data().with_extension("before"));
        std::fs::rename(&data, &before).unwrap();
        std::fs::create_dir(&data).unwrap();
        let size = format!("size={MEBIBYTES}m");
        let mounted = done("mount", &["-t", "tmpfs", "-o", &size, "none"], &data);
        let disk = mounted.then(|| Disk { member, data: data.clone(), turn: Mutex::default() });
        assert!(done("cp", &["--archive", before.join(".").to_str().unwrap()], &data));
        disk
    }

    /// Waits until the disk of the member is not full. The disk is not filled while the caller holds the result. Returns `None` if the disk is not of
    /// this member.
    pub(super) fn is_free(&self, member: usize) -> Option<MutexGuard<'_, ()>> {
        (member == self.member).then(|| self.turn.lock().unwrap())
    }

    pub(super) fn is_of(&self, member: usize) -> bool {
        member == self.member
    }

    /// Fills the disk from time to time.
    pub(super) fn fill(&self, run: &Run) {
        let mut random = Random(seed() + 400);
        while !run.is_over() {
            pause(run, 3_000 + random.below(6_000));
            let _turn = self.turn.lock().unwrap();
            let filler = self.data.join("filler");
            let mut file = std::fs::File::create(&filler).unwrap();
            // The last bytes are written one by one.
            for part in [1 << 20, 4_096, 1] {
                while file.write_all(&vec![0; part]).is_ok() {}
            }
            pause(run, random.below(4_000));
            std::fs::remove_file(filler).unwrap();
            run.counts.full.fetch_add(1, Ordering::Relaxed);
            run.counts.faults.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = done("umount", &["--lazy"], &self.data);
    }
}

fn done(program: &str, arguments: &[&str], place: &Path) -> bool {
    Command::new(program).args(arguments).arg(place).status().is_ok_and(|status| status.success())
}
