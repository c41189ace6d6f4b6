//! Samba's cost to list the trees that Enfilade lists, with the same ACLs and groups.

use super::User;
use super::trees::PROJECT;
use crate::Failure;
use crate::machine::said;
use crate::report::Report;
use crate::stopwatch::{cpu_nanos, cpu_nanos_of_ended_children, pause};
use enfilade_facts::vocabulary::AclDialect;
use enfilade_testkit::{Samba, SambaUser};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const TIMEOUT_SECONDS: &str = "1200";

/// Starts Samba with these users and shares; `None` if it is not installed.
pub(super) fn start(
    report: &mut Report,
    place: &Path,
    shares: &[(&str, &Path)],
    users: &[User],
) -> Result<Option<Samba>, Failure> {
    if !Samba::is_installed() {
        let line = "apt-get install samba samba-vfs-modules smbclient libnss-wrapper";
        report.missing("Samba with the same trees", format!("Samba is not installed (`{line}`)"));
        return Ok(None);
    }
    let user =
        |user: &User| SambaUser { name: user.name.clone(), gids: (PROJECT..PROJECT + user.groups).collect() };
    let users: Vec<SambaUser> = users.iter().map(user).collect();
    let shares: Vec<_> = shares.iter().map(|(name, path)| (*name, *path, AclDialect::Ntacl)).collect();
    let samba = Samba::start(place, &shares, &users)?;
    let version = said(Command::new("smbd").arg("--version")).unwrap_or_else(|| "unknown".to_owned());
    let configuration = std::fs::read_to_string(place.join("smb.conf"))?;
    report.peer("Samba", version, configuration.replace(&place.display().to_string(), "SCRATCH"));
    Ok(Some(samba))
}

/// Runs a client command on a tree. Returns its output, and the CPU milliseconds of the server.
pub(super) fn list(
    samba: &Samba,
    (share, tree): (&str, &str),
    user: &User,
    commands: &str,
    into: &Path,
) -> Result<(String, f64), Failure> {
    let before = cpu_millis(samba)?;
    let mut client = samba.client(&user.name);
    client.arg(format!("//127.0.0.1/{share}")).args(["-t", TIMEOUT_SECONDS, "-D", tree]);
    let output = client.args(["-c", commands]).current_dir(into).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("smbclient, as {}: {}", user.name, said.lines().last().unwrap_or("")).into());
    }
    // Samba has one process for each connection. The CPU time of this process is counted only when the process has ended.
    let mut used = cpu_millis(samba)?;
    loop {
        pause(Duration::from_millis(200));
        let now = cpu_millis(samba)?;
        if now == used && used > before {
            return Ok((said, used - before));
        }
        used = now;
    }
}

/// The CPU milliseconds of Samba's first process, and of its child processes that have ended. Each child process served one connection.
fn cpu_millis(samba: &Samba) -> Result<f64, Failure> {
    Ok((cpu_nanos(samba.process())? + cpu_nanos_of_ended_children(samba.process())?) / 1e6)
}
