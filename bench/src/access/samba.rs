//! Samba's cost to list the same trees, with the same ACLs and groups.

use super::User;
use super::trees::PROJECT;
use crate::Failure;
use crate::stopwatch::pause;
use enfilade_facts::vocabulary::AclDialect;
use enfilade_testkit::{Samba, SambaUser};
use std::path::Path;
use std::time::Duration;

const TIMEOUT_SECONDS: &str = "1200";

/// Starts Samba with these users and shares; `None` if it is not installed.
pub(super) fn start(
    place: &Path,
    shares: &[(&str, &Path)],
    users: &[User],
) -> Result<Option<Samba>, Failure> {
    if !Samba::is_installed() {
        let line = "apt-get install samba samba-vfs-modules smbclient libnss-wrapper";
        eprintln!("Samba is not installed (`{line}`), so nothing is compared with it");
        return Ok(None);
    }
    let user =
        |user: &User| SambaUser { name: user.name.clone(), gids: (PROJECT..PROJECT + user.groups).collect() };
    let users: Vec<SambaUser> = users.iter().map(user).collect();
    let shares: Vec<_> = shares.iter().map(|(name, path)| (*name, *path, AclDialect::Ntacl)).collect();
    Ok(Some(Samba::start(place, &shares, &users)?))
}

/// Runs a client command on a tree. Returns its output, and the CPU seconds of the server.
pub(super) fn list(
    samba: &Samba,
    (share, tree): (&str, &str),
    user: &User,
    commands: &str,
    into: &Path,
) -> Result<(String, f64), Failure> {
    let before = cpu_seconds(samba);
    let mut client = samba.client(&user.name);
    client.arg(format!("//127.0.0.1/{share}")).args(["-t", TIMEOUT_SECONDS, "-D", tree]);
    let output = client.args(["-c", commands]).current_dir(into).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("smbclient, as {}: {}", user.name, said.lines().last().unwrap_or("")).into());
    }
    // Samba has one process for each connection. Its CPU time is counted only when it has ended.
    let mut used = cpu_seconds(samba);
    loop {
        pause(Duration::from_millis(200));
        let now = cpu_seconds(samba);
        if now == used && used > before {
            return Ok((said, used - before));
        }
        used = now;
    }
}

/// The CPU seconds of all processes of Samba, including processes that ended.
fn cpu_seconds(samba: &Samba) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", samba.process())).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    // Fields 14 to 17 of the line: user and system time of the process and of its ended children, in hundredths of a second.
    let ticks = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
