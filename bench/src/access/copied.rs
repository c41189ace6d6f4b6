//! Copies of the visible entries by rclone, a client that many people use.

use super::trees::Acls;
use super::{Bench, How, LARGE, SMALL};
use crate::Failure;
use crate::report::Report;
use crate::stopwatch::now;
use crate::stores::{self, TOKENS_EACH};
use std::process::Command;

impl Bench<'_> {
    /// Copies the visible entries with rclone. Measures the time to find the entries, the time to find and copy them, and the CPU of the server.
    pub(super) fn copies(&self, report: &mut Report) -> Result<(), Failure> {
        if Command::new("rclone").arg("version").output().is_err() {
            report.missing("copies by rclone", "rclone is not installed (`apt-get install rclone`)");
            return Ok(());
        }
        let server = self.server(How::Heard)?;
        // rclone waits 10 ms between two requests, so most of the time is rclone's own. Therefore the server's CPU time is reported, too.
        for tree in self.chosen.iter().filter(|tree| [LARGE, SMALL, "hierarchy_200"].contains(tree)) {
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
                    let before = server.cpu_nanos()?;
                    let found = run(&["lsf", "-R", ":webdav:"])?;
                    let whole = run(&["copy", ":webdav:", &into.to_string_lossy()])?;
                    let spent = (server.cpu_nanos()? - before) / 1e9;
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
